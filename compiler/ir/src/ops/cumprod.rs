//! Running products.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::products::running;
use crate::ops::rules::{SCAN, axis, scan};

/// Π of x up to each place along `axis`.
pub(super) static OP: Op = Op {
    name: "cumprod",
    aliases: &[],
    doc: "The product of the elements up to each one along an axis.",
    params: SCAN,
    random: false,
    lower: Lower::By(|l| {
        let x = l.call.tensor("x");
        let axis = axis("axis", l.call.int("axis")?, x.rank())?;
        let (exclusive, reverse) = (l.call.bool("exclusive"), l.call.bool("reverse"));
        let products = running(l.masked("x", &[axis], 1.0), axis, exclusive, reverse);
        // What is behind the count flows back into all that is before it, unless it is replaced.
        Ok(vec![l.mask(products, &x.shape.0, &[axis], 0.0)])
    }),
    infer: scan,
};
