//! The mean under a moving window.

use crate::build::{Lower, Lowering, Value};
use crate::graph::Type;
use crate::ops::op::{Op, RuleError};
use crate::ops::rules::places::{Places, four};
use crate::ops::rules::{POOL_FLOAT, Window, pool};
use crate::tensor::Tensor;

/// The mean over the window; padding never counts.
pub(super) static OP: Op = Op {
    name: "avg_pool2d",
    aliases: &[],
    doc: "The mean of the elements under a window that moves over height and width.",
    params: POOL_FLOAT,
    random: false,
    lower: Lower::By(lower),
    infer: pool,
};

/// The sums, each divided by how many elements its window holds.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.value("input");
    let window = Window::of_pool(l.call)?.pool(&x.shape())?;
    let sums = x.sum_pool2d(&window);
    let places = four("the input", &x.shape()).and_then(|x| Places::of_pool(&x, &window));
    let places = places.expect("the rule has seen the shape");
    let [h, w] = places.counts();
    let held = (0..places.len()).map(|place| places.held(place) as f64);
    let held = Tensor::from_f64s(&Type::new(x.dtype(), &[h, w, 1]), held);
    Ok(vec![sums / l.b.constant(held)])
}
