//! Summary operations (`tf.summary`): what of a run is written to event files, as values that are built, collected, merged and evaluated.
//!
//! In: names of fetches, and after a run their values. Out: `Summary` messages. Leaves alone: event files
//! ([`SummaryWriter`], [`SummarySaverHook`](crate::hooks::SummarySaverHook)), and when a summary is due.

mod summarize;

pub(crate) use summarize::summarize;
pub use trainspec_compiler::typed::SummaryKind;
pub use trainspec_formats::events::{SummaryWriter, SummaryWriterCache, WriterOptions};
pub use trainspec_formats::proto::Summary;

use std::fmt;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_formats::events::summary::{merge, scalar};

use crate::graph::{Graph, SUMMARIES};
use crate::session::Target;
use crate::{Code, Error};

/// A summary of values that a run fetches.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::summary::{SummaryOp, histogram_summary, merge_all_summaries, scalar_summary};
/// use trainspec::graph::SUMMARIES;
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// let mut graph = Graph::new(&spec);
/// scalar_summary(&mut graph, &["loss"], "loss", None)?;
/// histogram_summary(&mut graph, "weights", "a", None)?;
/// let all = merge_all_summaries(&graph, SUMMARIES).unwrap();
/// assert_eq!(all.targets().len(), 2);
/// assert!(merge_all_summaries(&graph, "other").is_none());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone)]
pub struct SummaryOp(Arc<Node>);

type SummaryFunction = dyn Fn(&[Tensor]) -> Result<Summary, Error> + Send + Sync;

enum Node {
    /// One value under one tag, or a vector of numbers under as many.
    Value {
        tags: Vec<String>,
        target: Target,
        kind: SummaryKind,
    },
    /// A function of values.
    Function {
        targets: Vec<Target>,
        function: Box<SummaryFunction>,
    },
    /// Several, without a tag twice.
    Merged(Vec<SummaryOp>),
}

impl fmt::Debug for SummaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Node::Value { tags, target, .. } => write!(f, "SummaryOp({tags:?} of {target:?})"),
            Node::Function { targets, .. } => write!(f, "SummaryOp(function of {targets:?})"),
            Node::Merged(ops) => f.debug_tuple("SummaryOp").field(ops).finish(),
        }
    }
}

impl SummaryOp {
    /// A number: adds it to the summaries of the graph, as [`scalar_summary`] does.
    pub fn scalar(graph: &mut Graph, tag: &str, value: &str) -> Result<SummaryOp, Error> {
        scalar_summary(graph, &[tag], value, None)
    }

    /// A function of fetched values, in their order. It is in no collection.
    pub fn function(
        graph: &Graph,
        fetches: &[&str],
        function: impl Fn(&[Tensor]) -> Result<Summary, Error> + Send + Sync + 'static,
    ) -> Result<SummaryOp, Error> {
        let targets = fetches.iter().map(|name| graph.target(name));
        Ok(SummaryOp(Arc::new(Node::Function {
            targets: targets.collect::<Result<_, Error>>()?,
            function: Box::new(function),
        })))
    }

    /// What it fetches, in order.
    pub fn targets(&self) -> Vec<Target> {
        match &*self.0 {
            Node::Value { target, .. } => vec![target.clone()],
            Node::Function { targets, .. } => targets.clone(),
            Node::Merged(ops) => ops.iter().flat_map(SummaryOp::targets).collect(),
        }
    }

    /// The summary, of the values of its targets in order. Fails where a value does not fit its kind, or two parts have one tag.
    pub fn evaluate(&self, values: &[Tensor]) -> Result<Summary, Error> {
        self.take(&mut values.iter())
    }

    fn take(&self, values: &mut dyn Iterator<Item = &Tensor>) -> Result<Summary, Error> {
        let mut next = || {
            let missing = || Error::new(Code::InvalidArgument, "a summary is given too few values");
            values.next().ok_or_else(missing)
        };
        match &*self.0 {
            Node::Value { tags, kind, .. } => {
                let value = next()?;
                match tags.as_slice() {
                    [tag] => summarize(tag, value, *kind),
                    tags => scalars(tags, value),
                }
            }
            Node::Function { targets, function } => {
                let values = targets.iter().map(|_| next().cloned());
                function(&values.collect::<Result<Vec<_>, Error>>()?)
            }
            Node::Merged(ops) => {
                let parts = ops.iter().map(|op| op.take(values));
                let parts = parts.collect::<Result<Vec<_>, Error>>()?;
                merge(parts).map_err(|e| Error::new(Code::InvalidArgument, e.cause.to_string()))
            }
        }
    }

