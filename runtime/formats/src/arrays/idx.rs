//! IDX files, the format of MNIST: an array after a header with its type and sizes, all numbers in big-endian order.
//!
//! In: a file, compressed with gzip or not. Out: its array. The header is two zeros, the type of the elements, the number of dimensions
//! and four bytes for each of their sizes; the file holds as many elements as these say, and nothing after them.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use crate::arrays::ArrayRows;
use crate::error::{FileKind, FormatError, Result};
use crate::files::{self, ReadAt};
use crate::memory::zeros;
use crate::storage::Storage;
use crate::tensor::{DType, Tensor, count, swap_bytes};

/// The types of elements, with their codes.
const TYPES: [(u8, DType); 6] = [
    (0x08, DType::UInt8),
    (0x09, DType::Int8),
    (0x0b, DType::Int16),
    (0x0c, DType::Int32),
    (0x0d, DType::Float32),
    (0x0e, DType::Float64),
];

/// The maximum compression ratio of DEFLATE.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// What stands before the elements.
struct Header {
    dtype: DType,
    shape: Vec<usize>,
    /// Its own size in bytes.
    length: u64,
    /// That of the elements.
    bytes: u64,
}

/// Opens an IDX file and reads its header. A compressed one is decompressed when the first row is read.
pub fn open_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<ArrayRows> {
    let file: Arc<dyn ReadAt> = Arc::from(files::open_in(storage, FileKind::Idx, path)?);
    open(&file, path).map_err(|e| e.in_file(path))
}

fn open(file: &Arc<dyn ReadAt>, path: &Path) -> Result<ArrayRows> {
    let failed = |e| FormatError::io(FileKind::Idx, "read it", e);
    let length = file.length().map_err(failed)?;
    let mut start = [0; 2];
    let read = file.read_exact_at(0, &mut start);
    let is_compressed = read.is_ok() && start == [0x1f, 0x8b];
    let header = match is_compressed {
        true => Header::read(&mut decoder(file))?,
        false => Header::read(&mut BufReader::new(reader(file)))?,
    };
    let (kind, ty) = ((FileKind::Idx, path), (header.dtype, &header.shape[..]));
    if !is_compressed {
        let expected = header.length + header.bytes;
        if length != expected {
            return Err(loss(format!(
                "its header says {:?}, which takes {expected} bytes, and the file has {length}",
                header.shape
            )));
        }
        let at = (header.length, true);
        return Ok(ArrayRows::numbers(kind, ty, file.clone(), at));
    }
    if header.bytes > length.saturating_mul(MAX_DEFLATE_RATIO) {
        return Err(loss(format!(
            "its header says {:?}, and {length} compressed bytes cannot hold as much",
            header.shape
        )));
    }
    let (file, own_path) = (file.clone(), path.to_owned());
    let load = move || decompressed(&file).map_err(|e| e.in_file(&own_path));
    Ok(ArrayRows::whole(kind, ty, Box::new(load)))
}

impl Header {
    fn read(from: &mut impl Read) -> Result<Header> {
        let mut start = [0; 4];
        fill(from, &mut start)?;
        let [0, 0, code, rank] = start else {
            return Err(loss("it does not begin with the two zeros of an IDX file"));
        };
        let known = TYPES.iter().find(|(own, _)| *own == code);
        let Some((_, dtype)) = known else {
            return Err(loss(format!("there is no type of elements {code:#04x}")).at(2));
        };
        let mut sizes = vec![[0; 4]; usize::from(rank)];
        fill(from, sizes.as_flattened_mut())?;
        let shape: Vec<usize> = (sizes.iter())
            .map(|size| u32::from_be_bytes(*size) as usize)
            .collect();
        let bytes = count(&shape).and_then(|n| n.checked_mul(dtype.size().unwrap_or(1)));
        let Some(bytes) = bytes.filter(|bytes| *bytes < 1 << 60) else {
            return Err(loss(format!("an array of shape {shape:?} is too large")).at(4));
        };
        Ok(Header {
            dtype: *dtype,
            shape,
            length: 4 + 4 * u64::from(rank),
            bytes: bytes as u64,
        })
    }
}

/// Reads all of a compressed file.
fn decompressed(file: &Arc<dyn ReadAt>) -> Result<Tensor> {
    let mut from = decoder(file);
    let header = Header::read(&mut from)?;
    let mut bytes = zeros(FileKind::Idx, header.bytes as usize)?;
    fill(&mut from, &mut bytes)?;
    let rest = from.read(&mut [0]);
    match rest.map_err(|e| FormatError::io(FileKind::Idx, "decompress it", e))? {
        0 => {
            swap_bytes(header.dtype, &mut bytes);
            Tensor::new(header.dtype, &header.shape, bytes)
        }
        _ => Err(loss(format!(
            "its header says {:?}, and more elements follow",
            header.shape
        ))),
    }
}

fn fill(from: &mut impl Read, into: &mut [u8]) -> Result<()> {
    from.read_exact(into)
        .map_err(|e| FormatError::io(FileKind::Idx, "read it", e))
}

fn reader(file: &Arc<dyn ReadAt>) -> files::SequentialFile {
    files::SequentialFile::new(Box::new(file.clone()))
}

fn decoder(file: &Arc<dyn ReadAt>) -> BufReader<MultiGzDecoder<BufReader<files::SequentialFile>>> {
    BufReader::new(MultiGzDecoder::new(BufReader::new(reader(file))))
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Idx, cause)
}
