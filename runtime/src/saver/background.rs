//! Saving in the background: a thread writes a copy of the state while training goes on (`CheckpointOptions`' asynchronous form).

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::program::Engine;
use crate::saver::{Format, Records, Saver, Skipped};
use crate::session::{Event, EventQueue};
use crate::{Code, Error, State};

/// A saver that writes on a thread of its own, one checkpoint after the other.
#[derive(Debug)]
pub(crate) struct BackgroundSaver {
    /// The saver while no thread has it.
    idle: Option<Saver>,
    /// The copy that was written last, whose memory the next one takes.
    copy: Option<State>,
    thread: Option<JoinHandle<(Saver, State, Saved)>>,
}

/// The step and the path of a checkpoint, or why it was not saved.
type Saved = Result<(u64, PathBuf), Error>;

impl BackgroundSaver {
    pub(crate) fn new(saver: Saver) -> BackgroundSaver {
        BackgroundSaver {
            idle: Some(saver),
            copy: None,
            thread: None,
        }
    }

    /// Allocates the memory of the copies, so that not the first save but the beginning of the training takes that time.
    pub(crate) fn reserve(&mut self, state: &State) -> Result<(), Error> {
        if self.copy.is_none() {
            self.copy = Some(state.copy()?);
        }
        Ok(())
    }

    /// Copies the state, on the threads of the engine, and begins to write it. The save before must have been waited for.
    pub(crate) fn start(
        &mut self,
        engine: &Engine,
        state: &State,
        records: &Records,
        prefix: &Path,
        step: u64,
    ) -> Result<(), Error> {
        self.reserve(state)?;
        let (Some(mut saver), Some(mut copy)) = (self.idle.take(), self.copy.take()) else {
            return Err(Error::new(Code::Internal, "a save is under way already"));
        };
        copy.copy_from(state, engine);
        let (records, prefix) = (records.clone(), prefix.to_owned());
        let save = move || {
            let saved = saver.save(&copy, &records, &prefix, Some(step));
            (saver, copy, saved.map(|path| (step, path)))
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
            Ok((saver, copy, saved)) => {
                (self.idle, self.copy) = (Some(saver), Some(copy));
                Some(saved)
            }
            Err(_) => Some(Err(Error::new(
                Code::Internal,
                "the saving thread panicked",
            ))),
        }
    }

    /// Waits for the save that is under way, if there is one, and reports it.
    pub(crate) fn report(&mut self, events: &EventQueue) -> Result<(), Error> {
        if let Some(saved) = self.wait() {
            let (step, path) = saved?;
            events.push(Event::Saved { step, path });
            for failed in self.take_failed_deletions() {
                events.push(Event::Note(format!("an old checkpoint stays: {failed}")));
            }
        }
        Ok(())
    }

    /// The format of its checkpoints; `None` while a save is under way.
    pub(crate) fn format(&self) -> Option<Format> {
        self.idle.as_ref().map(|saver| saver.options().format)
    }

    /// Checkpoints that could not be deleted since the last call.
    fn take_failed_deletions(&mut self) -> Vec<Skipped> {
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
