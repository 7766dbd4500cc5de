//! `tf.tensordot`: tensor contraction over pairs of axes.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::contract::{Labelled, contract, zero_past_counts};
use crate::ops::rules::{axes, fits, length, same_dim};
use crate::types::{Class, Dim, TensorType};

/// Σ a · b over pairs of axes (tensor contraction).
pub(super) static OP: Op = Op {
    name: "tensordot",
    aliases: &[],
    doc: "The products of all elements of two tensors, summed over the last axes of `a` and the first of `b`, or over `a_axes` and `b_axes`.",
    params: &[
        Param::required("a", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::required("b", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::optional("axes", Kind::Int),
        Param::optional("a_axes", Kind::Ints),
        Param::optional("b_axes", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (a, b) = (call.tensor("a"), call.tensor("b"));
    let (from_a, from_b) = summed(call, a.rank(), b.rank())?;
    for (i, j) in from_a.iter().zip(&from_b) {
        let what = format!("dimension {i} of `a` and dimension {j} of `b`");
        same_dim(what, &a.shape.0[*i], &b.shape.0[*j])?;
    }
    let kept = |t: &TensorType, out: &[usize]| -> Vec<Dim> {
        let dims = t.shape.0.iter().enumerate();
        dims.filter(|(i, _)| !out.contains(i))
            .map(|(_, d)| d.clone())
            .collect()
    };
    fits(a.with_dims([kept(a, &from_a), kept(b, &from_b)].concat()))
}

/// The axes to sum over, those of `a` in the order of those of `b`.
fn summed(call: &Call<'_>, a: usize, b: usize) -> Result<(Vec<usize>, Vec<usize>), RuleError> {
    match (
        call.int_opt("axes")?,
        call.ints_opt("a_axes")?,
        call.ints_opt("b_axes")?,
    ) {
        (Some(n), None, None) => match usize::try_from(n) {
            Ok(n) if n <= a && n <= b => Ok(((a - n..a).collect(), (0..n).collect())),
            _ => Err(RuleError::new(
                RuleErrorKind::BadValue,
                format!("{n} axes cannot be summed over: the tensors have {a} and {b}"),
            )
            .at("axes")),
        },
        (None, Some(from_a), Some(from_b)) => {
            length("b_axes", from_b.len(), from_a.len(), "of `a_axes`")?;
            Ok((axes("a_axes", &from_a, a)?, axes("b_axes", &from_b, b)?))
        }
        _ => Err(RuleError::new(
            RuleErrorKind::BadValue,
            "the axes to sum over must be given in one of two ways",
        )
        .help("give `axes`, or both `a_axes` and `b_axes`")),
    }
}

/// A matrix product, `a` having the summed axes last and `b` having them first.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let [a, b] = ["a", "b"].map(|name| zero_past_counts(l, l.value(name), l.call.tensor(name)));
    let (from_a, from_b) = summed(l.call, a.rank(), b.rank())?;
    // An axis of `b` is labelled by the axis of `a` that it is paired with, or by a number that `a` does not have.
    let paired = |j: usize| from_b.iter().position(|k| *k == j).map(|i| from_a[i]);
    let rank = a.rank();
    let a = Labelled {
        value: a,
        labels: a.axes(),
    };
    let b = Labelled {
        value: b,
        labels: (0..b.rank())
            .map(|j| paired(j).unwrap_or(rank + j))
            .collect(),
    };
    let product = contract(&a, &b, |label| !from_a.contains(label))?;
    Ok(vec![zero_past_counts(l, product.value, &l.results[0])])
}
