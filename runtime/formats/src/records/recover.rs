//! Recovery of damaged record files: resynchronization at the next frame with two valid checksums.
//!
//! In: a file. Out: every record that is intact, of any length, and what was skipped. After damage, reading resumes at the next offset where both
//! checksums of a record are right. Leaves alone: compressed files after the first damage, which cannot be resynchronized.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compression::{Compression, ExpectedCompression};
use super::frame::{self, FOOTER_SIZE, HEADER_SIZE};
use super::reader::{Ending, ReaderOptions, RecordReader};
use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, ReadAt, SequentialFile};
use crate::memory;
use crate::storage::{self, Storage};

/// The bytes of one read.
const WINDOW_BYTES: usize = 256 << 10;

/// How often, on average, a byte may be hashed in search of a record, which keeps the search linear. A hostile file can have as
/// many valid headers as bytes, each of which claims the rest as its data.
const MAX_HASHES_PER_BYTE: u64 = 16;

/// The bytes that may be hashed in any case, even of a small file.
const MIN_HASHED_BYTES: u64 = 1 << 20;

/// A byte range that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its first byte.
    pub from: u64,
    /// The byte after it; `None` for the rest of a compressed file.
    pub to: Option<u64>,
    /// What is wrong with it.
    pub cause: String,
}

/// Reads the intact records of a file that may be damaged.
///
/// ```no_run
/// use trainspec_formats::records::Recovering;
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let mut records = Recovering::open("train.tfrecord".as_ref())?;
/// while let Some(record) = records.next()? {
///     println!("{} bytes", record.len());
/// }
/// for skipped in records.skipped() {
///     eprintln!("{} to {:?}: {}", skipped.from, skipped.to, skipped.cause);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Recovering<R = Box<dyn ReadAt>> {
    source: Source<R>,
    path: Option<PathBuf>,
    records: u64,
    skipped: Vec<Skipped>,
}

#[derive(Debug)]
enum Source<R> {
    Plain(Plain<R>),
    Compressed(Box<Compressed>),
    Ended,
}

impl Recovering {
    /// Opens a file, compressed or not. Fails where it cannot be opened or read.
    pub fn open(path: &Path) -> Result<Recovering> {
        Recovering::open_in(&storage::local(), path)
    }

    /// [`open`](Recovering::open) in any storage.
    pub fn open_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<Recovering> {
        let reader = RecordReader::open_in(storage, path, &options())?;
        let mut recovering = match reader.compression() {
            Compression::None => Recovering::new(files::open_in(storage, FileKind::Record, path)?)?,
            Compression::Gzip | Compression::Zlib => Recovering {
                source: Source::Compressed(Box::new(Compressed {
                    reader,
                    ahead: None,
                    storage: Arc::clone(storage),
                    path: path.to_owned(),
                    checked: 0,
                })),
                path: None,
                records: 0,
                skipped: Vec::new(),
            },
        };
        recovering.path = Some(path.to_owned());
        Ok(recovering)
    }
}

impl<R: ReadAt> Recovering<R> {
    /// Reads a source that is not compressed. Fails where its length cannot be read.
    pub fn new(file: R) -> Result<Recovering<R>> {
        let length = file
            .length()
            .map_err(|e| FormatError::io(FileKind::Record, "read it", e))?;
        Ok(Recovering {
            source: Source::Plain(Plain {
                file,
                length,
                position: 0,
                framed: 0,
                window: Vec::new(),
                window_at: 0,
                hash_budget: length
                    .saturating_mul(MAX_HASHES_PER_BYTE)
                    .saturating_add(MIN_HASHED_BYTES),
            }),
            path: None,
            records: 0,
            skipped: Vec::new(),
        })
    }

