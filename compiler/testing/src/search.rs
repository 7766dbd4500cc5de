//! Fuzzing driver: random graphs by seed and number, and the shrunk form of one that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::graph::Graph;

use crate::feeds::{Feeds, feeds};
use crate::regression::Regression;
use crate::xorshift::XorShift;
use crate::{mixed, shrink};

/// An endless sequence of random graphs.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// The seed of all graphs.
    pub seed: u64,
}

impl Search {
    /// The bytes of a graph.
    pub fn bytes(&self, number: u64) -> Vec<u8> {
        let mut numbers = XorShift::new(self.seed ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        let length = 16 + numbers.below(120);
        (0..length).map(|_| numbers.below(256) as u8).collect()
    }

    /// Checks one graph. When the check fails or panics, the result is the shrunk graph as the text of a `.graph` file, whose comment
    /// says why.
    pub fn failure(
        &self,
        number: u64,
        check: impl Fn(&Graph, &Feeds) -> Result<(), String>,
    ) -> Option<String> {
        let judge = |graph: &Graph, fed: &Feeds| {
            catch_unwind(AssertUnwindSafe(|| check(graph, fed)))
                .unwrap_or_else(|panic| Err(message(&*panic)))
        };
        let generate = |bytes: &[u8]| {
            let graph = catch_unwind(|| mixed::make(bytes)).map_err(|panic| message(&*panic))?;
            let fed = feeds(&graph, number);
            Ok((graph, fed))
        };
        let outcome = |bytes: &[u8]| generate(bytes).and_then(|(graph, fed)| judge(&graph, &fed));
        let bytes = self.bytes(number);
        let first = outcome(&bytes).err()?;
        let origin = format!("Graph {number} of seed {}: {first}", self.seed);
        let bytes = shrink::bytes(&bytes, |bytes| outcome(bytes).is_err());
        let Ok((graph, fed)) = generate(&bytes) else {
            return Some(format!("{origin}\nthe generator fails on {bytes:?}"));
        };
        let (graph, feeds) = shrink::graph(&graph, &fed, |graph, fed| judge(graph, fed).is_err());
        let comment = match judge(&graph, &feeds) {
            Err(why) if why != first => format!("{origin}\nShrunk: {why}"),
            _ => origin,
        };
        let regression = Regression {
            comment,
            graph,
            feeds,
        };
        Some(regression.to_string())
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panics: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_as_a_shrunk_regression() {
        let search = Search { seed: 1 };
        let has_exp = |graph: &Graph| graph.to_string().contains("exp(");
        let check = |graph: &Graph, _: &Feeds| match has_exp(graph) {
            true => panic!("an exponential"),
            false => Ok(()),
        };
        let found: Vec<String> = (0..40).filter_map(|n| search.failure(n, check)).collect();
        assert!(!found.is_empty() && found.len() < 40, "{}", found.len());
        for text in found {
            let regression = Regression::parse(&text).unwrap();
            assert!(has_exp(&regression.graph), "{text}");
            assert!(regression.comment.ends_with("panics: an exponential"));
        }
    }
}
