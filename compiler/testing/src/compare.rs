//! Differential testing: comparison of a run with the interpreter's (the oracle), within the rounding error of the graph.
//!
//! Integers and booleans are equal; floats are within a few ULP, or within the rounding error that [`noise`](crate::noise)
//! measures for the graph.

use std::borrow::Cow;
use std::cell::OnceCell;

use trainspec_ir::graph::{Graph, Node, NodeKind};
use trainspec_ir::interp::{self, RunError};
use trainspec_ir::{DType, Tensor, passes};

use crate::feeds::Feeds;
use crate::noise::{epsilon, noisy};

/// The outcome of a run: results and state.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The results, by name and in order.
    pub results: Vec<(String, Tensor)>,
    /// All state, in the order of the graph.
    pub state: Vec<Tensor>,
}

impl RunOutcome {
    /// The results and the state, each with its name.
    fn all(&self) -> impl Iterator<Item = (String, &Tensor)> {
        let results = self.results.iter().map(|(n, t)| (format!("`{n}`"), t));
        let state = self.state.iter().enumerate();
        results.chain(state.map(|(i, t)| (format!("state {i}"), t)))
    }
}

/// A run by the interpreter.
pub fn interpreted(graph: &Graph, feeds: &Feeds) -> Result<RunOutcome, RunError> {
    let outcome = interp::run(graph, &feeds.inputs, &feeds.state)?;
    let names = graph.results.iter().map(|(name, _)| name.clone());
    let mut state = feeds.state.clone();
    for (index, value) in outcome.writes {
        state[index] = value;
    }
    Ok(RunOutcome {
        results: names.zip(outcome.results).collect(),
        state,
    })
}

/// The interpreter's run of a graph: the oracle with which other runs are compared.
#[derive(Debug)]
pub struct Reference<'a> {
    graph: Cow<'a, Graph>,
    feeds: &'a Feeds,
    /// Its outcome.
    expected: Result<RunOutcome, RunError>,
    /// The run-time error of dead code: a run that eliminates it need not fail.
    dead_code_error: Option<RunError>,
    noisy: [OnceCell<Vec<Result<RunOutcome, RunError>>>; 2],
}

/// The graph after dead-code elimination alone.
fn without_dead_code(graph: &Graph) -> Graph {
    let others = passes::PASSES.iter().map(|p| p.name.to_owned());
    let others = others.filter(|name| name != "drop-dead-nodes").collect();
    passes::run(graph.clone(), &others)
}

/// The number of noisy runs by effort: a few explain most differences, more are made before one is reported.
const NOISY_RUNS: [u64; 2] = [4, 40];

