//! A compiled program: planned kernels with their machine code and constants. It is immutable, so that several threads can run it at once,
//! each with a workspace of its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use trainspec_ir::graph::{State, Type};
use trainspec_ir::kernel::{
    Buffer, BufferId, Combine, InstOp, KernelKind, Map, Origin, Store, View,
};
use trainspec_ir::plan::Program;
use trainspec_ir::{DType, Tensor};

use crate::cpu::{Cpu, Machine};
use crate::exec::code::Code;
use crate::exec::loop_nest::LoopNest;
use crate::exec::scan::Scan;
use crate::exec::wave::Wave;
use crate::library;
use crate::{CompileError, Options};

/// A program with machine code, which [`Executable`](crate::exec::Executable)s run.
#[derive(Debug)]
pub struct CompiledProgram {
    program: Program,
    inputs: Vec<(String, Type)>,
    pub(super) constants: Vec<Tensor>,
    pub(super) code: Code,
    /// The features that library routines may use.
    pub(super) cpu: Cpu,
    /// How each kernel is run.
    pub(super) steps: Vec<Step>,
    /// Waves of independent loops that run at once, by the first loop of each.
    pub(super) waves: Vec<Option<Wave>>,
}

/// How a kernel is run.
#[derive(Debug)]
pub(super) enum Step {
    Map {
        entry: usize,
        nest: LoopNest,
    },
    Call(Call),
    Scan {
        scan: Box<Scan>,
        /// Its number among the scans of the program.
        number: usize,
    },
}

/// A call of a library routine, and its types.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) run: library::Run,
    pub(super) types: Vec<Type>,
    pub(super) results: Vec<Type>,
    /// The epilogue fused with a matrix product.
    pub(super) epilogue: Option<EpilogueLoop>,
}

/// An epilogue: a loop over the rows of a matrix product.
#[derive(Debug)]
pub(super) struct EpilogueLoop {
    pub(super) entry: usize,
    pub(super) nest: LoopNest,
    /// How many rows of the loop each row of the product is, where its rows are not longer.
    pub(super) rows_per_row: Option<usize>,
}

/// What two loops must have in common to share code: all but the buffers themselves.
#[derive(PartialEq, Eq, Hash)]
struct MapKey<'a> {
    shape: &'a [usize],
    reduced_dims: usize,
    /// Of each load its shape, its strides and its buffer, numbered by first use: which loads share one decides what may be reused.
    loads: Vec<(usize, &'a [usize], &'a [usize])>,
    body: Vec<(DType, OpKey<'a>)>,
    stores: &'a [Store],
}

/// An [`InstOp`] with constants by their bits.
#[derive(PartialEq, Eq, Hash)]
enum OpKey<'a> {
    Load(usize),
    Const(u64),
    Int(i64),
    Prim(&'static str, &'a [usize]),
    Reduce(Combine, usize),
}

impl<'a> MapKey<'a> {
    fn new(map: &'a Map) -> MapKey<'a> {
        let mut buffers: Vec<BufferId> = Vec::new();
        let mut number = |buffer: BufferId| match buffers.iter().position(|b| *b == buffer) {
            Some(known) => known,
            None => {
                buffers.push(buffer);
                buffers.len() - 1
            }
        };
        let loads = map.loads.iter();
        let loads = loads.map(|v| (number(v.buffer), &v.shape[..], &v.strides[..]));
        let body = map.body.iter().map(|inst| {
            let op = match &inst.op {
                InstOp::Load(load) => OpKey::Load(*load),
                InstOp::Const(value) => OpKey::Const(value.to_bits()),
                InstOp::Int(value) => OpKey::Int(*value),
                InstOp::Prim(prim, args) => OpKey::Prim(prim.name, args),
                InstOp::Reduce(combine, register) => OpKey::Reduce(*combine, *register),
            };
            (inst.dtype, op)
        });
        MapKey {
            shape: &map.shape,
            reduced_dims: map.reduced_dims,
            loads: loads.collect(),
            body: body.collect(),
            stores: &map.stores,
        }
    }
}

/// The loops to compile, deduplicated: equal loops share one function.
#[derive(Default)]
struct Maps<'a> {
    unique: Vec<&'a Map>,
    by_key: HashMap<MapKey<'a>, usize>,
}

impl<'a> Maps<'a> {
    /// The index of a loop among the unique ones.
    fn entry(&mut self, map: &'a Map) -> usize {
        let next = self.unique.len();
        let entry = *self.by_key.entry(MapKey::new(map)).or_insert(next);
        if entry == next {
            self.unique.push(map);
        }
        entry
    }
}

impl CompiledProgram {
    /// Compiles a planned program, whose graph the passes should have been run on.
    pub fn compile(
        program: Program,
        options: &Options,
    ) -> Result<Arc<CompiledProgram>, CompileError> {
        let cpu = Cpu::host();
        let (machine, cpu) = match options.machine {
            Some(machine) => (machine, cpu.limited(machine)),
            None => (Machine::host(), cpu),
        };
        CompiledProgram::new(program, machine, cpu).map(Arc::new)
    }

    pub(super) fn new(
        program: Program,
        machine: Machine,
        cpu: Cpu,
    ) -> Result<CompiledProgram, CompileError> {
        let mut maps = Maps::default();
        let mut steps = Vec::new();
        let mut scans = 0;
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
                        epilogue,
                    })
                }
                KernelKind::Scan { body, carries, .. } => {
                    let scan = Scan::new(body.as_ref().clone(), *carries, machine, cpu)?;
                    scans += 1;
                    Step::Scan {
                        scan: Box::new(scan),
                        number: scans - 1,
                    }
                }
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
        let input = |buffer: &Buffer| match &buffer.origin {
            Origin::Input(name) => Some((name.clone(), buffer.ty.clone())),
            Origin::Const(_) | Origin::State(_) | Origin::Temp => None,
        };
        let inputs = program.kernels.buffers.iter().filter_map(input).collect();
        let all = 0..steps.len();
        let waves = all.map(|first| Wave::of(&program, &steps, first)).collect();
        Ok(CompiledProgram {
            program,
            code,
            cpu,
            steps,
            waves,
            constants,
            inputs,
        })
    }

    /// The name and type of each input.
    pub fn inputs(&self) -> &[(String, Type)] {
        &self.inputs
    }

    /// The state variables that it reads or writes.
    pub fn state(&self) -> &[State] {
        &self.program.kernels.state
    }

    /// The program: kernels and buffer allocations.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The compile time of each kernel, in order; a routine takes none, a scan that of its body.
    pub fn compile_times(&self) -> Vec<Duration> {
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
            Step::Scan { scan, .. } => scan.compile_time(),
        };
        self.steps.iter().map(time).collect()
    }

    /// The bytes of the arenas of one runner: its own and those of the bodies of scans, with their carried values.
    pub fn bytes(&self) -> usize {
        self.program.arena + self.scans().map(Scan::bytes).sum::<usize>()
    }

    /// The scans, in order.
    pub(super) fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.steps.iter().filter_map(|step| match step {
            Step::Scan { scan, .. } => Some(&**scan),
            Step::Map { .. } | Step::Call(_) => None,
        })
    }
}
