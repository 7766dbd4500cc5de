//! Reductions over axes: two-level, with lane accumulators inside blocks and pairwise summation over blocks.
//!
//! The reduction order is deterministic: it does not depend on the layout or the number of threads. The terms of a result are in row-major
//! order. Blocks of [`BLOCK`] terms have [`LANES`] accumulators each, term t going to lane t mod 8; the lanes are combined
//! as a binary tree (0 with 4, 1 with 5, … then 0 with 2, 1 with 3, then 0 with 1), and adjacent blocks pairwise, level by
//! level.

use std::mem::take;

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, Int, floats, ints};
use super::scratch::{Dim, Pooled};
use super::strided::{collapse, offset_of};
use super::{GRAIN, Routine, y};
use crate::cpu::Cpu;
use crate::exec::multiversion::{self, dispatch};
use crate::exec::parallel;
use crate::simd;

/// The most terms of a block.
pub(super) const BLOCK: usize = 256;

/// The number of lane accumulators.
pub(super) const LANES: usize = 8;

/// Adjacent results that are computed together.
const COLUMN_BLOCK: usize = 64;

/// A reduction operation (monoid) with its accumulator.
trait Reducer<T> {
    /// The accumulator type.
    type Acc: Pooled;
    /// The identity element.
    fn identity() -> Self::Acc;
    fn widen(x: T) -> Self::Acc;
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn narrow(a: Self::Acc) -> T;
}

macro_rules! reducer {
    ($name:ident<$t:ident: $bound:ident>, $acc:ty, $identity:expr, $widen:expr, $combine:expr, $narrow:expr) => {
        struct $name;

        impl<$t: $bound> Reducer<$t> for $name {
            type Acc = $acc;

            #[inline(always)]
            fn identity() -> $acc {
                $identity
            }

            #[inline(always)]
            fn widen(x: $t) -> $acc {
                $widen(x)
            }

            #[inline(always)]
            fn combine(a: $acc, b: $acc) -> $acc {
                $combine(a, b)
            }

            #[inline(always)]
            fn narrow(a: $acc) -> $t {
                $narrow(a)
            }
        }
    };
}

type Acc<T> = <T as Float>::Acc;

reducer!(SumFloat<T: Float>, Acc<T>, Acc::<T>::default(), T::widen, |a, b| a + b, T::narrow);
reducer!(SumInt<T: Int>, i64, 0, T::to_i64, i64::wrapping_add, T::from_i64);
// In f64, because an intermediate product could overflow in a narrower type.
reducer!(ProdFloat<T: Float>, f64, 1.0, T::to_f64, |a, b| a * b, T::rounded);
reducer!(ProdInt<T: Int>, i64, 1, T::to_i64, i64::wrapping_mul, T::from_i64);
reducer!(MaxFloat<T: Float>, Acc<T>, Acc::<T>::rounded(f64::NEG_INFINITY), T::widen, larger, T::narrow);
reducer!(MaxInt<T: Int>, i64, T::DTYPE.int_range().map_or(0, |r| r.0), T::to_i64, i64::max, T::from_i64);
reducer!(MinFloat<T: Float>, Acc<T>, Acc::<T>::rounded(f64::INFINITY), T::widen, smaller, T::narrow);
reducer!(MinInt<T: Int>, i64, T::DTYPE.int_range().map_or(0, |r| r.1), T::to_i64, i64::min, T::from_i64);
reducer!(Any<T: Elem>, bool, false, |x: T| x.to_i64() != 0, |a, b| a | b, |b| T::from_i64(i64::from(b)));
reducer!(All<T: Elem>, bool, true, |x: T| x.to_i64() != 0, |a, b| a & b, |b| T::from_i64(i64::from(b)));

/// The maximum of two; propagates NaN (`maximum` of IEEE 754, but for the sign of zero).
#[inline(always)]
#[allow(clippy::eq_op)] // NaN differs from itself
fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a != a || a > b { a } else { b }
}

/// The minimum of two; propagates NaN (`minimum` of IEEE 754, but for the sign of zero).
#[inline(always)]
#[allow(clippy::eq_op)] // NaN differs from itself
fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    if a != a || a < b { a } else { b }
}

macro_rules! reduction {
    ($name:ident, $float:ident, $int:ident, $doc:literal) => {
        #[doc = $doc]
        pub(super) fn $name(r: &mut Routine<'_>) -> Result<(), EvalError> {
            let dtype = r.types[0].dtype;
            match dtype.is_float() {
                true => floats!(dtype, T => reduce::<T, $float>(r)),
                false => ints!(dtype, T => reduce::<T, $int>(r)),
            }
            Ok(())
        }
    };
}

reduction!(reduce_sum, SumFloat, SumInt, "Sums over axes.");
reduction!(reduce_prod, ProdFloat, ProdInt, "Products over axes.");
reduction!(reduce_max, MaxFloat, MaxInt, "Maxima over axes.");
reduction!(reduce_min, MinFloat, MinInt, "Minima over axes.");