    /// The next intact record; `None` at the end. Damage is no error but is listed in [`skipped`](Recovering::skipped): only reading
    /// can fail, and memory for a record can be short.
    #[allow(clippy::should_implement_trait)] // it borrows, and can fail
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        if !self.find_next(Hold::Data)? {
            return Ok(None);
        }
        match &mut self.source {
            Source::Plain(plain) => plain.take().map(Some),
            Source::Compressed(compressed) => compressed.reader.next(),
            Source::Ended => Ok(None),
        }
        .map_err(|e| match &self.path {
            Some(path) => e.in_file(path),
            None => e,
        })
    }

    /// Checks the next intact record without holding it, whatever its length; returns that length, or `None` at the end.
    pub fn check_next(&mut self) -> Result<Option<u64>> {
        if !self.find_next(Hold::Nothing)? {
            return Ok(None);
        }
        Ok(match &mut self.source {
            Source::Plain(plain) => Some(plain.pass()),
            Source::Compressed(compressed) => Some(compressed.checked),
            Source::Ended => None,
        })
    }

    /// Goes to the next intact record and lists what is skipped before it; false at the end.
    fn find_next(&mut self, hold: Hold) -> Result<bool> {
        let skipped = &mut self.skipped;
        let found = match &mut self.source {
            Source::Plain(plain) => plain.find_next(skipped),
            Source::Compressed(compressed) => match compressed.find_next(hold) {
                // The rest of a compressed stream cannot be read.
                Err(e) if e.code == Code::DataLoss => {
                    skipped.push(Skipped {
                        from: compressed.reader.position(),
                        to: None,
                        cause: e.cause,
                    });
                    self.source = Source::Ended;
                    Ok(false)
                }
                found => found,
            },
            Source::Ended => Ok(false),
        };
        let found = found.map_err(|e| match &self.path {
            Some(path) => e.in_file(path),
            None => e,
        })?;
        self.records += u64::from(found);
        Ok(found)
    }

    /// The ranges skipped so far, in order.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The number of bytes read from the file: the progress of reading.
    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            Source::Plain(plain) => plain.position,
            Source::Compressed(compressed) => compressed.reader.bytes_read(),
            Source::Ended => 0,
        }
    }

    /// The number of records read.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// Whether the data of a record are needed, or only whether they are intact.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Data,
    Nothing,
}

/// A compressed file.
#[derive(Debug)]
struct Compressed {
    reader: RecordReader<SequentialFile>,
    /// Another reader of the file, which checks a record that is longer than usual before the first one holds it: a few compressed
    /// bytes may become any number.
    ahead: Option<RecordReader<SequentialFile>>,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// The length of the last record that was checked.
    checked: u64,
}

impl Compressed {
    /// Whether there is a next record; damage is an error. If its data are to be held, it is left to the reader.
    fn find_next(&mut self, hold: Hold) -> Result<bool> {
        if hold == Hold::Nothing {
            let found = self.reader.check_next()?;
            self.checked = found.unwrap_or(0);
            return Ok(found.is_some());
        }
        let Some(length) = self.reader.next_length()? else {
            return Ok(false);
        };
        if length > self.reader.max_length {
            if self.ahead.is_none() {
                let ahead = RecordReader::open_in(&self.storage, &self.path, &options())?;
                self.ahead = Some(ahead);
            }
            let ahead = self.ahead.as_mut().expect("it was opened");
            while ahead.records() <= self.reader.records() {
                ahead.check_next()?;
            }
            self.reader.max_length = length;
        }
        Ok(self.reader.peek()?.is_some())
    }
}

fn options() -> ReaderOptions {
    ReaderOptions {
        compression: ExpectedCompression::Detect,
        ending: Ending::Strict,
        ..ReaderOptions::default()
    }
}

/// A file that is not compressed, with a window of it in memory.
#[derive(Debug)]
struct Plain<R> {
    file: R,
    length: u64,
    position: u64,
    /// The size of the frame of the record that was found.
    framed: u64,
    window: Vec<u8>,
    window_at: u64,
    /// The number of bytes that may still be hashed in search of records.
    hash_budget: u64,
}

/// The result of probing an offset for a frame.
enum Probe {
    /// An intact record, whose frame takes this many bytes.
    Intact(u64),
    /// A frame with a valid header whose data are damaged; it ends at this byte.
    BadData(u64),
    /// No frame, and why.
    NoFrame(&'static str),
}

impl<R: ReadAt> Plain<R> {
    /// Goes to the next intact record and lists what is skipped before it; false at the end.
    fn find_next(&mut self, skipped: &mut Vec<Skipped>) -> Result<bool> {
        if self.position == self.length {
            return Ok(false);
        }
        self.framed = loop {
            let (from, cause) = match self.probe(self.position)? {
                Probe::Intact(framed) => break framed,
                Probe::NoFrame(cause) => (self.position + 1, cause),
                Probe::BadData(end) => {
                    let cause = "the checksum of the data is wrong";
                    // What follows the frame is probed first: damaged data may contain records.
                    if end == self.length || !matches!(self.probe(end)?, Probe::NoFrame(_)) {
                        self.skip(end, cause, skipped);
                        if end == self.length {
                            return Ok(false);
                        }
                        continue;
                    }
                    (self.position + 1, cause)
                }
            };
            match self.resume(from, cause, skipped)? {
                Some(framed) => break framed,
                None => return Ok(false),
            }
        };
        Ok(true)
    }

