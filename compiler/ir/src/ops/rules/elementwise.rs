//! Elementwise operations: their parameters, and type inference of results like the operand.

use crate::ops::op::{Call, Elements, Kind, Param, RuleError};
use crate::types::{Class, DType, TensorType};

/// A tensor `x` of any type.
pub(in crate::ops) const X_ANY: &[Param] = &[same_t("x", Class::Any)];

/// A tensor `x` of any float type: the parameter of most functions of one variable.
pub(in crate::ops) const X_FLOAT: &[Param] = &[same_t("x", Class::Float)];

/// A tensor `x` of any number type.
pub(in crate::ops) const X_NUMBER: &[Param] = &[same_t("x", Class::Number)];

/// A boolean tensor `x`.
pub(in crate::ops) const X_BOOL: &[Param] = &[bool_tensor("x")];

/// Two tensors `x` and `y` of one type, whichever.
pub(in crate::ops) const XY_ANY: &[Param] = &[same_t("x", Class::Any), same_t("y", Class::Any)];

/// Two tensors `x` and `y` of one float type.
pub(in crate::ops) const XY_FLOAT: &[Param] =
    &[same_t("x", Class::Float), same_t("y", Class::Float)];

/// Two tensors `x` and `y` of one number type.
pub(in crate::ops) const XY_NUMBER: &[Param] =
    &[same_t("x", Class::Number), same_t("y", Class::Number)];

/// Two boolean tensors `x` and `y`.
pub(in crate::ops) const XY_BOOL: &[Param] = &[bool_tensor("x"), bool_tensor("y")];

const fn same_t(name: &'static str, class: Class) -> Param {
    Param::required(name, Kind::Tensor(Elements::Same("T", class)))
}

const fn bool_tensor(name: &'static str) -> Param {
    Param::required(name, Kind::Tensor(Elements::Only(DType::Bool)))
}

/// The result is like `x`.
pub(in crate::ops) fn like_x(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![call.tensor("x").clone()])
}

/// The result is a boolean tensor of the shape of `x`.
pub(in crate::ops) fn like_x_bool(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![call.tensor("x").with_dtype(DType::Bool)])
}
