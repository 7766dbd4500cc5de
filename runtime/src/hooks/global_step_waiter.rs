//! `GlobalStepWaiterHook` (`tf.train.GlobalStepWaiterHook`): holds the first run back until the global step has reached a value.

use std::time::Duration;

use crate::coordinator::Coordinator;
use crate::hooks::{LogSink, SessionRunArgs, SessionRunContext, SessionRunHook};
use crate::saver::SharedClock;
use crate::session::Session;
use crate::{Error, Graph, StopToken};

/// The time between two readings of the global step.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// After this many steps the progress of a wait is reported again.
const REPORT_STEPS: u64 = 1000;

/// Reads the global step that is waited for.
type GlobalStep = Box<dyn FnMut() -> Result<u64, Error> + Send>;

/// Waits before the first run until the global step has reached a value; 0 and less wait for nothing. A worker that starts late so leaves
/// the first steps to others.
///
/// The step is that of the session, or what [`GlobalStepWaiterHook::reading`] reads. Where the coordinator of the session or a stop
/// token asks to stop, the wait ends, and the session with it.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use trainspec::hooks::GlobalStepWaiterHook;
///
/// let chief = Arc::new(AtomicU64::new(0));
/// let read = chief.clone();
/// let hook = GlobalStepWaiterHook::new(100).reading(move || Ok(read.load(Ordering::Relaxed)));
/// # let _ = hook;
/// ```
pub struct GlobalStepWaiterHook {
    wait_until_step: i64,
    read: Option<GlobalStep>,
    stop: StopToken,
    log: Option<LogSink>,
    clock: Option<SharedClock>,
    coordinator: Option<Coordinator>,
    is_started: bool,
}

impl GlobalStepWaiterHook {
    /// Waits until the global step is at least this.
    pub fn new(wait_until_step: i64) -> GlobalStepWaiterHook {
        GlobalStepWaiterHook {
            wait_until_step,
            read: None,
            stop: StopToken::default(),
            log: None,
            clock: None,
            coordinator: None,
            is_started: false,
        }
    }

    /// Reads the global step of others: of a chief in another thread, or of a folder of checkpoints.
    pub fn reading(
        mut self,
        read: impl FnMut() -> Result<u64, Error> + Send + 'static,
    ) -> GlobalStepWaiterHook {
        self.read = Some(Box::new(read));
        self
    }

    /// A token that ends the wait.
    pub fn with_stop(mut self, stop: StopToken) -> GlobalStepWaiterHook {
        self.stop = stop;
        self
    }

    /// Receives what it waits for, and where the step is.
    pub fn on_log(mut self, log: impl FnMut(&str) + Send + 'static) -> GlobalStepWaiterHook {
        self.log = Some(Box::new(log));
        self
    }

    fn say(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            log(text);
        }
    }
}

impl std::fmt::Debug for GlobalStepWaiterHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GlobalStepWaiterHook")
            .field("wait_until_step", &self.wait_until_step)
            .field("is_started", &self.is_started)
            .finish_non_exhaustive()
    }
}

impl SessionRunHook for GlobalStepWaiterHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        self.clock = Some(graph.clock().clone());
        Ok(())
    }

    fn after_create_session(
        &mut self,
        _: &mut Session,
        coordinator: &Coordinator,
    ) -> Result<(), Error> {
        self.coordinator = Some(coordinator.clone());
        Ok(())
    }

    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let until = match u64::try_from(self.wait_until_step) {
            Ok(until) if until > 0 && !self.is_started => until,
            _ => {
                self.is_started = true;
                return Ok(None);
            }
        };
        self.say(&format!("waiting for global step {until}"));
        let mut reported = 0;
        loop {
            let step = match &mut self.read {
                Some(read) => read()?,
                None => context.session.global_step(),
            };
            if step >= until {
                self.is_started = true;
                return Ok(None);
            }
            if step.saturating_sub(reported) > REPORT_STEPS {
                self.say(&format!("waiting for global step {until}: it is {step}"));
                reported = step;
            }
            let is_asked = |c: &Coordinator| c.should_stop();
            if self.stop.should_stop() || self.coordinator.as_ref().is_some_and(is_asked) {
                return Err(Error::stop_iteration());
            }
            if let Some(clock) = &self.clock {
                clock.sleep(POLL_INTERVAL);
            }
        }
    }
}
