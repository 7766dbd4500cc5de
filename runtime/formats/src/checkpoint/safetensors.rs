//! Files of Hugging Face's `safetensors`: a JSON header, then the bytes of tensors without gaps.
//!
//! In: the header's length as a `u64`, the header, the bytes; or tensors to write. Out: tensors; or such a file. Leaves
//! alone: strings and quantized types, which the format does not have. It has no checksums either; `checksum.rs` adds one.

mod checksum;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

pub use checksum::{CHECKSUM_KEY, checksum};

use crate::checkpoint::{DType, Tensor};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, Durability, ReadAt, Replacement};
use crate::memory::{self, zeros};
use crate::storage::{self, Storage};
use crate::tensor::{ElementsView, TensorView, count, rank_error};

/// The maximum size of a header that readers accept.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The types of the format and their names in it.
const TYPES: [(DType, &str); 18] = [
    (DType::Bool, "BOOL"),
    (DType::UInt8, "U8"),
    (DType::Int8, "I8"),
    (DType::Float8E5M2, "F8_E5M2"),
    (DType::Float8E4M3Fn, "F8_E4M3"),
    (DType::Float8E5M2Fnuz, "F8_E5M2FNUZ"),
    (DType::Float8E4M3Fnuz, "F8_E4M3FNUZ"),
    (DType::Int16, "I16"),
    (DType::UInt16, "U16"),
    (DType::Float16, "F16"),
    (DType::BFloat16, "BF16"),
    (DType::Int32, "I32"),
    (DType::UInt32, "U32"),
    (DType::Float32, "F32"),
    (DType::Complex64, "C64"),
    (DType::Float64, "F64"),
    (DType::Int64, "I64"),
    (DType::UInt64, "U64"),
];

/// An open `safetensors` file.
#[derive(Debug)]
pub struct Safetensors {
    path: PathBuf,
    file: Box<dyn ReadAt>,
    tensors: BTreeMap<String, Stored>,
    /// Tensors of unsupported types, and the reason.
    others: BTreeMap<String, FormatError>,
    metadata: BTreeMap<String, String>,
    length: u64,
}

#[derive(Debug)]
struct Stored {
    dtype: DType,
    shape: Vec<usize>,
    /// The offset in the file.
    offset: u64,
    size: usize,
}

impl Safetensors {
    /// Opens a file and checks its header: tensors do not overlap, are inside the file, and leave no gaps.
    ///
    /// Tensors of unknown types do not keep the others from being read: [`unsupported`](Safetensors::unsupported) lists them.
    pub fn open(path: &Path) -> Result<Safetensors> {
        Safetensors::open_in(&storage::local(), path)
    }

    /// [`open`](Safetensors::open) in any storage.
    pub fn open_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<Safetensors> {
        let file = files::open_in(storage, FileKind::Safetensors, path)?;
        let length = file.length().map_err(|e| failed(e).in_file(path))?;
        let header = header(&file, length).map_err(|e| e.in_file(path))?;
        Ok(Safetensors {
            path: path.to_owned(),
            file,
            tensors: header.tensors,
            others: header.others,
            metadata: header.metadata,
            length,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The free-form metadata of the header (`__metadata__`).
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The names, types and shapes of all tensors, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, DType, &[usize])> {
        self.tensors
            .iter()
            .map(|(name, stored)| (name.as_str(), stored.dtype, stored.shape.as_slice()))
    }

    /// The tensors of unsupported types, sorted by name, and the reason for each.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, &FormatError)> {
        self.others.iter().map(|(name, why)| (name.as_str(), why))
    }

    /// The type and the shape of a tensor.
    pub fn entry(&self, name: &str) -> Option<(DType, &[usize])> {
        let stored = self.tensors.get(name)?;
        Some((stored.dtype, &stored.shape))
    }

    /// Reads a tensor.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let stored = self.find(name)?;
        let bytes = zeros(FileKind::Safetensors, stored.size);
        let mut bytes = bytes.map_err(|mut e| {
            e.cause = format!("tensor `{name}`: {}", e.cause);
            e.at(stored.offset).in_file(&self.path)
        })?;
        self.read(stored, &mut bytes)?;
        Tensor::new(stored.dtype, &stored.shape, bytes)
    }

