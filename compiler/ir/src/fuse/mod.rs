//! Graph to kernels: as few passes over memory as possible.
//!
//! In: a simplified graph. Out: kernels in order. Elementwise nodes of one shape that feed each other become one loop; reshapes,
//! transposes, broadcasts and slices become views of what they read.
//!
//! The rule: a group of nodes stays open as long as only nodes of its own shape read it element by element, reductions combine its
//! rows, or nodes with one number for each row read what those combine to; such a number may come back to the elements of its row. A
//! group is closed, and becomes a kernel, when a routine reads one of its values, when one is read in another shape, or when it is
//! large. Open groups depend on closed ones alone, so two of them can always be made one.

mod elementwise;
mod epilogue;
mod fold;
mod group;
mod recompute;

pub use elementwise::{is_by_element, is_cheap, is_elementwise};
pub(crate) use fold::LONGEST_ROW;

use std::collections::HashMap;

use crate::graph::{Attr, Graph, Node, NodeKind, Prim, Scan, ValueId};
use crate::kernel::{
    self, Buffer, BufferId, Combine, Inst, InstOp, Kernel, Kernels, Map, Origin, Store, View,
};
use crate::ops::prims;
use crate::tensor::Tensor;
use group::{Group, Member};

/// Larger groups are closed: code and its registers grow with them.
const MOST: usize = 128;

/// Turns a graph into kernels. Without `fusion` each node is a kernel of its own.
pub fn fuse(graph: &Graph, fusion: bool) -> Kernels {
    let mut fuser = Fuser::new(graph, fusion);
    for place in order(graph) {
        fuser.node(place, &graph.nodes[place]);
    }
    let mut kernels = fuser.finish();
    if fusion {
        recompute::recompute(&mut kernels);
    }
    kernels
}

/// The order in which nodes are looked at: first what new state is made of, then what is only told, such as the mean of a loss, which
/// would end the groups of the gradient for nothing.
fn order(graph: &Graph) -> Vec<usize> {
    if graph.writes.is_empty() {
        return (0..graph.nodes.len()).collect();
    }
    let mut wanted = vec![false; graph.types.len()];
    for write in &graph.writes {
        wanted[write.value.index()] = true;
    }
    for node in graph.nodes.iter().rev() {
        if node.results.iter().any(|v| wanted[v.index()]) {
            node.operands.iter().for_each(|v| wanted[v.index()] = true);
        }
    }
    let made = |place: &usize| {
        let node = &graph.nodes[*place];
        // Inputs keep their order, which is that of what is fed.
        matches!(node.kind, NodeKind::Input(_)) || node.results.iter().any(|v| wanted[v.index()])
    };
    let (first, then): (Vec<usize>, Vec<usize>) = (0..graph.nodes.len()).partition(made);
    [first, then].concat()
}

/// Where a value is.
#[derive(Debug, Clone)]
enum Where {
    /// In memory.
    View(View),
    /// One number everywhere.
    Splat(Tensor, Vec<usize>),
    /// In a group that is still open.
    Open(usize),
    /// In a group that is still open, one number for each of its rows.
    Row(usize),
}

struct Fuser<'a> {
    graph: &'a Graph,
    fusion: bool,
    out: Kernels,
    values: Vec<Option<Where>>,
    /// The nodes that read each value.
    readers: Vec<Vec<u32>>,
    /// Values that are results or new state.
    kept: Vec<bool>,
    /// Values that are new state.
    written: Vec<bool>,
    /// The kernel that makes each buffer that is made.
    makers: HashMap<BufferId, usize>,
    groups: Vec<Option<Group>>,
    /// Buffers of constants, by the bits of a splat or the place of the node.
    splats: HashMap<String, BufferId>,
    /// What views were copied to.
    copies: HashMap<View, BufferId>,
}

