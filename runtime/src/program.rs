//! The [`Executable`] interface of a program, and its two engines: the interpreter and machine code.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::codegen;
use trainspec_compiler::codegen::exec::pool::Pool;
use trainspec_compiler::codegen::exec::{KernelSpan, WorkMemory};
use trainspec_compiler::ir::graph::{self, Graph, Type};
use trainspec_compiler::ir::interp::RunError;
use trainspec_compiler::ir::kernel::InstOp;
use trainspec_compiler::ir::plan::{Allocation, Cost, Program};
use trainspec_compiler::ir::{CountName, DType, Tensor, TensorType};
use trainspec_compiler::ir::{Span, interp};
use trainspec_compiler::lower::SEED;
use trainspec_compiler::{Fetch, FetchSet, PipelineOptions, pipeline};

pub use trainspec_compiler::codegen::exec::{InputElement, InputView};

use crate::{Error, State, memory};

/// What a program is fed, by name (`feed_dict`): tensors, ndarray views, slices. Nothing is copied where the elements lie in order.
///
/// ```
/// use ndarray::array;
/// use trainspec::{FeedDict, InputView};
///
/// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
/// let feeds = [("x", InputView::from(&x)), ("y", InputView::new(&[2], &[0_i64, 1]))];
/// assert_eq!(feeds.feed("x").unwrap().shape(), [2, 2]);
/// assert!(feeds.feed("z").is_none());
/// ```
pub trait FeedDict {
    /// The value of that name.
    fn feed(&self, name: &str) -> Option<InputView<'_>>;
}

impl FeedDict for BTreeMap<String, Tensor> {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        self.get(name).map(InputView::from)
    }
}

impl FeedDict for [(&str, InputView<'_>)] {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        self.iter().find(|(n, _)| *n == name).map(|(_, view)| *view)
    }
}

impl<const N: usize> FeedDict for [(&str, InputView<'_>); N] {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        self.as_slice().feed(name)
    }
}

impl FeedDict for Vec<(&str, InputView<'_>)> {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        self.as_slice().feed(name)
    }
}

/// The feeds of a program, by reference: values by name, and the seed of random draws.
#[derive(Clone, Copy)]
pub struct Feeds<'a> {
    /// The values by name; those that a program does not take are left alone.
    pub values: &'a dyn FeedDict,
    /// The seed, for programs that draw random numbers; `None` where it is among the values.
    pub seed: Option<&'a Tensor>,
}

impl<'a> From<&'a BTreeMap<String, Tensor>> for Feeds<'a> {
    fn from(values: &'a BTreeMap<String, Tensor>) -> Feeds<'a> {
        Feeds { values, seed: None }
    }
}

impl<'a> Feeds<'a> {
    /// The value of that name; fails where it is missing.
    fn get(&self, name: &str) -> Result<InputView<'a>, RunError> {
        let seed = self.seed.filter(|_| name == SEED).map(InputView::from);
        let value = seed.or_else(|| self.values.feed(name));
        value.ok_or_else(|| missing(name))
    }
}

/// The fetched results of a run, by name, in the order of the program.
///
/// ```
/// use trainspec::{Fetched, Tensor};
///
/// let fetched = Fetched(vec![("loss/loss".to_owned(), Tensor::scalar(0.5_f32))]);
/// assert_eq!(fetched.get("loss/loss").unwrap().to_f64s(), [0.5]);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fetched(pub Vec<(String, Tensor)>);

