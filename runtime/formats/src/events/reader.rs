//! The reader of one event file, which may still grow (`summary_iterator`).
//!
//! In: a file. Out: events in order, each with its offset. Memory holds one record at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use crate::error::{FileKind, FormatError, Result};
use crate::events::frames::FrameReader;
use crate::files::{self, ReadAt};
use crate::proto::Event;
use crate::records;
use crate::storage::{self, Storage};

/// The size of a record's header in bytes.
const HEADER_SIZE: u64 = records::HEADER_SIZE as u64;

/// The options of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderOptions {
    /// The maximum memory of a decoded event in bytes.
    pub max_event_bytes: u64,
}

impl Default for ReaderOptions {
    fn default() -> ReaderOptions {
        ReaderOptions {
            max_event_bytes: DEFAULT_MEMORY_LIMIT,
        }
    }
}

/// The byte offset of an event in its file.
pub type EventOffset = u64;

/// A reader that resumes where it stopped when the file has grown.
///
/// ```no_run
/// use trainspec_formats::events::{EventReader, ReaderOptions};
///
/// let mut reader = EventReader::open("run/events.out.tfevents.1600000000.host".as_ref(), ReaderOptions::default())?;
/// loop {
///     while let Some((offset, event)) = reader.poll()? {
///         println!("{offset}: step {}", event.step);
///     }
///     std::thread::sleep(std::time::Duration::from_secs(1));
/// }
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct EventReader {
    frames: FrameReader,
    storage: Arc<dyn Storage>,
    path: Option<PathBuf>,
    options: ReaderOptions,
}

impl EventReader {
    /// Opens a file.
    pub fn open(path: &Path, options: ReaderOptions) -> Result<EventReader> {
        EventReader::open_at(path, 0, options)
    }

    /// [`open`](EventReader::open) in any storage.
    pub fn open_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        options: ReaderOptions,
    ) -> Result<EventReader> {
        EventReader::open_at_in(storage, path, 0, options)
    }

    /// Opens a file at the offset of an event.
    pub fn open_at(
        path: &Path,
        offset: EventOffset,
        options: ReaderOptions,
    ) -> Result<EventReader> {
        EventReader::open_at_in(&storage::local(), path, offset, options)
    }

    /// [`open_at`](EventReader::open_at) in any storage.
    pub fn open_at_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        offset: EventOffset,
        options: ReaderOptions,
    ) -> Result<EventReader> {
        let file = files::open_in(storage, FileKind::Events, path)?;
        Ok(EventReader {
            frames: FrameReader::new(file, offset),
            storage: Arc::clone(storage),
            path: Some(path.to_owned()),
            options,
        })
    }

    /// Reads any source of bytes.
    pub fn new(source: impl ReadAt + 'static, options: ReaderOptions) -> EventReader {
        EventReader {
            frames: FrameReader::new(Box::new(source), 0),
            storage: storage::local(),
            path: None,
            options,
        }
    }

    /// The next event and its offset. `None` means "not yet": at the end of the file, and where the last record is incomplete. A
    /// record whose checksum is wrong is an error, now and on every later call: the offset of the next one is not known. One that is
    /// intact and is no event, or too large a one, is an error once.
    pub fn poll(&mut self) -> Result<Option<(EventOffset, Event)>> {
        let next = match self.frames.next(self.options.max_event_bytes) {
            Ok(Some((offset, bytes))) => {
                decode(FileKind::Events, bytes, self.options.max_event_bytes)
                    .map(|event| Some((offset, event)))
                    .map_err(|e| e.at(offset))
            }
            Ok(None) => Ok(None),
            Err(e) => Err(e),
        };
        next.map_err(|e| self.located(e))
    }

    /// The offset of the next event, present or future.
    pub fn position(&self) -> EventOffset {
        self.frames.position()
    }

    /// The number of bytes after the last event: those of an incomplete record.
    pub fn rest(&self) -> Result<u64> {
        self.frames.rest().map_err(|e| self.located(e))
    }

    /// How the file ends after the last event that was read; [`poll`](EventReader::poll) returned `None` before.
    ///
    /// ```
    /// use trainspec_formats::events::{EventReader, SummaryWriter, Tail};
    ///
    /// # let folder = std::env::temp_dir().join(format!("trainspec-doc-tail-{}", std::process::id()));
    /// let writer = SummaryWriter::open(&folder, Default::default())?;
    /// let mut reader = EventReader::open(&writer.path(), Default::default())?;
    /// while reader.poll()?.is_some() {}
    /// assert_eq!(reader.tail()?, Tail::Complete);
    /// # writer.close()?;
    /// # std::fs::remove_dir_all(folder).unwrap();
    /// # Ok::<(), trainspec_formats::FormatError>(())
    /// ```
    pub fn tail(&mut self) -> Result<Tail> {
        // Before the end is read: a writer that ends meanwhile leaves complete events.
        let is_locked = |path: &Path| cfg!(unix) && self.storage.is_locked(path);
        let mut is_written = self.path.as_deref().is_some_and(is_locked);
        is_written |= self.frames.has_next().map_err(|e| self.located(e))?;
        Ok(match (self.rest()?, is_written) {
            (0, _) => Tail::Complete,
            (bytes, true) => Tail::BeingWritten { bytes },
            (bytes, false) => Tail::Torn { bytes },
        })
    }

    fn located(&self, error: FormatError) -> FormatError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

