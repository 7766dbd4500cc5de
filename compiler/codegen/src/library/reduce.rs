//! Reductions over axes.
//!
//! The order is the same wherever the elements lie and however many threads there are. The terms of a result come row after
//! row. Blocks of [`BLOCK`] terms have [`LANES`] running values each, term t going to lane t mod 8; the lanes are joined
//! by halves (0 with 4, 1 with 5, … then 0 with 2, 1 with 3, then 0 with 1), and neighbouring blocks pairwise, level by
//! level.

use std::mem::take;

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, Int, floats, ints};
use super::moves::{merge, place};
use super::scratch::{Kept, Step};
use super::{GRAIN, Routine, y};
use crate::exec::multiversion::{self, dispatch};
use crate::exec::parallel;
use crate::simd;

/// How many terms are reduced by running values, at the most.
pub(super) const BLOCK: usize = 256;

/// How many running values there are.
pub(super) const LANES: usize = 8;

/// How many results that lie beside each other are made together.
const BESIDE: usize = 64;

/// A way to reduce.
trait Fold<T> {
    /// What is kept on the way.
    type Kept: Kept;
    /// What changes nothing.
    fn start() -> Self::Kept;
    fn read(x: T) -> Self::Kept;
    fn join(a: Self::Kept, b: Self::Kept) -> Self::Kept;
    fn write(a: Self::Kept) -> T;
}

macro_rules! fold {
    ($name:ident<$t:ident: $bound:ident>, $kept:ty, $start:expr, $read:expr, $join:expr, $write:expr) => {
        struct $name;

        impl<$t: $bound> Fold<$t> for $name {
            type Kept = $kept;

            #[inline(always)]
            fn start() -> $kept {
                $start
            }

            #[inline(always)]
            fn read(x: $t) -> $kept {
                $read(x)
            }

            #[inline(always)]
            fn join(a: $kept, b: $kept) -> $kept {
                $join(a, b)
            }

            #[inline(always)]
            fn write(a: $kept) -> $t {
                $write(a)
            }
        }
    };
}

type Sum<T> = <T as Float>::Sum;

fold!(SumFloat<T: Float>, Sum<T>, Sum::<T>::default(), T::widen, |a, b| a + b, T::narrow);
fold!(SumInt<T: Int>, i64, 0, T::to_i64, i64::wrapping_add, T::from_i64);
// In f64, because a product in a narrower type could overflow on the way.
fold!(ProdFloat<T: Float>, f64, 1.0, T::to_f64, |a, b| a * b, T::rounded);
fold!(ProdInt<T: Int>, i64, 1, T::to_i64, i64::wrapping_mul, T::from_i64);
fold!(MaxFloat<T: Float>, Sum<T>, Sum::<T>::rounded(f64::NEG_INFINITY), T::widen, larger, T::narrow);
fold!(MaxInt<T: Int>, i64, T::DTYPE.int_range().map_or(0, |r| r.0), T::to_i64, i64::max, T::from_i64);
fold!(MinFloat<T: Float>, Sum<T>, Sum::<T>::rounded(f64::INFINITY), T::widen, smaller, T::narrow);
fold!(MinInt<T: Int>, i64, T::DTYPE.int_range().map_or(0, |r| r.1), T::to_i64, i64::min, T::from_i64);
fold!(Any<T: Elem>, bool, false, |x: T| x.to_i64() != 0, |a, b| a | b, |b| T::from_i64(i64::from(b)));
fold!(All<T: Elem>, bool, true, |x: T| x.to_i64() != 0, |a, b| a & b, |b| T::from_i64(i64::from(b)));

/// The larger of two; NaN where one is NaN.
#[inline(always)]
#[allow(clippy::eq_op)] // NaN differs from itself
fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a != a || a > b { a } else { b }
}

/// The smaller of two; NaN where one is NaN.
#[inline(always)]
#[allow(clippy::eq_op)] // NaN differs from itself
fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    if a != a || a < b { a } else { b }
}

