//! The trace of a run: start, end and thread of every kernel of the programs that it ran.
//!
//! In: a program, while it runs. Out: a [`TracedProgram`] for [`RunMetadata`](crate::session::RunMetadata). Leaves alone: the schedule and
//! the results, which are those of a run without a trace.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::plan::{Allocation, Program};

use crate::program::{Executable, Feeds, Fetched};
use crate::{Error, State};

/// A program that a run executed, with its kernels and when they ran.
///
/// ```
/// use trainspec::InputView;
/// use trainspec::session::{Options, RunOptions, Session, TraceLevel};
///
/// let text = "
///     spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.1); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// let mut session = Session::new(&spec, &Options::default())?;
/// let options = RunOptions { trace_level: TraceLevel::FullTrace, ..RunOptions::default() };
/// let (_, metadata) = session.run_with("loss", &[("x", InputView::new(&[2], &[1.0_f32, 3.0]))], &options)?;
/// let program = &metadata.trace[0];
/// // Every kernel ran on some thread.
/// assert!((0..program.kernels.len()).all(|k| program.spans.iter().any(|span| span.kernel == k)));
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TracedProgram {
    /// Its kernels, in the order of the plan; none for the interpreter.
    pub kernels: Vec<TracedKernel>,
    /// When they ran, sorted by start.
    pub spans: Vec<TracedSpan>,
    /// When it began, since the run did.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
}

/// A kernel of a trace.
///
/// ```
/// use std::time::Duration;
/// use trainspec::session::{TracedKernel, TracedProgram, TracedSpan};
///
/// /// The time of all threads on each kernel.
/// fn times(program: &TracedProgram) -> Vec<(&TracedKernel, Duration)> {
///     let time = |k| program.spans.iter().filter(|span| span.kernel == k).map(|span: &TracedSpan| span.duration).sum();
///     program.kernels.iter().enumerate().map(|(k, kernel)| (kernel, time(k))).collect()
/// }
/// # let empty = TracedProgram { kernels: vec![], spans: vec![], start: Duration::ZERO, duration: Duration::ZERO };
/// # assert!(times(&empty).is_empty());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TracedKernel {
    /// Its name: a loop with its shape, or a library routine.
    pub name: String,
    /// The operations of a loop, each once.
    pub operations: Vec<&'static str>,
    /// Its outputs: the type, and the state variable that the output is written to in place, if any.
    pub outputs: Vec<(Type, Option<String>)>,
    /// The kernels whose outputs it reads, in order.
    pub producers: Vec<usize>,
    /// The bytes of the arena that hold values while it runs.
    pub live_bytes: usize,
}

/// A stretch of time that a thread spent on a kernel.
///
/// ```
/// use std::time::Duration;
/// use trainspec::session::TracedSpan;
///
/// let span = TracedSpan { kernel: 0, thread: 1, start: Duration::from_micros(3), duration: Duration::from_micros(2) };
/// assert_eq!(span.start + span.duration, Duration::from_micros(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedSpan {
    /// The index of the kernel.
    pub kernel: usize,
    /// The thread: 0 ran the program, others are workers.
    pub thread: usize,
    /// When it began, since the run did.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
}

/// Runs programs, and traces them where it is asked to.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// When the run began that is traced.
    began: Option<Instant>,
    programs: Vec<TracedProgram>,
}

impl Tracer {
    /// A run begins.
    pub(super) fn begin(&mut self, traces: bool) {
        self.programs.clear();
        self.began = traces.then(Instant::now);
    }

    /// Runs a program once.
    pub(super) fn run(
        &mut self,
        program: &mut dyn Executable,
        feeds: Feeds<'_>,
        state: &mut State,
        results: &mut Fetched,
    ) -> Result<(), Error> {
        let Some(began) = self.began else {
            return program.run_into(feeds, state, results);
        };
        program.trace(true);
        let start = Instant::now();
        let ran = program.run_into(feeds, state, results);
        let duration = start.elapsed();
        let spans = program.trace(false);
        self.programs.push(TracedProgram {
            kernels: traced_kernels(program),
            spans: (spans.iter())
                .map(|span| TracedSpan {
                    kernel: span.kernel,
                    thread: span.thread,
                    start: span.start.saturating_duration_since(began),
                    duration: span.end.saturating_duration_since(span.start),
                })
                .collect(),
            start: start.saturating_duration_since(began),
            duration,
        });
        ran
    }

    /// The run is over: what runs next is not traced.
    pub(super) fn end(&mut self) {
        self.began = None;
    }

    /// The programs of the run.
    pub(super) fn programs(&self) -> &[TracedProgram] {
        &self.programs
    }
}

fn traced_kernels(program: &dyn Executable) -> Vec<TracedKernel> {
    let Some(planned) = program.planned() else {
        return Vec::new();
    };
    let live = live_bytes(planned);
    let mut producers = vec![None; planned.kernels.buffers.len()];
    let mut kernels = Vec::new();
    for (i, (described, kernel)) in (program.kernels().into_iter())
        .zip(&planned.kernels.kernels)
        .enumerate()
    {
        let read = kernel.inputs().filter_map(|v| producers[v.buffer.index()]);
        let mut read: Vec<usize> = read.collect();
        read.sort_unstable();
        read.dedup();
        for buffer in &kernel.outputs {
            producers[buffer.index()] = Some(i);
        }
        kernels.push(TracedKernel {
            name: described.name,
            operations: described.operations,
            outputs: described.outputs,
            producers: read,
            live_bytes: live[i],
        });
    }
    kernels
}

/// The bytes of the arena that are live during each kernel: from the kernel that writes a buffer to the last that reads it, to the end for
/// results and new values of state. Buffers of one place count once.
fn live_bytes(program: &Program) -> Vec<usize> {
    let all = &program.kernels;
    let count = all.kernels.len();
    let mut last = vec![0; all.buffers.len()];
    for (i, kernel) in all.kernels.iter().enumerate() {
        let used = kernel.inputs().map(|v| v.buffer);
        for buffer in used.chain(kernel.outputs.iter().copied()) {
            last[buffer.index()] = i;
        }
    }
    let results = all.results.iter().map(|(_, view)| view);
    for view in all.writes.iter().map(|(_, view)| view).chain(results) {
        last[view.buffer.index()] = count;
    }
    let mut live: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    let mut bytes = Vec::with_capacity(count);
    for (i, kernel) in all.kernels.iter().enumerate() {
        live.retain(|_, (_, last)| *last >= i);
        for buffer in &kernel.outputs {
            if let Allocation::Arena(at) = program.allocations[buffer.index()] {
                let ty = &all.buffers[buffer.index()].ty;
                let size = ty.elements() * ty.dtype.bytes();
                let place = live.entry(at).or_insert((0, 0));
                *place = (place.0.max(size), place.1.max(last[buffer.index()]));
            }
        }
        bytes.push(live.values().map(|(size, _)| size).sum());
    }
    bytes
}
