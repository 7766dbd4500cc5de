//! Skipped updates: fails a run whose scaled gradients are not finite too many times in a row.

use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::Session;
use crate::{Cause, Error};

/// Skipped updates in a row after which a run fails: a loss scale of 2^127, halved each time, is down to 1 by then.
const MAX_SKIPPED_UPDATES: u64 = 256;

/// Counts updates that were skipped.
#[derive(Debug, Default)]
pub(crate) struct OverflowHook {
    step: u64,
    skipped: u64,
}

impl SessionRunHook for OverflowHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        (self.step, self.skipped) = (session.global_step(), 0);
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let step = context.session.global_step();
        self.skipped = if step == self.step {
            self.skipped + 1
        } else {
            0
        };
        self.step = step;
        if self.skipped < MAX_SKIPPED_UPDATES {
            return Ok(());
        }
        let spec = context.session.spec();
        let mut groups = spec.train.iter().flat_map(|t| &t.groups);
        Err(Cause::Overflow {
            times: MAX_SKIPPED_UPDATES,
            span: groups.next().map(|g| g.span).unwrap_or_default(),
        }
        .into())
    }
}
