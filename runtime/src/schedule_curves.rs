//! The curves of schedules: their values at steps of a training that is not made.
//!
//! In: a spec and the sizes of its dimensions. Out: each schedule at some steps, by the interpreter. Leaves alone: state other than the
//! step, which no schedule reads.

use std::collections::BTreeMap;

use trainspec_compiler::ir::graph::{Node, NodeKind};
use trainspec_compiler::ir::{Tensor, interp, passes};
use trainspec_compiler::lower::{Binding, GLOBAL_STEP};
use trainspec_compiler::typed::Train;
use trainspec_compiler::{Fetch, ProgramKind, Trainable, pipeline};

/// The values of each schedule of a training at some steps, by name; those that cannot be computed ahead are left out.
pub(crate) fn schedule_curves(
    trainable: &Trainable,
    train: &Train,
    dims: &Binding,
    steps: &[u64],
) -> Vec<(String, Vec<f64>)> {
    let Ok(lowered) = pipeline::lower(trainable, ProgramKind::Step, dims) else {
        return Vec::new();
    };
    let curve = |name: &String| {
        let mut graph = lowered.graph.clone();
        let result = Fetch::Schedule(name.clone()).to_string();
        graph.results.retain(|(name, _)| *name == result);
        graph.writes.clear();
        let mut graph = passes::run(graph, &Default::default());
        // What a schedule does not read need not be fed.
        graph
            .nodes
            .retain(|node| !matches!(node.kind, NodeKind::Input(_)));
        let step = graph
            .state
            .iter()
            .position(|state| state.name == GLOBAL_STEP)?;
        let reads_other =
            |node: &Node| matches!(node.kind, NodeKind::Read(id) if id.index() != step);
        if graph.nodes.iter().any(reads_other) {
            return None;
        }
        // What is not read takes no memory.
        let mut state = vec![Tensor::scalar(0_i64); graph.state.len()];
        for (one, placeholder) in graph.state.iter_mut().zip(&state) {
            one.ty = placeholder.ty();
        }
        let values = steps.iter().map(|at| {
            state[step] = Tensor::scalar(i64::try_from(*at).ok()?);
            let outcome = interp::run(&graph, &BTreeMap::new(), &state).ok()?;
            outcome.results.first()?.to_f64s().first().copied()
        });
        Some((name.clone(), values.collect::<Option<Vec<f64>>>()?))
    };
    let names = train.schedules.iter().map(|(name, _)| name);
    names.filter_map(curve).collect()
}