impl Fetched {
    /// The result of that name, as the lowering calls it.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, t)| t)
    }

    /// The value of a fetch.
    pub fn value(&self, fetch: &Fetch) -> Option<&Tensor> {
        self.get(&fetch.to_string())
    }

    /// The axes of a value that have run-time counts, each with its count.
    fn counts(&self, fetch: &Fetch, ty: &TensorType) -> Vec<(usize, usize)> {
        let axes = (0..ty.rank()).filter(|i| ty.shape.0[*i].count.is_some());
        let axes: Vec<usize> = axes.collect();
        let name = fetch.to_string();
        let counts = CountName::all(&name, axes.len()).map(|count| {
            let count = self.get(&count.to_string());
            count.map_or(usize::MAX, |n| n.to_i64s()[0].max(0) as usize)
        });
        axes.iter().copied().zip(counts).collect()
    }

    /// The value of a fetch without the padding past its run-time counts.
    pub(crate) fn without_padding(
        &self,
        fetch: &Fetch,
        ty: &TensorType,
    ) -> Option<Cow<'_, Tensor>> {
        let tensor = self.value(fetch)?;
        let counts = self.counts(fetch, ty);
        if counts.is_empty() || tensor.dtype() == DType::String {
            return Some(Cow::Borrowed(tensor));
        }
        Some(Cow::Owned(below_counts(tensor, &counts)))
    }
}

/// The elements of a tensor of numbers whose index is below the count of every counted axis.
fn below_counts(tensor: &Tensor, counts: &[(usize, usize)]) -> Tensor {
    let (shape, mut cut) = (tensor.shape(), tensor.shape().to_vec());
    for (axis, count) in counts {
        cut[*axis] = cut[*axis].min(*count);
    }
    let is_below = |i: &usize| {
        counts.iter().all(|(axis, count)| {
            let stride: usize = shape[axis + 1..].iter().product();
            (i / stride) % shape[*axis] < *count
        })
    };
    let kept = (0..shape.iter().product::<usize>()).filter(is_below);
    let ty = Type::new(tensor.dtype(), &cut);
    match tensor.dtype().is_float() {
        true => {
            let values = tensor.to_f64s();
            Tensor::from_f64s(&ty, kept.map(|i| values[i]))
        }
        false => {
            let values = tensor.to_i64s();
            Tensor::from_i64s(&ty, kept.map(|i| values[i]))
        }
    }
}

/// A program that runs over a state.
pub trait Executable: Debug + Send {
    /// Its inputs, with their types.
    fn inputs(&self) -> &[(String, Type)];

    /// The state that it reads or writes.
    fn state(&self) -> &[graph::State];

    /// The planned program that it runs; the interpreter runs none.
    fn planned(&self) -> Option<&Program>;

    /// The size of its arena in bytes, without inputs and state; 0 for the interpreter.
    fn bytes(&self) -> usize;

    /// Its kernels in the order of execution; none for the interpreter.
    fn kernels(&self) -> Vec<Kernel>;

    /// Switches the per-kernel profiler on or off; gives the times accumulated so far, one per kernel.
    fn profile(&mut self, on: bool) -> Vec<Duration>;

    /// Switches the trace on or off; gives the spans of all kernels since it was switched on. The schedule and all results are those of a run
    /// without it. The interpreter has no kernels.
    fn trace(&mut self, on: bool) -> Vec<KernelSpan>;

    /// Buffers for its results, as [`Executable::run_into`] takes them.
    fn results(&self) -> Fetched;

    /// Runs once, into buffers that [`Executable::results`] made: nothing is allocated from the second run on. State writes are atomic:
    /// after an error all state has its old value. Inputs that it does not take are ignored.
    fn run_into(
        &mut self,
        feeds: Feeds<'_>,
        state: &mut State,
        results: &mut Fetched,
    ) -> Result<(), Error>;

    /// Runs once, and gives the results in buffers of their own.
    fn run(&mut self, feeds: Feeds<'_>, state: &mut State) -> Result<Fetched, Error> {
        let mut results = self.results();
        self.run_into(feeds, state, &mut results)?;
        Ok(results)
    }
}

/// A kernel with its cost, for profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Its name: a loop with its shape, or a library routine.
    pub name: String,
    /// The operations of a loop, each once.
    pub operations: Vec<&'static str>,
    /// Its outputs: the type, and the state variable that the output is written to in place, if any.
    pub outputs: Vec<(Type, Option<String>)>,
    /// The bytes it moves and its FLOPs.
    pub cost: Cost,
    /// Its compile time.
    pub compile: Duration,
    /// The expression that it comes from.
    pub span: Span,
}

