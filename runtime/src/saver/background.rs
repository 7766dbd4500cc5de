//! Saving in the background: a thread writes a copy of the state while training goes on (`CheckpointOptions`' asynchronous form).

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::saver::{Records, Saver, Skipped};
use crate::{Code, Error, State};

/// A saver that writes on a thread of its own, one checkpoint after the other.
#[derive(Debug)]
pub(crate) struct BackgroundSaver {
    /// The saver while no thread has it.
    idle: Option<Saver>,
    thread: Option<JoinHandle<(Saver, Saved)>>,
}

/// The step and the path of a checkpoint, or why it was not saved.
type Saved = Result<(u64, PathBuf), Error>;

impl BackgroundSaver {
    pub(crate) fn new(saver: Saver) -> BackgroundSaver {
        BackgroundSaver {
            idle: Some(saver),
            thread: None,
        }
    }

    /// Copies the state and begins to write it. The save before must have been waited for.
    pub(crate) fn start(
        &mut self,
        state: &State,
        records: &Records,
        prefix: &Path,
        step: u64,
    ) -> Result<(), Error> {
        let Some(mut saver) = self.idle.take() else {
            return Err(Error::new(Code::Internal, "a save is under way already"));
        };
        let (copy, records, prefix) = (state.clone(), records.clone(), prefix.to_owned());
        let save = move || {
            let saved = saver.save(&copy, &records, &prefix, Some(step));
            (saver, saved.map(|path| (step, path)))
        };
        let thread = std::thread::Builder::new().name("saver".to_owned());
        self.thread = Some(thread.spawn(save).map_err(Error::other)?);
        Ok(())
    }

    /// Whether a save is done and was not waited for yet.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Waits for the save that is under way: its step and path, or why it failed. `None` where there is none.
    pub(crate) fn wait(&mut self) -> Option<Saved> {
        match self.thread.take()?.join() {
            Ok((saver, saved)) => {
                self.idle = Some(saver);
                Some(saved)
            }
            Err(_) => Some(Err(Error::new(
                Code::Internal,
                "the saving thread panicked",
            ))),
        }
    }

    /// Checkpoints that could not be deleted since the last call.
    pub(crate) fn take_failed_deletions(&mut self) -> Vec<Skipped> {
        let saver = self.idle.as_mut();
        saver.map(Saver::take_failed_deletions).unwrap_or_default()
    }
}

impl Drop for BackgroundSaver {
    /// A checkpoint that was begun is completed, whatever ended the run.
    fn drop(&mut self) {
        let _ = self.wait();
    }
}
