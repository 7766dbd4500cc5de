//! Ends a training whose stop token is set.

use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::{End, EventQueue};
use crate::{Error, StopToken};

/// Looks at a stop token after each step.
#[derive(Debug, Clone)]
pub(crate) struct StopHook {
    token: StopToken,
    events: EventQueue,
}

impl StopHook {
    pub(crate) fn new(token: StopToken, events: EventQueue) -> StopHook {
        StopHook { token, events }
    }
}

impl SessionRunHook for StopHook {
    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        if self.token.should_stop() {
            self.events.end(End::Stopped);
            context.request_stop();
        }
        Ok(())
    }
}
