//! `Scaffold` (`tf.train.Scaffold`): the pieces that a session needs to start: initialization, readiness, summaries, the saver.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainspec_compiler::ir::Tensor;

use crate::graph::{Collections, Graph, SUMMARIES, SharedSaver};
use crate::monitored::{InitOp, ReadyOp};
use crate::saver::{Saver, SaverOptions};
use crate::session::Session;
use crate::summary::{SummaryOp, merge_all_summaries};
use crate::{Code, Error};

/// Runs after `init_op`, where a session starts from initial values.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::Session;
/// use trainspec::monitored::{Scaffold, ScaffoldInitFn};
///
/// let init_fn: ScaffoldInitFn = Arc::new(|_: &Scaffold, session: &mut Session| {
///     assert_eq!(session.global_step(), 0);
///     Ok(())
/// });
/// # let _ = init_fn;
/// ```
pub type ScaffoldInitFn = Arc<dyn Fn(&Scaffold, &mut Session) -> Result<(), Error> + Send + Sync>;

/// The pieces of a session's start. What is not given is made when the graph is finalized, and put into the collections; what is given is
/// not. Clones share one scaffold.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::monitored::{InitOp, Scaffold};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// let mut graph = Graph::new(&spec);
/// let scaffold = Scaffold::new().with_init_op(InitOp::initializer());
/// scaffold.finalize(&mut graph)?;
/// // The one that was given is not collected, the saver that was made is.
/// assert!(graph.collections().init_op.is_empty());
/// assert_eq!(graph.collections().savers.len(), 1);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Scaffold(Arc<Mutex<Pieces>>);

/// The pieces of a scaffold.
#[derive(Clone, Default)]
struct Pieces {
    init_op: Option<InitOp>,
    init_feed_dict: Vec<(String, Tensor)>,
    init_fn: Option<ScaffoldInitFn>,
    ready_op: Option<ReadyOp>,
    ready_for_local_init_op: Option<ReadyOp>,
    local_init_op: Option<InitOp>,
    local_init_feed_dict: Vec<(String, Tensor)>,
    /// The outer option is whether it was decided: a graph without summaries has none.
    summary_op: Option<Option<SummaryOp>>,
    saver: Option<SharedSaver>,
}

