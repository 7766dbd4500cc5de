//! Session hooks (`tf.train.SessionRunHook`): code that runs around every step of a monitored session, one hook per file.
//!
//! In: the session, what was asked for, and after a run its results. Out: more to fetch or feed, a request to stop, or an error. The hooks
//! that a spec names are built in [`crate::trainer`]; a program adds its own.

mod checkpoint;
mod eval;
mod event_files;
mod log;
mod nan;
mod overflow;
mod progress;
mod step_counter;
mod stop;
mod stop_at_step;
mod summary;

pub(crate) use checkpoint::CheckpointHook;
pub(crate) use eval::EvalHook;
pub(crate) use event_files::EventFiles;
pub(crate) use log::LogHook;
pub(crate) use nan::NanHook;
pub(crate) use overflow::OverflowHook;
pub(crate) use progress::ProgressHook;
pub(crate) use step_counter::StepCounterHook;
pub(crate) use stop::StopHook;
pub use stop_at_step::StopAtStepHook;
pub(crate) use summary::SummaryHook;

use trainspec_compiler::ir::Tensor;

use crate::Error;
use crate::coordinator::Coordinator;
use crate::program::FeedDict;
use crate::session::{Session, Target};

/// Code around the runs of a [`MonitoredSession`](crate::MonitoredSession).
///
/// For each session: `begin`, then `after_create_session` once it is initialized or restored (again after a recovery), `before_run` and
/// `after_run` around every run, and `end` where the session ends without a failure.
///
/// ```
/// use trainspec::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
/// use trainspec::Error;
///
/// /// Stops after N runs.
/// struct StopAfter(u64);
///
/// impl SessionRunHook for StopAfter {
///     fn after_run(&mut self, context: &mut SessionRunContext<'_>, _: &SessionRunValues) -> Result<(), Error> {
///         self.0 -= 1;
///         if self.0 == 0 {
///             context.request_stop();
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait SessionRunHook: Send {
    /// Called once, before the session is created.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Called when a session is ready: at the start, and again after each recovery.
    fn after_create_session(
        &mut self,
        session: &mut Session,
        coordinator: &Coordinator,
    ) -> Result<(), Error> {
        let _ = (session, coordinator);
        Ok(())
    }

    /// Called before each run; gives what the hook requests and feeds besides.
    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let _ = context;
        Ok(None)
    }

    /// Called after each run that did not fail, with the values of what the hook asked for.
    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let _ = (context, values);
        Ok(())
    }

    /// Called at the end, unless the session failed. The session can still run, without hooks.
    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        let _ = session;
        Ok(())
    }
}

/// What a hook or a caller requests of a run (`tf.train.SessionRunArgs`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRunArgs {
    /// What is fetched, in order.
    pub fetches: Vec<Target>,
    /// What is fed, by name.
    pub feeds: Vec<(String, Tensor)>,
}

impl SessionRunArgs {
    /// Fetches these, and feeds nothing.
    pub fn fetch(fetches: impl IntoIterator<Item = Target>) -> SessionRunArgs {
        SessionRunArgs {
            fetches: fetches.into_iter().collect(),
            ..SessionRunArgs::default()
        }
    }
}

/// The values of what a hook asked for (`tf.train.SessionRunValues`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRunValues {
    /// One for each fetch, in order; `None` where the hook asked for nothing. An operation has no value.
    pub results: Option<Vec<Option<Tensor>>>,
}

impl SessionRunValues {
    /// The value of the `i`-th fetch of the hook; `None` where it is an operation, or was not asked for.
    pub fn get(&self, i: usize) -> Option<&Tensor> {
        self.results.as_ref()?.get(i)?.as_ref()
    }
}

/// A run, as hooks see it (`tf.train.SessionRunContext`).
pub struct SessionRunContext<'a> {
    /// The session, without hooks.
    pub session: &'a mut Session,
    /// What the caller asked for, without what hooks add.
    pub original_args: &'a [Target],
    /// What the caller feeds: the micro-batches of an update.
    pub batches: &'a [&'a dyn FeedDict],
    stop_requested: &'a mut bool,
}

impl<'a> SessionRunContext<'a> {
    pub(crate) fn new(
        session: &'a mut Session,
        original_args: &'a [Target],
        batches: &'a [&'a dyn FeedDict],
        stop_requested: &'a mut bool,
    ) -> SessionRunContext<'a> {
        SessionRunContext {
            session,
            original_args,
            batches,
            stop_requested,
        }
    }

    /// Asks the session to stop after this run.
    pub fn request_stop(&mut self) {
        *self.stop_requested = true;
    }

    /// Whether a hook asked to stop.
    pub fn stop_requested(&self) -> bool {
        *self.stop_requested
    }
}

impl std::fmt::Debug for SessionRunContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionRunContext")
            .field("original_args", &self.original_args)
            .field("stop_requested", &self.stop_requested)
            .finish_non_exhaustive()
    }
}
