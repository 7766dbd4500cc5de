//! `tf.quantization.fake_quant_with_min_max_vars`: fake quantization with scalar tensors as bounds.

use crate::build::Lower;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::quantize::{Scaling, quantized};
use crate::ops::rules::{exact_rank, fake_quant};
use crate::types::{Class, TensorType};

/// `inputs` quantized to 2^num_bits values from `min` to `max`, zero being one of them.
pub(super) static OP: Op = Op {
    name: "fake_quant_with_min_max_vars",
    aliases: &[],
    doc: "The elements quantized to `num_bits` bits and dequantized, between two run-time scalars.",
    params: &[
        Param::required("inputs", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("min", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("max", Kind::Tensor(Elements::Same("T", Class::Float))),
        fake_quant::NUM_BITS,
        fake_quant::NARROW_RANGE,
    ],
    random: false,
    lower: Lower::By(|l| quantized(l, l.value("min"), l.value("max"), Scaling::Divide)),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    fake_quant::bits(call)?;
    exact_rank(call, "min", 0)?;
    exact_rank(call, "max", 0)?;
    Ok(vec![call.tensor("inputs").clone()])
}
