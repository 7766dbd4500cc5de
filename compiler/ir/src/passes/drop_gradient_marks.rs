//! Removes what matters to differentiation alone: `stop_gradient` and `straight_through`.
//!
//! In: a graph whose gradients are made. Out: the same, with the values that these nodes pass on in their place.

use crate::build::{Builder, Value};
use crate::graph::{Graph, Node, NodeKind};
use crate::ops::prims;
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_rounds, rebuild};

pub(super) const PASS: Pass = Pass {
    name: "drop-gradient-marks",
    doc: "removes `stop_gradient` and `straight_through`, which matter to differentiation alone",
    run,
};

fn run(graph: Graph) -> Graph {
    rebuild(in_rounds(graph, run), &mut Marks)
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
