//! `tf.math.cumprod`: the cumulative product (prefix product, a scan) along an axis.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::products::cumulative_product;
use crate::ops::rules::{SCAN, axis, scan};

/// The prefix products of x along `axis`.
pub(super) static OP: Op = Op {
    name: "cumprod",
    aliases: &[],
    doc: "The cumulative product along an axis.",
    params: SCAN,
    random: false,
    lower: Lower::By(|l| {
        let x = l.call.tensor("x");
        let axis = axis("axis", l.call.int("axis")?, x.rank())?;
        let (exclusive, reverse) = (l.call.bool("exclusive"), l.call.bool("reverse"));
        let products = cumulative_product(l.masked("x", &[axis], 1.0), axis, exclusive, reverse);
        // Cotangents of elements past the count would flow into all elements before it, so they are masked.
        Ok(vec![l.mask(products, &x.shape.0, &[axis], 0.0)])
    }),
    infer: scan,
};
