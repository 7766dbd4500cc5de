//! Operations on elements.

use trainspec_ir::DType;

use super::request::{Kind, OpRequest, applied, cast, ints, named, x};
use super::{Row, by, listed, same};

pub(super) const ROWS: &[Row] = &[
    same("abs", 1, &[]),
    same("acos", 1, &[]),
    same("acosh", 1, &[]),
    same("asin", 1, &[]),
    same("asinh", 1, &[]),
    same("atan", 1, &[]),
    same("atanh", 1, &[]),
    same("ceil", 1, &[]),
    same("cos", 1, &[]),
    same("cosh", 1, &[]),
    same("digamma", 1, &[]),
    same("elu", 1, &[]),
    same("erf", 1, &[]),
    same("erfc", 1, &[]),
    same("exp", 1, &[]),
    same("expm1", 1, &[]),
    same("floor", 1, &[]),
    same("gelu", 1, &[("approximate", Kind::Bool)]),
    same("gelu_exact", 1, &[]),
    same("gelu_tanh", 1, &[]),
    same("identity", 1, &[]),
    same("is_finite", 1, &[]),
    same("is_nan", 1, &[]),
    same("leaky_relu", 1, &[("alpha", Kind::Number)]),
    same("lgamma", 1, &[]),
    same("log", 1, &[]),
    same("log1p", 1, &[]),
    same("log_sigmoid", 1, &[]),
    same("logical_not", 1, &[]),
    same("negative", 1, &[]),
    same("ones_like", 1, &[]),
    same("reciprocal", 1, &[]),
    same("relu", 1, &[]),
    same("relu6", 1, &[]),
    same("rint", 1, &[]),
    same("round", 1, &[]),
    same("rsqrt", 1, &[]),
    same("selu", 1, &[]),
    same("sigmoid", 1, &[]),
    same("sign", 1, &[]),
    same("silu", 1, &[("beta", Kind::Number)]),
    same("sin", 1, &[]),
    same("sinh", 1, &[]),
    same("softplus", 1, &[]),
    same("softsign", 1, &[]),
    same("sqrt", 1, &[]),
    same("square", 1, &[]),
    same("stop_gradient", 1, &[]),
    same("tan", 1, &[]),
    same("tanh", 1, &[]),
    same("zeros_like", 1, &[]),
    same("add", 2, &[]),
    same("atan2", 2, &[]),
    by("divide", divide),
    same("divide_no_nan", 2, &[]),
    same("equal", 2, &[]),
    same("floordiv", 2, &[]),
    same("floormod", 2, &[]),
    same("greater", 2, &[]),
    same("greater_equal", 2, &[]),
    same("less", 2, &[]),
    same("less_equal", 2, &[]),
    same("logical_and", 2, &[]),
    same("logical_or", 2, &[]),
    same("logical_xor", 2, &[]),
    same("maximum", 2, &[]),
    same("minimum", 2, &[]),
    same("multiply", 2, &[]),
    same("multiply_no_nan", 2, &[]),
    same("not_equal", 2, &[]),
    same("pow", 2, &[]),
    same("squared_difference", 2, &[]),
    same("subtract", 2, &[]),
    same("truncatediv", 2, &[]),
    same("truncatemod", 2, &[]),
    same("xdivy", 2, &[]),
    same("xlogy", 2, &[]),
    by("where", choice),
    same("where_v1", 3, &[]),
    by("cast", conversion),
    by("clip_by_value", clip_by_value),
    listed("add_n", &[]),
];

/// Whether TensorFlow has a constant of the operation, or an argument, in f32 only.
pub(super) fn rounds_a_constant(op: &str) -> bool {
    matches!(
        op,
        "gelu" | "gelu_exact" | "gelu_tanh" | "leaky_relu" | "silu"
    )
}

/// TensorFlow divides integers as floats: small ones as f32, i32 and i64 as f64.
fn divide(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(2)?;
    let operand = |i| {
        let dtype = request.dtype(i);
        let to = match dtype {
            DType::I8 | DType::I16 | DType::U8 => DType::F32,
            DType::I32 | DType::I64 => DType::F64,
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::Bool | DType::String => {
                dtype
            }
        };
        cast(x(i), dtype, to)
    };
    Ok(applied("divide", [operand(0), operand(1)], []))
}

/// A selection, or the indices where a condition holds: a boolean mask of all indices.
fn choice(request: &OpRequest<'_>) -> Result<String, String> {
    if request.inputs.len() != 1 {
        request.arity(3)?;
        return Ok(applied("where", request.all(), []));
    }
    let shape = request.shape(0);
    if shape.is_empty() {
        return Err("a condition without dimensions has no positions".to_owned());
    }
    let along = |axis: usize| {
        let mut own = vec![1; shape.len()];
        own[axis] = shape[axis];
        let line = format!("reshape(range(0, {}), {})", shape[axis], ints(own));
        format!("broadcast_to({line}, {})", ints(shape))
    };
    let positions = ints((0..shape.len()).map(along));
    Ok(format!("boolean_mask(stack({positions}, axis: -1), x0)"))
}

fn conversion(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    let dtype = request.dtype_arg("dtype")?.ok_or("`dtype` is not given")?;
    Ok(applied("cast", [x(0), dtype.to_string()], []))
}

/// The bounds are numbers or inputs.
fn clip_by_value(request: &OpRequest<'_>) -> Result<String, String> {
    request.indices(&["t", "clip_value_min?", "clip_value_max?"])?;
    let mut bounds = Vec::new();
    for name in ["clip_value_min", "clip_value_max"] {
        let bound = match request.index(name) {
            Some(input) => Some(x(input)),
            None => request.argument(name, Kind::Number)?,
        };
        bounds.push(named(
            name,
            bound.ok_or_else(|| format!("`{name}` is not given"))?,
        ));
    }
    Ok(applied("clip_by_value", [x(0)], bounds))
}
