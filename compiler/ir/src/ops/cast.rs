//! `tf.cast`: conversion to another element type.

use ndarray::ArrayD;

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::{Class, DType, TensorType};

/// x as `dtype`; floats are truncated (rounded toward zero) to integers.
pub(super) static OP: Op = Op {
    name: "cast",
    aliases: &[],
    doc: "The elements converted to another type; floats are rounded toward zero to become integers.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("dtype", Kind::DType),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").cast(l.call.dtype("dtype"))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let dtype = call.dtype("dtype");
    // There is no one conversion between strings and numbers, so a string is only cast to a string.
    if (x.dtype == DType::String) != (dtype == DType::String) {
        return Err(RuleError::new(
            RuleErrorKind::DtypeMismatch,
            format!("{} cannot become {dtype}", x.dtype),
        )
        .at("dtype"));
    }
    Ok(vec![x.with_dtype(dtype)])
}

/// The primitive. VJP: dx = dy cast back.
pub(crate) static PRIM: Prim = Prim {
    name: "cast",
    attrs: &[("dtype", AttrKind::DType)],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(|g| g.dy().cast(g.x(0).dtype()))]),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    let result = x.with_dtype(call.dtype("dtype"));
    of_class(x, Class::Any)?;
    of_class(&result, Class::Any)?;
    Ok(vec![result])
}

/// Floats are truncated to integers and saturate at the range of the type; NaN becomes 0. Integers wrap to the width. A
/// number is true unless it is 0.
fn eval(e: &Evaluation<'_>) -> Array {
    let to = e.results[0].dtype;
    let numbers = |x: ArrayD<f64>| e.floats(x);
    match e.x(0) {
        // A cast to the operand's own type is a copy.
        Array::Float(_) if to == e.types[0].dtype => e.x(0).clone(),
        Array::Float(x) if to.is_float() => numbers(x.to_owned()),
        Array::Float(x) => match to.int_range() {
            Some((min, max)) => e.ints(x.mapv(|x| (x as i64).clamp(min, max))),
            None => x.mapv(|x| x != 0.0).into(),
        },
        Array::Int(x) => match to {
            DType::F64 => numbers(x.mapv(|n| n as f64)),
            // Not via f64, which would round twice (double rounding).
            DType::F16 | DType::Bf16 | DType::F32 => numbers(x.mapv(|n| f64::from(n as f32))),
            DType::Bool => x.mapv(|n| n != 0).into(),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::String => {
                e.ints(x.to_owned())
            }
        },
        Array::Bool(x) if to.is_float() => numbers(x.mapv(|b| f64::from(u8::from(b)))),
        Array::Bool(x) if to.is_int() => e.ints(x.mapv(i64::from)),
        Array::Bool(_) => e.x(0).clone(),
    }
}