impl Scaffold {
    /// A scaffold without pieces.
    pub fn new() -> Scaffold {
        Scaffold::default()
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(self, set: impl FnOnce(&mut Pieces)) -> Scaffold {
        set(&mut self.pieces());
        self
    }

    /// Initializes variables where there is no checkpoint.
    pub fn with_init_op(self, op: InitOp) -> Scaffold {
        self.with(|pieces| pieces.init_op = Some(op))
    }

    /// What `init_op` is fed.
    pub fn with_init_feed_dict(self, feeds: Vec<(String, Tensor)>) -> Scaffold {
        self.with(|pieces| pieces.init_feed_dict = feeds)
    }

    /// Runs after `init_op`.
    pub fn with_init_fn(
        self,
        init_fn: impl Fn(&Scaffold, &mut Session) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Scaffold {
        self.with(|pieces| pieces.init_fn = Some(Arc::new(init_fn)))
    }

    /// Says whether the session is ready for training.
    pub fn with_ready_op(self, op: ReadyOp) -> Scaffold {
        self.with(|pieces| pieces.ready_op = Some(op))
    }

    /// Says whether the session is ready for `local_init_op`.
    pub fn with_ready_for_local_init_op(self, op: ReadyOp) -> Scaffold {
        self.with(|pieces| pieces.ready_for_local_init_op = Some(op))
    }

    /// Runs after initialization and after a restore.
    pub fn with_local_init_op(self, op: InitOp) -> Scaffold {
        self.with(|pieces| pieces.local_init_op = Some(op))
    }

    /// What `local_init_op` is fed.
    pub fn with_local_init_feed_dict(self, feeds: Vec<(String, Tensor)>) -> Scaffold {
        self.with(|pieces| pieces.local_init_feed_dict = feeds)
    }

    /// The summaries of a training, in place of all that are collected.
    pub fn with_summary_op(self, op: SummaryOp) -> Scaffold {
        self.with(|pieces| pieces.summary_op = Some(Some(op)))
    }

    /// Saves and restores.
    pub fn with_saver(self, saver: Saver) -> Scaffold {
        self.with_shared_saver(Arc::new(Mutex::new(saver)))
    }

    /// Saves and restores, a saver that others share.
    pub fn with_shared_saver(self, saver: SharedSaver) -> Scaffold {
        self.with(|pieces| pieces.saver = Some(saver))
    }

    /// A scaffold with the pieces of another one, which changes independently (`copy_from_scaffold`).
    pub fn copy_from_scaffold(&self) -> Scaffold {
        Scaffold(Arc::new(Mutex::new(self.pieces().clone())))
    }

    /// Makes the pieces that were not given, from the collections where there is one, and finalizes the graph. Fails where a collection has
    /// two. Calling it again changes nothing.
    pub fn finalize(&self, graph: &mut Graph) -> Result<(), Error> {
        let mut pieces = self.pieces();
        if pieces.init_op.is_none() {
            let make = |_: &Graph| Ok(Some(InitOp::initializer()));
            pieces.init_op = collected(graph, "init_op", |all| &mut all.init_op, make)?;
        }
        let ready = |_: &Graph| Ok(Some(ReadyOp::report_uninitialized()));
        if pieces.ready_op.is_none() {
            pieces.ready_op = collected(graph, "ready_op", |all| &mut all.ready_op, ready)?;
        }
        if pieces.ready_for_local_init_op.is_none() {
            let name = "ready_for_local_init_op";
            pieces.ready_for_local_init_op =
                collected(graph, name, |all| &mut all.ready_for_local_init_op, ready)?;
        }
        if pieces.local_init_op.is_none() {
            let make = |_: &Graph| Ok(Some(InitOp::no_op()));
            let name = "local_init_op";
            pieces.local_init_op = collected(graph, name, |all| &mut all.local_init_op, make)?;
        }
        if pieces.summary_op.is_none() {
            let make = |graph: &Graph| Ok(merge_all_summaries(graph, SUMMARIES));
            let found = collected(graph, "summary_op", |all| &mut all.summary_op, make)?;
            pieces.summary_op = Some(found);
        }
        if pieces.saver.is_none() {
            let make = |graph: &Graph| default_saver(graph).map(Some);
            pieces.saver = collected(graph, "saver", |all| &mut all.savers, make)?;
        }
        graph.finalize();
        Ok(())
    }

    /// The one item of a collection; `None` where it is empty. Two are an error, because nobody can say which is meant.
    pub fn get_or_default<T: Clone>(name: &str, collected: &[T]) -> Result<Option<T>, Error> {
        match collected {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            many => {
                let message = format!(
                    "there are {} items in the collection of `{name}`, and a scaffold takes one",
                    many.len()
                );
                let help = "give the one that is meant to the scaffold";
                Err(Error::new(Code::FailedPrecondition, message).help(help))
            }
        }
    }

    /// Initializes variables where there is no checkpoint.
    pub fn init_op(&self) -> Option<InitOp> {
        self.pieces().init_op.clone()
    }

    /// What `init_op` is fed.
    pub fn init_feed_dict(&self) -> Vec<(String, Tensor)> {
        self.pieces().init_feed_dict.clone()
    }

    /// Runs after `init_op`, with this scaffold.
    pub fn init_fn(&self) -> Option<ScaffoldInitFn> {
        self.pieces().init_fn.clone()
    }

    /// Says whether the session is ready for training.
    pub fn ready_op(&self) -> Option<ReadyOp> {
        self.pieces().ready_op.clone()
    }

    /// Says whether the session is ready for `local_init_op`.
    pub fn ready_for_local_init_op(&self) -> Option<ReadyOp> {
        self.pieces().ready_for_local_init_op.clone()
    }

    /// Runs after initialization and after a restore.
    pub fn local_init_op(&self) -> Option<InitOp> {
        self.pieces().local_init_op.clone()
    }

    /// What `local_init_op` is fed.
    pub fn local_init_feed_dict(&self) -> Vec<(String, Tensor)> {
        self.pieces().local_init_feed_dict.clone()
    }

    /// The summaries of a training.
    pub fn summary_op(&self) -> Option<SummaryOp> {
        self.pieces().summary_op.clone().flatten()
    }

    /// Saves and restores.
    pub fn saver(&self) -> Option<SharedSaver> {
        self.pieces().saver.clone()
    }
}

/// The one item of a collection, else one that is made and collected.
fn collected<T: Clone>(
    graph: &mut Graph,
    name: &str,
    collection: fn(&mut Collections) -> &mut Vec<T>,
    make: impl FnOnce(&Graph) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let known = collection(&mut graph.collections().clone()).clone();
    if let Some(one) = Scaffold::get_or_default(name, &known)? {
        return Ok(Some(one));
    }
    let made = make(graph)?;
    if let Some(made) = &made {
        collection(graph.collections_mut()?).push(made.clone());
    }
    Ok(made)
}

/// The saver of a scaffold or supervisor that is given none: all variables, in the storage of the graph.
pub(crate) fn default_saver(graph: &Graph) -> Result<SharedSaver, Error> {
    let options = SaverOptions {
        allow_empty: true,
        ..SaverOptions::default()
    };
    let saver = Saver::with_clock_in(graph.storage(), options, graph.clock().clone())?;
    Ok(Arc::new(Mutex::new(saver)))
}

impl fmt::Debug for Scaffold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pieces = self.pieces();
        f.debug_struct("Scaffold")
            .field("init_op", &pieces.init_op)
            .field("has_init_fn", &pieces.init_fn.is_some())
            .field("ready_op", &pieces.ready_op)
            .field("local_init_op", &pieces.local_init_op)
            .field("summary_op", &pieces.summary_op)
            .field("has_saver", &pieces.saver.is_some())
            .finish_non_exhaustive()
    }
}
