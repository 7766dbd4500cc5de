//! Thread pool: a fixed set of worker threads for fork-join parallel loops, one run at a time, with static shares and work stealing.
//!
//! In: a number of tasks and a function of the task's index. Out: nothing; the run returns when all tasks have ended.
//! Leaves alone: how work is split into tasks. Which thread runs a task is not deterministic, so a task must not depend on it.
//!
//! Each thread begins with its own share of the tasks, the same in every run (cache affinity), and then steals what is left of the
//! others'. So the rows that a thread finds in its cache are mostly those that it wrote there a run before.
//!
//! A run has seats for helpers, and workers that come in time take them. Nobody waits for a worker that is asleep or
//! off its core: the caller works through the tasks itself, and waits only for helpers that sit.

mod adaptive_spin;

use std::any::Any;
use std::cell::Cell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::exec::ftz::FtzGuard;
use crate::exec::trace;
use adaptive_spin::AdaptiveSpin;

/// The most threads a pool may have: the counts in the state word are ten bits wide.
pub const MAX_THREADS: usize = 1 << 10;

/// Iterations of a spin loop before it reads the clock and yields its core: some 40 microseconds, longer than most waits within a
/// step.
const SPIN_ITERATIONS: u32 = 2048;

/// A pool of worker threads. Dropping it stops and joins them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of at most `threads` threads, the caller's among them, and never more than the machine has cores for.
    ///
    /// Zero counts as one, which starts no thread. If the system refuses a thread, the pool has fewer.
    pub fn new(threads: usize) -> Pool {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut pool = Pool::alone();
        while pool.threads() < threads.min(cores).min(MAX_THREADS) && pool.grow().is_ok() {}
        pool
    }

    /// A pool of exactly `threads` threads, whatever the machine has.
    ///
    /// # Panics
    /// If `threads` is zero or above [`MAX_THREADS`], or the system refuses a thread.
    pub fn exactly(threads: usize) -> Pool {
        assert!(
            (1..=MAX_THREADS).contains(&threads),
            "a pool cannot have {threads} threads"
        );
        let mut pool = Pool::alone();
        while pool.threads() < threads {
            pool.grow().expect("the system starts another thread");
        }
        pool
    }

    /// How many threads work on a run, the caller's among them.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `work(i)` once for each `i` below `tasks`, and returns when all have ended.
    ///
    /// A run from inside a task, or while another thread has a run under way, stays on the calling thread. So tasks
    /// must not wait for each other.
    ///
    /// # Panics
    /// If a task panics: the other tasks still run, then the panic of the lowest task is passed on.
    pub fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        match tasks {
            0 => return,
            1 => return work(0),
            _ => assert!(
                tasks <= usize::MAX - MAX_THREADS,
                "{tasks} tasks are too many to count"
            ),
        }
        trace::traced(work, |work| {
            let job = Job::new(tasks, self.threads(), work);
            if self.workers.is_empty() || self.shared.busy.swap(true, Acquire) {
                job.run_tasks(0);
            } else {
                self.shared.share(&job, self.workers.len());
            }
            if let Some((_, payload)) = unpoisoned(job.panic.into_inner()) {
                resume_unwind(payload);
            }
        });
    }

    fn alone() -> Pool {
        Pool {
            shared: Arc::default(),
            workers: Vec::new(),
        }
    }

    fn grow(&mut self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let number = self.threads();
        let worker = Builder::new().name(format!("trainspec-{number}"));
        self.workers
            .push(worker.spawn(move || shared.serve(number))?);
        Ok(())
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.threads())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            // Under the lock, so that no worker goes to sleep between its check of the state and its wait (lost wakeup).
            let _tickets = lock(&self.shared.tickets);
            self.shared.gate.state.fetch_or(STOP, Relaxed);
        }
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a task, so there is none to pass on.
            let _ = worker.join();
        }
    }
}

/// The most shares of a run. More threads than that begin with the same ones.
const MAX_SHARES: usize = 8;

