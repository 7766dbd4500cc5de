//! The event files of a run (`tf.train.SummaryWriterCache`): one writer for each folder. A file that cannot be written is reported once, and
//! training goes on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use trainspec_formats::FormatError;
use trainspec_formats::events::{SummaryWriter, SummaryWriterCache, WriterOptions};
use trainspec_formats::proto::session_log::SessionStatus;
use trainspec_formats::proto::{RunMetadata, SessionLog, Summary};

use crate::env::Storage;
use crate::session::{Event, EventQueue};

/// The writers of a run. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct EventFiles {
    cache: Arc<SummaryWriterCache>,
    storage: Arc<dyn Storage>,
    events: EventQueue,
    state: Arc<Mutex<FilesState>>,
}

#[derive(Debug, Default)]
struct FilesState {
    /// The folders whose writer has begun.
    begun: BTreeSet<PathBuf>,
    failed: bool,
}

impl EventFiles {
    pub(crate) fn new(storage: Arc<dyn Storage>, events: EventQueue) -> EventFiles {
        let options = WriterOptions {
            storage: storage.clone(),
            ..WriterOptions::default()
        };
        EventFiles {
            cache: Arc::new(SummaryWriterCache::new(options)),
            storage,
            events,
            state: Arc::default(),
        }
    }

    /// Where the files are.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Writes a summary.
    pub(crate) fn add(&self, folder: &Path, summary: Summary, step: u64) {
        self.write(folder, step, |writer| {
            writer.add_summary(summary, step as i64)
        });
    }

    /// Writes the metadata of a run, under the step.
    pub(crate) fn add_run_metadata(&self, folder: &Path, metadata: &RunMetadata, step: u64) {
        self.write(folder, step, |writer| {
            writer.add_run_metadata(metadata, &format!("step_{step}"), step as i64)
        });
    }

    /// Adds an event. The first of a folder says that a session starts, so that TensorBoard drops what a run that was killed wrote from
    /// this step on.
    fn write(
        &self,
        folder: &Path,
        step: u64,
        add: impl FnOnce(&SummaryWriter) -> Result<(), FormatError>,
    ) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed {
            return;
        }
        let written = || -> Result<(), FormatError> {
            let writer = self.cache.get(folder)?;
            if state.begun.insert(folder.to_owned()) {
                let mut log = SessionLog::default();
                log.set_status(SessionStatus::Start);
                writer.add_session_log(log, step as i64)?;
            }
            add(&writer)
        };
        let written = { written }();
        if let Err(error) = written {
            state.failed = true;
            drop(state);
            self.report(&error);
        }
    }

    /// Writes what is queued.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed {
            return;
        }
        let flush = |folder: &PathBuf| self.cache.get(folder)?.flush();
        if let Err(error) = state.begun.iter().try_for_each(flush) {
            state.failed = true;
            self.report(&error);
        }
    }

    fn report(&self, error: &FormatError) {
        let message = format!("no more summaries are written, training goes on: {error}");
        self.events.push(Event::Note(message));
    }
}
