//! Straight-line code over 256-bit vectors, before registers are chosen.

use std::collections::HashMap;

use crate::math::{Emit, Lane};

/// A value, named after the operation that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct V(pub(super) u32);

impl V {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Operations of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Two {
    Add,
    Sub,
    Mul,
    Div,
    /// a < b ? a : b.
    Min,
    /// a > b ? a : b.
    Max,
    And,
    /// Not a, and b.
    AndNot,
    Or,
    Xor,
    IntAdd,
    IntSub,
    IntMul,
    IntEqual,
    IntGreater,
}

/// Operations of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum One {
    Sqrt,
    /// To a whole number: 0 the nearest, 1 below, 2 above, 3 towards zero.
    Round(u8),
    FromInt,
    /// Towards zero; the least integer where there is none.
    ToInt,
    /// The lanes, the halves of the vector swapped.
    SwapHalves,
    /// The lanes, the halves of each half swapped.
    SwapPairs,
    /// The lanes, neighbours swapped.
    SwapLanes,
    /// The first lane in all lanes.
    Spread,
    /// Truths as bytes in the first lanes.
    Bytes,
}

/// What is done with a product and a third operand, rounded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fused {
    /// a · b + c.
    Plus,
    /// a · b - c.
    Less,
    /// c - a · b.
    From,
}

/// Which way integers are shifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shift {
    Left,
    Right,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// The same bits in all lanes.
    Const(u64),
    /// Something that is the same in a whole row.
    Fixed(usize),
    /// Which lanes there are, at the end of a row.
    Mask,
    /// What a row has combined to so far.
    Sum(usize),
    /// The lanes at the place of the loop.
    Load(usize),
    /// The first element of a row, in all lanes.
    LoadRow(usize),
    /// Lanes that lie so far apart.
    Gather(usize, usize),
    /// Truths, one byte each.
    LoadBytes(usize),
    /// A row that an earlier walk has kept.
    Kept(usize),
    Two(Two, V, V),
    One(One, V),
    Fma(Fused, V, V, V),
    /// How, as the instruction counts: 0 equal, 3 one is NaN, 0x11 less, 0x12 less or equal.
    Compare(u8, V, V),
    /// The second where the first is true, else the third.
    Select(V, V, V),
    Shift(Shift, V, u8),
    /// Stores lanes.
    Store(usize, V),
    /// Stores bytes.
    StoreBytes(usize, V),
    /// Stores the first lane at the place of the row.
    StoreRow(usize, V),
    /// Keeps a row for a later walk.
    Keep(usize, V),
    SetSum(usize, V),
    SetFixed(usize, V),
}

impl Op {
    /// What the operation reads.
    pub(super) fn operands(&self) -> ([V; 3], usize) {
        let none = V(0);
        match *self {
            Op::Const(_)
            | Op::Fixed(_)
            | Op::Mask
            | Op::Sum(_)
            | Op::Load(_)
            | Op::LoadRow(_)
            | Op::Gather(..)
            | Op::LoadBytes(_)
            | Op::Kept(_) => ([none; 3], 0),
            Op::Two(_, a, b) | Op::Compare(_, a, b) => ([a, b, none], 2),
            Op::One(_, a)
            | Op::Shift(_, a, _)
            | Op::Store(_, a)
            | Op::StoreBytes(_, a)
            | Op::StoreRow(_, a)
            | Op::Keep(_, a)
            | Op::SetSum(_, a)
            | Op::SetFixed(_, a) => ([a, none, none], 1),
            Op::Fma(_, a, b, c) | Op::Select(a, b, c) => ([a, b, c], 3),
        }
    }

    /// Whether it makes no value.
    pub(super) fn is_effect(&self) -> bool {
        matches!(
            self,
            Op::Store(..)
                | Op::StoreBytes(..)
                | Op::StoreRow(..)
                | Op::Keep(..)
                | Op::SetSum(..)
                | Op::SetFixed(..)
        )
    }

    /// Whether its value can be read from memory whenever it is wanted.
    pub(super) fn is_at_hand(&self) -> bool {
        matches!(self, Op::Const(_) | Op::Fixed(_) | Op::Mask)
    }
}

/// Operations in order; the same operation is written once.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) lane: Lane,
    pub(super) ops: Vec<Op>,
    known: HashMap<Op, V>,
}

impl Block {
    pub(super) fn new(lane: Lane) -> Block {
        Block {
            lane,
            ops: Vec::new(),
            known: HashMap::new(),
        }
    }

