//! The reader of checkpoints of the first version (`TensorSliceReader`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use crate::checkpoint::bundle::{check_version, dtype_from_number, shape_from_proto};
use crate::checkpoint::paths::matching;
use crate::checkpoint::slice::{CoverError, Region, Slice, cover, join_strings, runs};
use crate::checkpoint::v1::lists::{self, ListError};
use crate::checkpoint::v1::writer::shard_path;
use crate::checkpoint::{DType, Elements, Tensor, key};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, ReadAt};
use crate::memory::zeros;
use crate::proto::SavedTensorSlices;
use crate::storage::{self, Storage};
use crate::table::Table;
use crate::tensor::count;
use crate::wire::{Value, WireError, WireReader};

/// An open checkpoint of the first version.
///
/// ```no_run
/// use trainspec_formats::checkpoint::TableCheckpoint;
///
/// let checkpoint = TableCheckpoint::open("run/model.ckpt-100".as_ref())?;
/// for (name, dtype, shape) in checkpoint.entries() {
///     println!("{name}: {dtype} {shape:?}");
/// }
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct TableCheckpoint {
    tables: Vec<(PathBuf, Table<Box<dyn ReadAt>>)>,
    tensors: BTreeMap<String, Stored>,
    /// The maximum number of elements that the files can hold.
    limit: u64,
}

#[derive(Debug)]
struct Stored {
    dtype: DType,
    shape: Vec<usize>,
    /// The slices, and the index of the table that each is in.
    slices: Vec<(Slice, usize)>,
}

impl TableCheckpoint {
    /// Opens a file, or all files that match a pattern. Where their names say how many there are, none may be missing.
    pub fn open(pattern: &Path) -> Result<TableCheckpoint> {
        TableCheckpoint::open_in(&storage::local(), pattern)
    }

    /// [`open`](TableCheckpoint::open) in any storage.
    pub fn open_in(storage: &Arc<dyn Storage>, pattern: &Path) -> Result<TableCheckpoint> {
        let paths = matching(&**storage, pattern);
        if paths.is_empty() {
            return Err(
                FormatError::not_found(FileKind::Table, "there is no such file").in_file(pattern),
            );
        }
        // A shard that is named itself may be opened without the others.
        if paths != [pattern]
            && let Some(missing) = paths
                .iter()
                .find_map(|path| missing_beside(&**storage, path))
        {
            let cause = "it is missing, and the files beside it need it";
            return Err(FormatError::not_found(FileKind::Table, cause).in_file(missing));
        }
        let mut checkpoint = TableCheckpoint {
            tables: Vec::new(),
            tensors: BTreeMap::new(),
            limit: 0,
        };
        for path in paths {
            let file = files::open_in(storage, FileKind::Table, &path)?;
            let added = checkpoint.add(&path, file);
            added.map_err(|e| e.in_file(&path))?;
        }
        Ok(checkpoint)
    }

    fn add(&mut self, path: &Path, file: Box<dyn ReadAt>) -> Result<()> {
        let length = file
            .length()
            .map_err(|e| FormatError::io(FileKind::Table, "find its length", e))?;
        // An element takes at least a byte before compression.
        self.limit = self.limit.saturating_add(length.saturating_mul(22));
        let table = Table::open(file)?;
        let mut cursor = table.cursor();
        if !cursor.advance()? || !cursor.key().is_empty() {
            return Err(loss("it does not list its tensors"));
        }
        let list: Result<SavedTensorSlices> =
            decode(FileKind::Table, cursor.value(), DEFAULT_MEMORY_LIMIT).map_err(|e| {
                FormatError {
                    cause: format!("its list of tensors: {}", e.cause),
                    ..e
                }
            });
        let list = list.map_err(|e| e.at(cursor.offset()))?;
        let meta = list.meta.unwrap_or_default();
        check_version(&meta.versions.clone().unwrap_or_default())?;
        let which = self.tables.len();
        for tensor in &meta.tensor {
            let named = |mut e: FormatError| {
                e.cause = format!("tensor `{}`: {}", tensor.name, e.cause);
                e.at(cursor.offset())
            };
            let dtype = dtype_from_number(tensor.r#type).map_err(named)?;
            let shape = shape_from_proto(tensor.shape.as_ref()).map_err(named)?;
            let stored = self
                .tensors
                .entry(tensor.name.clone())
                .or_insert_with(|| Stored {
                    dtype,
                    shape: shape.clone(),
                    slices: Vec::new(),
                });
            if stored.dtype != dtype || stored.shape != shape {
                return Err(named(loss("two files do not agree about it")));
            }
            for slice in &tensor.slice {
                let slice = Slice::from_proto(slice)
                    .ok_or_else(|| named(loss("a slice has a negative number")))?;
                stored.slices.push((slice, which));
            }
        }
        self.tables.push((path.to_owned(), table));
        Ok(())
    }

    /// Its file, or the first of several.
    pub fn path(&self) -> &Path {
        &self.tables[0].0
    }

    /// The tensors, in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = (&str, DType, &[usize])> {
        self.tensors
            .iter()
            .map(|(name, stored)| (name.as_str(), stored.dtype, stored.shape.as_slice()))
    }

