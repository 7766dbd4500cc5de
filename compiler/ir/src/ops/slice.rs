//! A box out of a tensor.

use crate::ops::op::{Call, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{at_least, exact_dim, fits, known_negative, length};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// `input` from `begin`, as far as `size`.
pub(super) static OP: Op = Op {
    name: "slice",
    aliases: &[],
    doc: "The part of a tensor that starts at `begin` and is `size` large, -1 being all that is left.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("begin", Kind::Ints),
        Param::required("size", Kind::Ints),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let input = call.tensor("input");
    let (begin, size) = (call.sizes("begin"), call.sizes("size"));
    length("begin", begin.len(), input.rank(), "dimension of `input`")?;
    length("size", size.len(), input.rank(), "dimension of `input`")?;
    let dims = input.shape.0.iter().zip(begin.iter().zip(size)).enumerate();
    let dims = dims.map(|(i, (dim, (begin, size)))| cut(i, dim, begin, size));
    fits(input.with_dims(dims.collect::<Result<_, _>>()?))
}

fn cut(i: usize, dim: &Dim, begin: &Size, size: &Size) -> Result<Dim, RuleError> {
    let all_left = *size == Size::fixed(-1);
    if all_left && *begin == Size::fixed(0) {
        return Ok(dim.clone());
    }
    let whole = exact_dim("input", dim)?;
    at_least("begin", 0, begin)?;
    if !all_left {
        at_least("size", -1, size)?;
    }
    let left = whole.sub(begin).ok_or_else(RuleError::overflow)?;
    let wanted = if all_left {
        Size::fixed(0)
    } else {
        size.clone()
    };
    let spare = left.sub(&wanted).ok_or_else(RuleError::overflow)?;
    if known_negative(&spare) {
        return Err(RuleError::new(
            Fault::IndexOutOfRange,
            match all_left {
                true => format!("dimension {i} has {whole}, so nothing is at {begin}"),
                false => {
                    format!("dimension {i} has {whole}, but {size} from {begin} on are asked for")
                }
            },
        )
        .at(if all_left { "begin" } else { "size" }));
    }
    Ok(Dim::exact(if all_left { left } else { wanted }))
}
