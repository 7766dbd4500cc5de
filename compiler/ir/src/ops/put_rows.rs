//! Row scatter of deduplicated IndexedSlices (`tf.raw_ops.ResourceScatterUpdate`): the first rows written at their indices.

use ndarray::Axis;

use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::both;
use crate::ops::rules::primitive::arity;
use crate::ops::scatter_add::infer_rows;
use crate::types::{Class, DType};

/// x with the first `count` of the rows in place of its own at the indices, which `sum_rows` deduplicated: no two are the
/// same, and all are in range. It never fails: an index out of range is skipped.
pub(crate) static PRIM: Prim = Prim {
    name: "put_rows",
    attrs: &[],
    infer,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x, indices, rows, count] = arity(call)?;
    if *count != Type::scalar(DType::I64) {
        return Err(format!("the count must be an i64, not {count}"));
    }
    if indices.dtype != DType::I64 {
        return Err(format!("the positions must be i64, not {indices}"));
    }
    infer_rows(x, indices, rows, Class::Any)
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let length = e.types[0].shape[0] as i64;
    let row_indices = e.x(1).int();
    let count = e.x(3).int().first().map_or(0, |n| (*n).max(0) as usize);
    Ok(vec![both!((e.x(0), e.x(2)), (x, rows) => {
        let mut result = x.to_owned();
        for (index, row) in row_indices.iter().zip(rows.outer_iter()).take(count) {
            if (0..length).contains(index) {
                result.index_axis_mut(Axis(0), *index as usize).assign(&row);
            }
        }
        result.into()
    })])
}
