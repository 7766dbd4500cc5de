//! Summaries of how full a queue is.

use trainspec_formats::events::summary::scalar;

use crate::Error;
use crate::graph::Graph;
use crate::queue::Queue;
use crate::summary::SummaryOp;

/// Adds a scalar to the summaries of the graph: the full part of the capacity above `least`, `max(0, size - least) / capacity`.
pub(super) fn summarize_size(
    graph: &mut Graph,
    tag: &str,
    queue: &Queue,
    least: usize,
    capacity: usize,
) -> Result<(), Error> {
    let (own, queue) = (tag.to_owned(), queue.clone());
    let part = (1.0 / capacity as f64) as f32;
    let op = SummaryOp::function(graph, &[], move |_| {
        let above = queue.size().saturating_sub(least);
        Ok(scalar(&own, above as f32 * part))
    })?;
    op.collect(graph, None)?;
    Ok(())
}