    pub(super) fn push(&mut self, op: Op) -> V {
        if let Some(v) = self.known.get(&op) {
            return *v;
        }
        self.ops.push(op);
        let v = V(self.ops.len() as u32 - 1);
        if !op.is_effect() {
            self.known.insert(op, v);
        }
        v
    }

    fn op(&self, v: V) -> Op {
        self.ops[v.index()]
    }

    /// The bits of a lane of a number.
    pub(super) fn bits_const(&mut self, bits: i64) -> V {
        let bits = match self.lane {
            Lane::F32 => u64::from(bits as u32),
            Lane::F64 => bits.cast_unsigned(),
        };
        self.push(Op::Const(bits))
    }

    pub(super) fn two(&mut self, two: Two, a: V, b: V) -> V {
        self.push(Op::Two(two, a, b))
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
        self.two(Two::Add, a, b)
    }
    fn sub(&mut self, a: V, b: V) -> V {
        self.two(Two::Sub, a, b)
    }
    fn mul(&mut self, a: V, b: V) -> V {
        self.two(Two::Mul, a, b)
    }
    fn div(&mut self, a: V, b: V) -> V {
        self.two(Two::Div, a, b)
    }
    fn fma(&mut self, a: V, b: V, c: V) -> V {
        self.push(Op::Fma(Fused::Plus, a, b, c))
    }
    fn fnma(&mut self, a: V, b: V, c: V) -> V {
        self.push(Op::Fma(Fused::From, a, b, c))
    }
    fn fms(&mut self, a: V, b: V, c: V) -> V {
        self.push(Op::Fma(Fused::Less, a, b, c))
    }
    fn neg(&mut self, a: V) -> V {
        let sign = self.float(-0.0);
        self.two(Two::Xor, a, sign)
    }
    fn abs(&mut self, a: V) -> V {
        let rest = self.bits_const(i64::MAX >> (64 - self.lane.width()));
        self.two(Two::And, a, rest)
    }
    fn sqrt(&mut self, a: V) -> V {
        self.push(Op::One(One::Sqrt, a))
    }
    fn floor(&mut self, a: V) -> V {
        self.push(Op::One(One::Round(1), a))
    }
    fn ceil(&mut self, a: V) -> V {
        self.push(Op::One(One::Round(2), a))
    }
    fn nearest(&mut self, a: V) -> V {
        self.push(Op::One(One::Round(0), a))
    }
    fn trunc(&mut self, a: V) -> V {
        self.push(Op::One(One::Round(3), a))
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
            // One instruction, of the same meaning for NaN and zeros.
            if (a, b) == (x, y) {
                return self.two(Two::Min, x, y);
            }
            if (a, b) == (y, x) {
                return self.two(Two::Max, y, x);
            }
        }
        if self.is_zero(b) {
            return self.two(Two::And, mask, a);
        }
        if self.is_zero(a) {
            return self.two(Two::AndNot, mask, b);
        }
        self.push(Op::Select(mask, a, b))
    }
    fn both(&mut self, a: V, b: V) -> V {
        self.two(Two::And, a, b)
    }
    fn either(&mut self, a: V, b: V) -> V {
        self.two(Two::Or, a, b)
    }
    fn negate(&mut self, a: V) -> V {
        let all = self.bits_const(-1);
        self.two(Two::Xor, a, all)
    }
    fn bits(&mut self, a: V) -> V {
        a
    }
    fn of_bits(&mut self, a: V) -> V {
        a
    }
    fn iadd(&mut self, a: V, b: V) -> V {
        self.two(Two::IntAdd, a, b)
    }
    fn isub(&mut self, a: V, b: V) -> V {
        self.two(Two::IntSub, a, b)
    }
    fn iand(&mut self, a: V, b: V) -> V {
        self.two(Two::And, a, b)
    }
    fn ior(&mut self, a: V, b: V) -> V {
        self.two(Two::Or, a, b)
    }
    fn ixor(&mut self, a: V, b: V) -> V {
        self.two(Two::Xor, a, b)
    }
    fn inot(&mut self, a: V) -> V {
        self.negate(a)
    }
    fn shl(&mut self, a: V, by: u32) -> V {
        self.push(Op::Shift(Shift::Left, a, by as u8))
    }
    fn shr(&mut self, a: V, by: u32) -> V {
        self.push(Op::Shift(Shift::Right, a, by as u8))
    }
}
