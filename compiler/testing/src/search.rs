//! Many graphs, one after another, and what is told of the first that fails.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::graph::Graph;

use crate::feeds::{Feeds, Numbers, feeds};
use crate::{mixed, shrink};

/// The seed of searches that are asked for no other.
const SEED: u64 = 20_260_101;

/// A search for a graph that fails.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// What all graphs follow from; `GRAPH_SEED` sets it.
    pub seed: u64,
    /// How many there are; `GRAPH_COUNT` sets it.
    pub count: u64,
    /// Where to begin: a failure tells the number of its graph, and `GRAPH_FIRST` goes straight to it.
    pub first: u64,
}

impl Search {
    /// A search of so many graphs, unless the environment says otherwise.
    ///
    /// # Panics
    ///
    /// When the environment has no number where there must be one.
    pub fn of(count: u64) -> Search {
        let number = |name: &str, usual: u64| match std::env::var(name) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
            Err(_) => usual,
        };
        Search {
            seed: number("GRAPH_SEED", SEED),
            count: number("GRAPH_COUNT", count),
            first: number("GRAPH_FIRST", 0),
        }
    }

    /// The bytes of a graph.
    pub fn bytes(&self, number: u64) -> Vec<u8> {
        let mut numbers = Numbers::new(self.seed ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        let length = 16 + numbers.below(120);
        (0..length).map(|_| numbers.below(256) as u8).collect()
    }

    /// Checks every graph; `check` also gets the number of the graph, to take turns in what it looks at.
    ///
    /// # Panics
    ///
    /// When a check fails or panics; the message has the smallest graph that was found to fail, and how to come back to it.
    pub fn run(&self, name: &str, check: impl Fn(&Graph, &Feeds, u64) -> Result<(), String>) {
        let judge = |graph: &Graph, fed: &Feeds, number: u64| {
            catch_unwind(AssertUnwindSafe(|| check(graph, fed, number)))
                .unwrap_or_else(|panic| Err(message(&*panic)))
        };
        let made = |bytes: &[u8], number: u64| {
            let graph = catch_unwind(|| mixed::make(bytes)).map_err(|panic| message(&*panic))?;
            let fed = feeds(&graph, number);
            Ok((graph, fed))
        };
        let outcome = |bytes: &[u8], number: u64| {
            made(bytes, number).and_then(|(graph, fed)| judge(&graph, &fed, number))
        };
        for number in self.first..self.first + self.count {
            let bytes = self.bytes(number);
            let Err(first) = outcome(&bytes, number) else {
                continue;
            };
            let bytes = shrink::bytes(&bytes, |bytes| outcome(bytes, number).is_err());
            let mut told = format!(
                "{name}: graph {number} of seed {} fails\n{first}\n\n\
                 again: GRAPH_SEED={} GRAPH_FIRST={number} GRAPH_COUNT=1\nsmaller: {bytes:?}\n",
                self.seed, self.seed
            );
            if let Ok((graph, fed)) = made(&bytes, number) {
                let (graph, fed) = shrink::graph(&graph, &fed, |graph, fed| {
                    judge(graph, fed, number).is_err()
                });
                let why = judge(&graph, &fed, number).err().unwrap_or_default();
                let _ = writeln!(told, "{why}\n{graph}");
                for (name, tensor) in &fed.inputs {
                    if graph.inputs().any(|(n, _)| n == name) {
                        let _ = writeln!(told, "{name} = {:.400}", tensor.to_string());
                    }
                }
                for (piece, tensor) in graph.state.iter().zip(&fed.state) {
                    let _ = writeln!(told, "{} = {:.400}", piece.name, tensor.to_string());
                }
            }
            panic!("{told}");
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panics: {}", text.unwrap_or("without a message"))
}