    /// The data of the record that was found.
    fn take(&mut self) -> Result<&[u8]> {
        let at = self.position;
        let framed = usize::try_from(self.framed)
            .map_err(|_| memory::exhausted(FileKind::Record, usize::MAX).at(at))?;
        let start = self.load(at, framed)?;
        self.pass();
        Ok(&self.window[start + HEADER_SIZE..start + framed - FOOTER_SIZE])
    }

    /// Goes past the record that was found; returns the length of its data.
    fn pass(&mut self) -> u64 {
        self.position += self.framed;
        self.framed - (HEADER_SIZE + FOOTER_SIZE) as u64
    }

    /// Searches for an intact record from an offset on, and moves there, or to the end.
    fn resume(
        &mut self,
        from: u64,
        cause: &str,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<u64>> {
        let mut at = from;
        while self.length - at >= (HEADER_SIZE + FOOTER_SIZE) as u64 {
            let size = (self.length - at).min(WINDOW_BYTES as u64) as usize;
            let start = self.load(at, size)?;
            let window = &self.window[start..start + size];
            let candidate = window
                .windows(HEADER_SIZE)
                .position(|bytes| self.may_be_header(at, bytes));
            let Some(index) = candidate else {
                at += (size - HEADER_SIZE + 1) as u64;
                continue;
            };
            at += index as u64;
            if let Probe::Intact(framed) = self.probe(at)? {
                self.skip(at, cause, skipped);
                return Ok(Some(framed));
            }
            if self.hash_budget == 0 {
                let cause =
                    format!("{cause}, and too much after it looks like a record and is none");
                self.skip(self.length, &cause, skipped);
                return Ok(None);
            }
            at += 1;
        }
        self.skip(self.length, cause, skipped);
        Ok(None)
    }

    /// Whether some bytes, which are not before `at`, are a header with a right checksum whose data fit into the file.
    fn may_be_header(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(header) = bytes.first_chunk::<HEADER_SIZE>() else {
            return false;
        };
        // Most random lengths are far too great; that is faster to test than a checksum.
        let stated = header
            .first_chunk()
            .map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        stated < self.length - at && frame::length(header).is_some()
    }

    /// Probes an offset.
    fn probe(&mut self, at: u64) -> Result<Probe> {
        let left = self.length - at;
        if left < HEADER_SIZE as u64 {
            return Ok(Probe::NoFrame("the file ends inside the header"));
        }
        let start = self.load(at, HEADER_SIZE)?;
        let header = self.window[start..].first_chunk().expect("it was loaded");
        let Some(length) = frame::length(header) else {
            return Ok(Probe::NoFrame("the checksum of the length is wrong"));
        };
        let Some(framed) = frame::framed_length(length).filter(|framed| *framed <= left) else {
            return Ok(Probe::NoFrame("the file ends inside the record"));
        };
        self.hash_budget = self.hash_budget.saturating_sub(framed);
        if framed <= WINDOW_BYTES as u64 {
            self.load(at, framed as usize)?;
        }
        // A long record is not held before it is known to be intact.
        let (mut from, mut sum) = (at + HEADER_SIZE as u64, 0);
        let end = at + framed - FOOTER_SIZE as u64;
        while from < end {
            let size = (end - from).min(WINDOW_BYTES as u64) as usize;
            let start = self.load(from, size)?;
            sum = crc::append(sum, &self.window[start..start + size]);
            from += size as u64;
        }
        let start = self.load(end, FOOTER_SIZE)?;
        let footer = self.window[start..].first_chunk().expect("it was loaded");
        Ok(match frame::is_checksum(sum, footer) {
            true => Probe::Intact(framed),
            false => Probe::BadData(at + framed),
        })
    }

    /// Skips damage up to a byte.
    fn skip(&mut self, to: u64, cause: &str, skipped: &mut Vec<Skipped>) {
        skipped.push(Skipped {
            from: self.position,
            to: Some(to),
            cause: cause.to_owned(),
        });
        self.position = to;
    }

    /// Loads a byte range of the file into the window; returns its offset there. The file must have as many bytes.
    fn load(&mut self, at: u64, count: usize) -> Result<usize> {
        let end = at + count as u64;
        let loaded = self.window_at..self.window_at + self.window.len() as u64;
        if at < loaded.start || end > loaded.end {
            let size = (self.length - at).min(WINDOW_BYTES.max(count) as u64) as usize;
            memory::resize(FileKind::Record, &mut self.window, size).map_err(|e| e.at(at))?;
            self.window_at = at;
            if let Err(e) = self.file.read_exact_at(at, &mut self.window) {
                self.window.clear();
                return Err(FormatError::io(FileKind::Record, "read it", e).at(at));
            }
        }
        Ok((at - self.window_at) as usize)
    }
}
