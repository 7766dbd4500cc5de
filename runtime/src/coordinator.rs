//! `Coordinator` (`tf.train.Coordinator`): threads that stop together, and the first error among them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::monitored::guarded;
use crate::{Code, Error};

/// The time that [`Coordinator::join`] waits for threads after a stop was requested.
pub const STOP_GRACE_PERIOD: Duration = Duration::from_secs(120);

/// Lets a set of threads stop together: any of them may request it, with the error that made it.
///
/// ```
/// use trainspec::{Coordinator, Error, Code};
///
/// let coordinator = Coordinator::new();
/// let own = coordinator.clone();
/// let thread = std::thread::Builder::new().name("reader".into()).spawn(move || {
///     own.stop_on_error(|| Err(Error::new(Code::DataLoss, "the file is damaged")));
/// }).unwrap();
/// coordinator.wait_for_stop(None);
/// let error = coordinator.join(vec![thread.into()]).unwrap_err();
/// assert_eq!(error.code(), Code::DataLoss);
/// ```
#[derive(Debug, Clone)]
pub struct Coordinator {
    shared: Arc<Shared>,
    /// The codes of errors that are no failure.
    clean_stop_codes: Arc<[Code]>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<CoordinatorState>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct CoordinatorState {
    stop: bool,
    joined: bool,
    error: Option<Error>,
    registered: Vec<Thread>,
}

/// A thread that a coordinator waits for.
///
/// ```
/// use trainspec::{Coordinator, Thread};
///
/// let thread: Thread = std::thread::spawn(|| {}).into();
/// let coordinator = Coordinator::new();
/// coordinator.request_stop(None)?;
/// coordinator.join(vec![thread])?;
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct Thread(JoinHandle<()>);

impl From<JoinHandle<()>> for Thread {
    fn from(handle: JoinHandle<()>) -> Thread {
        Thread(handle)
    }
}

impl Thread {
    fn name(&self) -> String {
        self.0.thread().name().unwrap_or("unnamed").to_owned()
    }

    /// Whether the thread still runs.
    pub fn is_alive(&self) -> bool {
        !self.0.is_finished()
    }
}

impl Default for Coordinator {
    fn default() -> Coordinator {
        Coordinator::new()
    }
}

impl Coordinator {
    /// A coordinator for which the end of an input ([`Code::OutOfRange`]) is a clean stop.
    pub fn new() -> Coordinator {
        Coordinator::with_clean_stop(&[Code::OutOfRange])
    }

    /// A coordinator for which errors with these codes stop all threads, but are no failure (`clean_stop_exception_types`).
    pub fn with_clean_stop(codes: &[Code]) -> Coordinator {
        Coordinator {
            shared: Arc::default(),
            clean_stop_codes: codes.into(),
        }
    }

    fn state(&self) -> MutexGuard<'_, CoordinatorState> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that all threads stop. The first request counts; an error of a later one is dropped, unless all threads were joined
    /// already: then it is given back.
    pub fn request_stop(&self, error: Option<Error>) -> Result<(), Error> {
        let error = error.filter(|e| !self.clean_stop_codes.contains(&e.code()));
        let mut state = self.state();
        if state.joined
            && let Some(error) = error
        {
            return Err(error);
        }
        if !state.stop {
            state.stop = true;
            state.error = error;
            self.shared.stopped.notify_all();
        }
        Ok(())
    }

    /// Whether a stop was requested.
    pub fn should_stop(&self) -> bool {
        self.state().stop
    }

    /// Forgets the request, its error, and that threads were joined.
    pub fn clear_stop(&self) {
        let mut state = self.state();
        (state.stop, state.joined, state.error) = (false, false, None);
    }

