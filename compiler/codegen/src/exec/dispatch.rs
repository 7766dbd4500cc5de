//! The dispatch of a compiled program: one kernel (or wave of kernels) after another.

use std::ops::Range;
use std::time::Instant;

use trainspec_ir::graph::Type;
use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{BufferId, Kernel, KernelKind, View};
use trainspec_ir::plan::Allocation;

use crate::exec::compiled_program::{CompiledProgram, Step};
use crate::exec::memory;
use crate::exec::pool::Pool;
use crate::exec::workspace::Workspace;
use crate::library::{self, Routine, Scratch, Slice, SliceMut};

/// The most results of a primitive: an array of this length needs no allocation in a step.
const MAX_RESULTS: usize = 4;

/// A table of pointers that several threads read.
struct Table<'a>(&'a [*mut u8]);
// SAFETY: the table is not changed while a kernel runs, and kernels write to disjoint rows.
unsafe impl Sync for Table<'_> {}

impl Table<'_> {
    fn pointers(&self) -> &[*mut u8] {
        self.0
    }
}

impl CompiledProgram {
    /// Runs all kernels.
    ///
    /// # Safety
    ///
    /// `workspace` was made for this program. `inputs` and `state` hold the first byte of each input and each state variable of the
    /// program, in order. Each points at the elements of its type, aligned for it and all initialised. The elements of a state variable
    /// overlap no other variable and no input.
    ///
    /// Inputs are only read; nobody writes to them during the run. State is read, and written where the plan updates a variable in
    /// place (an output of a kernel whose allocation is [`Allocation::State`]): the pointers of `state` must be valid for writes, and
    /// nobody else reads or writes what they point at during the run.
    pub(super) unsafe fn run(
        &self,
        workspace: &mut Workspace,
        inputs: &[*mut u8],
        state: &[*mut u8],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let program = self.program();
        let arena = workspace.arena.pointer();
        workspace.bases.0.clear();
        for allocation in &program.allocations {
            workspace.bases.0.push(match allocation {
                Allocation::Input(i) => inputs[*i],
                Allocation::State(i) => state[*i],
                Allocation::Const(i) => memory::pointer(&self.constants[*i]),
                // SAFETY: the plan keeps every buffer inside the arena, whose size it gave.
                Allocation::Arena(at) => unsafe { arena.add(*at) },
            });
        }
        // Kernels below this index have run, with the first kernel of their wave.
        let mut done = 0;
        for now in 0..self.steps.len() {
            if now < done {
                continue;
            }
            // Adding up times runs the kernels of a wave one by one, to time each.
            if let (Some(wave), false) = (&self.waves[now], workspace.profile.is_serial()) {
                done = now + wave.loops.len();
                // SAFETY: the caller's promise, and the buffers were placed for kernels of one wave to run at once.
                unsafe { self.run_wave(workspace, now, pool) };
                continue;
            }
            let (kernel, step) = (&program.kernels.kernels[now], &self.steps[now]);
            let begun = workspace.profile.begin(now);
            let bases = &workspace.bases.0;
            let at = |view: &View| {
                let bytes = program.kernels.buffers[view.buffer.index()]
                    .ty
                    .dtype
                    .bytes();
                // SAFETY: views lie inside their buffers.
                unsafe { bases[view.buffer.index()].add(view.offset * bytes) }
            };
            match (step, &kernel.kind) {
                (Step::Map { entry, nest }, KernelKind::Map(map)) => {
                    let table = &mut workspace.table.0;
                    table.clear();
                    table.extend(map.loads.iter().map(at));
                    table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
                    let table = Table(table);
                    let table = &table;
                    let entry = self.code.entry(*entry);
                    let rows = |from: usize, to: usize| {
                        // SAFETY: the code was compiled for this loop: it reads the loads and writes the rows `from..to` of the outputs
                        // alone, all of which are where the plan put them; tasks have different rows. What the plan lets a
                        // kernel write where it also reads, it reads and writes at the same element.
                        unsafe { nest.run(entry, table.pointers(), from, to) };
                    };
                    if !map.shape.contains(&0) {
                        nest.run_tasks(pool, &rows);
                    }
                }
                (
                    Step::Call(call),
                    KernelKind::Call {
                        prim,
                        attrs,
                        operands,
                        epilogue,
                    },
                ) => {
                    // What the epilogue reads and writes.
                    let table = &mut workspace.table.0;
                    table.clear();
                    if let Some(map) = epilogue {
                        table.extend(map.loads.iter().map(at));
                        table.extend(kernel.outputs[1..].iter().map(|b| bases[b.index()]));
                    }
                    let table = Table(table);
                    let mut arguments = std::mem::take(&mut workspace.arguments).recycled();
                    arguments.types.extend(&call.types);
                    arguments.results.extend(&call.results);
                    // SAFETY: operands are contiguous views of initialised buffers. The plan keeps a buffer live until the last kernel that
                    // reads it is done, so no output of the routine overlaps an operand, with one exception: `put_rows` may update
                    // its first operand in place. That slice is dropped below, before the output's is made. Outputs of the epilogue
                    // may alias what the epilogue alone reads, which is no operand.
                    let slice = |(v, ty): (&View, &Type)| unsafe {
                        memory::slice(ty.dtype, at(v), v.elements())
                    };
                    arguments
                        .operands
                        .extend(operands.iter().zip(&call.types).map(slice));
                    if is_in_place(operands, kernel, bases) {
                        // A routine that updates its first operand in place gets it as its output alone: two slices would alias.
                        arguments.operands[0] = Slice::none(call.types[0].dtype);
                    }
                    // SAFETY: outputs overlap neither each other nor the operands that are left. They lie in the arena, which was zeroed
                    // once, or in state, which the caller passes initialised for writing; bools are only ever written as 0 or 1.
                    let slice = |(b, ty): (&BufferId, &Type)| unsafe {
                        memory::slice_mut(ty.dtype, bases[b.index()], ty.elements())
                    };
                    let mut outputs: [SliceMut<'_>; MAX_RESULTS] =
                        std::array::from_fn(|_| SliceMut::U8(&mut []));
                    let slices = kernel.outputs.iter().zip(&call.results).map(slice);
                    outputs
                        .iter_mut()
                        .zip(slices)
                        .for_each(|(output, slice)| *output = slice);
                    let mut routine = Routine {
                        prim,
                        attrs,
                        types: &arguments.types,
                        results: &arguments.results,
                        operands: &arguments.operands,
                        outputs: &mut outputs[..call.results.len()],
                        cpu: self.cpu,
                        pool,
                        scratch,
                    };
                    let done = match &call.epilogue {
                        None => (call.run)(&mut routine),
                        Some(epilogue) => {
                            let entry = self.code.entry(epilogue.entry);
                            let nest = &epilogue.nest;
                            let table = &table;
                            let rows = |from: usize, to: usize| {
                                // SAFETY: the code was compiled for this loop, which reads of the product only the rows that it
                                // stores for, and those are finished; each is done once.
                                unsafe { nest.run(entry, table.pointers(), from, to) };
                            };
                            match epilogue.rows_per_row {
                                Some(each) => {
                                    let finished =
                                        |r: Range<usize>| rows(r.start * each, r.end * each);
                                    library::matmul_with_epilogue(&mut routine, Some(&finished))
                                }
                                None => {
                                    (call.run)(&mut routine).map(|()| nest.run_tasks(pool, &rows))
                                }
                            }
                        }
                    };
                    workspace.arguments = arguments.recycled();
                    done.map_err(|error| RunError::of(error, kernel.span))?;
                }
                (Step::Scan { scan, number }, KernelKind::Scan { .. }) => {
                    let table = &mut workspace.table.0;
                    table.clear();
                    table.extend(operands_of(kernel).iter().map(at));
                    table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
                    let values = &mut workspace.scans[*number];
                    // SAFETY: operands are contiguous views of initialised buffers, outputs have the sizes of the scan's results; the
                    // workspace has the scans of this program in order.
                    unsafe { scan.run(values, kernel, program, table, pool, scratch)? };
                }
                _ => unreachable!("steps follow their kernels"),
            }
            workspace.profile.end(now, begun);
        }
        Ok(())
    }

    /// Runs the loops of a wave, whose first is `first`.
    ///
    /// # Safety
    ///
    /// As for [`CompiledProgram::run`], which has set the bases.
    unsafe fn run_wave(&self, workspace: &mut Workspace, first: usize, pool: &Pool) {
        let (program, bases) = (self.program(), &workspace.bases.0);
        let recorder = workspace.profile.recorder();
        let wave = self.waves[first].as_ref().expect("a wave begins here");
        let table = &mut workspace.table.0;
        table.clear();
        for kernel in &program.kernels.kernels[first..first + wave.loops.len()] {
            let KernelKind::Map(map) = &kernel.kind else {
                unreachable!("loops alone share a wave");
            };
            let at = |view: &View| {
                let bytes = program.kernels.buffers[view.buffer.index()]
                    .ty
                    .dtype
                    .bytes();
                // SAFETY: views lie inside their buffers.
                unsafe { bases[view.buffer.index()].add(view.offset * bytes) }
            };
            table.extend(map.loads.iter().map(at));
            table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
        }
        let table = Table(table);
        let (table, entries) = (&table, self.code.entries());
        let tasks = wave.tasks[wave.loops.len()];
        let work = |task: usize| {
            let own = wave.tasks.partition_point(|start| *start <= task) - 1;
            let (entry, nest) = &wave.loops[own];
            let pointers = &table.pointers()[wave.tables[own]..wave.tables[own + 1]];
            let (from, to) = nest.rows_of(task - wave.tasks[own]);
            let start = recorder.map(|_| Instant::now());
            // SAFETY: as for a loop that runs alone; loops of one wave write nothing that another of them reads or writes.
            unsafe { nest.run(entries[*entry], pointers, from, to) };
            if let (Some(recorder), Some(start)) = (recorder, start) {
                recorder.add(first + own, start);
            }
        };
        match wave.is_serial {
            true => (0..tasks).for_each(work),
            false => pool.run(tasks, &work),
        }
        // A loop without elements has no task, and yet it is a kernel of the trace.
        let empty = |own: &usize| wave.tasks[*own] == wave.tasks[own + 1];
        if let Some(recorder) = recorder {
            let empty = (0..wave.loops.len()).filter(empty);
            empty.for_each(|own| recorder.add(first + own, Instant::now()));
        }
    }
}

/// Whether a routine updates its first operand in place: its first output has the same address. The plan allocates only the output of
/// `put_rows` so.
fn is_in_place(operands: &[View], kernel: &Kernel, bases: &[*mut u8]) -> bool {
    let (Some(x), Some(y)) = (operands.first(), kernel.outputs.first()) else {
        return false;
    };
    bases[x.buffer.index()] == bases[y.index()]
}

/// The operands of a call or scan, or the loads of a loop.
fn operands_of(kernel: &Kernel) -> &[View] {
    match &kernel.kind {
        KernelKind::Map(map) => &map.loads,
        KernelKind::Call { operands, .. } | KernelKind::Scan { operands, .. } => operands,
    }
}