/// How an event file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tail {
    /// With a complete event.
    Complete,
    /// After the events that were read, while a [`SummaryWriter`](crate::events::SummaryWriter) has the file open, or had until now: the
    /// rest may follow.
    BeingWritten {
        /// The bytes that are there.
        bytes: u64,
    },
    /// Inside an event, and no [`SummaryWriter`](crate::events::SummaryWriter) on this machine writes the rest. Of TensorFlow's writers
    /// it is not known whether they still run.
    Torn {
        /// The bytes of the event that are there.
        bytes: u64,
    },
}

/// The events of a file (`tf.compat.v1.train.summary_iterator`). At the end of the file it returns `None`, and resumes with what was
/// written since on the next call. A truncated record at the end is an error, unless not even its header is complete.
///
/// ```
/// use trainspec_formats::events::{SummaryWriter, summary, summary_iterator};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-follow-{}", std::process::id()));
/// let writer = SummaryWriter::open(&folder, Default::default())?;
/// let mut events = summary_iterator(&writer.path())?;
/// assert_eq!(events.by_ref().count(), 1);
/// writer.add_summary(summary::scalar("loss", 0.5), 1)?;
/// writer.flush()?;
/// assert_eq!(events.next().unwrap()?.step, 1);
/// # writer.close()?;
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn summary_iterator(path: &Path) -> Result<EventIterator> {
    let reader = EventReader::open(path, ReaderOptions::default())?;
    Ok(EventIterator::from(reader))
}

/// The events of a file, in order. After damage there are none; at the end of the file there may be some later.
#[derive(Debug)]
pub struct EventIterator {
    reader: Option<EventReader>,
    /// The size of the truncated record that was reported last.
    reported: u64,
}

impl From<EventReader> for EventIterator {
    fn from(reader: EventReader) -> EventIterator {
        EventIterator {
            reader: Some(reader),
            reported: 0,
        }
    }
}

impl Iterator for EventIterator {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        let reader = self.reader.as_mut()?;
        let failed = match reader.poll() {
            Ok(Some((_, event))) => return Some(Ok(event)),
            Ok(None) => match reader.rest() {
                // As in TensorFlow, a truncated header is the end.
                Ok(0..HEADER_SIZE) => return None,
                // A truncated record that has not grown is not reported again.
                Ok(rest) if rest == self.reported => return None,
                Ok(rest) => {
                    self.reported = rest;
                    let cause = "the last record is cut off";
                    let error = FormatError::data_loss(FileKind::Events, cause);
                    return Some(Err(reader.located(error.at(reader.position()))));
                }
                Err(e) => e,
            },
            Err(e) => e,
        };
        self.reader = None;
        Some(Err(failed))
    }
}
