//! The progress of a run: reads the clock once after each step, for the timers of all hooks after it.

use std::time::Duration;

use crate::Error;
use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::saver::SharedClock;
use crate::session::Session;

/// Keeps the time since the first session was ready. A clock that is set back adds nothing, so that the timers go on from there.
pub(crate) struct ProgressHook {
    clock: SharedClock,
    /// The last reading of the clock.
    last: Option<Duration>,
}

impl ProgressHook {
    pub(crate) fn new(clock: SharedClock) -> ProgressHook {
        ProgressHook { clock, last: None }
    }
}

impl SessionRunHook for ProgressHook {
    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        self.last.get_or_insert_with(|| self.clock.now());
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let passed = now.saturating_sub(self.last.replace(now).unwrap_or(now));
        context.session.status_mut().time += passed;
        Ok(())
    }
}
