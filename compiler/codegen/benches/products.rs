//! Throughput of matrix products (GEMM): GFLOP/s and the share of the FMA peak, on one and on two threads, beside the portable form for
//! machines without AVX2 and FMA. Asserts nothing. A name as argument selects shapes.

use std::time::Instant;

use trainspec_codegen::cpu::{Cpu, Machine};
use trainspec_codegen::exec::gemm::{self, Matrix, Product};
use trainspec_codegen::exec::parallel;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::library::{Pooled, Scratch};
use trainspec_codegen::simd::limits::run_fma_chains;

/// A matrix product: its name, batch size and dimensions m, k, n, and which factors are transposed.
struct Shape {
    name: &'static str,
    batch: usize,
    size: [usize; 3],
    transposed: (bool, bool),
}

const fn shape(name: &'static str, size: [usize; 3], transposed: (bool, bool)) -> Shape {
    Shape {
        name,
        batch: 1,
        size,
        transposed,
    }
}

const SHAPES: &[Shape] = &[
    shape("mlp 1", [128, 784, 512], (false, false)),
    shape("mlp 1 AtB", [784, 128, 512], (true, false)),
    shape("mlp 1 AtB as AB", [784, 128, 512], (false, false)),
    shape("mlp 2", [128, 512, 256], (false, false)),
    shape("mlp 2 AtB", [512, 128, 256], (true, false)),
    shape("mlp 2 AtB as AB", [512, 128, 256], (false, false)),
    shape("mlp 2 ABt", [128, 256, 512], (false, true)),
    shape("hidden", [128, 784, 256], (false, false)),
    shape("hidden AtB", [784, 128, 256], (true, false)),
    shape("hidden ABt", [128, 256, 784], (false, true)),
    shape("head", [128, 256, 10], (false, false)),
    shape("head AtB", [256, 128, 10], (true, false)),
    shape("head ABt", [128, 10, 256], (false, true)),
    shape("square", [512, 512, 512], (false, false)),
    shape("square AtB", [512, 512, 512], (true, false)),
    shape("square ABt", [512, 512, 512], (false, true)),
    shape("large", [1024, 1024, 1024], (false, false)),
    shape("tiny", [32, 10, 1], (false, false)),
    shape("iris", [40, 4, 16], (false, false)),
    shape("iris AtB", [4, 40, 16], (true, false)),
    shape("iris ABt", [40, 16, 16], (false, true)),
    shape("cube 64", [64, 64, 64], (false, false)),
    shape("up", [1024, 128, 512], (false, false)),
    shape("up AtB", [128, 1024, 512], (true, false)),
    shape("up AtB as AB", [128, 1024, 512], (false, false)),
    shape("up ABt", [1024, 512, 128], (false, true)),
    shape("down", [1024, 512, 128], (false, false)),
    shape("down AtB", [512, 1024, 128], (true, false)),
    shape("down AtB as AB", [512, 1024, 128], (false, false)),
    shape("down ABt", [1024, 128, 512], (false, true)),
    shape("project", [1024, 128, 128], (false, false)),
    Shape {
        name: "attention ABt",
        batch: 64,
        size: [64, 32, 64],
        transposed: (false, true),
    },
    Shape {
        name: "attention AB",
        batch: 64,
        size: [64, 64, 32],
        transposed: (false, false),
    },
    Shape {
        name: "attention AtB",
        batch: 64,
        size: [64, 64, 32],
        transposed: (true, false),
    },
    shape("few rows", [8, 1024, 4096], (false, false)),
    shape("deep", [32, 50_176, 64], (true, false)),
    shape("column", [4096, 1024, 1], (false, false)),
    shape("row", [1, 1024, 4096], (false, false)),
];

