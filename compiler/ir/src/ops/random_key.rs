//! Key derivation for the random generator: the Philox key of a call site under a seed.

use ndarray::arr0;

use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::Evaluation;
use crate::ops::rules::primitive::arity;
use crate::philox::Key;
use crate::types::DType;

/// The bits of the key derived from a seed and a site, by [`Key::new`].
pub(crate) static PRIM: Prim = Prim {
    name: "random_key",
    attrs: &[("site", AttrKind::String)],
    infer: |call| keys::<1>(call),
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| {
        let key = Key::new(number(e, 0), e.string("site"));
        Ok(vec![arr0(key.0 as i64).into_dyn().into()])
    }),
};

/// N i64 scalars: the result is another.
pub(super) fn keys<const N: usize>(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let scalar = Type::scalar(DType::I64);
    match arity::<N>(call)?.iter().find(|ty| ***ty != scalar) {
        Some(other) => Err(format!("keys are made of {scalar} numbers, not {other}")),
        None => Ok(vec![scalar]),
    }
}

/// The value of a scalar operand.
pub(super) fn number(e: &Evaluation<'_>, i: usize) -> i64 {
    let operand = e.x(i).int().first();
    *operand.expect("a scalar has one element")
}
