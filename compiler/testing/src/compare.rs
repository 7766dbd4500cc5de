//! When a run of a graph agrees with the interpreter's.
//!
//! Integers and truths are equal; floats are as close as rounding explains, which [`noise`](crate::noise) measures for the graph at
//! hand where they are not next to each other.

use std::borrow::Cow;
use std::cell::OnceCell;

use trainspec_ir::graph::{Graph, NodeKind};
use trainspec_ir::interp::{self, RunError};
use trainspec_ir::{DType, Tensor, passes};

use crate::feeds::Feeds;
use crate::noise::{epsilon, noisy};

/// What a run leaves behind.
#[derive(Debug, Clone)]
pub struct After {
    /// The results, by name and in order.
    pub results: Vec<(String, Tensor)>,
    /// All state, in the order of the graph.
    pub state: Vec<Tensor>,
}

impl After {
    /// The results and the state, each with what it is called.
    fn all(&self) -> impl Iterator<Item = (String, &Tensor)> {
        let results = self.results.iter().map(|(n, t)| (format!("`{n}`"), t));
        let state = self.state.iter().enumerate();
        results.chain(state.map(|(i, t)| (format!("state {i}"), t)))
    }
}

/// A run by the interpreter.
pub fn interpreted(graph: &Graph, feeds: &Feeds) -> Result<After, RunError> {
    let outcome = interp::run(graph, &feeds.inputs, &feeds.state)?;
    let names = graph.results.iter().map(|(name, _)| name.clone());
    let mut state = feeds.state.clone();
    for (place, value) in outcome.writes {
        state[place] = value;
    }
    Ok(After {
        results: names.zip(outcome.results).collect(),
        state,
    })
}

/// The interpreter's run of a graph, with which others are compared.
#[derive(Debug)]
pub struct Reference<'a> {
    graph: Cow<'a, Graph>,
    feeds: &'a Feeds,
    /// What it left behind.
    expected: Result<After, RunError>,
    /// Why something fails that nothing needs: a run that leaves it out has no fault.
    needless: Option<RunError>,
    noisy: [OnceCell<Vec<Result<After, RunError>>>; 2],
}

/// The graph without what no result and no state needs.
fn needed(graph: &Graph) -> Graph {
    let others = passes::PASSES.iter().map(|p| p.name.to_owned());
    let others = others.filter(|name| name != "drop-dead-nodes").collect();
    passes::run(graph.clone(), &others)
}

/// How many times a graph is run with noise: a few times explain most differences, more are made before one is called a mistake.
const RUNS: [u64; 2] = [4, 40];

