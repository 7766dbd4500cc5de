//! What a graph becomes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use trainspec_ir::Tensor;
use trainspec_ir::graph::{Graph, State, StateId, Type};
use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::View;
use trainspec_ir::plan::{Allocation, Program, plan};
use trainspec_ir::{fuse, span::Span};

use crate::exec::flush::Flushing;
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::exec::unit::{Pointers, Unit};
use crate::library::Scratch;
use crate::{CompileError, Options};

/// A compiled graph.
#[derive(Debug)]
pub struct Executable {
    unit: Unit,
    inputs: Vec<(String, Type)>,
    pool: Arc<Pool>,
    scratch: Scratch,
    /// New state that lies with the old one, or with the inputs, on its way.
    staged: Vec<Option<Arena>>,
    pointers: (Pointers, Pointers),
    /// The places of state that were last found to be different.
    places: Vec<usize>,
    /// Where each input was last, and how many steps it has been there, as far as they are counted.
    fed: Vec<(usize, u8)>,
}

/// After so many steps an input is taken for one that stays where it is.
const STAYS: u8 = 3;

impl Executable {
    /// Compiles a graph, which should be simplified.
    pub fn new(
        graph: &Graph,
        pool: Arc<Pool>,
        options: &Options,
    ) -> Result<Executable, CompileError> {
        let kernels = fuse::fuse(graph, options.fusion);
        let inputs: Vec<(String, Type)> = graph
            .inputs()
            .map(|(name, v)| (name.to_owned(), graph.ty(v).clone()))
            .collect();
        let unit = Unit::new(plan(kernels), options.machine)?;
        let stage =
            |(state, view): &(StateId, View)| match unit.program.allocations[view.buffer.index()] {
                Allocation::Arena(_) => None,
                Allocation::State(own) if own == state.index() => None,
                Allocation::Input(_) | Allocation::Const(_) | Allocation::State(_) => {
                    let bytes = unit.program.kernels.buffers[view.buffer.index()]
                        .ty
                        .dtype
                        .bytes();
                    Some(Arena::new(view.elements() * bytes))
                }
            };
        let staged = unit.program.kernels.writes.iter().map(stage).collect();
        Ok(Executable {
            unit,
            fed: vec![(0, 0); inputs.len()],
            inputs,
            pool,
            scratch: Scratch::default(),
            staged,
            pointers: Default::default(),
            places: Vec::new(),
        })
    }

    /// What it takes: name and type of each input.
    pub fn inputs(&self) -> &[(String, Type)] {
        &self.inputs
    }

    /// The state that it reads or writes.
    pub fn state(&self) -> &[State] {
        &self.unit.program.kernels.state
    }

    /// What it does.
    pub fn program(&self) -> &Program {
        &self.unit.program
    }

    /// The bytes that it needs for what kernels make.
    pub fn bytes(&self) -> usize {
        self.unit.bytes()
    }

    /// How long it took to compile each kernel; a routine takes no time.
    pub fn compile_times(&self) -> Vec<Duration> {
        self.unit.compile_times()
    }

    /// Begins to add up the time that each kernel takes, or ends it, and gives what was added up so far. Clocks cost some time
    /// themselves, so the steps of a measurement run without.
    pub fn profile(&mut self, on: bool) -> Vec<Duration> {
        let fresh = on.then(|| vec![Duration::ZERO; self.unit.program.kernels.kernels.len()]);
        std::mem::replace(&mut self.unit.clocks, fresh).unwrap_or_default()
    }

    /// Tensors for what a run gives, by name, as [`Executable::step`] takes them.
    pub fn results(&self) -> Vec<(String, Tensor)> {
        let kernels = &self.unit.program.kernels;
        let empty = |(name, view): &(String, View)| {
            let ty = &kernels.buffers[view.buffer.index()].ty;
            (name.clone(), Tensor::zeros(&ty.with_shape(&view.shape)))
        };
        kernels.results.iter().map(empty).collect()
    }

    /// Runs once, and gives what can be fetched by name. See [`Executable::step`].
    pub fn run(
        &mut self,
        inputs: &[&Tensor],
        state: &mut [Tensor],
        places: &[usize],
    ) -> Result<Vec<(String, Tensor)>, RunError> {
        let mut results = self.results();
        self.step(inputs, state, places, &mut results)?;
        Ok(results)
    }

