//! The passes of a multi-pass loop over rows, such as softmax or layer normalization.
//!
//! A reduction is available only after a full pass over its row; elementwise operations on it need another pass. A phase is one pass over a
//! row.

use crate::kernel::{InstOp, Map};

/// The schedule of a loop: which register is computed in which pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// Whether each register is row-invariant, and so is hoisted out of the pass.
    pub row_invariant: Vec<bool>,
    /// The phase in which each register is first available; a reduction is available in the phase after its pass.
    pub first: Vec<usize>,
    /// The number of passes.
    pub count: usize,
}

impl Phases {
    /// The phases of a loop.
    pub fn of(map: &Map) -> Phases {
        let kept = map.shape.len() - map.reduced_dims;
        let mut phases = Phases {
            row_invariant: Vec::with_capacity(map.body.len()),
            first: Vec::with_capacity(map.body.len()),
            count: 1,
        };
        for inst in &map.body {
            let (row_invariant, first) = match &inst.op {
                InstOp::Const(_) | InstOp::Int(_) => (true, 0),
                InstOp::Load(load) => {
                    let view = &map.loads[*load];
                    // Without reductions, what is loop-invariant.
                    let from = if map.reduced_dims == 0 { 0 } else { kept };
                    let invariant =
                        (from..map.shape.len()).all(|i| view.strides[i] == 0 || map.shape[i] == 1);
                    (invariant, 0)
                }
                InstOp::Reduce(_, register) => (true, phases.first[*register] + 1),
                InstOp::Prim(_, operands) => (
                    operands.iter().all(|o| phases.row_invariant[*o]),
                    operands.iter().map(|o| phases.first[*o]).max().unwrap_or(0),
                ),
            };
            phases.row_invariant.push(row_invariant);
            phases.first.push(first);
        }
        // The last pass is the last that reduces or stores elements.
        for (i, inst) in map.body.iter().enumerate() {
            if matches!(inst.op, InstOp::Reduce(..)) {
                phases.count = phases.count.max(phases.first[i]);
            }
        }
        for store in map.stores.iter().filter(|store| !store.row) {
            phases.count = phases.count.max(phases.first[store.register] + 1);
        }
        phases
    }

    /// Whether the loop has several passes: some element is computed from a reduction of its row.
    pub fn is_multi_pass(&self) -> bool {
        self.count > 1
    }

    /// The registers that a pass needs for its reductions and stores. The operands of row-invariant registers are not included.
    pub fn needed(&self, map: &Map, phase: usize) -> Vec<bool> {
        let mut needed = vec![false; map.body.len()];
        for store in map.stores.iter().filter(|store| !store.row) {
            needed[store.register] |= self.first[store.register] == phase;
        }
        for i in (0..map.body.len()).rev() {
            match &map.body[i].op {
                InstOp::Reduce(_, register) if self.first[i] == phase + 1 => {
                    needed[*register] = true;
                }
                InstOp::Prim(_, operands) if needed[i] && !self.row_invariant[i] => {
                    operands.iter().for_each(|o| needed[*o] = true);
                }
                InstOp::Reduce(..)
                | InstOp::Prim(..)
                | InstOp::Load(_)
                | InstOp::Const(_)
                | InstOp::Int(_) => {}
            }
        }
        needed
    }
}