/// Logical or over axes.
pub(super) fn reduce_any(r: &mut Routine<'_>) -> Result<(), EvalError> {
    reduce::<bool, Any>(r);
    Ok(())
}

/// Logical and over axes.
pub(super) fn reduce_all(r: &mut Routine<'_>) -> Result<(), EvalError> {
    reduce::<bool, All>(r);
    Ok(())
}

/// Reduces the attribute `axes` of the operand: blocks of terms in parallel, then the blocks of each result pairwise.
fn reduce<T: Elem, F: Reducer<T>>(r: &mut Routine<'_>) {
    r.check();
    let (x, axes) = (r.x::<T>(0), r.sizes("axes"));
    let y = y::<T>(&mut r.outputs[0]);
    if y.is_empty() {
        return;
    }
    let shape = &r.types[0].shape;
    let terms: usize = axes.iter().map(|i| shape[*i]).product();
    if terms == 0 {
        return y.fill(F::narrow(F::identity()));
    }
    let (mut kept, mut reduced) = (take(&mut r.scratch.dims), take(&mut r.scratch.reduced_dims));
    kept.clear();
    reduced.clear();
    let mut stride = 1;
    for (i, size) in shape.iter().enumerate().rev() {
        let to = if axes.contains(&i) {
            &mut reduced
        } else {
            &mut kept
        };
        to.push(Dim {
            size: *size,
            stride,
        });
        stride *= *size as isize;
    }
    kept.reverse();
    reduced.reverse();
    collapse(&mut kept);
    collapse(&mut reduced);
    // Adjacent results are computed together.
    let adjacent = match kept.last() {
        Some(Dim { size, stride: 1 }) => *size,
        _ => 1,
    };
    if adjacent > 1 {
        kept.pop();
    }
    let plan = Plan {
        x,
        kept: &kept,
        reduced: &reduced,
        terms,
        blocks: terms.div_ceil(BLOCK),
        adjacent,
        cpu: r.cpu,
    };
    let results = y.len();
    // Tasks of full cache lines, where results are adjacent.
    let size = (GRAIN / terms.min(BLOCK)).max(adjacent.min(COLUMN_BLOCK));
    F::Acc::buffers(r.scratch).with(results * plan.blocks, |partial| {
        parallel::chunks_mut(r.pool, partial, size, |i, part| {
            plan.partials::<F>(i * size, part)
        });
        for (i, y) in y.iter_mut().enumerate() {
            let first = i / adjacent * plan.blocks * adjacent + i % adjacent;
            let block = |b: usize| partial[first + b * adjacent];
            *y = F::narrow(pairwise(plan.blocks, block, F::combine));
        }
    });
    (r.scratch.dims, r.scratch.reduced_dims) = (kept, reduced);
}

/// A reduction. Partial results are indexed by kept dimensions, then block, then adjacent result.
struct Plan<'a, T> {
    x: &'a [T],
    /// The dimensions that stay, but for the adjacent results.
    kept: &'a [Dim],
    reduced: &'a [Dim],
    /// The terms of a result.
    terms: usize,
    /// The blocks of terms of a result.
    blocks: usize,
    /// How many results have their terms side by side in memory; 1 where the terms of a result are.
    adjacent: usize,
    cpu: Cpu,
}

impl<T: Elem> Plan<'_, T> {
    /// Computes the partial results from index `first` on.
    fn partials<F: Reducer<T>>(&self, first: usize, part: &mut [F::Acc]) {
        let (mut group, mut column) = (first / self.adjacent, first % self.adjacent);
        let mut rest = part;
        while !rest.is_empty() {
            let length = (self.adjacent - column).min(rest.len()).min(COLUMN_BLOCK);
            let (run, after) = rest.split_at_mut(length);
            let start = offset_of(self.kept, group / self.blocks) as usize + column;
            let first = group % self.blocks * BLOCK;
            let terms = first..self.terms.min(first + BLOCK);
            match self.adjacent {
                1 => run[0] = self.reduce_block::<F>(start, terms),
                _ => self.reduce_columns::<F>(start, terms, run),
            }
            rest = after;
            column += length;
            if column == self.adjacent {
                (group, column) = (group + 1, 0);
            }
        }
    }

    /// One block of terms of one result, whose first term is at `start`.
    fn reduce_block<F: Reducer<T>>(&self, start: usize, terms: std::ops::Range<usize>) -> F::Acc {
        let mut lanes = [F::identity(); LANES];
        if let [Dim { stride: 1, .. }] = self.reduced {
            let run = self.x[start..][terms].chunks_exact(LANES);
            let tail = run.remainder();
            for xs in run {
                for (lane, x) in lanes.iter_mut().zip(xs) {
                    *lane = F::combine(*lane, F::widen(*x));
                }
            }
            for (lane, x) in lanes.iter_mut().zip(tail) {
                *lane = F::combine(*lane, F::widen(*x));
            }
        } else {
            for t in terms {
                let x = self.x[start + offset_of(self.reduced, t) as usize];
                lanes[t % LANES] = F::combine(lanes[t % LANES], F::widen(x));
            }
        }
        reduce_lanes(&mut lanes, F::combine);
        lanes[0]
    }

    /// One block of terms of each of some adjacent results, the first of which begins at `start`.
    fn reduce_columns<F: Reducer<T>>(
        &self,
        start: usize,
        terms: std::ops::Range<usize>,
        out: &mut [F::Acc],
    ) {
        let mut lanes = [[F::identity(); COLUMN_BLOCK]; LANES];
        let n = out.len();
        let columns = Columns::<T, F> {
            plan: self,
            start,
            terms,
            n,
            lanes: &mut lanes,
        };
        dispatch(self.cpu, columns);
        for (i, out) in out.iter_mut().enumerate() {
            let mut own = [F::identity(); LANES];
            for (to, lane) in own.iter_mut().zip(&lanes) {
                *to = lane[i];
            }
            reduce_lanes(&mut own, F::combine);
            *out = own[0];
        }
    }
}

