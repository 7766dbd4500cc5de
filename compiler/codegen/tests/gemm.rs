//! GEMM: sizes around the edges of register tiles and blocks, all layouts (row-major, column-major, strided), the same bits for any number
//! of threads, and one call of the epilogue for each row.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use trainspec_codegen::cpu::{Cpu, Machine};
use trainspec_codegen::exec::gemm::{
    GemmFloat, Indirect, Matrix, Product, multiply, multiply_indirect, multiply_on, pack_b,
    packed_b_len,
};
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::library::Scratch;

/// Floats that are small integers, so that sums are exact in every order.
trait Number: GemmFloat + PartialEq + std::fmt::Debug {
    fn of(n: i64) -> Self;
}

impl Number for f32 {
    fn of(n: i64) -> f32 {
        n as f32
    }
}

impl Number for f64 {
    fn of(n: i64) -> f64 {
        n as f64
    }
}

fn small_integer(seed: usize, i: usize) -> i64 {
    ((i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97)) >> 7) as i64 % 5 - 2
}

/// The memory layout of a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    RowMajor,
    ColumnMajor,
    Strided,
}

const LAYOUTS: [Layout; 3] = [Layout::RowMajor, Layout::ColumnMajor, Layout::Strided];

fn strides(layout: Layout, (rows, columns): (usize, usize)) -> (usize, usize) {
    match layout {
        Layout::RowMajor => (columns + 3, 1),
        Layout::ColumnMajor => (1, rows + 1),
        Layout::Strided => (3 * columns + 1, 3),
    }
}

/// The elements of a matrix, without padding at the end, so that a read past it would be noticed.
fn data<T: Number>(layout: Layout, (rows, columns): (usize, usize), seed: usize) -> Vec<T> {
    let (down, right) = strides(layout, (rows, columns));
    match rows == 0 || columns == 0 {
        true => Vec::new(),
        false => {
            let n = (rows - 1) * down + (columns - 1) * right + 1;
            (0..n).map(|i| T::of(small_integer(seed, i))).collect()
        }
    }
}

/// The CPU with all its features, without AVX2, and without FMA.
fn cpus() -> [Cpu; 3] {
    let (cpu, machine) = (Cpu::host(), Machine::host());
    let narrow = Machine {
        wide: false,
        ..machine
    };
    let unfused = Machine {
        fma: false,
        ..machine
    };
    [cpu, cpu.limited(narrow), cpu.limited(unfused)]
}

struct Bench {
    pools: Vec<Pool>,
    scratch: Scratch,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            pools: [1, 2, 3, 8].map(Pool::exactly).into(),
            scratch: Scratch::default(),
        }
    }

    fn agree<T: Number>(
        &self,
        [m, k, n]: [usize; 3],
        [layout_a, layout_b]: [Layout; 2],
        add: bool,
    ) {
        let what = || format!("{m} x {k} x {n}, {layout_a:?}, {layout_b:?}, add {add}");
        let (a_data, b_data) = (
            data::<T>(layout_a, (m, k), 1),
            data::<T>(layout_b, (k, n), 2),
        );
        let a = Matrix {
            data: &a_data,
            size: (m, k),
            strides: strides(layout_a, (m, k)),
        };
        let b = Matrix {
            data: &b_data,
            size: (k, n),
            strides: strides(layout_b, (k, n)),
        };
        let row = n + 2;
        let before: Vec<T> = (0..m * row).map(|i| T::of(small_integer(3, i))).collect();
        let mut expected = before.clone();
        for i in 0..m {
            for j in 0..n {
                let mut sum = if add { before[i * row + j] } else { T::ZERO };
                for t in 0..k {
                    let (x, y) = (
                        a_data[i * a.strides.0 + t * a.strides.1],
                        b_data[t * b.strides.0 + j * b.strides.1],
                    );
                    sum = x.multiply_add(y, sum);
                }
                expected[i * row + j] = sum;
            }
        }
        let buffers = T::buffers(&self.scratch);
        fn product<T>(data: &mut [T], row: usize, add: bool) -> Product<'_, T> {
            Product {
                data,
                row_stride: row,
                accumulate: add,
            }
        }
        for cpu in cpus() {
            let mut y = before.clone();
            multiply(cpu, buffers, product(&mut y, row, add), a, b);
            assert_eq!(y, expected, "{}, {cpu:?}", what());
            for pool in &self.pools {
                let mut y = before.clone();
                let calls: Vec<AtomicUsize> = (0..m).map(|_| AtomicUsize::new(0)).collect();
                let epilogue = |rows: Range<usize>| {
                    assert!(!rows.is_empty());
                    calls[rows].iter().for_each(|c| {
                        c.fetch_add(1, Relaxed);
                    });
                };
                let to = product(&mut y, row, add);
                multiply_on(cpu, pool, buffers, to, a, b, Some(&epilogue));
                let threads = pool.threads();
                assert_eq!(y, expected, "{} on {threads} threads, {cpu:?}", what());
                let once = calls.iter().all(|c| c.load(Relaxed) == 1);
                assert!(once, "{}: each row is finished once", what());
            }
        }
    }
}