macro_rules! numbers {
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

numbers!(reduce_sum, SumFloat, SumInt, "Sums over axes.");
numbers!(reduce_prod, ProdFloat, ProdInt, "Products over axes.");
numbers!(reduce_max, MaxFloat, MaxInt, "The largest over axes.");
numbers!(reduce_min, MinFloat, MinInt, "The smallest over axes.");

/// Whether one over axes is true.
pub(super) fn reduce_any(r: &mut Routine<'_>) -> Result<(), EvalError> {
    reduce::<bool, Any>(r);
    Ok(())
}

/// Whether all over axes are true.
pub(super) fn reduce_all(r: &mut Routine<'_>) -> Result<(), EvalError> {
    reduce::<bool, All>(r);
    Ok(())
}

fn reduce<T: Elem, F: Fold<T>>(r: &mut Routine<'_>) {
    r.check();
    let (x, axes) = (r.x::<T>(0), r.sizes("axes"));
    let y = y::<T>(&mut r.outputs[0]);
    if y.is_empty() {
        return;
    }
    let shape = &r.types[0].shape;
    let terms: usize = axes.iter().map(|i| shape[*i]).product();
    if terms == 0 {
        return y.fill(F::write(F::start()));
    }
    let (mut kept, mut gone) = (take(&mut r.scratch.steps), take(&mut r.scratch.others));
    kept.clear();
    gone.clear();
    let mut step = 1;
    for (i, size) in shape.iter().enumerate().rev() {
        let to = if axes.contains(&i) {
            &mut gone
        } else {
            &mut kept
        };
        to.push(Step { size: *size, step });
        step *= *size as isize;
    }
    kept.reverse();
    gone.reverse();
    merge(&mut kept);
    merge(&mut gone);
    // Results that lie beside each other are made together.
    let beside = match kept.last() {
        Some(Step { size, step: 1 }) => *size,
        _ => 1,
    };
    if beside > 1 {
        kept.pop();
    }
    let work = Work {
        x,
        kept: &kept,
        gone: &gone,
        terms,
        blocks: terms.div_ceil(BLOCK),
        beside,
    };
    let results = y.len();
    // Parts of whole lines of the cache, where results lie beside each other.
    let size = (GRAIN / terms.min(BLOCK)).max(beside.min(BESIDE));
    F::Kept::shelf(r.scratch).lend(results * work.blocks, |partial| {
        parallel::chunks_mut(r.pool, partial, size, |i, part| {
            work.part::<F>(i * size, part)
        });
        for (i, y) in y.iter_mut().enumerate() {
            let first = i / beside * work.blocks * beside + i % beside;
            let block = |b: usize| partial[first + b * beside];
            *y = F::write(pairwise(work.blocks, block, F::join));
        }
    });
    (r.scratch.steps, r.scratch.others) = (kept, gone);
}

/// A reduction. For each place of the dimensions that are kept there are blocks, and for each of these the results that lie
/// beside each other.
struct Work<'a, T> {
    x: &'a [T],
    kept: &'a [Step],
    gone: &'a [Step],
    terms: usize,
    blocks: usize,
    beside: usize,
}

impl<T: Elem> Work<'_, T> {
    /// The partial results from number `first` on.
    fn part<F: Fold<T>>(&self, first: usize, part: &mut [F::Kept]) {
        let (mut group, mut column) = (first / self.beside, first % self.beside);
        let mut rest = part;
        while !rest.is_empty() {
            let length = (self.beside - column).min(rest.len()).min(BESIDE);
            let (some, after) = rest.split_at_mut(length);
            let start = place(self.kept, group / self.blocks) as usize + column;
            let first = group % self.blocks * BLOCK;
            let terms = first..self.terms.min(first + BLOCK);
            match self.beside {
                1 => some[0] = self.line::<F>(start, terms),
                _ => self.lines::<F>(start, terms, some),
            }
            rest = after;
            column += length;
            if column == self.beside {
                (group, column) = (group + 1, 0);
            }
        }
    }

    /// A block of one result.
    fn line<F: Fold<T>>(&self, start: usize, terms: std::ops::Range<usize>) -> F::Kept {
        let mut lanes = [F::start(); LANES];
        if let [Step { step: 1, .. }] = self.gone {
            let run = self.x[start..][terms].chunks_exact(LANES);
            let tail = run.remainder();
            for xs in run {
                for (lane, x) in lanes.iter_mut().zip(xs) {
                    *lane = F::join(*lane, F::read(*x));
                }
            }
            for (lane, x) in lanes.iter_mut().zip(tail) {
                *lane = F::join(*lane, F::read(*x));
            }
        } else {
            for t in terms {
                let x = self.x[start + place(self.gone, t) as usize];
                lanes[t % LANES] = F::join(lanes[t % LANES], F::read(x));
            }
        }
        halves(&mut lanes, F::join);
        lanes[0]
    }

    /// A block of results that lie beside each other.
    fn lines<F: Fold<T>>(&self, start: usize, terms: std::ops::Range<usize>, out: &mut [F::Kept]) {
        let mut lanes = [[F::start(); BESIDE]; LANES];
        let n = out.len();
        dispatch(Columns::<T, F> {
            work: self,
            start,
            terms,
            n,
            lanes: &mut lanes,
        });
        for (i, out) in out.iter_mut().enumerate() {
            let mut line = [F::start(); LANES];
            for (to, lane) in line.iter_mut().zip(&lanes) {
                *to = lane[i];
            }
            halves(&mut line, F::join);
            *out = line[0];
        }
    }
}

