//! `stop_at`: ends a run at a step (`tf.train.StopAtStepHook`).

use trainspec_compiler::typed::StopAt;

use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::Session;
use crate::{Code, Error};

/// Requests a stop at a global step, or after a number of steps.
///
/// ```
/// use trainspec::hooks::StopAtStepHook;
///
/// let until_the_thousandth = StopAtStepHook::last_step(1_000);
/// // Counted from the step at which the session is created, after a restore.
/// let ten_more = StopAtStepHook::num_steps(10);
/// # let _ = (until_the_thousandth, ten_more);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopAtStepHook {
    bound: StopAt,
    last: Option<u64>,
}

impl StopAtStepHook {
    /// Stops when the global step reaches `last`.
    pub fn last_step(last: u64) -> StopAtStepHook {
        StopAtStepHook::new(StopAt::LastStep(last))
    }

    /// Stops after `count` steps from the one that the first session starts with.
    pub fn num_steps(count: u64) -> StopAtStepHook {
        StopAtStepHook::new(StopAt::NumSteps(count))
    }

    /// Stops at one of two bounds: neither or both are an error.
    pub fn try_new(
        num_steps: Option<u64>,
        last_step: Option<u64>,
    ) -> Result<StopAtStepHook, Error> {
        let message = match (num_steps, last_step) {
            (Some(count), None) => return Ok(StopAtStepHook::num_steps(count)),
            (None, Some(last)) => return Ok(StopAtStepHook::last_step(last)),
            (None, None) => "one of num_steps or last_step must be specified",
            (Some(_), Some(_)) => "only one of num_steps or last_step can be specified",
        };
        Err(Error::new(Code::InvalidArgument, message))
    }

    pub(crate) fn new(bound: StopAt) -> StopAtStepHook {
        StopAtStepHook { bound, last: None }
    }
}

impl SessionRunHook for StopAtStepHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        // A recovery does not move the end.
        self.last.get_or_insert(match self.bound {
            StopAt::LastStep(last) => last,
            StopAt::NumSteps(count) => session.global_step().saturating_add(count),
        });
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let step = context.session.global_step();
        if self.last.is_some_and(|last| step >= last) {
            context.request_stop();
        }
        Ok(())
    }
}
