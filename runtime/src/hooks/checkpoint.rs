//! `checkpoint`: saves the state at an interval and at the end (`tf.train.CheckpointSaverHook`).
//!
//! A save is made by a thread from a copy of the state, so that training goes on. What is saved is exact: variables, slots, averages, the
//! step, and the records of the session, among them the position of the input.

use std::path::PathBuf;

use trainspec_compiler::typed::Interval;

use crate::Error;
use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::saver::{BackgroundSaver, Saver};
use crate::session::{Event, EventQueue, Session, Timer};

/// The `checkpoint` hook of a spec.
#[derive(Debug)]
pub(crate) struct CheckpointHook {
    saver: BackgroundSaver,
    prefix: PathBuf,
    timer: Timer,
    events: EventQueue,
    saved_step: u64,
}

impl CheckpointHook {
    pub(crate) fn new(
        saver: Saver,
        prefix: PathBuf,
        every: Interval,
        events: EventQueue,
    ) -> CheckpointHook {
        CheckpointHook {
            saver: BackgroundSaver::new(saver),
            prefix,
            timer: Timer::every(every),
            events,
            saved_step: 0,
        }
    }

    fn save(&mut self, session: &mut Session) -> Result<(), Error> {
        let step = session.global_step();
        session.keep_position();
        self.finished()?;
        self.saver
            .start(session.state(), session.records(), &self.prefix, step)?;
        self.saved_step = step;
        Ok(())
    }

    /// Waits for the save that is under way, if there is one, and reports it.
    fn finished(&mut self) -> Result<(), Error> {
        if let Some(saved) = self.saver.wait() {
            let (step, path) = saved?;
            self.events.push(Event::Saved { step, path });
            for failed in self.saver.take_failed_deletions() {
                self.events
                    .push(Event::Note(format!("an old checkpoint stays: {failed}")));
            }
        }
        Ok(())
    }
}

impl SessionRunHook for CheckpointHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.timer.begin(&session.progress());
        self.saved_step = session.global_step();
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let now = context.session.progress();
        if self.timer.triggers(&now) {
            return self.save(context.session);
        }
        // A save that is done is reported, and one that failed ends the run, at the next step.
        match self.saver.is_finished() {
            true => self.finished(),
            false => Ok(()),
        }
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        if session.global_step() != self.saved_step {
            self.save(session)?;
        }
        self.finished()
    }
}
