//! A program that runs: one interface, whether it is interpreted or compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::codegen;
use trainspec_compiler::codegen::exec::pool::Pool;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::{self, Graph, Type};
use trainspec_compiler::ir::interp::RunError;
use trainspec_compiler::ir::kernel::{InstOp, KernelKind, Map};
use trainspec_compiler::ir::plan::{Allocation, Cost, Program};
use trainspec_compiler::ir::{Span, interp, passes};

use crate::{SessionError, State};

/// Values by name: what goes into a program.
pub type Inputs = BTreeMap<String, Tensor>;

/// What a run of a program gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fetched(pub BTreeMap<String, Tensor>);

impl Fetched {
    /// The result of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }
}

/// A program that runs over a state.
pub trait Executable: Debug {
    /// What it takes.
    fn inputs(&self) -> &[(String, Type)];

    /// The state that it reads or writes.
    fn state(&self) -> &[graph::State];

    /// The bytes that it keeps for what it computes, inputs and state apart; the interpreter keeps none.
    fn bytes(&self) -> usize;

    /// What it does, one pass over memory after another; the interpreter does not work so.
    fn kernels(&self) -> Vec<Kernel>;

    /// Begins to add up the time that each kernel takes, or ends it, and gives what was added up so far.
    fn profile(&mut self, on: bool) -> Vec<Duration>;

    /// Runs once: all state that it writes has its new value afterwards, or, after an error, its old one. Inputs that it
    /// does not take are left alone.
    fn run(&mut self, inputs: &Inputs, state: &mut State) -> Result<Fetched, SessionError>;
}

/// A pass over memory, as those who measure it see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// What it is: a loop with its shape, or a routine.
    pub name: String,
    /// The operations of a loop, each once.
    pub operations: Vec<&'static str>,
    /// What it makes: a type, and the state that it is the new value of, if it is written in its place.
    pub outputs: Vec<(Type, Option<String>)>,
    /// What it moves and computes.
    pub cost: Cost,
    /// How long it took to compile.
    pub compile: Duration,
    /// The expression that it comes from.
    pub span: Span,
}

/// What runs programs.
#[derive(Debug, Clone)]
pub enum Engine {
    /// The interpreter: slow, and what a program means.
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
    /// Machine code on so many threads, but not on more than the machine has.
    pub fn compiled(threads: usize) -> Engine {
        Engine::Compiled(Arc::new(Pool::new(threads)))
    }
}

/// A program for a graph, with only some of its results.
///
/// # Panics
///
/// When the graph cannot be compiled, which is a mistake of the compiler's own.
pub fn prepare(
    mut graph: Graph,
    wanted: &dyn Fn(&str) -> bool,
    disabled: &BTreeSet<String>,
    engine: &Engine,
) -> Box<dyn Executable> {
    graph.results.retain(|(name, _)| wanted(name));
    let graph = passes::run(graph, disabled);
    match engine {
        Engine::Interpreted => Box::new(Interpreted::new(graph)),
        Engine::Compiled(pool) => {
            let executable =
                codegen::exec::Executable::new(&graph, pool.clone(), &codegen::Options::default());
            let executable =
                executable.unwrap_or_else(|e| panic!("the compiler is wrong: {e}\n{graph}"));
            Box::new(Compiled {
                executable,
                places: None,
            })
        }
    }
}

/// A graph that is machine code.
#[derive(Debug)]
struct Compiled {
    executable: codegen::exec::Executable,
    /// Where its state is in states with these names.
    places: Option<(Arc<Vec<String>>, Vec<usize>)>,
}

impl Executable for Compiled {
    fn inputs(&self) -> &[(String, Type)] {
        self.executable.inputs()
    }

    fn state(&self) -> &[graph::State] {
        self.executable.state()
    }

    fn bytes(&self) -> usize {
        self.executable.bytes()
    }

    fn kernels(&self) -> Vec<Kernel> {
        kernels(self.executable.program(), &self.executable.compile_times())
    }

    fn profile(&mut self, on: bool) -> Vec<Duration> {
        self.executable.profile(on)
    }

