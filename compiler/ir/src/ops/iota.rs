//! Iota (`tf.range(n)`): the integers 0, 1, … n - 1.

use ndarray::Array1;

use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::ops::rules::primitive::arity;
use crate::ops::rules::shapes::one_result;
use crate::types::DType;

/// 0, 1, … n - 1 as i64.
pub(crate) static PRIM: Prim = Prim {
    name: "iota",
    attrs: &[("n", AttrKind::Size)],
    infer,
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| {
        let numbers = 0..e.size("n") as i64;
        Ok(vec![Array1::from_iter(numbers).into_dyn().into()])
    }),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [] = arity(call)?;
    one_result(DType::I64, vec![call.size("n")])
}
