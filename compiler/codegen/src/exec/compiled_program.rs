//! A compiled program: kernels with their machine code, the buffer arena, and the dispatch of one kernel (or wave of kernels) after another.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use trainspec_ir::Tensor;
use trainspec_ir::graph::Type;
use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{BufferId, Kernel, KernelKind, Map, Origin, View};
use trainspec_ir::plan::{Allocation, Program};

use crate::CompileError;
use crate::exec::code::Code;
use crate::exec::loop_nest::LoopNest;
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::exec::scan::Scan;
use crate::library::{self, Routine, Scratch, Slice, SliceMut};
use crate::translate::Machine;

/// A program that is ready to run.
#[derive(Debug)]
pub(super) struct CompiledProgram {
    pub(super) program: Program,
    code: Code,
    steps: Vec<Step>,
    /// Waves of independent loops that run at once, by the first loop of each.
    waves: Vec<Option<Wave>>,
    /// The time spent in each kernel, while profiling is on.
    pub(super) kernel_times: Option<Vec<Duration>>,
    constants: Vec<Tensor>,
    arena: Arena,
    /// The base address of each buffer, during a run.
    bases: Pointers,
    /// The addresses of the accesses of a kernel or wave, during its run.
    table: Pointers,
}

/// A wave: independent loops that run at once.
#[derive(Debug)]
struct Wave {
    /// The function of each kernel, and its loop nest.
    loops: Vec<(usize, LoopNest)>,
    /// The index of the first task of each (prefix sums), and the number of tasks.
    tasks: Vec<usize>,
    /// Where the addresses of each begin in the table.
    tables: Vec<usize>,
    /// Whether all of them together are less work than to wake another thread.
    is_serial: bool,
}

/// The least elements of a wave that is run on several threads.
const MIN_PARALLEL_ELEMENTS: usize = 1 << 11;

impl Wave {
    /// The wave that begins with a kernel, if it has several kernels.
    fn of(program: &Program, steps: &[Step], first: usize) -> Option<Wave> {
        let waves = &program.waves;
        if first > 0 && waves[first - 1] == waves[first] {
            return None;
        }
        let kernels = waves[first..]
            .iter()
            .take_while(|w| **w == waves[first])
            .count();
        if kernels == 1 {
            return None;
        }
        let (mut loops, mut tasks, mut tables) = (Vec::new(), vec![0], vec![0]);
        let mut elements = 0_usize;
        let all = program.kernels.kernels[first..].iter().zip(&steps[first..]);
        for (kernel, step) in all.take(kernels) {
            let (Step::Map { entry, nest }, KernelKind::Map(map)) = (step, &kernel.kind) else {
                unreachable!("loops alone share a wave");
            };
            let count = match map.shape.contains(&0) {
                true => 0,
                false => nest.task_count(),
            };
            elements = elements.saturating_add(map.shape.iter().product());
            loops.push((*entry, nest.clone()));
            tasks.push(tasks[tasks.len() - 1] + count);
            tables.push(tables[tables.len() - 1] + map.loads.len() + map.stores.len());
        }
        Some(Wave {
            loops,
            tasks,
            tables,
            is_serial: elements < MIN_PARALLEL_ELEMENTS,
        })
    }
}

/// How a kernel is run.
#[derive(Debug)]
enum Step {
    Map { entry: usize, nest: LoopNest },
    Call(Call),
    Scan(Box<Scan>),
}

/// A call of a library routine: its types, and reusable argument lists, which are empty outside of a call.
#[derive(Debug)]
struct Call {
    run: library::Run,
    types: Vec<Type>,
    results: Vec<Type>,
    arguments: Arguments<'static>,
    /// The epilogue fused with a matrix product.
    epilogue: Option<EpilogueLoop>,
}

