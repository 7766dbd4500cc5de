//! Maximum and minimum: identity elements, comparison, evaluation, their indices (argmax, argmin), and the VJP with ties.

use crate::autodiff::Backward;
use crate::build::{Lowering, Value};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::RuleError;
use crate::ops::rules::along::{broadcast_along, reduce_axes, reduce_numbers};
use crate::ops::rules::axes::axis;
use crate::types::DType;

/// Maximum or minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Extremum {
    Max,
    Min,
}

impl Extremum {
    /// The identity element among floats.
    pub(in crate::ops) fn infinity(self) -> f64 {
        match self {
            Extremum::Max => f64::NEG_INFINITY,
            Extremum::Min => f64::INFINITY,
        }
    }

    /// The identity element among the finite floats of a type, 0 for other types.
    pub(in crate::ops) fn finite_identity(self, dtype: DType) -> f64 {
        let max = dtype.max_finite().unwrap_or(0.0);
        match self {
            Extremum::Max => -max,
            Extremum::Min => max,
        }
    }

    /// The identity element among the integers of a type, 0 for other types.
    pub(in crate::ops) fn int_identity(self, dtype: DType) -> i64 {
        let (min, max) = dtype.int_range().unwrap_or((0, 0));
        match self {
            Extremum::Max => min,
            Extremum::Min => max,
        }
    }

    /// Whether `a` is more extreme than `b`; NaN never is.
    pub(in crate::ops) fn is_better<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Extremum::Max => a > b,
            Extremum::Min => a < b,
        }
    }

    /// The more extreme of two floats; NaN is propagated.
    pub(in crate::ops) fn of_floats(self, a: f64, b: f64) -> f64 {
        match a.is_nan() || self.is_better(a, b) {
            true => a,
            false => b,
        }
    }

    /// The more extreme of two integers.
    pub(in crate::ops) fn of_ints(self, a: i64, b: i64) -> i64 {
        match self {
            Extremum::Max => a.max(b),
            Extremum::Min => a.min(b),
        }
    }

    /// Evaluates the reduction over axes.
    pub(in crate::ops) fn reduce(self, e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
        let identity = self.int_identity(e.results[0].dtype);
        let float = |xs: &[f64]| {
            let xs = xs.iter().copied();
            xs.fold(self.infinity(), |a, b| self.of_floats(a, b))
        };
        let int = |xs: &[i64]| xs.iter().fold(identity, |a, b| self.of_ints(a, *b));
        reduce_numbers(e, float, int)
    }

    /// Lowers the index of the extremum along an axis; past a run-time count nothing is found.
    pub(in crate::ops) fn lower_arg<'g>(
        self,
        l: &Lowering<'g, '_>,
    ) -> Result<Vec<Value<'g>>, RuleError> {
        let axis = axis("axis", l.call.int("axis")?, l.call.tensor("x").rank())?;
        let x = l.masked("x", &[axis], self.infinity());
        Ok(vec![match self {
            Extremum::Max => x.argmax(axis),
            Extremum::Min => x.argmin(axis),
        }])
    }

    /// Evaluates the index of the first extremum along an axis. Where all elements are NaN, it is 0.
    pub(in crate::ops) fn reduce_arg(self, e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
        let axes = [e.size("axis")];
        Ok(vec![match e.x(0) {
            Array::Float(a) => reduce_axes(a, &axes, |xs| self.first(xs, self.infinity())).into(),
            Array::Int(a) => reduce_axes(a, &axes, |xs| self.first(xs, xs[0])).into(),
            Array::Bool(_) => panic!("`{}` takes numbers", e.prim.name),
        }])
    }

    /// The index of the first extremum.
    fn first<T: Copy + PartialOrd>(self, xs: &[T], start: T) -> i64 {
        let mut best = (0, start);
        for (i, x) in xs.iter().enumerate() {
            if self.is_better(*x, best.1) {
                best = (i as i64, *x);
            }
        }
        best.0
    }
}

/// The VJP of a maximum or minimum over `axes`: dx = dy / (number of ties) where x equals y, else 0.
pub(in crate::ops) fn extremum_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let (x, axes) = (g.x(0), g.sizes("axes"));
    let broadcast = |y: Value<'g>| broadcast_along(y, axes, &x.shape());
    let ties = x.equal(broadcast(g.y())).cast(x.dtype());
    ties / broadcast(ties.sum(axes)) * broadcast(g.dy())
}
