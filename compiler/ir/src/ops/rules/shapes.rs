//! Shapes in the rules of primitives: those that a tensor can have, and the axes that it has.

use crate::graph::Type;
use crate::size::MAX_ELEMENTS;
use crate::types::DType;

/// How many elements a shape holds, which must not be more than a tensor may have.
///
/// An empty dimension hides no others that are too large, so the answer holds for any part of the shape.
pub(in crate::ops) fn elements(shape: &[usize]) -> Result<usize, String> {
    let most = MAX_ELEMENTS as usize;
    let mut sizes = shape.iter().filter(|n| **n != 0);
    let product = sizes.try_fold(1_usize, |product, n| {
        product.checked_mul(*n).filter(|product| *product <= most)
    });
    match product {
        Some(_) if shape.contains(&0) => Ok(0),
        Some(product) => Ok(product),
        None => Err("there are more elements than a tensor may have (2^40)".to_owned()),
    }
}

/// One result of that type, if it can exist.
pub(in crate::ops) fn made(dtype: DType, shape: Vec<usize>) -> Result<Vec<Type>, String> {
    elements(&shape)?;
    Ok(vec![Type { dtype, shape }])
}

/// The size along an axis, which must exist.
pub(in crate::ops) fn along(ty: &Type, axis: usize) -> Result<usize, String> {
    let size = ty.shape.get(axis).copied();
    size.ok_or_else(|| format!("{ty} has no axis {axis}"))
}

/// There must be one entry for each dimension.
pub(in crate::ops) fn one_each(name: &str, sizes: &[usize], ty: &Type) -> Result<(), String> {
    match sizes.len() == ty.rank() {
        true => Ok(()),
        false => Err(format!(
            "`{name}` must have one entry for each dimension of {ty}, not {}",
            sizes.len()
        )),
    }
}

/// Axes that all exist, each once.
pub(in crate::ops) fn different(axes: &[usize], ty: &Type) -> Result<(), String> {
    for (i, axis) in axes.iter().enumerate() {
        along(ty, *axis)?;
        if axes[..i].contains(axis) {
            return Err(format!("axis {axis} is named twice"));
        }
    }
    Ok(())
}

/// The shape of rows that belong to positions: that of the positions, then that of one row of `x`.
pub(in crate::ops) fn rows_at(x: &Type, indices: &Type) -> Result<Vec<usize>, String> {
    if !indices.dtype.is_int() {
        return Err(format!(
            "the positions must be integers, not {}",
            indices.dtype
        ));
    }
    along(x, 0)?;
    Ok([&indices.shape, &x.shape[1..]].concat())
}
