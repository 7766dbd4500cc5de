//! Property tests on random graphs: gradient checks (first and second order) by central differences, textual round trip,
//! passes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trainspec_ir::graph::{Graph, Type, verify};
use trainspec_ir::{Tensor, interp, passes, text};
use trainspec_testing::compare::{Reference, interpreted};
use trainspec_testing::feeds::Feeds;
use trainspec_testing::smooth::make;

type Point = Vec<Vec<f64>>;

/// A pseudorandom point, seeded.
fn point(inputs: &[Type], seed: u64) -> Point {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    };
    inputs
        .iter()
        .map(|ty| (0..ty.elements()).map(|_| next()).collect())
        .collect()
}

fn feeds(inputs: &[Type], at: &Point) -> BTreeMap<String, Tensor> {
    let named = inputs.iter().zip(at).enumerate();
    named
        .map(|(i, (ty, values))| (format!("x{i}"), Tensor::new(&ty.shape, values.clone())))
        .collect()
}

fn run(graph: &Graph, inputs: &[Type], at: &Point) -> Vec<Vec<f64>> {
    let outcome =
        interp::run(graph, &feeds(inputs, at), &[]).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    outcome.results.iter().map(Tensor::to_f64s).collect()
}

/// `at + h · along`.
fn moved(at: &Point, along: &Point, h: f64) -> Point {
    let one = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(x, d)| x + h * d).collect();
    at.iter().zip(along).map(one).collect()
}

fn dot(a: &Point, b: &[Vec<f64>]) -> f64 {
    a.iter()
        .flatten()
        .zip(b.iter().flatten())
        .map(|(x, y)| x * y)
        .sum()
}

/// Whether a derivative agrees with a central difference for one of several step sizes. Differences across a kink agree for
/// none, so the one-sided differences are compared too: where they disagree, the point is skipped.
fn agrees(grad: f64, f: impl Fn(f64) -> f64) -> Result<(), String> {
    let here = f(0.0);
    let mut tried = Vec::new();
    for h in [1e-5, 1e-6, 1e-4, 1e-7] {
        let (above, below) = (f(h), f(-h));
        let central = (above - below) / (2.0 * h);
        let noise = 1e-13 * here.abs().max(above.abs()).max(1.0) / h;
        if (central - grad).abs() <= 2e-5 * central.abs().max(grad.abs()).max(1.0) + noise {
            return Ok(());
        }
        let (right, left) = ((above - here) / h, (here - below) / h);
        tried.push((h, central, right, left));
    }
    let (_, _, right, left) = tried[3];
    if (right - left).abs() > 1e-4 * right.abs().max(left.abs()).max(1.0) {
        return Ok(());
    }
    Err(format!(
        "the derivative is {grad}, but differences are {tried:?}"
    ))
}

/// The graph with `y`, its gradients, and the gradients of (gradients · along).
fn with_derivatives(bytes: &[u8], along: impl Fn(&[Type]) -> Point) -> (Graph, Vec<Type>, Point) {
    let random = make(bytes);
    let b = &random.builder;
    let along = along(&random.inputs);
    let y = b.find_result("y").unwrap();
    let xs: Vec<_> = b.with_graph(|g| g.inputs().map(|(_, v)| v).collect::<Vec<_>>());
    let xs: Vec<_> = xs.into_iter().map(|v| b.value(v)).collect();
    let gradients: Vec<_> = b
        .gradients(&[y], &xs)
        .into_iter()
        .zip(&xs)
        .map(|(grad, x)| grad.map_or_else(|| b.full(&x.ty(), 0.0), |s| s.dense()))
        .collect();
    let mut weighted = Vec::new();
    for ((i, grad), weights) in gradients.iter().enumerate().zip(&along) {
        b.result(&format!("d{i}"), *grad);
        let weights = b.constant(Tensor::new(&grad.shape(), weights.clone()));
        weighted.push((*grad * weights).sum(&grad.axes()));
    }
    for (i, (second, x)) in b.gradients(&weighted, &xs).into_iter().zip(&xs).enumerate() {
        let second = second.map_or_else(|| b.full(&x.ty(), 0.0), |s| s.dense());
        b.result(&format!("dd{i}"), second);
    }
    let inputs = random.inputs.clone();
    (random.builder.finish(), inputs, along)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 20..320)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gradients_agree_with_central_differences(bytes in bytes(), seed in any::<u64>()) {
        let (graph, inputs, v) = with_derivatives(&bytes, |inputs| point(inputs, seed ^ 7));
        prop_assert_eq!(verify(&graph), Ok(()));
        let at = point(&inputs, seed);
        let u = point(&inputs, seed ^ 99);
        let n = inputs.len();
        let here = run(&graph, &inputs, &at);
        prop_assume!(here.iter().flatten().all(|x| x.is_finite()));

        let grad = dot(&u, &here[1..=n]);
        let first = agrees(grad, |h| run(&graph, &inputs, &moved(&at, &u, h))[0][0]);
        prop_assert!(first.is_ok(), "first: {:?}\n{}", first, graph);

        let grad = dot(&u, &here[n + 1..]);
        let second = agrees(grad, |h| dot(&v, &run(&graph, &inputs, &moved(&at, &u, h))[1..=n]));
        prop_assert!(second.is_ok(), "second: {:?}\n{}", second, graph);
    }

    #[test]
    fn the_text_form_round_trips(bytes in bytes(), seed in any::<u64>()) {
        let (graph, inputs, _) = with_derivatives(&bytes, |inputs| point(inputs, seed));
        let printed = graph.to_string();
        let parsed = text::parse(&printed).map_err(|e| TestCaseError::fail(format!("{e}\n{printed}")))?;
        prop_assert_eq!(&printed, &parsed.to_string());
        let at = point(&inputs, seed);
        let (a, b) = (run(&graph, &inputs, &at), run(&parsed, &inputs, &at));
        for (x, y) in a.iter().flatten().zip(b.iter().flatten()) {
            prop_assert_eq!(x.to_bits(), y.to_bits());
        }
    }

    #[test]
    fn passes_preserve_results(bytes in bytes(), seed in any::<u64>()) {
        let (graph, inputs, _) = with_derivatives(&bytes, |inputs| point(inputs, seed));
        let feeds = Feeds { inputs: feeds(&inputs, &point(&inputs, seed)), state: Vec::new() };
        let reference = Reference::new(&graph, &feeds);
        let mut versions = vec![("all".to_owned(), passes::run(graph.clone(), &BTreeSet::new()))];
        for pass in passes::PASSES {
            versions.push((format!("{} alone", pass.name), (pass.run)(graph.clone())));
            let without = BTreeSet::from([pass.name.to_owned()]);
            versions.push((format!("all but {}", pass.name), passes::run(graph.clone(), &without)));
        }
        for (which, simplified) in versions {
            prop_assert_eq!(verify(&simplified), Ok(()), "{}", &which);
            // A pass may reorder a sum: its value may differ within rounding error.
            let same = reference.check(&interpreted(&simplified, &feeds));
            prop_assert_eq!(same, Ok(()), "{}\n{}", which, graph);
        }
    }
}
