//! An index of record offsets, for random access to a record file.
//!
//! In: a file that is not compressed. Out: the offsets of its records; records by number. An index can be saved in a file of its own,
//! which is refused once the records have changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::compression::{Compression, ExpectedCompression};
use super::frame::{self, FOOTER_SIZE, HEADER_SIZE};
use super::reader::{ReaderOptions, RecordReader};
use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, Durability, ReadAt};
use crate::memory;
use crate::storage::{self, Storage};
use crate::wire::{WireReader, put_varint};

/// The magic number of an index file.
const MAGIC: &[u8; 8] = b"tsrecix\x02";

/// What is checked while an index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Check {
    /// The headers; data are skipped, and checked when they are read.
    #[default]
    Headers,
    /// The data too.
    All,
}

/// The offset of each record of a file. Two are equal if they have the same offsets.
#[derive(Debug, Clone)]
pub struct RecordIndex {
    /// The offset of each record, and the end of the last.
    bounds: Vec<u64>,
    /// What was checked when it was built.
    checked: Check,
    /// The stamp of the file before it was read, if it was a file.
    stamp: Option<FileStamp>,
}

/// The version of a file: its length, and its modification time in seconds and nanoseconds.
type FileStamp = [u64; 3];

impl PartialEq for RecordIndex {
    fn eq(&self, other: &RecordIndex) -> bool {
        self.bounds == other.bounds
    }
}

impl Eq for RecordIndex {}

impl RecordIndex {
    /// Builds the index of a file.
    pub fn build(path: &Path, check: Check) -> Result<RecordIndex> {
        RecordIndex::build_in(&storage::local(), path, check)
    }

    /// [`build`](RecordIndex::build) in any storage.
    pub fn build_in(storage: &Arc<dyn Storage>, path: &Path, check: Check) -> Result<RecordIndex> {
        check_uncompressed(storage, path)?;
        let stamp = Some(file_stamp(&**storage, path)?);
        match check {
            Check::Headers => {
                let file = files::open_in(storage, FileKind::Record, path)?;
                let index = RecordIndex::from_headers(&file).map_err(|e| e.in_file(path))?;
                Ok(RecordIndex { stamp, ..index })
            }
            Check::All => {
                let options = ReaderOptions {
                    compression: ExpectedCompression::Is(Compression::None),
                    ..ReaderOptions::default()
                };
                let mut reader = RecordReader::open_in(storage, path, &options)?;
                let mut bounds = vec![0];
                while reader.check_next()?.is_some() {
                    let at = reader.position();
                    let pushed = memory::push(FileKind::Record, &mut bounds, at);
                    pushed.map_err(|e| e.at(at).in_file(path))?;
                }
                Ok(RecordIndex {
                    bounds,
                    checked: check,
                    stamp,
                })
            }
        }
    }

