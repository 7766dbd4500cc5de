//! Event files (`events.out.tfevents`), TensorBoard's format: TFRecords of `Event` messages.
//!
//! In: summaries, graphs, messages of sessions. Out: files `events.out.tfevents...` in a folder, as TensorFlow writes them;
//! and the reverse. A [`SummaryWriter`] writes in the background; [`summary`] makes what it writes. An [`EventReader`]
//! reads one file, which may still grow; a [`RunReader`] reads the files of a folder in order, and a [`Run`] is an index of
//! their values by tag. Leaves alone: when something is worth an event.
//!
//! ```
//! use trainspec_formats::events::{Run, RunOptions, SummaryWriter, WriterOptions, summary, summary_iterator};
//!
//! # let folder = std::env::temp_dir().join(format!("trainspec-events-doc-{}", std::process::id()));
//! let writer = SummaryWriter::open(&folder, WriterOptions::default())?;
//! writer.add_summary(summary::scalar("loss", 0.5), 1)?;
//! writer.add_summary(summary::scalar("loss", 0.25), 2)?;
//! writer.close()?;
//!
//! // The version of the file comes first.
//! let events: Vec<_> = summary_iterator(&writer.path())?.collect::<Result<_, _>>()?;
//! assert_eq!(events.len(), 3);
//!
//! let run = Run::read(&folder, RunOptions::default())?;
//! assert_eq!(run.series["loss"].points.last().unwrap().scalar, Some(0.25));
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), trainspec_formats::FormatError>(())
//! ```

mod cache;
mod file;
mod folder;
mod frames;
mod reader;
mod run;
pub mod summary;
mod writer;

pub use cache::SummaryWriterCache;
pub use folder::{RunReader, is_event_file};
pub use reader::{EventIterator, EventOffset, EventReader, ReaderOptions, Tail, summary_iterator};
pub use run::{Kind, Point, Purge, Run, RunOptions, Series};
pub use writer::{SummaryWriter, WriterOptions};

/// The prefix of the file version in the first event of a file.
const VERSION_PREFIX: &str = "brain.Event:";
