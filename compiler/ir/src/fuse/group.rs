//! Groups of nodes that become one loop.

use std::collections::HashMap;

use crate::fuse::{Fuser, Where};
use crate::graph::{ValueId, What};
use crate::kernel::{self, Combine, Fold, Inst, InstOp, Kernel, Map, Origin, View};
use crate::tensor::Tensor;
use crate::types::DType;

/// Nodes of one shape that feed each other.
pub(super) struct Group {
    pub(super) shape: Vec<usize>,
    /// Their places, in order.
    pub(super) members: Vec<usize>,
    /// Reductions of their values along the last dimensions: the place of the node, and how.
    pub(super) folds: Vec<(usize, Combine)>,
    /// How many dimensions those are, and the type of what is folded.
    pub(super) kind: Option<(usize, DType)>,
}

impl Group {
    pub(super) fn new(shape: Vec<usize>) -> Group {
        Group {
            shape,
            members: Vec::new(),
            folds: Vec::new(),
            kind: None,
        }
    }
}

impl Fuser<'_> {
    /// Makes a group a kernel; what is read from outside of it is stored.
    pub(super) fn close(&mut self, group: usize, why: &'static str) {
        let Group {
            shape,
            members,
            folds,
            kind,
        } = self.groups[group].take().expect("a group is closed once");
        let mut loop_ = Loop {
            map: Map {
                shape,
                loads: Vec::new(),
                body: Vec::new(),
                stores: Vec::new(),
                folds: Vec::new(),
                folded: kind.map_or(0, |(folded, _)| folded),
            },
            registers: HashMap::new(),
            loads: HashMap::new(),
        };
        let mut makes = Vec::new();
        let mut stored = Vec::new();
        for place in &members {
            let node = &self.graph.nodes[*place];
            let What::Prim(prim, _) = &node.what else {
                unreachable!("groups hold primitives");
            };
            let operands = node
                .operands
                .iter()
                .map(|v| loop_.register(self, *v))
                .collect();
            let value = node.results[0];
            let dtype = self.graph.ty(value).dtype;
            loop_.map.body.push(Inst {
                op: InstOp::Prim(prim, operands),
                dtype,
            });
            loop_.registers.insert(value, loop_.map.body.len() - 1);
            let inside = |reader: &u32| {
                let reader = *reader as usize;
                members.binary_search(&reader).is_ok()
                    || folds.iter().any(|(place, _)| *place == reader)
            };
            if self.kept[value.index()] || !self.readers[value.index()].iter().all(inside) {
                stored.push(value);
            }
        }
        for value in stored {
            loop_.map.stores.push(loop_.registers[&value]);
            self.origin(value, Origin::Made);
            makes.push(kernel::BufferId(self.out.buffers.len() as u32 - 1));
        }
        for (place, how) in &folds {
            let node = &self.graph.nodes[*place];
            let register = loop_.register(self, node.operands[0]);
            loop_.map.folds.push(Fold {
                register,
                how: *how,
            });
            self.origin(node.results[0], Origin::Made);
            makes.push(kernel::BufferId(self.out.buffers.len() as u32 - 1));
        }
        let last = members
            .iter()
            .chain(folds.iter().map(|(place, _)| place))
            .max();
        let span = last.map_or_else(Default::default, |place| self.graph.nodes[*place].span);
        self.out.kernels.push(Kernel {
            what: kernel::What::Map(loop_.map),
            makes,
            span,
            ended: why,
        });
    }
}

/// A loop in the making.
struct Loop {
    map: Map,
    registers: HashMap<ValueId, usize>,
    loads: HashMap<View, usize>,
}

impl Loop {
    /// The register of an operand.
    fn register(&mut self, fuser: &Fuser<'_>, value: ValueId) -> usize {
        if let Some(register) = self.registers.get(&value) {
            return *register;
        }
        let dtype = fuser.graph.ty(value).dtype;
        let op = match fuser.location(value) {
            Where::View(view) => {
                let load = *self.loads.entry(view.clone()).or_insert_with(|| {
                    self.map.loads.push(view.clone());
                    self.map.loads.len() - 1
                });
                InstOp::Load(load)
            }
            Where::Splat(one, _) => known(one),
            Where::Open(_) | Where::Folded(_) => {
                unreachable!("a group reads itself and what is closed")
            }
        };
        self.map.body.push(Inst { op, dtype });
        self.registers.insert(value, self.map.body.len() - 1);
        self.map.body.len() - 1
    }
}

fn known(one: &Tensor) -> InstOp {
    match one.dtype().is_float() {
        true => InstOp::Const(one.to_f64s()[0]),
        false => InstOp::Int(one.to_i64s()[0]),
    }
}