impl<'a> Reference<'a> {
    /// Runs a graph by the interpreter; where it fails, again without dead code.
    pub fn new(graph: &'a Graph, feeds: &'a Feeds) -> Reference<'a> {
        let mut graph = Cow::Borrowed(graph);
        let (mut expected, mut dead_code_error) = (interpreted(&graph, feeds), None);
        if let Err(error) = &expected {
            dead_code_error = Some(error.clone());
            graph = Cow::Owned(without_dead_code(&graph));
            expected = interpreted(&graph, feeds);
        }
        Reference {
            graph,
            feeds,
            expected,
            dead_code_error,
            noisy: Default::default(),
        }
    }

    /// The outcomes of the noisy runs of an effort, which are made once.
    fn noisy(&self, effort: usize) -> &[Result<RunOutcome, RunError>] {
        let run = |seed| interpreted(&noisy(&self.graph, seed), self.feeds);
        self.noisy[effort].get_or_init(|| (1..=NOISY_RUNS[effort]).map(run).collect())
    }

    /// Fails where another run differs by more than rounding, with the name and the index of the first element that does.
    pub fn check(&self, found: &Result<RunOutcome, RunError>) -> Result<(), String> {
        self.check_with(found, 0)
            .or_else(|_| self.check_with(found, 1))
    }

    fn check_with(
        &self,
        found: &Result<RunOutcome, RunError>,
        effort: usize,
    ) -> Result<(), String> {
        let (expected, found) = match (&self.expected, found) {
            (Err(a), Err(b)) if a.message == b.message => return Ok(()),
            (Ok(expected), Ok(found)) => (expected, found),
            (_, Err(found)) if self.dead_code_error.as_ref() == Some(found) => return Ok(()),
            (expected, found) => {
                let failed = |r: &Result<RunOutcome, RunError>| r.as_ref().err().cloned();
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
        for (index, ((name, a), (_, b))) in expected.all().zip(found.all()).enumerate() {
            if a.ty() != b.ty() {
                return Err(format!("{name} is {}, but was {}", a.ty(), b.ty()));
            }
            let differs = match a.dtype().is_float() {
                true => self.floats(index, a, b, effort),
                false => self.exact(index, a, b, effort),
            };
            if let Some((i, why)) = differs {
                return Err(format!("{name} differs at {i}: {why}"));
            }
        }
        Ok(())
    }

    /// The values of a tensor in the noisy runs that succeed.
    fn samples(&self, index: usize, effort: usize) -> Vec<&Tensor> {
        self.noisy(effort)
            .iter()
            .flatten()
            .map(|outcome| {
                let n = outcome.results.len();
                match index < n {
                    true => &outcome.results[index].1,
                    false => &outcome.state[index - n],
                }
            })
            .collect()
    }

    /// The first integer or bool that differs and is the same in all noisy runs, and why.
    fn exact(
        &self,
        index: usize,
        a: &Tensor,
        b: &Tensor,
        effort: usize,
    ) -> Option<(usize, String)> {
        if a == b {
            return None;
        }
        let (a, b) = (a.to_i64s(), b.to_i64s());
        let samples: Vec<Vec<i64>> = self
            .samples(index, effort)
            .iter()
            .map(|t| t.to_i64s())
            .collect();
        if self.follows_float_unique(index) && samples.iter().any(|s| *s != a) {
            return None;
        }
        let wrong = (0..a.len()).find(|i| a[*i] != b[*i] && samples.iter().all(|s| s[*i] == a[*i]));
        wrong.map(|i| (i, format!("{} became {}", a[i], b[i])))
    }

    /// Whether a result or state depends on the distinct values of floats.
    fn follows_float_unique(&self, index: usize) -> bool {
        let graph = &self.graph;
        let mut follows = vec![false; graph.types.len()];
        for node in &graph.nodes {
            let is_unique = match &node.kind {
                NodeKind::Prim(prim, _) if prim.name == "unique" => {
                    graph.ty(node.operands[0]).dtype.is_float()
                }
                _ => false,
            };
            if is_unique || node.operands.iter().any(|v| follows[v.index()]) {
                node.results.iter().for_each(|v| follows[v.index()] = true);
            }
        }
        let values = graph.results.iter().map(|(_, v)| *v).nth(index);
        let write = |state: usize| graph.writes.iter().find(|w| w.state.index() == state);
        let value = match index.checked_sub(graph.results.len()) {
            None => values,
            Some(state) => write(state).map(|w| w.value),
        };
        value.is_some_and(|v| follows[v.index()])
    }

    /// Whether the graph has sums of many terms.
    fn has_sums(&self) -> bool {
        let sums = |node: &Node| match &node.kind {
            NodeKind::Prim(prim, _) => ["matmul", "conv2d", "sum", "scatter", "segment", "mean"]
                .iter()
                .any(|name| prim.name.contains(name)),
            NodeKind::Scan(_) => true,
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => false,
        };
        self.graph.nodes.iter().any(sums)
    }

    /// The first float that differs by more than the spread of the noisy runs explains, and why.
    fn floats(
        &self,
        index: usize,
        a: &Tensor,
        b: &Tensor,
        effort: usize,
    ) -> Option<(usize, String)> {
        let dtype = a.dtype();
        let (a, b) = (a.to_f64s(), b.to_f64s());
        let distant: Vec<usize> = (0..a.len())
            .filter(|i| !within_ulps(dtype, a[*i], b[*i]))
            .collect();
        if distant.is_empty() {
            return None;
        }
        let samples: Vec<Vec<f64>> = self
            .samples(index, effort)
            .iter()
            .map(|t| t.to_f64s())
            .collect();
        let far = |s: &Vec<f64>| (0..a.len()).any(|i| !within_ulps(dtype, a[i], s[i]));
        if self.follows_float_unique(index) && samples.iter().any(far) {
            // A rounding that makes two numbers equal, or one two, moves all that follow.
            return None;
        }
        for i in distant {
            let finite = |x: f64| x.is_finite();
            let class = |x: f64| (x.is_nan(), x.is_infinite(), x.is_infinite() && x > 0.0);
            if samples.iter().any(|s| class(s[i]) != class(a[i])) {
                // Rounding may make it infinite or NaN, or one of them the other.
                continue;
            }
            if a[i].is_infinite() && b[i].is_nan() && self.has_sums() {
                // Partial sums were infinite with either sign; the interpreter accumulates in f64 and only the total is.
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

/// Whether two floats are within a few ULP, or within a few of the smallest numbers of the type (FTZ).
fn within_ulps(dtype: DType, a: f64, b: f64) -> bool {
    let tolerance = match dtype {
        DType::F16 => 2.0_f64.powi(-24),
        DType::Bf16 | DType::F32 => f64::from(f32::MIN_POSITIVE),
        _ => f64::MIN_POSITIVE,
    };
    let ulps = match dtype {
        DType::F16 | DType::Bf16 => 1.0,
        _ => 8.0,
    };
    a == b
        || (a.is_nan() && b.is_nan())
        || (a - b).abs() <= ulps * epsilon(dtype) * a.abs().min(b.abs()) + 4.0 * tolerance
}

/// Fails where the bits of two runs differ; all NaNs are equal. Results are compared by name; those that only one has are
/// ignored.
pub fn same_bits(
    a: &Result<RunOutcome, RunError>,
    b: &Result<RunOutcome, RunError>,
) -> Result<(), String> {
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
            return Err(format!(
                "{name} has other bits at {i}: {:?} ({:#x}) and {:?} ({:#x})",
                f64::from_bits(a[i]),
                a[i],
                f64::from_bits(b[i]),
                b[i]
            ));
        }
    }
    Ok(())
}

/// The elements as bits, with NaN canonicalized: floats as the bits of their f64, integers sign-extended.
pub fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype().is_float() {
        true => {
            let canonical = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
            tensor.to_f64s().into_iter().map(canonical).collect()
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
    fn a_wrong_element_is_reported_and_a_rounded_one_is_not() {
        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[64]));
        b.result("y", x.exp());
        b.result("positive", x.greater(x.like(0.0)));
        let graph = b.finish();
        let feeds = feeds(&graph, 1);
        let reference = Reference::new(&graph, &feeds);
        let right = interpreted(&graph, &feeds).unwrap();
        let with = |factor: f64| {
            let mut outcome = right.clone();
            let y = &mut outcome.results[0].1;
            y.values_mut::<f32>().unwrap()[7] *= factor as f32;
            Ok(outcome)
        };
        assert_eq!(reference.check(&with(1.0)), Ok(()));
        assert_eq!(reference.check(&with(1.0 + 3e-7)), Ok(()));
        assert!(reference.check(&with(1.0 + 1e-5)).is_err());
        assert!(reference.check(&with(f64::NAN)).is_err());
        assert!(same_bits(&with(1.0), &with(1.0 + 3e-7)).is_err());
        let mut wrong = right.clone();
        let mask = wrong.results[1].1.values_mut::<bool>().unwrap();
        mask[3] = !mask[3];
        assert!(reference.check(&Ok(wrong)).is_err());
    }

    #[test]
    fn only_what_follows_distinct_floats_may_move() {
        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[64]));
        // Equal numbers that a rounding tells apart.
        let rounded = x.like(1.0).exp() * x.exp() / x.exp();
        b.result("sum", x.exp().sum(&[0]));
        b.result("distinct", rounded.unique()[0]);
        let graph = b.finish();
        let feeds = feeds(&graph, 1);
        let reference = Reference::new(&graph, &feeds);
        let with = |result: usize, value: f32| {
            let mut outcome = interpreted(&graph, &feeds).unwrap();
            outcome.results[result].1.values_mut::<f32>().unwrap()[0] = value;
            Ok(outcome)
        };
        assert_eq!(reference.check(&with(1, 77.0)), Ok(()));
        assert!(reference.check(&with(0, 77.0)).is_err());
    }

    #[test]
    fn a_sum_may_err_by_ulps_of_its_terms_and_no_more() {
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
            let mut outcome = right.clone();
            outcome.results[0].1.values_mut::<f32>().unwrap()[0] += by;
            Ok(outcome)
        };
        // The magnitudes of the terms add up to about a thousand: in any order the sum is right to 1000 * 1000 / 2 ULP of 1.
        assert_eq!(reference.check(&moved(1e-3)), Ok(()));
        // A tenth of one term of a thousand is missing.
        assert!(reference.check(&moved(0.1)).is_err());
        assert!(reference.check(&moved(-0.1)).is_err());
    }
}
