//! The graph IR: what one step computes, as primitive operations on tensors of static shape, in static single assignment (SSA) form.
//!
//! A graph is a pure function: from inputs and the state before the step to results and the state after it. Reads see the
//! state before the step; writes take effect together when the step is done.

mod attrs;
pub(crate) mod identity;
mod prim;
mod types;
mod verify;

pub use attrs::{Attr, AttrKind, Attrs};
pub use prim::{Eval, Gradient, Prim, PrimCall, Vjp};
pub use types::Type;
pub use verify::{VerifyError, verify};

use crate::span::Span;
use crate::tensor::Tensor;

/// The id of a value of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Its index among the values of its graph.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The id of a state variable of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub u32);

impl StateId {
    /// Its index among the state of its graph.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one step computes.
///
/// Graphs are built with a [`Builder`](crate::build::Builder), by lowering a spec, or parsed from their textual form.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// A label, for people.
    pub name: String,
    /// The variables that outlive a step: parameters, slots, averages, the global step.
    pub state: Vec<State>,
    /// The type of every value, by [`ValueId`].
    pub types: Vec<Type>,
    /// The nodes, in topological order.
    pub nodes: Vec<Node>,
    /// The new values of state, at most one each.
    pub writes: Vec<Write>,
    /// The values that can be fetched, by name.
    pub results: Vec<(String, ValueId)>,
}

/// A state variable.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The name, as checkpoints have it.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// A node of a graph: one operation.
#[derive(Debug, Clone)]
pub struct Node {
    /// The operation.
    pub kind: NodeKind,
    /// The values that it uses.
    pub operands: Vec<ValueId>,
    /// The values that it defines.
    pub results: Vec<ValueId>,
    /// The source expression it comes from.
    pub span: Span,
}

/// The operation of a node.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A value that is fed.
    Input(String),
    /// A constant.
    Const(Tensor),
    /// State before the step.
    Read(StateId),
    /// A primitive operation.
    Prim(&'static Prim, Attrs),
    /// A scan over leading dimensions.
    Scan(Box<Scan>),
}

/// A scan (`tf.scan`): a loop over the leading dimension of tensors.
///
/// The operands of its node are the captures, then the initial carried values, then the tensors that are scanned.
/// The results are the carried values of the last iteration, then what the iterations yielded, stacked.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The trip count.
    pub length: usize,
    /// Whether the iterations go from the last element to the first.
    pub reverse: bool,
    /// How many operands are loop-invariant.
    pub captures: usize,
    /// How many values are loop-carried.
    pub carries: usize,
    /// The loop body. Its inputs, in order, are the captures, the carried values, one element of each tensor that is scanned,
    /// and the position of the element (an i64). Its results are the carried values for the next iteration, then what is yielded.
    pub body: Graph,
}

impl Scan {
    /// The types of the results of the loop.
    pub fn result_types(&self) -> Vec<Type> {
        let types = self
            .body
            .results
            .iter()
            .map(|(_, v)| self.body.ty(*v).clone());
        let stacked = |(i, mut ty): (usize, Type)| {
            if i >= self.carries {
                ty.shape.insert(0, self.length);
            }
            ty
        };
        types.enumerate().map(stacked).collect()
    }
}

/// A write of state.
#[derive(Debug, Clone)]
pub struct Write {
    /// The state.
    pub state: StateId,
    /// Its new value.
    pub value: ValueId,
    /// The source expression it comes from.
    pub span: Span,
}

impl Graph {
    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.types[value.index()]
    }

    /// The inputs, in order: name, value.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, ValueId)> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Input(name) => Some((name.as_str(), node.results[0])),
            NodeKind::Const(_) | NodeKind::Read(_) | NodeKind::Prim(..) | NodeKind::Scan(_) => None,
        })
    }

    /// The result of that name.
    pub fn result(&self, name: &str) -> Option<ValueId> {
        self.results
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| *v)
    }

    /// The state of that name.
    pub fn find_state(&self, name: &str) -> Option<StateId> {
        let index = self.state.iter().position(|s| s.name == name)?;
        Some(StateId(index as u32))
    }

    /// How many nodes there are, those of loop bodies included.
    pub fn size(&self) -> usize {
        let inner = |node: &Node| match &node.kind {
            NodeKind::Scan(scan) => 1 + scan.body.size(),
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) | NodeKind::Prim(..) => 1,
        };
        self.nodes.iter().map(inner).sum()
    }

    /// Renumbers the values in the order of their definition, without gaps.
    pub fn renumbered(mut self) -> Graph {
        let mut numbers: Vec<Option<ValueId>> = vec![None; self.types.len()];
        let mut types = Vec::with_capacity(self.types.len());
        let number = |numbers: &[Option<ValueId>], v: &mut ValueId| {
            *v = numbers[v.index()].expect("a value is defined before it is used");
        };
        for node in &mut self.nodes {
            node.operands.iter_mut().for_each(|v| number(&numbers, v));
            for result in &mut node.results {
                let new = ValueId(types.len() as u32);
                types.push(self.types[result.index()].clone());
                numbers[result.index()] = Some(new);
                *result = new;
            }
        }
        self.writes
            .iter_mut()
            .for_each(|w| number(&numbers, &mut w.value));
        self.results
            .iter_mut()
            .for_each(|(_, v)| number(&numbers, v));
        self.types = types;
        self
    }
}
