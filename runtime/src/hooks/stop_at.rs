//! `stop_at` of a spec: [`StopAtStepHook`] over all starts of a run.
//!
//! `tf.train.StopAtStepHook` counts `num_steps` from the step that a process finds. A run that is killed and goes on is one run, so a record
//! in its checkpoints says where it began.

use trainspec_compiler::typed::StopAt;

use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues, StopAtStepHook};
use crate::session::{End, EventQueue, Session};
use crate::{Code, Error};

/// The record of the step that a run began at.
const BEGAN_RECORD: &str = "stop_at/began/1";

/// A `stop_at` hook of a spec.
#[derive(Debug)]
pub(crate) struct StopAtHook {
    hook: StopAtStepHook,
    bound: StopAt,
    events: EventQueue,
}

impl StopAtHook {
    pub(crate) fn new(bound: StopAt, events: EventQueue) -> StopAtHook {
        StopAtHook {
            hook: StopAtStepHook::new(bound),
            bound,
            events,
        }
    }
}

impl SessionRunHook for StopAtHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        coordinator: &Coordinator,
    ) -> Result<(), Error> {
        let step = session.global_step();
        let last = match self.bound {
            StopAt::LastStep(last) => last,
            StopAt::NumSteps(count) => {
                let began = match session.records().get(BEGAN_RECORD) {
                    Some(text) => text.parse::<u64>().map_err(|_| damaged(text))?,
                    None => step,
                };
                let records = session.records_mut();
                records.insert(BEGAN_RECORD, began.to_string());
                began.saturating_add(count)
            }
        };
        self.hook = StopAtStepHook::last_step(last);
        if step >= last {
            self.events.end(End::Steps);
        }
        self.hook.after_create_session(session, coordinator)
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        self.hook.after_run(context, values)
    }
}

fn damaged(text: &str) -> Error {
    let message = format!("the record of `stop_at` in the checkpoint is damaged: `{text}`");
    Error::new(Code::DataLoss, message)
}
