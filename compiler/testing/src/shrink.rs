//! Test-case reduction (shrinking, delta debugging): smaller bytes and graphs that still fail.

use trainspec_ir::graph::{Graph, NodeKind};
use trainspec_ir::{passes, text};

use crate::compare::interpreted;
use crate::feeds::Feeds;
use crate::noise::with_every_value;

/// The maximum number of candidates that are tried.
const MAX_ATTEMPTS: usize = 200;

/// Fewer and smaller bytes that still fail.
pub fn bytes(start: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = start.to_vec();
    let mut attempts_left = MAX_ATTEMPTS;
    let mut attempt = |best: &mut Vec<u8>, candidate: Vec<u8>| {
        if attempts_left == 0 || candidate == *best {
            return false;
        }
        attempts_left -= 1;
        let smaller = fails(&candidate);
        if smaller {
            *best = candidate;
        }
        smaller
    };
    let mut step = best.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < best.len() {
            let end = (at + step).min(best.len());
            let without = [&best[..at], &best[end..]].concat();
            let mut zeros = best.clone();
            zeros[at..end].fill(0);
            if !attempt(&mut best, without) {
                attempt(&mut best, zeros);
                at += step;
            }
        }
        if step == 1 {
            return best;
        }
        step = step.div_ceil(2);
    }
}

/// A graph with fewer results, writes and nodes that still fails: a node is replaced by an input with its value.
pub fn graph(
    start: &Graph,
    feeds: &Feeds,
    mut fails: impl FnMut(&Graph, &Feeds) -> bool,
) -> (Graph, Feeds) {
    let (mut best, mut feeds) = (start.clone(), feeds.clone());
    let drop_dead = passes::find("drop-dead-nodes").expect("there is such a pass");
    for i in (0..best.results.len()).rev() {
        let mut candidate = best.clone();
        candidate.results.remove(i);
        if fails(&candidate, &feeds) {
            best = candidate;
        }
    }
    for i in (0..best.writes.len()).rev() {
        let mut candidate = best.clone();
        candidate.writes.remove(i);
        if fails(&candidate, &feeds) {
            best = candidate;
        }
    }
    let simple = (drop_dead.run)(best.clone());
    if fails(&simple, &feeds) {
        best = simple;
    }
    let mut attempts_left = MAX_ATTEMPTS;
    let mut index = best.nodes.len();
    while index > 0 && attempts_left > 0 {
        index -= 1;
        let Some(node) = best.nodes.get(index) else {
            continue;
        };
        let replaceable =
            matches!(node.kind, NodeKind::Prim(..) | NodeKind::Scan(_)) && node.results.len() == 1;
        let Ok(values) = interpreted(&with_every_value(&best), &feeds) else {
            break;
        };
        if !replaceable {
            continue;
        }
        attempts_left -= 1;
        let v = node.results[0];
        let value = &values.results[best.results.len() + v.index()].1;
        let mut candidate = best.clone();
        let mut fed = feeds.clone();
        let name = format!("v{}", fed.inputs.len());
        fed.inputs.insert(name.clone(), value.clone());
        candidate.nodes[index].kind = NodeKind::Input(name);
        candidate.nodes[index].operands.clear();
        let candidate = (drop_dead.run)(candidate);
        if fails(&candidate, &fed) {
            (best, feeds) = (candidate, fed);
            index = index.min(best.nodes.len());
        }
    }
    // The report is the textual form, which must parse.
    debug_assert!(text::parse(&best.to_string()).is_ok());
    (best, feeds)
}

#[cfg(test)]
mod tests {
    use trainspec_ir::DType;
    use trainspec_ir::build::Builder;
    use trainspec_ir::graph::Type;

    use super::*;
    use crate::feeds::feeds;

    #[test]
    fn shrinking_leaves_the_failing_part_and_little_else() {
        let many: Vec<u8> = (0..100).collect();
        assert_eq!(bytes(&many, |some| some.contains(&42)), [42]);

        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[4]));
        b.result("a", x.exp().sin().erf());
        b.result("b", x.cos());
        let start = b.finish();
        let fed = feeds(&start, 1);
        let drop_dead = passes::find("drop-dead-nodes").unwrap();
        let has_sin = |graph: &Graph| {
            let live = (drop_dead.run)(graph.clone());
            live.to_string().contains("sin(")
        };
        let (small, _) = graph(&start, &fed, |graph, _| has_sin(graph));
        assert!(has_sin(&small));
        assert_eq!(small.nodes.len(), 4, "{small}"); // inputs, the sine, and the result that it leads to
    }
}
