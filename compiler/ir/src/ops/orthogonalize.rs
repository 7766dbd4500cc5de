//! A matrix with orthonormal rows or columns.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{dims, exact_dim, like_x};
use crate::types::{Class, TensorType};

/// Q of the QR decomposition of x (or of its transpose, where it has more columns than rows), signed so that the diagonal of R is positive.
pub(super) static OP: Op = Op {
    name: "orthogonalize",
    aliases: &[],
    doc: "The orthogonal factor of a matrix: its columns made orthonormal, or its rows where there are fewer of them.",
    params: &[Param::required(
        "x",
        Kind::Tensor(Elements::Same("T", Class::Float)),
    )],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [m, n] = dims(call, "x")?;
    exact_dim("x", m)?;
    exact_dim("x", n)?;
    like_x(call)
}