    fn run(&mut self, inputs: &Inputs, state: &mut State) -> Result<Fetched, SessionError> {
        // Looking up names takes longer than a small step.
        let order = state.order();
        let known = self.places.as_ref();
        if known.is_none_or(|(known, _)| !Arc::ptr_eq(known, order)) {
            let found = places(self.executable.state(), state);
            self.places = Some((order.clone(), found));
        }
        let (_, places) = self.places.as_ref().expect("it was just found");
        let mut feeds = Vec::with_capacity(self.executable.inputs().len());
        for (name, _) in self.executable.inputs() {
            feeds.push(inputs.get(name).ok_or_else(|| missing(name))?);
        }
        let results = self.executable.run(&feeds, state.values_mut(), places)?;
        Ok(Fetched(results.into_iter().collect()))
    }
}

fn kernels(program: &Program, compile: &[Duration]) -> Vec<Kernel> {
    let all = &program.kernels;
    let one = |(kernel, compile): (&trainspec_compiler::ir::kernel::Kernel, &Duration)| {
        let mut operations = Vec::new();
        let mut list = |map: &Map| {
            let names = map.body.iter().filter_map(|inst| match &inst.op {
                InstOp::Prim(prim, _) => Some(prim.name),
                InstOp::Reduce(how, _) => Some(how.name()),
                InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => None,
            });
            for name in names {
                if !operations.contains(&name) {
                    operations.push(name);
                }
            }
            format!("map {:?}", map.shape)
        };
        let name = match &kernel.kind {
            KernelKind::Map(map) => list(map),
            KernelKind::Call { prim, epilogue, .. } => match epilogue {
                Some(map) => format!("call {} then {}", prim.name, list(map)),
                None => format!("call {}", prim.name),
            },
            KernelKind::Scan { length, .. } => format!("scan {length}"),
        };
        let made = |b: &trainspec_compiler::ir::kernel::BufferId| {
            let state = match program.allocations[b.index()] {
                Allocation::State(i) => Some(all.state[i].name.clone()),
                Allocation::Input(_) | Allocation::Const(_) | Allocation::Arena(_) => None,
            };
            (all.buffers[b.index()].ty.clone(), state)
        };
        Kernel {
            name,
            operations,
            outputs: kernel.outputs.iter().map(made).collect(),
            cost: Cost::of(all, kernel),
            compile: *compile,
            span: kernel.span,
        }
    };
    all.kernels.iter().zip(compile).map(one).collect()
}

fn missing(name: &str) -> RunError {
    RunError {
        message: format!("input `{name}` is missing"),
        span: Span::default(),
    }
}

/// Where the state of a program is.
fn places(pieces: &[graph::State], state: &State) -> Vec<usize> {
    let place = |piece: &graph::State| {
        state
            .place(&piece.name)
            .unwrap_or_else(|| panic!("the state has no `{}`", piece.name))
    };
    pieces.iter().map(place).collect()
}

/// A graph that is interpreted.
#[derive(Debug)]
pub struct Interpreted {
    graph: Graph,
    inputs: Vec<(String, Type)>,
}

impl Interpreted {
    /// A program for a graph.
    pub fn new(graph: Graph) -> Interpreted {
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

    fn bytes(&self) -> usize {
        0
    }

    fn kernels(&self) -> Vec<Kernel> {
        Vec::new()
    }

    fn profile(&mut self, _on: bool) -> Vec<Duration> {
        Vec::new()
    }

    fn run(&mut self, inputs: &Inputs, state: &mut State) -> Result<Fetched, SessionError> {
        let places = places(&self.graph.state, state);
        let before: Vec<Tensor> = places.iter().map(|i| state.values()[*i].clone()).collect();
        let outcome = interp::run(&self.graph, inputs, &before)?;
        for (piece, value) in outcome.writes {
            state.set(places[piece], value);
        }
        let names = self.graph.results.iter().map(|(name, _)| name.clone());
        Ok(Fetched(names.zip(outcome.results).collect()))
    }
}
