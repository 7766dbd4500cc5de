//! `tf.reshape`: the elements, in row-major order, in another shape.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::{elements, one_result};
use crate::ops::rules::{at_least, exact_dim, fits};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// x with its elements in row-major order in `shape`.
pub(super) static OP: Op = Op {
    name: "reshape",
    aliases: &[],
    doc: "The same elements in another shape; one size may be -1, which is found from the others.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("shape", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").reshape(&l.shape(0))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    for dim in &x.shape.0 {
        exact_dim("x", dim)?;
    }
    let have = x.shape.elements().ok_or_else(RuleError::overflow)?;
    let sizes = call.sizes("shape");
    let inferred = Size::fixed(-1);
    let mut given = Size::fixed(1);
    for size in sizes.iter().filter(|s| **s != inferred) {
        at_least("shape", 0, size)?;
        given = given.mul(size).ok_or_else(RuleError::overflow)?;
    }
    let found = match sizes.iter().filter(|s| **s == inferred).count() {
        0 if given == have => None,
        0 => {
            return Err(RuleError::new(
                RuleErrorKind::ShapeMismatch,
                format!("there are {have} elements, but the new shape has {given}"),
            )
            .at("shape"));
        }
        1 if given == Size::fixed(0) => {
            return Err(RuleError::new(
                RuleErrorKind::BadValue,
                "-1 stands for any size where another size is 0",
            )
            .at("shape")
            .help("write the size in place of -1"));
        }
        1 => match have.div_exact(&given) {
            Some(found) => Some(found),
            None => {
                return Err(RuleError::new(
                    RuleErrorKind::ShapeMismatch,
                    format!("there are {have} elements, which {given} does not divide"),
                )
                .at("shape"));
            }
        },
        _ => {
            return Err(
                RuleError::new(RuleErrorKind::BadValue, "only one size can be -1").at("shape"),
            );
        }
    };
    let size = |s: &Size| match &found {
        Some(found) if *s == inferred => Dim::exact(found.clone()),
        _ => Dim::exact(s.clone()),
    };
    fits(x.with_dims(sizes.iter().map(size).collect()))
}

/// The primitive. VJP: dx = dy in the shape of x.
pub(crate) static PRIM: Prim = Prim {
    name: "reshape",
    attrs: &[("shape", AttrKind::Sizes)],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(|g| g.dy().reshape(&g.x(0).shape()))]),
    eval: Eval::Tensors(|e| Ok(vec![e.x(0).reshaped(e.sizes("shape"))])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Any)?;
    let shape = call.sizes("shape");
    let (have, requested) = (elements(&x.shape)?, elements(shape)?);
    match have == requested {
        true => one_result(x.dtype, shape.to_vec()),
        false => Err(format!(
            "there are {have} elements, but the new shape has {requested}"
        )),
    }
}
