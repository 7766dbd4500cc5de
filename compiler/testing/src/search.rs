//! Fuzzing driver: random graphs one after another, and a shrunk report of the first that fails.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::graph::Graph;

use crate::feeds::{Feeds, XorShift, feeds};
use crate::{mixed, shrink};

/// The seed of searches without `GRAPH_SEED`.
const DEFAULT_SEED: u64 = 20_260_101;

/// A search for a graph that fails.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// The seed of all graphs; `GRAPH_SEED` sets it.
    pub seed: u64,
    /// The number of graphs; `GRAPH_COUNT` sets it.
    pub count: u64,
    /// The first graph: a failure reports the number of its graph, and `GRAPH_FIRST` goes straight to it.
    pub first: u64,
}

impl Search {
    /// A search of `count` graphs, unless the environment says otherwise.
    ///
    /// # Panics
    ///
    /// When the environment has no number where there must be one.
    pub fn of(count: u64) -> Search {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
            Err(_) => default,
        };
        Search {
            seed: number("GRAPH_SEED", DEFAULT_SEED),
            count: number("GRAPH_COUNT", count),
            first: number("GRAPH_FIRST", 0),
        }
    }

    /// The bytes of a graph.
    pub fn bytes(&self, number: u64) -> Vec<u8> {
        let mut numbers = XorShift::new(self.seed ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        let length = 16 + numbers.below(120);
        (0..length).map(|_| numbers.below(256) as u8).collect()
    }

    /// Checks every graph; `check` also gets the number of the graph, to alternate between what it checks.
    ///
    /// # Panics
    ///
    /// When a check fails or panics; the message has the shrunk graph, and how to reproduce it.
    pub fn run(&self, name: &str, check: impl Fn(&Graph, &Feeds, u64) -> Result<(), String>) {
        let judge = |graph: &Graph, fed: &Feeds, number: u64| {
            catch_unwind(AssertUnwindSafe(|| check(graph, fed, number)))
                .unwrap_or_else(|panic| Err(message(&*panic)))
        };
        let generate = |bytes: &[u8], number: u64| {
            let graph = catch_unwind(|| mixed::make(bytes)).map_err(|panic| message(&*panic))?;
            let fed = feeds(&graph, number);
            Ok((graph, fed))
        };
        let outcome = |bytes: &[u8], number: u64| {
            generate(bytes, number).and_then(|(graph, fed)| judge(&graph, &fed, number))
        };
        for number in self.first..self.first + self.count {
            let bytes = self.bytes(number);
            let Err(first) = outcome(&bytes, number) else {
                continue;
            };
            let bytes = shrink::bytes(&bytes, |bytes| outcome(bytes, number).is_err());
            let mut report = format!(
                "{name}: graph {number} of seed {} fails\n{first}\n\n\
                 again: GRAPH_SEED={} GRAPH_FIRST={number} GRAPH_COUNT=1\nsmaller: {bytes:?}\n",
                self.seed, self.seed
            );
            if let Ok((graph, fed)) = generate(&bytes, number) {
                let (graph, fed) = shrink::graph(&graph, &fed, |graph, fed| {
                    judge(graph, fed, number).is_err()
                });
                let why = judge(&graph, &fed, number).err().unwrap_or_default();
                let _ = writeln!(report, "{why}\n{graph}");
                for (name, tensor) in &fed.inputs {
                    if graph.inputs().any(|(n, _)| n == name) {
                        let _ = writeln!(report, "{name} = {:.400}", tensor.to_string());
                    }
                }
                for (piece, tensor) in graph.state.iter().zip(&fed.state) {
                    let _ = writeln!(report, "{} = {:.400}", piece.name, tensor.to_string());
                }
            }
            panic!("{report}");
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panics: {}", text.unwrap_or("without a message"))
}