    /// The type and the shape of a tensor.
    pub fn entry(&self, name: &str) -> Option<(DType, &[usize])> {
        let stored = self.tensors.get(name)?;
        Some((stored.dtype, &stored.shape))
    }

    /// The slices in which a tensor is stored: one, if it is not partitioned.
    pub fn slices(&self, name: &str) -> Option<Vec<&Slice>> {
        let stored = self.tensors.get(name)?;
        Some(stored.slices.iter().map(|(slice, _)| slice).collect())
    }

    /// Reads a tensor; a partitioned one is assembled from its slices.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let stored = self.find(name)?;
        self.read_slice(name, stored, &Slice::full(stored.shape.len()))
    }

    /// Reads a slice of a tensor, partitioned or not.
    pub fn slice(&self, name: &str, slice: &Slice) -> Result<Tensor> {
        self.read_slice(name, self.find(name)?, slice)
    }

    /// Reads everything and returns all damage; the list is empty if there is none.
    pub fn verify(&self) -> Vec<FormatError> {
        let mut damage = Vec::new();
        for (path, table) in &self.tables {
            table.verify(&mut |e| damage.push(e.in_file(path)));
        }
        if damage.is_empty() {
            damage.extend(
                self.tensors
                    .keys()
                    .filter_map(|name| self.tensor(name).err()),
            );
        }
        damage
    }

    fn find(&self, name: &str) -> Result<&Stored> {
        self.tensors.get(name).ok_or_else(|| {
            FormatError::not_found(
                FileKind::Table,
                format!("there is no tensor `{name}` in the checkpoint"),
            )
            .in_file(&self.tables[0].0)
        })
    }

    fn read_slice(&self, name: &str, stored: &Stored, slice: &Slice) -> Result<Tensor> {
        let requested = slice.region(&stored.shape);
        let read = requested.and_then(|requested| self.assemble(name, stored, &requested));
        read.map_err(|mut e| {
            e.cause = format!("tensor `{name}`: {}", e.cause);
            e.in_file(&self.tables[0].0)
        })
    }

    fn assemble(&self, name: &str, stored: &Stored, requested: &Region) -> Result<Tensor> {
        let mut regions = Vec::with_capacity(stored.slices.len());
        for (slice, _) in &stored.slices {
            let region = slice.region(&stored.shape);
            regions.push(region.map_err(|e| loss(e.cause))?);
        }
        let volume = requested.volume().filter(|&v| v as u64 <= self.limit);
        let volume = volume.ok_or_else(|| loss("the files are too short for its elements"))?;
        let covering = cover(&regions, requested).map_err(|why| match why {
            CoverError::Missing => FormatError::invalid(
                FileKind::Table,
                "the stored slices do not cover the requested one",
            ),
            CoverError::Overlap => loss("its slices overlap"),
            CoverError::Memory(e) => e,
        })?;
        let shape: Vec<usize> = requested.0.iter().map(|side| side.1).collect();
        let read = |i: usize| {
            let (slice, which) = &stored.slices[i];
            let read = self.read(name, stored, slice, &regions[i], *which);
            read.map_err(|e| e.in_file(&self.tables[*which].0))
        };
        if let [only] = covering[..]
            && regions[only] == *requested
        {
            return tensor_of(stored.dtype, &shape, read(only)?);
        }
        let Some(size) = stored.dtype.size() else {
            let mut stored = Vec::new();
            for i in covering {
                if let Elements::Strings(from) = read(i)? {
                    stored.push((regions[i].clone(), from));
                }
            }
            let strings = join_strings(FileKind::Table, &stored, requested)?;
            return Tensor::strings(&shape, strings);
        };
        let mut bytes = zeros(FileKind::Table, volume.saturating_mul(size))?;
        for i in covering {
            let Elements::Bytes(from) = read(i)? else {
                continue;
            };
            for run in runs(&regions[i], requested) {
                let length = run.length * size;
                bytes[run.to * size..][..length]
                    .copy_from_slice(&from[run.from * size..][..length]);
            }
        }
        Tensor::new(stored.dtype, &shape, bytes)
    }

    /// The elements of one stored slice.
    fn read(
        &self,
        name: &str,
        stored: &Stored,
        slice: &Slice,
        region: &Region,
        which: usize,
    ) -> Result<Elements> {
        if !lists::reads(stored.dtype) {
            return Err(FormatError::new(
                Code::Unimplemented,
                FileKind::Table,
                format!("{} in a checkpoint of the first version", stored.dtype),
            ));
        }
        let sides: Vec<usize> = region.0.iter().map(|side| side.1).collect();
        let expected = count(&sides).filter(|&n| n as u64 <= self.limit);
        let expected = expected.ok_or_else(|| loss("the files are too short for its elements"))?;
        let table = &self.tables[which].1;
        let mut cursor = table.cursor();
        let key = key::of_slice(name, slice);
        if !cursor.seek(&key)? || cursor.key() != key {
            return Err(loss(format!("the slice {slice} is missing")));
        }
        let at = cursor.offset();
        let broken = |b: ListError| match b {
            ListError::Wire(b) => loss(format!("the slice {slice}: {}", b.cause)).at(at),
            ListError::Memory(e) => e.at(at),
        };
        let message = elements(cursor.value()).map_err(|b| broken(b.into()))?;
        let (found, elements) = match stored.dtype.size() {
            Some(size) => {
                let bytes = lists::numbers(message, stored.dtype, expected.saturating_mul(size))
                    .map_err(broken)?;
                (bytes.len() / size, Elements::Bytes(bytes))
            }
            None => {
                let strings = lists::strings(message, expected).map_err(broken)?;
                (strings.len(), Elements::Strings(strings))
            }
        };
        match found == expected {
            true => Ok(elements),
            false => Err(loss(format!(
                "the slice {slice} has {found} elements instead of {expected}"
            ))
            .at(at)),
        }
    }
}

