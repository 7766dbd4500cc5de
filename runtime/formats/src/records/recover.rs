//! Recovery of damaged record files: resynchronization at the next frame with two valid checksums.
//!
//! In: a file. Out: every record that is intact, and what was skipped. After damage, reading resumes at the next offset where both
//! checksums of a record are right. Leaves alone: compressed files after the first damage, which cannot be resynchronized.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::compression::{Compression, ExpectedCompression};
use super::frame::{self, FOOTER_SIZE, HEADER_SIZE};
use super::reader::{Ending, ReaderOptions, RecordReader};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, ReadAt};

/// The bytes of one read.
const WINDOW_BYTES: usize = 256 << 10;

/// The maximum length of a record that is recovered.
const MAX_RECORD_BYTES: u64 = 1 << 30;

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
pub struct Recovering<R = File> {
    source: Source<R>,
    path: Option<PathBuf>,
    records: u64,
    skipped: Vec<Skipped>,
}

#[derive(Debug)]
enum Source<R> {
    Plain(Plain<R>),
    Compressed(Box<RecordReader<File>>),
    Ended,
}

impl Recovering<File> {
    /// Opens a file, compressed or not. Fails where it cannot be opened or read.
    pub fn open(path: &Path) -> Result<Recovering<File>> {
        let options = ReaderOptions {
            compression: ExpectedCompression::Detect,
            ending: Ending::Strict,
            ..ReaderOptions::default()
        };
        let reader = RecordReader::open(path, &options)?;
        let mut recovering = match reader.compression() {
            Compression::None => Recovering::new(files::open(FileKind::Record, path)?)?,
            Compression::Gzip | Compression::Zlib => Recovering {
                source: Source::Compressed(Box::new(reader)),
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
    /// can fail.
    #[allow(clippy::should_implement_trait)] // it borrows, and can fail
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let (skipped, path) = (&mut self.skipped, &self.path);
        if let Source::Compressed(reader) = &mut self.source {
            // An intact record stays in the buffer of the reader and is returned below.
            match reader.peek() {
                Ok(Some(_)) => {}
                Ok(None) => self.source = Source::Ended,
                Err(e) if matches!(e.code, Code::DataLoss | Code::ResourceExhausted) => {
                    skipped.push(Skipped {
                        from: reader.position(),
                        to: None,
                        cause: e.cause,
                    });
                    self.source = Source::Ended;
                }
                Err(e) => return Err(e),
            }
        }
        let record = match &mut self.source {
            Source::Plain(plain) => plain.next(skipped).map_err(|e| match path {
                Some(path) => e.in_file(path),
                None => e,
            })?,
            Source::Compressed(reader) => reader.next()?,
            Source::Ended => None,
        };
        self.records += u64::from(record.is_some());
        Ok(record)
    }

    /// The ranges skipped so far, in order.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The number of bytes read from the file: the progress of reading.
    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            Source::Plain(plain) => plain.position,
            Source::Compressed(reader) => reader.bytes_read(),
            Source::Ended => 0,
        }
    }

    /// The number of records read.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// A file that is not compressed, with a window of it in memory.
#[derive(Debug)]
struct Plain<R> {
    file: R,
    length: u64,
    position: u64,
    window: Vec<u8>,
    window_at: u64,
    /// The number of bytes that may still be hashed in search of records.
    hash_budget: u64,
}

/// The result of probing an offset for a frame.
enum Probe {
    /// An intact record, whose frame takes this many bytes.
    Intact(usize),
    /// A frame with a valid header whose data are damaged; it ends at this byte.
    BadData(u64),
    /// No frame, and why.
    NoFrame(&'static str),
}

impl<R: ReadAt> Plain<R> {
    /// The data of the next intact record; lists what is skipped before it.
    fn next(&mut self, skipped: &mut Vec<Skipped>) -> Result<Option<&[u8]>> {
        if self.position == self.length {
            return Ok(None);
        }
        let framed = loop {
            let (from, cause) = match self.probe(self.position)? {
                Probe::Intact(framed) => break framed,
                Probe::NoFrame(cause) => (self.position + 1, cause),
                Probe::BadData(end) => {
                    let cause = "the checksum of the data is wrong";
                    // What follows the frame is probed first: damaged data may contain records.
                    if end == self.length || !matches!(self.probe(end)?, Probe::NoFrame(_)) {
                        self.skip(end, cause, skipped);
                        if end == self.length {
                            return Ok(None);
                        }
                        continue;
                    }
                    (self.position + 1, cause)
                }
            };
            match self.resume(from, cause, skipped)? {
                Some(framed) => break framed,
                None => return Ok(None),
            }
        };
        let start = self.load(self.position, framed)?;
        self.position += framed as u64;
        Ok(Some(
            &self.window[start + HEADER_SIZE..start + framed - FOOTER_SIZE],
        ))
    }

    /// Searches for an intact record from an offset on, and moves there, or to the end.
    fn resume(
        &mut self,
        from: u64,
        cause: &str,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<usize>> {
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
        if length > MAX_RECORD_BYTES {
            return Ok(Probe::NoFrame(
                "the record is longer than any that is recovered",
            ));
        }
        let framed = frame::framed_length(length).filter(|framed| *framed <= left);
        let Some(framed) = framed.and_then(|framed| usize::try_from(framed).ok()) else {
            return Ok(Probe::NoFrame("the file ends inside the record"));
        };
        self.hash_budget = self.hash_budget.saturating_sub(framed as u64);
        let start = self.load(at, framed)?;
        let frame = &self.window[start + HEADER_SIZE..start + framed];
        let (data, footer) = frame.split_last_chunk().expect("a checksum follows");
        Ok(match frame::is_intact(data, footer) {
            true => Probe::Intact(framed),
            false => Probe::BadData(at + framed as u64),
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
            self.window.resize(size, 0);
            self.window_at = at;
            if let Err(e) = self.file.read_exact_at(at, &mut self.window) {
                self.window.clear();
                return Err(FormatError::io(FileKind::Record, "read it", e).at(at));
            }
        }
        Ok((at - self.window_at) as usize)
    }
}
