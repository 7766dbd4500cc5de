//! Draws from the uniform distribution.

use crate::ops::op::{Call, Kind, Op, Param, RuleError};
use crate::ops::rules::{random_scalar, random_shape};
use crate::types::TensorType;

/// minval + (maxval - minval) · u, u being from 0 to below 1.
pub(super) static OP: Op = Op {
    name: "random_uniform",
    aliases: &[],
    doc: "Random numbers, all equally likely, from `minval` (0) to below `maxval` (1).",
    params: &[
        Param::required("shape", Kind::Ints),
        random_scalar("minval"),
        random_scalar("maxval"),
        Param::optional("dtype", Kind::DType),
    ],
    random: true,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    random_shape(call, ["minval", "maxval"])
}
