//! Settings of data sets, trainings, evaluations and hooks: typed, with their defaults filled in.
//!
//! The words and parameters are those of the table in `builtins.rs`; the checker converts each into one of these.

use trainspec_ir::{DType, Size, Span};

use crate::typed::{Mode, ValueId};

/// A path, or a glob pattern of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePattern {
    /// As written.
    pub pattern: String,
    /// The span of its value.
    pub span: Span,
}

/// A source, hook or feed that the Rust program registers under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// The name.
    pub name: String,
    /// The arguments by name, or by position where they have none.
    pub arguments: Vec<(String, Constant)>,
    /// The span of the setting.
    pub span: Span,
}

/// A compile-time constant: an argument of what the Rust program registers.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// Nothing.
    None,
    /// An integer.
    Int(Size),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A string.
    Str(String),
    /// An element type.
    DType(DType),
    /// An interval.
    Interval(Interval),
    /// A list.
    List(Vec<Constant>),
}

/// The default of a feature: one value for all elements, or one for each in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureDefault {
    /// Of a floating-point feature.
    Floats(Vec<f64>),
    /// Of an integer feature, each in the range of its type; of a bool, 0 and 1.
    Ints(Vec<i64>),
    /// Of a feature of strings.
    Strings(Vec<String>),
}

/// `batch`: joins records.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The number of records, at least 1.
    pub size: u64,
    /// The policy for a last batch that is not full; `None` where none is written: a training drops it, an evaluation keeps it.
    pub remainder: Option<Remainder>,
    /// What features of varying length are padded to.
    pub padding: Padding,
    /// The features that have run-time counts.
    pub counted: Vec<CountedFeature>,
    /// `bucket_by_length`: records of similar length make a batch; without it those that follow one another do.
    pub buckets: Option<Buckets>,
}

/// What features of varying length are padded to in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Nothing: the records of a batch have one length.
    None,
    /// The longest one of the batch.
    Longest,
    /// Their capacity.
    Capacity,
}

/// `bucket_by_length`: which records make a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    /// The feature whose length decides.
    pub feature: String,
    /// The least length of each bucket but the first, ascending.
    pub boundaries: Vec<u64>,
    /// The records of a batch, for each bucket.
    pub sizes: Vec<u64>,
    /// Whether that feature is padded to the greatest length of its bucket, and not to the longest one of the batch.
    pub pads_to_boundary: bool,
}

/// The policy for a last batch that is not full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// It is left out.
    Drop,
    /// It is kept, and is shorter.
    Keep,
    /// It is an error.
    Error,
}

/// A feature with run-time counts, before it is batched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedFeature {
    /// Its name.
    pub name: String,
    /// The dimensions that have a count.
    pub axes: Vec<usize>,
}

/// `split`: one side of a random split.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// The side that is kept.
    pub part: Part,
    /// The size of the holdout.
    pub holdout: Holdout,
    /// The span of its value.
    pub holdout_span: Span,
    /// The seed; 0 where none is given, so that the split is the same in every run.
    pub seed: i64,
    /// The feature whose value decides, so that records with one value are on one side; where there is none, the position of a record does.
    pub by: Option<String>,
}

/// A side of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What is trained on.
    Train,
    /// What is held out.
    Holdout,
}

/// The size of a holdout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Holdout {
    /// A number of records, at least 1.
    Records(u64),
    /// A fraction of the records, between 0 and 1.
    Fraction(f64),
}

/// The stopping condition of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainEnd {
    /// A number of updates.
    Steps(u64),
    /// A number of passes over the data.
    Epochs(u64),
}

/// A number that may change with the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// A constant.
    Number(f64),
    /// A value of the program of rates, such as a schedule.
    Value(ValueId),
}

/// The kinds of gradient clipping.
#[derive(Debug, Clone, PartialEq)]
pub enum ClipKind {
    /// Scales all gradients so that their norm together is at most `norm`.
    GlobalNorm {
        /// The norm.
        norm: Rate,
        /// A norm to go by instead of theirs.
        use_norm: Option<Rate>,
    },
    /// Scales each gradient.
    Norm {
        /// The norm.
        norm: Rate,
        /// The axes that it is taken along; all elements where there is none.
        axes: Option<Vec<i64>>,
    },
    /// Scales each gradient by its norm over its number of elements.
    AverageNorm {
        /// The norm.
        norm: Rate,
    },
    /// Bounds each element.
    Value {
        /// The lower bound.
        low: Rate,
        /// The upper bound.
        high: Rate,
    },
}

