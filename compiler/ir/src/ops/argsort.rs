//! `tf.argsort`: the permutation that sorts the elements along an axis (stable).

use std::cmp::Ordering;

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Op, RuleError};
use crate::ops::rules::along::{has_axis, map_lanes};
use crate::ops::rules::order::sort_permutation;
use crate::ops::rules::{SORT, sort};
use crate::types::{DType, TensorType};

/// The permutation that sorts x along `axis`.
pub(super) static OP: Op = Op {
    name: "argsort",
    aliases: &[],
    doc: "The positions of the elements in their order along an axis; equal ones stay in theirs.",
    params: SORT,
    random: false,
    lower: Lower::By(|l| {
        let (positions, _) = sort_permutation(l)?;
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
    eval: Eval::Tensors(eval),
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
            // NaN is unordered, so it sorts last in either direction.
            let compare = |a: &f64, b: &f64| match a.partial_cmp(b) {
                Some(found) => order(found),
                None => a.is_nan().cmp(&b.is_nan()),
            };
            map_lanes(a, axis, |xs| positions(xs, compare)).into()
        }
        Array::Int(a) => map_lanes(a, axis, |xs| positions(xs, |a, b| order(a.cmp(b)))).into(),
        Array::Bool(_) => panic!("`argsort` takes numbers"),
    }])
}

/// The permutation that sorts; a stable sort.
fn positions<T>(xs: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Vec<i64> {
    let mut indices: Vec<usize> = (0..xs.len()).collect();
    indices.sort_by(|i, j| compare(&xs[*i], &xs[*j]));
    indices.into_iter().map(|i| i as i64).collect()
}