/// One run: a function, and the indices to call it with next. All in one cache line, which helpers must fetch anyway.
#[repr(align(128))]
struct Job<'a> {
    /// The next task of each share.
    next: [AtomicUsize; MAX_SHARES],
    shares: usize,
    /// How many tasks a share has at least, and how many shares have one more.
    tasks_per_share: usize,
    remainder: usize,
    work: &'a (dyn Fn(usize) + Sync),
    /// The lowest task that panicked, and what it panicked with.
    panic: Mutex<Option<(usize, Box<dyn Any + Send>)>>,
}

impl<'a> Job<'a> {
    fn new(tasks: usize, threads: usize, work: &'a (dyn Fn(usize) + Sync)) -> Job<'a> {
        let shares = threads.min(tasks).min(MAX_SHARES);
        let (tasks_per_share, remainder) = (tasks / shares, tasks % shares);
        Job {
            next: std::array::from_fn(|i| {
                AtomicUsize::new(first_task(tasks_per_share, remainder, i))
            }),
            shares,
            tasks_per_share,
            remainder,
            work,
            panic: Mutex::new(None),
        }
    }

    /// Runs tasks until there are none left, those of its own share first, then steals. Never unwinds.
    fn run_tasks(&self, thread: usize) {
        let current = Cell::new(0);
        let take_tasks = || {
            for i in 0..self.shares {
                let share = (thread + i) % self.shares;
                let end = first_task(self.tasks_per_share, self.remainder, share + 1);
                loop {
                    let task = self.next[share].fetch_add(1, Relaxed);
                    if task >= end {
                        break;
                    }
                    current.set(task);
                    (self.work)(task);
                }
            }
        };
        // Caught around the loop, not around each task, so that a task costs nothing extra.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(take_tasks)) {
            let mut first = lock(&self.panic);
            let loser = match &*first {
                Some((task, _)) if *task < current.get() => Some(payload),
                _ => first
                    .replace((current.get(), payload))
                    .map(|(_, payload)| payload),
            };
            // Dropping a payload may panic once more. What that panics with is leaked.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(loser))) {
                std::mem::forget(again);
            }
        }
    }
}

/// The first task of a share; for the share past the last, the number of tasks.
fn first_task(tasks_per_share: usize, remainder: usize, share: usize) -> usize {
    share * tasks_per_share + share.min(remainder)
}

// The state word packs four counts, so that one compare-and-swap decides which workers help, which sleep and which must be woken.
/// One worker that sits in the current run.
const HELPER: u64 = 1;
/// One free seat in the current run. There are none between runs.
const SEAT: u64 = 1 << 10;
const ALL_SEATS: u64 = (MAX_THREADS as u64 - 1) * SEAT;
/// One worker that sleeps and holds no ticket.
const SLEEPER: u64 = 1 << 20;
/// The pool is being dropped.
const STOP: u64 = 1 << 30;
/// One run. The count wraps: a worker that has slept through 2^33 runs may miss one, which it is free to do.
const RUN: u64 = 1 << 31;

fn count(state: u64, unit: u64) -> usize {
    (state / unit) as usize % MAX_THREADS
}

/// Whether a worker that has already been in run `seen` has a run to join, or must stop.
fn has_work(state: u64, seen: u64) -> bool {
    state & STOP != 0 || (count(state, SEAT) > 0 && state / RUN != seen)
}

/// What spinning workers read, alone in its cache lines (no false sharing).
#[derive(Default)]
#[repr(align(128))]
struct Gate {
    state: AtomicU64,
    job: AtomicPtr<Job<'static>>,
}

#[derive(Default)]
struct Shared {
    gate: Gate,
    /// Set while a thread owns the gate. Only the owner opens and closes runs.
    busy: AtomicBool,
    /// Sleepers that have been called and not woken up yet. A sleeper leaves by taking a ticket, so one that wakes up
    /// uncalled goes back to sleep, and a call is never lost.
    tickets: Mutex<usize>,
    wake: Condvar,
}

