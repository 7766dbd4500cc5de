//! Profiles of a run: the time of each kernel, or its spans: start, end and thread.
//!
//! In: the kernels as they run. Out: times that are added up, or spans. A trace leaves the schedule and all results as they are; times are
//! measured one kernel after the other, so that waves are taken apart.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A stretch of time that a thread spends on one kernel of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSpan {
    /// The index of the kernel, in the order of the plan.
    pub kernel: usize,
    /// The thread: 0 is the one that runs the program, others are workers of the pool.
    pub thread: usize,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

/// What is measured while a program runs.
#[derive(Debug, Default)]
pub(super) enum Profile {
    /// Nothing.
    #[default]
    Off,
    /// The time of each kernel, added up over runs; kernels of a wave run one by one.
    Times(Vec<Duration>),
    /// The spans of all kernels on all threads.
    Spans(Arc<Recorder>),
}

impl Profile {
    /// Whether kernels of a wave run one by one.
    pub(super) fn is_serial(&self) -> bool {
        match self {
            Profile::Times(_) => true,
            Profile::Off | Profile::Spans(_) => false,
        }
    }

    /// The recorder of spans, where there is one.
    pub(super) fn recorder(&self) -> Option<&Arc<Recorder>> {
        match self {
            Profile::Spans(recorder) => Some(recorder),
            Profile::Off | Profile::Times(_) => None,
        }
    }

    /// A kernel begins on the thread that runs the program.
    pub(super) fn begin(&self, kernel: usize) -> Option<Begun> {
        match self {
            Profile::Off => None,
            Profile::Times(_) => Some(Begun {
                start: Instant::now(),
                _current: None,
            }),
            Profile::Spans(recorder) => Some(Begun {
                start: Instant::now(),
                _current: Some(Current::set(recorder.clone(), kernel)),
            }),
        }
    }

    /// A kernel that began here is done.
    pub(super) fn end(&mut self, kernel: usize, begun: Option<Begun>) {
        let Some(Begun { start, .. }) = begun else {
            return;
        };
        match self {
            Profile::Off => {}
            Profile::Times(times) => times[kernel] += start.elapsed(),
            Profile::Spans(recorder) => recorder.add(kernel, start),
        }
    }
}

/// A kernel under way on the thread that runs the program.
pub(super) struct Begun {
    start: Instant,
    /// Held until the kernel is done, so that the pool knows whose tasks it runs.
    _current: Option<Current>,
}

/// Collects the spans of a run.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<Vec<KernelSpan>>);

impl Recorder {
    fn spans(&self) -> MutexGuard<'_, Vec<KernelSpan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what this thread has done since `start`, to its span before where that is of the same kernel.
    pub(super) fn add(&self, kernel: usize, start: Instant) {
        let (thread, end) = (THREAD.get(), Instant::now());
        let mut spans = self.spans();
        let last = spans.iter_mut().rev().find(|span| span.thread == thread);
        match last {
            Some(last) if last.kernel == kernel => last.end = end,
            _ => spans.push(KernelSpan {
                kernel,
                thread,
                start,
                end,
            }),
        }
    }

    /// Takes the spans, sorted by their start.
    pub(super) fn take(&self) -> Vec<KernelSpan> {
        let mut spans = std::mem::take(&mut *self.spans());
        spans.sort_by_key(|span| (span.start, span.thread, span.kernel));
        spans
    }
}

thread_local! {
    /// The number of this thread in its pool; 0 where it is none of a pool.
    static THREAD: Cell<usize> = const { Cell::new(0) };
    /// The recorder and the kernel whose tasks this thread gives to a pool.
    static CURRENT: RefCell<Option<(Arc<Recorder>, usize)>> = const { RefCell::new(None) };
}

/// Says which thread of a pool this is.
pub(super) fn set_thread(number: usize) {
    THREAD.set(number);
}

/// While it lives, tasks of this thread belong to a kernel.
struct Current;

impl Current {
    fn set(recorder: Arc<Recorder>, kernel: usize) -> Current {
        CURRENT.set(Some((recorder, kernel)));
        Current
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Calls `run` with the work of a run of the pool, which records what workers do where the kernel is traced. The thread that runs the
/// program records its kernels as a unit, waits included.
pub(super) fn traced(work: &(dyn Fn(usize) + Sync), run: impl FnOnce(&(dyn Fn(usize) + Sync))) {
    let current = CURRENT.with_borrow(Clone::clone);
    let Some((recorder, kernel)) = current else {
        return run(work);
    };
    run(&|task| {
        if THREAD.get() == 0 {
            return work(task);
        }
        let start = Instant::now();
        work(task);
        recorder.add(kernel, start);
    });
}
