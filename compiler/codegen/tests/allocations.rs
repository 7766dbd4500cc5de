//! A library routine that is called again with the same sizes and scratch buffers allocates nothing.

#![allow(unsafe_code)] // a counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use trainspec_codegen::cpu::Cpu;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::library::{Routine, Scratch, Slice, SliceMut, find};
use trainspec_ir::DType;
use trainspec_ir::graph::{Attr, PrimCall, Type};
use trainspec_ir::ops::find_prim;

/// The system's allocator, counting allocations.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn sizes(sizes: &[usize]) -> Attr {
    Attr::Sizes(sizes.to_vec())
}

fn f32s(shape: &[usize]) -> Type {
    Type::new(DType::F32, shape)
}

/// Calls a primitive several times on floats, and positions below 20.
fn check(pool: &Pool, scratch: &mut Scratch, name: &str, types: &[Type], attrs: &[Attr]) {
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
    let float = |n: usize| {
        (0..n)
            .map(|i| (i * 7 % 13) as f32 - 6.0)
            .collect::<Vec<f32>>()
    };
    let int = |n: usize| (0..n).map(|i| (i * 7 % 20) as i64).collect::<Vec<i64>>();
    let floats: Vec<Vec<f32>> = types.iter().map(|ty| float(ty.elements())).collect();
    let ints: Vec<Vec<i64>> = types.iter().map(|ty| int(ty.elements())).collect();
    let operands: Vec<Slice<'_>> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| match ty.dtype {
            DType::F32 => Slice::F32(&floats[i]),
            _ => Slice::I64(&ints[i]),
        })
        .collect();
    let mut float_outputs: Vec<Vec<f32>> = results.iter().map(|ty| float(ty.elements())).collect();
    let mut int_outputs: Vec<Vec<i64>> = results.iter().map(|ty| int(ty.elements())).collect();
    let mut outputs: Vec<SliceMut<'_>> = results
        .iter()
        .zip(float_outputs.iter_mut().zip(&mut int_outputs))
        .map(|(ty, (floats, ints))| match ty.dtype {
            DType::F32 => SliceMut::F32(floats),
            _ => SliceMut::I64(ints),
        })
        .collect();
    let run = find(prim).expect("there is a routine");
    let mut routine = Routine {
        prim,
        attrs,
        types: &types,
        results: &results,
        operands: &operands,
        outputs: &mut outputs,
        cpu: Cpu::host(),
        pool,
        scratch,
    };
    run(&mut routine).expect("an answer");
    for _ in 0..5 {
        let before = COUNT.load(SeqCst);
        run(&mut routine).expect("an answer");
        let allocated = COUNT.load(SeqCst) - before;
        assert_eq!(allocated, 0, "`{name}` on {} threads", pool.threads());
    }
}

/// A barrier: waits until every thread has started, because a thread allocates its name when it starts.
fn barrier(pool: &Pool) {
    let present = AtomicUsize::new(0);
    pool.run(pool.threads(), &|_| {
        present.fetch_add(1, SeqCst);
        while present.load(SeqCst) < pool.threads() {
            std::thread::yield_now();
        }
    });
}

