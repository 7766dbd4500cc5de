//! Parameters of fake quantization (quantization-aware training).

use crate::ops::op::{Call, Default, Kind, Param, RuleError, RuleErrorKind};

/// The bit width of the quantized values.
pub(in crate::ops) const NUM_BITS: Param = Param::with("num_bits", Kind::Int, Default::Int(8));

/// Narrow range: whether the lowest quantized value is unused, which makes the range symmetric around zero.
pub(in crate::ops) const NARROW_RANGE: Param =
    Param::with("narrow_range", Kind::Bool, Default::Bool(false));

/// `num_bits` must be what TensorFlow takes.
pub(in crate::ops) fn bits(call: &Call<'_>) -> Result<(), RuleError> {
    match call.int("num_bits")? {
        2..=16 => Ok(()),
        n => Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("`num_bits` must be from 2 to 16, but is {n}"),
        )
        .at("num_bits")),
    }
}
