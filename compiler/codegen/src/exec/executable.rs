//! The executable: runs a compiled program step by step on inputs and state variables.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use trainspec_ir::Tensor;
use trainspec_ir::graph::{State, StateId, Type};
use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{BufferId, View};
use trainspec_ir::plan::{Allocation, Program};
use trainspec_ir::span::Span;

use crate::exec::compiled_program::CompiledProgram;
use crate::exec::ftz::FtzGuard;
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::exec::workspace::{Pointers, Workspace};
use crate::library::Scratch;

/// A compiled program with the memory and the threads to run it. The code is shared: several executables of one [`CompiledProgram`] run at
/// once, on threads of their own.
#[derive(Debug)]
pub struct Executable {
    compiled: Arc<CompiledProgram>,
    workspace: Workspace,
    pool: Arc<Pool>,
    scratch: Scratch,
    /// Staging buffers of new values that lie in an input, a constant or another state variable.
    staged: Vec<Option<Arena>>,
    pointers: (Pointers, Pointers),
    /// The places of state variables that were last checked to be distinct.
    places: Vec<usize>,
    /// The address of each input in the last step, and how many steps it has been there; the count saturates.
    fed: Vec<(usize, u8)>,
}

/// After this many steps at one address an input is taken to stay there, and its pages are collapsed.
const STEPS_UNTIL_COLLAPSE: u8 = 3;

impl Executable {
    /// Allocates what a program needs to run on the threads of a pool.
    pub fn new(compiled: Arc<CompiledProgram>, pool: Arc<Pool>) -> Executable {
        let program = compiled.program();
        let stage = |(state, view): &(StateId, View)| match program.allocations[view.buffer.index()]
        {
            Allocation::Arena(_) => None,
            Allocation::State(own) if own == state.index() => None,
            Allocation::Input(_) | Allocation::Const(_) | Allocation::State(_) => {
                let bytes = program.kernels.buffers[view.buffer.index()]
                    .ty
                    .dtype
                    .bytes();
                Some(Arena::new(view.elements() * bytes))
            }
        };
        Executable {
            staged: program.kernels.writes.iter().map(stage).collect(),
            workspace: Workspace::new(&compiled),
            fed: vec![(0, 0); compiled.inputs().len()],
            pool,
            scratch: Scratch::default(),
            pointers: Default::default(),
            places: Vec::new(),
            compiled,
        }
    }

    /// The compiled program, from which further executables can be made.
    pub fn compiled(&self) -> &Arc<CompiledProgram> {
        &self.compiled
    }

    /// The name and type of each input.
    pub fn inputs(&self) -> &[(String, Type)] {
        self.compiled.inputs()
    }

    /// The state variables that it reads or writes.
    pub fn state(&self) -> &[State] {
        self.compiled.state()
    }

    /// The program: kernels and buffer allocations.
    pub fn program(&self) -> &Program {
        self.compiled.program()
    }

    /// Turns profiling by kernel on or off, and gives the time of each kernel that was added up so far. Timing costs some time itself, so
    /// the steps of a measurement run without.
    pub fn profile(&mut self, on: bool) -> Vec<Duration> {
        let fresh = on.then(|| vec![Duration::ZERO; self.program().kernels.kernels.len()]);
        std::mem::replace(&mut self.workspace.kernel_times, fresh).unwrap_or_default()
    }

    /// Zeroed tensors for the results of a run, by name, as [`Executable::step`] takes them.
    pub fn results(&self) -> Vec<(String, Tensor)> {
        let kernels = &self.program().kernels;
        let empty = |(name, view): &(String, View)| {
            let ty = &kernels.buffers[view.buffer.index()].ty;
            (name.clone(), Tensor::zeros(&ty.with_shape(&view.shape)))
        };
        kernels.results.iter().map(empty).collect()
    }

    /// Runs once, and gives the fetched results by name. See [`Executable::step`].
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

