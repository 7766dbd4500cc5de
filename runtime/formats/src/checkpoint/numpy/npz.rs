//! `npz` files: a zip archive of `npy` arrays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::numpy::header::Header;
use crate::checkpoint::numpy::npy;
use crate::checkpoint::numpy::zip::{self, Archive, Member};
use crate::checkpoint::{DType, Tensor};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, Durability, Replacement};
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
    file: Arc<File>,
    arrays: BTreeMap<String, (Header, Member)>,
    /// Arrays of unsupported types, and the reason.
    others: BTreeMap<String, (FormatError, Member)>,
}

impl Npz {
    /// Opens an archive and reads the headers of its arrays. Members that do not end in `.npy` are skipped; an archive that has no others
    /// is refused.
    ///
    /// Arrays of unsupported types, such as Python objects, do not keep the others from being read: they are not among the
    /// [`entries`](Npz::entries), but [`unsupported`](Npz::unsupported) lists them. A header that is damaged is an error.
    pub fn open(path: &Path) -> Result<Npz> {
        let file = Arc::new(files::open(FileKind::Numpy, path)?);
        let (mut arrays, mut others) = (BTreeMap::new(), BTreeMap::new());
        let members = zip::members(&file).map_err(|e| e.in_file(path))?;
        let count = members.len();
        for member in members {
            let Some(name) = member.name.strip_suffix(".npy") else {
                continue;
            };
            let name = name.to_owned();
            let header = Header::read(&mut zip::open(&file, &member))
                .map_err(|e| named(e, &name, &member, path));
            match header {
                Ok(header) => {
                    arrays.insert(name, (header, member));
                }
                Err(e) if e.code == Code::Unimplemented => {
                    others.insert(name, (e, member));
                }
                Err(e) => return Err(e),
            }
        }
        if count > 0 && arrays.is_empty() && others.is_empty() {
            let cause = format!(
                "none of the {count} members of this archive is an array, which ends in `.npy`"
            );
            return Err(FormatError::invalid(FileKind::Numpy, cause).in_file(path));
        }
        Ok(Npz {
            path: path.to_owned(),
            file,
            arrays,
            others,
        })
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
        return Err(FormatError::invalid(
            FileKind::Numpy,
            "two arrays have the same name",
        ));
    }
    let file = Replacement::create(FileKind::Numpy, path)?;
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