/// The prefetch distance in rows: rows are too far apart for the hardware prefetcher.
const PREFETCH_DISTANCE_ROWS: usize = 16;

/// The lane accumulators of adjacent results.
struct Columns<'a, T, F: Reducer<T>> {
    plan: &'a Plan<'a, T>,
    start: usize,
    terms: std::ops::Range<usize>,
    n: usize,
    lanes: &'a mut [[F::Acc; COLUMN_BLOCK]; LANES],
}

impl<T: Elem, F: Reducer<T>> multiversion::Work for Columns<'_, T, F> {
    type Out = ();

    /// Row by row: accumulators stay in the L1 cache, terms are read in contiguous runs.
    #[inline(always)]
    fn run(self) {
        let row = |t: usize| {
            let at = self.start + offset_of(self.plan.reduced, t) as usize;
            &self.plan.x[at..][..self.n]
        };
        for t in self.terms.clone() {
            if t + PREFETCH_DISTANCE_ROWS < self.terms.end {
                let later = row(t + PREFETCH_DISTANCE_ROWS);
                // One prefetch for each cache line of 64 bytes.
                (0..self.n)
                    .step_by(64 / size_of::<T>())
                    .for_each(|i| simd::prefetch(later, i));
            }
            let lane = &mut self.lanes[t % LANES];
            // A full block has a constant length, which is unrolled.
            match <&[T; COLUMN_BLOCK]>::try_from(row(t)) {
                Ok(row) => accumulate_row::<T, F>(lane, row),
                Err(_) => accumulate_row::<T, F>(&mut lane[..self.n], row(t)),
            }
        }
    }
}

/// Combines the terms of a row into the accumulators of its columns.
#[inline(always)]
fn accumulate_row<T: Elem, F: Reducer<T>>(lane: &mut [F::Acc], row: &[T]) {
    for (lane, x) in lane.iter_mut().zip(row) {
        *lane = F::combine(*lane, F::widen(*x));
    }
}

/// Horizontal reduction of lanes into the first, as a binary tree.
fn reduce_lanes<A: Copy>(lanes: &mut [A; LANES], combine: impl Fn(A, A) -> A) {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = combine(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
}

/// Pairwise reduction (as in pairwise summation): combines neighbours level by level; one without a neighbour goes up a level.
///
/// # Panics
///
/// When there are none.
pub(super) fn pairwise<A: Copy>(
    count: usize,
    at: impl Fn(usize) -> A,
    combine: impl Fn(A, A) -> A,
) -> A {
    // A binary counter of complete subtrees, the largest first: one for each set bit of the number of terms so far.
    let mut pending = [at(0); usize::BITS as usize];
    let mut trees = 1;
    for i in 1..count {
        pending[trees] = at(i);
        trees += 1;
        for _ in 0..(i + 1).trailing_zeros() {
            pending[trees - 2] = combine(pending[trees - 2], pending[trees - 1]);
            trees -= 1;
        }
    }
    while trees > 1 {
        pending[trees - 2] = combine(pending[trees - 2], pending[trees - 1]);
        trees -= 1;
    }
    pending[0]
}

#[cfg(test)]
mod tests {
    use super::pairwise;

    #[test]
    fn pairwise_combines_neighbours_level_by_level() {
        let tree = |n: usize| {
            let names = ["a", "b", "c", "d", "e", "f", "g"];
            let next = std::cell::RefCell::new(names.map(str::to_owned).to_vec());
            let combine = |a: usize, b: usize| {
                let joined = format!("({}{})", next.borrow()[a], next.borrow()[b]);
                next.borrow_mut().push(joined);
                next.borrow().len() - 1
            };
            let root = pairwise(n, |i| i, combine);
            next.borrow()[root].clone()
        };
        assert_eq!(tree(1), "a");
        assert_eq!(tree(3), "((ab)c)");
        assert_eq!(tree(5), "(((ab)(cd))e)");
        assert_eq!(tree(7), "(((ab)(cd))((ef)g))");
    }
}
