//! Broadcasting (NumPy rules): type inference of elementwise operations on two tensors.

use crate::ops::op::{Call, RuleError, RuleErrorKind};
use crate::types::{DType, Dim, Shape, TensorType};

/// The result is `x` and `y` broadcast against each other.
pub(in crate::ops) fn broadcast_xy(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (x, y) = (call.tensor("x"), call.tensor("y"));
    let shape = broadcast(&x.shape, &y.shape)?;
    Ok(vec![TensorType::new(x.dtype, shape)])
}

/// The result is boolean: a predicate of `x` and `y`, broadcast against each other.
pub(in crate::ops) fn broadcast_xy_bool(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let shape = broadcast(&call.tensor("x").shape, &call.tensor("y").shape)?;
    Ok(vec![TensorType::new(DType::Bool, shape)])
}

/// Two shapes broadcast against each other: aligned at the last dimension, a dimension of 1 stretches.
pub(in crate::ops) fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, RuleError> {
    let rank = a.rank().max(b.rank());
    let mut dims = Vec::with_capacity(rank);
    for i in 0..rank {
        let from = |s: &Shape| (i + s.rank()).checked_sub(rank).map(|j| s.0[j].clone());
        dims.push(match (from(a), from(b)) {
            (Some(d), None) | (None, Some(d)) => d,
            (Some(p), Some(q)) => broadcast_dim(&p, &q, rank - i)?,
            (None, None) => unreachable!("one of the two has the larger rank"),
        });
    }
    let shape = Shape(dims);
    if !shape.fits() {
        return Err(RuleError::overflow());
    }
    Ok(shape)
}

/// `from_end` counts the dimension from the last, which is 1.
fn broadcast_dim(p: &Dim, q: &Dim, from_end: usize) -> Result<Dim, RuleError> {
    if p == q || q.is_one() {
        return Ok(p.clone());
    }
    if p.is_one() {
        return Ok(q.clone());
    }
    let which = match from_end {
        1 => "the last dimensions".to_owned(),
        n => format!("the dimensions {n} from the end"),
    };
    if p.size == q.size {
        return Err(RuleError::new(
            RuleErrorKind::CountMismatch,
            format!(
                "{which} hold at most {} each, but their counts may differ",
                p.size
            ),
        ));
    }
    Err(RuleError::new(
        RuleErrorKind::ShapeMismatch,
        "these shapes do not go together",
    )
    .help(format!("{which} differ: {p} and {q}")))
}
