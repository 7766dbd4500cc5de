//! `SecondOrStepTimer` (`tf.train.SecondOrStepTimer`): triggers when it is first asked, then N steps or seconds after the last trigger.
//!
//! The `every` of a spec counts otherwise: multiples of the global step, so that a resumed run acts at the same steps.

use std::time::Duration;

use crate::saver::SharedClock;
use crate::{Code, Error};

/// An interval in steps or in seconds. Exactly one is given: anything else is an error of whoever takes both.
///
/// ```
/// use trainspec::hooks::Every;
///
/// assert_eq!(Every::steps_or_secs(Some(10), None)?, Every::Steps(10));
/// assert!(Every::steps_or_secs(None, None).is_err());
/// assert!(Every::steps_or_secs(Some(1), Some(1.0)).is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    /// A number of steps.
    Steps(u64),
    /// A number of seconds.
    Secs(f64),
}

impl Every {
    /// The interval of two arguments of which exactly one is given.
    pub fn steps_or_secs(steps: Option<u64>, secs: Option<f64>) -> Result<Every, Error> {
        let message = match (steps, secs) {
            (Some(steps), None) => return Ok(Every::Steps(steps)),
            (None, Some(secs)) => return Ok(Every::Secs(secs)),
            (None, None) => "either every_secs or every_steps should be provided",
            (Some(_), Some(_)) => "can not provide both every_secs and every_steps",
        };
        Err(Error::new(Code::InvalidArgument, message))
    }
}

/// A timer that triggers when it is first asked, and then an interval after the last trigger.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::hooks::{Every, SecondOrStepTimer};
/// use trainspec_formats::clock::SystemClock;
///
/// let mut timer = SecondOrStepTimer::new(Every::Steps(3), Arc::new(SystemClock::default()));
/// let mut triggered = Vec::new();
/// for step in 1..=8 {
///     if timer.should_trigger_for_step(step) {
///         timer.update_last_triggered_step(step);
///         triggered.push(step);
///     }
/// }
/// assert_eq!(triggered, [1, 4, 7]);
/// ```
#[derive(Clone)]
pub struct SecondOrStepTimer {
    every: Every,
    clock: SharedClock,
    last: Option<(u64, Duration)>,
}

impl SecondOrStepTimer {
    /// A timer that has not triggered yet.
    pub fn new(every: Every, clock: SharedClock) -> SecondOrStepTimer {
        SecondOrStepTimer {
            every,
            clock,
            last: None,
        }
    }

    /// Forgets the last trigger.
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// Whether it triggers at a step. Asked again for the step at which it triggered, it does not.
    pub fn should_trigger_for_step(&self, step: u64) -> bool {
        let Some((last_step, last_time)) = self.last else {
            return true;
        };
        if last_step == step {
            return false;
        }
        match self.every {
            Every::Steps(steps) => step >= last_step.saturating_add(steps),
            Every::Secs(secs) => {
                let elapsed = self.clock.now().saturating_sub(last_time);
                elapsed.as_secs_f64() >= secs
            }
        }
    }

    /// Records a trigger; the time and the steps since the one before, `None` for the first.
    pub fn update_last_triggered_step(&mut self, step: u64) -> Option<(Duration, u64)> {
        let now = self.clock.now();
        let last = self.last.replace((step, now));
        last.map(|(last_step, time)| (now.saturating_sub(time), step.saturating_sub(last_step)))
    }

    /// The step of the last trigger.
    pub fn last_triggered_step(&self) -> Option<u64> {
        self.last.map(|(step, _)| step)
    }
}

impl std::fmt::Debug for SecondOrStepTimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecondOrStepTimer")
            .field("every", &self.every)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}