/// An epilogue: a loop over the rows of a matrix product.
#[derive(Debug)]
struct EpilogueLoop {
    entry: usize,
    nest: LoopNest,
    /// How many rows of the loop each row of the product is, where its rows are not longer.
    rows_per_row: Option<usize>,
}

/// No primitive has more results.
const MAX_RESULTS: usize = 4;

/// The argument lists of a routine.
#[derive(Debug, Default)]
struct Arguments<'a> {
    types: Vec<&'a Type>,
    results: Vec<&'a Type>,
    operands: Vec<Slice<'a>>,
}

impl Arguments<'_> {
    /// The emptied lists for another lifetime, with their capacity.
    fn recycled<'b>(self) -> Arguments<'b> {
        fn empty<A, B>(mut list: Vec<A>) -> Vec<B> {
            list.clear();
            // In place, without an allocation, because the two have the same layout.
            list.into_iter()
                .map(|_| unreachable!("it is empty"))
                .collect()
        }
        Arguments {
            types: empty(self.types),
            results: empty(self.results),
            operands: empty(self.operands),
        }
    }
}

/// The loops to compile, deduplicated: equal loops share one function.
#[derive(Default)]
struct Maps<'a> {
    unique: Vec<&'a Map>,
    by_key: HashMap<String, usize>,
}

impl<'a> Maps<'a> {
    /// The index of a loop among the unique ones. Loops with the same body, shapes, strides and sharing of
    /// buffers among loads are one.
    fn entry(&mut self, map: &'a Map) -> usize {
        let mut buffers: Vec<BufferId> = Vec::new();
        let mut number = |buffer: BufferId| match buffers.iter().position(|b| *b == buffer) {
            Some(known) => known,
            None => {
                buffers.push(buffer);
                buffers.len() - 1
            }
        };
        let loads: Vec<_> = map
            .loads
            .iter()
            .map(|v| (number(v.buffer), &v.shape, &v.strides))
            .collect();
        let key = format!(
            "{:?} {} {loads:?} {:?} {:?}",
            map.shape, map.reduced_dims, map.body, map.stores
        );
        let next = self.unique.len();
        let entry = *self.by_key.entry(key).or_insert(next);
        if entry == next {
            self.unique.push(map);
        }
        entry
    }
}

/// Addresses that are valid during a run only.
#[derive(Debug, Default)]
pub(super) struct Pointers(pub(super) Vec<*mut u8>);

