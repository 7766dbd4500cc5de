//! The executable: runs a compiled program step by step on inputs and state variables.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use trainspec_ir::Tensor;
use trainspec_ir::graph::{State, StateId, Type};
use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{BufferId, View};
use trainspec_ir::plan::Program;
use trainspec_ir::span::Span;

use crate::exec::allocate;
use crate::exec::compiled_program::CompiledProgram;
use crate::exec::ftz::FtzGuard;
use crate::exec::huge_pages::{self, Collapse};
use crate::exec::input::InputView;
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::exec::trace::{KernelSpan, Profile};
use crate::exec::work_memory::{Buffers, WorkMemory};
use crate::exec::workspace::{Pointers, Workspace};

/// A compiled program with the memory and the threads to run it. The code is shared: several executables of one [`CompiledProgram`] run at
/// once, on threads of their own.
#[derive(Debug)]
pub struct Executable {
    compiled: Arc<CompiledProgram>,
    workspace: Workspace,
    /// The arena and scratch buffers, between runs.
    memory: WorkMemory,
    pool: Arc<Pool>,
    /// Staging buffers of new values that lie in an input, a constant or another state variable.
    staged: Vec<Option<Arena>>,
    /// Staging buffers of inputs that were not contiguous, made when the first such one is fed.
    staged_inputs: Vec<Option<Arena>>,
    /// The addresses of inputs and of state variables during a step.
    pointers: (Pointers, Pointers),
    /// The places of state variables that were last checked to be distinct.
    places: Vec<usize>,
    /// The pages of the state variables that are not huge pages yet.
    collapse: Collapse,
}

impl Executable {
    /// Allocates what a program needs to run on the threads of a pool.
    ///
    /// # Panics
    ///
    /// Where there is no memory; [`Executable::sharing`] gives an error.
    pub fn new(compiled: Arc<CompiledProgram>, pool: Arc<Pool>) -> Executable {
        Executable::sharing(compiled, pool, WorkMemory::default())
            .unwrap_or_else(|e| panic!("{}", e.message))
    }

    /// As [`Executable::new`], with the work memory that other programs use, too.
    pub fn sharing(
        compiled: Arc<CompiledProgram>,
        pool: Arc<Pool>,
        memory: WorkMemory,
    ) -> Result<Executable, RunError> {
        allocate::catch(|| Ok(Executable::allocated(compiled, pool, memory)))
    }

