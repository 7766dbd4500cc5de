//! Rows put together by number.

use crate::ops::op::{Call, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{at_least, fits, length, prefix};
use crate::size::Size;
use crate::types::{Class, Dim, Shape, TensorType};

/// Row `indices`[i][j] of the result is `data`[i][j]; of equal numbers the last counts.
///
/// Without `size` the room is that of all indices, so each must be below their number.
pub(super) static OP: Op = Op {
    name: "dynamic_stitch",
    aliases: &[],
    doc: "The slices of several tensors put together, each at the row that its index names; of equal rows the last counts.",
    params: &[
        Param::required("indices", Kind::Tensors(Elements::Of(Class::Int))),
        Param::required("data", Kind::Tensors(Elements::Same("T", Class::Any))),
        Param::optional("size", Kind::Int),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (indices, data) = (call.tensors("indices"), call.tensors("data"));
    length("data", data.len(), indices.len(), "of `indices`")?;
    let mut row: Option<&[Dim]> = None;
    let mut most = Size::fixed(0);
    for (i, (indices, data)) in indices.iter().zip(data).enumerate() {
        let rest = prefix(("indices", indices), ("data", data))?;
        match row {
            Some(row) if row != rest => {
                let [p, q] = [row, rest].map(|r| Shape(r.to_vec()));
                return Err(RuleError::new(
                    Fault::ShapeMismatch,
                    format!("the rows of tensors 0 and {i} of `data` differ in shape: {p} and {q}"),
                )
                .at("data"));
            }
            _ => row = Some(rest),
        }
        let size = indices.shape.elements().ok_or_else(RuleError::overflow)?;
        most = most.add(&size).ok_or_else(RuleError::overflow)?;
    }
    let rows = match call.size_opt("size") {
        Some(n) => {
            at_least("size", 0, n)?;
            Dim::exact(n.clone())
        }
        None => Dim::at_most(most, call.count()),
    };
    fits(data[0].with_dims([&[rows], row.unwrap_or_default()].concat()))
}