    /// Runs once: inputs in the order of [`Executable::inputs`]; `places` has the index in `state` of each variable of
    /// [`Executable::state`]; fetched results go to `results`, which [`Executable::results`] made. Nothing is allocated once all kernels
    /// have run. After an error the state is as it was. Denormal results are flushed to zero, as in the interpreter.
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
        if inputs.len() != self.inputs().len() || places.len() != self.state().len() {
            return wrong(format!(
                "a run takes {} inputs and {} state variables",
                self.inputs().len(),
                self.state().len()
            ));
        }
        let fetched = &self.program().kernels.results;
        let fits = |((_, tensor), (_, view)): (&(String, Tensor), &(String, View))| {
            let ty = &self.program().kernels.buffers[view.buffer.index()].ty;
            tensor.dtype() == ty.dtype && tensor.shape() == view.shape
        };
        if results.len() != fetched.len() || !results.iter().zip(fetched).all(fits) {
            return wrong("the tensors for results have other types".to_owned());
        }
        for (tensor, (name, ty)) in inputs.iter().zip(self.inputs()) {
            if (tensor.dtype(), tensor.shape()) != (ty.dtype, &ty.shape[..]) {
                return wrong(format!(
                    "input `{name}` must be {ty}, but is {}",
                    tensor.ty()
                ));
            }
        }
        for (place, variable) in places.iter().zip(self.state()) {
            match state.get(*place) {
                Some(tensor)
                    if tensor.dtype() == variable.ty.dtype
                        && tensor.shape() == variable.ty.shape => {}
                Some(tensor) => {
                    let found = tensor.ty();
                    return wrong(format!(
                        "`{}` must be {}, but is {found}",
                        variable.name, variable.ty
                    ));
                }
                None => return wrong(format!("the value of `{}` is missing", variable.name)),
            }
        }
        if self.places != places {
            let different: HashSet<&usize> = places.iter().collect();
            assert_eq!(
                different.len(),
                places.len(),
                "each state variable has a place of its own"
            );
            self.places = places.to_vec();
            memory::collapse_huge_pages(state, places);
        }
        for (input, (last, steps)) in inputs.iter().zip(&mut self.fed) {
            let now = memory::pointer(input).addr();
            *steps = match now == *last {
                true => steps.saturating_add(1),
                false => 0,
            };
            *last = now;
            if *steps == STEPS_UNTIL_COLLAPSE {
                memory::collapse_huge_pages_of(input);
            }
        }
        let (feeds, before) = &mut self.pointers;
        feeds.0.clear();
        feeds.0.extend(inputs.iter().map(|t| memory::pointer(t)));
        before.0.clear();
        for place in places {
            before.0.push(memory::pointer_mut(&mut state[*place]));
        }
        // SAFETY: the workspace was made for this program. The tensors have the types that the program requires, as was just checked.
        // Inputs are borrowed for the run; state is borrowed exclusively, and its variables are different tensors, because `places` are
        // distinct.
        unsafe {
            let _ftz = FtzGuard::enable();
            self.compiled.run(
                &mut self.workspace,
                &feeds.0,
                &before.0,
                &self.pool,
                &mut self.scratch,
            )?;
        }
        self.fetch(results);
        self.write();
        Ok(())
    }

    fn fetch(&self, results: &mut [(String, Tensor)]) {
        let kernels = &self.program().kernels;
        let base = |buffer: BufferId| self.workspace.bases.0[buffer.index()];
        for ((_, view), (_, tensor)) in kernels.results.iter().zip(results) {
            let bytes = kernels.buffers[view.buffer.index()].ty.dtype.bytes();
            let (from, to) = (base(view.buffer), memory::pointer_mut(tensor));
            // SAFETY: the run computed the view; the tensor has its type, and is borrowed exclusively.
            unsafe { memory::copy(view, bytes, from, to) };
        }
    }

    /// Commits the new values of state: first stages those that lie where a write could overwrite them.
    fn write(&mut self) {
        let kernels = &self.compiled.program().kernels;
        let base = |buffer: BufferId| self.workspace.bases.0[buffer.index()];
        let bytes = |view: &View| kernels.buffers[view.buffer.index()].ty.dtype.bytes();
        for ((_, view), staged) in kernels.writes.iter().zip(&mut self.staged) {
            if let Some(arena) = staged {
                // SAFETY: the arena was made for this view.
                unsafe { memory::copy(view, bytes(view), base(view.buffer), arena.pointer()) };
            }
        }
        for ((id, view), staged) in kernels.writes.iter().zip(&mut self.staged) {
            let to = self.pointers.1.0[id.index()];
            if base(view.buffer) == to {
                // Updated in place: the kernel wrote it there.
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
                // SAFETY: as above; the view lies in the arena, the state does not.
                None => unsafe { memory::copy(view, bytes(view), base(view.buffer), to) },
            }
        }
    }
}
