//! Random graphs, compiled against interpreted.

#[path = "../../ir/tests/random_graphs/generate.rs"]
mod generate;

use std::collections::BTreeMap;
use std::sync::Arc;

use generate::make;
use proptest::prelude::*;
use trainspec_codegen::Options;
use trainspec_codegen::exec::Executable;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::translate::Machine;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{Tensor, interp, passes};

/// The graph with the gradients of `y`, and its inputs.
fn with_gradients(bytes: &[u8]) -> (Graph, Vec<Type>) {
    let made = make(bytes);
    let b = &made.builder;
    let y = b.find_result("y").unwrap();
    let xs: Vec<_> = b.look(|g| g.inputs().map(|(_, v)| v).collect::<Vec<_>>());
    let xs: Vec<_> = xs.into_iter().map(|v| b.value(v)).collect();
    for (i, slope) in b.gradients(&[y], &xs).into_iter().enumerate() {
        if let Some(slope) = slope {
            b.result(&format!("d{i}"), slope.dense());
        }
    }
    (made.builder.finish(), made.inputs.clone())
}

fn point(inputs: &[Type], seed: u64) -> Vec<Tensor> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    };
    inputs
        .iter()
        .map(|ty| Tensor::new(&ty.shape, (0..ty.elements()).map(|_| next()).collect()))
        .collect()
}

fn compiled(graph: &Graph, at: &[Tensor], threads: usize, options: &Options) -> Vec<Vec<u64>> {
    let pool = Arc::new(Pool::exactly(threads));
    let mut executable =
        Executable::new(graph, pool, options).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    let feeds: Vec<&Tensor> = at.iter().collect();
    let run = |executable: &mut Executable| {
        let results = executable
            .run(&feeds, &mut [], &[])
            .unwrap_or_else(|e| panic!("{e}\n{graph}"));
        results
            .iter()
            .map(|(_, t)| {
                t.to_f64s()
                    .iter()
                    .map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() })
                    .collect()
            })
            .collect::<Vec<Vec<u64>>>()
    };
    let first = run(&mut executable);
    // What a run leaves behind does not matter to the next.
    assert_eq!(run(&mut executable), first, "{graph}");
    first
}

fn close(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
        || (a.is_nan() && b.is_nan())
        || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compiled_equals_interpreted(bytes in proptest::collection::vec(any::<u8>(), 20..320), seed in any::<u64>()) {
        let (graph, inputs) = with_gradients(&bytes);
        let at = point(&inputs, seed);
        let feeds: BTreeMap<String, Tensor> =
            at.iter().enumerate().map(|(i, t)| (format!("x{i}"), t.clone())).collect();
        let expected: Vec<Vec<f64>> =
            interp::run(&graph, &feeds, &[]).unwrap().results.iter().map(Tensor::to_f64s).collect();
        let simple = passes::run(graph.clone(), &Default::default());
        let found = compiled(&simple, &at, 1, &Options::default());
        for threads in [2, 3, 8] {
            prop_assert_eq!(&compiled(&simple, &at, threads, &Options::default()), &found, "{} threads", threads);
        }
        let short = Options { fusion: true, machine: Some(Machine { wide: false, ..Machine::host() }) };
        prop_assert_eq!(&compiled(&simple, &at, 2, &short), &found, "with vectors of 128 bits");
        let single = Options { fusion: true, machine: Some(Machine { vectors: false, wide: false, ..Machine::host() }) };
        prop_assert_eq!(&compiled(&simple, &at, 2, &single), &found, "without vectors");
        let plain = Options { fusion: false, machine: Some(Machine { fma: false, vectors: false, wide: false }) };
        for (which, found) in [("simplified", found), ("not fused", compiled(&simple, &at, 2, &plain)), ("not simplified", compiled(&graph, &at, 2, &Options::default()))] {
            for (a, b) in expected.iter().flatten().zip(found.iter().flatten()) {
                prop_assert!(close(*a, f64::from_bits(*b)), "{}: {} became {}\n{}", which, a, f64::from_bits(*b), graph);
            }
        }
    }
}