/// What every optimizer takes besides its own parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    /// Whether only rows that were read are updated; where it is left open, they are if the update treats rows one by one.
    pub lazy: Option<Lazy>,
    /// TensorFlow's `gate_gradients`, which changes nothing here.
    pub gate: Gate,
    /// TensorFlow's `aggregation_method`, which changes nothing here.
    pub aggregate: Aggregate,
}

/// The `lazy` option of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lazy {
    /// Whether only rows that were read are updated.
    pub on: bool,
    /// The span of the value; that of the optimizer where it is the default of the definition.
    pub span: Span,
}

/// `gate_gradients`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `GATE_NONE`.
    None,
    /// `GATE_OP`, the default.
    Op,
    /// `GATE_GRAPH`.
    Graph,
}

/// `aggregation_method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// `ADD_N`, the default.
    AddN,
    /// `EXPERIMENTAL_TREE`.
    Tree,
}

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interval {
    /// A number of updates.
    Steps(i64),
    /// A number of passes over the data.
    Epochs(i64),
    /// A duration in seconds.
    Seconds(f64),
}

/// An evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Eval {
    /// The name, where it has one.
    pub name: Option<String>,
    /// The data set.
    pub data: String,
    /// How often; without it at the end alone.
    pub every: Option<Interval>,
    /// The number of batches, at most; all of the data set where there is none.
    pub steps: Option<u64>,
    /// Not before.
    pub start_after: Option<Interval>,
    /// The metrics; all where empty.
    pub metrics: Vec<String>,
    /// Whether averages replace the variables.
    pub with_ema: bool,
    /// The span of its keyword.
    pub span: Span,
}

impl Eval {
    /// The names of what it measures: the metrics it names, else all metrics of the model, else the losses.
    pub fn measured<'a>(&'a self, mode: &'a Mode) -> Vec<&'a str> {
        let names = match (self.metrics.is_empty(), mode.metrics.is_empty()) {
            (false, _) => return self.metrics.iter().map(String::as_str).collect(),
            (true, false) => mode.metrics.iter(),
            (true, true) => mode.losses.iter(),
        };
        names.map(|(name, _)| name.as_str()).collect()
    }
}

/// A hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// Its kind, with the arguments.
    pub kind: HookKind,
    /// The span of the setting.
    pub span: Span,
}

/// The kinds of hooks.
#[derive(Debug, Clone, PartialEq)]
pub enum HookKind {
    /// Saves the state (`CheckpointSaverHook`).
    Checkpoint {
        /// The folder.
        dir: String,
        /// How often; every 600 s where it is left out, as in `MonitoredTrainingSession`.
        every: Interval,
        /// How many are kept; 5 where it is left out, all where it is 0 or less.
        keep: i64,
        /// One for good after this many seconds.
        keep_every: Option<f64>,
        /// The start of the names of files; `model.ckpt` where it is left out.
        basename: String,
        /// The file format.
        format: CheckpointFormat,
        /// Patterns over the names of the state that is saved; all of it where there are none.
        vars: Vec<String>,
        /// Which checkpoint is kept besides the newest ones.
        best: Option<Best>,
    },
    /// Writes event files (`SummarySaverHook`).
    Summary {
        /// How often; every 100 steps where it is left out.
        every: Interval,
        /// The folder; that of the checkpoints where it is left out.
        dir: Option<String>,
        /// What is written.
        values: Vec<Summary>,
    },
    /// Prints values (`LoggingTensorHook`).
    Log {
        /// The values.
        names: Vec<Named>,
        /// How often; every 100 steps where it is left out.
        every: Interval,
        /// Whether also at the end.
        at_end: bool,
    },
    /// Stops where a value is NaN (`NanTensorHook`).
    Nan {
        /// The value.
        name: String,
        /// Whether that is a failure, which is the default.
        fail: bool,
    },
    /// Measures steps per second (`StepCounterHook`).
    StepCounter {
        /// How often; every 100 steps where it is left out.
        every: Interval,
        /// The folder of the event files.
        dir: Option<String>,
    },
    /// Stops at a step (`StopAtStepHook`).
    StopAt(StopAt),
    /// Stops where a metric no longer improves.
    EarlyStop(EarlyStop),
    /// Writes traces of steps (`ProfilerHook`).
    Profile {
        /// How often; every 600 s where it is left out.
        every: Interval,
        /// The folder; that of the checkpoints where it is left out.
        dir: Option<String>,
        /// Whether arrows show which kernel consumes what another produces; they do where it is left out.
        show_dataflow: bool,
        /// Whether a counter shows the memory; none does where it is left out.
        show_memory: bool,
    },
    /// Waits for the global step of another run (`GlobalStepWaiterHook`).
    WaitForStep {
        /// The step.
        step: u64,
        /// The folder of that run, whose checkpoints are read.
        dir: String,
    },
    /// Computes values at the end (`FinalOpsHook`).
    FinalOps {
        /// The values.
        names: Vec<Named>,
    },
    /// A hook that the Rust program registers.
    Registered(Registered),
    /// A feed that the Rust program registers (`FeedFnHook`).
    Feed(Registered),
}

