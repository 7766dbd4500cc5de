//! Optimization passes, graph to graph, one file each; they run after autodiff.
//!
//! No pass changes a result beyond rounding: not-a-numbers, infinities and signed zeros stay where they are. Each can be
//! switched off by its name.

mod drop_dead_nodes;
mod drop_gradient_marks;
mod fold_constants;
mod freeze;
mod merge_duplicates;
mod rebuild;
mod simplify_algebra;
mod split_sums;

pub use drop_dead_nodes::drop_dead_inputs;
pub use freeze::{Frozen, freeze};

use std::collections::BTreeSet;

use crate::graph::{Graph, verify};

/// A pass.
#[derive(Debug)]
pub struct Pass {
    /// The name, as `--disable-pass` takes it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// Runs it on the graph and on the bodies of its loops.
    pub run: fn(Graph) -> Graph,
}

/// All passes, in the order in which they run.
pub const PASSES: &[Pass] = &[
    drop_gradient_marks::PASS, // first: exposes the operands to every rewrite below
    fold_constants::PASS,      // feeds the algebraic rewrites
    simplify_algebra::PASS,    // looks for folded zeros and ones
    split_sums::PASS,          // duplicates elementwise nodes in another shape
    merge_duplicates::PASS,    // all above make nodes equal
    drop_dead_nodes::PASS,     // all above leave dead code
];

/// The pass of that name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}

/// Runs all passes but those whose names are given.
///
/// # Panics
///
/// In debug builds, when a pass breaks an invariant of graphs; the message names it.
///
/// ```
/// use trainspec_ir::{DType, build::Builder, graph::Type, passes};
///
/// let b = Builder::new("g");
/// let x = b.input("x", &Type::new(DType::F32, &[4]));
/// b.result("y", x * 1.0 + x * 1.0);
/// let graph = passes::run(b.finish(), &Default::default());
/// assert_eq!(graph.nodes.len(), 2); // the input and one sum
/// ```
pub fn run(graph: Graph, disabled: &BTreeSet<String>) -> Graph {
    let mut graph = graph;
    for pass in PASSES.iter().filter(|p| !disabled.contains(p.name)) {
        graph = (pass.run)(graph);
        if cfg!(debug_assertions)
            && let Err(error) = verify(&graph)
        {
            panic!(
                "the pass `{}` breaks the graph: {error}\n{graph}",
                pass.name
            );
        }
    }
    graph
}
