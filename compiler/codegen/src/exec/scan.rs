//! The scan kernel (a loop with carried values, as `tf.scan`): runs its body for each iteration.

use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{Kernel, KernelKind, Kernels, View};
use trainspec_ir::plan::{Program, plan};

use crate::CompileError;
use crate::exec::compiled_program::{CompiledProgram, Pointers};
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::library::Scratch;
use crate::translate::Machine;

/// The compiled body of a scan, with double-buffered memory for its carried values: those of this iteration and of the next.
#[derive(Debug)]
pub(super) struct Scan {
    body_program: CompiledProgram,
    now: Vec<Arena>,
    next: Vec<Arena>,
    inputs: Pointers,
    /// The bytes of each result of an iteration.
    sizes: Vec<usize>,
}

fn bytes_of(program: &Program, view: &View) -> usize {
    program.kernels.buffers[view.buffer.index()]
        .ty
        .dtype
        .bytes()
}

impl Scan {
    pub(super) fn new(
        body: Kernels,
        carries: usize,
        machine: Option<Machine>,
    ) -> Result<Scan, CompileError> {
        let body_program = CompiledProgram::new(plan(body), machine)?;
        let carried = |_: ()| {
            let results = body_program.program.kernels.results.iter().take(carries);
            results
                .map(|(_, view)| {
                    Arena::new(view.elements() * bytes_of(&body_program.program, view))
                })
                .collect()
        };
        let (now, next) = (carried(()), carried(()));
        let results = body_program.program.kernels.results.iter();
        let size = |view: &View| view.elements() * bytes_of(&body_program.program, view);
        let sizes = results.map(|(_, view)| size(view)).collect();
        Ok(Scan {
            sizes,
            body_program,
            now,
            next,
            inputs: Pointers::default(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.body_program.bytes()
    }

    /// How long it took to compile the body.
    pub(super) fn compile_time(&self) -> std::time::Duration {
        self.body_program.compile_times().iter().sum()
    }

    /// Runs all iterations.
    ///
    /// # Safety
    ///
    /// `operands` are the captures, initial carried values and scanned tensors of the loop, initialised and contiguous; `outputs` has the
    /// sizes of its results and overlaps none of them.
    pub(super) unsafe fn run(
        &mut self,
        kernel: &Kernel,
        outer: &Program,
        operands: &[*mut u8],
        outputs: &[*mut u8],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let KernelKind::Scan {
            length,
            reverse,
            captures,
            carries,
            operands: views,
            ..
        } = &kernel.kind
        else {
            unreachable!("a scan");
        };
        let sizes = &self.sizes;
        for (i, now) in self.now.iter_mut().enumerate() {
            // SAFETY: a carried value has one type in all iterations, so both have `sizes[i]` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(operands[captures + i], now.pointer(), sizes[i])
            };
        }
        for iteration in 0..*length {
            let mut position = if *reverse {
                length - 1 - iteration
            } else {
                iteration
            } as i64;
            self.inputs.0.clear();
            self.inputs.0.extend_from_slice(&operands[..*captures]);
            self.inputs
                .0
                .extend(self.now.iter_mut().map(Arena::pointer));
            for (view, pointer) in views.iter().zip(operands).skip(captures + carries) {
                let row = view.elements() / length * bytes_of(outer, view);
                // SAFETY: the tensor has `length` rows, and `position` is below it.
                self.inputs
                    .0
                    .push(unsafe { pointer.add(position as usize * row) });
            }
            self.inputs.0.push((&raw mut position).cast());
            // SAFETY: the inputs are those of the body, in its order: captures, carried values, elements, position.
            unsafe { self.body_program.run(&self.inputs.0, &[], pool, scratch)? };
            for (i, (_, view)) in self.body_program.program.kernels.results.iter().enumerate() {
                let to = match i < *carries {
                    true => self.next[i].pointer(),
                    // SAFETY: what is yielded has `length` rows of `sizes[i]` bytes.
                    false => unsafe { outputs[i].add(position as usize * sizes[i]) },
                };
                let bytes = bytes_of(&self.body_program.program, view);
                // SAFETY: the view is a result of the run that just ended; `next` and `outputs` are no buffers of the body.
                unsafe { memory::copy(view, bytes, self.body_program.base(view.buffer), to) };
            }
            std::mem::swap(&mut self.now, &mut self.next);
        }
        for (i, now) in self.now.iter_mut().enumerate() {
            // SAFETY: as above, both have `sizes[i]` bytes.
            unsafe { std::ptr::copy_nonoverlapping(now.pointer(), outputs[i], sizes[i]) };
        }
        Ok(())
    }
}
