//! A margin around a tensor.

use crate::ops::op::{Call, Default, Elements, Fault, Kind, Number, Op, Param, RuleError};
use crate::ops::rules::{at_least, exact_dim, fits, known_negative, length};
use crate::size::Size;
use crate::types::{Class, DType, Dim, TensorType};

/// `tensor` with (before, after) more along each dimension.
pub(super) static OP: Op = Op {
    name: "pad",
    aliases: &[],
    doc: "A tensor with a margin: of `constant_values`, or of its own elements mirrored with (symmetric) or without (reflect) the border.",
    params: &[
        Param::required("tensor", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("paddings", Kind::Pairs),
        Param::with(
            "mode",
            Kind::Word(&["constant", "reflect", "symmetric"]),
            Default::Word("constant"),
        ),
        Param::with("constant_values", Kind::Number, Default::Int(0)),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let tensor = call.tensor("tensor");
    let paddings = call.pairs("paddings");
    length(
        "paddings",
        paddings.len(),
        tensor.rank(),
        "dimension of `tensor`",
    )?;
    constant(call, tensor.dtype)?;
    let mirrored = match call.word("mode") {
        "reflect" => Some(1),
        "symmetric" => Some(0),
        _ => None,
    };
    let mut dims = Vec::with_capacity(tensor.rank());
    for (i, (dim, (before, after))) in tensor.shape.0.iter().zip(paddings).enumerate() {
        at_least("paddings", 0, before)?;
        at_least("paddings", 0, after)?;
        if *before == Size::fixed(0) && *after == Size::fixed(0) {
            dims.push(dim.clone());
            continue;
        }
        let size = exact_dim("tensor", dim)?;
        if let Some(border) = mirrored {
            enough(i, size, border, [before, after])?;
        }
        let padded = size.add(before).and_then(|s| s.add(after));
        dims.push(Dim::exact(padded.ok_or_else(RuleError::overflow)?));
    }
    fits(tensor.with_dims(dims))
}

/// There must be as many elements to mirror as the margin is wide.
fn enough(i: usize, size: &Size, border: i64, margins: [&Size; 2]) -> Result<(), RuleError> {
    let most = size
        .sub(&Size::fixed(border))
        .ok_or_else(RuleError::overflow)?;
    for margin in margins {
        let spare = most.sub(margin).ok_or_else(RuleError::overflow)?;
        if known_negative(&spare) {
            return Err(RuleError::new(
                Fault::BadValue,
                format!("dimension {i} has {size}, too few to mirror {margin} of them"),
            )
            .at("paddings"));
        }
    }
    Ok(())
}

/// The margin's value must be one of the elements' type.
fn constant(call: &Call<'_>, dtype: DType) -> Result<(), RuleError> {
    let value = call.number("constant_values");
    let known = match value {
        Number::Int(n) => n.value(),
        Number::Float(_) => None,
    };
    let range = match dtype {
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => return Ok(()),
        DType::Bool => Some((0, 1)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => dtype.int_range(),
        DType::String => None,
    };
    let message = match (value, range) {
        (Number::Float(x), _) => format!("{x:?} is no {dtype}"),
        (Number::Int(n), None) => format!("{n} is no {dtype}"),
        (Number::Int(_), Some((least, most))) => match known {
            Some(n) if !(least..=most).contains(&n) => {
                format!("{n} is no {dtype}: that is from {least} to {most}")
            }
            _ => return Ok(()),
        },
    };
    Err(RuleError::new(Fault::DtypeMismatch, message).at("constant_values"))
}
