//! Session hooks (`tf.train.SessionRunHook`): code that runs around every step of a monitored session, one hook per file.
//!
//! In: the session, what was asked for, and after a run its results. Out: more to fetch or feed, a request to stop, or an error. The hooks
//! that a spec names are built in [`crate::trainer`]; a program adds its own.

mod best;
mod checkpoint;
mod checkpoint_saver;
mod early_stop;
mod eval;
mod event_files;
mod feed_fn;
mod final_ops;
mod final_values;
mod global_step_waiter;
mod log;
mod logging_tensor;
mod nan_tensor;
mod overflow;
mod profile;
mod profile_step;
mod profiler;
mod progress;
mod second_or_step_timer;
mod step_counter;
mod steps_per_second;
mod stop;
mod stop_at;
mod stop_at_step;
mod summary;
mod summary_saver;

pub(crate) use best::{BEST_FOLDER, BestSaver};
pub(crate) use checkpoint::CheckpointHook;
pub use checkpoint_saver::{CheckpointSaverHook, CheckpointSaverListener};
pub(crate) use early_stop::EarlyStopHook;
pub(crate) use eval::{EvalFailure, EvalHook, RaiseHook, TO_EVALUATE};
pub(crate) use event_files::EventFiles;
pub use feed_fn::{FeedFn, FeedFnHook};
pub use final_ops::{FinalOpsHook, FinalOpsValues};
pub(crate) use final_values::{FinalValuesHook, LastBatch};
pub use global_step_waiter::GlobalStepWaiterHook;
pub(crate) use log::{DEFAULT_LOG_INTERVAL, LogHook, read};
pub use logging_tensor::{Formatter, LogSink, LoggingTensorHook};
pub use nan_tensor::{NanLossDuringTrainingError, NanTensorHook};
pub(crate) use overflow::OverflowHook;
pub(crate) use profile::ProfileHook;
pub(crate) use profile_step::ProfileStepHook;
pub use profiler::ProfilerHook;
pub(crate) use progress::ProgressHook;
pub use second_or_step_timer::{Every, SecondOrStepTimer};
pub use step_counter::StepCounterHook;
pub(crate) use steps_per_second::StepsPerSecondHook;
pub(crate) use stop::StopHook;
pub(crate) use stop_at::StopAtHook;
pub use stop_at_step::StopAtStepHook;
pub(crate) use summary::SummaryHook;
pub use summary_saver::SummarySaverHook;

use std::sync::Arc;

use trainspec_compiler::ir::Tensor;

use crate::coordinator::Coordinator;
use crate::program::FeedDict;
use crate::session::{RunMetadata, RunOptions, Session, Target};
use crate::{Error, Graph};

/// Code around the runs of a [`MonitoredSession`](crate::MonitoredSession).
///
/// For each session: `begin`, then `after_create_session` once it is initialized or restored (again after a recovery), `before_run` and
/// `after_run` around every run, and `end` where the session ends without a failure. A hook that panics fails the run with an error that
/// names it.
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
    /// What errors call it: its type, unless it says otherwise.
    fn name(&self) -> String {
        let name = std::any::type_name::<Self>();
        let path = name.split('<').next().unwrap_or(name);
        path.rsplit("::").next().unwrap_or(path).to_owned()
    }

    /// Called once, before the session is created. The graph can still be added to: collections, and what the hook will fetch
    /// ([`Graph::declare`]).
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        let _ = graph;
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
///
/// ```
/// use trainspec::hooks::SessionRunArgs;
/// use trainspec::session::Target;
///
/// let args = SessionRunArgs::fetch([Target::Variable("global_step".to_owned())]);
/// assert!(args.feeds.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRunArgs {
    /// What is fetched, in order.
    pub fetches: Vec<Target>,
    /// What is fed, by name.
    pub feeds: Vec<(String, Tensor)>,
    /// What is asked of the run itself.
    pub options: RunOptions,
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
///
/// ```
/// use trainspec::hooks::SessionRunValues;
///
/// // A hook that asked for nothing.
/// assert_eq!(SessionRunValues::default().get(0), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRunValues {
    /// One for each fetch, in order; `None` where the hook asked for nothing. An operation has no value.
    pub results: Option<Vec<Option<Tensor>>>,
    /// What all hooks and the caller asked of the run.
    pub options: RunOptions,
    /// What the run says of itself; `None` where nobody asked.
    pub run_metadata: Option<Arc<RunMetadata>>,
}

impl SessionRunValues {
    /// The value of the `i`-th fetch of the hook; `None` where it is an operation, or was not asked for.
    pub fn get(&self, i: usize) -> Option<&Tensor> {
        self.results.as_ref()?.get(i)?.as_ref()
    }

    /// The values of all fetches of the hook, in order, without those of operations.
    pub fn tensors(&self) -> Vec<Tensor> {
        let results = self.results.iter().flatten();
        results.flatten().cloned().collect()
    }
}

/// A run, as hooks see it (`tf.train.SessionRunContext`).
///
/// ```
/// use trainspec::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook};
///
/// struct StopAtTen;
///
/// impl SessionRunHook for StopAtTen {
///     fn before_run(&mut self, context: &mut SessionRunContext<'_>) -> Result<Option<SessionRunArgs>, trainspec::Error> {
///         if context.session.global_step() >= 10 {
///             context.request_stop();
///         }
///         Ok(None)
///     }
/// }
/// ```
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
