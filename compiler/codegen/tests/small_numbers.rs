//! Numbers too small to be normal are zero in a program, on every thread, as the interpreter has it.

use std::sync::Arc;

use trainspec_codegen::Options;
use trainspec_codegen::exec::Executable;
use trainspec_codegen::exec::pool::Pool;
use trainspec_ir::build::Builder;
use trainspec_ir::graph::Type;
use trainspec_ir::{DType, Tensor, interp};

const MANY: usize = 100_000;

/// x · x, which is 10^-40, and what is left of a moment after a step.
fn results(dtype: DType, small: f64, threads: usize) -> Vec<Tensor> {
    let b = Builder::new("small");
    let ty = Type::new(dtype, &[MANY]);
    let (x, m) = (b.input("x", &ty), b.input("m", &ty));
    b.result("square", x * x);
    b.result("moment", m * b.full(&ty, 0.9));
    b.result("sum", (x * x).sum(&[0]));
    let graph = b.finish();
    let least = match dtype {
        DType::F32 | DType::Bf16 => f64::from(f32::MIN_POSITIVE),
        _ => f64::MIN_POSITIVE,
    };
    let [x, m] = [small, least].map(|v| Tensor::from_f64s(&ty, std::iter::repeat_n(v, MANY)));
    let feeds = [("x".to_owned(), x.clone()), ("m".to_owned(), m.clone())];
    let expected = interp::run(&graph, &feeds.into_iter().collect(), &[]).unwrap();
    let pool = Arc::new(Pool::exactly(threads));
    let mut executable = Executable::new(&graph, pool, &Options::default()).unwrap();
    let found = executable.run(&[&x, &m], &mut [], &[]).unwrap();
    let found: Vec<Tensor> = found.into_iter().map(|(_, tensor)| tensor).collect();
    assert_eq!(found, expected.results);
    found
}

#[test]
fn small_results_are_zero_on_every_thread() {
    let smalls = [
        (DType::F32, 1e-20),
        (DType::Bf16, 1e-20),
        (DType::F64, 1e-160),
    ];
    for (dtype, small) in smalls {
        for threads in [1, 2, 3] {
            for tensor in results(dtype, small, threads) {
                assert!(
                    tensor.to_f64s().iter().all(|x| *x == 0.0),
                    "{threads} threads"
                );
            }
        }
        // The thread that runs it is as it was.
        assert!((std::hint::black_box(1e-30_f32) * std::hint::black_box(1e-10)).is_subnormal());
    }
}
