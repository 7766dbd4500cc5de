//! Operator fusion, graph to kernels: as few passes over memory as possible.
//!
//! In: a simplified graph. Out: kernels in order. Elementwise producers and consumers of one shape become one loop (loop fusion), with the
//! row reductions between them; loops after a matrix product become its epilogue; reshapes, transposes, broadcasts and slices become views.
//!
//! The rule: a group of nodes stays open as long as only elementwise nodes of its own shape read it, reductions of its rows, or
//! row-invariant nodes that read those; a row-invariant value may be broadcast back to the elements of its row. A group is closed, and
//! becomes a kernel, when a library call reads one of its values, when one is read in another shape, or when it is large. Open groups
//! depend on closed ones alone, so two of them can always be merged.

mod elementwise;
mod epilogue;
mod group;
mod reduction;
mod rematerialize;

pub use elementwise::{is_cheap, is_elementwise, is_fusible};
pub(crate) use reduction::MAX_ROW_ELEMENTS;

use std::collections::HashMap;

use crate::graph::identity::TensorKey;
use crate::graph::{Attr, Graph, Node, NodeKind, Prim, Scan, ValueId};
use crate::kernel::{
    self, Buffer, BufferId, Combine, Inst, InstOp, Kernel, Kernels, Map, Origin, Store, View,
};
use crate::ops::prims;
use crate::tensor::Tensor;
use crate::types::DType;
use group::{Group, Member};

/// The maximal number of instructions of a group: code size and register pressure grow with it.
const MAX_GROUP_SIZE: usize = 128;

/// Lowers a graph to kernels. Without `fusion` each node is a kernel of its own.
pub fn fuse(graph: &Graph, fusion: bool) -> Kernels {
    let mut fuser = Fuser::new(graph, fusion);
    for index in order(graph) {
        fuser.node(index, &graph.nodes[index]);
    }
    let mut kernels = fuser.finish();
    if fusion {
        rematerialize::rematerialize(&mut kernels);
    }
    kernels
}

/// The order in which nodes are visited: first those that state writes depend on, then those that are only fetched, such as the mean of
/// a loss, which would close the groups of the gradient needlessly.
fn order(graph: &Graph) -> Vec<usize> {
    if graph.writes.is_empty() {
        return (0..graph.nodes.len()).collect();
    }
    let mut needed = vec![false; graph.types.len()];
    for write in &graph.writes {
        needed[write.value.index()] = true;
    }
    for node in graph.nodes.iter().rev() {
        if node.results.iter().any(|v| needed[v.index()]) {
            node.operands.iter().for_each(|v| needed[v.index()] = true);
        }
    }
    let is_needed = |index: &usize| {
        let node = &graph.nodes[*index];
        // Inputs keep their order, in which they are fed.
        matches!(node.kind, NodeKind::Input(_)) || node.results.iter().any(|v| needed[v.index()])
    };
    let (first, last): (Vec<usize>, Vec<usize>) = (0..graph.nodes.len()).partition(is_needed);
    [first, last].concat()
}

/// The location of a value.
#[derive(Debug, Clone)]
enum Location {
    /// In memory: materialized.
    View(View),
    /// A splat constant: the scalar, and the shape.
    Splat(Tensor, Vec<usize>),
    /// In an open group, one number for each element.
    Open(usize),
    /// In an open group, one number for each row (row-invariant).
    Row(usize),
}

struct Fuser<'a> {
    graph: &'a Graph,
    fusion: bool,
    out: Kernels,
    values: Vec<Option<Location>>,
    /// The nodes that read each value.
    readers: Vec<Vec<u32>>,
    /// Values that are live out of the graph: results and state writes.
    live_out: Vec<bool>,
    /// Values that are written to state.
    written: Vec<bool>,
    /// The producer of each temporary: the index of its kernel.
    producers: HashMap<BufferId, usize>,
    groups: Vec<Option<Group>>,
    /// Buffers of splat constants, by value and type.
    splats: HashMap<TensorKey, BufferId>,
    /// The contiguous copies of views.
    copies: HashMap<View, BufferId>,
}