impl<'a> Reference<'a> {
    /// Runs a graph.
    pub fn new(graph: &'a Graph, feeds: &'a Feeds) -> Reference<'a> {
        let mut graph = Cow::Borrowed(graph);
        let (mut expected, mut needless) = (interpreted(&graph, feeds), None);
        if let Err(fault) = &expected {
            needless = Some(fault.clone());
            graph = Cow::Owned(needed(&graph));
            expected = interpreted(&graph, feeds);
        }
        Reference {
            graph,
            feeds,
            expected,
            needless,
            noisy: Default::default(),
        }
    }

    fn noisy(&self, effort: usize) -> &[Result<After, RunError>] {
        let run = |seed| interpreted(&noisy(&self.graph, seed), self.feeds);
        self.noisy[effort].get_or_init(|| (1..=RUNS[effort]).map(run).collect())
    }

    /// Says where another run differs by more than rounding.
    pub fn check(&self, found: &Result<After, RunError>) -> Result<(), String> {
        self.check_with(found, 0)
            .or_else(|_| self.check_with(found, 1))
    }

    fn check_with(&self, found: &Result<After, RunError>, effort: usize) -> Result<(), String> {
        let (expected, found) = match (&self.expected, found) {
            (Err(a), Err(b)) if a.message == b.message => return Ok(()),
            (Ok(expected), Ok(found)) => (expected, found),
            (_, Err(found)) if self.needless.as_ref() == Some(found) => return Ok(()),
            (expected, found) => {
                let failed = |r: &Result<After, RunError>| r.as_ref().err().cloned();
                let (a, b) = (failed(expected), failed(found));
                if self
                    .noisy(effort)
                    .iter()
                    .any(|n| failed(n).is_some() != a.is_some())
                {
                    return Ok(());
                }
                return Err(format!("one fails with {a:?}, the other with {b:?}"));
            }
        };
        for (place, ((name, a), (_, b))) in expected.all().zip(found.all()).enumerate() {
            if a.ty() != b.ty() {
                return Err(format!("{name} is {}, but was {}", a.ty(), b.ty()));
            }
            let differs = match a.dtype().is_float() {
                true => self.floats(place, a, b, effort),
                false => self.exact(place, a, b, effort),
            };
            if let Some((i, why)) = differs {
                return Err(format!("{name} differs at {i}: {why}"));
            }
        }
        Ok(())
    }

    /// The values of a tensor in the runs with noise that have an end.
    fn samples(&self, place: usize, effort: usize) -> Vec<&Tensor> {
        self.noisy(effort)
            .iter()
            .flatten()
            .map(|after| {
                let n = after.results.len();
                match place < n {
                    true => &after.results[place].1,
                    false => &after.state[place - n],
                }
            })
            .collect()
    }

    fn exact(
        &self,
        place: usize,
        a: &Tensor,
        b: &Tensor,
        effort: usize,
    ) -> Option<(usize, String)> {
        if a == b {
            return None;
        }
        let (a, b) = (a.to_i64s(), b.to_i64s());
        let samples: Vec<Vec<i64>> = self
            .samples(place, effort)
            .iter()
            .map(|t| t.to_i64s())
            .collect();
        let wrong = (0..a.len()).find(|i| a[*i] != b[*i] && samples.iter().all(|s| s[*i] == a[*i]));
        wrong.map(|i| (i, format!("{} became {}", a[i], b[i])))
    }

    /// Whether the graph has sums of many terms.
    fn adds_up(&self) -> bool {
        let sums = |node: &trainspec_ir::graph::Node| match &node.kind {
            NodeKind::Prim(prim, _) => ["matmul", "conv2d", "sum", "scatter", "segment", "mean"]
                .iter()
                .any(|name| prim.name.contains(name)),
            NodeKind::Scan(_) => true,
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => false,
        };
        self.graph.nodes.iter().any(sums)
    }

    fn floats(
        &self,
        place: usize,
        a: &Tensor,
        b: &Tensor,
        effort: usize,
    ) -> Option<(usize, String)> {
        let dtype = a.dtype();
        let (a, b) = (a.to_f64s(), b.to_f64s());
        let far: Vec<usize> = (0..a.len())
            .filter(|i| !close(dtype, a[*i], b[*i]))
            .collect();
        if far.is_empty() {
            return None;
        }
        let samples: Vec<Vec<f64>> = self
            .samples(place, effort)
            .iter()
            .map(|t| t.to_f64s())
            .collect();
        for i in far {
            let finite = |x: f64| x.is_finite();
            if samples.iter().any(|s| finite(s[i]) != finite(a[i])) {
                // It may as well be infinite or nothing at all.
                continue;
            }
            if a[i].is_infinite() && b[i].is_nan() && self.adds_up() {
                // Parts of the sum were infinite with either sign; the interpreter adds in f64 and only the whole is.
                continue;
            }
            let spread = samples.iter().map(|s| (s[i] - a[i]).abs());
            let spread = spread.fold(0.0, f64::max);
            if finite(a[i]) && (b[i] - a[i]).abs() <= 4.0 * spread {
                continue;
            }
            let why = format!("{:?} became {:?}, rounding explains {spread:?}", a[i], b[i]);
            return Some((i, why));
        }
        None
    }
}

/// Whether two floats are next to each other: a few of the last places, or both too small to have all places.
fn close(dtype: DType, a: f64, b: f64) -> bool {
    let tiny = match dtype {
        DType::F16 => 2.0_f64.powi(-24),
        DType::Bf16 | DType::F32 => f64::from(f32::MIN_POSITIVE),
        _ => f64::MIN_POSITIVE,
    };
    let places = match dtype {
        DType::F16 | DType::Bf16 => 1.0,
        _ => 8.0,
    };
    a == b
        || (a.is_nan() && b.is_nan())
        || (a - b).abs() <= places * epsilon(dtype) * a.abs().min(b.abs()) + 4.0 * tiny
}

