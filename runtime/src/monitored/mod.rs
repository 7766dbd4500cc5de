//! Monitored sessions (`tf.train.MonitoredSession`): a session with hooks, recovery, and a clean end.
//!
//! In: something that creates sessions, and hooks. Out: runs in TensorFlow's order of calls: `begin` of every hook, the session, the queue
//! runners of the graph, `after_create_session`, then `before_run`, the run and `after_run`, in the end `end`. A run that fails because something elsewhere was
//! preempted ([`Code::Aborted`], [`Code::Unavailable`]) is repeated with a new session. A hook that panics fails the run.

mod creators;
mod guard;
mod ops;
mod scaffold;
mod training_session;

pub use creators::{
    ChiefSessionCreator, InitialSession, SessionCreator, WORKER_MAX_WAIT, WorkerSessionCreator,
};
pub(crate) use guard::guarded;
pub use ops::{InitOp, ReadyOp};
pub(crate) use scaffold::default_saver;
pub use scaffold::{Scaffold, ScaffoldInitFn};
pub use training_session::{Setting, TrainingSessionOptions, monitored_training_session};

use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::ir::Tensor;

use crate::coordinator::{Coordinator, STOP_GRACE_PERIOD};
use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::program::{FeedDict, InputView};
use crate::queue::{restart_input, start_queue_runners};
use crate::session::{FetchShape, Request, RunOptions, Session, Target};
use crate::{Code, Error, Graph};

/// A session with hooks.
///
/// ```
/// use trainspec::hooks::StopAtStepHook;
/// use trainspec::monitored::{InitialSession, MonitoredSession};
/// use trainspec::InputView;
/// use trainspec::Graph;
///
/// let text = "
///     spec line;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(0.05); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// let stop = StopAtStepHook::last_step(10);
/// let creator = Box::new(InitialSession::default());
/// let mut session = MonitoredSession::new(Graph::new(&spec), creator, vec![Box::new(stop)])?;
/// let feeds = [("x", InputView::new(&[2], &[1.0_f32, 2.0])), ("y", InputView::new(&[2], &[2.0_f32, 4.0]))];
/// let mut losses = Vec::new();
/// while !session.should_stop() {
///     let (_, loss) = session.run(("train_op", "loss"), &feeds)?;
///     losses.extend(loss.unwrap().to_f64s());
/// }
/// session.close()?;
/// assert_eq!(losses.len(), 10);
/// assert!(losses[9] < losses[0]);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct MonitoredSession {
    graph: Graph,
    creator: Box<dyn SessionCreator>,
    hooks: Vec<Box<dyn SessionRunHook>>,
    /// What each hook asked for in the current run.
    asked: Vec<Option<SessionRunArgs>>,
    /// The values of what each hook asked for.
    results: Vec<Option<Vec<Option<Tensor>>>>,
    request: Request,
    /// The values of what the caller asked for in the last run.
    values: Vec<Option<Tensor>>,
    session: Option<Session>,
    /// The session after it was closed.
    closed: Option<Session>,
    coordinator: Coordinator,
    stop_requested: bool,
    recovers: bool,
    stop_grace_period: Duration,
}

impl std::fmt::Debug for MonitoredSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitoredSession")
            .field("session", &self.session)
            .field("hooks", &self.hooks.len())
            .field("stop_requested", &self.stop_requested)
            .finish_non_exhaustive()
    }
}

impl MonitoredSession {
    /// Calls `begin` of every hook and creates the session. One that is [`Code::Aborted`] or [`Code::Unavailable`] while it is created
    /// is created again.
    pub fn new(
        graph: Graph,
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionRunHook>>,
    ) -> Result<MonitoredSession, Error> {
        MonitoredSession::begin(graph, creator, hooks, true)
    }

    /// A session that never recovers (`tf.train.SingularMonitoredSession`).
    pub fn singular(
        graph: Graph,
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionRunHook>>,
    ) -> Result<MonitoredSession, Error> {
        MonitoredSession::begin(graph, creator, hooks, false)
    }

