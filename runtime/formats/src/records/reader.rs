//! The sequential TFRecord reader (`RecordReader`).
//!
//! In: any byte stream. Out: records borrowed from one buffer, which grows only as bytes really arrive.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compression::{Compression, ExpectedCompression, Source};
use super::frame::{self, FOOTER_SIZE, HEADER_SIZE};
use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, SequentialFile};
use crate::memory;
use crate::storage::{self, Storage};

/// The options of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderOptions {
    /// How the file is compressed.
    pub compression: ExpectedCompression,
    /// The bytes of one read.
    pub buffer: usize,
    /// The maximum length of a record in bytes.
    pub max_length: u64,
    /// The meaning of a truncated file.
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

/// The meaning of a file that ends inside the header of a record, or of a compressed one that is truncated between two records. One
/// that ends after a header is always damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ending {
    /// The end, as in TensorFlow: it may still be written.
    #[default]
    Lenient,
    /// Damage.
    Strict,
}

/// A position to resume from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// The byte offset of a record; only in a file that is not compressed.
    Byte(u64),
    /// After this many records, which are read and checked again.
    Record(u64),
}

/// Reads records from a byte stream.
///
/// A record is borrowed until the next call, and nothing is allocated for it. After a failure, every further call fails in the
/// same way.
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
    /// The length of the file when it was opened, if it is not compressed.
    length: Option<u64>,
    pub(super) max_length: u64,
    min_buffer: usize,
    ending: Ending,
    buffer: Vec<u8>,
    /// The buffered bytes that are not consumed: from here,
    start: usize,
    /// to here.
    end: usize,
    /// The offset of `start` in the file, after decompression.
    position: u64,
    records: u64,
    /// Whether the compressed stream is truncated.
    truncated: bool,
    /// Why the source cannot be read any more.
    stopped: Option<String>,
}

impl RecordReader<SequentialFile> {
    /// Opens a file.
    pub fn open(path: &Path, options: &ReaderOptions) -> Result<RecordReader<SequentialFile>> {
        RecordReader::open_in(&storage::local(), path, options)
    }

    /// [`open`](RecordReader::open) in any storage.
    pub fn open_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        options: &ReaderOptions,
    ) -> Result<RecordReader<SequentialFile>> {
        RecordReader::from_byte(storage, path, 0, options)
    }

    /// Opens a file at a position to resume from.
    pub fn open_at(
        path: &Path,
        position: Position,
        options: &ReaderOptions,
    ) -> Result<RecordReader<SequentialFile>> {
        RecordReader::open_at_in(&storage::local(), path, position, options)
    }

    /// [`open_at`](RecordReader::open_at) in any storage.
    pub fn open_at_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        position: Position,
        options: &ReaderOptions,
    ) -> Result<RecordReader<SequentialFile>> {
        let byte = match position {
            Position::Record(count) => {
                let mut reader = RecordReader::open_in(storage, path, options)?;
                reader.skip(count)?;
                return Ok(reader);
            }
            Position::Byte(byte) => byte,
        };
        let reader = RecordReader::open_in(storage, path, options)?;
        if reader.compression() != Compression::None {
            let cause = "a compressed file is resumed after a number of records, not at a byte";
            return Err(FormatError::invalid(FileKind::Record, cause).in_file(path));
        }
        if reader.length.is_some_and(|length| byte > length) {
            let cause = "the position is past the end of the file";
            let error = FormatError::new(Code::OutOfRange, FileKind::Record, cause);
            return Err(error.at(byte).in_file(path));
        }
        let options = ReaderOptions {
            compression: ExpectedCompression::Is(Compression::None),
            ..*options
        };
        RecordReader::from_byte(storage, path, byte, &options)
    }

    fn from_byte(
        storage: &Arc<dyn Storage>,
        path: &Path,
        byte: u64,
        options: &ReaderOptions,
    ) -> Result<RecordReader<SequentialFile>> {
        let file = files::open_in(storage, FileKind::Record, path)?;
        let length = file.length().ok();
        let file = SequentialFile::at(file, byte);
        let mut reader = RecordReader::new(file, options).map_err(|e| e.in_file(path))?;
        if reader.compression() == Compression::None {
            reader.length = length;
        }
        reader.position = byte;
        reader.path = Some(path.to_owned());
        Ok(reader)
    }
}

