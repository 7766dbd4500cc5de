//! `npz` files: a zip archive of `npy` arrays.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arrays::ArrayRows;
use crate::checkpoint::numpy::header::Header;
use crate::checkpoint::numpy::npy;
use crate::checkpoint::numpy::zip::{self, Archive, Member};
use crate::checkpoint::{DType, Tensor};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, Durability, ReadAt, Replacement};
use crate::storage::{self, Storage};
use crate::tensor::TensorView;

/// Whether the arrays of an archive are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// As `numpy.savez` does: they are not.
    #[default]
    Stored,
    /// As `numpy.savez_compressed` does.
    Deflated,
}

/// An open archive of arrays.
#[derive(Debug)]
pub struct Npz {
    path: PathBuf,
    file: Arc<dyn ReadAt>,
    arrays: BTreeMap<String, (Header, Member)>,
    /// Arrays of unsupported types, and the reason.
    others: BTreeMap<String, (FormatError, Member)>,
}

impl Npz {
    /// Opens an archive and reads the headers of its arrays. As in NumPy, an array's name is that of its member without `.npy`.
    ///
    /// Arrays of unsupported types, such as Python objects, do not keep the others from being read: they are not among the
    /// [`entries`](Npz::entries), but [`unsupported`](Npz::unsupported) lists them, and members that are no arrays. An archive that has
    /// only those is refused. A header that is damaged is an error.
    pub fn open(path: &Path) -> Result<Npz> {
        Npz::open_in(&storage::local(), path)
    }

    /// [`open`](Npz::open) in any storage.
    pub fn open_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<Npz> {
        let file: Arc<dyn ReadAt> = Arc::from(files::open_in(storage, FileKind::Numpy, path)?);
        let mut npz = Npz {
            path: path.to_owned(),
            file,
            arrays: BTreeMap::new(),
            others: BTreeMap::new(),
        };
        let members = zip::members(&*npz.file).map_err(|e| e.in_file(path))?;
        let count = members.len();
        let mut arrays = 0;
        for member in members {
            // The entry of a folder has no bytes.
            if member.name.ends_with('/') && member.size == 0 {
                continue;
            }
            let name = member.name.strip_suffix(".npy").unwrap_or(&member.name);
            let name = name.to_owned();
            if npz.arrays.contains_key(&name) || npz.others.contains_key(&name) {
                let cause = format!("two members are called `{name}`, with `.npy` and without");
                let error = FormatError::data_loss(FileKind::Numpy, cause);
                return Err(error.at(member.offset).in_file(path));
            }
            let contents = &mut zip::open(&npz.file, &member);
            let header = match name == member.name {
                false => Header::read(contents),
                true => Header::read_if_array(contents, member.size),
            };
            match header {
                Ok(header) => {
                    npz.arrays.insert(name, (header, member));
                    arrays += 1;
                }
                Err(e) if e.code == Code::Unimplemented => {
                    arrays += usize::from(name != member.name);
                    let e = named(e, &name, &member, path);
                    npz.others.insert(name, (e, member));
                }
                Err(e) => return Err(named(e, &name, &member, path)),
            }
        }
        if count > 0 && arrays == 0 {
            let cause = format!("none of the {count} members of this archive is an array");
            return Err(FormatError::invalid(FileKind::Numpy, cause).in_file(path));
        }
        Ok(npz)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names, types and shapes of all arrays, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, DType, &[usize])> {
        self.arrays
            .iter()
            .map(|(name, (header, _))| (name.as_str(), header.dtype(), header.shape.as_slice()))
    }

