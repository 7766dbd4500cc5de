//! The graph that sessions and hooks are built around (`tf.Graph`): a spec, its typed collections, and what hooks declare that they fetch.
//!
//! In: a checked spec, the storage and the clock of whoever runs it. Out: what [`Scaffold`](crate::monitored::Scaffold), savers, summaries
//! and hooks find in the collections. It is handed around; nothing is global. Leaves alone: the operations of the model, which are the
//! compiler's.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use trainspec_compiler::typed::Spec;
use trainspec_compiler::{Fetch, Trainable};
use trainspec_formats::events::{SummaryWriterCache, WriterOptions};
use trainspec_formats::storage::Storage;

use crate::env::Env;
use crate::monitored::{InitOp, ReadyOp};
use crate::queue::{LocalVariable, Queue, QueueRunner};
use crate::saver::{Saver, SharedClock};
use crate::session::{Options, Target};
use crate::summary::SummaryOp;
use crate::{Code, Error};

/// The key under which summaries are collected where no other is given.
pub const SUMMARIES: &str = "summaries";

/// The key under which queue runners are collected where no other is given.
pub const QUEUE_RUNNERS: &str = "queue_runners";

/// A saver that a session and its hooks share.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use trainspec::graph::{Collections, SharedSaver};
/// use trainspec::saver::Saver;
///
/// let saver: SharedSaver = Arc::new(Mutex::new(Saver::new(Default::default())?));
/// let collections = Collections { savers: vec![saver.clone()], ..Collections::default() };
/// assert!(Arc::ptr_eq(&collections.savers[0], &saver));
/// # Ok::<(), trainspec::Error>(())
/// ```
pub type SharedSaver = Arc<Mutex<Saver>>;

/// The typed collections of a graph (`tf.GraphKeys`).
///
/// ```
/// use trainspec::graph::Collections;
///
/// let collections = Collections::default();
/// assert!(collections.savers.is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Collections {
    /// `GLOBAL_STEP`: names of step variables.
    pub global_step: Vec<String>,
    /// `SAVERS`.
    pub savers: Vec<SharedSaver>,
    /// `INIT_OP`.
    pub init_op: Vec<InitOp>,
    /// `LOCAL_INIT_OP`.
    pub local_init_op: Vec<InitOp>,
    /// `READY_OP`.
    pub ready_op: Vec<ReadyOp>,
    /// `READY_FOR_LOCAL_INIT_OP`.
    pub ready_for_local_init_op: Vec<ReadyOp>,
    /// `SUMMARY_OP`.
    pub summary_op: Vec<SummaryOp>,
    /// Summaries by collection: [`SUMMARIES`], or another key.
    pub summaries: BTreeMap<String, Vec<SummaryOp>>,
    /// Queue runners by collection: [`QUEUE_RUNNERS`], or another key.
    pub queue_runners: BTreeMap<String, Vec<QueueRunner>>,
    /// `LOCAL_VARIABLES`: what an input pipeline counts.
    pub local_variables: Vec<LocalVariable>,
}

impl fmt::Debug for Collections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summaries = self.summaries.iter().map(|(key, ops)| (key, ops.len()));
        f.debug_struct("Collections")
            .field("global_step", &self.global_step)
            .field("savers", &self.savers.len())
            .field("init_op", &self.init_op.len())
            .field("local_init_op", &self.local_init_op.len())
            .field("ready_op", &self.ready_op.len())
            .field(
                "ready_for_local_init_op",
                &self.ready_for_local_init_op.len(),
            )
            .field("summary_op", &self.summary_op.len())
            .field("summaries", &summaries.collect::<BTreeMap<_, _>>())
            .field("queue_runners", &self.queue_runners)
            .field("local_variables", &self.local_variables)
            .finish()
    }
}

/// A graph: the spec with its collections, the storage and the clock.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::summary::SummaryOp;
///
/// let text = "
///     spec line;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(0.1); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// let mut graph = Graph::new(&spec);
/// SummaryOp::scalar(&mut graph, "loss", "loss")?;
/// assert_eq!(graph.collections().summaries["summaries"].len(), 1);
/// graph.finalize();
/// assert!(SummaryOp::scalar(&mut graph, "again", "loss").is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone)]
pub struct Graph {
    spec: Arc<Spec>,
    env: Env,
    summary_writers: Arc<SummaryWriterCache>,
    collections: Collections,
    declared: Vec<BTreeSet<Fetch>>,
    state_names: OnceCell<Vec<String>>,
    /// The names of scopes in the input, and how often each was asked for.
    names: BTreeMap<String, usize>,
    /// Queues that have a shared name.
    shared_queues: BTreeMap<String, Queue>,
    is_finalized: bool,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("spec", &self.spec.name)
            .field("collections", &self.collections)
            .field("declared", &self.declared)
            .field("is_finalized", &self.is_finalized)
            .finish_non_exhaustive()
    }
}

