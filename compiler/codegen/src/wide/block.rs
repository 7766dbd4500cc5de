//! Basic blocks over 256-bit vectors with virtual registers: the input of the register allocator.
//!
//! Operations are in SSA form and value-numbered as they are pushed (local CSE).

use std::collections::HashMap;

use crate::math::{Emit, Lane};

/// A virtual register (SSA value): the index of the operation that defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct V(pub(super) u32);

impl V {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Binary operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    /// a < b ? a : b.
    Min,
    /// a > b ? a : b.
    Max,
    And,
    /// !a & b.
    AndNot,
    Or,
    Xor,
    IntAdd,
    IntSub,
    IntMul,
    IntEqual,
    IntGreater,
}

/// Unary operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum UnaryOp {
    Sqrt,
    /// To an integer, by the rounding mode of the instruction: 0 nearest, 1 down, 2 up, 3 towards zero.
    Round(u8),
    FromInt,
    /// Truncation towards zero; `i32::MIN` out of range and for NaN.
    ToInt,
    /// A lane permutation that swaps the 128-bit lanes.
    Swap128,
    /// A lane permutation that swaps the two 64-bit words of each 128-bit lane.
    Swap64,
    /// A lane permutation that swaps neighbours.
    SwapLanes,
    /// Broadcasts the first lane.
    Broadcast,
    /// Packs mask lanes to bool bytes in the lowest bytes.
    PackBools,
}

/// Fused multiply-add variants, rounded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FmaOp {
    /// a · b + c.
    MulAdd,
    /// a · b - c.
    MulSub,
    /// c - a · b.
    NegMulAdd,
}

/// Logical shifts of integer lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shift {
    Left,
    Right,
}

/// An operation of a basic block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// A constant in all lanes.
    Const(u64),
    /// A row-invariant value, by its stack slot.
    RowInvariant(usize),
    /// The mask of the valid lanes of a masked tail.
    Mask,
    /// The accumulator of a reduction.
    Accumulator(usize),
    /// A contiguous load at the loop index.
    Load(usize),
    /// A broadcast load of the first element of a row.
    LoadBroadcast(usize),
    /// A gather: lanes at a stride, given in elements.
    Gather(usize, usize),
    /// A load of bools, one byte each, zero-extended to lanes.
    LoadBools(usize),
    /// A load from the row buffer that an earlier pass has filled.
    LoadRowBuffer(usize),
    Binary(BinaryOp, V, V),
    Unary(UnaryOp, V),
    Fma(FmaOp, V, V, V),
    /// A comparison by the predicate of `vcmpps`: 0 equal, 3 unordered, 0x11 less, 0x12 less or equal.
    Compare(u8, V, V),
    /// Select: the second operand where the mask, the first operand, is set, else the third.
    Select(V, V, V),
    Shift(Shift, V, u8),
    /// A contiguous store at the loop index.
    Store(usize, V),
    /// A store of packed bool bytes.
    StoreBools(usize, V),
    /// A store of the first lane: one element for each row.
    StoreScalar(usize, V),
    /// A store to the row buffer, for a later pass.
    StoreRowBuffer(usize, V),
    SetAccumulator(usize, V),
    SetRowInvariant(usize, V),
}

impl Op {
    /// The operands, and how many there are.
    pub(super) fn operands(&self) -> ([V; 3], usize) {
        let none = V(0);
        match *self {
            Op::Const(_)
            | Op::RowInvariant(_)
            | Op::Mask
            | Op::Accumulator(_)
            | Op::Load(_)
            | Op::LoadBroadcast(_)
            | Op::Gather(..)
            | Op::LoadBools(_)
            | Op::LoadRowBuffer(_) => ([none; 3], 0),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => ([a, b, none], 2),
            Op::Unary(_, a)
            | Op::Shift(_, a, _)
            | Op::Store(_, a)
            | Op::StoreBools(_, a)
            | Op::StoreScalar(_, a)
            | Op::StoreRowBuffer(_, a)
            | Op::SetAccumulator(_, a)
            | Op::SetRowInvariant(_, a) => ([a, none, none], 1),
            Op::Fma(_, a, b, c) | Op::Select(a, b, c) => ([a, b, c], 3),
        }
    }

    /// Whether it has a side effect and defines no value.
    pub(super) fn is_effect(&self) -> bool {
        matches!(
            self,
            Op::Store(..)
                | Op::StoreBools(..)
                | Op::StoreScalar(..)
                | Op::StoreRowBuffer(..)
                | Op::SetAccumulator(..)
                | Op::SetRowInvariant(..)
        )
    }

    /// Whether its value can be rematerialized from memory, so that it is never spilled.
    pub(super) fn is_rematerializable(&self) -> bool {
        matches!(self, Op::Const(_) | Op::RowInvariant(_) | Op::Mask)
    }
}

/// A basic block: operations in order, value-numbered so that equal operations are emitted once.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) lane: Lane,
    pub(super) ops: Vec<Op>,
    value_numbers: HashMap<Op, V>,
}

impl Block {
    pub(super) fn new(lane: Lane) -> Block {
        Block {
            lane,
            ops: Vec::new(),
            value_numbers: HashMap::new(),
        }
    }

