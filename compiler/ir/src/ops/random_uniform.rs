//! `tf.random.uniform`: samples of the uniform distribution (Philox 4x32-10).

use ndarray::ArrayD;

use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Kind, Op, Param, RuleError};
use crate::ops::random_key::{keys, number};
use crate::ops::rules::shapes::one_result;
use crate::ops::rules::{random_scalar, random_shape};
use crate::philox::Key;
use crate::types::{DType, TensorType};

/// minval + (maxval - minval) · u, u being uniform in [0, 1).
pub(super) static OP: Op = Op {
    name: "random_uniform",
    aliases: &[],
    doc: "Random numbers of the uniform distribution from `minval` (0) to below `maxval` (1).",
    params: &[
        Param::required("shape", Kind::Ints),
        random_scalar("minval"),
        random_scalar("maxval"),
        Param::optional("dtype", Kind::DType),
    ],
    random: true,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    random_shape(call, ["minval", "maxval"])
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let ty = Type::new(l.results[0].dtype, &l.shape(0));
    let u = l.b.random_uniform(l.b.key(l.call.site), &ty);
    let (minval, maxval) = (l.value_opt("minval"), l.value_opt("maxval"));
    if minval.is_none() && maxval.is_none() {
        return Ok(vec![u]);
    }
    let (low, high) = (minval.unwrap_or(u.like(0.0)), maxval.unwrap_or(u.like(1.0)));
    let x = low + (high - low) * u;
    // The sum may be rounded to the upper bound, which is exclusive.
    Ok(vec![x.equal(high).select(low, x)])
}

/// The primitive: numbers (k + 1/2) / 2ᵇ with b the stored mantissa bits of the type, from the words of a key's Philox
/// stream.
///
/// Element i of an f64 tensor takes the words 2i (the low half) and 2i + 1, of any other type the word i; k is made of
/// the first b bits from the top. Word w is number w mod 4 of block ⌊w / 4⌋.
pub(crate) static PRIM: Prim = Prim {
    name: "random_uniform",
    attrs: &[("shape", AttrKind::Sizes), ("dtype", AttrKind::DType)],
    infer: infer_static,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer_static(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    keys::<1>(call)?;
    let dtype = call.dtype("dtype");
    match mantissa_bits(dtype) {
        Some(_) => one_result(dtype, call.sizes("shape").to_vec()),
        None => Err(format!(
            "random numbers are drawn as floats, not as {dtype}"
        )),
    }
}

/// The stored mantissa bits of a float type.
fn mantissa_bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F16 => Some(10),
        DType::Bf16 => Some(7),
        DType::F32 => Some(23),
        DType::F64 => Some(52),
        DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::Bool
        | DType::String => None,
    }
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (key, dtype) = (Key(number(e, 0) as u64), e.dtype("dtype"));
    let bits = mantissa_bits(dtype).expect("the rule asks for floats");
    let words = if dtype == DType::F64 { 2 } else { 1 };
    let elements: usize = e.sizes("shape").iter().product();
    let stream = key.stream(elements * words);
    // A power of two, so that multiplying is exact.
    let unit = 1.0 / (1_u64 << bits) as f64;
    let numbers = match dtype {
        DType::F64 => {
            let (pairs, _) = stream.as_chunks::<2>();
            let long = |pair: &[u32; 2]| u64::from(pair[0]) | u64::from(pair[1]) << 32;
            let numbers = pairs.iter().map(|pair| (long(pair) >> (64 - bits)) as f64);
            numbers.map(|k| (k + 0.5) * unit).collect()
        }
        _ => {
            let numbers = stream
                .iter()
                .map(|word| f64::from((word >> (32 - bits)) as i32));
            numbers.map(|k| (k + 0.5) * unit).collect()
        }
    };
    let numbers = ArrayD::from_shape_vec(e.shape(), numbers);
    Ok(vec![
        e.floats(numbers.expect("one number for each element")),
    ])
}
