//! A sequential reader of several record files (shards), resumable at any record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{Position, ReaderOptions, RecordReader};
use super::shards;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::SequentialFile;
use crate::storage::{self, Storage};

/// The position of a [`MultiFileReader`], to resume from later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ResumePoint {
    /// The index of the file.
    pub file: usize,
    /// The number of records read of it.
    pub records: u64,
    /// The offset of the next record, if the file is not compressed.
    pub byte: Option<u64>,
}

/// Reads the records of several files in order.
///
/// A file is opened when it is reached. After a failure, every further call fails in the same way.
#[derive(Debug)]
pub struct MultiFileReader {
    storage: Arc<dyn Storage>,
    files: Vec<PathBuf>,
    options: ReaderOptions,
    file: usize,
    open: Option<RecordReader<SequentialFile>>,
    /// The position at which the next file is opened.
    entry: ResumePoint,
}

impl MultiFileReader {
    /// Reads these files.
    pub fn new(files: Vec<PathBuf>, options: &ReaderOptions) -> MultiFileReader {
        MultiFileReader::new_in(&storage::local(), files, options)
    }

    /// [`new`](MultiFileReader::new) in any storage.
    pub fn new_in(
        storage: &Arc<dyn Storage>,
        files: Vec<PathBuf>,
        options: &ReaderOptions,
    ) -> MultiFileReader {
        MultiFileReader {
            storage: Arc::clone(storage),
            files,
            options: *options,
            file: 0,
            open: None,
            entry: ResumePoint::default(),
        }
    }

    /// Reads the files that names, shard specs and glob patterns expand to, in this order; see [`expand`](super::expand).
    pub fn expand(names: &[&str], options: &ReaderOptions) -> Result<MultiFileReader> {
        MultiFileReader::expand_in(&storage::local(), names, options)
    }

    /// [`expand`](MultiFileReader::expand) in any storage.
    pub fn expand_in(
        storage: &Arc<dyn Storage>,
        names: &[&str],
        options: &ReaderOptions,
    ) -> Result<MultiFileReader> {
        let mut files = Vec::new();
        for name in names {
            files.extend(shards::expand_in(storage, name)?);
        }
        Ok(MultiFileReader::new_in(storage, files, options))
    }

    /// The files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The file that is being read; `None` at the end.
    pub fn current(&self) -> Option<&Path> {
        self.files.get(self.file).map(PathBuf::as_path)
    }

    /// The next record; `None` after the last file.
    #[allow(clippy::should_implement_trait)] // it borrows, and can fail
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        while self.file < self.files.len() {
            if self.open.is_none() {
                self.open = Some(self.begin()?);
            }
            let reader = self.open.as_mut().expect("it was opened");
            if reader.has_next()? {
                break;
            }
            self.open = None;
            self.file += 1;
            self.entry = ResumePoint {
                file: self.file,
                ..ResumePoint::default()
            };
        }
        match &mut self.open {
            Some(reader) => reader.next(),
            None => Ok(None),
        }
    }

    /// The current position.
    pub fn resume_point(&self) -> ResumePoint {
        match &self.open {
            None => self.entry,
            Some(reader) => ResumePoint {
                file: self.file,
                records: self.entry.records + reader.records(),
                byte: match reader.compression() {
                    super::Compression::None => Some(reader.position()),
                    _ => None,
                },
            },
        }
    }

    /// Resumes at a position.
    pub fn seek(&mut self, point: ResumePoint) -> Result<()> {
        if point.file > self.files.len() {
            let cause = format!(
                "there are {} files, and reading is to go on in number {}",
                self.files.len(),
                point.file
            );
            return Err(FormatError::new(Code::OutOfRange, FileKind::Record, cause));
        }
        self.file = point.file;
        self.entry = point;
        self.open = None;
        Ok(())
    }

    /// Opens the next file at its position.
    fn begin(&mut self) -> Result<RecordReader<SequentialFile>> {
        let (storage, path) = (&self.storage, &self.files[self.file]);
        match self.entry {
            ResumePoint { byte: Some(0), .. }
            | ResumePoint {
                records: 0,
                byte: None,
                ..
            } => {
                self.entry.records = 0;
                RecordReader::open_in(storage, path, &self.options)
            }
            ResumePoint {
                byte: Some(byte), ..
            } => RecordReader::open_at_in(storage, path, Position::Byte(byte), &self.options),
            ResumePoint { records, .. } => {
                // These are counted by the reader itself.
                let position = Position::Record(records);
                let reader = RecordReader::open_at_in(storage, path, position, &self.options)?;
                self.entry.records = 0;
                Ok(reader)
            }
        }
    }
}