/// The first missing shard of the set that a file's name belongs to: `model.ckpt-00000-of-00002` is one of two.
fn missing_beside(storage: &dyn Storage, path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (front, count) = name.rsplit_once("-of-")?;
    let (prefix, shard) = front.rsplit_once('-')?;
    let number = |text: &str| match text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u32>().ok(),
        false => None,
    };
    number(shard)?;
    let count = number(count)?;
    let prefix = path.with_file_name(prefix);
    (0..count)
        .map(|shard| shard_path(&prefix, shard, count))
        .find(|path| !storage.exists(path))
}

fn tensor_of(dtype: DType, shape: &[usize], elements: Elements) -> Result<Tensor> {
    match elements {
        Elements::Bytes(bytes) => Tensor::new(dtype, shape, bytes),
        Elements::Strings(strings) => Tensor::strings(shape, strings),
    }
}

/// The `TensorProto` inside a `SavedTensorSlices` message.
fn elements(value: &[u8]) -> std::result::Result<&[u8], WireError> {
    inner(inner(value, 2)?, 3)
}

/// The last occurrence of a message field; an absent one is empty.
fn inner(message: &[u8], number: u32) -> std::result::Result<&[u8], WireError> {
    let mut wire = WireReader::new(message);
    let mut found: &[u8] = &[];
    while let Some((field, value)) = wire.field()? {
        if let (true, Value::Bytes(bytes)) = (field == number, value) {
            found = bytes;
        }
    }
    Ok(found)
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Table, cause)
}