impl<'a> Fuser<'a> {
    fn new(graph: &'a Graph, fusion: bool) -> Fuser<'a> {
        let mut readers = vec![Vec::new(); graph.types.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            node.operands
                .iter()
                .for_each(|v| readers[v.index()].push(index as u32));
        }
        let mut live_out = vec![false; graph.types.len()];
        let outputs = graph
            .results
            .iter()
            .map(|(_, v)| *v)
            .chain(graph.writes.iter().map(|w| w.value));
        outputs.for_each(|v| live_out[v.index()] = true);
        let mut written = vec![false; graph.types.len()];
        graph
            .writes
            .iter()
            .for_each(|w| written[w.value.index()] = true);
        let out = Kernels {
            name: graph.name.clone(),
            state: graph.state.clone(),
            ..Kernels::default()
        };
        let values = vec![None; graph.types.len()];
        Fuser {
            graph,
            fusion,
            out,
            values,
            readers,
            live_out,
            written,
            producers: HashMap::new(),
            groups: Vec::new(),
            splats: HashMap::new(),
            copies: HashMap::new(),
        }
    }

    /// Lowers a node: to an input, a constant, a view, a member of a group, or a library call.
    fn node(&mut self, index: usize, node: &Node) {
        let result = node.results.first().copied();
        match &node.kind {
            NodeKind::Input(name) => self.new_value(node.results[0], Origin::Input(name.clone())),
            NodeKind::Read(state) => self.new_value(node.results[0], Origin::State(*state)),
            NodeKind::Const(tensor) => {
                let value = match tensor.splat() {
                    Some(_) => Location::Splat(first(tensor), tensor.shape().to_vec()),
                    None => {
                        let buffer = self.buffer(&tensor.ty(), Origin::Const(tensor.clone()));
                        Location::View(View::contiguous(buffer, tensor.shape()))
                    }
                };
                self.values[node.results[0].index()] = Some(value);
            }
            NodeKind::Prim(prim, attrs) => {
                let views = [
                    &prims::RESHAPE,
                    &prims::TRANSPOSE,
                    &prims::BROADCAST,
                    &prims::SLICE,
                ];
                if views.contains(prim) {
                    return self.view(index, node, prim, attrs);
                }
                let types: Vec<_> = node.operands.iter().map(|v| self.graph.ty(*v)).collect();
                let ty = result.map(|v| self.graph.ty(v));
                if let Some(ty) = ty.filter(|ty| is_fusible(prim, &types, ty)) {
                    let shape = ty.shape.clone();
                    return self.elementwise(index, node, shape);
                }
                if self.fusion
                    && let Some((combine, dims)) = reduction::row_reduction(prim, attrs, &types)
                {
                    return self.reduce(index, node, combine, dims);
                }
                let mut attrs = attrs.clone();
                let mut operands = Vec::new();
                for (i, v) in node.operands.iter().enumerate() {
                    let view = self.materialized(*v, "a library call reads it");
                    let transposed = (**prim == prims::MATMUL)
                        .then(|| contiguous_transpose(&view))
                        .flatten();
                    match transposed {
                        Some(transposed) => {
                            attrs = toggle_transpose(&attrs, i);
                            operands.push(transposed);
                        }
                        None => operands.push(self.contiguous(view)),
                    }
                }
                let outputs = self.output_buffers(node);
                let kind = kernel::KernelKind::Call {
                    prim,
                    attrs,
                    operands,
                    epilogue: None,
                };
                self.push(Kernel {
                    kind,
                    outputs,
                    span: node.span,
                    fusion_barrier: "a library call",
                });
            }
            NodeKind::Scan(scan) => self.scan(node, scan),
        }
    }

    /// Lowers a scan, whose body is fused on its own.
    fn scan(&mut self, node: &Node, scan: &Scan) {
        let mut operands = Vec::new();
        for v in &node.operands {
            let view = self.materialized(*v, "a loop reads it");
            operands.push(self.contiguous(view));
        }
        let outputs = self.output_buffers(node);
        let kind = kernel::KernelKind::Scan {
            length: scan.length,
            reverse: scan.reverse,
            captures: scan.captures,
            carries: scan.carries,
            operands,
            body: Box::new(fuse(&scan.body, self.fusion)),
        };
        self.push(Kernel {
            kind,
            outputs,
            span: node.span,
            fusion_barrier: "a loop",
        });
    }

    /// Appends a kernel.
    fn push(&mut self, kernel: Kernel) {
        let index = self.out.kernels.len();
        kernel.outputs.iter().for_each(|b| {
            self.producers.insert(*b, index);
        });
        self.out.kernels.push(kernel);
    }

    /// Adds a buffer.
    fn buffer(&mut self, ty: &crate::graph::Type, origin: Origin) -> BufferId {
        self.out.buffers.push(Buffer {
            ty: ty.clone(),
            origin,
        });
        BufferId(self.out.buffers.len() as u32 - 1)
    }

    /// Materializes a value in a new buffer of this origin.
    fn new_value(&mut self, value: ValueId, origin: Origin) {
        let ty = self.graph.ty(value).clone();
        let buffer = self.buffer(&ty, origin);
        self.values[value.index()] = Some(Location::View(View::contiguous(buffer, &ty.shape)));
    }

    /// New buffers for the results of a node.
    fn output_buffers(&mut self, node: &Node) -> Vec<BufferId> {
        node.results
            .iter()
            .map(|v| {
                self.new_value(*v, Origin::Temp);
                BufferId(self.out.buffers.len() as u32 - 1)
            })
            .collect()
    }

    fn location(&self, value: ValueId) -> &Location {
        self.values[value.index()]
            .as_ref()
            .expect("values are defined before they are used")
    }

    /// Materializes a value: closes the group that it is in, for the reason given.
    fn materialized(&mut self, value: ValueId, reason: &'static str) -> View {
        match self.location(value).clone() {
            Location::View(view) => view,
            Location::Splat(scalar, shape) => {
                let key = TensorKey::of(&scalar);
                let buffer = match self.splats.get(&key) {
                    Some(buffer) => *buffer,
                    None => {
                        let buffer = self.buffer(&scalar.ty(), Origin::Const(scalar));
                        self.splats.insert(key, buffer);
                        buffer
                    }
                };
                View::contiguous(buffer, &[]).broadcast(&shape)
            }
            Location::Open(group) | Location::Row(group) => {
                self.close(group, reason);
                self.materialized(value, reason)
            }
        }
    }

    /// A contiguous view: the view itself, or a copy.
    fn contiguous(&mut self, view: View) -> View {
        if view.is_contiguous() {
            return view;
        }
        if let Some(copy) = self.copies.get(&view) {
            return View::contiguous(*copy, &view.shape);
        }
        let ty = self.out.buffers[view.buffer.index()]
            .ty
            .with_shape(&view.shape);
        let buffer = self.buffer(&ty, Origin::Temp);
        self.copies.insert(view.clone(), buffer);
        let map = Map {
            shape: view.shape.clone(),
            loads: vec![view],
            body: vec![Inst {
                op: InstOp::Load(0),
                dtype: ty.dtype,
            }],
            stores: vec![Store {
                register: 0,
                row: false,
            }],
            reduced_dims: 0,
        };
        let span = crate::span::Span::default();
        let kind = kernel::KernelKind::Map(map);
        self.push(Kernel {
            kind,
            outputs: vec![buffer],
            span,
            fusion_barrier: "a copy, because the next kernel reads it contiguously",
        });
        View::contiguous(buffer, &ty.shape)
    }

    /// A node that is a view of its operand.
    fn view(&mut self, index: usize, node: &Node, prim: &'static Prim, attrs: &[Attr]) {
        let sizes = |i: usize| match &attrs[i] {
            Attr::Sizes(sizes) => sizes.as_slice(),
            other => panic!("`{}` has no sizes: {other:?}", prim.name),
        };
        let shape = self.graph.ty(node.results[0]).shape.clone();
        let value = match self.location(node.operands[0]).clone() {
            Location::Splat(scalar, _) => Location::Splat(scalar, shape),
            Location::Row(group) if self.is_alias(group, node, prim) => {
                let open = self.groups[group].as_mut().expect("it is open");
                open.members.push((index, Member::Alias));
                match *prim == prims::RESHAPE {
                    true => Location::Row(group),
                    false => Location::Open(group),
                }
            }
            Location::View(_) | Location::Open(_) | Location::Row(_) => {
                let view = self.materialized(node.operands[0], "it is read in another shape");
                Location::View(match prim.name {
                    "transpose" => view.transposed(sizes(0)),
                    "broadcast" => view.broadcast(&shape),
                    "slice" => view.sliced(sizes(0), sizes(1), sizes(2)),
                    _ => match view.reshaped(&shape) {
                        Some(view) => view,
                        None => {
                            let copy = self.contiguous(view);
                            copy.reshaped(&shape)
                                .expect("contiguous elements take any shape")
                        }
                    },
                })
            }
        };
        self.values[node.results[0].index()] = Some(value);
    }

    /// Whether a node only reshapes a row-invariant value of a group, or broadcasts it to the elements of its rows.
    fn is_alias(&self, group: usize, node: &Node, prim: &Prim) -> bool {
        let group = self.groups[group].as_ref().expect("it is open");
        let (from, to) = (
            &self.graph.ty(node.operands[0]).shape,
            &self.graph.ty(node.results[0]).shape,
        );
        let padded = || {
            let mut shape = vec![1; group.shape.len().saturating_sub(from.len())];
            shape.extend(from);
            shape
        };
        // A value that is read in other shapes too closes the group in any case.
        let fits = |reader: &u32| {
            let ty = self.graph.ty(self.graph.nodes[*reader as usize].results[0]);
            ty.shape == group.shape || ty.elements() == group.row_count()
        };
        let readers = &self.readers[node.operands[0].index()];
        *prim == prims::RESHAPE
            || *prim == prims::BROADCAST
                && *to == group.shape
                && padded() == group.row_shape()
                && readers.iter().all(fits)
    }

    /// An elementwise node, which joins a group or begins one.
    fn elementwise(&mut self, index: usize, node: &Node, shape: Vec<usize>) {
        if let Some(group) = self.row_group(node) {
            let open = self.groups[group].as_mut().expect("it is open");
            open.members.push((index, Member::Row));
            self.values[node.results[0].index()] = Some(Location::Row(group));
            return;
        }
        for operand in &node.operands {
            if matches!(self.location(*operand), Location::Row(_)) {
                self.materialized(*operand, "its row reductions are read with other values");
            }
        }
        for operand in &node.operands {
            if self.is_unrelated(*operand, node) {
                self.materialized(*operand, "its row reductions are read with other values");
            }
        }
        let mut own: Option<usize> = None;
        for operand in &node.operands {
            let Location::Open(group) = self.location(*operand) else {
                continue;
            };
            let group = *group;
            match own {
                Some(first) if first == group => {}
                Some(first) => match self.merge_barrier(first, group) {
                    None => self.merge(first, group),
                    Some(reason) => self.close(group, reason),
                },
                None if self.size(group) < MAX_GROUP_SIZE => own = Some(group),
                None => self.close(group, MAXIMAL_SIZE),
            }
        }
        let group = own.unwrap_or_else(|| {
            self.groups.push(Some(Group::new(shape)));
            self.groups.len() - 1
        });
        let members = &mut self.groups[group].as_mut().expect("it is open").members;
        members.push((index, Member::Element));
        self.values[node.results[0].index()] = Some(Location::Open(group));
        if !self.fusion {
            self.close(group, "fusion is off");
        }
    }

    /// The group whose row-invariant values a node reads, where the node is row-invariant too; its other operands must have the shape of
    /// the rows.
    fn row_group(&mut self, node: &Node) -> Option<usize> {
        let group = node.operands.iter().find_map(|v| match self.location(*v) {
            Location::Row(group) => Some(*group),
            Location::View(_) | Location::Splat(..) | Location::Open(_) => None,
        });
        let group = group?;
        let open = self.groups[group].as_ref().expect("it is open");
        if open.size() >= MAX_GROUP_SIZE
            || open.row_count() != self.graph.ty(node.results[0]).elements()
        {
            return None;
        }
        let shape = open.row_shape();
        for operand in &node.operands {
            match self.location(*operand) {
                Location::Row(other) if *other == group => {}
                // Where rows have one element the shapes coincide: the node is elementwise then.
                Location::Open(other) if *other == group => return None,
                Location::Splat(..) => {}
                Location::View(_) | Location::Open(_) | Location::Row(_) => {
                    let view =
                        self.materialized(*operand, "its values are read for each row of another");
                    view.reshaped(&shape)?;
                }
            }
        }
        Some(group)
    }

    /// Whether an operand is a row-invariant value, broadcast to the elements of the row, and the node reads nothing else of its group:
    /// then the second pass of the loop would load tensors that the first pass does not need.
    fn is_unrelated(&self, operand: ValueId, node: &Node) -> bool {
        let Location::Open(number) = self.location(operand) else {
            return false;
        };
        let group = self.groups[*number].as_ref().expect("it is open");
        let member = |value: ValueId| {
            let mut own = group.members.iter();
            own.find(|(index, _)| self.graph.nodes[*index].results[0] == value)
                .map(|(_, member)| *member)
        };
        if member(operand) != Some(Member::Alias) {
            return false;
        }
        let loads = |view: &View| {
            let nodes = group
                .members
                .iter()
                .map(|(index, _)| &self.graph.nodes[*index]);
            let mut operands = nodes.flat_map(|node| &node.operands);
            operands
                .any(|v| matches!(self.location(*v), Location::View(own) if (own.buffer, own.offset) == (view.buffer, view.offset)))
        };
        !node.operands.iter().any(|v| match self.location(*v) {
            Location::Open(own) => own == number && member(*v) != Some(Member::Alias),
            Location::View(view) => view.elements() > 1 && loads(view),
            Location::Row(_) | Location::Splat(..) => false,
        })
    }

    /// A row reduction, which joins the group of its operand or begins one.
    fn reduce(&mut self, index: usize, node: &Node, combine: Combine, reduced_dims: usize) {
        let operand = node.operands[0];
        let shape = self.graph.ty(operand).shape.clone();
        let open = match self.location(operand) {
            Location::Open(group) => Some(*group),
            Location::View(_) | Location::Splat(..) | Location::Row(_) => None,
        };
        let rows = Some((reduced_dims, self.graph.ty(operand).dtype));
        let barrier = open.and_then(|group| {
            let group = self.groups[group].as_ref().expect("it is open");
            match group.size() < MAX_GROUP_SIZE {
                true => rows_barrier(group.rows, rows),
                false => Some(MAXIMAL_SIZE),
            }
        });
        let open = open.filter(|_| barrier.is_none());
        if open.is_none() {
            self.materialized(operand, barrier.unwrap_or(OTHER_DIMENSIONS));
        }
        let group = open.unwrap_or_else(|| {
            self.groups.push(Some(Group::new(shape)));
            self.groups.len() - 1
        });
        let open = self.groups[group].as_mut().expect("it is open");
        open.members.push((index, Member::Reduce(combine)));
        open.rows = rows;
        self.values[node.results[0].index()] = Some(Location::Row(group));
    }

    /// Why two groups cannot be merged; `None` where they can.
    fn merge_barrier(&self, a: usize, b: usize) -> Option<&'static str> {
        let group = |i: usize| self.groups[i].as_ref().expect("it is open");
        match self.size(a) + self.size(b) < MAX_GROUP_SIZE {
            true => rows_barrier(group(a).rows, group(b).rows),
            false => Some(MAXIMAL_SIZE),
        }
    }

