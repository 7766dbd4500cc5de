//! `QueueRunner` (`tf.train.QueueRunner`): threads that fill a queue until its input ends or their coordinator stops.
//!
//! In: a queue, and enqueue operations, each of which gets a thread. Out: a queue that is closed when the last of them has seen the end of
//! its input. Errors and panics of an operation stop the coordinator. On a stop one more thread closes the queue and cancels what waits, so
//! that no thread outlives [`Coordinator::join`].

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trainspec_formats::proto::{ErrorCode, QueueRunnerDef};

use crate::coordinator::Coordinator;
use crate::graph::{Graph, QUEUE_RUNNERS};
use crate::monitored::guarded;
use crate::queue::{Cancellation, Queue};
use crate::{Code, Error};

/// One of the operations that fill a queue.
///
/// ```
/// use trainspec::queue::{EnqueueOp, FifoQueue, QueueOptions, TensorSpec};
/// use trainspec::{DType, Tensor};
///
/// let queue = FifoQueue::new(QueueOptions::new(Some(1), vec![TensorSpec::new(DType::F32, &[])]))?;
/// let own = queue.clone();
/// let plain = EnqueueOp::new(move || own.enqueue([Tensor::scalar(1.0_f32)]));
/// // A wait inside of this one ends when the runner stops.
/// let own = queue.clone();
/// let cancellable = EnqueueOp::cancellable(move |cancellation| {
///     own.cancelled_by(cancellation).enqueue([Tensor::scalar(2.0_f32)])
/// });
/// # let _ = (plain, cancellable);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct EnqueueOp {
    name: Option<String>,
    run: Box<EnqueueFunction>,
}

type EnqueueFunction = dyn FnMut(&Cancellation) -> Result<(), Error> + Send;

impl fmt::Debug for EnqueueOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EnqueueOp").field(&self.name).finish()
    }
}

impl EnqueueOp {
    /// A closure that puts something into the queue. [`Code::OutOfRange`] is the end.
    pub fn new(mut run: impl FnMut() -> Result<(), Error> + Send + 'static) -> EnqueueOp {
        EnqueueOp::cancellable(move |_| run())
    }

    /// A closure that gets the cancellation of the runner, for waits on other queues.
    pub fn cancellable(
        run: impl FnMut(&Cancellation) -> Result<(), Error> + Send + 'static,
    ) -> EnqueueOp {
        EnqueueOp {
            name: None,
            run: Box::new(run),
        }
    }

    /// Gives it the name that messages and [`QueueRunnerDef`] have.
    pub fn with_name(mut self, name: &str) -> EnqueueOp {
        self.name = Some(name.to_owned());
        self
    }
}

/// Closes a queue, or does something in place of it.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::queue::{CloseOp, FifoQueue, QueueOptions, TensorSpec};
/// use trainspec::DType;
///
/// let queue = FifoQueue::new(QueueOptions::new(Some(1), vec![TensorSpec::new(DType::F32, &[])]))?;
/// let own = queue.clone();
/// let close: CloseOp = Arc::new(move || own.close(false));
/// close()?;
/// assert!(queue.is_closed());
/// # Ok::<(), trainspec::Error>(())
/// ```
pub type CloseOp = Arc<dyn Fn() -> Result<(), Error> + Send + Sync>;

/// What a runner does beside its enqueue operations.
///
/// ```
/// use trainspec::Code;
/// use trainspec::queue::QueueRunnerOptions;
///
/// let options = QueueRunnerOptions {
///     queue_closed_exception_types: vec![Code::OutOfRange, Code::Cancelled],
///     ..QueueRunnerOptions::default()
/// };
/// assert!(options.close_op.is_none());
/// ```
#[derive(Clone)]
pub struct QueueRunnerOptions {
    /// Runs when the last enqueue operation has ended; `None` closes the queue.
    pub close_op: Option<CloseOp>,
    /// Runs when the coordinator stops; `None` closes the queue and cancels the enqueues that wait.
    pub cancel_op: Option<CloseOp>,
    /// The codes of errors that mean the end of the input, and no failure.
    pub queue_closed_exception_types: Vec<Code>,
}

impl Default for QueueRunnerOptions {
    fn default() -> QueueRunnerOptions {
        QueueRunnerOptions {
            close_op: None,
            cancel_op: None,
            queue_closed_exception_types: vec![Code::OutOfRange],
        }
    }
}

