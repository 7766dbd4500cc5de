//! Reading records one after the other.
//!
//! In: anything that can be read. Out: records borrowed from one buffer, which grows only as bytes really arrive.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::compression::{Compression, ExpectedCompression, Source};
use super::frame::{self, FOOTER_SIZE, HEADER_SIZE};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files;

/// What a reader expects and allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderOptions {
    /// How the file is compressed.
    pub compression: ExpectedCompression,
    /// How many bytes are read at once.
    pub buffer: usize,
    /// The longest record that is read, in bytes.
    pub max_length: u64,
    /// What a file is that ends where none should.
    pub ending: Ending,
}

impl Default for ReaderOptions {
    fn default() -> ReaderOptions {
        ReaderOptions {
            compression: ExpectedCompression::Detect,
            buffer: 256 << 10,
            max_length: 1 << 30,
            ending: Ending::Lenient,
        }
    }
}

/// What a file is that ends inside the header of a record, or a compressed one that stops between two records. One that ends
/// behind a header is always damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ending {
    /// At its end, as in TensorFlow: whoever writes it may not be done.
    #[default]
    Lenient,
    /// Damaged.
    Strict,
}

/// Where reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// At a byte where a record begins; only in a file that is not compressed.
    Byte(u64),
    /// Behind so many records, which are read and checked again.
    Record(u64),
}

/// Reads records from anything that can be read.
///
/// A record is borrowed until the next is asked for, and nothing is allocated for it. After a failure, the same question has the
/// same answer.
///
/// ```no_run
/// use trainspec_formats::records::RecordReader;
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let mut reader = RecordReader::open("train.tfrecord".as_ref(), &Default::default())?;
/// while let Some(record) = reader.next()? {
///     println!("{} bytes", record.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct RecordReader<R> {
    source: Source<R>,
    path: Option<PathBuf>,
    /// How many bytes the file had when it was opened, where they are the bytes that are read.
    length: Option<u64>,
    max_length: u64,
    min_buffer: usize,
    ending: Ending,
    buffer: Vec<u8>,
    /// What is read and not yet given out: from here,
    start: usize,
    /// to here.
    end: usize,
    /// Where `start` is in the file, after decompression.
    position: u64,
    records: u64,
    /// Whether the compressed stream ended too early.
    truncated: bool,
    /// Why the source cannot be asked again.
    stopped: Option<String>,
}

impl RecordReader<File> {
    /// Opens a file.
    pub fn open(path: &Path, options: &ReaderOptions) -> Result<RecordReader<File>> {
        RecordReader::over(files::open(FileKind::Record, path)?, path, options)
    }

    /// Opens a file where reading stopped before.
    pub fn open_at(
        path: &Path,
        position: Position,
        options: &ReaderOptions,
    ) -> Result<RecordReader<File>> {
        let byte = match position {
            Position::Record(count) => {
                let mut reader = RecordReader::open(path, options)?;
                reader.skip(count)?;
                return Ok(reader);
            }
            Position::Byte(byte) => byte,
        };
        let reader = RecordReader::open(path, options)?;
        if reader.compression() != Compression::None {
            let cause =
                "reading a compressed file goes on behind a number of records, not at a byte";
            return Err(FormatError::invalid(FileKind::Record, cause).in_file(path));
        }
        if reader.length.is_some_and(|length| byte > length) {
            let cause = "the position is behind the end of the file";
            let error = FormatError::new(Code::OutOfRange, FileKind::Record, cause);
            return Err(error.at(byte).in_file(path));
        }
        let mut file = files::open(FileKind::Record, path)?;
        file.seek(SeekFrom::Start(byte))
            .map_err(|e| FormatError::io(FileKind::Record, "read it", e).in_file(path))?;
        let options = ReaderOptions {
            compression: ExpectedCompression::Is(Compression::None),
            ..*options
        };
        let mut reader = RecordReader::over(file, path, &options)?;
        reader.position = byte;
        Ok(reader)
    }

    fn over(file: File, path: &Path, options: &ReaderOptions) -> Result<RecordReader<File>> {
        let length = file.metadata().ok().filter(|about| about.is_file());
        let mut reader = RecordReader::new(file, options).map_err(|e| e.in_file(path))?;
        if reader.compression() == Compression::None {
            reader.length = length.map(|about| about.len());
        }
        reader.path = Some(path.to_owned());
        Ok(reader)
    }
}

impl<R: Read> RecordReader<R> {
    /// Reads records from here on.
    pub fn new(inner: R, options: &ReaderOptions) -> Result<RecordReader<R>> {
        let min_buffer = options.buffer.max(HEADER_SIZE + FOOTER_SIZE);
        Ok(RecordReader {
            source: Source::new(options.compression, inner, min_buffer)?,
            path: None,
            length: None,
            max_length: options.max_length,
            min_buffer,
            ending: options.ending,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            position: 0,
            records: 0,
            truncated: false,
            stopped: None,
        })
    }

