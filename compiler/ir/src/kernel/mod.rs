//! Kernels: fused loops, library calls with epilogues, and scans, each one pass over memory.
//!
//! A kernel reads buffers through strided views and writes contiguous buffers. Reshapes, transposes, broadcasts and slices are no
//! kernels but views, wherever the consumer can read strides.

mod groups;
mod phases;
mod print;
mod view;

pub use groups::Groups;
pub use phases::Phases;
pub use view::View;

use crate::graph::{Attrs, Prim, StateId, Type};
use crate::span::Span;
use crate::tensor::Tensor;

/// The id of a buffer of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

impl BufferId {
    /// Its index among the buffers of its program.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A buffer: contiguous elements of one type.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// The type.
    pub ty: Type,
    /// The origin of its elements.
    pub origin: Origin,
}

/// The origin of a buffer's elements.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// Fed, by name.
    Input(String),
    /// A constant.
    Const(Tensor),
    /// State before the step.
    State(StateId),
    /// A temporary: a kernel computes them.
    Temp,
}

/// Kernels in the order in which they run.
#[derive(Debug, Clone, Default)]
pub struct Kernels {
    /// The name of the graph.
    pub name: String,
    /// The state of the graph.
    pub state: Vec<crate::graph::State>,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The new values of state.
    pub writes: Vec<(StateId, View)>,
    /// The values that can be fetched.
    pub results: Vec<(String, View)>,
}

/// One pass over memory.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Loop, call or scan.
    pub kind: KernelKind,
    /// The buffers that it writes.
    pub outputs: Vec<BufferId>,
    /// Where it comes from: the expression of its last node.
    pub span: Span,
    /// Why its group was closed: what kept more from being fused into it.
    pub fusion_barrier: &'static str,
}

impl Kernel {
    /// The views that it reads.
    pub fn inputs(&self) -> impl Iterator<Item = &View> {
        let (operands, epilogue): (&[View], &[View]) = match &self.kind {
            KernelKind::Map(map) => (&map.loads, &[]),
            KernelKind::Call {
                operands, epilogue, ..
            } => (
                operands,
                epilogue.as_ref().map_or(&[], |map| &map.loads[..]),
            ),
            KernelKind::Scan { operands, .. } => (operands, &[]),
        };
        operands.iter().chain(epilogue)
    }
}

/// The kind of a kernel.
#[derive(Debug, Clone)]
pub enum KernelKind {
    /// A fused loop.
    Map(Map),
    /// A library call on contiguous operands.
    Call {
        /// The primitive.
        prim: &'static Prim,
        /// Its attributes.
        attrs: Attrs,
        /// Its operands.
        operands: Vec<View>,
        /// The epilogue of a matrix product: a loop over its rows, run while each row is in cache, which writes the outputs after the first.
        epilogue: Option<Box<Map>>,
    },
    /// A scan.
    Scan {
        /// The trip count.
        length: usize,
        /// Whether the iterations go from the last element to the first.
        reverse: bool,
        /// How many operands are loop-invariant.
        captures: usize,
        /// How many values are loop-carried.
        carries: usize,
        /// Captures, initial carried values, tensors that are scanned.
        operands: Vec<View>,
        /// The loop body.
        body: Box<Kernels>,
    },
}

/// A fused loop. Each element of the outputs is computed from the elements at the same position, and from reductions of their row.
#[derive(Debug, Clone)]
pub struct Map {
    /// The iteration space.
    pub shape: Vec<usize>,
    /// How many of the last dimensions are reduced: they are a row.
    pub reduced_dims: usize,
    /// The views that are loaded, each in that shape.
    pub loads: Vec<View>,
    /// The instructions, in SSA form: instruction i defines register i.
    pub body: Vec<Inst>,
    /// The stores, one for each output.
    pub stores: Vec<Store>,
}

/// A register that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Store {
    /// The register.
    pub register: usize,
    /// Whether it is row-invariant: one number of each row is stored, not each element.
    pub row: bool,
}

/// The combiner of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is named after what it gives
pub enum Combine {
    Sum,
    Max,
    Min,
    Prod,
}

impl Combine {
    /// The name of the primitive.
    pub fn name(self) -> &'static str {
        match self {
            Combine::Sum => "reduce_sum",
            Combine::Max => "reduce_max",
            Combine::Min => "reduce_min",
            Combine::Prod => "reduce_prod",
        }
    }

    /// The identity element.
    pub fn identity(self) -> f64 {
        match self {
            Combine::Sum => 0.0,
            Combine::Max => f64::NEG_INFINITY,
            Combine::Min => f64::INFINITY,
            Combine::Prod => 1.0,
        }
    }
}

/// An instruction of a fused loop.
#[derive(Debug, Clone)]
pub struct Inst {
    /// The operation.
    pub op: InstOp,
    /// The element type of its register.
    pub dtype: crate::types::DType,
}

/// The operation of an instruction.
#[derive(Debug, Clone)]
pub enum InstOp {
    /// The element of a load.
    Load(usize),
    /// A float constant.
    Const(f64),
    /// An integer or bool constant.
    Int(i64),
    /// A primitive on registers.
    Prim(&'static Prim, Vec<usize>),
    /// The reduction of a register along a row.
    Reduce(Combine, usize),
}
