//! `tf.quantization.fake_quant_with_min_max_args`: fake quantization with constant bounds.

use crate::build::Lower;
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::fake_quant;
use crate::ops::rules::quantize::{Scaling, quantized};
use crate::types::{Class, TensorType};

/// `inputs` quantized to 2^num_bits values from `min` to `max`, zero being one of them.
pub(super) static OP: Op = Op {
    name: "fake_quant_with_min_max_args",
    aliases: &[],
    doc: "The elements quantized to `num_bits` bits and dequantized, between two constants.",
    params: &[
        Param::required("inputs", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::with("min", Kind::Float, Default::Float(-6.0)),
        Param::with("max", Kind::Float, Default::Float(6.0)),
        fake_quant::NUM_BITS,
        fake_quant::NARROW_RANGE,
    ],
    random: false,
    lower: Lower::By(|l| {
        let x = l.value("inputs");
        let [min, max] = ["min", "max"].map(|bound| x.like(l.call.float(bound)));
        quantized(l, min, max, Scaling::Multiply)
    }),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    fake_quant::bits(call)?;
    let (min, max) = (call.float("min"), call.float("max"));
    // Written so that NaN is refused too.
    if !(min < max && min.is_finite() && max.is_finite()) {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("`min` must be less than `max`, but they are {min:?} and {max:?}"),
        )
        .at("min"));
    }
    Ok(vec![call.tensor("inputs").clone()])
}