    fn size(&self, group: usize) -> usize {
        self.groups[group].as_ref().map_or(0, Group::size)
    }

    /// Merges two open groups that are without a [barrier](Fuser::merge_barrier).
    fn merge(&mut self, into: usize, from: usize) {
        let group = self.groups[from].take().expect("it is open");
        for (index, _) in &group.members {
            let value = self.graph.nodes[*index].results[0].index();
            self.values[value] = match self.values[value] {
                Some(Location::Row(_)) => Some(Location::Row(into)),
                _ => Some(Location::Open(into)),
            };
        }
        let open = self.groups[into].as_mut().expect("it is open");
        open.members.extend(group.members);
        open.members.sort_unstable_by_key(|m| m.0);
        open.rows = open.rows.or(group.rows);
    }

    /// Horizontal (sibling) fusion: merges the groups that are left at the end and read the same tensors, so that these are read once: the
    /// moments of an optimizer, say, and the parameter.
    fn fuse_siblings(&mut self) {
        let mut readers: HashMap<View, usize> = HashMap::new();
        for group in 0..self.groups.len() {
            let Some(open) = &self.groups[group] else {
                continue;
            };
            let nodes = open
                .members
                .iter()
                .map(|(index, _)| &self.graph.nodes[*index]);
            let operands = nodes.flat_map(|node| &node.operands);
            // A broadcast operand costs next to nothing to read.
            let is_large = |view: &&View| {
                view.shape == open.shape && view.elements() > 1 && !view.is_broadcast()
            };
            let views: Vec<View> = operands
                .filter_map(|v| match self.location(*v) {
                    Location::View(view) => Some(view),
                    Location::Splat(..) | Location::Open(_) | Location::Row(_) => None,
                })
                .filter(is_large)
                .cloned()
                .collect();
            let other = views.iter().find_map(|view| readers.get(view)).copied();
            let fits = |other: &usize| self.merge_barrier(*other, group).is_none();
            let own = match other.filter(fits) {
                Some(other) => {
                    self.merge(other, group);
                    other
                }
                None => group,
            };
            readers.extend(views.into_iter().map(|view| (view, own)));
        }
    }

