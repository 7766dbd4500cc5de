//! Fusion groups: nodes that become one loop, and the lowering of a group to a kernel.

use std::collections::HashMap;

use crate::fuse::{Fuser, Location};
use crate::graph::{NodeKind, ValueId};
use crate::kernel::{self, Combine, Inst, InstOp, Kernel, Map, Origin, Store, View};
use crate::tensor::Tensor;
use crate::types::DType;

/// A fusion group: producers and consumers of one shape, or with one number for each row of that shape.
pub(super) struct Group {
    pub(super) shape: Vec<usize>,
    /// The indices of the nodes in order, and the role of each.
    pub(super) members: Vec<(usize, Member)>,
    /// How many of the last dimensions are reduced, and the type of the reductions, where there are some.
    pub(super) rows: Option<(usize, DType)>,
}

/// The role of a node in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    /// An elementwise operation.
    Element,
    /// A reduction of each row.
    Reduce(Combine),
    /// A row-invariant operation: on one number for each row.
    Row,
    /// A reshape or broadcast of its operand; nothing is computed.
    Alias,
}

impl Group {
    pub(super) fn new(shape: Vec<usize>) -> Group {
        Group {
            shape,
            members: Vec::new(),
            rows: None,
        }
    }

    /// How many instructions the nodes become.
    pub(super) fn size(&self) -> usize {
        let computed = |(_, member): &&(usize, Member)| *member != Member::Alias;
        self.members.iter().filter(computed).count()
    }

    /// The shape with the reduced dimensions of size 1 (`keepdims`): that of the row-invariant values.
    pub(super) fn row_shape(&self) -> Vec<usize> {
        let reduced_dims = self.rows.map_or(0, |(dims, _)| dims);
        let kept = self.shape.len() - reduced_dims;
        let size = |(i, n): (usize, &usize)| if i < kept { *n } else { 1 };
        self.shape.iter().enumerate().map(size).collect()
    }

    /// How many rows there are.
    pub(super) fn row_count(&self) -> usize {
        self.row_shape().iter().product()
    }
}

impl Fuser<'_> {
    /// Closes a group: lowers it to a kernel that stores what is live outside of it.
    pub(super) fn close(&mut self, group: usize, reason: &'static str) {
        let mut group = self.groups[group].take().expect("a group is closed once");
        group.members.sort_unstable_by_key(|m| m.0);
        let mut loop_ = Loop {
            map: Map {
                shape: group.shape.clone(),
                reduced_dims: group.rows.map_or(0, |(dims, _)| dims),
                loads: Vec::new(),
                body: Vec::new(),
                stores: Vec::new(),
            },
            row_shape: group.row_shape(),
            registers: HashMap::new(),
            loads: HashMap::new(),
        };
        // The stores: register, the value that it holds, whether it is row-invariant.
        let mut stored: Vec<(usize, ValueId, bool)> = Vec::new();
        let mut bases: HashMap<usize, (ValueId, bool)> = HashMap::new();
        for (index, member) in &group.members {
            let node = &self.graph.nodes[*index];
            let value = node.results[0];
            let register = match (member, &node.kind) {
                (Member::Alias, _) => loop_.register(self, node.operands[0], true),
                (Member::Reduce(combine), _) => {
                    let register = loop_.register(self, node.operands[0], false);
                    let dtype = self.graph.ty(value).dtype;
                    loop_.push(InstOp::Reduce(*combine, register), dtype)
                }
                (Member::Element | Member::Row, NodeKind::Prim(prim, _)) => {
                    let row = *member == Member::Row;
                    let operands = node.operands.iter();
                    let operands = operands.map(|v| loop_.register(self, *v, row)).collect();
                    let dtype = self.graph.ty(value).dtype;
                    loop_.push(InstOp::Prim(prim, operands), dtype)
                }
                _ => unreachable!("groups hold primitives"),
            };
            loop_.registers.insert(value, register);
            if *member != Member::Alias {
                bases.insert(register, (value, *member != Member::Element));
            }
            let inside = |reader: &u32| {
                let index = *reader as usize;
                group.members.binary_search_by_key(&index, |m| m.0).is_ok()
            };
            let live_out =
                self.live_out[value.index()] || !self.readers[value.index()].iter().all(inside);
            let (base, row) = bases[&register];
            if live_out && !stored.iter().any(|s| s.0 == register) {
                stored.push((register, base, row));
            }
        }
        let mut outputs = Vec::new();
        let writes = stored
            .iter()
            .any(|(_, value, _)| self.written[value.index()]);
        for (register, value, row) in stored {
            loop_.map.stores.push(Store { register, row });
            self.new_value(value, Origin::Temp);
            outputs.push(kernel::BufferId(self.out.buffers.len() as u32 - 1));
        }
        for (index, member) in &group.members {
            if *member == Member::Alias {
                self.alias(*index);
            }
        }
        let last = group.members.last().map(|m| m.0);
        let span = last.map_or_else(Default::default, |index| self.graph.nodes[index].span);
        let kernel = Kernel {
            kind: kernel::KernelKind::Map(loop_.map),
            outputs,
            span,
            fusion_barrier: reason,
        };
        // State is updated in place, by a loop of its own.
        match self.fusion && !writes {
            true => self.fuse_epilogue(kernel),
            false => self.push(kernel),
        }
    }

    /// Makes an alias node a view of its operand, now that the operand is materialized; does nothing where it is not stored.
    fn alias(&mut self, index: usize) {
        let node = &self.graph.nodes[index];
        let Location::View(view) = self.location(node.operands[0]).clone() else {
            return;
        };
        let (from, to) = (
            self.graph.ty(node.operands[0]).elements(),
            &self.graph.ty(node.results[0]).shape,
        );
        let is_reshape = from == to.iter().product::<usize>();
        let view = match view.reshaped(to).filter(|_| is_reshape) {
            Some(view) => view,
            None => view.broadcast(to),
        };
        self.values[node.results[0].index()] = Some(Location::View(view));
    }
}

/// A loop under construction.
struct Loop {
    map: Map,
    row_shape: Vec<usize>,
    registers: HashMap<ValueId, usize>,
    loads: HashMap<View, usize>,
}

impl Loop {
    fn push(&mut self, op: InstOp, dtype: DType) -> usize {
        self.map.body.push(Inst { op, dtype });
        self.map.body.len() - 1
    }

    /// The register of an operand, loaded at its first use; a row-invariant one is loaded in the shape of the rows.
    fn register(&mut self, fuser: &Fuser<'_>, value: ValueId, row: bool) -> usize {
        if let Some(register) = self.registers.get(&value) {
            return *register;
        }
        let dtype = fuser.graph.ty(value).dtype;
        let op = match fuser.location(value) {
            Location::View(view) => {
                let view = match row {
                    true => view
                        .reshaped(&self.row_shape)
                        .expect("members read values in the shape of the rows")
                        .broadcast(&self.map.shape),
                    false => view.clone(),
                };
                let load = *self.loads.entry(view.clone()).or_insert_with(|| {
                    self.map.loads.push(view);
                    self.map.loads.len() - 1
                });
                InstOp::Load(load)
            }
            Location::Splat(one, _) => constant(one),
            Location::Open(_) | Location::Row(_) => {
                unreachable!("a group reads itself and materialized values")
            }
        };
        let register = self.push(op, dtype);
        self.registers.insert(value, register);
        register
    }
}

fn constant(one: &Tensor) -> InstOp {
    match one.dtype().is_float() {
        true => InstOp::Const(one.to_f64s()[0]),
        false => InstOp::Int(one.to_i64s()[0]),
    }
}
