//! Conversion to another element type.

use crate::ops::op::{Call, Elements, Fault, Kind, Op, Param, RuleError};
use crate::types::{Class, DType, TensorType};

/// x as `dtype`, floats rounded towards zero for integers.
pub(super) static OP: Op = Op {
    name: "cast",
    aliases: &[],
    doc: "The elements converted to another type; floats lose what is behind the point when they become integers.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("dtype", Kind::DType),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let dtype = call.dtype("dtype");
    // Text has no one reading as a number, so it is only ever "converted" to itself.
    if (x.dtype == DType::String) != (dtype == DType::String) {
        return Err(RuleError::new(
            Fault::DtypeMismatch,
            format!("{} cannot become {dtype}", x.dtype),
        )
        .at("dtype"));
    }
    Ok(vec![x.with_dtype(dtype)])
}