impl fmt::Debug for QueueRunnerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueRunnerOptions")
            .field("has_close_op", &self.close_op.is_some())
            .field("has_cancel_op", &self.cancel_op.is_some())
            .field(
                "queue_closed_exception_types",
                &self.queue_closed_exception_types,
            )
            .finish()
    }
}

/// Fills a queue on threads. Clones share the runner.
///
/// ```
/// use trainspec::queue::{EnqueueOp, FifoQueue, QueueOptions, QueueRunner, TensorSpec};
/// use trainspec::{Code, Coordinator, DType, Error, Tensor};
///
/// let queue = FifoQueue::new(QueueOptions::new(Some(2), vec![TensorSpec::new(DType::I32, &[])]))?;
/// let (own, mut n) = (queue.clone(), 0);
/// let count = EnqueueOp::new(move || {
///     n += 1;
///     match n {
///         1..=3 => own.enqueue([Tensor::scalar(n)]),
///         _ => Err(Error::new(Code::OutOfRange, "there are three")),
///     }
/// });
/// let runner = QueueRunner::new(&queue, vec![count])?;
/// let coordinator = Coordinator::new();
/// runner.create_threads(Some(&coordinator))?;
/// for n in 1..=3 {
///     assert_eq!(queue.dequeue()?[0].tensor(), Some(&Tensor::scalar(n)));
/// }
/// assert_eq!(queue.dequeue().unwrap_err().code(), Code::OutOfRange);
/// coordinator.request_stop(None)?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct QueueRunner(Arc<Shared>);

struct Shared {
    queue: Queue,
    ops: Vec<Arc<Slot>>,
    options: QueueRunnerOptions,
    /// The names of the close and the cancel operation in [`QueueRunnerDef`].
    close_names: (String, String),
    state: Mutex<RunnerState>,
}

/// An enqueue operation; a thread takes it out while it runs it.
struct Slot {
    name: String,
    op: Mutex<Option<EnqueueOp>>,
}

impl Slot {
    fn op(&self) -> MutexGuard<'_, Option<EnqueueOp>> {
        self.op.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct RunnerState {
    /// How many enqueue threads run.
    running: usize,
    exceptions_raised: Vec<Error>,
}

impl fmt::Debug for QueueRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueRunner")
            .field("queue", &self.0.queue)
            .field("enqueue_ops", &self.0.ops.len())
            .finish_non_exhaustive()
    }
}

impl QueueRunner {
    /// A runner with the defaults. Fails without an operation.
    pub fn new(queue: &Queue, enqueue_ops: Vec<EnqueueOp>) -> Result<QueueRunner, Error> {
        QueueRunner::with_options(queue, enqueue_ops, QueueRunnerOptions::default())
    }

    /// A runner for which other errors are the end, or which closes the queue in another way.
    pub fn with_options(
        queue: &Queue,
        enqueue_ops: Vec<EnqueueOp>,
        options: QueueRunnerOptions,
    ) -> Result<QueueRunner, Error> {
        let slots = enqueue_ops.into_iter().map(|op| {
            let default = || format!("{}_enqueue", queue.name());
            Arc::new(Slot {
                name: op.name.clone().unwrap_or_else(default),
                op: Mutex::new(Some(op)),
            })
        });
        let slots = slots.collect();
        let close = format!("{}_Close", queue.name());
        let names = (close.clone(), format!("{close}_1"));
        QueueRunner::of_slots(queue, slots, options, names)
    }