/// The timed windows of a turn: in the first the factors are in the cache of another thread, or in none.
const WINDOWS_PER_TURN: usize = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench` this is a check that the program runs.
    let full = arguments.iter().any(|argument| argument == "--bench");
    let selected = |name: &str| {
        let mut names = arguments.iter().filter(|a| !a.starts_with("--")).peekable();
        names.peek().is_none() || names.any(|a| name.contains(a.as_str()))
    };
    let (cpu, machine) = (Cpu::host(), Machine::host());
    let narrow = Machine {
        wide: false,
        ..machine
    };
    let cpus = [cpu, cpu.limited(narrow)];
    let pools = [Pool::exactly(1), Pool::exactly(2)];
    let turns = if full { 40 } else { 1 };
    let peaks = pools.each_ref().map(|pool| fma_peak(pool, turns));
    println!(
        "{:15} {:15} {:>7.1} {:>7.1}",
        "peak", "", peaks[0], peaks[1]
    );
    println!(
        "{:15} {:15} {:>15} {:>15} {:>15}",
        "", "m x k x n", "1 thread", "2 threads", "portable 1, 2"
    );
    let scratch = Scratch::default();
    for shape in SHAPES.iter().filter(|shape| selected(shape.name)) {
        let [m, k, n] = shape.size;
        let numbers = |n: usize| -> Vec<f32> { (0..n).map(|i| (i % 7) as f32 - 3.0).collect() };
        let (a, b) = (numbers(shape.batch * m * k), numbers(shape.batch * k * n));
        let mut y = numbers(shape.batch * m * n);
        let flops = 2.0 * (shape.batch * m * k * n) as f64;
        let calls = if full {
            (2e6 / flops).ceil() as usize
        } else {
            1
        };
        let mut best = [f64::MAX; 4];
        for _ in 0..turns {
            for (i, best) in best.iter_mut().enumerate() {
                let pool = &pools[i % 2];
                for _ in 0..WINDOWS_PER_TURN {
                    let begin = Instant::now();
                    for _ in 0..calls {
                        products(cpus[i / 2], pool, &scratch, shape, [&a, &b], &mut y);
                    }
                    let seconds = begin.elapsed().as_secs_f64() / calls as f64;
                    *best = best.min(seconds);
                }
            }
        }
        let [one, two, portable_one, portable_two] = best.map(|best| flops / best / 1e9);
        println!(
            "{:15} {:15} {one:7.1} ({:3.0}%) {two:7.1} ({:3.0}%) {portable_one:7.1} {portable_two:7.1}   {:.2} {:.2}",
            shape.name,
            format!("{m}x{k}x{n}"),
            100.0 * one / peaks[0],
            100.0 * two / peaks[1],
            one / portable_one,
            two / portable_two,
        );
    }
}

/// The FMA peak in GFLOP/s: chains of fused multiply-adds in registers.
fn fma_peak(pool: &Pool, turns: usize) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..turns {
        let begin = Instant::now();
        let done = std::sync::atomic::AtomicUsize::new(0);
        pool.run(16 * pool.threads(), &|_| {
            let flops = run_fma_chains(1 << 16);
            done.fetch_add(flops, std::sync::atomic::Ordering::Relaxed);
        });
        let flops = done.into_inner() as f64;
        best = best.max(flops / begin.elapsed().as_secs_f64() / 1e9);
    }
    best
}

fn products(
    cpu: Cpu,
    pool: &Pool,
    scratch: &Scratch,
    shape: &Shape,
    [a, b]: [&[f32]; 2],
    y: &mut [f32],
) {
    let [m, k, n] = shape.size;
    let workspace = f32::buffers(scratch);
    let strides = |transposed: bool, rows: usize, columns: usize| match transposed {
        false => (columns, 1),
        true => (1, rows),
    };
    let left = |i: usize| Matrix {
        data: &a[i * m * k..][..m * k],
        size: (m, k),
        strides: strides(shape.transposed.0, m, k),
    };
    let right = |i: usize| Matrix {
        data: &b[i * k * n..][..k * n],
        size: (k, n),
        strides: strides(shape.transposed.1, k, n),
    };
    if shape.batch == 1 {
        let y = Product {
            data: y,
            row_stride: n,
            accumulate: false,
        };
        gemm::multiply_on(cpu, pool, workspace, y, left(0), right(0), None);
        return;
    }
    workspace.prepare(
        pool.threads(),
        gemm::workspace_len(cpu, &left(0), &right(0)),
    );
    parallel::chunks_mut(pool, y, 8 * m * n, |i, part| {
        for (j, y) in part.chunks_exact_mut(m * n).enumerate() {
            let (a, b) = (left(8 * i + j), right(8 * i + j));
            let y = Product {
                data: y,
                row_stride: n,
                accumulate: false,
            };
            gemm::multiply(cpu, workspace, y, a, b);
        }
    });
}
