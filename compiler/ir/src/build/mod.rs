//! The graph builder, and handles to its values with overloaded operators and methods.
//!
//! ```
//! use trainspec_ir::{DType, build::Builder, graph::Type};
//!
//! let b = Builder::new("loss");
//! let x = b.input("x", &Type::new(DType::F32, &[8, 4]));
//! let w = b.read("w", &Type::new(DType::F32, &[4, 1]));
//! let loss = (x.matmul(w) - 1.0).square().mean(&[0, 1]);
//! let gradient = b.gradients(&[loss], &[w]).remove(0).expect("the loss depends on w").dense();
//! b.write("w", w - 0.1 * gradient);
//! b.result("loss", loss);
//! println!("{}", b.finish());
//! ```
//!
//! Handles broadcast as NumPy does. Like the operators of ndarray they panic on a mismatch of shapes or
//! element types; [`Builder::call`] applies any operation of the language with shape inference and returns an error instead.

mod call;
mod counts;
mod operators;
mod random;
mod scan;
mod values;
mod windows;

pub use call::{CallArg, Lower, Lowering};
pub(crate) use scan::body_inputs;
pub use scan::{Iteration, Loop};
pub use windows::{Convolution, Pool};

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::graph::{
    Attr, Attrs, Graph, Node, NodeKind, Prim, PrimCall, State, StateId, Type, ValueId, Write,
};
use crate::ops::prims;
use crate::span::Span;
use crate::tensor::Tensor;
use crate::types::{Count, DType};

/// A graph under construction.
#[derive(Debug, Default)]
pub struct Builder {
    graph: RefCell<Graph>,
    /// The defining node of each value.
    defs: RefCell<Vec<u32>>,
    /// The source span of the nodes that are added now.
    span: Cell<Span>,
    /// Which dimensions of a value have a run-time count.
    counted: RefCell<HashMap<ValueId, Vec<Option<Count>>>>,
    /// The values of the counts.
    counts: RefCell<BTreeMap<Count, ValueId>>,
    /// The seed of random draws, and the numbers (such as the step) that key them besides the site.
    random: RefCell<Option<(ValueId, Vec<ValueId>)>>,
    /// The state declared so far.
    states: RefCell<HashMap<String, StateId>>,
    /// The indices of the writes so far.
    writes: RefCell<HashMap<StateId, usize>>,
    /// The reads of state so far.
    reads: RefCell<HashMap<String, ValueId>>,
    /// The state that is trained, in the order of its declaration.
    trainable: RefCell<Vec<(String, ValueId)>>,
}

/// A handle to a value of a graph under construction.
#[derive(Clone, Copy)]
pub struct Value<'g> {
    builder: &'g Builder,
    id: ValueId,
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{} : {}", self.id.0, self.ty())
    }
}

impl Builder {
    /// An empty graph.
    pub fn new(name: &str) -> Builder {
        let builder = Builder::default();
        builder.graph.borrow_mut().name = name.to_owned();
        builder
    }

    /// Resumes the construction of an existing graph; its values keep their numbers.
    pub fn resume(graph: Graph) -> Builder {
        let mut defs = vec![0; graph.types.len()];
        for (i, node) in graph.nodes.iter().enumerate() {
            node.results.iter().for_each(|v| defs[v.index()] = i as u32);
        }
        let names = graph.state.iter().enumerate();
        let states = names.map(|(i, s)| (s.name.clone(), StateId(i as u32)));
        let writes = graph.writes.iter().enumerate().map(|(i, w)| (w.state, i));
        let builder = Builder {
            defs: RefCell::new(defs),
            states: RefCell::new(states.collect()),
            writes: RefCell::new(writes.collect()),
            ..Builder::default()
        };
        *builder.graph.borrow_mut() = graph;
        builder
    }

    /// The graph, its values numbered in order.
    pub fn finish(self) -> Graph {
        self.graph.into_inner().renumbered()
    }

    /// The graph with the value numbers of its construction.
    pub(crate) fn into_graph(self) -> Graph {
        self.graph.into_inner()
    }

