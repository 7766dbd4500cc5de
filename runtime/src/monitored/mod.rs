//! Monitored sessions (`tf.train.MonitoredSession`): a session with hooks, recovery, and a clean end.
//!
//! In: something that creates sessions, and hooks. Out: runs in TensorFlow's order of calls: `begin` of every hook, the session,
//! `after_create_session`, then `before_run`, the run and `after_run`, in the end `end`. A run that fails because something elsewhere was
//! preempted ([`Code::Aborted`], [`Code::Unavailable`]) is repeated with a new session.

use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::Spec;

use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::program::{FeedDict, InputView};
use crate::session::{FetchShape, Options, Request, Session, Target};
use crate::{Code, Error};

/// Creates the session of a monitored one, and creates it again after a recovery (`tf.train.SessionCreator`).
pub trait SessionCreator: Send {
    /// A session that is initialized or restored.
    fn create_session(&mut self) -> Result<Session, Error>;
}

impl<F: FnMut() -> Result<Session, Error> + Send> SessionCreator for F {
    fn create_session(&mut self) -> Result<Session, Error> {
        self()
    }
}

/// Creates sessions with the initial values of a spec.
#[derive(Debug, Clone)]
pub struct InitialSession {
    /// The spec.
    pub spec: Arc<Spec>,
    /// Seed, engine and compilation.
    pub options: Options,
}

impl SessionCreator for InitialSession {
    fn create_session(&mut self) -> Result<Session, Error> {
        Session::new(&self.spec, &self.options)
    }
}

/// A session with hooks.
///
/// ```
/// use trainspec::hooks::StopAtStepHook;
/// use trainspec::monitored::{InitialSession, MonitoredSession};
/// use trainspec::program::InputView;
/// use trainspec::session::Options;
/// use trainspec_compiler::{Compilation, source::NoFiles};
///
/// let text = "
///     spec line;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(0.05); }
/// ";
/// let spec = Compilation::check("line", text, &NoFiles, &Default::default()).spec.unwrap();
/// let creator = InitialSession { spec, options: Options::default() };
/// let stop = StopAtStepHook::last_step(10);
/// let mut session = MonitoredSession::new(Box::new(creator), vec![Box::new(stop)])?;
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
    creator: Box<dyn SessionCreator>,
    hooks: Vec<Box<dyn SessionRunHook>>,
    /// What each hook asked for in the current run.
    asked: Vec<Option<SessionRunArgs>>,
    request: Request,
    session: Option<Session>,
    coordinator: Coordinator,
    stop_requested: bool,
    recovers: bool,
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
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionRunHook>>,
    ) -> Result<MonitoredSession, Error> {
        MonitoredSession::begin(creator, hooks, true)
    }

    /// A session that never recovers (`tf.train.SingularMonitoredSession`).
    pub fn singular(
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionRunHook>>,
    ) -> Result<MonitoredSession, Error> {
        MonitoredSession::begin(creator, hooks, false)
    }

    fn begin(
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionRunHook>>,
        recovers: bool,
    ) -> Result<MonitoredSession, Error> {
        let mut session = MonitoredSession {
            creator,
            asked: hooks.iter().map(|_| None).collect(),
            hooks,
            request: Request::default(),
            session: None,
            // The end of an input surfaces in `run`.
            coordinator: Coordinator::with_clean_stop(&[]),
            stop_requested: false,
            recovers,
        };
        for hook in &mut session.hooks {
            hook.begin()?;
        }
        session.create()?;
        Ok(session)
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
        let session = self.session.insert(self.creator.create_session()?);
        for hook in &mut self.hooks {
            hook.after_create_session(session, &self.coordinator)?;
        }
        Ok(())
    }

    /// Runs once with hooks, and gives what is asked for, in the shape of the question.
    ///
    /// Fails where the session is closed, or a stop was requested before.
    pub fn run<F: FetchShape>(
        &mut self,
        fetches: F,
        feeds: &dyn FeedDict,
    ) -> Result<F::Output, Error> {
        self.run_batches(fetches, &[feeds])
    }

    /// As [`MonitoredSession::run`], with the micro-batches of an update.
    pub fn run_batches<F: FetchShape>(
        &mut self,
        fetches: F,
        batches: &[&dyn FeedDict],
    ) -> Result<F::Output, Error> {
        let mut targets = Vec::new();
        fetches.targets(self.open()?, &mut targets)?;
        self.run_targets(&targets, batches)?;
        let session = self.open()?;
        let values = targets.iter().map(|target| session.value(target));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        Ok(fetches.shape(&mut values.into_iter()))
    }

    /// Runs once with hooks. The values are then read from the session.
    pub(crate) fn run_targets(
        &mut self,
        targets: &[Target],
        batches: &[&dyn FeedDict],
    ) -> Result<(), Error> {
        loop {
            if self.session.is_none() {
                self.create()?;
            }
            if self.stop_requested {
                let message = "run was called after a stop was requested";
                return Err(Error::new(Code::FailedPrecondition, message));
            }
            match self.run_hooked(targets, batches) {
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

    fn run_hooked(&mut self, targets: &[Target], batches: &[&dyn FeedDict]) -> Result<(), Error> {
        let session = self.session.as_mut().expect("it was just created");
        self.request.train = false;
        self.request.values.clear();
        targets.iter().for_each(|target| self.request.add(target));
        let mut stop = false;
        let mut feeds = false;
        for (hook, asked) in self.hooks.iter_mut().zip(&mut self.asked) {
            let mut context = SessionRunContext::new(session, targets, batches, &mut stop);
            *asked = hook.before_run(&mut context)?;
            if let Some(args) = asked {
                args.fetches.iter().for_each(|t| self.request.add(t));
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
        for (hook, asked) in self.hooks.iter_mut().zip(&mut self.asked) {
            let results = match asked.take() {
                None => None,
                Some(args) => {
                    let values = args.fetches.iter().map(|target| session.value(target));
                    Some(values.collect::<Result<Vec<_>, Error>>()?)
                }
            };
            let values = SessionRunValues { results };
            let mut context = SessionRunContext::new(session, targets, batches, &mut stop);
            hook.after_run(&mut context, &values)?;
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

    /// Whether the session is over: a hook asked to stop, the input ended, or it is closed.
    pub fn should_stop(&self) -> bool {
        self.stop_requested || self.session.is_none() || self.coordinator.should_stop()
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
            None => self.finish().map(drop),
            Some(failed) => {
                let _ = self.coordinator.request_stop(None);
                self.session = None;
                self.stop_requested = true;
                Err(failed)
            }
        }
    }

    /// Ends the session as [`MonitoredSession::close`] does, and gives it back with its state.
    pub(crate) fn finish(&mut self) -> Result<Session, Error> {
        let _ = self.coordinator.request_stop(None);
        self.stop_requested = true;
        let Some(mut session) = self.session.take() else {
            // TensorFlow's hooks hear of the second end too; here there is no session left to hand them.
            let message = "Session is already closed.";
            return Err(Error::new(Code::FailedPrecondition, message));
        };
        let mut hooks = self.hooks.iter_mut();
        hooks.try_for_each(|hook| hook.end(&mut session))?;
        Ok(session)
    }
}

/// What a step function gets (`StepContext`).
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
