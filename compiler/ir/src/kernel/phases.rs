//! The phases of a fused loop over rows.
//!
//! A value that a row combines to is known only after the whole row was walked; what is computed from it needs another walk. A phase
//! is one walk over a row.

use crate::kernel::{InstOp, Map};

/// What of a loop is computed when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// Whether each register is the same in a whole row.
    pub per_row: Vec<bool>,
    /// The phase in which each register is first known; what a row combines to is known in the phase after the walk.
    pub first: Vec<usize>,
    /// How many walks there are.
    pub count: usize,
}

impl Phases {
    /// The phases of a loop.
    pub fn of(map: &Map) -> Phases {
        let kept = map.shape.len() - map.folded;
        let mut phases = Phases {
            per_row: Vec::with_capacity(map.body.len()),
            first: Vec::with_capacity(map.body.len()),
            count: 1,
        };
        for inst in &map.body {
            let (per_row, first) = match &inst.op {
                InstOp::Const(_) | InstOp::Int(_) => (true, 0),
                InstOp::Load(load) => {
                    let view = &map.loads[*load];
                    // Without rows, what is the same everywhere.
                    let from = if map.folded == 0 { 0 } else { kept };
                    let still =
                        (from..map.shape.len()).all(|i| view.strides[i] == 0 || map.shape[i] == 1);
                    (still, 0)
                }
                InstOp::Reduce(_, register) => (true, phases.first[*register] + 1),
                InstOp::Prim(_, operands) => (
                    operands.iter().all(|o| phases.per_row[*o]),
                    operands.iter().map(|o| phases.first[*o]).max().unwrap_or(0),
                ),
            };
            phases.per_row.push(per_row);
            phases.first.push(first);
        }
        // The last walk is the last that combines or stores elements.
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

    /// Whether something is computed from what rows combine to, element by element.
    pub fn walks_again(&self) -> bool {
        self.count > 1
    }

    /// The registers that a walk needs for what it combines and stores. What is the same in a whole row is not followed further.
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
                InstOp::Prim(_, operands) if needed[i] && !self.per_row[i] => {
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
