//! The writer of checkpoints of the first version (`TensorSliceWriter`).

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;

use crate::checkpoint::bundle::shape_to_proto;
use crate::checkpoint::slice::Slice;
use crate::checkpoint::v1::lists::{self, List, field_length, put_head};
use crate::checkpoint::{DType, key};
use crate::error::{FileKind, FormatError, Result};
use crate::files::{Durability, Replacement};
use crate::proto::{SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices, VersionDef};
use crate::storage::{self, Storage};
use crate::table::TableBuilder;
use crate::tensor::{TensorView, count};

/// Writes a checkpoint of the first version. The tensors are encoded only in [`write`](TableCheckpointWriter::write), one after the other.
///
/// ```
/// use trainspec_formats::checkpoint::{TableCheckpoint, TableCheckpointWriter, Tensor};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-v1-{}", std::process::id()));
/// let step = Tensor::scalar(7_i64);
/// let mut writer = TableCheckpointWriter::new();
/// writer.add("global_step", &step)?;
/// writer.write(path, Default::default())?;
/// assert_eq!(TableCheckpoint::open(path)?.tensor("global_step")?, step);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug, Default)]
pub struct TableCheckpointWriter<'a> {
    meta: SavedTensorSliceMeta,
    indices: BTreeMap<String, usize>,
    slices: BTreeMap<Vec<u8>, StoredSlice<'a>>,
}

#[derive(Debug)]
struct StoredSlice<'a> {
    name: String,
    slice: Slice,
    tensor: TensorView<'a>,
}

impl<'a> TableCheckpointWriter<'a> {
    /// An empty checkpoint.
    pub fn new() -> TableCheckpointWriter<'a> {
        TableCheckpointWriter::default()
    }

    /// Adds a tensor.
    pub fn add(&mut self, name: &str, tensor: impl Into<TensorView<'a>>) -> Result<()> {
        let tensor = tensor.into();
        self.add_slice(
            name,
            tensor.shape(),
            &Slice::full(tensor.shape().len()),
            tensor,
        )
    }

    /// Adds a slice of a tensor of some shape.
    pub fn add_slice(
        &mut self,
        name: &str,
        whole: &[usize],
        slice: &Slice,
        tensor: impl Into<TensorView<'a>>,
    ) -> Result<()> {
        let tensor = tensor.into();
        check(name, tensor.dtype(), whole)?;
        let shape = slice.shape(whole)?;
        if shape != tensor.shape() {
            return Err(invalid(format!(
                "the slice {slice} of `{name}` has shape {shape:?} and the tensor {:?}",
                tensor.shape()
            )));
        }
        let shape = shape_to_proto(whole);
        let number = tensor.dtype().number();
        let key = key::of_slice(name, slice);
        if self.slices.contains_key(&key) {
            return Err(invalid(format!("`{name}` is there already")));
        }
        let index = *self.indices.entry(name.to_owned()).or_insert_with(|| {
            self.meta.tensor.push(SavedSliceMeta {
                name: name.to_owned(),
                shape: Some(shape.clone()),
                r#type: number,
                slice: Vec::new(),
            });
            self.meta.tensor.len() - 1
        });
        let known = &mut self.meta.tensor[index];
        if known.r#type != number || known.shape.as_ref() != Some(&shape) {
            return Err(invalid(format!("`{name}` is there already and differs")));
        }
        known.slice.push(slice.to_proto());
        let stored = StoredSlice {
            name: name.to_owned(),
            slice: slice.clone(),
            tensor,
        };
        stored.length(&List::new(tensor), stored.slice.to_proto().encoded_len())?;
        self.slices.insert(key, stored);
        Ok(())
    }

    /// Writes the file atomically.
    pub fn write(self, path: &Path, durability: Durability) -> Result<()> {
        self.write_in(&storage::local(), path, durability)
    }

    /// [`write`](TableCheckpointWriter::write) in any storage.
    pub fn write_in(
        self,
        storage: &Arc<dyn Storage>,
        path: &Path,
        durability: Durability,
    ) -> Result<()> {
        let values = self
            .slices
            .iter()
            .map(|(key, stored)| Ok((key.as_slice(), stored.encode()?)));
        put_table(storage, path, durability, self.meta, values)
    }
}