/// Says where the bits of two runs differ; one NaN is as good as another. Results are compared by name, those that only one has are left
/// alone.
pub fn same_bits(a: &Result<After, RunError>, b: &Result<After, RunError>) -> Result<(), String> {
    let (a, b) = match (a, b) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(a), Err(b)) if a == b => return Ok(()),
        (a, b) => {
            let (a, b) = (a.as_ref().err(), b.as_ref().err());
            return Err(format!("one fails with {a:?}, the other with {b:?}"));
        }
    };
    for (name, a) in a.all() {
        let Some((_, b)) = b.all().find(|(n, _)| *n == name) else {
            continue;
        };
        if a.ty() != b.ty() {
            return Err(format!("{name} is {}, but was {}", a.ty(), b.ty()));
        }
        let (a, b) = (bits(a), bits(b));
        if let Some(i) = (0..a.len()).find(|i| a[*i] != b[*i]) {
            let shown = |x: u64| f64::from_bits(x);
            return Err(format!(
                "{name} has other bits at {i}: {:?} ({:#x}) and {:?} ({:#x})",
                shown(a[i]),
                a[i],
                shown(b[i]),
                b[i]
            ));
        }
    }
    Ok(())
}

/// The elements as bits, one pattern for all NaN.
pub fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype().is_float() {
        true => {
            let one = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
            tensor.to_f64s().into_iter().map(one).collect()
        }
        false => tensor.to_i64s().into_iter().map(|n| n as u64).collect(),
    }
}

#[cfg(test)]
mod tests {
    use trainspec_ir::build::Builder;
    use trainspec_ir::graph::Type;

    use super::*;
    use crate::feeds::feeds;

    #[test]
    fn a_wrong_element_is_told_and_a_rounded_one_is_not() {
        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[64]));
        b.result("y", x.exp());
        b.result("positive", x.greater(x.like(0.0)));
        let graph = b.finish();
        let feeds = feeds(&graph, 1);
        let reference = Reference::new(&graph, &feeds);
        let right = interpreted(&graph, &feeds).unwrap();
        let with = |factor: f64| {
            let mut after = right.clone();
            let y = &mut after.results[0].1;
            y.values_mut::<f32>().unwrap()[7] *= factor as f32;
            Ok(after)
        };
        assert_eq!(reference.check(&with(1.0)), Ok(()));
        assert_eq!(reference.check(&with(1.0 + 3e-7)), Ok(()));
        assert!(reference.check(&with(1.0 + 1e-5)).is_err());
        assert!(reference.check(&with(f64::NAN)).is_err());
        assert!(same_bits(&with(1.0), &with(1.0 + 3e-7)).is_err());
        let mut wrong = right.clone();
        let truths = wrong.results[1].1.values_mut::<bool>().unwrap();
        truths[3] = !truths[3];
        assert!(reference.check(&Ok(wrong)).is_err());
    }

    #[test]
    fn a_sum_may_err_by_last_places_of_its_terms_and_no_more() {
        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[1000]));
        // Terms of both signs, which nearly cancel.
        let terms = x - x.mean(&[0]).broadcast(&[1000]);
        b.result("sum", terms.sum(&[0]));
        let graph = b.finish();
        let feeds = feeds(&graph, 1);
        let reference = Reference::new(&graph, &feeds);
        let right = interpreted(&graph, &feeds).unwrap();
        let moved = |by: f32| {
            let mut after = right.clone();
            after.results[0].1.values_mut::<f32>().unwrap()[0] += by;
            Ok(after)
        };
        // The sizes of the terms add up to about a thousand: in any order the sum is right to 1000 * 1000 / 2 last places of 1.
        assert_eq!(reference.check(&moved(1e-3)), Ok(()));
        // A tenth of one term of a thousand is missing.
        assert!(reference.check(&moved(0.1)).is_err());
        assert!(reference.check(&moved(-0.1)).is_err());
    }
}
