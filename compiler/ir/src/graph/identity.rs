//! Identity of constants and operations by value: keys that are equal where two compute the same bits.
//!
//! Spans do not count, floats are compared by their bits (NaN equals itself, -0 is not 0), and strings byte by byte.

use std::collections::HashMap;

use crate::graph::{Attrs, Graph, NodeKind, StateId, Type, ValueId};
use crate::tensor::{Data, Tensor};

/// The identity of a tensor: its type and its bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TensorKey {
    ty: Type,
    elements: ElementBits,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ElementBits {
    Numbers(Vec<u64>),
    Strings(Vec<Vec<u8>>),
}

impl TensorKey {
    pub(crate) fn of(tensor: &Tensor) -> TensorKey {
        TensorKey {
            ty: tensor.ty(),
            elements: match tensor.data() {
                Data::F16(v) => bits(v, |x| x.to_bits().into()),
                Data::Bf16(v) => bits(v, |x| x.to_bits().into()),
                Data::F32(v) => bits(v, |x| x.to_bits().into()),
                Data::F64(v) => bits(v, |x| x.to_bits()),
                Data::I8(v) => bits(v, |n| *n as u64),
                Data::I16(v) => bits(v, |n| *n as u64),
                Data::I32(v) => bits(v, |n| *n as u64),
                Data::I64(v) => bits(v, |n| *n as u64),
                Data::U8(v) => bits(v, |n| (*n).into()),
                Data::Bool(v) => bits(v, |b| (*b).into()),
                Data::String(v) => ElementBits::Strings(v.clone()),
            },
        }
    }
}

fn bits<T>(values: &[T], of: impl Fn(&T) -> u64) -> ElementBits {
    ElementBits::Numbers(values.iter().map(of).collect())
}

/// The identity of an operation, apart from its operands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum OpKey {
    Input(String),
    Const(TensorKey),
    Read(StateId),
    Prim(&'static str, Attrs),
    Scan {
        length: usize,
        reverse: bool,
        captures: usize,
        carries: usize,
        body: BodyKey,
    },
}

/// The identity of a loop body: its nodes, with values numbered in the order of their definition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BodyKey {
    /// Each operation, the values that it uses, and the types of its results.
    nodes: Vec<(OpKey, Vec<usize>, Vec<Type>)>,
    writes: Vec<(StateId, usize)>,
    results: Vec<usize>,
}

impl OpKey {
    pub(crate) fn of(kind: &NodeKind) -> OpKey {
        match kind {
            NodeKind::Input(name) => OpKey::Input(name.clone()),
            NodeKind::Const(tensor) => OpKey::Const(TensorKey::of(tensor)),
            NodeKind::Read(state) => OpKey::Read(*state),
            NodeKind::Prim(prim, attrs) => OpKey::Prim(prim.name, attrs.clone()),
            NodeKind::Scan(scan) => OpKey::Scan {
                length: scan.length,
                reverse: scan.reverse,
                captures: scan.captures,
                carries: scan.carries,
                body: BodyKey::of(&scan.body),
            },
        }
    }
}

impl BodyKey {
    fn of(body: &Graph) -> BodyKey {
        let mut numbers: HashMap<ValueId, usize> = HashMap::new();
        let mut nodes = Vec::new();
        for node in &body.nodes {
            let operands = node.operands.iter().map(|v| numbers[v]).collect();
            let types = node.results.iter().map(|v| body.ty(*v).clone()).collect();
            for result in &node.results {
                numbers.insert(*result, numbers.len());
            }
            nodes.push((OpKey::of(&node.kind), operands, types));
        }
        BodyKey {
            nodes,
            writes: (body.writes.iter())
                .map(|write| (write.state, numbers[&write.value]))
                .collect(),
            results: body.results.iter().map(|(_, v)| numbers[v]).collect(),
        }
    }
}
