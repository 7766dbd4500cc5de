//! Queues of a graph by their shared name (`shared_name`): two that have one are one queue.

use crate::graph::Graph;
use crate::queue::items::Kind;
use crate::queue::{Queue, QueueOptions};
use crate::{Code, Error};

/// A new queue, or the one that has this shared name. Fails where that one is of another kind.
pub(super) fn open(
    graph: &mut Graph,
    kind: Kind,
    shared_name: Option<&str>,
    options: QueueOptions,
) -> Result<Queue, Error> {
    let Some(shared_name) = shared_name else {
        return Queue::of_kind(kind, options);
    };
    let options = QueueOptions {
        name: Some(shared_name.to_owned()),
        ..options
    };
    match graph.shared_queue(shared_name) {
        None => {
            let queue = Queue::of_kind(kind, options)?;
            graph.share_queue(&queue)?;
            Ok(queue)
        }
        Some(known) => {
            let own = (known.kind(), known.components(), known.capacity());
            if own == (kind, &options.components, options.capacity) {
                return Ok(known.clone());
            }
            let message = format!(
                "Shared queue '{shared_name}' has another kind, other components or another capacity than requested"
            );
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}