    pub(super) fn push(&mut self, op: Op) -> V {
        if let Some(v) = self.value_numbers.get(&op) {
            return *v;
        }
        self.ops.push(op);
        let v = V(self.ops.len() as u32 - 1);
        if !op.is_effect() {
            self.value_numbers.insert(op, v);
        }
        v
    }

    fn op(&self, v: V) -> Op {
        self.ops[v.index()]
    }

    /// A constant by its bits, truncated to the width of a lane.
    pub(super) fn bits_const(&mut self, bits: i64) -> V {
        let bits = match self.lane {
            Lane::F32 => u64::from(bits as u32),
            Lane::F64 => bits.cast_unsigned(),
        };
        self.push(Op::Const(bits))
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: V, b: V) -> V {
        self.push(Op::Binary(op, a, b))
    }

    fn is_zero(&self, v: V) -> bool {
        self.op(v) == Op::Const(0)
    }
}

impl Emit for Block {
    type V = V;
    type I = V;
    type M = V;

    fn lane(&self) -> Lane {
        self.lane
    }
    fn has_fma(&self) -> bool {
        true
    }
    fn float(&mut self, value: f64) -> V {
        let bits = self.lane.bits_of(value);
        self.bits_const(bits)
    }
    fn int(&mut self, value: i64) -> V {
        self.bits_const(value)
    }
    fn add(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Add, a, b)
    }
    fn sub(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Sub, a, b)
    }
    fn mul(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Mul, a, b)
    }
    fn div(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Div, a, b)
    }
    fn fma(&mut self, a: V, b: V, c: V) -> V {
        self.push(Op::Fma(FmaOp::MulAdd, a, b, c))
    }
    fn fnma(&mut self, a: V, b: V, c: V) -> V {
        self.push(Op::Fma(FmaOp::NegMulAdd, a, b, c))
    }
    fn fms(&mut self, a: V, b: V, c: V) -> V {
        self.push(Op::Fma(FmaOp::MulSub, a, b, c))
    }
    fn neg(&mut self, a: V) -> V {
        let sign = self.float(-0.0);
        self.binary(BinaryOp::Xor, a, sign)
    }
    fn abs(&mut self, a: V) -> V {
        let rest = self.bits_const(i64::MAX >> (64 - self.lane.width()));
        self.binary(BinaryOp::And, a, rest)
    }
    fn sqrt(&mut self, a: V) -> V {
        self.push(Op::Unary(UnaryOp::Sqrt, a))
    }
    fn floor(&mut self, a: V) -> V {
        self.push(Op::Unary(UnaryOp::Round(1), a))
    }
    fn ceil(&mut self, a: V) -> V {
        self.push(Op::Unary(UnaryOp::Round(2), a))
    }
    fn nearest(&mut self, a: V) -> V {
        self.push(Op::Unary(UnaryOp::Round(0), a))
    }
    fn trunc(&mut self, a: V) -> V {
        self.push(Op::Unary(UnaryOp::Round(3), a))
    }
    fn lt(&mut self, a: V, b: V) -> V {
        self.push(Op::Compare(0x11, a, b))
    }
    fn le(&mut self, a: V, b: V) -> V {
        self.push(Op::Compare(0x12, a, b))
    }
    fn eq(&mut self, a: V, b: V) -> V {
        self.push(Op::Compare(0, a, b))
    }
    fn unordered(&mut self, a: V, b: V) -> V {
        self.push(Op::Compare(3, a, b))
    }
    fn select(&mut self, mask: V, a: V, b: V) -> V {
        if let Op::Compare(0x11, x, y) = self.op(mask) {
            // `vminps` and `vmaxps` treat NaN and signed zeros just as this comparison and select do.
            if (a, b) == (x, y) {
                return self.binary(BinaryOp::Min, x, y);
            }
            if (a, b) == (y, x) {
                return self.binary(BinaryOp::Max, y, x);
            }
        }
        if self.is_zero(b) {
            return self.binary(BinaryOp::And, mask, a);
        }
        if self.is_zero(a) {
            return self.binary(BinaryOp::AndNot, mask, b);
        }
        self.push(Op::Select(mask, a, b))
    }
    fn mask_and(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::And, a, b)
    }
    fn mask_or(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Or, a, b)
    }
    fn mask_not(&mut self, a: V) -> V {
        let all = self.bits_const(-1);
        self.binary(BinaryOp::Xor, a, all)
    }
    fn bits(&mut self, a: V) -> V {
        a
    }
    fn bits_to_float(&mut self, a: V) -> V {
        a
    }
    fn iadd(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::IntAdd, a, b)
    }
    fn isub(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::IntSub, a, b)
    }
    fn iand(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::And, a, b)
    }
    fn ior(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Or, a, b)
    }
    fn ixor(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Xor, a, b)
    }
    fn inot(&mut self, a: V) -> V {
        self.mask_not(a)
    }
    fn shl(&mut self, a: V, by: u32) -> V {
        self.push(Op::Shift(Shift::Left, a, by as u8))
    }
    fn shr(&mut self, a: V, by: u32) -> V {
        self.push(Op::Shift(Shift::Right, a, by as u8))
    }
}
