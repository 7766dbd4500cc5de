//! Numbers at equal distances.

use crate::ops::op::{Call, Default, Fault, Kind, Number, Op, Param, RuleError};
use crate::ops::rules::{fits, known_negative};
use crate::size::{MAX_ELEMENTS, Size};
use crate::types::{DType, Dim, Shape, TensorType};

/// start, start + delta, … up to but without `limit`.
///
/// With only one number it is the limit, and the start is 0. The elements are i64 where all three numbers are whole, else
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
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let zero = Size::fixed(0);
    let (start, limit) = if call.has("limit") {
        (call.number("start"), call.number("limit"))
    } else {
        (Number::Int(&zero), call.number("start"))
    };
    let delta = call.number("delta");
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
            Fault::DtypeMismatch,
            format!("a range of {natural} numbers cannot be one of {dtype}"),
        )
        .at("dtype"));
    }
    fits(TensorType::new(dtype, Shape(vec![Dim::exact(size)])))
}

/// max(0, ⌈(limit - start) / delta⌉).
///
/// A length with a name in it is taken not to be negative.
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

/// The same for floats, rounded as the elements are: in f32 unless they are f64.
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
            Fault::BadValue,
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
    RuleError::new(Fault::BadValue, "`delta` is 0, so the range never ends").at("delta")
}
