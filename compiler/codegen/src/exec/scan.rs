//! The scan kernel (a loop with carried values, as `tf.scan`): runs its body for each iteration.

use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{Kernel, KernelKind, Kernels, View};
use trainspec_ir::plan::{Program, plan};

use crate::CompileError;
use crate::cpu::{Cpu, Machine};
use crate::exec::compiled_program::CompiledProgram;
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::exec::workspace::{Pointers, Workspace};
use crate::library::Scratch;

/// The compiled body of a scan.
#[derive(Debug)]
pub(super) struct Scan {
    body: CompiledProgram,
    /// How many of its results are carried.
    carries: usize,
    /// The bytes of each result of an iteration.
    sizes: Vec<usize>,
}

/// The carried values of a scan, double-buffered: those of this iteration and of the next; and the workspace of its body.
#[derive(Debug)]
pub(super) struct Carries {
    body: Workspace,
    now: Vec<Arena>,
    next: Vec<Arena>,
    inputs: Pointers,
}

impl Carries {
    pub(super) fn new(scan: &Scan) -> Carries {
        let carried = || {
            scan.sizes[..scan.carries]
                .iter()
                .map(|bytes| Arena::new(*bytes))
        };
        Carries {
            body: Workspace::new(&scan.body, Arena::new(scan.body.program().arena)),
            now: carried().collect(),
            next: carried().collect(),
            inputs: Pointers::default(),
        }
    }
}

/// The size of an element of a view in bytes.
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
        machine: Machine,
        cpu: Cpu,
    ) -> Result<Scan, CompileError> {
        let body = CompiledProgram::new(plan(body), machine, cpu)?;
        let program = body.program();
        let results = program.kernels.results.iter();
        let size = |view: &View| view.elements() * bytes_of(program, view);
        let sizes = results.map(|(_, view)| size(view)).collect();
        Ok(Scan {
            body,
            carries,
            sizes,
        })
    }

    /// The bytes of the arenas of the body, and of the carried values of this iteration and of the next.
    pub(super) fn bytes(&self) -> usize {
        self.body.bytes() + 2 * self.sizes[..self.carries].iter().sum::<usize>()
    }

    /// How long it took to compile the body.
    pub(super) fn compile_time(&self) -> std::time::Duration {
        self.body.compile_times().iter().sum()
    }

    /// Runs all iterations: copies the initial carried values in, runs the body once for each position, copies the final ones out. Fails
    /// with the error of the first iteration that fails.
    ///
    /// # Safety
    ///
    /// `values` was made for this scan. `accesses` has the operands of the loop (captures, initial carried values and scanned tensors,
    /// initialised and contiguous), then its outputs, which have the sizes of its results and overlap none of the operands.
    pub(super) unsafe fn run(
        &self,
        values: &mut Carries,
        kernel: &Kernel,
        outer: &Program,
        accesses: &[*mut u8],
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
        let (operands, outputs) = accesses.split_at(views.len());
        let sizes = &self.sizes;
        for (i, now) in values.now.iter_mut().enumerate() {
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
            values.inputs.0.clear();
            values.inputs.0.extend_from_slice(&operands[..*captures]);
            values
                .inputs
                .0
                .extend(values.now.iter_mut().map(Arena::pointer));
            for (view, pointer) in views.iter().zip(operands).skip(captures + carries) {
                let row = view.elements() / length * bytes_of(outer, view);
                // SAFETY: the tensor has `length` rows, and `position` is below it.
                values
                    .inputs
                    .0
                    .push(unsafe { pointer.add(position as usize * row) });
            }
            values.inputs.0.push((&raw mut position).cast());
            // SAFETY: the inputs are those of the body, in its order: captures, carried values, elements, position.
            unsafe {
                self.body
                    .run(&mut values.body, &values.inputs.0, &[], pool, scratch)?
            };
            let body = self.body.program();
            for (i, (_, view)) in body.kernels.results.iter().enumerate() {
                let to = match i < *carries {
                    true => values.next[i].pointer(),
                    // SAFETY: what is yielded has `length` rows of `sizes[i]` bytes.
                    false => unsafe { outputs[i].add(position as usize * sizes[i]) },
                };
                let (bytes, from) = (
                    bytes_of(body, view),
                    values.body.bases.0[view.buffer.index()],
                );
                // SAFETY: the view is a result of the run that just ended; `next` and `outputs` are no buffers of the body.
                unsafe { memory::copy(view, bytes, from, to) };
            }
            std::mem::swap(&mut values.now, &mut values.next);
        }
        for (i, now) in values.now.iter_mut().enumerate() {
            // SAFETY: as above, both have `sizes[i]` bytes.
            unsafe { std::ptr::copy_nonoverlapping(now.pointer(), outputs[i], sizes[i]) };
        }
        Ok(())
    }
}
