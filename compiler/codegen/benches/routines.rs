//! Throughput of convolutions, pooling, reductions, sorts and random sampling, on one and on two threads. Asserts nothing. A name as
//! argument selects some.

use std::time::Instant;

use trainspec_codegen::cpu::Cpu;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::library::{Routine, Scratch, Slice, SliceMut, find};
use trainspec_codegen::simd::limits::run_fma_chains;
use trainspec_ir::DType;
use trainspec_ir::graph::{Attr, PrimCall, Type};
use trainspec_ir::ops::find_prim;

struct Bench {
    pools: [Pool; 2],
    scratch: Scratch,
    turns: usize,
    selected: Vec<String>,
}

fn sizes(sizes: &[usize]) -> Attr {
    Attr::Sizes(sizes.to_vec())
}

fn f32s(shape: &[usize]) -> Type {
    Type::new(DType::F32, shape)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench` this is a check that the program runs.
    let full = arguments.iter().any(|argument| argument == "--bench");
    let mut bench = Bench {
        pools: [Pool::exactly(1), Pool::exactly(2)],
        scratch: Scratch::default(),
        turns: if full { 100 } else { 1 },
        selected: arguments
            .into_iter()
            .filter(|a| !a.starts_with("--"))
            .collect(),
    };
    println!("{:24} {:>10} {:>10}   unit", "", "1 thread", "2 threads");
    bench.convolutions();
    let pooled = [
        sizes(&[2, 2]),
        sizes(&[2, 2]),
        Attr::Pairs(vec![(0, 0), (0, 0)]),
    ];
    let (x, y) = (f32s(&[64, 28, 28, 32]), f32s(&[64, 14, 14, 32]));
    let shaped = [&[sizes(&x.shape)], &pooled[..]].concat();
    bench.each("max_pool2d", std::slice::from_ref(&x), &pooled);
    bench.each("max_pool2d_grad", &[x.clone(), y.clone()], &pooled);
    bench.each("sum_pool2d", &[x], &pooled);
    bench.each("sum_pool2d_grad", &[y], &shaped);
    for shape in [[128, 256], [50_000, 64], [1000, 1000]] {
        bench.each("reduce_sum", &[f32s(&shape)], &[sizes(&[0])]);
        bench.each("reduce_sum", &[f32s(&shape)], &[sizes(&[1])]);
    }
    let sort = [Attr::Size(1), Attr::Flag(false)];
    bench.each("argsort", &[f32s(&[1000, 100])], &sort);
    bench.each("argsort", &[f32s(&[1, 100_000])], &sort);
    let sampling = [sizes(&[1000, 1000]), Attr::DType(DType::F32)];
    bench.each("random_uniform", &[Type::scalar(DType::I64)], &sampling);
}

impl Bench {
    fn convolutions(&mut self) {
        let cases = [
            ("28x28, 1 to 32", [8, 28, 28, 1], [5, 5, 1, 32], 1),
            ("14x14, 32 to 64", [4, 14, 14, 32], [5, 5, 32, 64], 1),
            ("32x32, 3 to 64", [4, 32, 32, 3], [3, 3, 3, 64], 1),
            ("14x14 depthwise 128", [8, 14, 14, 128], [3, 3, 1, 128], 128),
        ];
        for (name, x, filters, groups) in cases {
            let margin = filters[0] / 2;
            let window = [
                sizes(&[1, 1]),
                Attr::Pairs(vec![(margin, margin); 2]),
                sizes(&[1, 1]),
                Attr::Size(groups),
            ];
            let y = f32s(&[x[0], x[1], x[2], filters[3]]);
            let (x, f) = (f32s(&x), f32s(&filters));
            let products = y.elements() * filters[..3].iter().product::<usize>();
            let flops = Some(2.0 * products as f64);
            println!("{name}");
            let shaped = |ty: &Type| [&[sizes(&ty.shape)], &window[..]].concat();
            self.run("conv2d", &[x.clone(), f.clone()], &window, flops);
            self.run(
                "conv2d_input_grad",
                &[y.clone(), f.clone()],
                &shaped(&x),
                flops,
            );
            self.run("conv2d_filter_grad", &[x, y], &shaped(&f), flops);
        }
    }

    fn each(&mut self, name: &str, types: &[Type], attrs: &[Attr]) {
        self.run(name, types, attrs, None);
    }

    /// Calls a primitive and prints GFLOP/s, beside the share of the FMA peak in the same turns, or nanoseconds for each element of the
    /// larger of operand and result.
    fn run(&mut self, name: &str, types: &[Type], attrs: &[Attr], flops: Option<f64>) {
        if !self.selected.is_empty() && !self.selected.iter().any(|w| name.contains(w.as_str())) {
            return;
        }
        let prim = find_prim(name).unwrap_or_else(|| panic!("there is no `{name}`"));
        let types: Vec<&Type> = types.iter().collect();
        let operands = &types[..];
        let results = (prim.infer)(&PrimCall {
            prim,
            operands,
            attrs,
        });
        let results = results.unwrap_or_else(|_| panic!("`{name}` takes these"));
        let results: Vec<&Type> = results.iter().collect();
        let number = |i: usize| (i.wrapping_mul(7919) % 10_007) as f32 / 1e4 - 0.4;
        let floats: Vec<Vec<f32>> = types
            .iter()
            .map(|ty| (0..ty.elements()).map(number).collect())
            .collect();
        let key = [77_i64];
        let operands: Vec<Slice<'_>> = types
            .iter()
            .zip(&floats)
            .map(|(ty, floats)| match ty.dtype {
                DType::F32 => Slice::F32(floats),
                _ => Slice::I64(&key),
            })
            .collect();
        let elements = results[0].elements();
        let (mut floats_out, mut positions) = (vec![0.0_f32; elements], vec![0_i64; elements]);
        let output = match results[0].dtype {
            DType::F32 => SliceMut::F32(&mut floats_out),
            _ => SliceMut::I64(&mut positions),
        };
        let mut outputs = [output];
        let largest = types.iter().chain(&results).map(|ty| ty.elements()).max();
        let mut best = [f64::MAX; 2];
        let mut peak = 0.0_f64;
        let run = find(prim).expect("there is a routine");
        let mut routine = Routine {
            prim,
            attrs,
            types: &types,
            results: &results,
            operands: &operands,
            outputs: &mut outputs,
            cpu: Cpu::host(),
            pool: &self.pools[0],
            scratch: &mut self.scratch,
        };
        for _ in 0..self.turns {
            for (pool, best) in self.pools.iter().zip(&mut best) {
                routine.pool = pool;
                let begin = Instant::now();
                run(&mut routine).expect("an answer");
                *best = best.min(begin.elapsed().as_secs_f64());
            }
            let begin = Instant::now();
            let flops = run_fma_chains(1 << 13);
            peak = peak.max(flops as f64 / begin.elapsed().as_secs_f64());
        }
        let [one, two] = match flops {
            Some(flops) => best.map(|best| flops / best / 1e9),
            None => best.map(|best| best * 1e9 / largest.unwrap_or(1) as f64),
        };
        let unit = match flops {
            Some(_) => format!("GFLOP/s ({:.0}% of one)", 1e11 * one / peak),
            None => format!("ns/element of {}", types[0]),
        };
        println!("{name:24} {one:10.2} {two:10.2}   {unit}");
    }
}