    /// Closes all groups, and gives the kernels with their results and state writes.
    fn finish(mut self) -> Kernels {
        if self.fusion {
            self.fuse_siblings();
        }
        for group in 0..self.groups.len() {
            if self.groups[group].is_some() {
                self.close(group, "the step ends");
            }
        }
        for write in &self.graph.writes {
            let view = self.materialized(write.value, "the step ends");
            self.out.writes.push((write.state, view));
        }
        for (name, value) in &self.graph.results {
            let view = self.materialized(*value, "the step ends");
            self.out.results.push((name.clone(), view));
        }
        self.out
    }
}

/// The fusion barrier of a group that no more operations fit in.
const MAXIMAL_SIZE: &str = "it has the maximal size";

/// The fusion barrier of rows of other dimensions.
const OTHER_DIMENSIONS: &str = "it is reduced along other dimensions";

/// Why row reductions, given by the number of their dimensions and their dtype, cannot be in one loop; `None` where they can.
fn rows_barrier(a: Option<(usize, DType)>, b: Option<(usize, DType)>) -> Option<&'static str> {
    match (a?, b?) {
        ((a, _), (b, _)) if a != b => Some(OTHER_DIMENSIONS),
        ((_, a), (_, b)) if a != b => Some("it is reduced in another dtype"),
        _ => None,
    }
}

/// The first element of a tensor, as a scalar.
fn first(tensor: &Tensor) -> Tensor {
    let ty = crate::graph::Type::scalar(tensor.dtype());
    match tensor.dtype().is_float() {
        true => Tensor::from_f64s(&ty, tensor.to_f64s().into_iter().take(1)),
        false => Tensor::from_i64s(&ty, tensor.to_i64s().into_iter().take(1)),
    }
}

/// The view with its last two dimensions transposed, where it is contiguous only then.
fn contiguous_transpose(view: &View) -> Option<View> {
    let rank = view.shape.len();
    if view.is_contiguous() || rank < 2 {
        return None;
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    Some(view.transposed(&order)).filter(View::is_contiguous)
}

/// The attributes of a matrix product with the transpose flag of one operand toggled.
fn toggle_transpose(attrs: &[Attr], operand: usize) -> crate::graph::Attrs {
    let mut attrs = attrs.to_vec();
    if let Attr::Flag(transposed) = &mut attrs[operand] {
        *transposed = !*transposed;
    }
    attrs.into()
}
