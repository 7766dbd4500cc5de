//! Deduplication of IndexedSlices (`tf.unique` and `tf.math.unsorted_segment_sum`): rows of equal indices added up.

use std::collections::HashMap;

use ndarray::{Array1, Axis, arr0};

use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::row_indices;
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::{Class, DType};

/// The distinct ones of the first `count` indices (i64) in the order of first occurrence, the sum of the rows of each, both
/// padded with 0, and their number (i64). Indices are below `length`, or evaluation fails.
pub(crate) static PRIM: Prim = Prim {
    name: "sum_rows",
    attrs: &[("length", AttrKind::Size)],
    infer,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [indices, rows, count] = arity(call)?;
    of_class(indices, Class::Int)?;
    of_class(rows, Class::Float)?;
    if indices.rank() != 1 || rows.shape.first() != indices.shape.first() {
        return Err(format!(
            "there must be a vector of positions with a row for each, not {indices} and {rows}"
        ));
    }
    if i32::try_from(indices.shape[0]).is_err() {
        return Err(format!("{indices} has more elements than an i32 can count"));
    }
    if *count != Type::scalar(DType::I64) {
        return Err(format!("the count must be an i64, not {count}"));
    }
    if call.size("length") == 0 && indices.shape[0] > 0 {
        return Err("there is no row to add to".to_owned());
    }
    Ok(vec![
        indices.with_dtype(DType::I64),
        rows.clone(),
        count.clone(),
    ])
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let all = e.x(0).int();
    let count = e.x(2).int().first().map_or(0, |n| (*n).max(0) as usize);
    let used = all
        .iter()
        .take(count)
        .copied()
        .collect::<Array1<i64>>()
        .into_dyn()
        .into_shared();
    let targets = row_indices(&used, e.size("length"))?;
    let rows = e.x(1).float();
    let mut sums = ndarray::ArrayD::zeros(rows.raw_dim());
    let mut firsts = Array1::zeros(all.len());
    let mut slots = HashMap::new();
    for (target, row) in targets.iter().zip(rows.outer_iter()) {
        let next = slots.len();
        let at = *slots.entry(*target).or_insert(next);
        firsts[at] = *target as i64;
        let mut sum = sums.index_axis_mut(Axis(0), at);
        sum += &row;
    }
    let sums = e.floats_of(1, sums);
    let found = arr0(slots.len() as i64).into_dyn();
    Ok(vec![firsts.into_dyn().into(), sums, found.into()])
}