/// Writes tensors atomically, with one at a time in memory: `tensor` is called for each in order. What the format cannot hold is refused
/// before the first call, by types and shapes; of integers and strings, whose size follows from their values, the limit of 2 GiB may be
/// found later.
///
/// ```
/// use trainspec_formats::checkpoint::{DType, TableCheckpoint, Tensor, v1};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-v1-each-{}", std::process::id()));
/// let entries: &[(&str, DType, &[usize])] = &[("global_step", DType::Int64, &[])];
/// v1::write_each(path, entries, Default::default(), |_| Ok(Tensor::scalar(7_i64)))?;
/// assert_eq!(TableCheckpoint::open(path)?.tensor("global_step")?, Tensor::scalar(7_i64));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn write_each<T>(
    path: &Path,
    entries: &[(&str, DType, &[usize])],
    durability: Durability,
    mut tensor: impl FnMut(&str) -> Result<T>,
) -> Result<()>
where
    for<'t> TensorView<'t>: From<&'t T>,
{
    let mut meta = SavedTensorSliceMeta::default();
    let mut order = BTreeMap::new();
    for &(name, dtype, shape) in entries {
        check(name, dtype, shape).map_err(|e| e.in_file(path))?;
        let min_length = count(shape).map(|count| lists::min_length(dtype, count));
        if min_length.is_none_or(|length| length > MAX_MESSAGE_BYTES) {
            return Err(too_large(name).in_file(path));
        }
        let slice = Slice::full(shape.len());
        let key = key::of_slice(name, &slice);
        meta.tensor.push(SavedSliceMeta {
            name: name.to_owned(),
            shape: Some(shape_to_proto(shape)),
            r#type: dtype.number(),
            slice: vec![slice.to_proto()],
        });
        if order.insert(key, (name, dtype, shape, slice)).is_some() {
            return Err(invalid(format!("`{name}` is there already")));
        }
    }
    let values = order.iter().map(|(key, (name, dtype, shape, slice))| {
        let tensor = tensor(name)?;
        let view = TensorView::from(&tensor);
        if view.dtype() != *dtype || view.shape() != *shape {
            return Err(invalid(format!("`{name}` is not what was announced")));
        }
        let stored = StoredSlice {
            name: (*name).to_owned(),
            slice: slice.clone(),
            tensor: view,
        };
        Ok((key.as_slice(), stored.encode()?))
    });
    put_table(&storage::local(), path, durability, meta, values)
}

/// The maximum size of a serialized message: 2 GiB.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// The maximum rank: TensorFlow aborts when it reads a tensor of a higher one.
const MAX_RANK: usize = 8;

/// Checks that TensorFlow can read a tensor, before anything is written.
fn check(name: &str, dtype: DType, shape: &[usize]) -> Result<()> {
    if !lists::holds(dtype) {
        return Err(unsupported_type(name, dtype));
    }
    let rank = shape.len();
    match rank > MAX_RANK {
        true => Err(invalid(format!(
            "`{name}` has {rank} dimensions, and a tensor in a checkpoint of the first version at most {MAX_RANK}"
        ))),
        false => Ok(()),
    }
}

/// Whether the format can hold a type, so that TensorFlow reads it.
pub fn holds(dtype: DType) -> bool {
    lists::holds(dtype)
}

/// Writes the list of tensors and then their slices, sorted by key.
fn put_table<'k>(
    storage: &Arc<dyn Storage>,
    path: &Path,
    durability: Durability,
    mut meta: SavedTensorSliceMeta,
    values: impl Iterator<Item = Result<(&'k [u8], Vec<u8>)>>,
) -> Result<()> {
    meta.versions = Some(VersionDef {
        producer: 1,
        ..VersionDef::default()
    });
    let file = Replacement::create_in(storage, FileKind::Table, path)?;
    let in_file = |e: FormatError| e.in_file(path);
    let mut table = TableBuilder::new(BufWriter::new(file));
    let list = SavedTensorSlices {
        meta: Some(meta),
        data: None,
    };
    table.add(b"", &list.encode_to_vec()).map_err(in_file)?;
    for value in values {
        let (key, value) = value.map_err(in_file)?;
        table.add(key, &value).map_err(in_file)?;
    }
    let out = table.finish().map_err(in_file)?;
    let file = out
        .into_inner()
        .map_err(|e| in_file(FormatError::io(FileKind::Table, "write it", e.into_error())))?;
    file.commit(durability)
}

impl StoredSlice<'_> {
    /// The size of the message with the slice's name, its slice, and its elements.
    fn length(&self, list: &List<'_>, slice: usize) -> Result<usize> {
        let length =
            field_length(self.name.len()) + field_length(slice) + field_length(list.length);
        match field_length(length) > MAX_MESSAGE_BYTES {
            true => Err(too_large(&self.name)),
            false => Ok(length),
        }
    }

    /// The value of the slice's key: its name, its slice, and its elements as a list.
    fn encode(&self) -> Result<Vec<u8>> {
        let list = List::new(self.tensor);
        let slice = self.slice.to_proto().encode_to_vec();
        let length = self.length(&list, slice.len())?;
        let mut value = Vec::with_capacity(field_length(length));
        put_head(&mut value, 2, length);
        put_head(&mut value, 1, self.name.len());
        value.extend_from_slice(self.name.as_bytes());
        put_head(&mut value, 2, slice.len());
        value.extend_from_slice(&slice);
        put_head(&mut value, 3, list.length);
        list.put(&mut value);
        Ok(value)
    }
}

/// The file of one shard, as TensorFlow names it.
///
/// ```
/// use trainspec_formats::checkpoint::v1::shard_path;
///
/// let path = shard_path("run/model.ckpt-5".as_ref(), 1, 3);
/// assert_eq!(path, std::path::Path::new("run/model.ckpt-5-00001-of-00003"));
/// ```
pub fn shard_path(prefix: &Path, shard: u32, shards: u32) -> PathBuf {
    crate::checkpoint::bundle::with_suffix(prefix, &format!("-{shard:05}-of-{shards:05}"))
}

fn too_large(name: &str) -> FormatError {
    invalid(format!(
        "`{name}` is too large for a checkpoint of the first version, where a tensor has at most 2 GiB"
    ))
}

fn unsupported_type(name: &str, dtype: DType) -> FormatError {
    invalid(format!(
        "`{name}`: a checkpoint of the first version cannot hold {dtype}"
    ))
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Table, cause)
}
