//! `limit_epochs` (`tf.train.limit_epochs`): an output that ends after a number of evaluations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::graph::Graph;
use crate::queue::{LocalVariable, Output};
use crate::{Code, Error};

/// The output, for `num_epochs` evaluations; then it fails with [`Code::OutOfRange`]. Without a number it is the output itself. The count is
/// a local variable, `NAME/epochs`.
///
/// ```
/// use trainspec::queue::limit_epochs;
/// use trainspec::{Code, Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let twice = limit_epochs(&mut graph, &Tensor::scalar(7_i32).into(), Some(2), None)?;
/// twice.evaluate()?;
/// twice.evaluate()?;
/// let end = twice.evaluate().unwrap_err();
/// assert_eq!((end.code(), end.to_string().as_str()), (Code::OutOfRange, "Reached limit of 2"));
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn limit_epochs(
    graph: &mut Graph,
    tensor: &Output,
    num_epochs: Option<u64>,
    name: Option<&str>,
) -> Result<Output, Error> {
    let Some(limit) = num_epochs else {
        return Ok(tensor.clone());
    };
    if limit == 0 {
        let message = "num_epochs must be > 0 not 0.";
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let scope = graph.unique_name(name.unwrap_or("limit_epochs"))?;
    let epochs = Arc::new(AtomicU64::new(0));
    let own = epochs.clone();
    let initialize = move || own.store(0, Ordering::SeqCst);
    let variable = LocalVariable::new(format!("{scope}/epochs"), initialize);
    graph.collections_mut()?.local_variables.push(variable);
    let inner = tensor.clone();
    let limited = Output::cancellable(tensor.specs().to_vec(), move |cancellation| {
        // Counts up to the limit, and never past it.
        let count = |epochs: u64| (epochs < limit).then_some(epochs + 1);
        if epochs
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count)
            .is_err()
        {
            let message = format!("Reached limit of {limit}");
            return Err(Error::new(Code::OutOfRange, message));
        }
        inner.evaluate_with(cancellation)
    });
    Ok(match tensor.names() {
        [] => limited,
        names => limited.under(names.to_vec()),
    })
}
