//! The index of a tensor bundle: `BundleHeaderProto` and one `BundleEntryProto` per tensor, in a sorted string table (SSTable).

use std::path::Path;
use std::sync::Arc;

use prost::Message;

use crate::checkpoint::bundle::index_path;
use crate::checkpoint::slice::{Extent, Slice};
use crate::checkpoint::{DType, key};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, ReadAt};
use crate::memory::{self, Headroom};
use crate::proto::{
    BundleEntryProto, BundleHeaderProto, TensorShapeProto, VersionDef, bundle_header_proto,
    tensor_shape_proto,
};
use crate::storage::Storage;
use crate::table::Table;
use crate::tensor::{MAX_RANK, count, rank_error};
use crate::wire::{Value, WireError, WireReader};

/// The version of the bundle format that this crate reads and writes.
pub(crate) const VERSION: i32 = 1;
/// The maximum memory of keys and slice lists, as a multiple of the file's size. A writer with a restart point every 16 keys stays below
/// 16 for the keys, and slice lists take 12 times their bytes.
const MAX_INDEX_EXPANSION: u64 = 64;
/// The memory of an entry besides its key and slices: its shape, as a message and decoded, and the headers of allocations.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The header of a bundle (`BundleHeaderProto`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The number of data files (shards).
    pub shards: u32,
    /// The endianness of the numbers in them.
    pub endianness: Endianness,
    /// The format version of the writer.
    pub producer: i32,
    /// The minimum format version of a reader.
    pub min_consumer: i32,
}

/// The byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endianness {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

/// The index entry of a tensor (`BundleEntryProto`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Vec<usize>,
    /// The index of the data file (shard).
    pub shard: i32,
    /// The byte offset in the data file.
    pub offset: i64,
    /// The size in bytes.
    pub size: i64,
    /// The masked CRC-32C of the bytes.
    pub crc: u32,
    /// The slices of a partitioned tensor; empty where it is stored in one piece. With slices, only the dtype and the shape above count.
    pub slices: Vec<Slice>,
}

/// A decoded index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) header: Header,
    /// The entries, sorted by key.
    pub(crate) entries: Vec<(Vec<u8>, Entry)>,
    /// Tensors of unsupported types and the reason, sorted by name.
    pub(crate) others: Vec<(String, FormatError)>,
}

impl Index {
    /// Reads the index of a checkpoint.
    pub(crate) fn open(storage: &Arc<dyn Storage>, prefix: &Path) -> Result<Index> {
        let path = index_path(prefix);
        let file = files::open_in(storage, FileKind::Table, &path)?;
        Index::read(file).map_err(|e| e.in_file(&path))
    }

