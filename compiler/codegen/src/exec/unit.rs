//! A program with its code and its memory: what runs, kernel by kernel.

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
use crate::exec::memory::{self, Arena};
use crate::exec::pool::Pool;
use crate::exec::rounds::Rounds;
use crate::exec::walk::Walk;
use crate::library::{self, Routine, Scratch, Slice, SliceMut};
use crate::translate::Machine;

/// A program that is ready to run.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) program: Program,
    code: Code,
    steps: Vec<Step>,
    /// Loops that run at once, by the first of them.
    waves: Vec<Option<Wave>>,
    /// The time spent in each kernel, where somebody wants to know.
    pub(super) clocks: Option<Vec<Duration>>,
    constants: Vec<Tensor>,
    arena: Arena,
    /// The first byte of each buffer, for the time of a run.
    bases: Pointers,
    table: Pointers,
}

/// Loops that run at once.
#[derive(Debug)]
struct Wave {
    /// The function of each kernel, and how it is walked.
    loops: Vec<(usize, Walk)>,
    /// The number of the first task of each, and of what would be the next.
    tasks: Vec<usize>,
    /// Where the addresses of each begin in the table.
    tables: Vec<usize>,
    /// Whether all of them together are less work than to call another thread.
    little: bool,
}

/// How many elements of loops are done sooner alone than with another thread.
const LITTLE: usize = 1 << 11;

impl Wave {
    /// The wave that begins with a kernel, where there are several in it.
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
            let (Step::Map { entry, walk }, KernelKind::Map(map)) = (step, &kernel.kind) else {
                unreachable!("loops alone share a wave");
            };
            let count = match map.shape.contains(&0) {
                true => 0,
                false => walk.task_count(),
            };
            elements = elements.saturating_add(map.shape.iter().product());
            loops.push((*entry, walk.clone()));
            tasks.push(tasks[tasks.len() - 1] + count);
            tables.push(tables[tables.len() - 1] + map.loads.len() + map.stores.len());
        }
        Some(Wave {
            loops,
            tasks,
            tables,
            little: elements < LITTLE,
        })
    }
}

/// How a kernel is run.
#[derive(Debug)]
enum Step {
    Map { entry: usize, walk: Walk },
    Call(Call),
    Scan(Box<Rounds>),
}

/// A call of a routine: its types, and room for what it is told, which is empty outside of a call.
#[derive(Debug)]
struct Call {
    run: library::Run,
    types: Vec<Type>,
    results: Vec<Type>,
    lists: Lists<'static>,
    /// A loop over the rows of a product.
    epilogue: Option<EpilogueLoop>,
}

/// A loop over the rows of a product.
#[derive(Debug)]
struct EpilogueLoop {
    entry: usize,
    walk: Walk,
    /// How many rows of its own each row of the product is, where its rows are not longer.
    each: Option<usize>,
}

/// No primitive has more results.
const MOST_RESULTS: usize = 4;

/// What a routine is told of its operands.
#[derive(Debug, Default)]
struct Lists<'a> {
    types: Vec<&'a Type>,
    results: Vec<&'a Type>,
    operands: Vec<Slice<'a>>,
}

impl Lists<'_> {
    /// The same room for other lifetimes: everything is taken out, the memory stays.
    fn recycled<'b>(self) -> Lists<'b> {
        fn empty<A, B>(mut list: Vec<A>) -> Vec<B> {
            list.clear();
            // In place, because the two have the same layout.
            list.into_iter()
                .map(|_| unreachable!("it is empty"))
                .collect()
        }
        Lists {
            types: empty(self.types),
            results: empty(self.results),
            operands: empty(self.operands),
        }
    }
}

/// Loops to compile, each different one once.
#[derive(Default)]
struct Maps<'a> {
    different: Vec<&'a Map>,
    known: HashMap<String, usize>,
}

impl<'a> Maps<'a> {
    /// The number of a loop among the different ones. Two that do the same to buffers that lie in the same way are one.
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
            map.shape, map.folded, map.body, map.stores
        );
        let next = self.different.len();
        let entry = *self.known.entry(key).or_insert(next);
        if entry == next {
            self.different.push(map);
        }
        entry
    }
}

/// Addresses that mean something during a run only.
#[derive(Debug, Default)]
pub(super) struct Pointers(pub(super) Vec<*mut u8>);

// SAFETY: outside of a run the addresses are not used, and a run has `&mut` to what they point at.
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

