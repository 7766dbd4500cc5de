//! Kernels: what a program does, one pass over memory after another.
//!
//! A kernel reads buffers through views and writes whole buffers. Reshapes, transposes, broadcasts and slices are no kernels but
//! views, wherever the reader can walk them.

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

/// A buffer of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

impl BufferId {
    /// Its place among the buffers of its program.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A buffer: contiguous elements of one type.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// The type.
    pub ty: Type,
    /// Where its elements come from.
    pub origin: Origin,
}

/// Where the elements of a buffer come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// From outside, by name.
    Input(String),
    /// They are known.
    Const(Tensor),
    /// State before the step.
    State(StateId),
    /// A kernel makes them.
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
    /// What is done.
    pub kernels: Vec<Kernel>,
    /// The new values of state.
    pub writes: Vec<(StateId, View)>,
    /// What can be fetched.
    pub results: Vec<(String, View)>,
}

/// One pass over memory.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// What it does.
    pub kind: KernelKind,
    /// The buffers that it makes.
    pub outputs: Vec<BufferId>,
    /// Where it comes from: the expression of its last node.
    pub span: Span,
    /// Why nothing more was fused into it.
    pub ended: &'static str,
}

impl Kernel {
    /// All that it reads.
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

/// What a kernel does.
#[derive(Debug, Clone)]
pub enum KernelKind {
    /// The same to every element.
    Map(Map),
    /// A routine on contiguous operands.
    Call {
        /// The primitive.
        prim: &'static Prim,
        /// Its attributes.
        attrs: Attrs,
        /// Its operands.
        operands: Vec<View>,
        /// A loop over what a product makes, which makes the buffers after the first: each row is done while it is at hand.
        epilogue: Option<Box<Map>>,
    },
    /// A loop.
    Scan {
        /// How many rounds there are.
        length: usize,
        /// Whether the rounds go from the last element to the first.
        reverse: bool,
        /// How many operands are the same in each round.
        captures: usize,
        /// How many values go from one round to the next.
        carries: usize,
        /// Captures, first carried values, tensors that are walked.
        operands: Vec<View>,
        /// One round.
        body: Box<Kernels>,
    },
}

/// A fused loop. Each element of the made buffers is computed from those at the same place, and from what whole rows combine to.
#[derive(Debug, Clone)]
pub struct Map {
    /// The shape that is walked.
    pub shape: Vec<usize>,
    /// How many of the last dimensions are a row, where rows are combined.
    pub folded: usize,
    /// What is read, each in that shape.
    pub loads: Vec<View>,
    /// What is computed; instruction i makes register i.
    pub body: Vec<Inst>,
    /// What is stored, one for each of the buffers that are made.
    pub stores: Vec<Store>,
}

/// A register that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Which.
    pub register: usize,
    /// Whether one number of each row is stored, not each element.
    pub row: bool,
}

/// How elements are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// What nothing combines to.
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
    /// What it does.
    pub op: InstOp,
    /// The element type of its register.
    pub dtype: crate::types::DType,
}

/// What an instruction does.
#[derive(Debug, Clone)]
pub enum InstOp {
    /// The element of a load.
    Load(usize),
    /// A number.
    Const(f64),
    /// A whole number.
    Int(i64),
    /// A primitive on registers.
    Prim(&'static Prim, Vec<usize>),
    /// What a register combines to along a row.
    Reduce(Combine, usize),
}