// SAFETY: outside of a run the addresses are not used, and a run borrows what they point at, exclusively where it writes.
unsafe impl Send for Pointers {}
// SAFETY: nothing is done with the addresses through a shared reference.
unsafe impl Sync for Pointers {}

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
    pub(super) fn new(
        program: Program,
        machine: Option<Machine>,
    ) -> Result<CompiledProgram, CompileError> {
        let mut maps = Maps::default();
        let mut steps = Vec::new();
        for kernel in &program.kernels.kernels {
            steps.push(match &kernel.kind {
                KernelKind::Map(map) => Step::Map {
                    entry: maps.entry(map),
                    nest: LoopNest::of(map),
                },
                KernelKind::Call {
                    prim,
                    operands,
                    epilogue,
                    ..
                } => {
                    let buffers = &program.kernels.buffers;
                    let epilogue = epilogue.as_ref().map(|map| {
                        let entry = maps.entry(map);
                        let nest = LoopNest::of(map);
                        let product = &buffers[kernel.outputs[0].index()].ty;
                        let columns = product.shape[product.rank() - 1];
                        let rows = product.elements() / columns;
                        EpilogueLoop {
                            entry,
                            rows_per_row: nest.rows.is_multiple_of(rows).then(|| nest.rows / rows),
                            nest,
                        }
                    });
                    let ty = |view: &View| buffers[view.buffer.index()].ty.with_shape(&view.shape);
                    let routine_outputs = match epilogue {
                        Some(_) => 1,
                        None => kernel.outputs.len(),
                    };
                    let outputs = kernel.outputs[..routine_outputs].iter();
                    Step::Call(Call {
                        run: library::find(prim).ok_or(CompileError::Missing(prim.name))?,
                        types: operands.iter().map(ty).collect(),
                        results: outputs.map(|b| buffers[b.index()].ty.clone()).collect(),
                        arguments: Arguments::default(),
                        epilogue,
                    })
                }
                KernelKind::Scan { body, carries, .. } => Step::Scan(Box::new(Scan::new(
                    body.as_ref().clone(),
                    *carries,
                    machine,
                )?)),
            });
        }
        let code = Code::compile(&maps.unique, machine)
            .map_err(|e| CompileError::Cranelift(format!("{e:?}")))?;
        let constant = |origin: &Origin| match origin {
            Origin::Const(tensor) => Some(tensor.clone()),
            Origin::Input(_) | Origin::State(_) | Origin::Temp => None,
        };
        let constants = program
            .kernels
            .buffers
            .iter()
            .filter_map(|b| constant(&b.origin))
            .collect();
        let arena = Arena::new(program.arena);
        let all = 0..steps.len();
        let waves = all.map(|first| Wave::of(&program, &steps, first)).collect();
        Ok(CompiledProgram {
            program,
            code,
            steps,
            waves,
            kernel_times: None,
            constants,
            arena,
            bases: Pointers::default(),
            table: Pointers::default(),
        })
    }

    /// Runs all kernels.
    ///
    /// # Safety
    ///
    /// `inputs` and `state` hold the first byte of each input and each state variable of the program, in order. Each points at the elements
    /// of its type, aligned for it and all initialised. The elements of a state variable overlap no other variable and no input.
    ///
    /// Inputs are only read; nobody writes to them during the run. State is read, and written where the plan updates a variable in
    /// place (an output of a kernel whose allocation is [`Allocation::State`]): the pointers of `state` must be valid for writes, and
    /// nobody else reads or writes what they point at during the run.
    pub(super) unsafe fn run(
        &mut self,
        inputs: &[*mut u8],
        state: &[*mut u8],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let arena = self.arena.pointer();
        self.bases.0.clear();
        for allocation in &self.program.allocations {
            self.bases.0.push(match allocation {
                Allocation::Input(i) => inputs[*i],
                Allocation::State(i) => state[*i],
                Allocation::Const(i) => memory::pointer(&self.constants[*i]),
                // SAFETY: the plan keeps every buffer inside the arena, whose size it gave.
                Allocation::Arena(at) => unsafe { arena.add(*at) },
            });
        }
        // The kernels before this one were run with the first of their wave.
        let mut done = 0;
        for now in 0..self.steps.len() {
            if now < done {
                continue;
            }
            // Profiling runs the kernels of a wave one by one, to time each.
            if let (Some(wave), None) = (&self.waves[now], &self.kernel_times) {
                done = now + wave.loops.len();
                // SAFETY: the caller's promise, and the buffers were placed for kernels of one wave to run at once.
                unsafe { self.run_wave(now, pool) };
                continue;
            }
            let (kernel, step) = (&self.program.kernels.kernels[now], &mut self.steps[now]);
            let start = self.kernel_times.as_ref().map(|_| Instant::now());
            let bases = &self.bases.0;
            let at = |view: &View| {
                let bytes = self.program.kernels.buffers[view.buffer.index()]
                    .ty
                    .dtype
                    .bytes();
                // SAFETY: views lie inside their buffers.
                unsafe { bases[view.buffer.index()].add(view.offset * bytes) }
            };
            match (step, &kernel.kind) {
                (Step::Map { entry, nest }, KernelKind::Map(map)) => {
                    if map.shape.contains(&0) {
                        continue;
                    }
                    let table = &mut self.table.0;
                    table.clear();
                    table.extend(map.loads.iter().map(at));
                    table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
                    let table = Table(table);
                    let (table, nest) = (&table, &*nest);
                    let entry = self.code.entry(*entry);
                    nest.run_tasks(pool, &|from, to| {
                        // SAFETY: the code was compiled for this loop: it reads the loads and writes the rows `from..to` of the outputs
                        // alone, all of which are where the plan put them; tasks have different rows. What the plan lets a
                        // kernel write where it also reads, it reads and writes at the same element.
                        unsafe { nest.run(entry, table.pointers(), from, to) };
                    });
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
                    let table = &mut self.table.0;
                    table.clear();
                    if let Some(map) = epilogue {
                        table.extend(map.loads.iter().map(at));
                        table.extend(kernel.outputs[1..].iter().map(|b| bases[b.index()]));
                    }
                    let table = Table(table);
                    let mut arguments = std::mem::take(&mut call.arguments).recycled();
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
                    call.arguments = arguments.recycled();
                    done.map_err(|error| RunError {
                        message: error.0,
                        span: kernel.span,
                    })?;
                }
                (Step::Scan(scan), KernelKind::Scan { .. }) => {
                    let table = &mut self.table.0;
                    table.clear();
                    table.extend(operands_of(kernel).iter().map(at));
                    table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
                    let (operands, outputs) = table.split_at(operands_of(kernel).len());
                    // SAFETY: operands are contiguous views of initialised buffers, outputs have the sizes of the scan's results.
                    unsafe { scan.run(kernel, &self.program, operands, outputs, pool, scratch)? };
                }
                _ => unreachable!("steps follow their kernels"),
            }
            if let (Some(start), Some(times)) = (start, &mut self.kernel_times) {
                times[now] += start.elapsed();
            }
        }
        Ok(())
    }

    /// Runs the loops of a wave, whose first is `first`.
    ///
    /// # Safety
    ///
    /// As for [`CompiledProgram::run`], which has set the bases.
    unsafe fn run_wave(&mut self, first: usize, pool: &Pool) {
        let (program, bases) = (&self.program, &self.bases.0);
        let wave = self.waves[first].as_ref().expect("a wave begins here");
        let table = &mut self.table.0;
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
            // SAFETY: as for a loop that runs alone; loops of one wave write nothing that another of them reads or writes.
            unsafe { nest.run(entries[*entry], pointers, from, to) };
        };
        match wave.is_serial {
            true => (0..tasks).for_each(work),
            false => pool.run(tasks, &work),
        }
    }

    /// The compile time of each kernel; a routine takes none, a scan that of its body.
    pub(super) fn compile_times(&self) -> Vec<Duration> {
        // Code that several kernels share is counted for the first of them.
        let mut counted = HashSet::new();
        let mut of = |entry: usize| match counted.insert(entry) {
            true => self.code.compile_time(entry),
            false => Duration::ZERO,
        };
        let time = |step: &Step| match step {
            Step::Map { entry, .. } => of(*entry),
            Step::Call(Call { epilogue, .. }) => {
                let epilogue = epilogue.as_ref();
                epilogue.map_or(Duration::ZERO, |epilogue| of(epilogue.entry))
            }
            Step::Scan(scan) => scan.compile_time(),
        };
        self.steps.iter().map(time).collect()
    }

    /// The base address of a buffer, during and right after a run.
    pub(super) fn base(&self, buffer: BufferId) -> *mut u8 {
        self.bases.0[buffer.index()]
    }

    /// Bytes of the arena.
    pub(super) fn bytes(&self) -> usize {
        let inner = |step: &Step| match step {
            Step::Scan(scan) => scan.bytes(),
            Step::Map { .. } | Step::Call(_) => 0,
        };
        self.program.arena + self.steps.iter().map(inner).sum::<usize>()
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

fn operands_of(kernel: &Kernel) -> &[View] {
    match &kernel.kind {
        KernelKind::Map(map) => &map.loads,
        KernelKind::Call { operands, .. } | KernelKind::Scan { operands, .. } => operands,
    }
}