/// The engine that runs programs.
///
/// ```
/// use trainspec::{Engine, Options};
///
/// let options = Options { engine: Engine::compiled(1), ..Options::default() };
/// assert!(matches!(options.engine, Engine::Compiled(_)));
/// ```
#[derive(Debug, Clone)]
pub enum Engine {
    /// The interpreter: slow, the reference semantics of a graph.
    Interpreted,
    /// Machine code, on these threads.
    Compiled(Arc<Pool>),
}

impl Default for Engine {
    /// Machine code on all cores.
    fn default() -> Engine {
        Engine::compiled(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Engine {
    /// Machine code on `threads` threads, but not on more than the machine has.
    pub fn compiled(threads: usize) -> Engine {
        Engine::Compiled(Arc::new(Pool::new(threads)))
    }

    /// The threads that work on a run.
    pub(crate) fn threads(&self) -> usize {
        match self {
            Engine::Interpreted => 1,
            Engine::Compiled(pool) => pool.threads(),
        }
    }

    /// An engine of this kind that runs programs on the calling thread alone.
    pub(crate) fn on_one_thread(&self) -> Engine {
        match self {
            Engine::Interpreted => Engine::Interpreted,
            Engine::Compiled(_) => Engine::compiled(1),
        }
    }
}

/// Prepares a graph for an engine: the stages of the compiler pipeline after lowering, for a fetch set. Fails where its buffers need
/// more memory than there is.
///
/// # Panics
///
/// When the graph cannot be compiled, which is a bug in the compiler.
pub fn prepare(
    graph: Graph,
    fetches: &FetchSet,
    options: &PipelineOptions,
    engine: &Engine,
) -> Result<Box<dyn Executable>, Error> {
    prepare_in(graph, fetches, options, engine, &WorkMemory::default())
}

/// As [`prepare`], with work memory that other programs use, too.
pub(crate) fn prepare_in(
    graph: Graph,
    fetches: &FetchSet,
    options: &PipelineOptions,
    engine: &Engine,
    memory: &WorkMemory,
) -> Result<Box<dyn Executable>, Error> {
    ProgramCode::new(graph, fetches, options, engine)?.executable(engine, memory)
}

/// A program before it has memory of its own: several executables may run it at once.
#[derive(Debug, Clone)]
pub(crate) enum ProgramCode {
    /// The graph, for the interpreter.
    Interpreted(Graph),
    /// Machine code.
    Compiled(Arc<codegen::exec::CompiledProgram>),
}

impl ProgramCode {
    /// What an engine runs of a graph. Fails where its buffers need more memory than there is.
    pub(crate) fn new(
        graph: Graph,
        fetches: &FetchSet,
        options: &PipelineOptions,
        engine: &Engine,
    ) -> Result<ProgramCode, Error> {
        Ok(match engine {
            Engine::Interpreted => {
                let graph = pipeline::simplify(graph, fetches, options);
                memory::ensure("the program", memory::interpreted_buffers(&graph))?;
                ProgramCode::Interpreted(graph)
            }
            Engine::Compiled(_) => {
                let program = pipeline::planned(graph, fetches, options);
                memory::ensure("the program", memory::program_buffers(&program))?;
                ProgramCode::Compiled(compile(program, options)?)
            }
        })
    }

    /// Compares what an executable of it needs with the memory that there is.
    pub(crate) fn ensure_fits(&self) -> Result<(), Error> {
        match self {
            ProgramCode::Interpreted(graph) => {
                memory::ensure("the program", memory::interpreted_buffers(graph))
            }
            ProgramCode::Compiled(compiled) => ensure_fits(compiled),
        }
    }

    /// An executable of it.
    pub(crate) fn executable(
        &self,
        engine: &Engine,
        memory: &WorkMemory,
    ) -> Result<Box<dyn Executable>, Error> {
        Ok(match (self, engine) {
            (ProgramCode::Compiled(compiled), Engine::Compiled(pool)) => Box::new(Compiled {
                executable: codegen::exec::Executable::sharing(
                    compiled.clone(),
                    pool.clone(),
                    memory.clone(),
                )?,
                state_indices: None,
            }),
            (ProgramCode::Interpreted(graph), _) => Box::new(Interpreted::new(graph.clone())),
            (ProgramCode::Compiled(_), Engine::Interpreted) => {
                unreachable!("the interpreter has no machine code")
            }
        })
    }
}

/// Compares the arenas of a compiled program and of its scans with the memory that there is.
fn ensure_fits(compiled: &codegen::exec::CompiledProgram) -> Result<(), Error> {
    memory::ensure("the program", memory::program_buffers(compiled.program()))
}

/// The inputs of a program whose views lie on the stack in a run.
const MAX_STACK_INPUTS: usize = 16;

/// Compiles a planned program. Fails where its arena and those of its scans, which are planned here, do not fit.
///
/// # Panics
///
/// When it cannot be compiled, which is a bug in the compiler.
pub(crate) fn compile(
    program: Program,
    options: &PipelineOptions,
) -> Result<Arc<codegen::exec::CompiledProgram>, Error> {
    let compiled = pipeline::compile(program, options)
        .unwrap_or_else(|e| panic!("the compiler is wrong: {e}"));
    // Compared again: code takes memory, too, and the arenas are allocated next.
    ensure_fits(&compiled)?;
    Ok(compiled)
}

/// A graph compiled to machine code.
#[derive(Debug)]
struct Compiled {
    executable: codegen::exec::Executable,
    /// The indices of its state variables in states with these names, cached.
    state_indices: Option<(Arc<Vec<String>>, Vec<usize>)>,
}

impl Executable for Compiled {
    fn inputs(&self) -> &[(String, Type)] {
        self.executable.inputs()
    }

    fn state(&self) -> &[graph::State] {
        self.executable.state()
    }

    fn planned(&self) -> Option<&Program> {
        Some(self.executable.compiled().program())
    }

    fn bytes(&self) -> usize {
        self.executable.compiled().bytes()
    }

    fn kernels(&self) -> Vec<Kernel> {
        let compiled = self.executable.compiled();
        kernels(compiled.program(), &compiled.compile_times())
    }

    fn profile(&mut self, on: bool) -> Vec<Duration> {
        self.executable.profile(on)
    }

    fn trace(&mut self, on: bool) -> Vec<KernelSpan> {
        self.executable.trace(on)
    }

    fn results(&self) -> Fetched {
        Fetched(self.executable.results())
    }

    fn run_into(
        &mut self,
        feeds: Feeds<'_>,
        state: &mut State,
        results: &mut Fetched,
    ) -> Result<(), Error> {
        // Looking up names takes longer than a small step.
        let names = state.shared_names();
        let cached = self.state_indices.as_ref();
        if cached.is_none_or(|(cached, _)| !Arc::ptr_eq(cached, names)) {
            let indices = state_indices(self.executable.state(), state);
            self.state_indices = Some((names.clone(), indices));
        }
        let (_, indices) = self.state_indices.as_ref().expect("it was just set");
        let inputs = self.executable.inputs();
        let values = state.values_mut();
        // Few inputs lie on the stack, so that a step allocates nothing.
        let mut few = [InputView::new::<f32>(&[0], &[]); MAX_STACK_INPUTS];
        let mut many = Vec::new();
        let views = match inputs.len() {
            n if n <= MAX_STACK_INPUTS => &mut few[..n],
            n => {
                many.resize(n, few[0]);
                &mut many[..]
            }
        };
        for (view, (name, _)) in views.iter_mut().zip(inputs) {
            *view = feeds.get(name)?;
        }
        Ok(self
            .executable
            .step(views, values, indices, &mut results.0)?)
    }
}

/// The kernels of a program, with their costs and compile times.
fn kernels(program: &Program, compile: &[Duration]) -> Vec<Kernel> {
    let all = &program.kernels;
    let describe = |(kernel, compile): (&trainspec_compiler::ir::kernel::Kernel, &Duration)| {
        let mut operations = Vec::new();
        let body = kernel.kind.fused_loop().map(|map| map.body.as_slice());
        for inst in body.unwrap_or_default() {
            let name = match &inst.op {
                InstOp::Prim(prim, _) => prim.name,
                InstOp::Reduce(how, _) => how.name(),
                InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => continue,
            };
            if !operations.contains(&name) {
                operations.push(name);
            }
        }
        let output = |b: &trainspec_compiler::ir::kernel::BufferId| {
            let state = match program.allocations[b.index()] {
                Allocation::State(i) => Some(all.state[i].name.clone()),
                Allocation::Input(_) | Allocation::Const(_) | Allocation::Arena(_) => None,
            };
            (all.buffers[b.index()].ty.clone(), state)
        };
        Kernel {
            name: kernel.name(),
            operations,
            outputs: kernel.outputs.iter().map(output).collect(),
            cost: Cost::of(all, kernel),
            compile: *compile,
            span: kernel.span,
        }
    };
    all.kernels.iter().zip(compile).map(describe).collect()
}

fn missing(name: &str) -> RunError {
    RunError::new(format!("input `{name}` is missing"), Span::default())
}

/// The indices of a program's state variables in a state.
fn state_indices(variables: &[graph::State], state: &State) -> Vec<usize> {
    let index = |variable: &graph::State| {
        state
            .index_of(&variable.name)
            .unwrap_or_else(|| panic!("the state has no `{}`", variable.name))
    };
    variables.iter().map(index).collect()
}

/// A graph that is interpreted.
#[derive(Debug)]
pub(crate) struct Interpreted {
    graph: Graph,
    inputs: Vec<(String, Type)>,
}

impl Interpreted {
    /// A program for a graph.
    pub(crate) fn new(graph: Graph) -> Interpreted {
        let inputs = graph
            .inputs()
            .map(|(name, value)| (name.to_owned(), graph.ty(value).clone()))
            .collect();
        Interpreted { graph, inputs }
    }
}

impl Executable for Interpreted {
    fn inputs(&self) -> &[(String, Type)] {
        &self.inputs
    }

    fn state(&self) -> &[graph::State] {
        &self.graph.state
    }

    fn planned(&self) -> Option<&Program> {
        None
    }

    fn bytes(&self) -> usize {
        0
    }

    fn kernels(&self) -> Vec<Kernel> {
        Vec::new()
    }

    fn profile(&mut self, _on: bool) -> Vec<Duration> {
        Vec::new()
    }

    fn trace(&mut self, _on: bool) -> Vec<KernelSpan> {
        Vec::new()
    }

    fn results(&self) -> Fetched {
        Fetched::default()
    }

    fn run_into(
        &mut self,
        feeds: Feeds<'_>,
        state: &mut State,
        results: &mut Fetched,
    ) -> Result<(), Error> {
        let indices = state_indices(&self.graph.state, state);
        let before: Vec<Tensor> = indices.iter().map(|i| state.values()[*i].clone()).collect();
        let mut inputs = BTreeMap::new();
        for (name, _) in &self.inputs {
            inputs.insert(name.clone(), feeds.get(name)?.to_tensor());
        }
        let outcome = interp::run(&self.graph, &inputs, &before)?;
        for (variable, value) in outcome.writes {
            state.set(indices[variable], value);
        }
        let names = self.graph.results.iter().map(|(name, _)| name.clone());
        results.0 = names.zip(outcome.results).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_past_a_count_is_left_out() {
        let tensor = Tensor::new(&[2, 3], vec![1.0_f32, 2.0, 90.0, 3.0, 4.0, 90.0]);
        let rows = Tensor::new(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
        assert_eq!(below_counts(&tensor, &[(1, 2)]), rows);
        let row = Tensor::new(&[1, 2], vec![1.0_f32, 2.0]);
        assert_eq!(below_counts(&tensor, &[(0, 1), (1, 2)]), row);
        assert_eq!(below_counts(&tensor, &[(1, 0)]).shape(), [2, 0]);
        let bools = Tensor::new(&[3], vec![true, false, true]);
        assert_eq!(
            below_counts(&bools, &[(0, 2)]),
            Tensor::new(&[2], vec![true, false])
        );
    }
}
