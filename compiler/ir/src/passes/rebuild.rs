//! Rewriting: rebuilds a graph node by node, with a visitor that replaces nodes.

use crate::build::{Builder, Value};
use crate::graph::{Graph, Node, NodeKind};

/// A rewrite: the values that replace the results of a node, or `None` to copy the node.
pub(super) trait Visit {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>>;
}

/// Rebuilds a graph with each node replaced as `visit` says. Loop bodies are not entered.
pub(super) fn rebuild(graph: Graph, visit: &mut impl Visit) -> Graph {
    let b = Builder::new(&graph.name);
    b.adopt_state(&graph.state);
    let mut values: Vec<Option<Value<'_>>> = vec![None; graph.types.len()];
    for node in &graph.nodes {
        b.at(node.span);
        let operand = |v: &crate::graph::ValueId| {
            values[v.index()].expect("values are defined before they are used")
        };
        let operands: Vec<Value<'_>> = node.operands.iter().map(operand).collect();
        let results = visit.visit(&b, node, &operands).unwrap_or_else(|| {
            let types = node.results.iter().map(|v| graph.ty(*v).clone()).collect();
            b.copy(node, &operands, types)
        });
        for (id, value) in node.results.iter().zip(results) {
            debug_assert_eq!(value.ty(), *graph.ty(*id), "a value keeps its type");
            values[id.index()] = Some(value);
        }
    }
    let value = |v: crate::graph::ValueId| values[v.index()].expect("results are defined");
    for write in &graph.writes {
        b.at(write.span);
        b.write(&graph.state[write.state.index()].name, value(write.value));
    }
    for (name, v) in &graph.results {
        b.result(name, value(*v));
    }
    b.finish()
}

/// Runs a pass on the bodies of all loops, innermost first.
pub(super) fn in_loop_bodies(mut graph: Graph, run: fn(Graph) -> Graph) -> Graph {
    for node in &mut graph.nodes {
        if let NodeKind::Scan(scan) = &mut node.kind {
            scan.body = run(std::mem::take(&mut scan.body));
        }
    }
    graph
}
