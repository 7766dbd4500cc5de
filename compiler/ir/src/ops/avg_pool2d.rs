//! `tf.nn.avg_pool2d`: average pooling over height and width.

use crate::build::{Lower, Lowering, Value};
use crate::graph::Type;
use crate::ops::op::{Op, RuleError};
use crate::ops::rules::sliding_window::{SlidingWindow, four};
use crate::ops::rules::{POOL_FLOAT, Window, pool};
use crate::tensor::Tensor;

/// The mean over the window; padding is not counted.
pub(super) static OP: Op = Op {
    name: "avg_pool2d",
    aliases: &[],
    doc: "The mean of the elements under a window that moves over height and width.",
    params: POOL_FLOAT,
    random: false,
    lower: Lower::By(lower),
    infer: pool,
};

/// Sum pooling, each sum divided by the number of elements under its window.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.value("input");
    let window = Window::of_pool(l.call)?.pool(&x.shape())?;
    let sums = x.sum_pool2d(&window);
    let geometry = four("the input", &x.shape()).and_then(|x| SlidingWindow::of_pool(&x, &window));
    let geometry = geometry.expect("the rule has seen the shape");
    let [h, w] = geometry.output_sizes();
    let counts = (0..geometry.len()).map(|at| geometry.covered_elements(at) as f64);
    let counts = Tensor::from_f64s(&Type::new(x.dtype(), &[h, w, 1]), counts);
    Ok(vec![sums / l.b.constant(counts)])
}
