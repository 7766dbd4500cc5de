//! Running products.

use crate::ops::op::Op;
use crate::ops::rules::{SCAN, scan};

/// Π of x up to each place along `axis`.
pub(super) static OP: Op = Op {
    name: "cumprod",
    aliases: &[],
    doc: "The product of the elements up to each one along an axis.",
    params: SCAN,
    random: false,
    lower: crate::build::MISSING,
    infer: scan,
};
