//! Pooling: type inference and reference evaluation shared by max, sum and average pools.

use crate::build::Pool;
use crate::graph::{Attr, PrimCall, Type};
use crate::interp::Evaluation;
use crate::ops::rules::primitive::of_class;
use crate::ops::rules::shapes::elements;
use crate::ops::rules::sliding_window::{SlidingWindow, four};
use crate::types::Class;

/// Type inference of a pool: one element for each window position.
pub(in crate::ops) fn pooled(call: &PrimCall<'_>, x: &Type, class: Class) -> Result<Type, String> {
    of_class(x, class)?;
    let shape = four("the input", &x.shape)?;
    let [h, w] = SlidingWindow::of_pool(&shape, &Pool::of(call.attrs)?)?.output_sizes();
    let ty = x.with_shape(&[shape[0], h, w, shape[3]]);
    elements(&ty.shape)?;
    Ok(ty)
}

/// The window of a pool in a graph.
pub(in crate::ops) fn window(attrs: &[Attr]) -> Pool {
    Pool::of(attrs).expect("the rule has seen the attributes")
}

/// The static geometry of a pool of a tensor.
#[derive(Debug)]
pub(in crate::ops) struct Pooling {
    x: [usize; 4],
    window: SlidingWindow,
}

impl Pooling {
    /// The pool of a tensor of that shape.
    pub(in crate::ops) fn of(e: &Evaluation<'_>, x: &[usize]) -> Pooling {
        let checked = "the rule has seen the shapes";
        let x = four("the input", x).expect(checked);
        let window = SlidingWindow::of_pool(&x, &window(e.attrs)).expect(checked);
        Pooling { x, window }
    }

    /// How many elements the pooled tensor has.
    pub(in crate::ops) fn len(&self) -> usize {
        self.x[0] * self.window.len() * self.x[3]
    }

    /// Visits each element of the pooled tensor, in order, with the offsets of the input elements under the window, in
    /// row-major order.
    pub(in crate::ops) fn each(
        &self,
        mut visit: impl FnMut(usize, &mut dyn Iterator<Item = usize>),
    ) {
        let [batch, h, w, c] = self.x;
        let mut y = 0;
        for image in 0..batch {
            for position in 0..self.window.len() {
                for channel in 0..c {
                    let mut under = self
                        .window
                        .taps(position)
                        .map(|(element, _)| (image * h * w + element) * c + channel);
                    visit(y, &mut under);
                    y += 1;
                }
            }
        }
    }

    /// For each element of the pooled tensor the offset of the first maximum under the window; `None` for an empty window.
    pub(in crate::ops) fn argmax_per_window<T: Copy>(
        &self,
        x: &[T],
        larger: impl Fn(T, T) -> bool,
    ) -> Vec<Option<usize>> {
        let mut found = vec![None; self.len()];
        self.each(|y, under| {
            found[y] = under.reduce(|best, i| if larger(x[i], x[best]) { i } else { best });
        });
        found
    }
}

/// Whether one float is above another in the order in which NaN is above all numbers.
pub(in crate::ops) fn above(a: f64, b: f64) -> bool {
    a > b || (a.is_nan() && !b.is_nan())
}