    /// Reads an index from any source.
    pub(crate) fn read<R: ReadAt>(file: R) -> Result<Index> {
        let length = file
            .length()
            .map_err(|e| FormatError::io(FileKind::Table, "find its length", e))?;
        let table = Table::open(file)?;
        let mut cursor = table.cursor();
        if !cursor.advance()? || !cursor.key().is_empty() {
            return Err(loss("the index has no header"));
        }
        let header = header(cursor.value()).map_err(|e| e.at(cursor.offset()))?;
        let (mut entries, mut others) = (Vec::new(), Vec::new());
        let mut taken = 0_u64;
        let mut headroom = Headroom::new(FileKind::Table);
        // The keys of slices sort before all names, so that all slices are known where they are listed.
        let mut unlisted = 0;
        while cursor.advance()? {
            headroom.take(ENTRY_OVERHEAD_BYTES + cursor.key().len() + cursor.value().len())?;
            let key = cursor.key().to_vec();
            let entry = slice_counts(cursor.value()).and_then(|found| {
                // While it is decoded, a slice is there as a message too.
                headroom.take(usize::try_from(3 * found.bytes()).unwrap_or(usize::MAX))?;
                taken = taken.saturating_add(key.len() as u64 + found.bytes());
                if taken > length.saturating_mul(MAX_INDEX_EXPANSION) {
                    return Err(loss("the names and slices are more than the file can hold"));
                }
                match key::is_slice(&key) {
                    true => unlisted += 1,
                    false if std::str::from_utf8(&key).is_err() => {
                        return Err(loss("the name is not UTF-8"));
                    }
                    false => {}
                }
                unlisted = usize::checked_sub(unlisted, found.slices)
                    .ok_or_else(|| loss("it lists more slices than there are"))?;
                Entry::decode(cursor.value())
            });
            let entry = entry.map_err(|mut e| {
                e.cause = format!("the entry `{}`: {}", key::readable(&key), e.cause);
                e.at(cursor.offset())
            });
            match entry {
                Ok(entry) => memory::push(FileKind::Table, &mut entries, (key, entry))?,
                // An unsupported tensor does not hide the others.
                Err(e) if e.code == Code::Unimplemented && !key::is_slice(&key) => {
                    let name = String::from_utf8_lossy(&key).into_owned();
                    memory::push(FileKind::Table, &mut others, (name, e))?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Index {
            header,
            entries,
            others,
        })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        let found = self
            .entries
            .binary_search_by(|(name, _)| name.as_slice().cmp(key));
        found.ok().map(|at| &self.entries[at].1)
    }

    /// The names of tensors, without the keys of slices.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries
            .iter()
            .filter(|(key, _)| !key::is_slice(key))
            // Names that are not UTF-8 were refused.
            .filter_map(|(key, entry)| Some((std::str::from_utf8(key).ok()?, entry)))
    }
}

impl Header {
    /// The header that this crate writes.
    pub(crate) fn new(shards: u32) -> Header {
        Header {
            shards,
            endianness: Endianness::Little,
            producer: VERSION,
            min_consumer: 0,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        BundleHeaderProto {
            num_shards: self.shards as i32,
            endianness: match self.endianness {
                Endianness::Little => 0,
                Endianness::Big => 1,
            },
            version: Some(VersionDef {
                producer: self.producer,
                min_consumer: self.min_consumer,
                bad_consumers: Vec::new(),
            }),
        }
        .encode_to_vec()
    }
}

impl Entry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        BundleEntryProto {
            dtype: self.dtype.number(),
            shape: Some(shape_to_proto(&self.shape)),
            shard_id: self.shard,
            offset: self.offset,
            size: self.size,
            crc32c: self.crc,
            slices: self.slices.iter().map(Slice::to_proto).collect(),
        }
        .encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Entry> {
        let proto =
            BundleEntryProto::decode(bytes).map_err(|e| loss(format!("it is no message: {e}")))?;
        let slices = proto.slices.iter().map(Slice::from_proto);
        Ok(Entry {
            dtype: dtype_from_number(proto.dtype)?,
            shape: shape_from_proto(proto.shape.as_ref())?,
            shard: proto.shard_id,
            offset: proto.offset,
            size: proto.size,
            crc: proto.crc32c,
            slices: slices
                .collect::<Option<_>>()
                .ok_or_else(|| loss("a slice has a negative number"))?,
        })
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> Result<usize> {
        count(&self.shape).ok_or_else(|| {
            loss(format!(
                "a tensor of shape {:?} has too many elements",
                self.shape
            ))
        })
    }

    /// The number of bytes of a tensor of numbers.
    pub(crate) fn bytes(&self) -> Result<usize> {
        let size = self.dtype.size().unwrap_or(0);
        self.count()?.checked_mul(size).ok_or_else(|| {
            loss(format!(
                "a tensor of shape {:?} has too many bytes",
                self.shape
            ))
        })
    }
}

/// The numbers of slices and extents that an entry lists.
struct SliceCounts {
    slices: usize,
    /// The extents of all slices together.
    extents: usize,
}

impl SliceCounts {
    /// The bytes of memory they take.
    fn bytes(&self) -> u64 {
        (self.slices * size_of::<Slice>() + self.extents * size_of::<Extent>()) as u64
    }
}

/// Counts the slices of an entry before it is decoded: two bytes on the wire may become a large object.
fn slice_counts(entry: &[u8]) -> Result<SliceCounts> {
    let broken = |e: WireError| loss(format!("it is no message: {}", e.cause));
    let mut listed = SliceCounts {
        slices: 0,
        extents: 0,
    };
    let mut rank = 0;
    let mut wire = WireReader::new(entry);
    while let Some((field, value)) = wire.field().map_err(broken)? {
        match (field, value) {
            (2, Value::Bytes(shape)) => rank += fields(shape, 2).map_err(broken)?,
            (7, Value::Bytes(slice)) => {
                listed.slices += 1;
                listed.extents += fields(slice, 1).map_err(broken)?;
            }
            _ => {}
        }
    }
    match rank_error(rank) {
        None => Ok(listed),
        Some(cause) => Err(loss(cause)),
    }
}

/// How often a field number occurs in a message.
fn fields(message: &[u8], number: u32) -> std::result::Result<usize, WireError> {
    let mut wire = WireReader::new(message);
    let mut count = 0;
    while let Some((field, _)) = wire.field()? {
        count += usize::from(field == number);
    }
    Ok(count)
}

fn header(bytes: &[u8]) -> Result<Header> {
    let proto = BundleHeaderProto::decode(bytes)
        .map_err(|e| loss(format!("the header is no message: {e}")))?;
    let version = proto.version.unwrap_or_default();
    check_version(&version)?;
    let endianness = match bundle_header_proto::Endianness::try_from(proto.endianness) {
        Ok(bundle_header_proto::Endianness::Little) => Endianness::Little,
        Ok(bundle_header_proto::Endianness::Big) => Endianness::Big,
        Err(_) => return Err(loss("the header has an unknown endianness")),
    };
    Ok(Header {
        shards: u32::try_from(proto.num_shards)
            .map_err(|_| loss(format!("the header says {} data files", proto.num_shards)))?,
        endianness,
        producer: version.producer,
        min_consumer: version.min_consumer,
    })
}

/// Checks the producer and consumer versions (`VersionDef`), as TensorFlow does.
pub(crate) fn check_version(version: &VersionDef) -> Result<()> {
    let refused = |cause: String| Err(FormatError::invalid(FileKind::Table, cause));
    if version.producer < 0 {
        return refused(format!(
            "the checkpoint has version {}, which is too old",
            version.producer
        ));
    }
    if version.min_consumer > VERSION {
        return refused(format!(
            "the checkpoint asks for version {} of the format, and this is version {VERSION}",
            version.min_consumer
        ));
    }
    if version.bad_consumers.contains(&VERSION) {
        return refused(format!(
            "the checkpoint does not allow version {VERSION} of the format"
        ));
    }
    Ok(())
}

pub(crate) fn dtype_from_number(number: i32) -> Result<DType> {
    match DType::from_number(number) {
        Some(dtype) => Ok(dtype),
        None if number <= 0 => Err(loss(format!("the type {number} does not exist"))),
        None => Err(FormatError::new(
            Code::Unimplemented,
            FileKind::Table,
            format!("the type {number} is not known"),
        )),
    }
}

pub(crate) fn shape_to_proto(shape: &[usize]) -> TensorShapeProto {
    TensorShapeProto {
        dim: shape
            .iter()
            .map(|&size| tensor_shape_proto::Dim {
                size: size as i64,
                name: String::new(),
            })
            .collect(),
        unknown_rank: false,
    }
}

pub(crate) fn shape_from_proto(proto: Option<&TensorShapeProto>) -> Result<Vec<usize>> {
    let Some(proto) = proto else {
        return Ok(Vec::new());
    };
    if proto.unknown_rank || proto.dim.len() > MAX_RANK {
        return Err(loss("the shape is not one that a tensor can have"));
    }
    proto
        .dim
        .iter()
        .map(|dim| {
            usize::try_from(dim.size)
                .map_err(|_| loss(format!("the shape has a dimension of {}", dim.size)))
        })
        .collect()
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Table, cause)
}
