//! A profile of one step into one file: what `trainspec run --profile FILE` writes.

use std::path::PathBuf;

use trainspec_formats::FileKind;
use trainspec_formats::files::{Durability, replace_in};

use crate::Error;
use crate::env::Env;
use crate::hooks::profiler::full_trace;
use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::{Event, EventQueue, Session, Timeline};

/// Traces the first step of a run and then the tenth, when caches and buffers are warm, each in place of the one before.
#[derive(Debug)]
pub(crate) struct ProfileStepHook {
    env: Env,
    events: EventQueue,
    path: PathBuf,
    /// How many steps this run has made.
    made: u64,
    /// The step of the profile.
    written: Option<u64>,
}

/// The steps of a run that are traced, counted from 0.
const TRACED: [u64; 2] = [0, 9];

impl ProfileStepHook {
    pub(crate) fn new(env: Env, events: EventQueue, path: PathBuf) -> ProfileStepHook {
        ProfileStepHook {
            env,
            events,
            path,
            made: 0,
            written: None,
        }
    }
}

impl SessionRunHook for ProfileStepHook {
    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        Ok(TRACED.contains(&self.made).then(full_trace))
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let is_traced = TRACED.contains(&self.made);
        self.made += 1;
        let Some(metadata) = values.run_metadata.as_ref().filter(|_| is_traced) else {
            return Ok(());
        };
        let timeline = Timeline {
            show_dataflow: true,
            show_memory: true,
        };
        replace_in(
            &self.env.storage,
            FileKind::Other,
            &self.path,
            timeline.chrome_trace(metadata).as_bytes(),
            Durability::Unsynced,
        )?;
        self.written = Some(context.session.global_step());
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        if let Some(step) = self.written {
            let message = format!(
                "wrote a profile of step {step} to {}: open it at https://ui.perfetto.dev",
                self.path.display()
            );
            self.events.push(Event::Note(message));
        }
        Ok(())
    }
}
