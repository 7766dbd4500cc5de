//! One compiled program, several executables: they share the code and nothing else.

use std::sync::{Arc, Barrier};

use trainspec_codegen::Options;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, WorkMemory};
use trainspec_ir::build::Builder;
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::plan::plan;
use trainspec_ir::{DType, Tensor, passes};

const STEPS: usize = 200;

/// A training step with loops, a matrix product with an epilogue, and a reduction.
fn step() -> Graph {
    let b = Builder::new("step");
    let x = b.input("x", &Type::new(DType::F32, &[64, 31]));
    let w = b.read("w", &Type::new(DType::F32, &[31, 9]));
    let loss = x.matmul(w).tanh().square().mean(&[0, 1]);
    let gradient = b.gradients(&[loss], &[w]).remove(0);
    b.write("w", w - 0.1 * gradient.expect("it depends on w").dense());
    b.result("loss", loss);
    passes::run(b.finish(), &Default::default())
}

/// The losses and the last weights of some steps on one feed.
fn train(compiled: &Arc<CompiledProgram>, pool: &Arc<Pool>, feed: f32) -> (Vec<f64>, Tensor) {
    train_in(compiled, pool, feed, WorkMemory::default())
}

fn train_in(
    compiled: &Arc<CompiledProgram>,
    pool: &Arc<Pool>,
    feed: f32,
    arena: WorkMemory,
) -> (Vec<f64>, Tensor) {
    let mut program = Executable::sharing(Arc::clone(compiled), Arc::clone(pool), arena).unwrap();
    let values = (0..64 * 31).map(|i| feed + (i % 17) as f32 / 16.0);
    let x = Tensor::new(&[64, 31], values.collect());
    let mut state = [Tensor::new(&[31, 9], vec![0.05_f32; 31 * 9])];
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let results = program
            .run(&[(&x).into()], &mut state, &[0])
            .expect("it runs");
        losses.push(results[0].1.to_f64s()[0]);
    }
    let [weights] = state;
    (losses, weights)
}

#[test]
fn one_compiled_program_runs_on_two_threads_at_once() {
    let compiled = CompiledProgram::compile(plan(fuse(&step(), true)), &Options::default());
    let compiled = compiled.expect("it compiles");
    let feeds = [0.25, -0.5];
    for shared_pool in [false, true] {
        let first = Arc::new(Pool::exactly(2));
        let second = match shared_pool {
            true => Arc::clone(&first),
            false => Arc::new(Pool::exactly(1)),
        };
        let pools = [first, second];
        let alone = [0, 1].map(|i| train(&compiled, &pools[i], feeds[i]));
        assert_ne!(alone[0], alone[1]);
        let start = Barrier::new(2);
        let together = std::thread::scope(|scope| {
            let run = |i: usize| {
                let (compiled, pool, start) = (&compiled, &pools[i], &start);
                scope.spawn(move || {
                    start.wait();
                    train(compiled, pool, feeds[i])
                })
            };
            [0, 1]
                .map(run)
                .map(|thread| thread.join().expect("it ends"))
        });
        assert_eq!(alone, together);
    }
}

#[test]
fn code_outlives_the_executables_that_run_it() {
    let compiled = CompiledProgram::compile(plan(fuse(&step(), true)), &Options::default());
    let compiled = compiled.expect("it compiles");
    let pool = Arc::new(Pool::exactly(1));
    let first = train(&compiled, &pool, 0.25);
    // The first executable was dropped; a new one begins with a workspace of its own.
    assert_eq!(first, train(&compiled, &pool, 0.25));
}

#[test]
fn programs_that_share_an_arena_do_not_see_each_other() {
    let large = CompiledProgram::compile(plan(fuse(&step(), true)), &Options::default());
    let b = Builder::new("small");
    let x = b.input("x", &Type::new(DType::F32, &[7]));
    b.result("y", (x.exp().sum(&[0]) * 2.0).sqrt());
    let small = CompiledProgram::compile(plan(fuse(&b.finish(), true)), &Options::default());
    let (large, small) = (large.expect("it compiles"), small.expect("it compiles"));
    let pool = Arc::new(Pool::exactly(1));
    let alone = train(&large, &pool, 0.25);
    // The small one makes the arena, the large one makes it grow; then one runs between the steps of the other.
    let arena = WorkMemory::default();
    let mut between = Executable::sharing(small, Arc::clone(&pool), arena.clone()).unwrap();
    let x = Tensor::new(&[7], vec![0.5_f32; 7]);
    let mut run = || between.run(&[(&x).into()], &mut [], &[]).expect("it runs");
    let expected = run();
    assert_eq!(train_in(&large, &pool, 0.25, arena.clone()), alone);
    assert_eq!(run(), expected);
    // Two at once: neither waits, and neither writes where the other computes.
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (large, pool, arena) = (&large, &pool, arena.clone());
            let (start, alone) = (&start, &alone);
            scope.spawn(move || {
                start.wait();
                assert_eq!(&train_in(large, pool, 0.25, arena), alone);
            });
        }
    });
}

#[test]
fn a_trace_has_every_kernel_and_changes_no_bit() {
    let compiled = CompiledProgram::compile(plan(fuse(&step(), true)), &Options::default());
    let compiled = compiled.expect("it compiles");
    let x = Tensor::new(&[64, 31], vec![0.25_f32; 64 * 31]);
    let weights = || [Tensor::new(&[31, 9], vec![0.05_f32; 31 * 9])];
    for threads in 1..=3 {
        let pool = Arc::new(Pool::exactly(threads));
        let mut program = Executable::new(Arc::clone(&compiled), pool);
        let mut run = |traced: bool| {
            program.trace(traced);
            let mut state = weights();
            let results = program.run(&[(&x).into()], &mut state, &[0]);
            let loss = results.expect("it runs")[0].1.clone();
            (loss, state, program.trace(false))
        };
        let (loss, state, none) = run(false);
        let (traced_loss, traced_state, spans) = run(true);
        assert!(none.is_empty());
        assert_eq!((traced_loss, traced_state), (loss, state), "{threads}");
        let kernels = compiled.program().kernels.kernels.len();
        for kernel in 0..kernels {
            assert!(
                spans.iter().any(|s| s.kernel == kernel),
                "{kernel}: {spans:?}"
            );
        }
        for span in &spans {
            assert!(span.kernel < kernels && span.thread < threads, "{span:?}");
            assert!(span.start <= span.end, "{span:?}");
        }
        assert!(spans.is_sorted_by_key(|span| span.start));
    }
}