impl<'a> Fuser<'a> {
    fn new(graph: &'a Graph, fusion: bool) -> Fuser<'a> {
        let mut readers = vec![Vec::new(); graph.types.len()];
        for (place, node) in graph.nodes.iter().enumerate() {
            node.operands
                .iter()
                .for_each(|v| readers[v.index()].push(place as u32));
        }
        let mut kept = vec![false; graph.types.len()];
        let ends = graph
            .results
            .iter()
            .map(|(_, v)| *v)
            .chain(graph.writes.iter().map(|w| w.value));
        ends.for_each(|v| kept[v.index()] = true);
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
            kept,
            written,
            makers: HashMap::new(),
            groups: Vec::new(),
            splats: HashMap::new(),
            copies: HashMap::new(),
        }
    }

    fn node(&mut self, place: usize, node: &Node) {
        let result = node.results.first().copied();
        match &node.kind {
            NodeKind::Input(name) => self.origin(node.results[0], Origin::Input(name.clone())),
            NodeKind::Read(state) => self.origin(node.results[0], Origin::State(*state)),
            NodeKind::Const(tensor) => {
                let value = match tensor.splat() {
                    Some(_) => Where::Splat(first(tensor), tensor.shape().to_vec()),
                    None => {
                        let buffer = self.buffer(&tensor.ty(), Origin::Const(tensor.clone()));
                        Where::View(View::whole(buffer, tensor.shape()))
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
                    return self.view(place, node, prim, attrs);
                }
                let types: Vec<_> = node.operands.iter().map(|v| self.graph.ty(*v)).collect();
                let made = result.map(|v| self.graph.ty(v));
                if let Some(made) = made.filter(|made| is_elementwise(prim, &types, made)) {
                    let shape = made.shape.clone();
                    return self.elementwise(place, node, shape);
                }
                if self.fusion
                    && let Some((how, folded)) = fold::rows(prim, attrs, &types)
                {
                    return self.fold(place, node, how, folded);
                }
                let mut attrs = attrs.clone();
                let mut operands = Vec::new();
                for (i, v) in node.operands.iter().enumerate() {
                    let view = self.closed(*v, "a routine reads it");
                    let flipped = (**prim == prims::MATMUL).then(|| swapped(&view)).flatten();
                    match flipped {
                        Some(straight) => {
                            attrs = flip(&attrs, i);
                            operands.push(straight);
                        }
                        None => operands.push(self.contiguous(view)),
                    }
                }
                let outputs = self.made(node);
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
                    ended: "a routine",
                });
            }
            NodeKind::Scan(scan) => self.scan(node, scan),
        }
    }

    fn scan(&mut self, node: &Node, scan: &Scan) {
        let mut operands = Vec::new();
        for v in &node.operands {
            let view = self.closed(*v, "a loop reads it");
            operands.push(self.contiguous(view));
        }
        let outputs = self.made(node);
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
            ended: "a loop",
        });
    }

    /// The next kernel.
    fn push(&mut self, kernel: Kernel) {
        let place = self.out.kernels.len();
        kernel.outputs.iter().for_each(|b| {
            self.makers.insert(*b, place);
        });
        self.out.kernels.push(kernel);
    }

    fn buffer(&mut self, ty: &crate::graph::Type, origin: Origin) -> BufferId {
        self.out.buffers.push(Buffer {
            ty: ty.clone(),
            origin,
        });
        BufferId(self.out.buffers.len() as u32 - 1)
    }

    fn origin(&mut self, value: ValueId, origin: Origin) {
        let ty = self.graph.ty(value).clone();
        let buffer = self.buffer(&ty, origin);
        self.values[value.index()] = Some(Where::View(View::whole(buffer, &ty.shape)));
    }

    /// New buffers for the results of a node.
    fn made(&mut self, node: &Node) -> Vec<BufferId> {
        node.results
            .iter()
            .map(|v| {
                self.origin(*v, Origin::Temp);
                BufferId(self.out.buffers.len() as u32 - 1)
            })
            .collect()
    }

    fn location(&self, value: ValueId) -> &Where {
        self.values[value.index()]
            .as_ref()
            .expect("values are made before they are read")
    }

    /// A value in memory; a group that it is in is closed.
    fn closed(&mut self, value: ValueId, why: &'static str) -> View {
        match self.location(value).clone() {
            Where::View(view) => view,
            Where::Splat(one, shape) => {
                let key = format!("{one} {}", one.dtype());
                let buffer = match self.splats.get(&key) {
                    Some(buffer) => *buffer,
                    None => {
                        let buffer = self.buffer(&one.ty(), Origin::Const(one));
                        self.splats.insert(key, buffer);
                        buffer
                    }
                };
                View::whole(buffer, &[]).broadcast(&shape)
            }
            Where::Open(group) | Where::Row(group) => {
                self.close(group, why);
                self.closed(value, why)
            }
        }
    }

    /// A view whose elements lie one behind the other, copied where they do not.
    fn contiguous(&mut self, view: View) -> View {
        if view.is_contiguous() {
            return view;
        }
        if let Some(copy) = self.copies.get(&view) {
            return View::whole(*copy, &view.shape);
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
            folded: 0,
        };
        let span = crate::span::Span::default();
        let kind = kernel::KernelKind::Map(map);
        self.push(Kernel {
            kind,
            outputs: vec![buffer],
            span,
            ended: "a copy, because the next kernel reads it row by row",
        });
        View::whole(buffer, &ty.shape)
    }

    /// A node that reads its operand in another way.
    fn view(&mut self, place: usize, node: &Node, prim: &'static Prim, attrs: &[Attr]) {
        let sizes = |i: usize| match &attrs[i] {
            Attr::Sizes(sizes) => sizes.as_slice(),
            other => panic!("`{}` has no sizes: {other:?}", prim.name),
        };
        let shape = self.graph.ty(node.results[0]).shape.clone();
        let value = match self.location(node.operands[0]).clone() {
            Where::Splat(one, _) => Where::Splat(one, shape),
            Where::Row(group) if self.is_alias(group, node, prim) => {
                let open = self.groups[group].as_mut().expect("it is open");
                open.members.push((place, Member::Alias));
                match *prim == prims::RESHAPE {
                    true => Where::Row(group),
                    false => Where::Open(group),
                }
            }
            Where::View(_) | Where::Open(_) | Where::Row(_) => {
                let view = self.closed(node.operands[0], "it is read in another shape");
                Where::View(match prim.name {
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

    /// Whether a node only gives the numbers of a group's rows another shape, or gives each to the elements of its row.
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
        // A number that is read in other shapes too ends the group in any case.
        let stays = |reader: &u32| {
            let made = self.graph.ty(self.graph.nodes[*reader as usize].results[0]);
            made.shape == group.shape || made.elements() == group.row_count()
        };
        let readers = &self.readers[node.operands[0].index()];
        *prim == prims::RESHAPE
            || *prim == prims::BROADCAST
                && *to == group.shape
                && padded() == group.row_shape()
                && readers.iter().all(stays)
    }

    /// A node that joins a group, or begins one.
    fn elementwise(&mut self, place: usize, node: &Node, shape: Vec<usize>) {
        if let Some(group) = self.row_of(node) {
            let open = self.groups[group].as_mut().expect("it is open");
            open.members.push((place, Member::Row));
            self.values[node.results[0].index()] = Some(Where::Row(group));
            return;
        }
        for operand in &node.operands {
            if matches!(self.location(*operand), Where::Row(_)) {
                self.closed(
                    *operand,
                    "what its rows combine to is read with other things",
                );
            }
        }
        for operand in &node.operands {
            if self.is_foreign(*operand, node) {
                self.closed(
                    *operand,
                    "what its rows combine to is read with other things",
                );
            }
        }
        let mut own: Option<usize> = None;
        for operand in &node.operands {
            let Where::Open(group) = self.location(*operand) else {
                continue;
            };
            let group = *group;
            match own {
                Some(first) if first == group => {}
                Some(first) => {
                    match self.size(first) + self.size(group) < MOST && self.alike(first, group) {
                        true => self.merge(first, group),
                        false => self.close(group, "it is as large as a kernel may be"),
                    }
                }
                None if self.size(group) < MOST => own = Some(group),
                None => self.close(group, "it is as large as a kernel may be"),
            }
        }
        let group = own.unwrap_or_else(|| {
            self.groups.push(Some(Group::new(shape)));
            self.groups.len() - 1
        });
        let members = &mut self.groups[group].as_mut().expect("it is open").members;
        members.push((place, Member::Element));
        self.values[node.results[0].index()] = Some(Where::Open(group));
        if !self.fusion {
            self.close(group, "nothing is fused");
        }
    }

    /// The group to whose rows' numbers a node does something, if it is one; what else the node reads must have such a shape too.
    fn row_of(&mut self, node: &Node) -> Option<usize> {
        let rows = node.operands.iter().find_map(|v| match self.location(*v) {
            Where::Row(group) => Some(*group),
            Where::View(_) | Where::Splat(..) | Where::Open(_) => None,
        });
        let group = rows?;
        let open = self.groups[group].as_ref().expect("it is open");
        if open.size() >= MOST || open.row_count() != self.graph.ty(node.results[0]).elements() {
            return None;
        }
        let shape = open.row_shape();
        for operand in &node.operands {
            match self.location(*operand) {
                Where::Row(other) if *other == group => {}
                // An element and a row of one element are the same.
                Where::Open(other) if *other == group => return None,
                Where::Splat(..) => {}
                Where::View(_) | Where::Open(_) | Where::Row(_) => {
                    let view = self.closed(*operand, "its values are read for each row of another");
                    view.reshaped(&shape)?;
                }
            }
        }
        Some(group)
    }

    /// Whether an operand is a number of a row, spread over the elements of the row, and the node reads nothing else of its group: then
    /// the loop would walk over tensors that its first walk does not need.
    fn is_foreign(&self, operand: ValueId, node: &Node) -> bool {
        let Where::Open(number) = self.location(operand) else {
            return false;
        };
        let group = self.groups[*number].as_ref().expect("it is open");
        let member = |value: ValueId| {
            let mut own = group.members.iter();
            own.find(|(place, _)| self.graph.nodes[*place].results[0] == value)
                .map(|(_, member)| *member)
        };
        if member(operand) != Some(Member::Alias) {
            return false;
        }
        let loads = |view: &View| {
            let nodes = group
                .members
                .iter()
                .map(|(place, _)| &self.graph.nodes[*place]);
            let mut operands = nodes.flat_map(|node| &node.operands);
            operands
                .any(|v| matches!(self.location(*v), Where::View(own) if (own.buffer, own.offset) == (view.buffer, view.offset)))
        };
        !node.operands.iter().any(|v| match self.location(*v) {
            Where::Open(own) => own == number && member(*v) != Some(Member::Alias),
            Where::View(view) => view.elements() > 1 && loads(view),
            Where::Row(_) | Where::Splat(..) => false,
        })
    }

    /// A node that combines the rows of a group.
    fn fold(&mut self, place: usize, node: &Node, how: Combine, folded: usize) {
        let operand = node.operands[0];
        let shape = self.graph.ty(operand).shape.clone();
        let open = match self.location(operand) {
            Where::Open(group) => Some(*group),
            Where::View(_) | Where::Splat(..) | Where::Row(_) => None,
        };
        let rows = Some((folded, self.graph.ty(operand).dtype));
        let open = open.filter(|group| {
            let group = self.groups[*group].as_ref().expect("it is open");
            group.size() < MOST && (group.rows.is_none() || group.rows == rows)
        });
        if open.is_none() {
            self.closed(operand, "it is combined along other dimensions");
        }
        let group = open.unwrap_or_else(|| {
            self.groups.push(Some(Group::new(shape)));
            self.groups.len() - 1
        });
        let open = self.groups[group].as_mut().expect("it is open");
        open.members.push((place, Member::Reduce(how)));
        open.rows = rows;
        self.values[node.results[0].index()] = Some(Where::Row(group));
    }

    /// Whether two groups combine rows of the same dimensions and one type, or one combines none.
    fn alike(&self, a: usize, b: usize) -> bool {
        let group = |i: usize| self.groups[i].as_ref().expect("it is open");
        let (a, b) = (group(a), group(b));
        a.rows.is_none() || b.rows.is_none() || a.rows == b.rows
    }

    fn size(&self, group: usize) -> usize {
        self.groups[group].as_ref().map_or(0, Group::size)
    }

    fn merge(&mut self, into: usize, from: usize) {
        let group = self.groups[from].take().expect("it is open");
        for (place, _) in &group.members {
            let value = self.graph.nodes[*place].results[0].index();
            self.values[value] = match self.values[value] {
                Some(Where::Row(_)) => Some(Where::Row(into)),
                _ => Some(Where::Open(into)),
            };
        }
        let open = self.groups[into].as_mut().expect("it is open");
        open.members.extend(group.members);
        open.members.sort_unstable_by_key(|m| m.0);
        open.rows = open.rows.or(group.rows);
    }

    /// Makes groups one that are left at the end and read the same tensors, so that these are read once: the moments of an optimizer, say,
    /// and the parameter.
    fn join_readers(&mut self) {
        let mut known: HashMap<View, usize> = HashMap::new();
        for group in 0..self.groups.len() {
            let Some(open) = &self.groups[group] else {
                continue;
            };
            let nodes = open
                .members
                .iter()
                .map(|(place, _)| &self.graph.nodes[*place]);
            let operands = nodes.flat_map(|node| &node.operands);
            // What is spread over the shape is as good as nothing to read.
            let large =
                |view: &&View| view.shape == open.shape && view.elements() > 1 && !view.is_spread();
            let views: Vec<View> = operands
                .filter_map(|v| match self.location(*v) {
                    Where::View(view) => Some(view),
                    Where::Splat(..) | Where::Open(_) | Where::Row(_) => None,
                })
                .filter(large)
                .cloned()
                .collect();
            let other = views.iter().find_map(|view| known.get(view)).copied();
            let fits = |other: &usize| {
                self.size(*other) + self.size(group) < MOST && self.alike(*other, group)
            };
            let own = match other.filter(fits) {
                Some(other) => {
                    self.merge(other, group);
                    other
                }
                None => group,
            };
            known.extend(views.into_iter().map(|view| (view, own)));
        }
    }

    fn finish(mut self) -> Kernels {
        if self.fusion {
            self.join_readers();
        }
        for group in 0..self.groups.len() {
            if self.groups[group].is_some() {
                self.close(group, "the step ends");
            }
        }
        for write in &self.graph.writes {
            let view = self.closed(write.value, "the step ends");
            self.out.writes.push((write.state, view));
        }
        for (name, value) in &self.graph.results {
            let view = self.closed(*value, "the step ends");
            self.out.results.push((name.clone(), view));
        }
        self.out
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

/// The view with its last two dimensions swapped, where it is contiguous only then.
fn swapped(view: &View) -> Option<View> {
    let rank = view.shape.len();
    if view.is_contiguous() || rank < 2 {
        return None;
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    Some(view.transposed(&order)).filter(View::is_contiguous)
}

/// The attributes of a product with one operand transposed once more.
fn flip(attrs: &[Attr], operand: usize) -> crate::graph::Attrs {
    let mut attrs = attrs.to_vec();
    if let Attr::Flag(transposed) = &mut attrs[operand] {
        *transposed = !*transposed;
    }
    attrs.into()
}