#[test]
fn small_sizes_agree() {
    let bench = Bench::new();
    for m in [0, 1, 2, 5, 6, 7, 13] {
        for n in [0, 1, 3, 8, 9, 16, 17, 25, 40] {
            for k in [0, 1, 2, 7, 8, 9, 33] {
                let add = (m + n + k) % 2 == 0;
                for layout_a in LAYOUTS {
                    for layout_b in LAYOUTS {
                        bench.agree::<f32>([m, k, n], [layout_a, layout_b], add);
                        bench.agree::<f64>([m, k, n], [layout_a, layout_b], !add);
                    }
                }
            }
        }
    }
}

#[test]
fn large_sizes_agree() {
    let bench = Bench::new();
    let sizes = [
        [130, 70, 150],
        [200, 330, 90],
        [90, 700, 33],
        [300, 40, 10],
        [20, 300, 400],
        [40, 90, 700],
        [7, 5000, 9],
        [30, 9000, 20],
        [70, 1300, 45],
        [600, 150, 1],
        [1, 150, 600],
        [1, 9000, 1],
        [513, 20, 129],
    ];
    for (i, size) in sizes.into_iter().enumerate() {
        for layout_a in LAYOUTS {
            for layout_b in LAYOUTS {
                bench.agree::<f32>(size, [layout_a, layout_b], i % 2 == 0);
                bench.agree::<f64>(size, [layout_a, layout_b], i % 2 == 1);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let bench = Bench::new();
    for [m, k, n] in [
        [150, 700, 130],
        [12, 700, 900],
        [9, 9000, 30],
        [1, 500, 700],
    ] {
        let number = |i: usize| (i.wrapping_mul(7919) % 10_007) as f32 / 1e4 - 0.4;
        let a: Vec<f32> = (0..m * k).map(number).collect();
        let b: Vec<f32> = (0..k * n).map(number).collect();
        let plain = |data, rows, columns| Matrix {
            data,
            size: (rows, columns),
            strides: (columns, 1),
        };
        for cpu in cpus() {
            let mut all = Vec::new();
            for pool in &bench.pools {
                let mut y = vec![0.0; m * n];
                let product = Product {
                    data: &mut y,
                    row_stride: n,
                    accumulate: false,
                };
                let buffers = trainspec_codegen::library::Pooled::buffers(&bench.scratch);
                let (a, b) = (plain(&a, m, k), plain(&b, k, n));
                multiply_on(cpu, pool, buffers, product, a, b, None);
                all.push(y.into_iter().map(f32::to_bits).collect::<Vec<_>>());
            }
            assert!(all.iter().all(|y| *y == all[0]), "{m} x {k} x {n}, {cpu:?}");
        }
    }
}

/// (1 + ε)² - (1 + 2ε) is ε² where the product is not rounded before it is added, and 0 where it is.
#[test]
fn without_fma_products_are_rounded_before_they_are_added() {
    let (scratch, pool) = (Scratch::default(), Pool::exactly(2));
    let near_one = 1.0 + f32::EPSILON;
    // Matrix by matrix, matrix by column, row by matrix.
    for (m, n) in [(40, 40), (3, 20), (40, 1), (1, 40)] {
        let a: Vec<f32> = [1.0, near_one].repeat(m);
        let b: Vec<f32> = [vec![-(1.0 + 2.0 * f32::EPSILON); n], vec![near_one; n]].concat();
        for cpu in cpus() {
            let mut y = vec![1.0_f32; m * n];
            let (rows, columns) = (
                Matrix {
                    data: &a,
                    size: (m, 2),
                    strides: (2, 1),
                },
                Matrix {
                    data: &b,
                    size: (2, n),
                    strides: (n, 1),
                },
            );
            let product = Product {
                data: &mut y,
                row_stride: n,
                accumulate: false,
            };
            let buffers = trainspec_codegen::library::Pooled::buffers(&scratch);
            multiply_on(cpu, &pool, buffers, product, rows, columns, None);
            let has_fma = cpu.has_avx2_fma() || (cfg!(target_arch = "aarch64") && cpu.has_fma());
            // The dot form of a GEMV has its terms in different lanes, which are added after they are rounded.
            let is_fused = has_fma && n > 1;
            let expected = match is_fused {
                true => f32::EPSILON * f32::EPSILON,
                false => 0.0,
            };
            assert!(
                y.iter().all(|y| *y == expected),
                "{m} x {n}, {cpu:?}: {y:?}"
            );
        }
    }
}

#[test]
fn indirect_gemm_agrees() {
    fn agree<T: Number>(cpu: Cpu, rows: usize, columns: usize, run: usize, step: usize) {
        let starts: Vec<usize> = (0..rows).map(|i| i * 5 % 17 + i).collect();
        let runs = [0, 40, 23];
        let places: Vec<usize> = (0..rows).map(|i| (rows - 1 - i) * (columns + 1)).collect();
        let end = starts.iter().max().unwrap_or(&0) + 40 + (run - 1) * step + 1;
        let x: Vec<T> = (0..end).map(|i| T::of(small_integer(4, i))).collect();
        let terms = runs.len() * run;
        let b: Vec<T> = (0..terms * columns)
            .map(|i| T::of(small_integer(5, i)))
            .collect();
        let mut packed = vec![T::of(7); packed_b_len::<T>(terms, columns)];
        let matrix = Matrix {
            data: &b,
            size: (terms, columns),
            strides: (columns, 1),
        };
        pack_b(cpu, matrix, &mut packed);
        let mut y = vec![T::of(1); rows * (columns + 1)];
        let mut expected = y.clone();
        let indirect = Indirect {
            data: &x,
            row_offsets: &starts,
            run_offsets: &runs,
            run_len: run,
            stride: step,
        };
        multiply_indirect(cpu, &mut y, &places, columns, true, indirect, &packed);
        for (start, place) in starts.iter().zip(&places) {
            for j in 0..columns {
                for (r, begin) in runs.iter().enumerate() {
                    for t in 0..run {
                        let (x, b) = (x[start + begin + t * step], b[(r * run + t) * columns + j]);
                        expected[place + j] = x.multiply_add(b, expected[place + j]);
                    }
                }
            }
        }
        assert_eq!(
            y, expected,
            "{rows} x {columns}, runs of {run}, stride {step}"
        );
    }
    for rows in [1, 4, 7, 12, 14] {
        for columns in [1, 8, 10, 16, 37] {
            for (run, step) in [(1, 1), (5, 1), (6, 4)] {
                for cpu in cpus() {
                    agree::<f32>(cpu, rows, columns, run, step);
                    agree::<f64>(cpu, rows, columns, run, step);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "a factor lies in its slice")]
fn a_factor_outside_its_slice_is_refused() {
    let indirect = Indirect {
        data: &[1.0_f32; 10],
        row_offsets: &[0, 8],
        run_offsets: &[0],
        run_len: 3,
        stride: 1,
    };
    multiply_indirect(
        Cpu::host(),
        &mut [0.0; 20],
        &[0, 8],
        8,
        false,
        indirect,
        &[0.0; 24],
    );
}

#[test]
#[should_panic(expected = "a product lies in its slice")]
fn rows_that_overlap_are_refused() {
    let (data, mut y) = ([1.0_f32; 16], [0.0_f32; 16]);
    let matrix = Matrix {
        data: &data,
        size: (4, 4),
        strides: (4, 1),
    };
    let product = Product {
        data: &mut y,
        row_stride: 2,
        accumulate: false,
    };
    multiply(Cpu::host(), &Default::default(), product, matrix, matrix);
}
