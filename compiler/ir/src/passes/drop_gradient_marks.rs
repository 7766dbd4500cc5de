//! Removes the identity nodes that only autodiff interprets: `stop_gradient` and `straight_through`.
//!
//! In: a graph whose gradients are built. Out: the same, with these nodes replaced by the operands that they pass on.

use crate::build::{Builder, Value};
use crate::graph::{Graph, Node, NodeKind};
use crate::ops::prims;
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_loop_bodies, rebuild};

pub(super) const PASS: Pass = Pass {
    name: "drop-gradient-marks",
    doc: "removes `stop_gradient` and `straight_through`, which matter to differentiation alone",
    run,
};

fn run(graph: Graph) -> Graph {
    rebuild(in_loop_bodies(graph, run), &mut Marks)
}

struct Marks;

impl Visit for Marks {
    fn visit<'g>(
        &mut self,
        _: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        match &node.kind {
            NodeKind::Prim(prim, _)
                if [&prims::STOP_GRADIENT, &prims::STRAIGHT_THROUGH].contains(prim) =>
            {
                Some(vec![operands[0]])
            }
            _ => None,
        }
    }
}