    /// The arrays of unsupported types, sorted by name, and the reason for each.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, &FormatError)> {
        self.others
            .iter()
            .map(|(name, (why, _))| (name.as_str(), why))
    }

    /// The type and the shape of an array.
    pub fn entry(&self, name: &str) -> Option<(DType, &[usize])> {
        let (header, _) = self.arrays.get(name)?;
        Some((header.dtype(), &header.shape))
    }

    /// Reads an array. One of an unsupported type fails with the reason.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let array = self.arrays.get(name).map(|(_, member)| member);
        let other = || self.others.get(name).map(|(_, member)| member);
        let member = array.or_else(other).ok_or_else(|| {
            FormatError::not_found(FileKind::Numpy, format!("there is no array `{name}`"))
                .in_file(&self.path)
        })?;
        let mut contents = zip::open(&self.file, member);
        let read = Header::read(&mut contents)
            .and_then(|header| npy::array(&header, &mut contents, member.size));
        read.map_err(|e| named(e, name, member, &self.path))
    }

    /// An array by rows. It is read whole, with its checksum, when the first row is asked for.
    pub fn rows(self: &Arc<Npz>, name: &str) -> Result<ArrayRows> {
        let Some((dtype, shape)) = self.entry(name) else {
            // That says why.
            return Err(match self.tensor(name) {
                Err(error) => error,
                Ok(_) => unreachable!("an array that is supported has an entry"),
            });
        };
        let (npz, name) = (self.clone(), name.to_owned());
        let load = move || npz.tensor(&name);
        let kind = (FileKind::Numpy, self.path());
        Ok(ArrayRows::whole(kind, (dtype, shape), Box::new(load)))
    }

    /// Reads the numbers of an array straight into a buffer of exactly its size, in little-endian order; false where their order in the
    /// file is another, so that [`tensor`](Npz::tensor) reads them.
    pub(crate) fn read_into(&self, name: &str, into: &mut [u8]) -> Result<bool> {
        let Some((header, member)) = self.arrays.get(name) else {
            return Ok(false);
        };
        let mut contents = zip::open(&self.file, member);
        let read = Header::read(&mut contents)
            .and_then(|_| npy::read_into(header, &mut contents, member.size, into));
        read.map_err(|e| named(e, name, member, &self.path))
    }

    /// Reads everything and returns all damage; the list is empty if there is none. Of unsupported arrays, the checksum is compared.
    pub fn verify(&self) -> Vec<FormatError> {
        let arrays = self.arrays.iter();
        let arrays = arrays.map(|(name, (header, member))| (name, Some(header), member));
        let others = self.others.iter();
        let others = others.map(|(name, (_, member))| (name, None, member));
        let checked = arrays.chain(others).map(|(name, header, member)| {
            if let Some(header) = header {
                npy::checked_size(header, member.size)
                    .map_err(|e| named(e, name, member, &self.path))?;
            }
            let mut contents = zip::open(&self.file, member);
            let mut buffer = vec![0; 64 * 1024];
            let mut left = member.size;
            while left > 0 {
                let chunk = &mut buffer[..left.min(64 * 1024) as usize];
                contents.read_exact(chunk).map_err(|e| {
                    let e = FormatError::io(FileKind::Numpy, "read it", e);
                    named(e, name, member, &self.path)
                })?;
                left -= chunk.len() as u64;
            }
            Ok(())
        });
        checked.filter_map(Result::err).collect()
    }
}

/// Writes an archive atomically. Types that NumPy does not have, such as bfloat16, are refused.
///
/// ```
/// use trainspec_formats::checkpoint::{Npz, Tensor, numpy};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-{}.npz", std::process::id()));
/// let bias = Tensor::from_values(&[2], &[1.0_f32, 2.0])?;
/// numpy::write_npz(path, &[("bias", bias.view())], Default::default(), Default::default())?;
/// assert_eq!(Npz::open(path)?.tensor("bias")?, bias);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn write(
    path: &Path,
    arrays: &[(&str, TensorView<'_>)],
    compression: Compression,
    durability: Durability,
) -> Result<()> {
    let names: Vec<&str> = arrays.iter().map(|(name, _)| *name).collect();
    let views: BTreeMap<&str, TensorView<'_>> = arrays.iter().copied().collect();
    write_each(
        path,
        &names,
        compression,
        durability,
        |name| Ok(views[name]),
    )
}

/// Writes an archive with one array at a time in memory: `array` is called for each in order.
pub fn write_each<T>(
    path: &Path,
    names: &[&str],
    compression: Compression,
    durability: Durability,
    mut array: impl FnMut(&str) -> Result<T>,
) -> Result<()>
where
    for<'t> TensorView<'t>: From<&'t T>,
{
    let different: BTreeSet<&str> = names.iter().copied().collect();
    if different.len() != names.len() {
        let error = FormatError::invalid(FileKind::Numpy, "two arrays have the same name");
        return Err(error.in_file(path));
    }
    let mut file = Replacement::create(FileKind::Numpy, path)?;
    let mut archive = Archive::new(file.file());
    let written = names.iter().try_for_each(|name| {
        let deflated = compression == Compression::Deflated;
        let array = array(name)?;
        let added = archive.add(&format!("{name}.npy"), deflated, |mut out| {
            npy::put((&array).into(), &mut out)
        });
        added.map_err(|mut e| {
            e.cause = format!("array `{name}`: {}", e.cause);
            e
        })
    });
    written
        .and_then(|()| archive.finish())
        .map_err(|e| e.in_file(path))?;
    file.commit(durability)
}

fn named(mut error: FormatError, name: &str, member: &Member, path: &Path) -> FormatError {
    error.cause = format!("array `{name}`: {}", error.cause);
    // Offsets inside a compressed array are not offsets in the file.
    error.offset = Some(member.offset);
    error.in_file(path)
}
