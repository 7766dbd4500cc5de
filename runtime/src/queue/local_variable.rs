//! Local variables of an input pipeline (the collection `LOCAL_VARIABLES`): they are initialized at each start of a session and never saved.

use std::fmt;
use std::sync::Arc;

use crate::graph::Graph;

/// A local variable: its name, and how it gets its initial value again.
///
/// ```
/// use trainspec::queue::{Output, limit_epochs};
/// use trainspec::{Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let once = limit_epochs(&mut graph, &Tensor::scalar(7_i32).into(), Some(1), None)?;
/// once.evaluate()?;
/// assert!(once.evaluate().is_err());
/// let epochs = &graph.collections().local_variables[0];
/// assert_eq!(epochs.name(), "limit_epochs/epochs");
/// epochs.initialize();
/// once.evaluate()?;
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone)]
pub struct LocalVariable {
    name: String,
    initialize: Arc<dyn Fn() + Send + Sync>,
}

impl LocalVariable {
    pub(super) fn new(
        name: String,
        initialize: impl Fn() + Send + Sync + 'static,
    ) -> LocalVariable {
        LocalVariable {
            name,
            initialize: Arc::new(initialize),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives it its initial value.
    pub fn initialize(&self) {
        (self.initialize)();
    }
}

impl fmt::Debug for LocalVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalVariable").field(&self.name).finish()
    }
}

/// Brings the input of a graph to its start: local variables have their initial values, and the queues that have runners are open and empty.
/// Each session of TensorFlow has queues and local variables of its own; here one session follows another on those of the graph.
/// An input that threads still fill is left as it is.
pub(crate) fn restart_input(graph: &Graph) {
    let collections = graph.collections();
    let mut runners = collections.queue_runners.values().flatten();
    if runners.any(|runner| runner.is_running()) {
        return;
    }
    for variable in &collections.local_variables {
        variable.initialize();
    }
    for runner in collections.queue_runners.values().flatten() {
        runner.queue().reset();
    }
}
