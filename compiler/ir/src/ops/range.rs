//! `tf.range`: an arithmetic progression.

use crate::build::{Lower, Lowering, Value};
use crate::graph::Type;
use crate::interp::round;
use crate::ops::op::{Call, Default, Kind, Number, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{fits, known_negative};
use crate::size::{MAX_ELEMENTS, Size};
use crate::tensor::Tensor;
use crate::types::{DType, Dim, Shape, TensorType};

/// start, start + delta, … up to but without `limit`.
///
/// With only one number it is the limit, and the start is 0. The elements are i64 where all three numbers are integers, else
/// f32, unless `dtype` says otherwise.
pub(super) static OP: Op = Op {
    name: "range",
    aliases: &[],
    doc: "The numbers from `start` to before `limit` in steps of `delta`; `range(n)` is from 0 to before n.",
    params: &[
        Param::required("start", Kind::Number),
        Param::optional("limit", Kind::Number),
        Param::with("delta", Kind::Number, Default::Int(1)),
        Param::optional("dtype", Kind::DType),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let zero = Size::fixed(0);
    let (start, limit, delta) = numbers(call, &zero);
    let (natural, size) = match (start, limit, delta) {
        (Number::Int(start), Number::Int(limit), Number::Int(delta)) => {
            (DType::I64, steps(start, limit, delta)?)
        }
        _ => {
            let numbers = [("start", start), ("limit", limit), ("delta", delta)];
            let mut values = [0.0; 3];
            for (value, (name, number)) in values.iter_mut().zip(numbers) {
                *value = known(name, number)?;
            }
            let double = call.dtype_opt("dtype") == Some(DType::F64);
            (DType::F32, float_steps(values, double)?)
        }
    };
    let dtype = call.dtype_opt("dtype").unwrap_or(natural);
    let takes = match natural {
        DType::I64 => dtype.is_int() || dtype.is_float(),
        _ => dtype.is_float(),
    };
    if !takes {
        return Err(RuleError::new(
            RuleErrorKind::DtypeMismatch,
            format!("a range of {natural} numbers cannot be one of {dtype}"),
        )
        .at("dtype"));
    }
    fits(TensorType::new(dtype, Shape(vec![Dim::exact(size)])))
}

/// Start, limit and delta; the start is `zero` where only one number is given.
fn numbers<'a>(call: &Call<'a>, zero: &'a Size) -> (Number<'a>, Number<'a>, Number<'a>) {
    let (first, delta) = (call.number("start"), call.number("delta"));
    match call.has("limit") {
        true => (first, call.number("limit"), delta),
        false => (Number::Int(zero), first, delta),
    }
}

/// max(0, ⌈(limit - start) / delta⌉).
///
/// A symbolic length is taken not to be negative.
fn steps(start: &Size, limit: &Size, delta: &Size) -> Result<Size, RuleError> {
    let known = delta.value();
    let delta = known.ok_or_else(|| RuleError::unknown_size("delta", delta))?;
    let length = match delta {
        0 => return Err(no_step()),
        1.. => limit
            .sub(start)
            .and_then(|way| way.ceil_div(&Size::fixed(delta))),
        _ => {
            let back = Size::fixed(delta).mul(&Size::fixed(-1));
            start
                .sub(limit)
                .zip(back)
                .and_then(|(way, step)| way.ceil_div(&step))
        }
    };
    let length = length.ok_or_else(RuleError::overflow)?;
    Ok(if known_negative(&length) {
        Size::fixed(0)
    } else {
        length
    })
}

/// The float form of [`steps`], rounded as the elements are: in f32 unless they are f64.
fn float_steps([start, limit, delta]: [f64; 3], double: bool) -> Result<Size, RuleError> {
    if delta == 0.0 {
        return Err(no_step());
    }
    let length = if double {
        ((limit - start) / delta).ceil()
    } else {
        f64::from(((limit as f32 - start as f32) / delta as f32).ceil())
    };
    if length.is_nan() {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("there is no range from {start:?} to {limit:?} in steps of {delta:?}"),
        ));
    }
    if length > MAX_ELEMENTS as f64 {
        return Err(RuleError::overflow());
    }
    Ok(Size::fixed(length.max(0.0) as i64))
}

fn known(name: &'static str, number: Number<'_>) -> Result<f64, RuleError> {
    match number {
        Number::Float(x) => Ok(x),
        Number::Int(n) => match n.value() {
            Some(n) => Ok(n as f64),
            None => Err(RuleError::unknown_size(name, n)),
        },
    }
}

fn no_step() -> RuleError {
    RuleError::new(
        RuleErrorKind::BadValue,
        "`delta` is 0, so the range never ends",
    )
    .at("delta")
}

/// The maximum number of elements computed by repeated addition, as TensorFlow does; longer ranges are start + i · delta.
const MAX_REPEATED_ADDITIONS: usize = 1 << 16;

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let zero = Size::fixed(0);
    let (start, _, delta) = numbers(l.call, &zero);
    let ty = Type::of(&l.results[0]).expect("dimensions are bound before lowering");
    let indices = l.b.iota(ty.shape[0]);
    if let (Number::Int(start), Number::Int(delta)) = (start, delta)
        && ty.dtype.is_int()
    {
        let integer = |name, n: &Size| n.value().ok_or_else(|| RuleError::unknown_size(name, n));
        let start = l.b.int(DType::I64, integer("start", start)?);
        let delta = l.b.int(DType::I64, integer("delta", delta)?);
        return Ok(vec![(indices * delta + start).cast(ty.dtype)]);
    }
    let rounded = |x: f64| round(ty.dtype, x);
    let start = rounded(known("start", start)?);
    let delta = rounded(known("delta", delta)?);
    if let Some(added) = added(start, delta, &ty) {
        return Ok(vec![l.b.constant(Tensor::from_f64s(&ty, added))]);
    }
    let indices = indices.cast(ty.dtype);
    Ok(vec![indices * delta + start])
}

/// start, start + delta, (start + delta) + delta, … where it differs from start + i · delta, all of it rounded at each step.
fn added(start: f64, delta: f64, ty: &Type) -> Option<Vec<f64>> {
    let rounded = |x: f64| round(ty.dtype, x);
    if ty.shape[0] > MAX_REPEATED_ADDITIONS || !matches!(ty.dtype, DType::F32 | DType::F64) {
        return None;
    }
    let next = |x: &f64| Some(rounded(x + delta));
    let added: Vec<f64> = std::iter::successors(Some(start), next)
        .take(ty.shape[0])
        .collect();
    let scaled = |i: usize| rounded(rounded(rounded(i as f64) * delta) + start);
    let same = added.iter().enumerate().all(|(i, x)| *x == scaled(i));
    (!same).then_some(added)
}
