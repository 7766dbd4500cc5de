//! The reader of one event file, which may still grow.
//!
//! In: a file. Out: events in order, each with its place. Memory holds one record at a time.

use std::path::{Path, PathBuf};

use crate::bounded::{LARGEST, decode};
use crate::error::{FileKind, FormatError, Result};
use crate::events::frames::Frames;
use crate::files::{self, ReadAt};
use crate::proto::Event;
use crate::records;

/// How long the header of a record is.
const HEADER: u64 = records::HEADER as u64;

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderOptions {
    /// What a decoded event may take in memory.
    pub largest_event: u64,
}

impl Default for ReaderOptions {
    fn default() -> ReaderOptions {
        ReaderOptions {
            largest_event: LARGEST,
        }
    }
}

/// Where an event begins in its file, in bytes.
pub type Place = u64;

/// A reader that goes on where it stopped when the file has grown.
///
/// ```no_run
/// use trainspec_formats::events::{EventReader, ReaderOptions};
///
/// let mut reader = EventReader::open("run/events.out.tfevents.1600000000.host".as_ref(), ReaderOptions::default())?;
/// loop {
///     while let Some((place, event)) = reader.poll()? {
///         println!("{place}: step {}", event.step);
///     }
///     std::thread::sleep(std::time::Duration::from_secs(1));
/// }
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct EventReader {
    frames: Frames,
    path: Option<PathBuf>,
    options: ReaderOptions,
}

impl EventReader {
    /// Opens a file.
    pub fn open(path: &Path, options: ReaderOptions) -> Result<EventReader> {
        EventReader::open_at(path, 0, options)
    }

    /// Opens a file at the place of an event.
    pub fn open_at(path: &Path, place: Place, options: ReaderOptions) -> Result<EventReader> {
        let file = files::open(FileKind::Events, path)?;
        Ok(EventReader {
            frames: Frames::new(Box::new(file), place),
            path: Some(path.to_owned()),
            options,
        })
    }

    /// Reads anything that can be read at a place.
    pub fn new(source: impl ReadAt + 'static, options: ReaderOptions) -> EventReader {
        EventReader {
            frames: Frames::new(Box::new(source), 0),
            path: None,
            options,
        }
    }

    /// The next event and its place, if it is there. Nothing means "not yet": at the end of the file, and where the last
    /// record is not written as a whole. A record whose checksum is wrong is an error, now and whenever it is asked for again: where
    /// the next one begins is not known. One that is intact and is no event, or too large a one, is an error once.
    pub fn poll(&mut self) -> Result<Option<(Place, Event)>> {
        let next = match self.frames.next(self.options.largest_event) {
            Ok(Some((place, bytes))) => decode(FileKind::Events, bytes, self.options.largest_event)
                .map(|event| Some((place, event)))
                .map_err(|e| e.at(place)),
            Ok(None) => Ok(None),
            Err(e) => Err(e),
        };
        next.map_err(|e| self.located(e))
    }

    /// Where the next event begins, or will begin.
    pub fn position(&self) -> Place {
        self.frames.position()
    }

    /// How many bytes lie behind the last event: those of one that is not written as a whole.
    pub fn rest(&self) -> Result<u64> {
        self.frames.rest().map_err(|e| self.located(e))
    }

    fn located(&self, error: FormatError) -> FormatError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

/// The events of a file as it is now, `tf.compat.v1.train.summary_iterator`. The part of a record at the end is an error, unless not
/// even its length is there.
pub fn summary_iterator(path: &Path) -> Result<EventIterator> {
    let reader = EventReader::open(path, ReaderOptions::default())?;
    Ok(EventIterator {
        reader: Some(reader),
    })
}

/// The events of a file, in order; an error is the last.
#[derive(Debug)]
pub struct EventIterator {
    reader: Option<EventReader>,
}

impl From<EventReader> for EventIterator {
    fn from(reader: EventReader) -> EventIterator {
        EventIterator {
            reader: Some(reader),
        }
    }
}

impl Iterator for EventIterator {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        let reader = self.reader.as_mut()?;
        let next = match reader.poll() {
            Ok(Some((_, event))) => return Some(Ok(event)),
            Ok(None) => match reader.rest() {
                // As in TensorFlow, a header that is not all there is the end.
                Ok(0..HEADER) => None,
                Ok(_) => {
                    let cause = "the last record is cut off";
                    let error = FormatError::data_loss(FileKind::Events, cause);
                    Some(Err(reader.located(error.at(reader.position()))))
                }
                Err(e) => Some(Err(e)),
            },
            Err(e) => Some(Err(e)),
        };
        self.reader = None;
        next
    }
}
