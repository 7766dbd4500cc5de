//! Removes nodes nothing reads (DCE).
//!
//! In: a verified graph. Out: the same, minus nodes no result or state write reaches. Loops lose the captures, carried values,
//! elements and yields that nothing needs.
//! Leaves alone: state writes, even when nothing reads the state; inputs, so that a graph is fed the same way before and after.

use crate::graph::{Graph, Node, NodeKind, Scan, ValueId};
use crate::passes::Pass;

pub(super) const PASS: Pass = Pass {
    name: "drop-dead-nodes",
    doc: "removes what no result and no state needs",
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
            trim(node, &live);
        }
        node.operands.iter().for_each(|v| live[v.index()] = true);
    }
    let needed = |n: &Node| {
        matches!(n.kind, NodeKind::Input(_)) || n.results.iter().any(|v| live[v.index()])
    };
    graph.nodes.retain(needed);
    graph.renumbered()
}

/// Takes out of a loop what nothing needs, given which of its results are needed.
fn trim(node: &mut Node, live: &[bool]) {
    let Node {
        kind,
        operands,
        results,
        ..
    } = node;
    let NodeKind::Scan(scan) = kind else {
        return;
    };
    let needed = needed_results(scan, results, live);
    let keep = |list: &mut Vec<(String, ValueId)>| {
        let mut i = 0;
        list.retain(|_| {
            i += 1;
            needed[i - 1]
        });
    };
    keep(&mut scan.body.results);
    let kept_carries: Vec<bool> = needed[..scan.carries].to_vec();
    let mut i = 0;
    results.retain(|_| {
        i += 1;
        needed[i - 1]
    });

    // What is left of the round says which of its inputs are needed; carried values are needed with their next ones.
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    let body = run(std::mem::take(&mut scan.body));
    let mut used = vec![false; body.types.len()];
    let ends = body.results.iter().map(|(_, v)| v);
    body.nodes
        .iter()
        .flat_map(|n| &n.operands)
        .chain(ends)
        .for_each(|v| used[v.index()] = true);
    let places: Vec<ValueId> = body.inputs().map(|(_, v)| v).collect();
    debug_assert_eq!(inputs.len(), places.len());
    let first_element = scan.captures + scan.carries;
    let stays = |i: usize| match i {
        i if i < scan.captures => used[places[i].index()],
        i if i < first_element => kept_carries[i - scan.captures],
        i if i < places.len() - 1 => used[places[i].index()],
        _ => true,
    };
    let stays: Vec<bool> = (0..places.len()).map(stays).collect();
    let mut body = body;
    let mut i = 0;
    body.nodes.retain(|n| {
        let is_input = matches!(n.kind, NodeKind::Input(_));
        i += usize::from(is_input);
        !is_input || stays[i - 1]
    });
    scan.body = body.renumbered();
    let mut i = 0;
    operands.retain(|_| {
        i += 1;
        stays[i - 1]
    });
    scan.captures = stays[..scan.captures].iter().filter(|s| **s).count();
    scan.carries = kept_carries.iter().filter(|s| **s).count();
}

/// Which results of the round are needed: yields that are read, and carried values that are read or that something needed
/// depends on in a later round.
fn needed_results(scan: &Scan, results: &[ValueId], live: &[bool]) -> Vec<bool> {
    let mut needed: Vec<bool> = results.iter().map(|v| live[v.index()]).collect();
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    loop {
        let mut used = vec![false; scan.body.types.len()];
        for ((_, value), needed) in scan.body.results.iter().zip(&needed) {
            used[value.index()] |= needed;
        }
        for node in scan.body.nodes.iter().rev() {
            if node.results.iter().any(|v| used[v.index()]) {
                node.operands.iter().for_each(|v| used[v.index()] = true);
            }
        }
        let carried = |i: &usize| used[inputs[scan.captures + i].index()] && !needed[*i];
        let grown: Vec<usize> = (0..scan.carries).filter(carried).collect();
        if grown.is_empty() {
            return needed;
        }
        grown.into_iter().for_each(|i| needed[i] = true);
    }
}
