//! `step_counter`: steps per second into event files (`tf.train.StepsPerSecondHook`).

use std::path::PathBuf;

use trainspec_compiler::lower::GLOBAL_STEP;
use trainspec_compiler::typed::Interval;
use trainspec_formats::events::summary;

use crate::Error;
use crate::coordinator::Coordinator;
use crate::hooks::event_files::EventFiles;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::{Progress, Session, Timer};

/// A `step_counter` hook of a spec.
#[derive(Debug)]
pub(crate) struct StepsPerSecondHook {
    files: EventFiles,
    folder: PathBuf,
    timer: Timer,
    /// When it last measured.
    last: Option<Progress>,
}

impl StepsPerSecondHook {
    pub(crate) fn new(files: EventFiles, folder: PathBuf, every: Interval) -> StepsPerSecondHook {
        StepsPerSecondHook {
            files,
            folder,
            timer: Timer::every(every),
            last: None,
        }
    }
}

impl SessionRunHook for StepsPerSecondHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.timer.begin(&session.progress());
        self.last = Some(session.progress());
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let now = context.session.progress();
        if self.timer.triggers(&now)
            && let Some(last) = self.last.replace(now)
        {
            let seconds = now.time.saturating_sub(last.time).as_secs_f64();
            let rate = (now.step - last.step) as f64 / seconds;
            if rate.is_finite() {
                let tag = format!("{GLOBAL_STEP}/sec");
                let summary = summary::scalar(&tag, rate as f32);
                self.files.add(&self.folder, summary, now.step);
            }
        }
        Ok(())
    }
}