impl<R: Read> RecordReader<R> {
    /// Reads records from a stream.
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

    /// Reads records from a stream that is not compressed and begins at a byte offset of its file, after as many records.
    pub fn resume(
        inner: R,
        position: u64,
        records: u64,
        options: &ReaderOptions,
    ) -> Result<RecordReader<R>> {
        let options = ReaderOptions {
            compression: ExpectedCompression::Is(Compression::None),
            ..*options
        };
        let mut reader = RecordReader::new(inner, &options)?;
        (reader.position, reader.records) = (position, records);
        Ok(reader)
    }

    /// The next record; `None` at the end.
    #[allow(clippy::should_implement_trait)] // it borrows, and can fail
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let Some(framed) = self.peek()? else {
            return Ok(None);
        };
        let start = self.start + HEADER_SIZE;
        self.start += framed;
        self.position += framed as u64;
        self.records += 1;
        Ok(Some(&self.buffer[start..self.start - FOOTER_SIZE]))
    }

    /// Reads and checks the next record without consuming it; returns the size of its frame, or `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<usize>> {
        let Some(length) = self.next_length()? else {
            return Ok(None);
        };
        let Some(framed) = self.framed(length)? else {
            return Err(self.cut(length, (self.end - self.start) as u64));
        };
        if self.end - self.start < framed && !self.ensure(framed)? {
            return Err(self.cut(length, (self.end - self.start) as u64));
        }
        let frame = &self.buffer[self.start + HEADER_SIZE..self.start + framed];
        let (data, footer) = frame.split_last_chunk().expect("a checksum follows");
        match frame::is_intact(data, footer) {
            true => Ok(Some(framed)),
            false => Err(self.damaged("the checksum of the data is wrong")),
        }
    }

    /// Passes over the next record if it is framed as it should be and the checksum of its data is wrong; gives that error. Otherwise
    /// nothing is consumed: [`next`](RecordReader::next) gives the record, the end or the failure.
    ///
    /// ```
    /// use trainspec_formats::records::{RecordReader, RecordWriter};
    ///
    /// # fn main() -> trainspec_formats::Result<()> {
    /// let mut writer = RecordWriter::new(Vec::new(), &Default::default());
    /// writer.write(b"first")?;
    /// writer.write(b"second")?;
    /// let mut bytes = writer.finish()?;
    /// bytes[12] ^= 1;
    /// let mut reader = RecordReader::new(bytes.as_slice(), &Default::default())?;
    /// assert!(reader.skip_damaged().is_some());
    /// assert!(reader.skip_damaged().is_none());
    /// assert_eq!(reader.next()?, Some(&b"second"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn skip_damaged(&mut self) -> Option<FormatError> {
        let error = self.peek().err()?;
        let length = self.next_length().ok()??;
        let framed = self.framed(length).ok()??;
        if self.end - self.start < framed {
            return None;
        }
        self.start += framed;
        self.position += framed as u64;
        self.records += 1;
        Some(error)
    }

    /// Checks the next record without holding it, whatever its length; returns that length, or `None` at the end.
    ///
    /// ```
    /// use trainspec_formats::records::{ReaderOptions, RecordReader, RecordWriter};
    ///
    /// # fn main() -> trainspec_formats::Result<()> {
    /// let mut writer = RecordWriter::new(Vec::new(), &Default::default());
    /// writer.write(b"first")?;
    /// let bytes = writer.finish()?;
    /// let options = ReaderOptions { max_length: 4, ..Default::default() };
    /// let mut reader = RecordReader::new(bytes.as_slice(), &options)?;
    /// assert!(reader.next().is_err());
    /// assert_eq!(reader.check_next()?, Some(5));
    /// assert_eq!(reader.check_next()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_next(&mut self) -> Result<Option<u64>> {
        let Some(length) = self.next_length()? else {
            return Ok(None);
        };
        let left_of_file = self.length.map(|all| all.saturating_sub(self.position));
        let framed = frame::framed_length(length)
            .filter(|framed| left_of_file.is_none_or(|left| *framed <= left))
            .ok_or_else(|| self.cut(length, (self.end - self.start) as u64))?;
        self.start += HEADER_SIZE;
        let checked = self.check_data(length);
        if let Err(e) = checked {
            // The next record is not known.
            (self.start, self.end) = (0, 0);
            self.stopped.get_or_insert_with(|| e.cause.clone());
            return Err(e);
        }
        self.position += framed;
        self.records += 1;
        Ok(Some(length))
    }

    /// Reads the data of a record and its checksum, and compares them.
    fn check_data(&mut self, length: u64) -> Result<()> {
        let there = |left: u64| HEADER_SIZE as u64 + length - left;
        let (mut left, mut sum) = (length, 0);
        while left > 0 {
            if self.start == self.end && !self.ensure(1)? {
                return Err(self.cut(length, there(left)));
            }
            let count = left.min((self.end - self.start) as u64) as usize;
            sum = crc::append(sum, &self.buffer[self.start..self.start + count]);
            self.start += count;
            left -= count as u64;
        }
        if self.end - self.start < FOOTER_SIZE && !self.ensure(FOOTER_SIZE)? {
            let held = there(0) + (self.end - self.start) as u64;
            return Err(self.cut(length, held));
        }
        let footer = self.buffer[self.start..].first_chunk();
        let is_intact = frame::is_checksum(sum, footer.expect("there are as many"));
        self.start += FOOTER_SIZE;
        match is_intact {
            true => Ok(()),
            false => Err(self.damaged("the checksum of the data is wrong")),
        }
    }

    /// The length that the next header states; `None` at the end.
    #[inline]
    pub(super) fn next_length(&mut self) -> Result<Option<u64>> {
        if !self.has_next()? {
            return Ok(None);
        }
        let waiting = &self.buffer[self.start..self.end];
        let header = waiting.first_chunk().expect("there are as many");
        match frame::length(header) {
            Some(length) => Ok(Some(length)),
            None => Err(self.damaged("the checksum of the length is wrong")),
        }
    }

    /// Whether a header comes next.
    #[inline]
    pub(super) fn has_next(&mut self) -> Result<bool> {
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

    /// Skips records, which are checked all the same.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        for passed in 0..count {
            if self.next()?.is_none() {
                let cause = format!("{count} records were to be skipped, and there are {passed}");
                let error = FormatError::new(Code::OutOfRange, FileKind::Record, cause);
                return Err(self.located(error));
            }
        }
        Ok(())
    }

    /// The offset of the next record, in bytes after decompression.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes read from the source, before decompression: the progress of reading.
    pub fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// The number of records read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The number of buffered bytes that are not consumed. At the end they are a truncated header.
    pub fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Compression {
        self.source.compression()
    }

    /// The size of a record's frame; `None` if the file is shorter.
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
        // A size that overflows `usize` is not in a file either, or the file is refused.
        Ok(usize::try_from(framed).ok())
    }

    /// Reads until `count` bytes are buffered; false if there are not as many.
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
                // A length may be hostile: the buffer grows to at most twice the bytes that arrived.
                let size = self
                    .buffer
                    .len()
                    .saturating_mul(2)
                    .min(count)
                    .max(self.min_buffer);
                let resized = memory::resize(FileKind::Record, &mut self.buffer, size);
                resized.map_err(|e| self.located(e))?;
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

    /// Whether a failure to read means that the compressed stream is truncated.
    fn is_truncation(&self, error: &io::Error) -> bool {
        self.compression() != Compression::None && error.kind() == io::ErrorKind::UnexpectedEof
    }

    /// Stops reading from the source.
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

    fn cut(&self, length: u64, there: u64) -> FormatError {
        self.damaged(format!(
            "the file ends inside a record of {length} bytes; {there} bytes of its frame are there"
        ))
    }

    fn damaged(&self, cause: impl Into<String>) -> FormatError {
        self.located(FormatError::data_loss(FileKind::Record, cause))
    }

    fn located(&self, mut error: FormatError) -> FormatError {
        if error.offset.is_none() {
            error.offset = Some(self.position);
            if self.compression() != Compression::None {
                error.cause += " (the offset is that of the decompressed stream)";
            }
        }
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
