//! Losses.

use trainspec_ir::DType;

use super::request::{Kind, OpRequest, applied, cast, named, x};
use super::{Row, by, same};

pub(super) const ROWS: &[Row] = &[
    same(
        "softmax_cross_entropy_with_logits",
        2,
        &[("axis", Kind::Int)],
    ),
    same(
        "softmax_cross_entropy_with_logits_v1",
        2,
        &[("axis", Kind::Int)],
    ),
    same("sparse_softmax_cross_entropy_with_logits", 2, &[]),
    same("sigmoid_cross_entropy_with_logits", 2, &[]),
    by("weighted_cross_entropy_with_logits", weighted),
    by("absolute_difference", |a| reduced(a, &[])),
    by("cosine_distance", |a| reduced(a, &[("axis", Kind::Int)])),
    by("hinge_loss", |a| reduced(a, &[])),
    by("huber_loss", |a| reduced(a, &[("delta", Kind::Number)])),
    by("log_loss", |a| reduced(a, &[("epsilon", Kind::Number)])),
    by("mean_squared_error", |a| reduced(a, &[])),
    by("mean_pairwise_squared_error", pairwise),
    by("sigmoid_cross_entropy", |a| {
        reduced(a, &[("label_smoothing", Kind::Number)])
    }),
    by("softmax_cross_entropy", |a| {
        reduced(a, &[("label_smoothing", Kind::Number)])
    }),
    by("sparse_softmax_cross_entropy", |a| reduced(a, &[])),
    by("compute_weighted_loss", |a| reduced(a, &[])),
];

/// What TensorFlow's losses convert their operands to. Those of logits keep their dtype, but are reduced in f32.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    /// Labels and predictions in f32.
    Single,
    /// Labels and weights in the dtype of the second input, the logits.
    OfLogits,
    /// One tensor of losses, whose dtype holds.
    OfLosses,
}

fn family(op: &str) -> Option<Family> {
    Some(match op {
        "absolute_difference"
        | "cosine_distance"
        | "hinge_loss"
        | "huber_loss"
        | "log_loss"
        | "mean_pairwise_squared_error"
        | "mean_squared_error" => Family::Single,
        "sigmoid_cross_entropy" | "softmax_cross_entropy" | "sparse_softmax_cross_entropy" => {
            Family::OfLogits
        }
        "compute_weighted_loss" => Family::OfLosses,
        _ => return None,
    })
}

/// Whether it is a loss that is weighted and reduced, which TensorFlow does in f32.
pub(super) fn is_reduced(op: &str) -> bool {
    family(op).is_some()
}

/// The weight of positive labels is an input or an argument.
fn weighted(request: &OpRequest<'_>) -> Result<String, String> {
    let weight = match request.inputs.len() {
        3 => Some(x(2)),
        _ => {
            request.arity(2)?;
            request.argument("pos_weight", Kind::Number)?
        }
    };
    let weight = weight.ok_or("`pos_weight` is not given")?;
    Ok(applied(
        request.op,
        [x(0), x(1)],
        [named("pos_weight", weight)],
    ))
}

/// A loss that is weighted and reduced.
fn reduced(request: &OpRequest<'_>, extra: &[(&str, Kind)]) -> Result<String, String> {
    let mut call = operands(request)?;
    call.extend(request.arguments(extra)?);
    if let Some(word) = request.word("reduction")? {
        // TensorFlow's constants begin with `weighted_`, but for `none`.
        let word = word.strip_prefix("weighted_").unwrap_or(&word);
        call.push(named("reduction", format!("{word:?}")));
    }
    Ok(applied(request.op, call, []))
}

fn pairwise(request: &OpRequest<'_>) -> Result<String, String> {
    Ok(applied(request.op, operands(request)?, []))
}

/// Labels, predictions and weights, converted as TensorFlow converts them.
fn operands(request: &OpRequest<'_>) -> Result<Vec<String>, String> {
    let family = family(request.op).ok_or("is no loss")?;
    let tensors = match family {
        Family::OfLosses => 1,
        Family::Single | Family::OfLogits => 2,
    };
    let count = request.inputs.len();
    if count != tensors && count != tensors + 1 {
        return Err(format!(
            "has {count} inputs, expected {tensors} and weights"
        ));
    }
    let all_double = request
        .inputs
        .iter()
        .all(|input| input.value.dtype() == DType::F64);
    let to = match family {
        // f64 stays what it is: the language has no reason to narrow it.
        Family::Single if all_double => DType::F64,
        Family::Single => DType::F32,
        Family::OfLogits | Family::OfLosses => request.dtype(tensors - 1),
    };
    let operand = |i: usize| match (request.op, i) {
        ("sparse_softmax_cross_entropy", 0) => x(0),
        _ => cast(x(i), request.dtype(i), to),
    };
    let mut operands: Vec<String> = (0..tensors).map(operand).collect();
    let weights = match count > tensors {
        true => Some(operand(tensors)),
        false => request.argument("weights", Kind::Number)?,
    };
    operands.extend(weights.map(|w| named("weights", w)));
    Ok(operands)
}