    /// Reads the numbers of a tensor straight into a buffer of exactly its size.
    pub fn read_into(&self, name: &str, into: &mut [u8]) -> Result<()> {
        let stored = self.find(name)?;
        if into.len() != stored.size {
            return Err(FormatError::invalid(
                FileKind::Safetensors,
                format!(
                    "`{name}` has {} bytes and does not fill {}",
                    stored.size,
                    into.len()
                ),
            )
            .in_file(&self.path));
        }
        self.read(stored, into)
    }

    /// Checks that the file still has its length, and compares its checksum where [`CHECKSUM_KEY`] holds one.
    pub fn verify(&self) -> Vec<FormatError> {
        match self.file.length() {
            Ok(length) if length == self.length => {
                self.compare_checksum().err().into_iter().collect()
            }
            Ok(length) => vec![
                loss(format!(
                    "it has {length} bytes and had {} when it was opened",
                    self.length
                ))
                .in_file(&self.path),
            ],
            Err(e) => vec![failed(e).in_file(&self.path)],
        }
    }

    fn find(&self, name: &str) -> Result<&Stored> {
        self.tensors.get(name).ok_or_else(|| {
            let kind = FileKind::Safetensors;
            let error = match self.others.get(name) {
                Some(why) => FormatError::new(why.code, kind, why.cause.clone()),
                None => FormatError::not_found(kind, format!("there is no tensor `{name}`")),
            };
            error.in_file(&self.path)
        })
    }

    fn read(&self, stored: &Stored, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(stored.offset, into)
            .map_err(|e| failed(e).at(stored.offset).in_file(&self.path))
    }
}

