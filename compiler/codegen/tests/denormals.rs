//! Denormal results are flushed to zero (FTZ) in a program, on every thread, as in the interpreter.

use std::sync::Arc;

use trainspec_codegen::Options;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable};
use trainspec_ir::build::Builder;
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::Type;
use trainspec_ir::plan::plan;
use trainspec_ir::{DType, Tensor, interp};

const ELEMENTS: usize = 100_000;

/// x · x, which is denormal, and a moment after a step of decay.
fn results(dtype: DType, small: f64, threads: usize) -> Vec<Tensor> {
    let b = Builder::new("denormals");
    let ty = Type::new(dtype, &[ELEMENTS]);
    let (x, m) = (b.input("x", &ty), b.input("m", &ty));
    b.result("square", x * x);
    b.result("moment", m * b.full(&ty, 0.9));
    b.result("sum", (x * x).sum(&[0]));
    let graph = b.finish();
    let min_positive = match dtype {
        DType::F32 | DType::Bf16 => f64::from(f32::MIN_POSITIVE),
        _ => f64::MIN_POSITIVE,
    };
    let [x, m] =
        [small, min_positive].map(|v| Tensor::from_f64s(&ty, std::iter::repeat_n(v, ELEMENTS)));
    let feeds = [("x".to_owned(), x.clone()), ("m".to_owned(), m.clone())];
    let expected = interp::run(&graph, &feeds.into_iter().collect(), &[]).unwrap();
    let pool = Arc::new(Pool::exactly(threads));
    let compiled = CompiledProgram::compile(plan(fuse(&graph, true)), &Options::default());
    let mut executable = Executable::new(compiled.unwrap(), pool);
    let found = executable
        .run(&[(&x).into(), (&m).into()], &mut [], &[])
        .unwrap();
    let found: Vec<Tensor> = found.into_iter().map(|(_, tensor)| tensor).collect();
    assert_eq!(found, expected.results);
    found
}

#[test]
fn denormal_results_are_zero_on_every_thread() {
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
        // The mode of the calling thread is restored.
        assert!((std::hint::black_box(1e-30_f32) * std::hint::black_box(1e-10)).is_subnormal());
    }
}