    /// Runs once: inputs in the order of [`Executable::inputs`]; `places` says where in `state` each piece of [`Executable::state`] is;
    /// what can be fetched goes to `results`, which [`Executable::results`] made. Nothing is allocated once all kernels have run.
    /// After an error the state is as it was. Results too small to be normal numbers of their type are zero, as in the interpreter.
    pub fn step(
        &mut self,
        inputs: &[&Tensor],
        state: &mut [Tensor],
        places: &[usize],
        results: &mut [(String, Tensor)],
    ) -> Result<(), RunError> {
        let wrong = |message: String| {
            Err(RunError {
                message,
                span: Span::default(),
            })
        };
        if inputs.len() != self.inputs.len() || places.len() != self.state().len() {
            return wrong(format!(
                "a run takes {} inputs and {} pieces of state",
                self.inputs.len(),
                self.state().len()
            ));
        }
        let fetched = &self.unit.program.kernels.results;
        let fits = |((_, tensor), (_, view)): (&(String, Tensor), &(String, View))| {
            let ty = &self.unit.program.kernels.buffers[view.buffer.index()].ty;
            tensor.dtype() == ty.dtype && tensor.shape() == view.shape
        };
        if results.len() != fetched.len() || !results.iter().zip(fetched).all(fits) {
            return wrong("the tensors for results have other types".to_owned());
        }
        for (tensor, (name, ty)) in inputs.iter().zip(&self.inputs) {
            if (tensor.dtype(), tensor.shape()) != (ty.dtype, &ty.shape[..]) {
                return wrong(format!(
                    "input `{name}` must be {ty}, but is {}",
                    tensor.ty()
                ));
            }
        }
        for (place, piece) in places.iter().zip(self.state()) {
            match state.get(*place) {
                Some(tensor)
                    if tensor.dtype() == piece.ty.dtype && tensor.shape() == piece.ty.shape => {}
                Some(tensor) => {
                    let found = tensor.ty();
                    return wrong(format!(
                        "`{}` must be {}, but is {found}",
                        piece.name, piece.ty
                    ));
                }
                None => return wrong(format!("the value of `{}` is missing", piece.name)),
            }
        }
        if self.places != places {
            let different: HashSet<&usize> = places.iter().collect();
            assert_eq!(
                different.len(),
                places.len(),
                "each piece of state has a place of its own"
            );
            self.places = places.to_vec();
            memory::gather_pages(state, places);
        }
        for (input, (last, steps)) in inputs.iter().zip(&mut self.fed) {
            let now = memory::pointer(input).addr();
            *steps = match now == *last {
                true => steps.saturating_add(1),
                false => 0,
            };
            *last = now;
            if *steps == STAYS {
                memory::gather_pages_of(input);
            }
        }
        let (feeds, before) = &mut self.pointers;
        feeds.0.clear();
        feeds.0.extend(inputs.iter().map(|t| memory::pointer(t)));
        before.0.clear();
        for place in places {
            before.0.push(memory::pointer_mut(&mut state[*place]));
        }
        // SAFETY: the tensors have the types that the program requires, as was just checked. Inputs are borrowed for the run; state is
        // borrowed exclusively, and its variables are different tensors, because `places` are distinct.
        unsafe {
            let _flushing = Flushing::begin();
            self.unit
                .run(&feeds.0, &before.0, &self.pool, &mut self.scratch)?;
        }
        self.fetch(results);
        self.write();
        Ok(())
    }

    fn fetch(&self, results: &mut [(String, Tensor)]) {
        let kernels = &self.unit.program.kernels;
        for ((_, view), (_, tensor)) in kernels.results.iter().zip(results) {
            let bytes = kernels.buffers[view.buffer.index()].ty.dtype.bytes();
            let (from, to) = (self.unit.base(view.buffer), memory::pointer_mut(tensor));
            // SAFETY: the run made the view; the tensor has its type, and lies with the caller alone.
            unsafe { memory::copy(view, bytes, from, to) };
        }
    }

    /// Gives state its new values: first those that lie where they could be overwritten are put aside.
    fn write(&mut self) {
        let kernels = &self.unit.program.kernels;
        let bytes = |view: &View| kernels.buffers[view.buffer.index()].ty.dtype.bytes();
        for ((_, view), staged) in kernels.writes.iter().zip(&mut self.staged) {
            if let Some(arena) = staged {
                // SAFETY: the arena was made for this view.
                unsafe {
                    memory::copy(
                        view,
                        bytes(view),
                        self.unit.base(view.buffer),
                        arena.pointer(),
                    )
                };
            }
        }
        for ((id, view), staged) in kernels.writes.iter().zip(&mut self.staged) {
            let to = self.pointers.1.0[id.index()];
            if self.unit.base(view.buffer) == to {
                // The kernel that made it wrote it there.
                continue;
            }
            match staged {
                // SAFETY: the state has the type of the view, which the verifier of graphs compared.
                Some(arena) => unsafe {
                    std::ptr::copy_nonoverlapping(
                        arena.pointer(),
                        to,
                        view.elements() * bytes(view),
                    )
                },
                // SAFETY: the same; the view lies in the arena, the state does not.
                None => unsafe { memory::copy(view, bytes(view), self.unit.base(view.buffer), to) },
            }
        }
    }
}