/// How many lines ahead of the one that is added are fetched: lines lie too far apart for the machine to find them by itself.
const AHEAD: usize = 16;

/// The lanes of results that lie beside each other.
struct Columns<'a, T, F: Fold<T>> {
    work: &'a Work<'a, T>,
    start: usize,
    terms: std::ops::Range<usize>,
    n: usize,
    lanes: &'a mut [[F::Kept; BESIDE]; LANES],
}

impl<T: Elem, F: Fold<T>> multiversion::Work for Columns<'_, T, F> {
    type Out = ();

    /// Line after line: what is added to stays in the first cache, what is added comes in runs.
    #[inline(always)]
    fn run(self) {
        let line = |t: usize| {
            let at = self.start + place(self.work.gone, t) as usize;
            &self.work.x[at..][..self.n]
        };
        for t in self.terms.clone() {
            if t + AHEAD < self.terms.end {
                let later = line(t + AHEAD);
                let each = 64 / size_of::<T>();
                (0..self.n)
                    .step_by(each)
                    .for_each(|i| simd::prefetch(later, i));
            }
            let lane = &mut self.lanes[t % LANES];
            match <&[T; BESIDE]>::try_from(line(t)) {
                Ok(line) => add_line::<T, F>(lane, line),
                Err(_) => add_line::<T, F>(&mut lane[..self.n], line(t)),
            }
        }
    }
}

#[inline(always)]
fn add_line<T: Elem, F: Fold<T>>(lane: &mut [F::Kept], line: &[T]) {
    for (lane, x) in lane.iter_mut().zip(line) {
        *lane = F::join(*lane, F::read(*x));
    }
}

/// Joins lanes by halves, into the first.
fn halves<A: Copy>(lanes: &mut [A; LANES], join: impl Fn(A, A) -> A) {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
}

/// Joins neighbours pairwise, level by level; one that has no neighbour goes up a level.
///
/// # Panics
///
/// When there are none.
pub(super) fn pairwise<A: Copy>(
    count: usize,
    at: impl Fn(usize) -> A,
    join: impl Fn(A, A) -> A,
) -> A {
    // Complete trees that wait for a neighbour, the largest first; there is one for each bit of how many came so far.
    let mut waiting = [at(0); usize::BITS as usize];
    let mut trees = 1;
    for i in 1..count {
        waiting[trees] = at(i);
        trees += 1;
        for _ in 0..(i + 1).trailing_zeros() {
            waiting[trees - 2] = join(waiting[trees - 2], waiting[trees - 1]);
            trees -= 1;
        }
    }
    while trees > 1 {
        waiting[trees - 2] = join(waiting[trees - 2], waiting[trees - 1]);
        trees -= 1;
    }
    waiting[0]
}

#[cfg(test)]
mod tests {
    use super::pairwise;

    #[test]
    fn neighbours_join_level_by_level() {
        let text = |n: usize| {
            let names = ["a", "b", "c", "d", "e", "f", "g"];
            let next = std::cell::RefCell::new(names.map(str::to_owned).to_vec());
            let join = |a: usize, b: usize| {
                let joined = format!("({}{})", next.borrow()[a], next.borrow()[b]);
                next.borrow_mut().push(joined);
                next.borrow().len() - 1
            };
            let root = pairwise(n, |i| i, join);
            next.borrow()[root].clone()
        };
        assert_eq!(text(1), "a");
        assert_eq!(text(3), "((ab)c)");
        assert_eq!(text(5), "(((ab)(cd))e)");
        assert_eq!(text(7), "(((ab)(cd))((ef)g))");
    }
}