    /// Builds an index from the record headers alone.
    pub fn from_headers(file: &(impl ReadAt + ?Sized)) -> Result<RecordIndex> {
        let fail = |at: u64| move |e| FormatError::io(FileKind::Record, "read it", e).at(at);
        let length = file.length().map_err(fail(0))?;
        let (mut window, mut window_at) = (Vec::new(), 0_u64);
        let mut bounds = vec![0];
        let mut at = 0;
        let mut last = 0;
        // As elsewhere, a truncated header is the end.
        while length - at >= HEADER_SIZE as u64 {
            let place = match at.checked_sub(window_at).map(|p| p as usize) {
                Some(place) if place + HEADER_SIZE <= window.len() => place,
                _ => {
                    // Where records are long, the next header is far away.
                    let size = if last > 32 << 10 {
                        HEADER_SIZE
                    } else {
                        256 << 10
                    };
                    window.resize((length - at).min(size as u64) as usize, 0);
                    window_at = at;
                    file.read_exact_at(at, &mut window).map_err(fail(at))?;
                    0
                }
            };
            let damaged = |cause: &str| FormatError::data_loss(FileKind::Record, cause).at(at);
            let header = window[place..].first_chunk().expect("it was read");
            let Some(data) = frame::length(header) else {
                return Err(damaged("the checksum of the length is wrong"));
            };
            let framed = frame::framed_length(data).filter(|framed| *framed <= length - at);
            let Some(framed) = framed else {
                let cause = format!("the file ends inside a record of {data} bytes");
                return Err(damaged(&cause));
            };
            (at, last) = (at + framed, data);
            memory::push(FileKind::Record, &mut bounds, at).map_err(|e| e.at(at))?;
        }
        Ok(RecordIndex {
            bounds,
            checked: Check::Headers,
            stamp: None,
        })
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The offset of a record.
    pub fn offset(&self, record: usize) -> Option<u64> {
        self.bounds[..self.len()].get(record).copied()
    }

    /// The length of a record's data.
    pub fn length(&self, record: usize) -> Option<u64> {
        let next = self.bounds.get(record.checked_add(1)?)?;
        Some(next - self.bounds[record] - (HEADER_SIZE + FOOTER_SIZE) as u64)
    }

    /// The path of a file's index: beside it, with the suffix `.recordindex`.
    pub fn beside(records: &Path) -> PathBuf {
        let mut name = records.file_name().unwrap_or_default().to_owned();
        name.push(".recordindex");
        records.with_file_name(name)
    }

    /// Saves the index to a file, which is created, or replaced if it is an index of records.
    pub fn save(&self, path: &Path, records: &Path) -> Result<()> {
        self.save_in(&storage::local(), path, records)
    }

    /// [`save`](RecordIndex::save) in any storage.
    pub fn save_in(&self, storage: &Arc<dyn Storage>, path: &Path, records: &Path) -> Result<()> {
        let begins = |file: Box<dyn ReadAt>| {
            let mut start = [0; 7];
            file.read_exact_at(0, &mut start).is_ok() && MAGIC.starts_with(&start)
        };
        if storage.open(path).is_ok_and(|there| !begins(there)) {
            let cause = "this file is no index of records and is not replaced by one";
            let error = FormatError::new(Code::FailedPrecondition, FileKind::Record, cause);
            return Err(error.in_file(path));
        }
        let mut bytes = MAGIC.to_vec();
        // Records written while the index was built are not in it: the stamp from before makes it stale.
        for number in self
            .stamp
            .map_or_else(|| file_stamp(&**storage, records), Ok)?
        {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((self.checked as u64).to_le_bytes());
        bytes.extend((self.len() as u64).to_le_bytes());
        for pair in self.bounds.windows(2) {
            put_varint(
                &mut bytes,
                pair[1] - pair[0] - (HEADER_SIZE + FOOTER_SIZE) as u64,
            );
        }
        bytes.extend(crc::masked(&bytes).to_le_bytes());
        files::replace_in(
            storage,
            FileKind::Record,
            path,
            &bytes,
            Durability::Unsynced,
        )
    }

    /// Loads a saved index. If the file of records has another length or was modified since, it is refused as
    /// [`FailedPrecondition`](Code::FailedPrecondition).
    pub fn load(path: &Path, records: &Path) -> Result<RecordIndex> {
        RecordIndex::load_in(&storage::local(), path, records)
    }

    /// [`load`](RecordIndex::load) in any storage.
    pub fn load_in(storage: &Arc<dyn Storage>, path: &Path, records: &Path) -> Result<RecordIndex> {
        let file = files::open_in(storage, FileKind::Record, path)?;
        let failed = |e| FormatError::io(FileKind::Record, "read it", e).in_file(path);
        let length = usize::try_from(file.length().map_err(failed)?).unwrap_or(usize::MAX);
        let mut bytes = memory::zeros(FileKind::Record, length).map_err(|e| e.in_file(path))?;
        file.read_exact_at(0, &mut bytes).map_err(failed)?;
        let index = decode(&bytes).map_err(|e| e.in_file(path))?;
        let now = file_stamp(&**storage, records)?;
        if index.stamp != Some(now) {
            let cause = "the records have changed since this index of them was made";
            let error = FormatError::new(Code::FailedPrecondition, FileKind::Record, cause);
            return Err(error.in_file(path));
        }
        match index.bounds.last() {
            Some(end) if *end > now[0] => Err(FormatError::data_loss(
                FileKind::Record,
                "the index goes beyond the end of the records",
            )
            .in_file(path)),
            _ => Ok(index),
        }
    }

    /// Loads the index beside a file; builds and saves it if there is none that is valid. A failure to save is ignored.
    pub fn load_or_build(records: &Path, check: Check) -> Result<RecordIndex> {
        RecordIndex::load_or_build_in(&storage::local(), records, check)
    }

    /// [`load_or_build`](RecordIndex::load_or_build) in any storage.
    pub fn load_or_build_in(
        storage: &Arc<dyn Storage>,
        records: &Path,
        check: Check,
    ) -> Result<RecordIndex> {
        let beside = RecordIndex::beside(records);
        if let Ok(index) = RecordIndex::load_in(storage, &beside, records)
            && (index.checked == Check::All || check == Check::Headers)
        {
            return Ok(index);
        }
        let index = RecordIndex::build_in(storage, records, check)?;
        let _ = index.save_in(storage, &beside, records);
        Ok(index)
    }
}

/// Random access to the records of a file.
///
/// Several threads can read at once, each into a buffer of its own.
///
/// ```no_run
/// use trainspec_formats::records::{Check, IndexedRecords, Permutation};
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let records = IndexedRecords::open("train.tfrecord".as_ref(), Check::Headers)?;
/// let mut buffer = Vec::new();
/// for number in Permutation::new(records.index.len() as u64, 7, 0).iter() {
///     let record = records.read(number as usize, &mut buffer)?;
///     println!("{} bytes", record.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IndexedRecords<R = Box<dyn ReadAt>> {
    file: R,
    path: Option<PathBuf>,
    /// The offsets of the records.
    pub index: RecordIndex,
    /// The maximum length of a record; longer ones are refused before anything is allocated.
    pub max_length: u64,
}

impl IndexedRecords {
    /// Opens a file with the index beside it, which is built if necessary.
    pub fn open(path: &Path, check: Check) -> Result<IndexedRecords> {
        IndexedRecords::open_in(&storage::local(), path, check)
    }