/// Writes a `safetensors` file atomically.
///
/// ```
/// use trainspec_formats::checkpoint::{Safetensors, Tensor, safetensors};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-{}.safetensors", std::process::id()));
/// let bias = Tensor::from_values(&[2], &[1.0_f32, 2.0])?;
/// safetensors::write(path, &[("bias", bias.view())], &Default::default(), Default::default())?;
/// assert_eq!(Safetensors::open(path)?.tensor("bias")?, bias);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn write(
    path: &Path,
    tensors: &[(&str, TensorView<'_>)],
    metadata: &BTreeMap<String, String>,
    durability: Durability,
) -> Result<()> {
    write_in(&storage::local(), path, tensors, metadata, durability)
}

/// [`write`] in any storage.
pub fn write_in(
    storage: &Arc<dyn Storage>,
    path: &Path,
    tensors: &[(&str, TensorView<'_>)],
    metadata: &BTreeMap<String, String>,
    durability: Durability,
) -> Result<()> {
    let entries: Vec<(&str, DType, &[usize])> = tensors
        .iter()
        .map(|(name, tensor)| (*name, tensor.dtype(), tensor.shape()))
        .collect();
    let views: BTreeMap<&str, TensorView<'_>> = tensors.iter().copied().collect();
    let view = |name: &str| Ok(views[name]);
    write_each_in(storage, path, &entries, metadata, durability, view)
}

/// Writes a `safetensors` file with one tensor at a time in memory: `tensor` is called for each in order.
pub fn write_each<T>(
    path: &Path,
    entries: &[(&str, DType, &[usize])],
    metadata: &BTreeMap<String, String>,
    durability: Durability,
    tensor: impl FnMut(&str) -> Result<T>,
) -> Result<()>
where
    for<'t> TensorView<'t>: From<&'t T>,
{
    let storage = storage::local();
    write_each_in(&storage, path, entries, metadata, durability, tensor)
}

/// [`write_each`] in any storage.
pub fn write_each_in<T>(
    storage: &Arc<dyn Storage>,
    path: &Path,
    entries: &[(&str, DType, &[usize])],
    metadata: &BTreeMap<String, String>,
    durability: Durability,
    tensor: impl FnMut(&str) -> Result<T>,
) -> Result<()>
where
    for<'t> TensorView<'t>: From<&'t T>,
{
    put_each(storage, path, entries, metadata, durability, tensor).map_err(|e| e.in_file(path))
}

fn put_each<T>(
    storage: &Arc<dyn Storage>,
    path: &Path,
    entries: &[(&str, DType, &[usize])],
    metadata: &BTreeMap<String, String>,
    durability: Durability,
    mut tensor: impl FnMut(&str) -> Result<T>,
) -> Result<()>
where
    for<'t> TensorView<'t>: From<&'t T>,
{
    // Large elements first, so that every tensor is aligned.
    let mut order = entries.to_vec();
    order.sort_by_key(|(name, dtype, _)| (std::cmp::Reverse(dtype.word()), *name));
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".into(), json!(metadata));
    }
    let mut end = 0_u64;
    for (name, dtype, shape) in &order {
        let Some((_, typed)) = TYPES.iter().find(|row| row.0 == *dtype) else {
            return Err(invalid(format!(
                "`{name}` is {dtype}, which the format does not have"
            )));
        };
        if let Some(cause) = rank_error(shape.len()) {
            return Err(invalid(format!("`{name}`: {cause}")));
        }
        let start = end;
        let size = count(shape).and_then(|n| n.checked_mul(dtype.size().unwrap_or(1)));
        end = size
            .and_then(|size| end.checked_add(size as u64))
            .ok_or_else(|| invalid(format!("`{name}` of shape {shape:?} is too large")))?;
        let entry = json!({"dtype": typed, "shape": shape, "data_offsets": [start, end]});
        if *name == "__metadata__" || header.insert((*name).to_owned(), entry).is_some() {
            return Err(invalid(format!("`{name}` is there already")));
        }
    }
    let mut text = Json::Object(header).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    if text.len() as u64 > MAX_HEADER_BYTES {
        return Err(invalid("the header is too long"));
    }
    let mut out = Replacement::create_in(storage, FileKind::Safetensors, path)?;
    let mut put = |bytes: &[u8]| {
        out.write_all(bytes)
            .map_err(|e| FormatError::io(FileKind::Safetensors, "write it", e).in_file(path))
    };
    put(&(text.len() as u64).to_le_bytes())?;
    put(&text)?;
    for (name, dtype, shape) in order {
        let tensor = tensor(name)?;
        let view = TensorView::from(&tensor);
        match view.elements() {
            ElementsView::Bytes(bytes) if view.dtype() == dtype && view.shape() == shape => {
                put(bytes)?;
            }
            _ => return Err(invalid(format!("`{name}` is not what was announced"))),
        }
    }
    out.commit(durability)
}

/// Whether the format has a type.
pub fn holds(dtype: DType) -> bool {
    TYPES.iter().any(|row| row.0 == dtype)
}

/// What a header says.
struct Header {
    tensors: BTreeMap<String, Stored>,
    others: BTreeMap<String, FormatError>,
    metadata: BTreeMap<String, String>,
}

fn header(file: &impl ReadAt, length: u64) -> Result<Header> {
    let mut size = [0; 8];
    let Some(rest) = length.checked_sub(8) else {
        return Err(loss(format!("it has {length} bytes, which is no header")).at(0));
    };
    file.read_exact_at(0, &mut size)
        .map_err(|e| failed(e).at(0))?;
    let size = u64::from_le_bytes(size);
    if size > rest || size > MAX_HEADER_BYTES {
        return Err(loss(format!("a header of {size} bytes in a file of {length}")).at(0));
    }
    let mut text = zeros(FileKind::Safetensors, size as usize).map_err(|e| e.at(8))?;
    file.read_exact_at(8, &mut text)
        .map_err(|e| failed(e).at(8))?;
    memory::check(FileKind::Safetensors, parsed_size(&text)).map_err(|e| e.at(8))?;
    let json: Json = serde_json::from_slice(&text)
        .map_err(|e| loss(format!("the header is no JSON: {e}")).at(8))?;
    let start = 8 + size;
    parse(json, start, rest - size).map_err(|e| e.at(8))
}

/// An upper bound of the memory of parsed JSON: an object with one field takes a node for eleven.
fn parsed_size(text: &[u8]) -> usize {
    let size = |byte: &u8| match byte {
        b'{' => 1024,
        b'[' | b',' => 192,
        _ => 2,
    };
    text.iter().map(size).sum()
}

fn parse(json: Json, start: u64, bytes: u64) -> Result<Header> {
    let Json::Object(fields) = json else {
        return Err(loss("the header is no object"));
    };
    let (mut tensors, mut others) = (BTreeMap::new(), BTreeMap::new());
    let mut metadata = BTreeMap::new();
    // The byte range of each tensor.
    let mut ranges = Vec::new();
    for (name, value) in fields {
        if name == "__metadata__" {
            let Json::Object(strings) = value else {
                return Err(loss("`__metadata__` is no object"));
            };
            for (key, text) in strings {
                let Json::String(text) = text else {
                    return Err(loss(format!(
                        "`__metadata__` has `{key}`, which is no string"
                    )));
                };
                metadata.insert(key, text);
            }
            continue;
        }
        let named = |mut e: FormatError| {
            e.cause = format!("tensor `{name}`: {}", e.cause);
            e
        };
        let (offset, size) = byte_range(&value, start, bytes).map_err(named)?;
        ranges.push((offset, size, name.clone()));
        match tensor(&value, offset, size).map_err(named) {
            Ok(stored) => {
                tensors.insert(name, stored);
            }
            Err(e) if e.code == Code::Unimplemented => {
                others.insert(name, e);
            }
            Err(e) => return Err(e),
        }
    }
    // Contiguous, up to the end of the file.
    ranges.sort();
    let mut end = start;
    for (offset, size, name) in ranges {
        if offset != end {
            return Err(loss(format!(
                "tensor `{name}` begins at byte {offset} and the one before it ends at byte {end}"
            )));
        }
        end += size;
    }
    match end == start + bytes {
        true => Ok(Header {
            tensors,
            others,
            metadata,
        }),
        false => Err(loss(format!(
            "the tensors end at byte {end} and the file at byte {}",
            start + bytes
        ))),
    }
}

fn numbers(value: &Json, key: &str) -> Option<Vec<u64>> {
    value[key].as_array()?.iter().map(Json::as_u64).collect()
}

/// The offset of a tensor's bytes in the file, and their number.
fn byte_range(value: &Json, start: u64, bytes: u64) -> Result<(u64, u64)> {
    let pair = numbers(value, "data_offsets").and_then(|pair| <[u64; 2]>::try_from(pair).ok());
    match pair {
        Some([from, to]) if from <= to && to <= bytes => Ok((start + from, to - from)),
        Some([from, to]) => Err(loss(format!(
            "its bytes are from {from} to {to} of {bytes}"
        ))),
        None => Err(loss("it does not say where its bytes are")),
    }
}

fn tensor(value: &Json, offset: u64, bytes: u64) -> Result<Stored> {
    let typed = value["dtype"]
        .as_str()
        .ok_or_else(|| loss("it has no type"))?;
    let dtype = TYPES
        .iter()
        .find(|row| row.1 == typed)
        .map(|row| row.0)
        .ok_or_else(|| {
            FormatError::new(
                Code::Unimplemented,
                FileKind::Safetensors,
                format!("the type `{typed}`"),
            )
        })?;
    let shape = numbers(value, "shape").ok_or_else(|| loss("it has no shape"))?;
    if let Some(cause) = rank_error(shape.len()) {
        let kind = FileKind::Safetensors;
        return Err(FormatError::new(Code::Unimplemented, kind, cause));
    }
    let shape: Vec<usize> = shape
        .into_iter()
        .map(|size| usize::try_from(size).map_err(|_| loss("its shape is too large")))
        .collect::<Result<_>>()?;
    let size = count(&shape).and_then(|n| n.checked_mul(dtype.size().unwrap_or(1)));
    match size {
        Some(size) if size as u64 == bytes => Ok(Stored {
            dtype,
            shape,
            offset,
            size,
        }),
        _ => Err(loss(format!(
            "{bytes} bytes for {dtype} of shape {shape:?}"
        ))),
    }
}

fn failed(source: std::io::Error) -> FormatError {
    FormatError::io(FileKind::Safetensors, "read it", source)
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Safetensors, cause)
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Safetensors, cause)
}