    fn of_slots(
        queue: &Queue,
        ops: Vec<Arc<Slot>>,
        options: QueueRunnerOptions,
        close_names: (String, String),
    ) -> Result<QueueRunner, Error> {
        if ops.is_empty() {
            let message = "Must provide queue and enqueue_ops.";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if options.queue_closed_exception_types.is_empty() {
            let message = "queue_closed_exception_types, when provided, must not be empty";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(QueueRunner(Arc::new(Shared {
            queue: queue.clone(),
            ops,
            options,
            close_names,
            state: Mutex::default(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, RunnerState> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue.
    pub fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// The name: that of the queue.
    pub fn name(&self) -> &str {
        self.0.queue.name()
    }

    /// The names of the enqueue operations; each has a thread.
    pub fn enqueue_ops(&self) -> Vec<&str> {
        self.0.ops.iter().map(|slot| slot.name.as_str()).collect()
    }

    /// The codes of errors that mean the end of the input.
    pub fn queue_closed_exception_types(&self) -> &[Code] {
        &self.0.options.queue_closed_exception_types
    }

    /// Whether enqueue threads run.
    pub(super) fn is_running(&self) -> bool {
        self.state().running > 0
    }

    /// The errors of threads without a coordinator, since they were started last.
    pub fn exceptions_raised(&self) -> Vec<Error> {
        self.state().exceptions_raised.clone()
    }

    /// Starts a thread for each enqueue operation, and with a coordinator one more that closes the queue when it stops. They are registered
    /// with the coordinator. Where threads of an earlier call still run, none is started.
    pub fn create_threads(
        &self,
        coordinator: Option<&Coordinator>,
    ) -> Result<Vec<RunnerThread>, Error> {
        let count = self.0.ops.len();
        {
            let mut state = self.state();
            if state.running > 0 {
                return Ok(Vec::new());
            }
            state.running = count;
            state.exceptions_raised.clear();
        }
        let cancellation = Cancellation::new();
        let mut threads = Vec::new();
        // The thread that ends the waits of the others is the first.
        if let Some(own) = coordinator.cloned() {
            let (runner, cancellation) = (self.clone(), cancellation.clone());
            let name = format!("QueueRunnerThread-{}-close_on_stop", self.name());
            let work = move || runner.close_on_stop(&own, &cancellation);
            let started = RunnerThread::start(coordinator, name, work);
            threads.push(started.inspect_err(|_| self.state().running = 0)?);
        }
        for (i, slot) in self.0.ops.iter().enumerate() {
            let (runner, own) = (self.clone(), coordinator.cloned());
            let (slot, cancellation) = (slot.clone(), cancellation.clone());
            let name = format!("QueueRunnerThread-{}-{}", self.name(), slot.name);
            let work = move || runner.run(&slot, own.as_ref(), &cancellation);
            let started = RunnerThread::start(coordinator, name, work);
            threads.push(started.inspect_err(|_| self.state().running -= count - i)?);
        }
        Ok(threads)
    }

    /// The loop of an enqueue thread.
    fn run(&self, slot: &Slot, coordinator: Option<&Coordinator>, cancellation: &Cancellation) {
        let taken = slot.op().take();
        let ended = match taken {
            Some(mut op) => {
                let ended = self.repeat(&mut op, &slot.name, coordinator, cancellation);
                *slot.op() = Some(op);
                ended
            }
            // Another runner of the same operation has it.
            None => {
                let message = format!("the enqueue operation `{}` runs already", slot.name);
                Err(Error::new(Code::FailedPrecondition, message))
            }
        };
        let is_last = {
            let mut state = self.state();
            state.running -= 1;
            state.running == 0
        };
        match (ended, coordinator) {
            (Ok(End::Stopped), _) => {}
            (Ok(End::Closed), _) if is_last => self.close(cancellation),
            (Ok(End::Closed), _) => {}
            // After a join nobody is left to hear of it.
            (Err(error), Some(coordinator)) => drop(coordinator.request_stop(Some(error))),
            (Err(error), None) => self.state().exceptions_raised.push(error),
        }
    }

    fn repeat(
        &self,
        op: &mut EnqueueOp,
        name: &str,
        coordinator: Option<&Coordinator>,
        cancellation: &Cancellation,
    ) -> Result<End, Error> {
        while !coordinator.is_some_and(Coordinator::should_stop) {
            match guarded("enqueue operation", name, "run", || (op.run)(cancellation)) {
                Ok(()) => {}
                Err(error) if self.is_end(&error) => return Ok(End::Closed),
                Err(error) => return Err(error),
            }
        }
        Ok(End::Stopped)
    }

    fn is_end(&self, error: &Error) -> bool {
        let codes = &self.0.options.queue_closed_exception_types;
        codes.contains(&error.code())
    }

    /// Closes the queue after the end of the input; what waits to be put in is kept. Errors are dropped: it may be closed already.
    fn close(&self, cancellation: &Cancellation) {
        let name = &self.0.close_names.0;
        let _ = guarded("close operation", name, "run", || {
            match &self.0.options.close_op {
                Some(close) => close(),
                None => self.queue().cancelled_by(cancellation).close(false),
            }
        });
    }

    /// Waits for the stop of the coordinator, closes the queue, and ends all waits.
    fn close_on_stop(&self, coordinator: &Coordinator, cancellation: &Cancellation) {
        coordinator.wait_for_stop(None);
        let name = &self.0.close_names.1;
        let _ = guarded("cancel operation", name, "run", || {
            match &self.0.options.cancel_op {
                Some(cancel) => cancel(),
                None => self.queue().close(true),
            }
        });
        cancellation.cancel();
    }

    /// The runner as a message (`QueueRunner.to_proto`), with names relative to a scope; `None` where the queue is not in it.
    pub fn to_proto(&self, export_scope: Option<&str>) -> Option<QueueRunnerDef> {
        let prefix = export_scope.map(|scope| format!("{}/", scope.trim_end_matches('/')));
        let inside = |name: &str| match &prefix {
            None => Some(name.to_owned()),
            Some(prefix) => name.strip_prefix(prefix.as_str()).map(str::to_owned),
        };
        let queue_name = inside(self.name())?;
        let relative = |name: &str| inside(name).unwrap_or_else(|| name.to_owned());
        let codes = self.queue_closed_exception_types().iter();
        Some(QueueRunnerDef {
            queue_name,
            enqueue_op_name: self.enqueue_ops().into_iter().map(relative).collect(),
            close_op_name: relative(&self.0.close_names.0),
            cancel_op_name: relative(&self.0.close_names.1),
            queue_closed_exception_types: codes.map(|code| number(*code) as i32).collect(),
        })
    }

    /// The runner of a message (`QueueRunner.from_proto`): its queue and its operations are found by name among the runners that the graph
    /// has collected. A message without codes means [`Code::OutOfRange`].
    pub fn from_proto(
        graph: &Graph,
        def: &QueueRunnerDef,
        import_scope: Option<&str>,
    ) -> Result<QueueRunner, Error> {
        let full = |name: &str| match import_scope {
            None => name.to_owned(),
            Some(scope) => format!("{}/{name}", scope.trim_end_matches('/')),
        };
        let missing = |what: &str, name: &str| {
            let message = format!("the graph has no {what} called `{name}`");
            Error::new(Code::NotFound, message)
        };
        let queue_name = full(&def.queue_name);
        let mut all = graph.collections().queue_runners.values().flatten();
        let known = all.find(|runner| runner.name() == queue_name);
        let known = known.ok_or_else(|| missing("queue with a runner", &queue_name))?;
        // An operation with several threads stands there several times.
        let mut slots = known.0.ops.clone();
        let mut ops = Vec::new();
        for name in &def.enqueue_op_name {
            let name = full(name);
            let at = slots.iter().position(|slot| slot.name == name);
            let at = at.ok_or_else(|| missing("enqueue operation", &name))?;
            ops.push(slots.remove(at));
        }
        let codes = def.queue_closed_exception_types.iter();
        let mut codes = codes
            .map(|number| code(*number))
            .collect::<Result<Vec<_>, _>>()?;
        if codes.is_empty() {
            codes.push(Code::OutOfRange);
        }
        let options = QueueRunnerOptions {
            queue_closed_exception_types: codes,
            ..known.0.options.clone()
        };
        let names = (full(&def.close_op_name), full(&def.cancel_op_name));
        QueueRunner::of_slots(known.queue(), ops, options, names)
    }
}

/// How an enqueue thread ended without an error.
enum End {
    /// The coordinator stopped.
    Stopped,
    /// The input ended, or the queue was closed.
    Closed,
}

/// The number of a class of failures in messages.
fn number(code: Code) -> ErrorCode {
    match code {
        Code::DataLoss => ErrorCode::DataLoss,
        Code::NotFound => ErrorCode::NotFound,
        Code::InvalidArgument => ErrorCode::InvalidArgument,
        Code::OutOfRange => ErrorCode::OutOfRange,
        Code::FailedPrecondition => ErrorCode::FailedPrecondition,
        Code::AlreadyExists => ErrorCode::AlreadyExists,
        Code::ResourceExhausted => ErrorCode::ResourceExhausted,
        Code::Unimplemented => ErrorCode::Unimplemented,
        Code::PermissionDenied => ErrorCode::PermissionDenied,
        Code::DeadlineExceeded => ErrorCode::DeadlineExceeded,
        Code::Cancelled => ErrorCode::Cancelled,
        Code::Aborted => ErrorCode::Aborted,
        Code::Unavailable => ErrorCode::Unavailable,
        Code::Internal => ErrorCode::Internal,
        _ => ErrorCode::Unknown,
    }
}

/// The class of failures of a number.
fn code(wanted: i32) -> Result<Code, Error> {
    let all = [
        Code::DataLoss,
        Code::NotFound,
        Code::InvalidArgument,
        Code::OutOfRange,
        Code::FailedPrecondition,
        Code::AlreadyExists,
        Code::ResourceExhausted,
        Code::Unimplemented,
        Code::PermissionDenied,
        Code::DeadlineExceeded,
        Code::Cancelled,
        Code::Aborted,
        Code::Unavailable,
        Code::Internal,
        Code::Unknown,
    ];
    let found = all.into_iter().find(|code| number(*code) as i32 == wanted);
    found.ok_or_else(|| {
        let message = format!("{wanted} is the code of no error that a queue runner knows");
        Error::new(Code::InvalidArgument, message)
    })
}

/// A thread of a queue runner.
///
/// ```
/// use std::time::Duration;
/// use trainspec::queue::{EnqueueOp, FifoQueue, QueueOptions, QueueRunner, TensorSpec};
/// use trainspec::{Code, DType, Error};
///
/// let queue = FifoQueue::new(QueueOptions::new(Some(2), vec![TensorSpec::new(DType::I32, &[])]))?;
/// let fails = EnqueueOp::new(|| Err(Error::new(Code::DataLoss, "the file is damaged")));
/// let runner = QueueRunner::new(&queue, vec![fails])?;
/// // Without a coordinator errors are collected.
/// let threads = runner.create_threads(None)?;
/// assert!(threads[0].join(Some(Duration::from_secs(5))) && !threads[0].is_alive());
/// assert_eq!(runner.exceptions_raised()[0].code(), Code::DataLoss);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunnerThread {
    name: String,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl RunnerThread {
    fn start(
        coordinator: Option<&Coordinator>,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<RunnerThread, Error> {
        let ended = Arc::<(Mutex<bool>, Condvar)>::default();
        let own = ended.clone();
        let run = move || {
            work();
            *own.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            own.1.notify_all();
        };
        let builder = std::thread::Builder::new().name(name.clone());
        let handle = builder.spawn(run).map_err(Error::other)?;
        if let Some(coordinator) = coordinator {
            coordinator.register_thread(handle);
        }
        Ok(RunnerThread { name, ended })
    }

    /// The name of the thread.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the thread still runs.
    pub fn is_alive(&self) -> bool {
        !*self.ended.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the thread has ended, or for `timeout`; whether it has ended.
    pub fn join(&self, timeout: Option<Duration>) -> bool {
        let ended = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        match timeout {
            None => {
                let waited = self.ended.1.wait_while(ended, |ended| !*ended);
                *waited.unwrap_or_else(PoisonError::into_inner)
            }
            Some(timeout) => {
                let waited = (self.ended.1).wait_timeout_while(ended, timeout, |ended| !*ended);
                *waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}

/// Adds a runner to a collection of the graph (`tf.train.add_queue_runner`); `None` is [`QUEUE_RUNNERS`].
pub fn add_queue_runner(
    graph: &mut Graph,
    runner: &QueueRunner,
    collection: Option<&str>,
) -> Result<(), Error> {
    let all = graph.collections_mut()?;
    let key = collection.unwrap_or(QUEUE_RUNNERS).to_owned();
    all.queue_runners
        .entry(key)
        .or_default()
        .push(runner.clone());
    Ok(())
}

/// Starts the runners of a collection (`tf.train.start_queue_runners`); `None` is [`QUEUE_RUNNERS`]. Monitored sessions and supervisors do
/// so by themselves.
pub fn start_queue_runners(
    graph: &Graph,
    coordinator: Option<&Coordinator>,
    collection: Option<&str>,
) -> Result<Vec<RunnerThread>, Error> {
    let all = &graph.collections().queue_runners;
    let runners = all.get(collection.unwrap_or(QUEUE_RUNNERS));
    let mut threads = Vec::new();
    for runner in runners.into_iter().flatten() {
        threads.extend(runner.create_threads(coordinator)?);
    }
    Ok(threads)
}
