//! Common-subexpression elimination (CSE) by value numbering.
//!
//! In: a verified graph. Out: the same, with one node for all that apply the same operation to the same operands.
//! Leaves alone: inputs and reads, which differ by name, and large constants.

use std::collections::HashMap;
use std::fmt::Write;

use crate::build::{Builder, Value};
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
    seen: HashMap<String, Vec<ValueId>>,
}

impl Visit for Merge {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        let mut key = String::new();
        let formatted = match &node.kind {
            NodeKind::Input(_) | NodeKind::Read(_) => return None,
            NodeKind::Const(tensor) if tensor.ty().elements() > MAX_COMPARED_ELEMENTS => {
                return None;
            }
            NodeKind::Const(tensor) => write!(key, "const {tensor} : {}", tensor.ty()),
            NodeKind::Prim(prim, attrs) => write!(key, "{} {attrs:?}", prim.name),
            NodeKind::Scan(scan) => {
                write!(
                    key,
                    "scan {} {} {} {} {}",
                    scan.length, scan.reverse, scan.captures, scan.carries, scan.body
                )
            }
        };
        formatted.expect("a string takes all that is written");
        for operand in operands {
            write!(key, " %{}", operand.id().0).expect("a string takes all that is written");
        }
        if let Some(ids) = self.seen.get(&key) {
            return Some(ids.iter().map(|id| b.value(*id)).collect());
        }
        let results = b.clone_node(node, operands);
        self.seen
            .insert(key, results.iter().map(|v| v.id()).collect());
        Some(results)
    }
}
