//! The TFRecord writer (`RecordWriter`, `tf.io.TFRecordWriter`).
//!
//! In: the bytes of records. Out: a file that is written as it goes, or one that replaces another when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::write::{GzEncoder, ZlibEncoder};

use super::compression::Compression;
use super::frame;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{Durability, Replacement};
use crate::storage::{self, Storage, WriteFile};

/// The options of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// How the file is compressed.
    pub compression: Compression,
    /// The compression level, from 0 (stored) to 9; `None` for zlib's default.
    pub level: Option<u32>,
    /// The size of the write buffer in bytes.
    pub buffer: usize,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            compression: Compression::None,
            level: None,
            buffer: 256 << 10,
        }
    }
}

/// Writes records to a byte sink.
///
/// A file is complete after [`finish`](RecordWriter::finish), [`close`](RecordWriter::close) or [`commit`](RecordWriter::commit),
/// which say what went wrong; dropping a writer says nothing. After a failure nothing more is written, since part of a frame may
/// be in the file.
///
/// ```no_run
/// use trainspec_formats::files::Durability;
/// use trainspec_formats::records::{Compression, RecordWriter, WriterOptions};
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let options = WriterOptions { compression: Compression::Gzip, ..Default::default() };
/// let mut writer = RecordWriter::replacing("train.tfrecord.gz".as_ref(), &options)?;
/// writer.write(b"a record")?;
/// writer.commit(Durability::Synced)?;
/// # Ok(())
/// # }
/// ```
pub struct RecordWriter<W: Write> {
    sink: Sink<W>,
    path: Option<PathBuf>,
    position: u64,
    records: u64,
    failed: bool,
}

enum Sink<W: Write> {
    Plain(BufWriter<W>),
    Gzip(GzEncoder<BufWriter<W>>),
    Zlib(ZlibEncoder<BufWriter<W>>),
}

impl RecordWriter<Box<dyn WriteFile>> {
    /// Creates or truncates a file. What is written and flushed is in it, whatever happens later.
    pub fn create(
        path: &Path,
        options: &WriterOptions,
    ) -> Result<RecordWriter<Box<dyn WriteFile>>> {
        RecordWriter::create_in(&storage::local(), path, options)
    }

    /// [`create`](RecordWriter::create) in any storage.
    pub fn create_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        options: &WriterOptions,
    ) -> Result<RecordWriter<Box<dyn WriteFile>>> {
        let file = storage
            .create(path)
            .map_err(|e| FormatError::io(FileKind::Record, "create it", e).in_file(path))?;
        Ok(RecordWriter {
            path: Some(path.to_owned()),
            ..RecordWriter::new(file, options)
        })
    }

    /// Flushes the buffer and syncs the file to the disk.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let synced = self.sink.inner_mut().sync();
        self.checked_io("write it", synced)
    }

    /// Completes the file.
    pub fn close(self, durability: Durability) -> Result<()> {
        let path = self.path.clone().unwrap_or_default();
        let mut file = self.finish()?;
        match durability {
            Durability::Synced => file
                .sync()
                .map_err(|e| FormatError::io(FileKind::Record, "write it", e).in_file(path)),
            Durability::Unsynced => Ok(()),
        }
    }
}

impl RecordWriter<Replacement> {
    /// Starts a file that replaces another when it is complete; until then, what is there stays.
    pub fn replacing(path: &Path, options: &WriterOptions) -> Result<RecordWriter<Replacement>> {
        RecordWriter::replacing_in(&storage::local(), path, options)
    }

    /// [`replacing`](RecordWriter::replacing) in any storage.
    pub fn replacing_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        options: &WriterOptions,
    ) -> Result<RecordWriter<Replacement>> {
        let file = Replacement::create_in(storage, FileKind::Record, path)?;
        Ok(RecordWriter {
            path: Some(path.to_owned()),
            ..RecordWriter::new(file, options)
        })
    }

    /// Completes the file and renames it to its final name.
    pub fn commit(self, durability: Durability) -> Result<()> {
        self.finish()?.commit(durability)
    }
}

impl<W: Write> RecordWriter<W> {
    /// Writes records to a sink.
    pub fn new(inner: W, options: &WriterOptions) -> RecordWriter<W> {
        let inner = BufWriter::with_capacity(options.buffer, inner);
        let level = match options.level {
            Some(level) => flate2::Compression::new(level.min(9)),
            None => flate2::Compression::default(),
        };
        RecordWriter {
            sink: match options.compression {
                Compression::None => Sink::Plain(inner),
                Compression::Gzip => Sink::Gzip(GzEncoder::new(inner, level)),
                Compression::Zlib => Sink::Zlib(ZlibEncoder::new(inner, level)),
            },
            path: None,
            position: 0,
            records: 0,
            failed: false,
        }
    }

    /// Appends a record.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        self.usable()?;
        let length = data.len() as u64;
        let written = (|| {
            self.sink.write_all(&frame::header(length))?;
            self.sink.write_all(data)?;
            self.sink.write_all(&frame::footer(data))
        })();
        self.checked_io("write it", written)?;
        self.position += length + (frame::HEADER_SIZE + frame::FOOTER_SIZE) as u64;
        self.records += 1;
        Ok(())
    }

    /// Flushes the buffer, so that others can read it. Of a compressed file, a reader sees all records up to here, but each flush
    /// costs some bytes.
    pub fn flush(&mut self) -> Result<()> {
        self.usable()?;
        let flushed = match &mut self.sink {
            Sink::Plain(inner) => inner.flush(),
            Sink::Gzip(inner) => inner.flush(),
            Sink::Zlib(inner) => inner.flush(),
        };
        self.checked_io("write it", flushed)
    }

    /// Completes the stream and returns the sink.
    pub fn finish(self) -> Result<W> {
        self.usable()?;
        let fail = |e| match &self.path {
            Some(path) => FormatError::io(FileKind::Record, "write it", e).in_file(path),
            None => FormatError::io(FileKind::Record, "write it", e),
        };
        let inner = match self.sink {
            Sink::Plain(inner) => Ok(inner),
            Sink::Gzip(inner) => inner.finish(),
            Sink::Zlib(inner) => inner.finish(),
        };
        inner
            .and_then(|inner| inner.into_inner().map_err(|e| e.into_error()))
            .map_err(fail)
    }

    /// The offset of the next record, in bytes before compression.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of records written.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn usable(&self) -> Result<()> {
        match self.failed {
            false => Ok(()),
            true => Err(self.located(FormatError::new(
                Code::FailedPrecondition,
                FileKind::Record,
                "writing failed before, and the file may end inside a record",
            ))),
        }
    }

    fn checked_io(&mut self, doing: &str, done: io::Result<()>) -> Result<()> {
        done.map_err(|e| {
            self.failed = true;
            self.located(FormatError::io(FileKind::Record, doing, e).at(self.position))
        })
    }

    fn located(&self, error: FormatError) -> FormatError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

impl<W: Write> Sink<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(inner) => inner.write_all(bytes),
            Sink::Gzip(inner) => inner.write_all(bytes),
            Sink::Zlib(inner) => inner.write_all(bytes),
        }
    }

    fn inner_mut(&mut self) -> &mut W {
        match self {
            Sink::Plain(inner) => inner.get_mut(),
            Sink::Gzip(inner) => inner.get_mut().get_mut(),
            Sink::Zlib(inner) => inner.get_mut().get_mut(),
        }
    }
}

impl<W: Write> std::fmt::Debug for RecordWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordWriter")
            .field("path", &self.path)
            .field("position", &self.position)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}
