//! The graph: what one step computes, as primitive operations on tensors of known shape (SSA).
//!
//! A graph is a pure function: from inputs and the state before the step to results and the state after it. Reads see the
//! state before the step; writes take effect together when the step is done.

mod attrs;
mod prim;
mod types;
mod verify;

pub use attrs::{Attr, AttrKind, Attrs};
pub use prim::{Eval, Gradient, Prim, PrimCall, Vjp};
pub use types::Type;
pub use verify::{Broken, verify};

use crate::span::Span;
use crate::tensor::Tensor;

/// A value of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Its place among the values of its graph.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A piece of state of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub u32);

impl StateId {
    /// Its place among the state of its graph.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one step computes.
///
/// Graphs are made with a [`Builder`](crate::build::Builder), by lowering a spec, or from their text.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// What it is, for people.
    pub name: String,
    /// What outlives a step: parameters, slots, averages, the global step.
    pub state: Vec<State>,
    /// The type of every value, by [`ValueId`].
    pub types: Vec<Type>,
    /// What is computed, in order.
    pub nodes: Vec<Node>,
    /// The new values of state, at most one each.
    pub writes: Vec<Write>,
    /// What can be fetched, by name.
    pub results: Vec<(String, ValueId)>,
}

/// A piece of state.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The name, as checkpoints have it.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// One step of a graph.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it does.
    pub kind: NodeKind,
    /// On what.
    pub operands: Vec<ValueId>,
    /// The values it makes.
    pub results: Vec<ValueId>,
    /// Where it comes from.
    pub span: Span,
}

/// What a node does.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A value from outside.
    Input(String),
    /// A value that is known.
    Const(Tensor),
    /// State before the step.
    Read(StateId),
    /// A primitive operation.
    Prim(&'static Prim, Attrs),
    /// A loop over leading dimensions.
    Scan(Box<Scan>),
}

/// A loop over the leading dimension of tensors.
///
/// The operands of its node are the captures, then the carried values of the first round, then the tensors that are
/// walked. The results are the carried values of the last round, then what the rounds yielded, stacked.
#[derive(Debug, Clone)]
pub struct Scan {
    /// How many rounds there are.
    pub length: usize,
    /// Whether the rounds go from the last element to the first.
    pub reverse: bool,
    /// How many operands are the same in each round.
    pub captures: usize,
    /// How many values go from one round to the next.
    pub carries: usize,
    /// One round. Its inputs, in order, are the captures, the carried values, one element of each tensor that is walked,
    /// and the position of the element (an i64). Its results are the carried values for the next round, then what is yielded.
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
        let whole = |(i, mut ty): (usize, Type)| {
            if i >= self.carries {
                ty.shape.insert(0, self.length);
            }
            ty
        };
        types.enumerate().map(whole).collect()
    }
}

/// A write of state.
#[derive(Debug, Clone)]
pub struct Write {
    /// Which.
    pub state: StateId,
    /// Its new value.
    pub value: ValueId,
    /// Where it comes from.
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
        let place = self.state.iter().position(|s| s.name == name)?;
        Some(StateId(place as u32))
    }

    /// How many nodes there are, those of loops included.
    pub fn size(&self) -> usize {
        let inner = |node: &Node| match &node.kind {
            NodeKind::Scan(scan) => 1 + scan.body.size(),
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) | NodeKind::Prim(..) => 1,
        };
        self.nodes.iter().map(inner).sum()
    }

    /// The same graph with its values numbered in the order in which they are made, without gaps.
    pub fn renumbered(mut self) -> Graph {
        let mut numbers: Vec<Option<ValueId>> = vec![None; self.types.len()];
        let mut types = Vec::with_capacity(self.types.len());
        let number = |numbers: &[Option<ValueId>], v: &mut ValueId| {
            *v = numbers[v.index()].expect("a value is made before it is used");
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
