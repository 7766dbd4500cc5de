//! The progress of a run: reads the clock once after each step, for the timers of all hooks after it.

use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::coordinator::Coordinator;
use crate::env::Env;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::Session;

/// Keeps the time since the first session was ready. A clock that is set back adds nothing, so that the timers go on from there.
#[derive(Debug)]
pub(crate) struct ProgressHook {
    env: Arc<dyn Env>,
    /// The last reading of the clock.
    last: Option<Duration>,
}

impl ProgressHook {
    pub(crate) fn new(env: Arc<dyn Env>) -> ProgressHook {
        ProgressHook { env, last: None }
    }
}

impl SessionRunHook for ProgressHook {
    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        self.last.get_or_insert_with(|| self.env.clock().now());
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let now = self.env.clock().now();
        let passed = now.saturating_sub(self.last.replace(now).unwrap_or(now));
        context.session.status_mut().time += passed;
        Ok(())
    }
}
