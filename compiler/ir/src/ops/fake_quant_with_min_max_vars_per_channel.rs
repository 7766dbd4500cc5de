//! `tf.quantization.fake_quant_with_min_max_vars_per_channel`: fake quantization with bounds for each channel.

use crate::build::Lower;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::quantize::{Scaling, quantized};
use crate::ops::rules::{dims, fake_quant, min_rank, same_dim};
use crate::types::{Class, TensorType};

/// `inputs` quantized to 2^num_bits values from `min`[c] to `max`[c] for each channel c.
pub(super) static OP: Op = Op {
    name: "fake_quant_with_min_max_vars_per_channel",
    aliases: &[],
    doc: "The elements quantized to `num_bits` bits and dequantized, with bounds for each channel (the last dimension).",
    params: &[
        Param::required("inputs", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("min", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("max", Kind::Tensor(Elements::Same("T", Class::Float))),
        fake_quant::NUM_BITS,
        fake_quant::NARROW_RANGE,
    ],
    random: false,
    lower: Lower::By(|l| quantized(l, l.value("min"), l.value("max"), Scaling::Multiply)),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    fake_quant::bits(call)?;
    min_rank(call, "inputs", 1)?;
    let inputs = call.tensor("inputs");
    let channels = &inputs.shape.0[inputs.rank() - 1];
    for bound in ["min", "max"] {
        let [n] = dims(call, bound)?;
        let what = format!("the last dimension of `inputs` and that of `{bound}`");
        same_dim(what, channels, n)?;
    }
    Ok(vec![inputs.clone()])
}
