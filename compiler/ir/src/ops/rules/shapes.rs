//! Static shapes in the type inference of primitives: element counts, axes and their checks.

use crate::graph::Type;
use crate::size::MAX_ELEMENTS;
use crate::types::DType;

/// The number of elements of a shape, which must not exceed [`MAX_ELEMENTS`].
///
/// A dimension of 0 hides no others that are too large, so the result holds for any part of the shape.
pub(in crate::ops) fn elements(shape: &[usize]) -> Result<usize, String> {
    let mut sizes = shape.iter().filter(|n| **n != 0);
    let product = sizes.try_fold(1_usize, |product, n| {
        product
            .checked_mul(*n)
            .filter(|product| *product <= MAX_ELEMENTS as usize)
    });
    match product {
        Some(_) if shape.contains(&0) => Ok(0),
        Some(product) => Ok(product),
        None => Err("there are more elements than a tensor may have (2^40)".to_owned()),
    }
}

/// One result of that type, if it is not too large.
pub(in crate::ops) fn one_result(dtype: DType, shape: Vec<usize>) -> Result<Vec<Type>, String> {
    elements(&shape)?;
    Ok(vec![Type { dtype, shape }])
}

/// The size along an axis, which must exist.
pub(in crate::ops) fn axis_size(ty: &Type, axis: usize) -> Result<usize, String> {
    let size = ty.shape.get(axis).copied();
    size.ok_or_else(|| format!("{ty} has no axis {axis}"))
}

/// There must be one entry for each dimension.
pub(in crate::ops) fn one_per_dim(name: &str, sizes: &[usize], ty: &Type) -> Result<(), String> {
    match sizes.len() == ty.rank() {
        true => Ok(()),
        false => Err(format!(
            "`{name}` must have one entry for each dimension of {ty}, not {}",
            sizes.len()
        )),
    }
}

/// Axes that all exist, without duplicates.
pub(in crate::ops) fn distinct_axes(axes: &[usize], ty: &Type) -> Result<(), String> {
    for (i, axis) in axes.iter().enumerate() {
        axis_size(ty, *axis)?;
        if axes[..i].contains(axis) {
            return Err(format!("axis {axis} is named twice"));
        }
    }
    Ok(())
}

/// The shape of a gather of rows: that of the indices, then that of one row of `x`.
pub(in crate::ops) fn rows_at(x: &Type, indices: &Type) -> Result<Vec<usize>, String> {
    if !indices.dtype.is_int() {
        return Err(format!(
            "the positions must be integers, not {}",
            indices.dtype
        ));
    }
    axis_size(x, 0)?;
    Ok([&indices.shape, &x.shape[1..]].concat())
}
