//! The positions that bring elements into order.

use std::cmp::Ordering;

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Op, RuleError};
use crate::ops::rules::along::{has_axis, lines};
use crate::ops::rules::order::sorted;
use crate::ops::rules::{SORT, sort};
use crate::types::{DType, TensorType};

/// The positions of the elements of x in order along `axis`.
pub(super) static OP: Op = Op {
    name: "argsort",
    aliases: &[],
    doc: "The positions of the elements in their order along an axis; equal ones stay in theirs.",
    params: SORT,
    random: false,
    lower: Lower::By(|l| {
        let (positions, _) = sorted(l)?;
        Ok(vec![positions.cast(DType::I32)])
    }),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![TensorType::new(DType::I32, sort(call)?)])
}

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "argsort",
    attrs: &[("axis", AttrKind::Size), ("descending", AttrKind::Flag)],
    infer: infer_static,
    gradient: Gradient::None,
    eval: Eval::Whole(eval),
};

fn infer_static(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let (x, _) = has_axis(call)?;
    Ok(vec![x.with_dtype(DType::I64)])
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (axis, descending) = (e.size("axis"), e.flag("descending"));
    let order = |a: Ordering| if descending { a.reverse() } else { a };
    Ok(vec![match e.x(0) {
        Array::Float(a) => {
            // NaN has no place among the others, so it comes last either way.
            let compare = |a: &f64, b: &f64| match a.partial_cmp(b) {
                Some(found) => order(found),
                None => a.is_nan().cmp(&b.is_nan()),
            };
            lines(a, axis, |xs| positions(xs, compare)).into()
        }
        Array::Int(a) => lines(a, axis, |xs| positions(xs, |a, b| order(a.cmp(b)))).into(),
        Array::Bool(_) => panic!("`argsort` takes numbers"),
    }])
}

/// The positions of elements in their order; equal ones stay in theirs.
fn positions<T>(xs: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Vec<i64> {
    let mut places: Vec<usize> = (0..xs.len()).collect();
    places.sort_by(|i, j| compare(&xs[*i], &xs[*j]));
    places.into_iter().map(|i| i as i64).collect()
}
