//! Common-subexpression elimination (CSE) by value numbering.
//!
//! In: a verified graph. Out: the same, with one node for all that apply the same operation to the same operands.
//! Leaves alone: inputs and reads, which differ by name, and large constants.

use std::collections::HashMap;

use crate::build::{Builder, Value};
use crate::graph::identity::OpKey;
use crate::graph::{Graph, Node, NodeKind, ValueId};
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_loop_bodies, rebuild};

pub(super) const PASS: Pass = Pass {
    name: "merge-duplicates",
    doc: "computes the same thing once",
    run,
};

/// Larger constants, in elements, are not compared.
const MAX_COMPARED_ELEMENTS: usize = 4096;

fn run(graph: Graph) -> Graph {
    rebuild(in_loop_bodies(graph, run), &mut Merge::default())
}

#[derive(Default)]
struct Merge {
    /// The results of each operation on its operands.
    seen: HashMap<(OpKey, Vec<ValueId>), Vec<ValueId>>,
}

impl Visit for Merge {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        match &node.kind {
            NodeKind::Input(_) | NodeKind::Read(_) => return None,
            NodeKind::Const(tensor) if tensor.ty().elements() > MAX_COMPARED_ELEMENTS => {
                return None;
            }
            NodeKind::Const(_) | NodeKind::Prim(..) | NodeKind::Scan(_) => {}
        }
        let operand_ids = operands.iter().map(|v| v.id()).collect();
        let key = (OpKey::of(&node.kind), operand_ids);
        if let Some(ids) = self.seen.get(&key) {
            return Some(ids.iter().map(|id| b.value(*id)).collect());
        }
        let results = b.clone_node(node, operands);
        self.seen
            .insert(key, results.iter().map(|v| v.id()).collect());
        Some(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Data, Tensor};

    /// How many constants remain of two.
    fn merged(a: Data, b: Data) -> usize {
        let builder = Builder::new("constants");
        builder.result("a", builder.constant(Tensor::of(&[1], a)));
        builder.result("b", builder.constant(Tensor::of(&[1], b)));
        run(builder.finish()).nodes.len()
    }

    #[test]
    fn constants_are_merged_by_their_bits() {
        let float = |x: f32| Data::F32(vec![x]);
        assert_eq!(merged(float(1.5), float(1.5)), 1);
        assert_eq!(merged(float(f32::NAN), float(f32::NAN)), 1);
        assert_eq!(merged(float(0.0), float(-0.0)), 2);
        assert_eq!(merged(float(1.0), Data::F64(vec![1.0])), 2);
        let string = |byte: u8| Data::String(vec![vec![byte]]);
        assert_eq!(merged(string(0xfe), string(0xfe)), 1);
        // Neither is UTF-8, so both are printed as a replacement character.
        assert_eq!(merged(string(0xfe), string(0xff)), 2);
    }
}