    /// Adds it to collections, [`SUMMARIES`] where none are given.
    pub(crate) fn collect(
        self,
        graph: &mut Graph,
        collections: Option<&[&str]>,
    ) -> Result<SummaryOp, Error> {
        let all = graph.collections_mut()?;
        for key in collections.unwrap_or(&[SUMMARIES]) {
            let collection = all.summaries.entry((*key).to_owned()).or_default();
            collection.push(self.clone());
        }
        Ok(self)
    }
}

/// A vector of numbers, each under its tag.
fn scalars(tags: &[String], value: &Tensor) -> Result<Summary, Error> {
    if value.shape() != [tags.len()] {
        let message = format!(
            "{} tags are given for a value of type {}: tags and values have one shape",
            tags.len(),
            value.ty()
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let numbers = value.to_f64s();
    let parts = tags.iter().zip(numbers);
    let parts = parts.map(|(tag, number)| scalar(tag, number as f32));
    merge(parts).map_err(|e| Error::new(Code::InvalidArgument, e.cause.to_string()))
}

/// One summary of a fetch, collected.
fn summary(
    graph: &mut Graph,
    tags: &[&str],
    value: &str,
    kind: SummaryKind,
    collections: Option<&[&str]>,
) -> Result<SummaryOp, Error> {
    let target = graph.target(value)?;
    if target == Target::TrainOp {
        let message = format!("`{value}` is an operation without a value to summarize");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let node = Node::Value {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        target,
        kind,
    };
    SummaryOp(Arc::new(node)).collect(graph, collections)
}

/// Numbers (`tf.scalar_summary`): one tag for a scalar, or as many as a vector has elements. Without `collections` it is added to
/// [`SUMMARIES`].
pub fn scalar_summary(
    graph: &mut Graph,
    tags: &[&str],
    values: &str,
    collections: Option<&[&str]>,
) -> Result<SummaryOp, Error> {
    if tags.is_empty() {
        let message = "a scalar summary has at least one tag";
        return Err(Error::new(Code::InvalidArgument, message));
    }
    summary(graph, tags, values, SummaryKind::Scalar, collections)
}

/// A distribution (`tf.histogram_summary`).
pub fn histogram_summary(
    graph: &mut Graph,
    tag: &str,
    values: &str,
    collections: Option<&[&str]>,
) -> Result<SummaryOp, Error> {
    summary(graph, &[tag], values, SummaryKind::Histogram, collections)
}

/// Pictures (`tf.image_summary`): `[batch, height, width, channels]`, of which at most `max_images` are written.
pub fn image_summary(
    graph: &mut Graph,
    tag: &str,
    values: &str,
    max_images: u32,
    collections: Option<&[&str]>,
) -> Result<SummaryOp, Error> {
    let kind = SummaryKind::Image {
        max_outputs: u64::from(max_images),
    };
    summary(graph, &[tag], values, kind, collections)
}

/// Sound (`tf.audio_summary`): `[batch, frames]` or `[batch, frames, channels]`, of which at most `max_outputs` are written.
pub fn audio_summary(
    graph: &mut Graph,
    tag: &str,
    values: &str,
    sample_rate: u32,
    max_outputs: u32,
    collections: Option<&[&str]>,
) -> Result<SummaryOp, Error> {
    let kind = SummaryKind::Audio {
        sample_rate: u64::from(sample_rate),
        max_outputs: u64::from(max_outputs),
    };
    summary(graph, &[tag], values, kind, collections)
}

/// Several summaries as one (`tf.merge_summary`); a tag that stands in two is an error when it is evaluated. Without `collections` it is
/// in none.
pub fn merge_summary(
    graph: &mut Graph,
    ops: &[SummaryOp],
    collections: Option<&[&str]>,
) -> Result<SummaryOp, Error> {
    let merged = SummaryOp(Arc::new(Node::Merged(ops.to_vec())));
    match collections {
        Some(_) => merged.collect(graph, collections),
        None => Ok(merged),
    }
}

/// All summaries of a collection as one (`tf.merge_all_summaries`); `None` where there is none.
pub fn merge_all_summaries(graph: &Graph, key: &str) -> Option<SummaryOp> {
    let ops = graph.collections().summaries.get(key)?;
    let any = !ops.is_empty();
    any.then(|| SummaryOp(Arc::new(Node::Merged(ops.clone()))))
}