    /// [`open`](IndexedRecords::open) in any storage.
    pub fn open_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        check: Check,
    ) -> Result<IndexedRecords> {
        let index = RecordIndex::load_or_build_in(storage, path, check)?;
        let file = files::open_in(storage, FileKind::Record, path)?;
        Ok(IndexedRecords {
            path: Some(path.to_owned()),
            ..IndexedRecords::new(file, index)
        })
    }
}

impl<R: ReadAt> IndexedRecords<R> {
    /// Reads from a file whose index is known.
    pub fn new(file: R, index: RecordIndex) -> IndexedRecords<R> {
        IndexedRecords {
            file,
            path: None,
            index,
            max_length: ReaderOptions::default().max_length,
        }
    }

    /// Reads a record and checks it.
    pub fn read<'b>(&self, record: usize, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let (Some(at), Some(length)) = (self.index.offset(record), self.index.length(record))
        else {
            let cause = format!(
                "there are {} records, and no number {record}",
                self.index.len()
            );
            let error = FormatError::new(Code::OutOfRange, FileKind::Record, cause);
            return Err(self.located(error));
        };
        let fail = |error: FormatError| self.located(error.at(at));
        let damaged = |cause: &str| fail(FormatError::data_loss(FileKind::Record, cause));
        // A handmade index may say anything.
        let all = self.file.length();
        let all = all.map_err(|e| fail(FormatError::io(FileKind::Record, "read it", e)))?;
        let framed =
            frame::framed_length(length).filter(|framed| *framed <= all.saturating_sub(at));
        let Some(framed) = framed.and_then(|framed| usize::try_from(framed).ok()) else {
            return Err(damaged("the file ends inside the record"));
        };
        if length > self.max_length {
            let cause = format!(
                "a record of {length} bytes is longer than {}",
                self.max_length
            );
            let error = FormatError::new(Code::ResourceExhausted, FileKind::Record, cause);
            return Err(fail(error));
        }
        memory::resize(FileKind::Record, buffer, framed).map_err(fail)?;
        self.file
            .read_exact_at(at, buffer)
            .map_err(|e| fail(FormatError::io(FileKind::Record, "read it", e)))?;
        let (header, rest) = buffer.split_first_chunk().expect("a header was read");
        let (data, footer) = rest.split_last_chunk().expect("a checksum was read");
        match frame::length(header) {
            None => Err(damaged("the checksum of the length is wrong")),
            Some(found) if found != length => Err(damaged("the length is not that of the index")),
            Some(_) if !frame::is_intact(data, footer) => {
                Err(damaged("the checksum of the data is wrong"))
            }
            Some(_) => Ok(data),
        }
    }

    fn located(&self, error: FormatError) -> FormatError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