impl Unit {
    pub(super) fn new(program: Program, machine: Option<Machine>) -> Result<Unit, CompileError> {
        let mut maps = Maps::default();
        let mut steps = Vec::new();
        for kernel in &program.kernels.kernels {
            steps.push(match &kernel.kind {
                KernelKind::Map(map) => Step::Map {
                    entry: maps.entry(map),
                    walk: Walk::of(map),
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
                        let walk = Walk::of(map);
                        let product = &buffers[kernel.outputs[0].index()].ty;
                        let columns = product.shape[product.rank() - 1];
                        let rows = product.elements() / columns;
                        EpilogueLoop {
                            entry,
                            each: walk.rows.is_multiple_of(rows).then(|| walk.rows / rows),
                            walk,
                        }
                    });
                    let ty = |view: &View| buffers[view.buffer.index()].ty.with_shape(&view.shape);
                    let routine = match epilogue {
                        Some(_) => 1,
                        None => kernel.outputs.len(),
                    };
                    let made = kernel.outputs[..routine].iter();
                    Step::Call(Call {
                        run: library::find(prim).ok_or(CompileError::Missing(prim.name))?,
                        types: operands.iter().map(ty).collect(),
                        results: made.map(|b| buffers[b.index()].ty.clone()).collect(),
                        lists: Lists::default(),
                        epilogue,
                    })
                }
                KernelKind::Scan { body, carries, .. } => Step::Scan(Box::new(Rounds::new(
                    body.as_ref().clone(),
                    *carries,
                    machine,
                )?)),
            });
        }
        let code = Code::compile(&maps.different, machine)
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
        Ok(Unit {
            program,
            code,
            steps,
            waves,
            clocks: None,
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
    /// `inputs` and `state` hold the first byte of each input and each piece of state of the program, in order, each with its type's elements,
    /// all initialised; nobody else writes to them during the run. Neither is written to.
    pub(super) unsafe fn run(
        &mut self,
        inputs: &[*mut u8],
        state: &[*mut u8],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let arena = self.arena.pointer();
        self.bases.0.clear();
        for place in &self.program.allocations {
            self.bases.0.push(match place {
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
            // To tell the times of kernels apart they are run one by one.
            if let (Some(wave), None) = (&self.waves[now], &self.clocks) {
                done = now + wave.loops.len();
                // SAFETY: the caller's promise, and the buffers were placed for kernels of one wave to run at once.
                unsafe { self.run_wave(now, pool) };
                continue;
            }
            let (kernel, step) = (&self.program.kernels.kernels[now], &mut self.steps[now]);
            let start = self.clocks.as_ref().map(|_| Instant::now());
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
                (Step::Map { entry, walk }, KernelKind::Map(map)) => {
                    if map.shape.contains(&0) {
                        continue;
                    }
                    let table = &mut self.table.0;
                    table.clear();
                    table.extend(map.loads.iter().map(at));
                    table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
                    let table = Table(table);
                    let (table, walk) = (&table, &*walk);
                    let entry = self.code.entry(*entry);
                    walk.tasks(pool, &|from, to| {
                        // SAFETY: the code was compiled for this loop: it reads the loads and writes the rows `from..to` of the made
                        // buffers alone, all of which are where the plan put them; tasks have different rows. What the plan lets a
                        // kernel write where it also reads, it reads and writes at the same element.
                        unsafe { walk.run(entry, table.pointers(), from, to) };
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
                    // What the loop that rides on a product reads and writes.
                    let table = &mut self.table.0;
                    table.clear();
                    if let Some(map) = epilogue {
                        table.extend(map.loads.iter().map(at));
                        table.extend(kernel.outputs[1..].iter().map(|b| bases[b.index()]));
                    }
                    let table = Table(table);
                    let mut lists = std::mem::take(&mut call.lists).recycled();
                    lists.types.extend(&call.types);
                    lists.results.extend(&call.results);
                    // SAFETY: operands are contiguous views of initialised buffers, and no buffer that the kernel makes lies where an
                    // operand does, because the plan keeps a buffer until the last kernel that reads it is done.
                    let slice = |(v, ty): (&View, &Type)| unsafe {
                        memory::slice(ty.dtype, at(v), v.elements())
                    };
                    lists
                        .operands
                        .extend(operands.iter().zip(&call.types).map(slice));
                    if is_in_place(operands, kernel, bases) {
                        // What is changed where it lies is not told twice.
                        lists.operands[0] = Slice::none(call.types[0].dtype);
                    }
                    // SAFETY: made buffers do not overlap each other; the arena was zeroed once, so that all bytes are initialised,
                    // and truths are only ever written as 0 or 1.
                    let slice = |(b, ty): (&BufferId, &Type)| unsafe {
                        memory::slice_mut(ty.dtype, bases[b.index()], ty.elements())
                    };
                    let mut outputs: [SliceMut<'_>; MOST_RESULTS] =
                        std::array::from_fn(|_| SliceMut::U8(&mut []));
                    let made = kernel.outputs.iter().zip(&call.results).map(slice);
                    outputs
                        .iter_mut()
                        .zip(made)
                        .for_each(|(to, made)| *to = made);
                    let mut routine = Routine {
                        prim,
                        attrs,
                        types: &lists.types,
                        results: &lists.results,
                        operands: &lists.operands,
                        outputs: &mut outputs[..call.results.len()],
                        pool,
                        scratch,
                    };
                    let done = match &call.epilogue {
                        None => (call.run)(&mut routine),
                        Some(ride) => {
                            let (entry, walk) = (self.code.entry(ride.entry), &ride.walk);
                            let table = &table;
                            let rows = |from: usize, to: usize| {
                                // SAFETY: the code was compiled for this loop, which reads of the product only the rows that it
                                // stores for, and those are finished; each is done once.
                                unsafe { walk.run(entry, table.pointers(), from, to) };
                            };
                            match ride.each {
                                Some(each) => {
                                    let finished =
                                        |r: Range<usize>| rows(r.start * each, r.end * each);
                                    library::matmul_with_epilogue(&mut routine, Some(&finished))
                                }
                                None => (call.run)(&mut routine).map(|()| walk.tasks(pool, &rows)),
                            }
                        }
                    };
                    call.lists = lists.recycled();
                    done.map_err(|fault| RunError {
                        message: fault.0,
                        span: kernel.span,
                    })?;
                }
                (Step::Scan(rounds), KernelKind::Scan { .. }) => {
                    let table = &mut self.table.0;
                    table.clear();
                    table.extend(operands_of(kernel).iter().map(at));
                    table.extend(kernel.outputs.iter().map(|b| bases[b.index()]));
                    let (operands, made) = table.split_at(operands_of(kernel).len());
                    // SAFETY: operands are contiguous views of initialised buffers, made buffers have room for the loop's results.
                    unsafe { rounds.run(kernel, &self.program, operands, made, pool, scratch)? };
                }
                _ => unreachable!("steps follow their kernels"),
            }
            if let (Some(start), Some(clocks)) = (start, &mut self.clocks) {
                clocks[now] += start.elapsed();
            }
        }
        Ok(())
    }

    /// Runs the loops of a wave, whose first is `first`.
    ///
    /// # Safety
    ///
    /// As for [`Unit::run`], which has set the bases.
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
            let (entry, walk) = &wave.loops[own];
            let pointers = &table.pointers()[wave.tables[own]..wave.tables[own + 1]];
            let (from, to) = walk.rows_of(task - wave.tasks[own]);
            // SAFETY: as for a loop that runs alone; loops of one wave write nothing that another of them reads or writes.
            unsafe { walk.run(entries[*entry], pointers, from, to) };
        };
        match wave.little {
            true => (0..tasks).for_each(work),
            false => pool.run(tasks, &work),
        }
    }

    /// How long it took to compile each kernel; a routine takes no time, a loop that of its body.
    pub(super) fn compile_times(&self) -> Vec<Duration> {
        // What several kernels share is the first one's.
        let mut known = HashSet::new();
        let mut of = |entry: usize| match known.insert(entry) {
            true => self.code.compile_time(entry),
            false => Duration::ZERO,
        };
        let time = |step: &Step| match step {
            Step::Map { entry, .. } => of(*entry),
            Step::Call(Call { epilogue, .. }) => {
                let ride = epilogue.as_ref();
                ride.map_or(Duration::ZERO, |ride| of(ride.entry))
            }
            Step::Scan(rounds) => rounds.compile_time(),
        };
        self.steps.iter().map(time).collect()
    }

    /// The first byte of a view's buffer, during and right after a run.
    pub(super) fn base(&self, buffer: BufferId) -> *mut u8 {
        self.bases.0[buffer.index()]
    }

    /// Bytes of the arena.
    pub(super) fn bytes(&self) -> usize {
        let inner = |step: &Step| match step {
            Step::Scan(rounds) => rounds.bytes(),
            Step::Map { .. } | Step::Call(_) => 0,
        };
        self.program.arena + self.steps.iter().map(inner).sum::<usize>()
    }
}

/// Whether a routine puts rows into what its first operand is. Only the plan lets one do so.
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
