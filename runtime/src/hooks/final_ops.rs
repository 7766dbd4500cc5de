//! `FinalOpsHook` (`tf.train.FinalOpsHook`): values that are computed once, when the session ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use trainspec_compiler::ir::Tensor;

use crate::hooks::{LogSink, SessionRunHook};
use crate::session::{Session, Target};
use crate::{Error, Graph};

/// Computes values at the end of a session, also where the input ended. Its [`FinalOpsValues`] hold them afterwards.
///
/// An error of the computation is that of the end; one that says that an input has ended is a warning besides, since what is computed
/// at the end must not read the input.
///
/// ```
/// use trainspec::hooks::FinalOpsHook;
/// use trainspec::monitored::{InitialSession, MonitoredSession};
/// use trainspec::InputView;
/// use trainspec::{Graph, Tensor};
///
/// let text = "
///     spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(1.0); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// let hook = FinalOpsHook::new([("steps", "global_step"), ("loss", "loss")])
///     .with_feeds([("x", Tensor::new(&[1], vec![2.0_f32]))]);
/// let values = hook.values();
/// let creator = Box::new(InitialSession::default());
/// let mut session = MonitoredSession::new(Graph::new(&spec), creator, vec![Box::new(hook)])?;
/// session.run("train_op", &[("x", InputView::new(&[1], &[1.0_f32]))])?;
/// assert!(values.get("loss").is_none());
/// session.close()?;
/// assert_eq!(values.get("steps").unwrap().to_i64s(), [1]);
/// assert_eq!(values.get("loss").unwrap().to_f64s(), [0.0]);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct FinalOpsHook {
    /// What is computed: the name of the value, and what it is.
    ops: Vec<(String, String)>,
    feeds: BTreeMap<String, Tensor>,
    targets: Vec<Target>,
    values: FinalOpsValues,
    warn: Option<LogSink>,
}

/// The values of a [`FinalOpsHook`], by name. Clones share them.
///
/// ```
/// use trainspec::hooks::FinalOpsHook;
///
/// let values = FinalOpsHook::new([("steps", "global_step")]).values();
/// assert!(values.get("steps").is_none()); // the session has not ended
/// ```
#[derive(Debug, Clone, Default)]
pub struct FinalOpsValues(Arc<Mutex<BTreeMap<String, Tensor>>>);

impl FinalOpsValues {
    /// A value; `None` before the end, and for an operation.
    pub fn get(&self, name: &str) -> Option<Tensor> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(name).cloned()
    }

    fn set(&self, new: BTreeMap<String, Tensor>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

impl FinalOpsHook {
    /// Computes these at the end: each has a name for its value, and is what a run can fetch.
    pub fn new<N: Into<String>, F: Into<String>>(
        ops: impl IntoIterator<Item = (N, F)>,
    ) -> FinalOpsHook {
        let ops = ops.into_iter();
        FinalOpsHook {
            ops: ops.map(|(name, op)| (name.into(), op.into())).collect(),
            feeds: BTreeMap::new(),
            targets: Vec::new(),
            values: FinalOpsValues::default(),
            warn: None,
        }
    }

    /// What is fed to the computation (`final_ops_feed_dict`).
    pub fn with_feeds<N: Into<String>>(
        mut self,
        feeds: impl IntoIterator<Item = (N, Tensor)>,
    ) -> FinalOpsHook {
        let feeds = feeds.into_iter();
        self.feeds = feeds.map(|(name, value)| (name.into(), value)).collect();
        self
    }

    /// Receives the warning that the computation reads an input which has ended.
    pub fn on_warning(mut self, warn: impl FnMut(&str) + Send + 'static) -> FinalOpsHook {
        self.warn = Some(Box::new(warn));
        self
    }

    /// The values, which are there when the session has ended (`final_ops_values`).
    pub fn values(&self) -> FinalOpsValues {
        self.values.clone()
    }
}

impl std::fmt::Debug for FinalOpsHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FinalOpsHook")
            .field("ops", &self.ops)
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

impl SessionRunHook for FinalOpsHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        let targets = self.ops.iter().map(|(_, op)| graph.target(op));
        self.targets = targets.collect::<Result<_, Error>>()?;
        Ok(())
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        let ran = session.run(self.targets.clone(), &self.feeds);
        if let (Err(error), Some(warn)) = (&ran, &mut self.warn)
            && error.is_end_of_input()
        {
            warn(&format!(
                "what is computed at the end reads an input that has ended, and must depend on variables alone: {error}"
            ));
        }
        let names = self.ops.iter().map(|(name, _)| name.clone());
        let values = names.zip(ran?);
        let values = values.filter_map(|(name, value)| Some((name, value?)));
        self.values.set(values.collect());
        Ok(())
    }
}