/// Refuses a file that is compressed.
fn check_uncompressed(storage: &Arc<dyn Storage>, path: &Path) -> Result<()> {
    let reader = RecordReader::open_in(storage, path, &ReaderOptions::default())?;
    match reader.compression() {
        Compression::None => Ok(()),
        Compression::Gzip | Compression::Zlib => {
            let cause = "the records of a compressed file can only be read in order";
            Err(FormatError::invalid(FileKind::Record, cause).in_file(path))
        }
    }
}

fn file_stamp(storage: &dyn Storage, path: &Path) -> Result<FileStamp> {
    let about = storage
        .metadata(path)
        .map_err(|e| FormatError::io(FileKind::Record, "read it", e).in_file(path))?;
    let written = about
        .modified
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    Ok([
        about.length,
        written.as_secs(),
        u64::from(written.subsec_nanos()),
    ])
}

fn decode(bytes: &[u8]) -> Result<RecordIndex> {
    let damaged = |cause: &str| FormatError::data_loss(FileKind::Record, cause);
    let not_one = || damaged("this is not an index of records");
    let (body, stored) = bytes
        .split_last_chunk::<FOOTER_SIZE>()
        .ok_or_else(not_one)?;
    let rest = body.strip_prefix(MAGIC).ok_or_else(not_one)?;
    if !frame::is_intact(body, stored) {
        return Err(damaged("the checksum of the index is wrong"));
    }
    let (numbers, rest) = rest.split_first_chunk::<40>().ok_or_else(not_one)?;
    let number = |i: usize| {
        let bytes = numbers[8 * i..].first_chunk().expect("there are five");
        u64::from_le_bytes(*bytes)
    };
    let checked = match number(3) {
        0 => Check::Headers,
        1 => Check::All,
        _ => return Err(not_one()),
    };
    let count = number(4);
    // Each takes a byte or more, so that the allocation is bounded by the file.
    if count > rest.len() as u64 {
        return Err(damaged(
            "the index says that it has more records than it has",
        ));
    }
    let mut bounds = Vec::new();
    memory::reserve(FileKind::Record, &mut bounds, count as usize + 1)?;
    bounds.push(0);
    let mut wire = WireReader::new(rest);
    let mut at = 0_u64;
    for _ in 0..count {
        let length = wire.varint().map_err(|broken| damaged(broken.cause))?;
        at = frame::framed_length(length)
            .and_then(|framed| at.checked_add(framed))
            .ok_or_else(|| damaged("the index goes beyond what can be counted"))?;
        bounds.push(at);
    }
    match wire.is_empty() {
        true => Ok(RecordIndex {
            bounds,
            checked,
            stamp: Some([number(0), number(1), number(2)]),
        }),
        false => Err(damaged("the index has more records than it says")),
    }
}