    fn allocated(
        compiled: Arc<CompiledProgram>,
        pool: Arc<Pool>,
        memory: WorkMemory,
    ) -> Executable {
        let program = compiled.program();
        memory.reserve(program.arena);
        let stage = |(state, view): &(StateId, View)| {
            let ty = program.staged(*state, view)?;
            Some(Arena::new(ty.elements() * ty.dtype.bytes()))
        };
        Executable {
            staged: program.kernels.writes.iter().map(stage).collect(),
            workspace: Workspace::new(&compiled, Arena::default()),
            memory,
            staged_inputs: compiled.inputs().iter().map(|_| None).collect(),
            pool,
            pointers: Default::default(),
            places: Vec::new(),
            collapse: Collapse::default(),
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
        let fresh = match on {
            true => Profile::Times(vec![Duration::ZERO; self.program().kernels.kernels.len()]),
            false => Profile::Off,
        };
        match std::mem::replace(&mut self.workspace.profile, fresh) {
            Profile::Times(times) => times,
            Profile::Off | Profile::Spans(_) => Vec::new(),
        }
    }

    /// Turns the trace on or off, and gives the spans of all kernels that ran while it was on, sorted by their start. The schedule is that of
    /// a run without, and so are all results.
    pub fn trace(&mut self, on: bool) -> Vec<KernelSpan> {
        let fresh = match on {
            true => Profile::Spans(Arc::default()),
            false => Profile::Off,
        };
        match std::mem::replace(&mut self.workspace.profile, fresh) {
            Profile::Spans(recorder) => recorder.take(),
            Profile::Off | Profile::Times(_) => Vec::new(),
        }
    }

    /// Zeroed tensors for the results of a run, by name, as [`Executable::step`] takes them.
    pub fn results(&self) -> Vec<(String, Tensor)> {
        let kernels = &self.program().kernels;
        let empty = |(name, view): &(String, View)| {
            let ty = &kernels.buffers[view.buffer.index()].ty;
            let tensor = huge_pages::zeros_on_huge_pages(&ty.with_shape(&view.shape));
            (name.clone(), tensor)
        };
        kernels.results.iter().map(empty).collect()
    }

    /// Runs once, and gives the fetched results by name. See [`Executable::step`].
    pub fn run(
        &mut self,
        inputs: &[InputView<'_>],
        state: &mut [Tensor],
        places: &[usize],
    ) -> Result<Vec<(String, Tensor)>, RunError> {
        let mut results = self.results();
        self.step(inputs, state, places, &mut results)?;
        Ok(results)
    }

    /// Runs once: inputs in the order of [`Executable::inputs`], contiguous ones read in place, others copied once into a staging buffer; `places` has the index in `state` of each variable of
    /// [`Executable::state`]; fetched results go to `results`, which [`Executable::results`] made. Nothing is allocated once all kernels
    /// have run. After an error the state is as it was. Denormal results are flushed to zero, as in the interpreter.
    pub fn step(
        &mut self,
        inputs: &[InputView<'_>],
        state: &mut [Tensor],
        places: &[usize],
        results: &mut [(String, Tensor)],
    ) -> Result<(), RunError> {
        allocate::catch(|| self.step_allocating(inputs, state, places, results))
    }

    /// As [`Executable::step`], but unwinds where there is no memory. That happens before anything was written, or in the first step.
    fn step_allocating(
        &mut self,
        inputs: &[InputView<'_>],
        state: &mut [Tensor],
        places: &[usize],
        results: &mut [(String, Tensor)],
    ) -> Result<(), RunError> {
        let wrong = |message: String| Err(RunError::new(message, Span::default()));
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
        for (input, (name, ty)) in inputs.iter().zip(self.inputs()) {
            if (input.dtype(), input.shape()) != (ty.dtype, &ty.shape[..]) {
                let found = input.ty();
                return wrong(format!("input `{name}` must be {ty}, but is {found}"));
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
        }
        let (feeds, before) = &mut self.pointers;
        feeds.0.clear();
        for (input, staging) in inputs.iter().zip(&mut self.staged_inputs) {
            feeds.0.push(match input.is_contiguous() {
                true => input.pointer().cast_mut(),
                false => {
                    let bytes = input.shape().iter().product::<usize>() * input.dtype().bytes();
                    let to = staging.get_or_insert_with(|| Arena::new(bytes)).pointer();
                    // SAFETY: the staging buffer has the bytes of the input's type, which is the same in every run.
                    unsafe { input.copy_to(to) };
                    to
                }
            });
        }
        let mut moved = before.0.len() != places.len();
        before.0.resize(places.len(), std::ptr::null_mut());
        for (pointer, place) in before.0.iter_mut().zip(places) {
            let now = memory::pointer_mut(&mut state[*place]);
            moved |= std::mem::replace(pointer, now) != now;
        }
        match moved {
            // A program may run once only, so pages are not collapsed yet.
            true => {
                let bytes = places.iter().map(|place| memory::bytes_of(&state[*place]));
                self.collapse = Collapse::of(before.0.iter().copied().zip(bytes));
            }
            false => self.collapse.one(),
        }
        let Buffers { arena, mut scratch } = self.memory.take(self.compiled.program().arena);
        self.workspace.arena = arena;
        // SAFETY: the workspace was made for this program, and its arena is as large as the plan says. The tensors have the types that the program requires, as was just checked.
        // Inputs are borrowed for the run, or copies of such; state is borrowed exclusively, and its variables are different tensors, because `places` are
        // distinct.
        let ran = unsafe {
            let _ftz = FtzGuard::enable();
            self.compiled.run(
                &mut self.workspace,
                &feeds.0,
                &before.0,
                &self.pool,
                &mut scratch,
            )
        };
        if ran.is_ok() {
            self.fetch(results);
            self.write();
        }
        let arena = std::mem::take(&mut self.workspace.arena);
        self.memory.give_back(Buffers { arena, scratch });
        ran
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

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};
    use trainspec_ir::DType;
    use trainspec_ir::build::Builder;
    use trainspec_ir::fuse::fuse;
    use trainspec_ir::plan::plan;

    use super::*;

    const SHAPE: [usize; 2] = [40, 60];

    /// x doubled, and a runner for it.
    fn doubler() -> Executable {
        let b = Builder::new("double");
        let x = b.input("x", &Type::new(DType::F32, &SHAPE));
        b.result("y", x * 2.0);
        let program = plan(fuse(&b.finish(), true));
        let compiled = CompiledProgram::compile(program, &Default::default());
        Executable::new(compiled.expect("it compiles"), Arc::new(Pool::exactly(1)))
    }

    /// Runs, checks the result, and gives the address that the kernels read.
    fn run(program: &mut Executable, input: InputView<'_>, expected: &Array2<f32>) -> *const u8 {
        let results = program.run(&[input], &mut [], &[]).expect("it runs");
        let expected: Vec<f32> = expected.iter().map(|x| x * 2.0).collect();
        assert_eq!(results[0].1, Tensor::new(&SHAPE, expected));
        program.pointers.0.0[0]
    }

    #[test]
    fn contiguous_inputs_are_read_in_place() {
        let mut program = doubler();
        let large = Array2::from_shape_fn((50, 60), |(i, j)| (i * 60 + j) as f32);
        let rows = large.slice(s![7..47, ..]);
        let read = run(&mut program, (&rows).into(), &rows.to_owned());
        assert_eq!(read, rows.as_ptr().cast());
        let tensor = Tensor::new(&SHAPE, rows.iter().copied().collect());
        let read = run(&mut program, (&tensor).into(), &rows.to_owned());
        assert_eq!(read, tensor.values::<f32>().expect("f32").as_ptr().cast());
        let values: Vec<f32> = rows.iter().copied().collect();
        let view = InputView::new(&SHAPE, &values);
        assert_eq!(
            run(&mut program, view, &rows.to_owned()),
            values.as_ptr().cast()
        );
        assert!(program.staged_inputs[0].is_none(), "nothing was copied");
    }

    #[test]
    fn strided_inputs_are_staged_in_one_buffer() {
        let mut program = doubler();
        let array = Array2::from_shape_fn((60, 40), |(i, j)| (i * 40 + j) as f32);
        let transposed = array.t();
        let staged = run(&mut program, (&transposed).into(), &transposed.to_owned());
        let large = Array2::from_shape_fn((80, 60), |(i, j)| (i * 60 + j) as f32);
        let every_second = large.slice(s![..;2, ..]);
        let again = run(
            &mut program,
            (&every_second).into(),
            &every_second.to_owned(),
        );
        assert_eq!(staged, again);
        let backwards = large.slice(s![..40;-1, ..;-1]);
        let again = run(&mut program, (&backwards).into(), &backwards.to_owned());
        assert_eq!(staged, again);
        let row = Array2::from_shape_fn((1, 60), |(_, j)| j as f32);
        let broadcast = row.broadcast((40, 60)).expect("rows repeat");
        let again = run(&mut program, (&broadcast).into(), &broadcast.to_owned());
        assert_eq!(staged, again);
    }

    #[test]
    fn inputs_of_another_type_are_refused() {
        let mut program = doubler();
        let array = Array2::<f64>::zeros((40, 60));
        let refused = program.run(&[(&array).into()], &mut [], &[]).unwrap_err();
        assert_eq!(
            refused.message,
            "input `x` must be f32[40, 60], but is f64[40, 60]"
        );
        let strings = Tensor::new(&[1], vec![b"word".to_vec()]);
        let refused = program.run(&[(&strings).into()], &mut [], &[]).unwrap_err();
        assert_eq!(
            refused.message,
            "input `x` must be f32[40, 60], but is string[1]"
        );
    }
}
