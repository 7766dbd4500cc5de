//! Fused elementwise chains, in cache, against loops written by hand with AVX2 intrinsics: equal formulas on 4,096 elements, on one
//! thread. Reports the time of an element and the ratio, asserts nothing but that both compute the same.
//!
//! Both are timed by a clock around each pass, in turns; the best turn counts.
#![allow(unsafe_code)] // intrinsics, and loops over slices by pointers

#[cfg(target_arch = "x86_64")]
mod by_hand;

use std::sync::Arc;
use std::time::{Duration, Instant};

use trainspec_codegen::Options;
#[cfg(target_arch = "x86_64")]
use trainspec_codegen::cpu::Cpu;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable};
use trainspec_ir::build::Builder;
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::plan::plan;
use trainspec_ir::{DType, Tensor, passes};

/// Elements of each buffer.
const N: usize = 4096;

/// A chain: its name, its graph over state, and the same by hand over slices in the order of the state.
struct Chain {
    name: &'static str,
    graph: fn() -> Graph,
    by_hand: fn(&mut [Vec<f32>]),
}

/// y = exp(a x + b).
fn exp() -> Graph {
    let (b, ty) = (Builder::new("exp"), Type::new(DType::F32, &[N]));
    let (x, _) = (b.read("x", &ty), b.read("y", &ty));
    b.write("y", (x * 0.75 + 0.125).exp());
    b.finish()
}

/// y = x tanh(a x + b) + c.
fn tanh() -> Graph {
    let (b, ty) = (Builder::new("tanh"), Type::new(DType::F32, &[N]));
    let (x, _) = (b.read("x", &ty), b.read("y", &ty));
    b.write("y", x * (x * 0.75 + 0.125).tanh() + 0.5);
    b.finish()
}

/// Adam: two moments, a root and a quotient.
fn adam() -> Graph {
    let (b, ty) = (Builder::new("adam"), Type::new(DType::F32, &[N]));
    let [g, p, m, v] = ["g", "p", "m", "v"].map(|name| b.read(name, &ty));
    let m = m * 0.9 + g * 0.1;
    let v = v * 0.999 + g * g * 0.001;
    b.write("p", p - m * 0.001 / (v.sqrt() + 1e-8));
    b.write("m", m);
    b.write("v", v);
    b.finish()
}

#[cfg(target_arch = "x86_64")]
const CHAINS: [Chain; 3] = [
    Chain {
        name: "exp(a x + b)",
        graph: exp,
        by_hand: by_hand::exp,
    },
    Chain {
        name: "x tanh(a x + b) + c",
        graph: tanh,
        by_hand: by_hand::tanh,
    },
    Chain {
        name: "adam: sqrt, divide",
        graph: adam,
        by_hand: by_hand::adam,
    },
];
#[cfg(not(target_arch = "x86_64"))]
const CHAINS: [Chain; 0] = [];

/// Numbers between -4 and 4.
fn numbers(seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 8191) as f32 / 1024.0 - 4.0;
    (0..N).map(number).collect()
}

fn state(executable: &Executable) -> Vec<Vec<f32>> {
    let one = |(i, piece): (usize, &trainspec_ir::graph::State)| match piece.name.as_str() {
        "y" | "m" | "v" => vec![0.0; N],
        _ => numbers(i),
    };
    executable.state().iter().enumerate().map(one).collect()
}

fn compare(chain: &Chain, turns: usize) {
    let graph = passes::run((chain.graph)(), &Default::default());
    let pool = Arc::new(Pool::new(1));
    let compiled = CompiledProgram::compile(plan(fuse(&graph, true)), &Options::default());
    let mut executable = Executable::new(compiled.expect("it can be compiled"), pool);
    let mut slices = state(&executable);
    let mut tensors: Vec<Tensor> = slices
        .iter()
        .map(|values| Tensor::new(&[N], values.clone()))
        .collect();
    let places: Vec<usize> = (0..tensors.len()).collect();
    let mut run = |executable: &mut Executable| {
        let done = executable.run(&[], &mut tensors, &places);
        done.expect("it runs");
    };
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    const PASSES: u32 = 50;
    for _ in 0..turns {
        executable.profile(true);
        (0..PASSES).for_each(|_| run(&mut executable));
        let time = executable.profile(false).iter().sum::<Duration>();
        ours = ours.min(time / PASSES);
        let mut time = Duration::ZERO;
        for _ in 0..PASSES {
            let start = Instant::now();
            (chain.by_hand)(&mut slices);
            time += start.elapsed();
        }
        theirs = theirs.min(time / PASSES);
    }
    for (tensor, slice) in tensors.iter().zip(&slices) {
        for (a, b) in tensor.to_f64s().into_iter().zip(slice) {
            let b = f64::from(*b);
            assert!(
                (a - b).abs() <= 1e-4 * b.abs().max(1.0),
                "{}: {a} and {b}",
                chain.name
            );
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / N as f64;
    println!(
        "{:22} {:8.3} {:8.3} {:7.2}",
        chain.name,
        each(ours),
        each(theirs),
        each(ours) / each(theirs)
    );
}

fn main() {
    #[cfg(target_arch = "x86_64")]
    if !Cpu::host().has_avx2_fma() {
        println!("this machine has no AVX2 to compare with");
        return;
    }
    // Without `--bench` this is a check that the program runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    println!("chain, ns/element           ours  by hand   ratio");
    for chain in &CHAINS {
        compare(chain, if full { 400 } else { 2 });
    }
}