    fn begin(
        graph: Graph,
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionRunHook>>,
        recovers: bool,
    ) -> Result<MonitoredSession, Error> {
        let mut session = MonitoredSession {
            graph,
            creator,
            asked: hooks.iter().map(|_| None).collect(),
            results: Vec::new(),
            hooks,
            request: Request::default(),
            values: Vec::new(),
            session: None,
            closed: None,
            coordinator: Coordinator::with_clean_stop(&[]),
            stop_requested: false,
            recovers,
            stop_grace_period: STOP_GRACE_PERIOD,
        };
        for hook in &mut session.hooks {
            guard::call(&mut **hook, "begin", |hook| hook.begin(&mut session.graph))?;
        }
        match session.create() {
            Ok(()) => Ok(session),
            Err(error) => {
                // Threads that a hook has started end with the session that was not created.
                let _ = session.join();
                Err(error)
            }
        }
    }

    /// Creates the session and tells the hooks.
    fn create(&mut self) -> Result<(), Error> {
        loop {
            match self.try_create() {
                Err(error) if self.recovers && is_preemption(&error) => self.session = None,
                created => return created,
            }
        }
    }

    fn try_create(&mut self) -> Result<(), Error> {
        // The threads of a session that was lost end before the next one begins; what they failed with is known.
        let _ = self.join();
        restart_input(&self.graph);
        let mut created = self.creator.create_session(&mut self.graph)?;
        created.declare(self.graph.declared());
        let session = self.session.insert(created);
        // Each session has a coordinator of its own; the end of an input surfaces in `run`.
        self.coordinator = Coordinator::with_clean_stop(&[]);
        start_queue_runners(&self.graph, Some(&self.coordinator), None)?;
        for hook in &mut self.hooks {
            guard::call(&mut **hook, "after_create_session", |hook| {
                hook.after_create_session(session, &self.coordinator)
            })?;
        }
        Ok(())
    }

    /// Runs once with hooks, and gives what is asked for, in the shape of the question.
    ///
    /// Feeds are borrowed, and the state is updated in place. Allocated are the lists of targets and values, and a copy of each value
    /// that is fetched, by the caller or by a hook: nothing that grows with the model.
    ///
    /// Fails where the session is closed, or a stop was requested before.
    pub fn run<F: FetchShape>(
        &mut self,
        fetches: F,
        feeds: &dyn FeedDict,
    ) -> Result<F::Output, Error> {
        self.run_batches(fetches, &[feeds], &RunOptions::default())
    }

    /// As [`MonitoredSession::run`], with the micro-batches of an update, and with options.
    pub fn run_batches<F: FetchShape>(
        &mut self,
        fetches: F,
        batches: &[&dyn FeedDict],
        options: &RunOptions,
    ) -> Result<F::Output, Error> {
        let mut targets = Vec::new();
        fetches.targets(self.open()?, &mut targets)?;
        self.run_targets(&targets, batches, options)?;
        Ok(fetches.shape(&mut self.values.drain(..)))
    }

