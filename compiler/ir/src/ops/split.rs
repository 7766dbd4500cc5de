//! `tf.split`: a tensor split into several along an axis.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{MAX_OUTPUT_TENSORS, at_least, axis, exact_dim, fits, known_negative};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// `value` in equal pieces or in pieces of given sizes.
pub(super) static OP: Op = Op {
    name: "split",
    aliases: &[],
    doc: "A tensor cut along an axis: one number says into how many equal pieces, a list gives their sizes (one may be -1: the rest).",
    params: &[
        Param::required("value", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("num_or_size_splits", Kind::Ints),
        Param::with("axis", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let value = call.tensor("value");
    let along = axis("axis", call.int("axis")?, value.rank())?;
    let extent = exact_dim("value", &value.shape.0[along])?;
    let sizes = match call.sizes(SPLITS) {
        [_] => equal(extent, call.ints(SPLITS)?[0])?,
        sizes => given(extent, sizes)?,
    };
    let mut pieces = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut piece = value.clone();
        piece.shape.0[along] = Dim::exact(size);
        pieces.extend(fits(piece)?);
    }
    Ok(pieces)
}

const SPLITS: &str = "num_or_size_splits";

fn equal(extent: &Size, pieces_count: i64) -> Result<Vec<Size>, RuleError> {
    if !(1..=MAX_OUTPUT_TENSORS).contains(&pieces_count) {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("{pieces_count} pieces cannot be cut: their number is from 1 to {MAX_OUTPUT_TENSORS}"),
        )
        .at(SPLITS));
    }
    let Some(size) = extent.div_exact(&Size::fixed(pieces_count)) else {
        return Err(RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!("{extent} cannot be cut into {pieces_count} equal pieces"),
        )
        .at(SPLITS)
        .help("give the list of sizes instead"));
    };
    Ok(vec![size; pieces_count as usize])
}

fn given(extent: &Size, sizes: &[Size]) -> Result<Vec<Size>, RuleError> {
    if sizes.is_empty() || sizes.len() as i64 > MAX_OUTPUT_TENSORS {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!(
                "{} pieces cannot be cut: their number is from 1 to {MAX_OUTPUT_TENSORS}",
                sizes.len()
            ),
        )
        .at(SPLITS));
    }
    let rest = Size::fixed(-1);
    let mut sum = Size::fixed(0);
    for size in sizes.iter().filter(|s| **s != rest) {
        at_least(SPLITS, 0, size)?;
        sum = sum.add(size).ok_or_else(RuleError::overflow)?;
    }
    let left = extent.sub(&sum).ok_or_else(RuleError::overflow)?;
    match sizes.iter().filter(|s| **s == rest).count() {
        0 if left == Size::fixed(0) => Ok(sizes.to_vec()),
        1 if !known_negative(&left) => Ok(sizes
            .iter()
            .map(|s| if *s == rest { left.clone() } else { s.clone() })
            .collect()),
        0 | 1 => Err(RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!("the pieces add up to {sum}, but there are {extent}"),
        )
        .at(SPLITS)),
        _ => Err(RuleError::new(
            RuleErrorKind::BadValue,
            "only one piece can be -1, the rest",
        )
        .at(SPLITS)),
    }
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let value = l.value("value");
    let along = axis("axis", l.call.int("axis")?, value.rank())?;
    let mut begin = 0;
    let piece = |i: usize| {
        let size = l.shape(i)[along];
        begin += size;
        value.narrow(along, begin - size, size)
    };
    Ok((0..l.results.len()).map(piece).collect())
}