    /// The next record; nothing at the end.
    #[allow(clippy::should_implement_trait)] // it borrows, and can fail
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let Some(framed) = self.look()? else {
            return Ok(None);
        };
        let start = self.start + HEADER_SIZE;
        self.start += framed;
        self.position += framed as u64;
        self.records += 1;
        Ok(Some(&self.buffer[start..self.start - FOOTER_SIZE]))
    }

    /// Reads and checks the next record, which stays where it is; how many bytes its frame takes, or nothing at the end.
    pub(super) fn look(&mut self) -> Result<Option<usize>> {
        if !self.goes_on()? {
            return Ok(None);
        }
        let waiting = &self.buffer[self.start..self.end];
        let header = waiting.first_chunk().expect("there are as many");
        let Some(length) = frame::length(header) else {
            return Err(self.damaged("the checksum of the length is wrong"));
        };
        let Some(framed) = self.framed(length)? else {
            return Err(self.cut(length));
        };
        if self.end - self.start < framed && !self.ensure(framed)? {
            return Err(self.cut(length));
        }
        let frame = &self.buffer[self.start + HEADER_SIZE..self.start + framed];
        let (data, footer) = frame.split_last_chunk().expect("a checksum follows");
        match frame::is_intact(data, footer) {
            true => Ok(Some(framed)),
            false => Err(self.damaged("the checksum of the data is wrong")),
        }
    }

    /// Whether a header comes next.
    #[inline]
    pub(super) fn goes_on(&mut self) -> Result<bool> {
        if self.end - self.start >= HEADER_SIZE || self.ensure(HEADER_SIZE)? {
            return Ok(true);
        }
        match (self.ending, self.end - self.start) {
            (Ending::Lenient, _) => Ok(false),
            (Ending::Strict, 0) if !self.truncated => Ok(false),
            (Ending::Strict, 0) => Err(self.damaged("the compressed stream is cut off")),
            (Ending::Strict, _) => Err(self.damaged("the file ends inside the header")),
        }
    }

    /// Passes over records, which are checked all the same.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        for passed in 0..count {
            if self.next()?.is_none() {
                let cause =
                    format!("{count} records were to be passed over, and there are {passed}");
                let error = FormatError::new(Code::OutOfRange, FileKind::Record, cause);
                return Err(self.located(error));
            }
        }
        Ok(())
    }

    /// Where the next record begins, counted in bytes after decompression.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes were taken from the source, before decompression: how far the reading is.
    pub fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// How many records were read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many bytes were read that are not given out yet. At the end they are the beginning of a header that is not all there.
    pub fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Compression {
        self.source.compression()
    }

    /// The size of the whole frame of a record; nothing if the file is shorter.
    fn framed(&self, length: u64) -> Result<Option<usize>> {
        let framed = frame::framed_length(length);
        let Some(framed) = framed.filter(|_| length <= self.max_length) else {
            if self
                .length
                .is_some_and(|all| length > all.saturating_sub(self.position))
            {
                return Ok(None);
            }
            let cause = format!(
                "a record of {length} bytes is longer than the {} that are allowed",
                self.max_length
            );
            let error = FormatError::new(Code::ResourceExhausted, FileKind::Record, cause);
            return Err(self.located(error));
        };
        // What does not fit into memory is not in a file either, or the file is refused.
        Ok(usize::try_from(framed).ok())
    }

    /// Reads until so many bytes wait; false if there are not as many.
    #[cold]
    fn ensure(&mut self, count: usize) -> Result<bool> {
        if let Some(cause) = &self.stopped {
            let cause = format!("reading stopped before: {cause}");
            let error = FormatError::new(Code::FailedPrecondition, FileKind::Record, cause);
            return Err(self.located(error));
        }
        if self.truncated {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end < count {
            if self.end == self.buffer.len() {
                // A length may be hostile: the buffer grows to twice of what there really is.
                let size = self
                    .buffer
                    .len()
                    .saturating_mul(2)
                    .min(count)
                    .max(self.min_buffer);
                self.buffer.resize(size, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(e) if self.is_truncation(&e) => {
                    self.truncated = true;
                    return Ok(false);
                }
                Err(e) => return Err(self.stop(e)),
            }
        }
        Ok(true)
    }

    /// Whether a failure to read means that the compressed stream ended too early.
    fn is_truncation(&self, error: &io::Error) -> bool {
        self.compression() != Compression::None && error.kind() == io::ErrorKind::UnexpectedEof
    }

    /// The source is not asked again.
    fn stop(&mut self, error: io::Error) -> FormatError {
        self.stopped = Some(error.to_string());
        let damaged = matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        );
        let mut failure = FormatError::io(FileKind::Record, "read it", error);
        if damaged && self.compression() != Compression::None {
            failure.code = Code::DataLoss;
            failure.cause = "the compressed stream is damaged".to_owned();
        }
        self.located(failure)
    }

    fn cut(&self, length: u64) -> FormatError {
        self.damaged(format!(
            "the file ends inside a record of {length} bytes; {} bytes of its frame are there",
            self.end - self.start
        ))
    }

    fn damaged(&self, cause: impl Into<String>) -> FormatError {
        self.located(FormatError::data_loss(FileKind::Record, cause))
    }

    fn located(&self, error: FormatError) -> FormatError {
        let error = error.at(self.position);
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

impl<R> std::fmt::Debug for RecordReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordReader")
            .field("path", &self.path)
            .field("position", &self.position)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}
