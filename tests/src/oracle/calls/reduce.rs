//! Products of matrices, reductions, softmax.

use serde_json::Value as Json;
use trainspec_ir::DType;

use super::request::{Kind, OpRequest, applied, cast, named, x};
use super::{Row, by, same};
use crate::oracle::fields::shortened;
use crate::oracle::tensors::integer;

const AXES: &[(&str, Kind)] = &[("axis", Kind::Ints), ("keepdims", Kind::Bool)];

pub(super) const ROWS: &[Row] = &[
    by("matmul", matmul),
    by("einsum", einsum),
    by("tensordot", tensordot),
    same("reduce_all", 1, AXES),
    same("reduce_any", 1, AXES),
    same("reduce_euclidean_norm", 1, AXES),
    same("reduce_logsumexp", 1, AXES),
    same("reduce_max", 1, AXES),
    same("reduce_mean", 1, AXES),
    same("reduce_min", 1, AXES),
    same("reduce_prod", 1, AXES),
    same("reduce_std", 1, AXES),
    same("reduce_sum", 1, AXES),
    same("reduce_variance", 1, AXES),
    same(
        "moments",
        1,
        &[("axes", Kind::Ints), ("keepdims", Kind::Bool)],
    ),
    same(
        "l2_normalize",
        1,
        &[("axis", Kind::Ints), ("epsilon", Kind::Number)],
    ),
    by("argmax", position),
    by("argmin", position),
    same("softmax", 1, &[("axis", Kind::Int)]),
    same("log_softmax", 1, &[("axis", Kind::Int)]),
    same("l2_loss", 1, &[]),
    same("zero_fraction", 1, &[]),
];

/// Adjoint and transposed are one for real numbers.
fn matmul(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(2)?;
    let mut flags = Vec::new();
    for side in ["a", "b"] {
        let transpose = format!("transpose_{side}");
        let on = request.boolean(&transpose)? | request.boolean(&format!("adjoint_{side}"))?;
        flags.push(named(&transpose, on));
    }
    Ok(applied("matmul", request.all(), flags))
}

fn einsum(request: &OpRequest<'_>) -> Result<String, String> {
    let equation = request.argument("equation", Kind::String)?;
    let equation = equation.ok_or("`equation` is not given")?;
    let inputs = format!("[{}]", request.all().join(", "));
    Ok(applied("einsum", [equation, inputs], []))
}

/// `axes` is a number, or for each side a number or a list.
fn tensordot(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(2)?;
    let side = |json: &Json| match json {
        Json::Array(list) => {
            let axes: Result<Vec<i64>, String> = list.iter().map(integer).collect();
            axes.map(super::request::ints)
        }
        one => integer(one).map(|n| format!("[{n}]")),
    };
    let axes = match request.args.need("axes")? {
        Json::Array(sides) => match sides.as_slice() {
            [a, b] => vec![named("a_axes", side(a)?), named("b_axes", side(b)?)],
            _ => return Err(format!("`axes` has {} sides", sides.len())),
        },
        number => vec![named(
            "axes",
            integer(number).map_err(|_| format!("`axes`: {}", shortened(number)))?,
        )],
    };
    Ok(applied("tensordot", request.all(), axes))
}

/// The indices are i64 unless `output_type` says otherwise.
fn position(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    let call = applied(
        request.op,
        [x(0)],
        request.arguments(&[("axis", Kind::Int)])?,
    );
    let to = request.dtype_arg("output_type")?.unwrap_or(DType::I64);
    Ok(cast(call, DType::I64, to))
}
