//! Groups of nodes that become one loop.

use std::collections::HashMap;

use crate::fuse::{Fuser, Where};
use crate::graph::{NodeKind, ValueId};
use crate::kernel::{self, Combine, Inst, InstOp, Kernel, Map, Origin, Store, View};
use crate::tensor::Tensor;
use crate::types::DType;

/// Nodes that feed each other: of one shape, or one number for each row of that shape.
pub(super) struct Group {
    pub(super) shape: Vec<usize>,
    /// Their places in order, and what each does.
    pub(super) members: Vec<(usize, Member)>,
    /// How many of the last dimensions are a row, and the type of what is combined, where rows are.
    pub(super) rows: Option<(usize, DType)>,
}

/// What a node does in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    /// The same to every element.
    Element,
    /// It combines a row.
    Reduce(Combine),
    /// The same to what each row combines to.
    Row,
    /// It gives what its operand is another shape; nothing is computed.
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

    /// The shape with rows made one element: what has one number for each row can be read in it.
    pub(super) fn row_shape(&self) -> Vec<usize> {
        let folded = self.rows.map_or(0, |(folded, _)| folded);
        let kept = self.shape.len() - folded;
        let size = |(i, n): (usize, &usize)| if i < kept { *n } else { 1 };
        self.shape.iter().enumerate().map(size).collect()
    }

    /// How many rows there are.
    pub(super) fn row_count(&self) -> usize {
        self.row_shape().iter().product()
    }
}

impl Fuser<'_> {
    /// Makes a group a kernel; what is read from outside of it is stored.
    pub(super) fn close(&mut self, group: usize, why: &'static str) {
        let mut group = self.groups[group].take().expect("a group is closed once");
        group.members.sort_unstable_by_key(|m| m.0);
        let mut loop_ = Loop {
            map: Map {
                shape: group.shape.clone(),
                folded: group.rows.map_or(0, |(folded, _)| folded),
                loads: Vec::new(),
                body: Vec::new(),
                stores: Vec::new(),
            },
            row_shape: group.row_shape(),
            registers: HashMap::new(),
            loads: HashMap::new(),
        };
        // What is stored: the value that the register was made for, by register.
        let mut stored: Vec<(usize, ValueId, bool)> = Vec::new();
        let mut bases: HashMap<usize, (ValueId, bool)> = HashMap::new();
        for (place, member) in &group.members {
            let node = &self.graph.nodes[*place];
            let value = node.results[0];
            let register = match (member, &node.kind) {
                (Member::Alias, _) => loop_.register(self, node.operands[0], true),
                (Member::Reduce(how), _) => {
                    let register = loop_.register(self, node.operands[0], false);
                    let dtype = self.graph.ty(value).dtype;
                    loop_.push(InstOp::Reduce(*how, register), dtype)
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
                let place = *reader as usize;
                group.members.binary_search_by_key(&place, |m| m.0).is_ok()
            };
            let outside =
                self.kept[value.index()] || !self.readers[value.index()].iter().all(inside);
            let (base, row) = bases[&register];
            if outside && !stored.iter().any(|s| s.0 == register) {
                stored.push((register, base, row));
            }
        }
        let mut outputs = Vec::new();
        let writes = stored
            .iter()
            .any(|(_, value, _)| self.written[value.index()]);
        for (register, value, row) in stored {
            loop_.map.stores.push(Store { register, row });
            self.origin(value, Origin::Temp);
            outputs.push(kernel::BufferId(self.out.buffers.len() as u32 - 1));
        }
        for (place, member) in &group.members {
            if *member == Member::Alias {
                self.follow(*place);
            }
        }
        let last = group.members.last().map(|m| m.0);
        let span = last.map_or_else(Default::default, |place| self.graph.nodes[place].span);
        let kernel = Kernel {
            kind: kernel::KernelKind::Map(loop_.map),
            outputs,
            span,
            ended: why,
        };
        // New state is written where the old one is, by a loop of its own.
        match self.fusion && !writes {
            true => self.fuse_epilogue(kernel),
            false => self.push(kernel),
        }
    }

    /// Says where what a node gives another shape lies, now that its operand lies in memory; nothing where that is not stored.
    fn follow(&mut self, place: usize) {
        let node = &self.graph.nodes[place];
        let Where::View(view) = self.location(node.operands[0]).clone() else {
            return;
        };
        let (from, to) = (
            self.graph.ty(node.operands[0]).elements(),
            &self.graph.ty(node.results[0]).shape,
        );
        let same = from == to.iter().product::<usize>();
        let view = match view.reshaped(to).filter(|_| same) {
            Some(view) => view,
            None => view.broadcast(to),
        };
        self.values[node.results[0].index()] = Some(Where::View(view));
    }
}

/// A loop in the making.
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

    /// The register of an operand; one that has a number for each row is read in the shape of the rows.
    fn register(&mut self, fuser: &Fuser<'_>, value: ValueId, row: bool) -> usize {
        if let Some(register) = self.registers.get(&value) {
            return *register;
        }
        let dtype = fuser.graph.ty(value).dtype;
        let op = match fuser.location(value) {
            Where::View(view) => {
                let view = match row {
                    true => view
                        .reshaped(&self.row_shape)
                        .expect("members read what has the shape of rows")
                        .broadcast(&self.map.shape),
                    false => view.clone(),
                };
                let load = *self.loads.entry(view.clone()).or_insert_with(|| {
                    self.map.loads.push(view);
                    self.map.loads.len() - 1
                });
                InstOp::Load(load)
            }
            Where::Splat(one, _) => known(one),
            Where::Open(_) | Where::Row(_) => {
                unreachable!("a group reads itself and what is closed")
            }
        };
        let register = self.push(op, dtype);
        self.registers.insert(value, register);
        register
    }
}

fn known(one: &Tensor) -> InstOp {
    match one.dtype().is_float() {
        true => InstOp::Const(one.to_f64s()[0]),
        false => InstOp::Int(one.to_i64s()[0]),
    }
}