impl HookKind {
    /// The names of the values of a step that it reads.
    pub fn value_names(&self) -> Vec<&str> {
        match self {
            HookKind::Log { names, .. } => value_names(names).collect(),
            HookKind::Summary { values: all, .. } => {
                all.iter().flat_map(|s| value_names(&s.names)).collect()
            }
            // Its value is checked in the step, and not read.
            HookKind::Nan { .. }
            | HookKind::Checkpoint { .. }
            | HookKind::StepCounter { .. }
            | HookKind::StopAt(_)
            | HookKind::EarlyStop(_)
            | HookKind::Profile { .. }
            | HookKind::WaitForStep { .. }
            // It reads values of an evaluation.
            | HookKind::FinalOps { .. }
            | HookKind::Registered(_)
            | HookKind::Feed(_) => Vec::new(),
        }
    }

    /// The word that a spec has for it.
    pub fn word(&self) -> &'static str {
        match self {
            HookKind::Checkpoint { .. } => "checkpoint",
            HookKind::Summary { .. } => "summary",
            HookKind::Log { .. } => "log",
            HookKind::Nan { .. } => "nan",
            HookKind::StepCounter { .. } => "step_counter",
            HookKind::StopAt(_) => "stop_at",
            HookKind::EarlyStop(_) => "early_stop",
            HookKind::Profile { .. } => "profile",
            HookKind::WaitForStep { .. } => "wait_for_step",
            HookKind::FinalOps { .. } => "final_ops",
            HookKind::Registered(_) => "hook",
            HookKind::Feed(_) => "feed",
        }
    }
}

/// The file format of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointFormat {
    /// TensorFlow's tensor bundle, the default.
    Bundle,
    /// One safetensors file.
    Safetensors,
}

/// What makes a checkpoint the best one: the value of a metric in an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Best {
    /// The name of the evaluation; `None` is the one without a name.
    pub eval: Option<String>,
    /// The metric or loss.
    pub metric: String,
    /// Whether the least or the greatest value is best.
    pub mode: BestMode,
}

/// Whether the least or the greatest value is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BestMode {
    /// The least; the default of losses.
    Min,
    /// The greatest; the default of metrics.
    Max,
}

impl BestMode {
    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            BestMode::Min => "min",
            BestMode::Max => "max",
        }
    }
}

/// The bound of a `stop_at` hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopAt {
    /// The last step of the whole training.
    LastStep(u64),
    /// The number of steps of this run.
    NumSteps(u64),
}

/// An `early_stop` hook: ends a training whose metric has not improved for a number of evaluations.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlyStop {
    /// The metric or loss.
    pub metric: String,
    /// Which of the spec's evaluations measures it.
    pub eval: usize,
    /// After this many evaluations without an improvement.
    pub patience: u64,
    /// An improvement is a change by more than this; 0 where it is left out.
    pub min_delta: f64,
    /// What an improvement is; a loss is minimized where it is left out.
    pub goal: Goal,
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Smaller ones.
    Min,
    /// Larger ones.
    Max,
}

/// A summary: values of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The kind.
    pub kind: SummaryKind,
    /// The values.
    pub names: Vec<Named>,
    /// The span of the setting.
    pub span: Span,
}

/// The kinds of summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryKind {
    /// Numbers.
    Scalar,
    /// Distributions.
    Histogram,
    /// Images.
    Image {
        /// The number of images of a batch, at most; 3 where it is left out.
        max_outputs: u64,
    },
    /// Sound.
    Audio {
        /// Samples per second.
        sample_rate: u64,
        /// The number of clips of a batch, at most; 3 where it is left out.
        max_outputs: u64,
    },
    /// Strings.
    Text,
}

/// Something that a hook reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Which values.
    pub kind: NamedKind,
    /// The span of its name.
    pub span: Span,
}

/// The values that a name in a hook stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedKind {
    /// A value that a step computes, by name.
    Value(String),
    /// The variables that a pattern matches.
    Variables(String),
}

fn value_names(names: &[Named]) -> impl Iterator<Item = &str> {
    names.iter().filter_map(|named| match &named.kind {
        NamedKind::Value(name) => Some(name.as_str()),
        NamedKind::Variables(_) => None,
    })
}