    /// Runs once with hooks. The values of the targets are kept until the next run.
    pub(crate) fn run_targets(
        &mut self,
        targets: &[Target],
        batches: &[&dyn FeedDict],
        options: &RunOptions,
    ) -> Result<(), Error> {
        loop {
            let preempted = self.coordinator.raise_requested_error();
            if self.recovers && preempted.is_err_and(|error| is_preemption(&error)) {
                self.session = None;
            }
            if self.closed.is_some() {
                return Err(closed());
            }
            if self.session.is_none() {
                self.create()?;
            }
            if self.stop_requested {
                let message = "run was called after a stop was requested";
                return Err(Error::new(Code::FailedPrecondition, message));
            }
            let ran = self.run_hooked(targets, batches, options);
            match ran.map_err(|error| self.outranked(error)) {
                Err(error) if self.recovers && is_preemption(&error) => self.session = None,
                Err(error) => {
                    if error.is_end_of_input() {
                        self.stop_requested = true;
                    }
                    return Err(error);
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    fn run_hooked(
        &mut self,
        targets: &[Target],
        batches: &[&dyn FeedDict],
        options: &RunOptions,
    ) -> Result<(), Error> {
        let session = self.session.as_mut().expect("it was just created");
        self.request.train = false;
        self.request.values.clear();
        self.request.options.clone_from(options);
        targets.iter().for_each(|target| self.request.add(target));
        let mut stop = false;
        let mut feeds = false;
        for (hook, asked) in self.hooks.iter_mut().zip(&mut self.asked) {
            let mut context = SessionRunContext::new(session, targets, batches, &mut stop);
            *asked = guard::call(&mut **hook, "before_run", |hook| {
                hook.before_run(&mut context)
            })?;
            if let Some(args) = asked {
                args.fetches.iter().for_each(|t| self.request.add(t));
                self.request.options.merge(&args.options);
                feeds |= !args.feeds.is_empty();
            }
        }
        match feeds {
            false => session.run_request(&self.request, batches)?,
            true => {
                let added = AddedFeeds::new(&self.asked, batches)?;
                let all: Vec<AddedTo<'_>> = batches
                    .iter()
                    .map(|batch| AddedTo {
                        added: &added,
                        batch: *batch,
                    })
                    .collect();
                let all: Vec<&dyn FeedDict> = all.iter().map(|f| f as &dyn FeedDict).collect();
                session.run_request(&self.request, &all)?;
            }
        }
        let options = &self.request.options;
        let run_metadata = match options.is_default() {
            true => None,
            false => Some(Arc::new(session.metadata(options))),
        };
        // All values are taken before the first hook acts, which may run the session again.
        self.values.clear();
        for target in targets {
            self.values.push(session.value(target)?);
        }
        self.results.clear();
        for asked in &mut self.asked {
            self.results.push(match asked.take() {
                None => None,
                Some(args) => {
                    let values = args.fetches.iter().map(|target| session.value(target));
                    Some(values.collect::<Result<Vec<_>, Error>>()?)
                }
            });
        }
        for (hook, results) in self.hooks.iter_mut().zip(self.results.drain(..)) {
            let values = SessionRunValues {
                results,
                options: options.clone(),
                run_metadata: run_metadata.clone(),
            };
            let mut context = SessionRunContext::new(session, targets, batches, &mut stop);
            guard::call(&mut **hook, "after_run", |hook| {
                hook.after_run(&mut context, &values)
            })?;
        }
        self.stop_requested |= stop;
        Ok(())
    }

    /// Calls a function with the session without hooks, a way to run with hooks, and a way to stop (`run_step_fn`). Where the function
    /// stops it, this gives `None`.
    pub fn run_step_fn<R>(
        &mut self,
        step_fn: impl FnOnce(&mut StepContext<'_>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        match step_fn(&mut StepContext { monitored: self }) {
            Ok(value) => Ok(Some(value)),
            Err(error) if matches!(error.cause, crate::Cause::StopIteration) => {
                self.stop_requested = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The error of a run, or that of a thread which was preempted: it explains the other, and is recovered from.
    fn outranked(&self, error: Error) -> Error {
        match self.coordinator.raise_requested_error() {
            Err(requested) if is_preemption(&requested) => requested,
            _ => error,
        }
    }

    /// Whether the session is over: a hook or a thread asked to stop, the input ended, or it is closed. Where a thread was preempted it is
    /// not: the next run recovers.
    pub fn should_stop(&self) -> bool {
        let is_preempted = || match self.coordinator.raise_requested_error() {
            Ok(()) => false,
            Err(error) => self.recovers && is_preemption(&error),
        };
        self.stop_requested
            || self.session.is_none()
            || (self.coordinator.should_stop() && !is_preempted())
    }

    /// How long the end waits for threads of the coordinator (`stop_grace_period_secs`).
    pub fn with_stop_grace_period(mut self, period: Duration) -> MonitoredSession {
        self.stop_grace_period = period;
        self
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The session without hooks; fails where it is closed.
    pub fn raw_session(&mut self) -> Result<&mut Session, Error> {
        self.session.as_mut().ok_or_else(closed)
    }

    fn open(&self) -> Result<&Session, Error> {
        self.session.as_ref().ok_or_else(closed)
    }

    /// The coordinator of the threads of this session.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Ends the session: calls `end` of every hook, then closes it. An error of one hook skips the rest.
    pub fn close(&mut self) -> Result<(), Error> {
        self.close_after(None)
    }

    /// Ends the session after an error of the loop that used it: `end` of hooks is called only where the error is the end of the input,
    /// which is then no error. Gives back every other.
    pub fn close_after(&mut self, error: Option<Error>) -> Result<(), Error> {
        match error.filter(|error| !error.is_end_of_input()) {
            None => self.end(),
            Some(failed) => {
                // The error of the loop outranks those of threads.
                let _ = self.join();
                self.session = None;
                self.stop_requested = true;
                Err(failed)
            }
        }
    }

    /// Stops the threads of the session and waits for them; gives the error that one of them requested the stop with.
    fn join(&mut self) -> Result<(), Error> {
        self.coordinator.request_stop(None)?;
        self.coordinator
            .join_with(Vec::new(), self.stop_grace_period, true)
    }

    /// Ends the session as [`MonitoredSession::close`] does, and gives it back with its state.
    pub(crate) fn finish(&mut self) -> Result<Session, Error> {
        self.end()?;
        self.closed.take().ok_or_else(closed)
    }

    /// Calls `end` of every hook, also where the session is closed already, which is then the error.
    fn end(&mut self) -> Result<(), Error> {
        self.stop_requested = true;
        let was_open = self.session.is_some();
        if let Some(session) = self.session.take() {
            self.closed = Some(session);
        }
        let ended = match &mut self.closed {
            Some(session) => {
                let mut hooks = self.hooks.iter_mut();
                hooks.try_for_each(|hook| guard::call(&mut **hook, "end", |hook| hook.end(session)))
            }
            None => Ok(()),
        };
        if !was_open {
            ended?;
            let message = "Session is already closed.";
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        let joined = self.join();
        ended.and(joined)
    }
}

impl Drop for MonitoredSession {
    /// Threads of a session that was not closed end too, though nobody waits for them.
    fn drop(&mut self) {
        let _ = self.coordinator.request_stop(None);
    }
}

/// What a step function gets (`StepContext`).
///
/// ```
/// use trainspec::monitored::InitialSession;
/// use trainspec::{Graph, InputView, MonitoredSession};
///
/// let text = "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); }";
/// let spec = trainspec::check("line", text)?;
/// let mut session = MonitoredSession::new(Graph::new(&spec), Box::new(InitialSession::default()), Vec::new())?;
/// let x = [1.0_f32, 3.0];
/// session.run_step_fn(|context| {
///     let feeds = [("x", InputView::new(&[2], &x))];
///     // Without hooks first, then with them.
///     context.session()?.run("loss", &feeds)?;
///     context.run_with_hooks("train_op", &feeds)
/// })?;
/// assert_eq!(session.raw_session()?.global_step(), 1);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct StepContext<'a> {
    monitored: &'a mut MonitoredSession,
}

impl StepContext<'_> {
    /// The session without hooks.
    pub fn session(&mut self) -> Result<&mut Session, Error> {
        self.monitored.raw_session()
    }

    /// Runs with hooks.
    pub fn run_with_hooks<F: FetchShape>(
        &mut self,
        fetches: F,
        feeds: &dyn FeedDict,
    ) -> Result<F::Output, Error> {
        self.monitored.run(fetches, feeds)
    }

    /// The error that ends the step function and the session.
    pub fn request_stop(&self) -> Error {
        Error::stop_iteration()
    }
}

/// Whether something elsewhere was preempted, so that a new session may succeed.
fn is_preemption(error: &Error) -> bool {
    matches!(error.code(), Code::Aborted | Code::Unavailable)
}

fn closed() -> Error {
    Error::new(Code::FailedPrecondition, "the session is closed")
}

/// What hooks feed besides the caller.
struct AddedFeeds<'a>(Vec<(&'a str, &'a Tensor)>);

impl<'a> AddedFeeds<'a> {
    /// The feeds of all hooks; two for one name are an error.
    fn new(
        asked: &'a [Option<SessionRunArgs>],
        batches: &[&dyn FeedDict],
    ) -> Result<AddedFeeds<'a>, Error> {
        let mut added: Vec<(&str, &Tensor)> = Vec::new();
        for (name, value) in asked.iter().flatten().flat_map(|args| &args.feeds) {
            let twice = added.iter().any(|(known, _)| known == name)
                || batches.iter().any(|batch| batch.feed(name).is_some());
            if twice {
                let message =
                    format!("`{name}` is fed twice: by a hook and by another one or the caller");
                return Err(Error::new(Code::FailedPrecondition, message));
            }
            added.push((name, value));
        }
        Ok(AddedFeeds(added))
    }
}

/// A batch with what hooks feed besides.
struct AddedTo<'a> {
    added: &'a AddedFeeds<'a>,
    batch: &'a dyn FeedDict,
}

impl FeedDict for AddedTo<'_> {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        let added = self.added.0.iter().find(|(known, _)| *known == name);
        match added {
            Some((_, value)) => Some(InputView::from(*value)),
            None => self.batch.feed(name),
        }
    }
}