    /// Waits until a stop is requested, or for `timeout`; whether it was requested.
    pub fn wait_for_stop(&self, timeout: Option<Duration>) -> bool {
        let mut state = self.state();
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        while !state.stop {
            state = match end {
                None => {
                    let woken = self.shared.stopped.wait(state);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let woken = self.shared.stopped.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }

    /// Runs something in a thread; its error requests a stop (`stop_on_exception`).
    pub fn stop_on_error(&self, work: impl FnOnce() -> Result<(), Error>) {
        if let Err(error) = work() {
            // After a join nobody is left to hear of it.
            let _ = self.request_stop(Some(error));
        }
    }

    /// Registers a thread that [`Coordinator::join`] waits for besides those it is given.
    pub fn register_thread(&self, thread: impl Into<Thread>) {
        self.state().registered.push(thread.into());
    }

    /// Waits for threads, as [`Coordinator::join_with`] with the defaults.
    pub fn join(&self, threads: Vec<Thread>) -> Result<(), Error> {
        self.join_with(threads, STOP_GRACE_PERIOD, false)
    }

    /// Waits until all registered and given threads have ended, or a stop was requested and the grace period after it is over. Fails with
    /// the error that requested the stop, else where threads still run, unless `ignore_live_threads`.
    pub fn join_with(
        &self,
        threads: Vec<Thread>,
        grace_period: Duration,
        ignore_live_threads: bool,
    ) -> Result<(), Error> {
        let mut threads = threads;
        threads.append(&mut self.state().registered);
        let alive = |threads: &[Thread]| threads.iter().any(Thread::is_alive);
        while alive(&threads) && !self.wait_for_stop(Some(JOIN_POLL)) {}
        let start = Instant::now();
        while alive(&threads) && start.elapsed() < grace_period {
            std::thread::sleep(JOIN_POLL.min(grace_period));
        }
        let mut state = self.state();
        state.joined = true;
        // An error outranks threads that still run.
        if let Some(error) = state.error.clone() {
            return Err(error);
        }
        let laggards = threads.iter().filter(|thread| thread.is_alive());
        let laggards: Vec<String> = laggards.map(Thread::name).collect();
        if laggards.is_empty() || ignore_live_threads {
            return Ok(());
        }
        let message = format!(
            "Coordinator stopped with threads still running: {}",
            laggards.join(" ")
        );
        Err(Error::new(Code::DeadlineExceeded, message))
    }

    /// Whether threads were joined since the start or the last [`Coordinator::clear_stop`].
    pub fn joined(&self) -> bool {
        self.state().joined
    }

    /// Gives the error that requested the stop, if there is one (`raise_requested_exception`).
    pub fn raise_requested_error(&self) -> Result<(), Error> {
        match &self.state().error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

/// How often a join looks whether threads have ended.
const JOIN_POLL: Duration = Duration::from_millis(2);

/// What a [`LooperThread`] does: closures are called again and again.
///
/// ```
/// use trainspec::{Coordinator, Error, Looper, LooperThread};
///
/// struct Countdown(u32, Coordinator);
///
/// impl Looper for Countdown {
///     fn run_loop(&mut self) -> Result<(), Error> {
///         self.0 -= 1;
///         match self.0 {
///             0 => self.1.request_stop(None),
///             _ => Ok(()),
///         }
///     }
/// }
///
/// let coordinator = Coordinator::new();
/// LooperThread::start(&coordinator, "countdown", None, Countdown(3, coordinator.clone()))?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub trait Looper: Send {
    /// Called once, before the first call of `run_loop`.
    fn start_loop(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Called again and again.
    fn run_loop(&mut self) -> Result<(), Error>;

    /// Called once, when a stop was requested.
    fn stop_loop(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl<F: FnMut() -> Result<(), Error> + Send> Looper for F {
    fn run_loop(&mut self) -> Result<(), Error> {
        self()
    }
}

/// A thread that calls something again and again until its coordinator stops (`tf.train.LooperThread`).
///
/// ```
/// use std::time::Duration;
/// use trainspec::{Coordinator, LooperThread};
///
/// let coordinator = Coordinator::new();
/// let mut calls = 0;
/// let own = coordinator.clone();
/// let looper = LooperThread::start(&coordinator, "counter", None, move || {
///     calls += 1;
///     if calls == 3 { own.request_stop(None)?; }
///     Ok(())
/// })?;
/// coordinator.join(Vec::new())?;
/// assert!(looper.join(Some(Duration::from_secs(5))));
/// assert!(!looper.is_alive());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LooperThread {
    name: String,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl LooperThread {
    /// Starts and registers a thread that calls `run_loop` at once and then at every multiple of the interval, or without pause where there
    /// is none, until a stop is requested. An error stops the coordinator.
    pub fn start(
        coordinator: &Coordinator,
        name: &str,
        timer_interval: Option<Duration>,
        looper: impl Looper + 'static,
    ) -> Result<LooperThread, Error> {
        let thread = LooperThread {
            name: name.to_owned(),
            ended: Arc::default(),
        };
        let (own, own_name, ended) = (coordinator.clone(), name.to_owned(), thread.ended.clone());
        let run = move || {
            own.stop_on_error(|| {
                let looped = || run(&own, timer_interval, looper);
                guarded("thread", &own_name, "run_loop", looped)
            });
            *ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            ended.1.notify_all();
        };
        let builder = std::thread::Builder::new().name(name.to_owned());
        let handle = builder.spawn(run).map_err(Error::other)?;
        coordinator.register_thread(handle);
        Ok(thread)
    }

    /// The name of the thread.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the thread still runs.
    pub fn is_alive(&self) -> bool {
        !*self.ended.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the thread has ended, or for `timeout`; whether it has ended. It may be called several times.
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

/// The loop of a looper thread.
fn run(
    coordinator: &Coordinator,
    timer_interval: Option<Duration>,
    mut looper: impl Looper,
) -> Result<(), Error> {
    looper.start_loop()?;
    match timer_interval {
        None => {
            while !coordinator.should_stop() {
                looper.run_loop()?;
            }
        }
        Some(interval) => {
            // Boundaries are absolute: a slow call makes the next pause shorter.
            let mut next = Instant::now();
            loop {
                let pause = next.saturating_duration_since(Instant::now());
                if coordinator.wait_for_stop(Some(pause)) {
                    break;
                }
                next += interval;
                looper.run_loop()?;
            }
        }
    }
    looper.stop_loop()
}
