//! Random sampling: type inference (shape and element type).

use crate::ops::op::{Call, Elements, Kind, Param, RuleError, RuleErrorKind};
use crate::ops::rules::checks::{exact_rank, exact_sizes, fits};
use crate::types::{Class, DType, TensorType};

/// Parameters of normal sampling.
pub(in crate::ops) const NORMAL: &[Param] = &[
    Param::required("shape", Kind::Ints),
    random_scalar("mean"),
    random_scalar("stddev"),
    Param::optional("dtype", Kind::DType),
];

/// A float scalar that may be left out.
pub(in crate::ops) const fn random_scalar(name: &'static str) -> Param {
    Param::optional(name, Kind::Tensor(Elements::Same("T", Class::Float)))
}

/// Type inference of normal sampling.
pub(in crate::ops) fn normal(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    random_shape(call, ["mean", "stddev"])
}

/// A tensor of `shape`, its elements being those of `dtype`, else those of the given `scalars`, else f32.
pub(in crate::ops) fn random_shape(
    call: &Call<'_>,
    scalars: [&'static str; 2],
) -> Result<Vec<TensorType>, RuleError> {
    let mut dtype = call.dtype_opt("dtype");
    if let Some(requested) = dtype.filter(|d| !d.is_float()) {
        return Err(RuleError::new(
            RuleErrorKind::DtypeMismatch,
            format!("random numbers are drawn as floats, not as {requested}"),
        )
        .at("dtype")
        .help("draw as f32 and `cast` the result"));
    }
    for name in scalars {
        let Some(scalar) = call.tensor_opt(name) else {
            continue;
        };
        exact_rank(call, name, 0)?;
        match dtype {
            Some(requested) if requested != scalar.dtype => {
                return Err(RuleError::new(
                    RuleErrorKind::DtypeMismatch,
                    format!("`dtype` is {requested}, but `{name}` is {}", scalar.dtype),
                )
                .at(name));
            }
            _ => dtype = Some(scalar.dtype),
        }
    }
    let shape = exact_sizes("shape", call.sizes("shape"))?;
    fits(TensorType::new(dtype.unwrap_or(DType::F32), shape))
}
