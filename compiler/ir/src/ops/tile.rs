//! `tf.tile`: a tensor repeated along its dimensions.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{at_least, exact_dim, fits, length};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// x `multiples`[i] times along each dimension i.
pub(super) static OP: Op = Op {
    name: "tile",
    aliases: &[],
    doc: "A tensor repeated along each dimension as often as `multiples` says.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("multiples", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let multiples = call.sizes("multiples");
    length("multiples", multiples.len(), x.rank(), "dimension of `x`")?;
    let mut dims = Vec::with_capacity(x.rank());
    for (dim, times) in x.shape.0.iter().zip(multiples) {
        at_least("multiples", 0, times)?;
        if *times == Size::fixed(1) {
            dims.push(dim.clone());
            continue;
        }
        let size = exact_dim("x", dim)?.mul(times);
        dims.push(Dim::exact(size.ok_or_else(RuleError::overflow)?));
    }
    fits(x.with_dims(dims))
}

/// A new dimension before each that is repeated, broadcast, then merged with it.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.value("x");
    let (mut apart, mut repeated) = (Vec::new(), Vec::new());
    for (size, times) in x.shape().into_iter().zip(l.call.ints("multiples")?) {
        if times != 1 {
            apart.push(1);
            repeated.push(times as usize);
        }
        apart.push(size);
        repeated.push(size);
    }
    let tiled = x.reshape(&apart).broadcast(&repeated);
    Ok(vec![tiled.reshape(&l.shape(0))])
}
