//! `profile`: traces of steps at an interval (`tf.train.ProfilerHook`, which counts otherwise and never traces the first run).

use std::path::PathBuf;
use std::time::Duration;

use trainspec_compiler::typed::Interval;

use crate::Error;
use crate::coordinator::Coordinator;
use crate::env::Env;
use crate::hooks::event_files::EventFiles;
use crate::hooks::profiler::{full_trace, since_epoch, write_timeline};
use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::{Event, EventQueue, Progress, Session, Timeline, Timer, run_metadata};

/// A `profile` hook of a spec.
#[derive(Debug)]
pub(crate) struct ProfileHook {
    env: Env,
    files: EventFiles,
    events: EventQueue,
    folder: PathBuf,
    timeline: Timeline,
    timer: Timer,
    /// Whether a step is to be traced; one that is skipped is traced when it is made.
    requested: bool,
    /// The step before the run, and when it began, since the epoch.
    before: (u64, Duration),
    /// Whether a file could not be written, which is reported once.
    failed: bool,
}

impl ProfileHook {
    pub(crate) fn new(
        env: Env,
        files: EventFiles,
        events: EventQueue,
        folder: PathBuf,
        timeline: Timeline,
        every: Interval,
    ) -> ProfileHook {
        ProfileHook {
            env,
            files,
            events,
            folder,
            timeline,
            timer: Timer::every(every),
            requested: false,
            before: (0, Duration::ZERO),
            failed: false,
        }
    }
}

impl SessionRunHook for ProfileHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.timer.begin(&session.progress());
        Ok(())
    }

    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let now = context.session.progress();
        // A trace is asked for before the step that it is of.
        let next = Progress {
            step: now.step + 1,
            ..now
        };
        self.requested |= self.timer.triggers(&next);
        if !self.requested || self.failed {
            return Ok(None);
        }
        self.before = (now.step, since_epoch(&self.env.clock));
        Ok(Some(full_trace()))
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let step = context.session.global_step();
        let (before, began) = self.before;
        let Some(metadata) = &values.run_metadata else {
            return Ok(());
        };
        if !self.requested || self.failed || step == before {
            return Ok(());
        }
        self.requested = false;
        let storage = self.env.storage.clone();
        match write_timeline(&storage, &self.folder, step, &self.timeline, metadata) {
            Ok(()) => {
                let message = run_metadata(metadata, began);
                self.files.add_run_metadata(&self.folder, &message, step);
            }
            Err(error) => {
                self.failed = true;
                let message = format!("no more profiles are written, training goes on: {error}");
                self.events.push(Event::Note(message));
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        self.files.flush();
        Ok(())
    }
}