    /// Sets the source span of the nodes that are added from here on; returns the span before it.
    pub fn at(&self, span: Span) -> Span {
        self.span.replace(span)
    }

    /// A handle to a value by its number.
    ///
    /// # Panics
    ///
    /// When the graph has no such value.
    pub fn value(&self, id: ValueId) -> Value<'_> {
        assert!(
            id.index() < self.graph.borrow().types.len(),
            "the graph has no value %{}",
            id.0
        );
        Value { builder: self, id }
    }

    /// A value that is fed.
    pub fn input(&self, name: &str, ty: &Type) -> Value<'_> {
        self.push(
            NodeKind::Input(name.to_owned()),
            Vec::new(),
            vec![ty.clone()],
        )[0]
    }

    /// A constant.
    pub fn constant(&self, tensor: Tensor) -> Value<'_> {
        let ty = tensor.ty();
        self.push(NodeKind::Const(tensor), Vec::new(), vec![ty])[0]
    }

    /// A scalar constant, rounded to an element type.
    pub fn scalar(&self, dtype: DType, x: f64) -> Value<'_> {
        self.constant(Tensor::from_f64s(&Type::scalar(dtype), [x]))
    }

    /// An integer constant.
    pub fn int(&self, dtype: DType, n: i64) -> Value<'_> {
        self.constant(Tensor::from_i64s(&Type::scalar(dtype), [n]))
    }

    /// A vector of i64 numbers.
    pub fn ints(&self, values: impl IntoIterator<Item = usize>) -> Value<'_> {
        let values: Vec<i64> = values.into_iter().map(|n| n as i64).collect();
        self.constant(Tensor::new(&[values.len()], values))
    }

    /// A tensor filled with one number.
    pub fn full(&self, ty: &Type, x: f64) -> Value<'_> {
        self.scalar(ty.dtype, x).broadcast(&ty.shape)
    }

    /// State before the step; the first mention of a name declares it.
    ///
    /// # Panics
    ///
    /// When the name was declared with another type.
    pub fn read(&self, name: &str, ty: &Type) -> Value<'_> {
        if let Some(id) = self.reads.borrow().get(name) {
            return self.value(*id);
        }
        let state = self.state(name, ty);
        let value = self.push(NodeKind::Read(state), Vec::new(), vec![ty.clone()])[0];
        self.reads.borrow_mut().insert(name.to_owned(), value.id);
        value
    }

    /// Adds state to what is trained (`TRAINABLE_VARIABLES`); once, however often it is added.
    pub fn add_trainable(&self, name: &str, value: Value<'_>) {
        let mut all = self.trainable.borrow_mut();
        if !all.iter().any(|(known, _)| known == name) {
            all.push((name.to_owned(), value.id));
        }
    }

    /// The state that is trained, and its values before the step, in the order of its declaration.
    pub fn trainable(&self) -> Vec<(String, Value<'_>)> {
        let all = self.trainable.borrow();
        all.iter()
            .map(|(name, id)| (name.clone(), self.value(*id)))
            .collect()
    }

    /// Lets reads of a name give this value: a loop body has no state, but may have captured it.
    pub fn define_read(&self, name: &str, value: Value<'_>) {
        self.reads.borrow_mut().insert(name.to_owned(), value.id);
    }

    /// Gives state its value after the step; a second write replaces the first.
    ///
    /// # Panics
    ///
    /// When the name was declared with another type.
    pub fn write(&self, name: &str, value: Value<'_>) {
        let state = self.state(name, &value.ty());
        let write = Write {
            state,
            value: value.id,
            span: self.span.get(),
        };
        let writes = &mut self.graph.borrow_mut().writes;
        match self.writes.borrow_mut().entry(state) {
            Entry::Occupied(index) => writes[*index.get()] = write,
            Entry::Vacant(index) => {
                index.insert(writes.len());
                writes.push(write);
            }
        }
    }

    /// The value that state has after the step, where something was written.
    pub fn written(&self, name: &str) -> Option<Value<'_>> {
        let state = self.states.borrow().get(name).copied()?;
        let index = self.writes.borrow().get(&state).copied()?;
        let id = self.graph.borrow().writes[index].value;
        Some(self.value(id))
    }

    fn state(&self, name: &str, ty: &Type) -> StateId {
        let mut graph = self.graph.borrow_mut();
        if let Some(id) = self.states.borrow().get(name).copied() {
            let declared = &graph.state[id.index()].ty;
            assert_eq!(declared, ty, "`{name}` is declared as {declared}");
            return id;
        }
        graph.state.push(State {
            name: name.to_owned(),
            ty: ty.clone(),
        });
        let id = StateId(graph.state.len() as u32 - 1);
        self.states.borrow_mut().insert(name.to_owned(), id);
        id
    }

    /// Gives a value a name by which it can be fetched.
    pub fn result(&self, name: &str, value: Value<'_>) {
        self.graph
            .borrow_mut()
            .results
            .push((name.to_owned(), value.id));
    }

    /// The result of that name, where there is one.
    pub fn find_result(&self, name: &str) -> Option<Value<'_>> {
        let id = self.graph.borrow().result(name)?;
        Some(self.value(id))
    }

    /// Adds a primitive.
    ///
    /// # Panics
    ///
    /// When the primitive's type inference rejects the operands.
    pub fn prim<'g>(
        &'g self,
        prim: &'static Prim,
        operands: &[Value<'g>],
        attrs: Vec<Attr>,
    ) -> Vec<Value<'g>> {
        let types: Vec<Type> = operands.iter().map(|v| v.ty()).collect();
        let types: Vec<&Type> = types.iter().collect();
        let call = PrimCall {
            prim,
            operands: &types,
            attrs: &attrs,
        };
        let results = (prim.infer)(&call).unwrap_or_else(|error| {
            let types: Vec<String> = types.iter().map(|t| t.to_string()).collect();
            panic!("`{}` of {}: {error}", prim.name, types.join(", "))
        });
        let operands = operands.iter().map(|v| v.id).collect();
        self.push(NodeKind::Prim(prim, attrs.into()), operands, results)
    }

    fn push(&self, kind: NodeKind, operands: Vec<ValueId>, types: Vec<Type>) -> Vec<Value<'_>> {
        let mut graph = self.graph.borrow_mut();
        let first = graph.types.len() as u32;
        let results: Vec<ValueId> = (first..first + types.len() as u32).map(ValueId).collect();
        let node = graph.nodes.len() as u32;
        self.defs.borrow_mut().extend(types.iter().map(|_| node));
        graph.types.extend(types);
        graph.nodes.push(Node {
            kind,
            operands,
            results: results.clone(),
            span: self.span.get(),
        });
        results
            .into_iter()
            .map(|id| Value { builder: self, id })
            .collect()
    }

    /// Adds a copy of a node of another graph, on operands of this one.
    pub(crate) fn copy<'g>(
        &'g self,
        node: &Node,
        operands: &[Value<'g>],
        types: Vec<Type>,
    ) -> Vec<Value<'g>> {
        let before = self.at(node.span);
        let results = self.push(
            node.kind.clone(),
            operands.iter().map(|v| v.id).collect(),
            types,
        );
        self.at(before);
        results
    }

    /// Clones a node on operands of this graph; the result types are inferred from the operands.
    pub(crate) fn clone_node<'g>(&'g self, node: &Node, operands: &[Value<'g>]) -> Vec<Value<'g>> {
        let types = match &node.kind {
            NodeKind::Const(tensor) => vec![tensor.ty()],
            NodeKind::Prim(prim, attrs) => {
                let types: Vec<Type> = operands.iter().map(|v| v.ty()).collect();
                let types: Vec<&Type> = types.iter().collect();
                let call = PrimCall {
                    prim,
                    operands: &types,
                    attrs,
                };
                (prim.infer)(&call).expect("a copy has operands of the same types")
            }
            NodeKind::Scan(scan) => scan.result_types(),
            NodeKind::Input(_) | NodeKind::Read(_) => panic!("inputs and reads are not copied"),
        };
        self.copy(node, operands, types)
    }

    /// The tensor of a value that is a constant node; `None` for all others.
    pub(crate) fn constant_value(&self, value: Value<'_>) -> Option<Tensor> {
        match &self.graph.borrow().nodes[self.defining_node(value.id)].kind {
            NodeKind::Const(tensor) => Some(tensor.clone()),
            NodeKind::Input(_) | NodeKind::Read(_) | NodeKind::Prim(..) | NodeKind::Scan(_) => None,
        }
    }

    /// The number of a splat constant, through broadcasts and reshapes; `None` for all others.
    pub(crate) fn splat(&self, value: Value<'_>) -> Option<f64> {
        let graph = self.graph.borrow();
        let mut node = &graph.nodes[self.defining_node(value.id)];
        while let NodeKind::Prim(prim, _) = &node.kind
            && [&prims::BROADCAST, &prims::RESHAPE].contains(prim)
        {
            node = &graph.nodes[self.defining_node(node.operands[0])];
        }
        let NodeKind::Const(tensor) = &node.kind else {
            return None;
        };
        let first = tensor.splat()?;
        Some(first)
    }

    /// The operands and attributes of the defining node of a value, where it is that primitive.
    pub(crate) fn defined_by<'g>(
        &'g self,
        value: Value<'g>,
        prim: &Prim,
    ) -> Option<(Vec<Value<'g>>, Attrs)> {
        let graph = self.graph.borrow();
        let node = &graph.nodes[self.defining_node(value.id)];
        match &node.kind {
            NodeKind::Prim(found, attrs) if *found == prim => {
                let operands = node
                    .operands
                    .iter()
                    .map(|id| Value {
                        builder: self,
                        id: *id,
                    })
                    .collect();
                Some((operands, attrs.clone()))
            }
            _ => None,
        }
    }

    /// Declares state in the order of another graph.
    pub(crate) fn adopt_state(&self, state: &[State]) {
        for piece in state {
            self.state(&piece.name, &piece.ty);
        }
    }

    /// Splits off the nodes from `index` on; their values may no longer be used, unless [`Builder::reinsert`] follows.
    pub(crate) fn split_off(&self, index: usize) -> Vec<Node> {
        self.graph.borrow_mut().nodes.split_off(index)
    }

    /// Appends a node that was split off, with the values it defined.
    pub(crate) fn reinsert(&self, node: Node) {
        let mut graph = self.graph.borrow_mut();
        let index = graph.nodes.len() as u32;
        let mut defs = self.defs.borrow_mut();
        node.results.iter().for_each(|v| defs[v.index()] = index);
        graph.nodes.push(node);
    }

    /// Lets a scan yield more: `body` is its body with further results, which become further results of the scan.
    pub(crate) fn extend_scan(&self, index: usize, body: Graph) -> Vec<Value<'_>> {
        let mut graph = self.graph.borrow_mut();
        let graph = &mut *graph;
        let node = &mut graph.nodes[index];
        let NodeKind::Scan(scan) = &mut node.kind else {
            panic!("node {index} is no loop");
        };
        let mut new = Vec::new();
        for (_, v) in &body.results[scan.body.results.len()..] {
            let mut ty = body.ty(*v).clone();
            ty.shape.insert(0, scan.length);
            let id = ValueId(graph.types.len() as u32);
            graph.types.push(ty);
            self.defs.borrow_mut().push(index as u32);
            node.results.push(id);
            new.push(Value { builder: self, id });
        }
        scan.body = body;
        new
    }

    /// How many nodes there are so far.
    pub(crate) fn len(&self) -> usize {
        self.graph.borrow().nodes.len()
    }

    /// A copy of a node.
    pub(crate) fn node(&self, index: usize) -> Node {
        self.graph.borrow().nodes[index].clone()
    }

    /// The index of the defining node of a value.
    pub(crate) fn defining_node(&self, value: ValueId) -> usize {
        self.defs.borrow()[value.index()] as usize
    }

    /// Reads the graph so far.
    pub fn with_graph<T>(&self, read: impl FnOnce(&Graph) -> T) -> T {
        read(&self.graph.borrow())
    }
}
