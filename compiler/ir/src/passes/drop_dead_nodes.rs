//! Dead-code elimination (DCE).
//!
//! In: a verified graph. Out: the same, minus nodes that no result or state write depends on. Loops lose their dead captures,
//! carried values, elements and yields.
//! Leaves alone: state writes, even when nothing reads the state; inputs, so that a graph is fed the same way before and after.

use crate::graph::{Graph, Node, NodeKind, Scan, ValueId};
use crate::passes::Pass;

pub(super) const PASS: Pass = Pass {
    name: "drop-dead-nodes",
    doc: "removes dead code: nodes that no result and no state write depends on",
    run,
};

fn run(mut graph: Graph) -> Graph {
    let mut live = vec![false; graph.types.len()];
    for value in graph
        .results
        .iter()
        .map(|(_, v)| *v)
        .chain(graph.writes.iter().map(|w| w.value))
    {
        live[value.index()] = true;
    }
    for node in graph.nodes.iter_mut().rev() {
        if !node.results.iter().any(|v| live[v.index()]) {
            continue;
        }
        if matches!(node.kind, NodeKind::Scan(_)) {
            eliminate_in_scan(node, &live);
        }
        node.operands.iter().for_each(|v| live[v.index()] = true);
    }
    let is_live = |n: &Node| {
        matches!(n.kind, NodeKind::Input(_)) || n.results.iter().any(|v| live[v.index()])
    };
    graph.nodes.retain(is_live);
    graph.renumbered()
}

/// Eliminates dead code, and the inputs that nothing depends on: what is left is fed with less.
pub fn drop_dead_inputs(graph: Graph) -> Graph {
    let mut graph = run(graph);
    let mut used = vec![false; graph.types.len()];
    let operands = graph.nodes.iter().flat_map(|node| &node.operands);
    let results = graph.results.iter().map(|(_, value)| value);
    let writes = graph.writes.iter().map(|write| &write.value);
    for value in operands.chain(results).chain(writes) {
        used[value.index()] = true;
    }
    let is_used =
        |node: &Node| !matches!(node.kind, NodeKind::Input(_)) || used[node.results[0].index()];
    graph.nodes.retain(is_used);
    graph.renumbered()
}

/// Eliminates dead code in a loop, given which values of the graph are live.
fn eliminate_in_scan(node: &mut Node, live: &[bool]) {
    let Node {
        kind,
        operands,
        results,
        ..
    } = node;
    let NodeKind::Scan(scan) = kind else {
        return;
    };
    let live_results = live_results(scan, results, live);
    let keep = |list: &mut Vec<(String, ValueId)>| {
        let mut i = 0;
        list.retain(|_| {
            i += 1;
            live_results[i - 1]
        });
    };
    keep(&mut scan.body.results);
    let live_carries: Vec<bool> = live_results[..scan.carries].to_vec();
    let mut i = 0;
    results.retain(|_| {
        i += 1;
        live_results[i - 1]
    });

    // The uses that are left in the body decide which of its inputs are live; carried values are live with their next ones.
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    let body = run(std::mem::take(&mut scan.body));
    let mut used = vec![false; body.types.len()];
    let outputs = body.results.iter().map(|(_, v)| v);
    body.nodes
        .iter()
        .flat_map(|n| &n.operands)
        .chain(outputs)
        .for_each(|v| used[v.index()] = true);
    let body_inputs: Vec<ValueId> = body.inputs().map(|(_, v)| v).collect();
    debug_assert_eq!(inputs.len(), body_inputs.len());
    let first_element = scan.captures + scan.carries;
    let is_live = |i: usize| match i {
        i if i < scan.captures => used[body_inputs[i].index()],
        i if i < first_element => live_carries[i - scan.captures],
        i if i < body_inputs.len() - 1 => used[body_inputs[i].index()],
        _ => true,
    };
    let live_inputs: Vec<bool> = (0..body_inputs.len()).map(is_live).collect();
    let mut body = body;
    let mut i = 0;
    body.nodes.retain(|n| {
        let is_input = matches!(n.kind, NodeKind::Input(_));
        i += usize::from(is_input);
        !is_input || live_inputs[i - 1]
    });
    scan.body = body.renumbered();
    let mut i = 0;
    operands.retain(|_| {
        i += 1;
        live_inputs[i - 1]
    });
    scan.captures = live_inputs[..scan.captures].iter().filter(|s| **s).count();
    scan.carries = live_carries.iter().filter(|s| **s).count();
}

/// Liveness of the results of the body: yields that are used, and carried values that are used or that something live
/// depends on in a later iteration (a fixed point).
fn live_results(scan: &Scan, results: &[ValueId], live: &[bool]) -> Vec<bool> {
    let mut live: Vec<bool> = results.iter().map(|v| live[v.index()]).collect();
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    loop {
        let mut used = vec![false; scan.body.types.len()];
        for ((_, value), live) in scan.body.results.iter().zip(&live) {
            used[value.index()] |= live;
        }
        for node in scan.body.nodes.iter().rev() {
            if node.results.iter().any(|v| used[v.index()]) {
                node.operands.iter().for_each(|v| used[v.index()] = true);
            }
        }
        let carried = |i: &usize| used[inputs[scan.captures + i].index()] && !live[*i];
        let grown: Vec<usize> = (0..scan.carries).filter(carried).collect();
        if grown.is_empty() {
            return live;
        }
        grown.into_iter().for_each(|i| live[i] = true);
    }
}