impl Graph {
    /// A graph over the files and the clock of this machine.
    pub fn new(spec: &Arc<Spec>) -> Graph {
        Graph::new_in(spec, Env::default())
    }

    /// A graph over another storage and clock.
    pub fn new_in(spec: &Arc<Spec>, env: Env) -> Graph {
        let options = WriterOptions {
            storage: env.storage.clone(),
            clock: env.clock.clone(),
            ..WriterOptions::default()
        };
        Graph {
            spec: spec.clone(),
            env,
            summary_writers: Arc::new(SummaryWriterCache::new(options)),
            collections: Collections::default(),
            declared: Vec::new(),
            state_names: OnceCell::new(),
            names: BTreeMap::new(),
            shared_queues: BTreeMap::new(),
            is_finalized: false,
        }
    }

    /// The spec.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Where checkpoints and event files are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.env.storage
    }

    /// The clock.
    pub fn clock(&self) -> &SharedClock {
        &self.env.clock
    }

    /// Options of a session over the files and the clock of this graph.
    pub(crate) fn options(&self, options: &Options) -> Options {
        Options {
            env: self.env.clone(),
            ..options.clone()
        }
    }

    /// The writers of event files, one for each folder (`SummaryWriterCache`).
    pub fn summary_writers(&self) -> &Arc<SummaryWriterCache> {
        &self.summary_writers
    }

    /// The collections.
    pub fn collections(&self) -> &Collections {
        &self.collections
    }

    /// The collections, to be added to. Fails where the graph is finalized.
    pub fn collections_mut(&mut self) -> Result<&mut Collections, Error> {
        self.ensure_open()?;
        Ok(&mut self.collections)
    }

    /// Says what a hook may fetch together in one run, so that a program for it is compiled before the first step. What is not declared is
    /// compiled when it is first fetched. Fails where the graph is finalized and does not know of it.
    pub fn declare<'t>(
        &mut self,
        targets: impl IntoIterator<Item = &'t Target>,
    ) -> Result<(), Error> {
        let values = targets.into_iter().filter_map(|target| match target {
            Target::Value(fetch) => Some(fetch.clone()),
            Target::TrainOp | Target::Variable(_) => None,
        });
        let values: BTreeSet<Fetch> = values.collect();
        if !values.is_empty() && !self.declared.contains(&values) {
            self.ensure_open()?;
            self.declared.push(values);
        }
        Ok(())
    }

    /// What hooks declared, each a set that is fetched together.
    pub(crate) fn declared(&self) -> &[BTreeSet<Fetch>] {
        &self.declared
    }

    /// What a name stands for among fetches: `train_op`, a result of the model, a schedule, or a variable.
    pub fn target(&self, name: &str) -> Result<Target, Error> {
        Target::find(&self.spec, self.state_names()?, name)
    }

    /// The names of all state: variables, slots, averages, scalars.
    pub fn state_names(&self) -> Result<&[String], Error> {
        if let Some(names) = self.state_names.get() {
            return Ok(names);
        }
        let state = Trainable::from(self.spec.clone()).state()?;
        let names = state.into_iter().map(|one| one.name).collect();
        Ok(self.state_names.get_or_init(|| names))
    }

    /// A name of the input that no other has: `batch`, then `batch_1` (`Graph.unique_name`).
    pub(crate) fn unique_name(&mut self, name: &str) -> Result<String, Error> {
        self.ensure_open()?;
        let mut count = self.names.get(name).copied().unwrap_or(0);
        let mut unique = name.to_owned();
        while self.names.contains_key(&unique) {
            unique = format!("{name}_{count}");
            count += 1;
        }
        self.names.insert(name.to_owned(), count.max(1));
        self.names.entry(unique.clone()).or_insert(1);
        Ok(unique)
    }

    /// The queue with a shared name.
    pub(crate) fn shared_queue(&self, shared_name: &str) -> Option<&Queue> {
        self.shared_queues.get(shared_name)
    }

    /// Keeps a queue under its name.
    pub(crate) fn share_queue(&mut self, queue: &Queue) -> Result<(), Error> {
        self.ensure_open()?;
        let name = queue.name().to_owned();
        self.shared_queues.insert(name, queue.clone());
        Ok(())
    }

    /// From here on nothing is added.
    pub fn finalize(&mut self) {
        self.is_finalized = true;
    }

    /// Whether the graph is finalized.
    pub fn is_finalized(&self) -> bool {
        self.is_finalized
    }

    fn ensure_open(&self) -> Result<(), Error> {
        match self.is_finalized {
            false => Ok(()),
            true => {
                let message = "the graph is finalized and cannot be changed";
                let help = "add to it before its session is created, or in `begin` of a hook";
                Err(Error::new(Code::FailedPrecondition, message).help(help))
            }
        }
    }
}