/// Without the usual harness, whose own thread would be counted.
fn main() {
    let at = |n: usize| Type::new(DType::I64, &[n]);
    let flags = |a: bool, b: bool| [Attr::Flag(a), Attr::Flag(b)];
    for threads in [1, 2, 4] {
        let pool = Pool::exactly(threads);
        barrier(&pool);
        let mut scratch = Scratch::default();
        let mut check = |name: &str, types: &[Type], attrs: &[Attr]| {
            check(&pool, &mut scratch, name, types, attrs);
        };
        for (a, b) in [(false, false), (true, false), (false, true), (true, true)] {
            for [m, k, n] in [
                [128, 300, 256],
                [16, 200, 700],
                [20, 6000, 30],
                [300, 20, 10],
                [90, 400, 1],
                [1, 400, 90],
            ] {
                let left = f32s(&if a { [k, m] } else { [m, k] });
                let right = f32s(&if b { [n, k] } else { [k, n] });
                check("matmul", &[left, right], &flags(a, b));
            }
            let batch =
                |transposed: bool, p, q| f32s(&if transposed { [9, q, p] } else { [9, p, q] });
            check(
                "matmul",
                &[batch(a, 40, 50), batch(b, 50, 60)],
                &flags(a, b),
            );
        }
        for (channels, filters, groups) in [
            (1, [5, 5, 1, 32], 1),
            (16, [3, 3, 16, 24], 1),
            (16, [1, 1, 16, 24], 1),
            (12, [3, 3, 1, 12], 12),
        ] {
            for stride in [1, 2] {
                let window = [
                    sizes(&[stride, stride]),
                    Attr::Pairs(vec![(1, 1), (1, 1)]),
                    sizes(&[1, 1]),
                    Attr::Size(groups),
                ];
                let x = f32s(&[5, 15, 15, channels]);
                let f = f32s(&filters);
                let side = (17 - filters[0]) / stride + 1;
                let y = f32s(&[5, side, side, filters[3]]);
                check("conv2d", &[x.clone(), f.clone()], &window);
                let shaped = |ty: &Type| [&[sizes(&ty.shape)], &window[..]].concat();
                check("conv2d_input_grad", &[y.clone(), f.clone()], &shaped(&x));
                check("conv2d_filter_grad", &[x, y], &shaped(&f));
            }
        }
        let pooled = [
            sizes(&[2, 2]),
            sizes(&[2, 2]),
            Attr::Pairs(vec![(0, 0), (0, 0)]),
        ];
        let (x, y) = (f32s(&[6, 30, 30, 20]), f32s(&[6, 15, 15, 20]));
        check("max_pool2d", std::slice::from_ref(&x), &pooled);
        check("sum_pool2d", std::slice::from_ref(&x), &pooled);
        check("max_pool2d_grad", &[x.clone(), y.clone()], &pooled);
        let shaped = [&[sizes(&x.shape)], &pooled[..]].concat();
        check("sum_pool2d_grad", &[y], &shaped);
        let matrix = f32s(&[400, 300]);
        for name in ["reduce_sum", "reduce_max", "reduce_prod"] {
            for axes in [&[0][..], &[1], &[0, 1]] {
                check(name, std::slice::from_ref(&matrix), &[sizes(axes)]);
            }
        }
        let rows = f32s(&[3000, 40]);
        let table = f32s(&[20, 40]);
        check("take", &[table.clone(), at(3000)], &[Attr::Flag(false)]);
        check("scatter_add", &[table.clone(), at(3000), rows.clone()], &[]);
        check("scatter_set", &[table, at(3000), rows.clone()], &[]);
        let count = Type::scalar(DType::I64);
        check(
            "sum_rows",
            &[at(3000), rows.clone(), count],
            &[Attr::Size(20)],
        );
        check(
            "unsorted_segment_max",
            &[rows.clone(), at(3000)],
            &[Attr::Size(20)],
        );
        check(
            "transpose",
            std::slice::from_ref(&matrix),
            &[sizes(&[1, 0])],
        );
        check("broadcast", &[f32s(&[300])], &[sizes(&[200, 300])]);
        check(
            "concat",
            &[matrix.clone(), matrix.clone()],
            &[Attr::Size(1)],
        );
        let margins = [sizes(&[1, 2]), sizes(&[0, 2]), sizes(&[0, 0])];
        check("pad", &[matrix.clone(), f32s(&[])], &margins);
        let sums = [Attr::Size(0), Attr::Flag(false), Attr::Flag(true)];
        check("cumsum", std::slice::from_ref(&matrix), &sums);
        check("argmax", std::slice::from_ref(&matrix), &[Attr::Size(1)]);
        for axis in [0, 1] {
            check(
                "argsort",
                std::slice::from_ref(&matrix),
                &[Attr::Size(axis), Attr::Flag(true)],
            );
        }
        let drawn = [sizes(&[300, 200]), Attr::DType(DType::F32)];
        check("random_uniform", &[Type::scalar(DType::I64)], &drawn);
        check("add", &[matrix.clone(), matrix.clone()], &[]);
        check("iota", &[], &[Attr::Size(40_000)]);
    }
}