impl Shared {
    /// Runs `job` with the help of the workers. The caller has set `busy`.
    fn share(&self, job: &Job<'_>, workers: usize) {
        /// Ends the run however the block is left.
        struct Close<'a>(&'a Shared);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.close();
            }
        }
        let _close = Close(self);
        self.open(job, workers);
        job.run_tasks(0);
    }

    fn open(&self, job: &Job<'_>, workers: usize) {
        let tasks = job.shares * job.tasks_per_share + job.remainder;
        self.gate
            .job
            .store(ptr::from_ref(job).cast_mut().cast(), Relaxed);
        let seats = workers.min(tasks - 1);
        let called = |state| seats.saturating_sub(workers - count(state, SLEEPER));
        // Release: who takes a seat sees the job.
        let before = self.gate.state.update(Release, Relaxed, |state| {
            state.wrapping_add(RUN) + seats as u64 * SEAT - called(state) as u64 * SLEEPER
        });
        let called = called(before);
        if called > 0 {
            *lock(&self.tickets) += called;
            self.wake.notify_one();
        }
    }

    /// Takes the free seats away and waits until the taken ones are left. Then no worker reads the job any more.
    fn close(&self) {
        // Acquire, here and below: what the helpers did is visible to the caller.
        let mut state = self.gate.state.fetch_and(!ALL_SEATS, AcqRel);
        for iteration in 1.. {
            if count(state, HELPER) == 0 {
                break;
            }
            spin_loop();
            if iteration % SPIN_ITERATIONS == 0 {
                thread::yield_now();
            }
            state = self.gate.state.load(Acquire);
        }
        self.busy.store(false, Release);
    }

    /// The main loop of a worker, which is thread `number` of the pool.
    fn serve(&self, number: usize) {
        // As on the thread that runs a program.
        let _ftz = FtzGuard::enable();
        trace::set_thread(number);
        let state = &self.gate.state;
        let mut spin = AdaptiveSpin::START;
        let mut seen = 0;
        loop {
            let now = self.wait(seen, &mut spin);
            if now & STOP != 0 {
                return;
            }
            let seated = now - SEAT + HELPER;
            // Acquire: the job is as `open` left it.
            let exchange = state.compare_exchange(now, seated, Acquire, Relaxed);
            if exchange.is_err() {
                continue;
            }
            seen = now / RUN;
            // SAFETY: `now` had a free seat, so its run was open, and the exchange took the seat in that same state.
            // `open` stored the job before it gave out seats, and only the one owner of `busy` opens runs, so the
            // pointer is this run's. `share` holds the job by reference and does not end, not even by unwinding,
            // before `close` has seen this helper leave, which is the subtraction below.
            let job = unsafe { &*self.gate.job.load(Relaxed) };
            job.run_tasks(number);
            state.fetch_sub(HELPER, Release);
        }
    }

    /// Waits for a run or the stop: spins as long as that has paid lately (adaptive spinning), then sleeps until it is called.
    fn wait(&self, seen: u64, spin: &mut AdaptiveSpin) -> u64 {
        let mut began = None;
        loop {
            for _ in 0..SPIN_ITERATIONS {
                let state = self.gate.state.load(Relaxed);
                if has_work(state, seen) {
                    spin.learn(began.map_or(Duration::ZERO, |began: Instant| began.elapsed()));
                    return state;
                }
                spin_loop();
            }
            let since = *began.get_or_insert_with(Instant::now);
            if since.elapsed() >= spin.duration {
                self.sleep(seen);
                spin.learn(since.elapsed());
                began = None;
            } else {
                thread::yield_now();
            }
        }
    }

    /// Sleeps until there is a ticket or the pool stops; returns at once if there is work already.
    fn sleep(&self, seen: u64) {
        let mut tickets = lock(&self.tickets);
        let state = &self.gate.state;
        let asleep = |state| (!has_work(state, seen)).then_some(state + SLEEPER);
        if state.try_update(Relaxed, Relaxed, asleep).is_err() {
            return;
        }
        while *tickets == 0 {
            if state.load(Relaxed) & STOP != 0 {
                return;
            }
            tickets = unpoisoned(self.wake.wait(tickets));
        }
        *tickets -= 1;
        // To wake a thread costs microseconds. The caller pays for one, which wakes two more, and so on.
        for _ in 0..2.min(*tickets) {
            self.wake.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Nothing that is done under a lock can leave its value half done, so poison says nothing.
fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
