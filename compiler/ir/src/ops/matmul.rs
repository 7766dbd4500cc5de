//! Matrix multiplication over the last two dimensions, batched over those before.

use crate::ops::op::{Call, Default, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{broadcast, fits, least_rank};
use crate::types::{Class, Dim, Shape, TensorType};

/// a @ b.
pub(super) static OP: Op = Op {
    name: "matmul",
    aliases: &[],
    doc: "The matrix product of the last two dimensions; dimensions before them are broadcast.",
    params: &[
        Param::required("a", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::required("b", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::with("transpose_a", Kind::Bool, Default::Bool(false)),
        Param::with("transpose_b", Kind::Bool, Default::Bool(false)),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    least_rank(call, "a", 2)?;
    least_rank(call, "b", 2)?;
    let (a, b) = (call.tensor("a"), call.tensor("b"));
    let (m, k) = last_two(a, call.bool("transpose_a"));
    let (l, n) = last_two(b, call.bool("transpose_b"));
    if k != l {
        let error = RuleError::new(
            Fault::ShapeMismatch,
            format!("the inner dimensions differ: {k} and {l}"),
        );
        return Err(if k == n {
            error.help("transpose the right operand: `matmul(a, b, transpose_b: true)`")
        } else if m == l {
            error.help("transpose the left operand: `matmul(a, b, transpose_a: true)`")
        } else {
            error.help(format!("the right operand needs {k} rows, but has {l}"))
        });
    }
    let mut shape = broadcast(&batch(a), &batch(b))?;
    shape.0.extend([m.clone(), n.clone()]);
    fits(TensorType::new(a.dtype, shape))
}

fn last_two(t: &TensorType, transposed: bool) -> (&Dim, &Dim) {
    let [.., p, q] = t.shape.0.as_slice() else {
        unreachable!("the rank was checked");
    };
    if transposed { (q, p) } else { (p, q) }
}

fn batch(t: &TensorType) -> Shape {
    Shape(t.shape.0[..t.rank() - 2].to_vec())
}
