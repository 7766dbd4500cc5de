//! Products of matrices: every size around the edges of tiles, every order of rows and columns, the same bits for any number of
//! threads, and a call for each row that is finished.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use trainspec_codegen::exec::gemm::{
    Factor, Gathered, Matrix, Product, multiply, multiply_by_crate, multiply_gathered, multiply_on,
    pack, packed,
};
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::library::Scratch;

/// Floats that are small whole numbers, so that sums are exact in every order.
trait Number: Factor + PartialEq + std::fmt::Debug {
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

fn whole(seed: usize, i: usize) -> i64 {
    ((i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97)) >> 7) as i64 % 5 - 2
}

/// How a matrix lies in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    Rows,
    Columns,
    Apart,
}

const LIES: [Lie; 3] = [Lie::Rows, Lie::Columns, Lie::Apart];

fn steps(lie: Lie, (rows, columns): (usize, usize)) -> (usize, usize) {
    match lie {
        Lie::Rows => (columns + 3, 1),
        Lie::Columns => (1, rows + 1),
        Lie::Apart => (3 * columns + 1, 3),
    }
}

/// The elements of a matrix, without one more at the end, so that reading behind it would be noticed.
fn data<T: Number>(lie: Lie, (rows, columns): (usize, usize), seed: usize) -> Vec<T> {
    let (down, right) = steps(lie, (rows, columns));
    match rows == 0 || columns == 0 {
        true => Vec::new(),
        false => {
            let n = (rows - 1) * down + (columns - 1) * right + 1;
            (0..n).map(|i| T::of(whole(seed, i))).collect()
        }
    }
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

    fn agree<T: Number>(&self, [m, k, n]: [usize; 3], [lie_a, lie_b]: [Lie; 2], add: bool) {
        let what = || format!("{m} x {k} x {n}, {lie_a:?}, {lie_b:?}, add {add}");
        let (a_data, b_data) = (data::<T>(lie_a, (m, k), 1), data::<T>(lie_b, (k, n), 2));
        let a = Matrix {
            data: &a_data,
            size: (m, k),
            steps: steps(lie_a, (m, k)),
        };
        let b = Matrix {
            data: &b_data,
            size: (k, n),
            steps: steps(lie_b, (k, n)),
        };
        let row = n + 2;
        let before: Vec<T> = (0..m * row).map(|i| T::of(whole(3, i))).collect();
        let mut wanted = before.clone();
        for i in 0..m {
            for j in 0..n {
                let mut sum = if add { before[i * row + j] } else { T::ZERO };
                for t in 0..k {
                    let (x, y) = (
                        a_data[i * a.steps.0 + t * a.steps.1],
                        b_data[t * b.steps.0 + j * b.steps.1],
                    );
                    sum = x.times_plus(y, sum);
                }
                wanted[i * row + j] = sum;
            }
        }
        let room = T::buffers(&self.scratch);
        fn product<T>(data: &mut [T], row: usize, add: bool) -> Product<'_, T> {
            Product { data, row, add }
        }
        let mut y = before.clone();
        multiply(room, product(&mut y, row, add), a, b);
        assert_eq!(y, wanted, "{}", what());
        for pool in &self.pools {
            for by_crate in [false, true] {
                let mut y = before.clone();
                let calls: Vec<AtomicUsize> = (0..m).map(|_| AtomicUsize::new(0)).collect();
                let then = |rows: Range<usize>| {
                    assert!(!rows.is_empty());
                    calls[rows].iter().for_each(|c| {
                        c.fetch_add(1, Relaxed);
                    });
                };
                match by_crate {
                    true => multiply_by_crate(pool, product(&mut y, row, add), a, b, Some(&then)),
                    false => multiply_on(pool, room, product(&mut y, row, add), a, b, Some(&then)),
                }
                assert_eq!(y, wanted, "{} on {} threads", what(), pool.threads());
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
                for lie_a in LIES {
                    for lie_b in LIES {
                        bench.agree::<f32>([m, k, n], [lie_a, lie_b], add);
                        bench.agree::<f64>([m, k, n], [lie_a, lie_b], !add);
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
        for lie_a in LIES {
            for lie_b in LIES {
                bench.agree::<f32>(size, [lie_a, lie_b], i % 2 == 0);
                bench.agree::<f64>(size, [lie_a, lie_b], i % 2 == 1);
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
            steps: (columns, 1),
        };
        let mut all = Vec::new();
        for pool in &bench.pools {
            let mut y = vec![0.0; m * n];
            let product = Product {
                data: &mut y,
                row: n,
                add: false,
            };
            let room = trainspec_codegen::library::Pooled::buffers(&bench.scratch);
            multiply_on(pool, room, product, plain(&a, m, k), plain(&b, k, n), None);
            all.push(y.into_iter().map(f32::to_bits).collect::<Vec<_>>());
        }
        assert!(all.iter().all(|y| *y == all[0]), "{m} x {k} x {n}");
    }
}

#[test]
fn gathered_rows_agree() {
    fn agree<T: Number>(rows: usize, columns: usize, run: usize, step: usize) {
        let starts: Vec<usize> = (0..rows).map(|i| i * 5 % 17 + i).collect();
        let runs = [0, 40, 23];
        let places: Vec<usize> = (0..rows).map(|i| (rows - 1 - i) * (columns + 1)).collect();
        let end = starts.iter().max().unwrap_or(&0) + 40 + (run - 1) * step + 1;
        let x: Vec<T> = (0..end).map(|i| T::of(whole(4, i))).collect();
        let terms = runs.len() * run;
        let b: Vec<T> = (0..terms * columns).map(|i| T::of(whole(5, i))).collect();
        let mut lines = vec![T::of(7); packed::<T>(terms, columns)];
        let matrix = Matrix {
            data: &b,
            size: (terms, columns),
            steps: (columns, 1),
        };
        pack(matrix, &mut lines);
        let mut y = vec![T::of(1); rows * (columns + 1)];
        let mut wanted = y.clone();
        let gathered = Gathered {
            data: &x,
            rows: &starts,
            runs: &runs,
            run,
            step,
        };
        multiply_gathered(&mut y, &places, columns, true, gathered, &lines);
        for (start, place) in starts.iter().zip(&places) {
            for j in 0..columns {
                for (r, begin) in runs.iter().enumerate() {
                    for t in 0..run {
                        let (x, b) = (x[start + begin + t * step], b[(r * run + t) * columns + j]);
                        wanted[place + j] = x.times_plus(b, wanted[place + j]);
                    }
                }
            }
        }
        assert_eq!(y, wanted, "{rows} x {columns}, runs of {run}, {step} apart");
    }
    for rows in [1, 4, 7, 12, 14] {
        for columns in [1, 8, 10, 16, 37] {
            for (run, step) in [(1, 1), (5, 1), (6, 4)] {
                agree::<f32>(rows, columns, run, step);
                agree::<f64>(rows, columns, run, step);
            }
        }
    }
}

#[test]
#[should_panic(expected = "a factor lies in its slice")]
fn a_factor_outside_its_slice_is_refused() {
    let gathered = Gathered {
        data: &[1.0_f32; 10],
        rows: &[0, 8],
        runs: &[0],
        run: 3,
        step: 1,
    };
    multiply_gathered(&mut [0.0; 20], &[0, 8], 8, false, gathered, &[0.0; 24]);
}

#[test]
#[should_panic(expected = "a product lies in its slice")]
fn rows_that_overlap_are_refused() {
    let (data, mut y) = ([1.0_f32; 16], [0.0_f32; 16]);
    let matrix = Matrix {
        data: &data,
        size: (4, 4),
        steps: (4, 1),
    };
    let product = Product {
        data: &mut y,
        row: 2,
        add: false,
    };
    multiply(&Default::default(), product, matrix, matrix);
}
