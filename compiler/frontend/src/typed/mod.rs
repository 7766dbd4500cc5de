//! The typed spec (typed, inlined IR of a checked spec): every dimension, dtype, variable and random site is resolved.
//!
//! Calls of definitions are inlined: what is left are operations of the op table, loops, and reads and writes of
//! variables, in order. Dimensions that are known at run time only are still symbolic.

mod column;
mod goal;
mod input;
mod liveness;
mod print;
mod print_settings;
mod settings;
mod source;
mod warm_start;

pub use column::{ColumnOp, ColumnOpKind, ColumnOperand, Vocabulary, WordSource};
pub use goal::{is_maximized, is_minimized};
pub use input::Input;
pub use print::print;
pub use settings::*;
pub use source::*;
pub use warm_start::*;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use trainspec_ir::ops::{Arg, Op};
use trainspec_ir::{Size, Span, TensorType};

use crate::lower::StateName;

/// A checked spec.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The name in its header.
    pub name: String,
    /// The language's version.
    pub edition: i64,
    /// The source text, without the files that it uses.
    pub text: Arc<str>,
    /// The values of its constants, as printed.
    pub constants: Vec<(String, String)>,
    /// The data sets, by name.
    pub data: Vec<DataSet>,
    /// The model.
    pub model: Option<Model>,
    /// All variables of the model, in the order of their declaration.
    pub variables: Vec<Variable>,
    /// The training.
    pub train: Option<Train>,
    /// Where variables start from.
    pub warm_start: Option<WarmStart>,
    /// When and on what it is evaluated.
    pub evals: Vec<Eval>,
    /// The hooks that run around a step.
    pub hooks: Vec<Hook>,
    /// The hooks that a run has by default, and this one not: `checkpoint none;`.
    pub hooks_off: Vec<DefaultHook>,
}

/// A hook that a run of the command has where its spec does not mention it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefaultHook {
    /// Saves the state.
    Checkpoint,
    /// Writes losses, metrics and schedules into event files.
    Summary,
    /// Prints losses and metrics.
    Log,
    /// Stops where a loss is not finite.
    Nan,
}

impl DefaultHook {
    /// All of them.
    pub const ALL: [DefaultHook; 4] = [
        DefaultHook::Checkpoint,
        DefaultHook::Summary,
        DefaultHook::Log,
        DefaultHook::Nan,
    ];

    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            DefaultHook::Checkpoint => "checkpoint",
            DefaultHook::Summary => "summary",
            DefaultHook::Log => "log",
            DefaultHook::Nan => "nan",
        }
    }
}

/// A value of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// A variable of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

/// Nodes in the order in which they run.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The type of every value, by [`ValueId`].
    pub values: Vec<Arc<TensorType>>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The calls of blocks and functions that were inlined into a model, in the order in which they begin.
    pub calls: Vec<Call>,
}

/// A call of a block or function that was inlined: which values it made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The name of the definition.
    pub definition: String,
    /// The variable scope, where it is a block.
    pub scope: Option<String>,
    /// The number of calls around it.
    pub depth: usize,
    /// The values that it made, with those of the calls in it.
    pub values: Range<u32>,
    /// The tensors that it is given.
    pub inputs: Vec<ValueId>,
    /// The tensors that it gives.
    pub outputs: Vec<ValueId>,
    /// The span of the call.
    pub span: Span,
}

/// One node of a program.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its kind, with the operands.
    pub kind: NodeKind,
    /// Its results.
    pub results: Results,
    /// Its source span.
    pub span: Span,
}

/// The results of a node, which are numbered consecutively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Results {
    /// The first of them.
    pub first: ValueId,
    /// Their number.
    pub count: u32,
}

impl Results {
    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = ValueId> {
        (self.first.0..self.first.0 + self.count).map(ValueId)
    }
}

/// The kinds of nodes.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// An input of the program, by name: a model input, a feature, a parameter, a gradient.
    Input(Input),
    /// A constant.
    Const(Const),
    /// The number of completed updates, as f32.
    Step,
    /// The value of a variable at the start of the step.
    Read(VarId),
    /// Assigns a variable.
    Write(VarId, ValueId),
    /// An operation.
    Op {
        /// Which.
        op: &'static Op,
        /// One operand for each of its parameters.
        operands: Vec<Operand>,
        /// For random operations: the site, unique in the spec.
        site: Option<String>,
    },
    /// One loop over leading dimensions.
    Scan(Box<Scan>),
    /// The gradient of the sum of `y`, or the VJP with the cotangent `seed`.
    Grad {
        /// The value that is differentiated.
        y: ValueId,
        /// The values to differentiate with respect to; one result each.
        wrt: Vec<ValueId>,
        /// The cotangent of `y`.
        seed: Option<ValueId>,
    },
    /// The Hessian of a scalar.
    Hessian {
        /// The value that is differentiated.
        y: ValueId,
        /// The value to differentiate with respect to.
        wrt: ValueId,
    },
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Const {
    /// An integer, possibly symbolic in the dimensions.
    Int(Size),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A string.
    Str(String),
}

/// An operand of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A tensor.
    Value(ValueId),
    /// A list of tensors.
    Values(Vec<ValueId>),
    /// A compile-time attribute.
    Attr(Arg),
}

/// A loop over the leading dimension of tensors.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The tensors that are scanned.
    pub over: Vec<ValueId>,
    /// Their slices, as the body sees them.
    pub elements: Vec<ValueId>,
    /// The initial loop-carried values.
    pub starts: Vec<ValueId>,
    /// The loop-carried values, as the body sees them.
    pub carries: Vec<ValueId>,
    /// The loop body.
    pub body: Vec<Node>,
    /// The next loop-carried values.
    pub nexts: Vec<ValueId>,
    /// The values collected in every iteration.
    pub yields: Vec<ValueId>,
}

/// A data set.
#[derive(Debug, Clone)]
pub struct DataSet {
    /// The name.
    pub name: String,
    /// The source of the records.
    pub source: Source,
    /// The features decoded from a record.
    pub features: Vec<Feature>,
    /// The stages of the input pipeline, in order, with `training` true.
    pub stages: Vec<Stage>,
    /// The stages with `training` false; they give elements of the same types.
    pub eval_stages: Vec<Stage>,
    /// The types of the resulting elements, by name.
    pub elements: BTreeMap<String, TensorType>,
}

/// A feature of a data set.
#[derive(Debug, Clone)]
pub struct Feature {
    /// The name in the spec.
    pub name: String,
    /// The name in the record.
    pub key: String,
    /// The columns of a csv file, one for each element; empty where they follow the one called `key`.
    pub columns: Vec<String>,
    /// The type.
    pub ty: TensorType,
    /// The range of its values: start inclusive, end exclusive.
    pub bounds: Option<(i64, i64)>,
    /// The default for a record that lacks it.
    pub default: Option<FeatureDefault>,
    /// Whether it is a feature list of a SequenceExample, with a value for each step; all others are of its context, or of an Example.
    pub is_sequence: bool,
    /// The span of its declaration.
    pub span: Span,
}

impl Spec {
    /// The variables whose names a pattern matches (`*`, `**`, `?`, `[a-c]`), in order.
    pub fn variables_matching(&self, pattern: &str) -> impl Iterator<Item = &Variable> {
        let matching = move |v: &&Variable| crate::check::matches(pattern, &v.name);
        self.variables.iter().filter(matching)
    }
}

impl DataSet {
    /// The stages in one mode.
    pub fn stages_in(&self, training: bool) -> &[Stage] {
        match training {
            true => &self.stages,
            false => &self.eval_stages,
        }
    }

    /// The operations whose tables are made of the training data, in order.
    pub fn data_tables(&self) -> impl Iterator<Item = &ColumnOp> {
        column_ops(&self.eval_stages).filter(|op| op.pass().is_some())
    }

    /// The vocabulary of that name.
    pub fn vocabulary(&self, table: &str) -> Option<&Vocabulary> {
        column_ops(&self.eval_stages).find_map(|op| match &op.kind {
            ColumnOpKind::Vocabulary(vocabulary) if vocabulary.table == table => Some(vocabulary),
            _ => None,
        })
    }

    /// Its `batch` stage.
    pub fn batch(&self) -> Option<&Batch> {
        self.stages.iter().find_map(|stage| match &stage.kind {
            StageKind::Batch(batch) => Some(batch),
            _ => None,
        })
    }

    /// Whether an evaluation of the model takes a last batch that is not full, where the set does not say: the model leaves the size of
    /// a batch open, and nothing is computed of batches before.
    pub fn keeps_remainder(&self, model: &Model) -> bool {
        let is_batch = |stage: &Stage| matches!(stage.kind, StageKind::Batch(_));
        let computes = |stage: &Stage| {
            matches!(
                stage.kind,
                StageKind::Map { .. } | StageKind::Column(_) | StageKind::Filter { .. }
            )
        };
        let mut after = self.stages.iter().skip_while(|stage| !is_batch(stage));
        let fixed = |input: &Feature| {
            let first = input.ty.shape.0.first();
            first.is_some_and(|dim| dim.size.value().is_some())
        };
        !after.any(computes) && !model.inputs.iter().any(fixed)
    }

    /// Whether it has no last record: nothing bounds it after a `repeat`.
    pub fn is_endless(&self) -> bool {
        let source = self.source.is_endless();
        self.stages
            .iter()
            .fold(source, |endless, stage| match stage.kind {
                StageKind::Repeat => true,
                StageKind::Take { .. } => false,
                StageKind::Map { .. }
                | StageKind::Column(_)
                | StageKind::Filter { .. }
                | StageKind::Drop { .. }
                | StageKind::Shuffle { .. }
                | StageKind::Epochs { .. }
                | StageKind::Batch(_)
                | StageKind::Window { .. }
                | StageKind::Skip { .. }
                | StageKind::Split(_)
                | StageKind::Cache
                | StageKind::Prefetch { .. }
                | StageKind::Interleave { .. }
                | StageKind::Shard { .. } => endless,
            })
    }
}

/// The operations on columns among some stages.
pub fn column_ops(stages: &[Stage]) -> impl Iterator<Item = &ColumnOp> {
    stages.iter().filter_map(|stage| match &stage.kind {
        StageKind::Column(op) => Some(&**op),
        _ => None,
    })
}

/// A stage of a data set.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Its kind, with the arguments.
    pub kind: StageKind,
    /// The span of its word.
    pub span: Span,
}

/// The kinds of stages.
#[derive(Debug, Clone)]
pub enum StageKind {
    /// Computes a feature.
    Map {
        /// The feature that is added or replaced.
        name: String,
        /// The program; features are its inputs.
        program: Program,
        /// Its value.
        value: ValueId,
    },
    /// Computes a feature from strings, or with a table.
    Column(Box<ColumnOp>),
    /// Keeps records for which a value is true.
    Filter {
        /// The program.
        program: Program,
        /// Its value.
        value: ValueId,
    },
    /// Reads the files of the source in turn; no stage is before it.
    Interleave {
        /// The most files that are open at a time, at least 1.
        cycle: u64,
        /// The records that are read of one file before the next, at least 1.
        block: u64,
    },
    /// Removes a feature.
    Drop {
        /// The feature.
        name: String,
    },
    /// Shuffles.
    Shuffle {
        /// The capacity of the buffer, at least 1; without one all records of an epoch are shuffled by their indices.
        buffer: Option<u64>,
        /// The seed; that of the training where there is none.
        seed: Option<i64>,
    },
    /// Repeats for a number of epochs.
    Epochs {
        /// The number of epochs, at least 1.
        count: u64,
    },
    /// Repeats indefinitely.
    Repeat,
    /// Joins records into batches.
    Batch(Batch),
    /// Keeps the first elements.
    Take {
        /// How many.
        count: u64,
    },
    /// Leaves out the first elements.
    Skip {
        /// How many.
        count: u64,
    },
    /// Joins consecutive records, all features getting a new first dimension.
    Window {
        /// The number of records of a window, at least 1.
        size: u64,
        /// The number of records from the start of one window to that of the next, at least 1.
        shift: u64,
    },
    /// Keeps one side of a random split.
    Split(Split),
    /// Keeps decoded elements in memory.
    Cache,
    /// Prepares elements ahead.
    Prefetch {
        /// How many.
        count: u64,
    },
    /// Keeps every `count`-th element.
    Shard {
        /// The first of them, below `count`.
        index: u64,
        /// The number of shards, at least 1.
        count: u64,
    },
}

/// The model in both modes.
#[derive(Debug, Clone)]
pub struct Model {
    /// The inputs.
    pub inputs: Vec<Feature>,
    /// With `training` true.
    pub train: Mode,
    /// With `training` false; it writes nothing.
    pub eval: Mode,
}

/// The model in one mode.
#[derive(Debug, Clone, Default)]
pub struct Mode {
    /// What is computed.
    pub program: Program,
    /// The losses by name; the only one may be called `loss`.
    pub losses: Vec<(String, ValueId)>,
    /// The metrics, which are averaged over an evaluation.
    pub metrics: Vec<(String, ValueId)>,
    /// The outputs of a prediction.
    pub outputs: Vec<(String, ValueId)>,
    /// The outputs that are ids of words.
    pub words: Vec<OutputWords>,
    /// The top-level `let`s, which can be fetched by name.
    pub lets: Vec<(String, ValueId)>,
}

/// An output that is ids of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputWords {
    /// The output.
    pub output: String,
    /// The vocabulary: that of the input of this name.
    pub vocabulary: String,
    /// The span of `words_of`.
    pub span: Span,
}

/// The role of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Trained.
    Param,
    /// State of a block, not trained.
    State,
}

/// A variable.
#[derive(Debug, Clone)]
pub struct Variable {
    /// The name, as checkpoints have it.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The type.
    pub ty: TensorType,
    /// Its initializer.
    pub init: Init,
    /// The span of its declaration.
    pub span: Span,
}

/// The initializer of a variable.
#[derive(Debug, Clone)]
pub struct Init {
    /// The name of the initializer, as printed.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Its value.
    pub value: ValueId,
}

/// The training of a spec.
#[derive(Debug, Clone)]
pub struct Train {
    /// The data set.
    pub data: Option<String>,
    /// The seed of everything random.
    pub seed: i64,
    /// The stopping condition.
    pub until: Option<TrainEnd>,
    /// How many micro-batches make a step.
    pub accumulate: i64,
    /// Schedules and the scalars that settings use, computed once a step.
    pub rates: Program,
    /// The schedules by name.
    pub schedules: Vec<(String, ValueId)>,
    /// Those of them that are the learning rate of an optimizer.
    pub learning_rates: Vec<ValueId>,
    /// The optimizers with their variables.
    pub groups: Vec<Group>,
    /// The variables that are not trained.
    pub frozen: Vec<VarId>,
    /// The gradient clips, in order.
    pub clips: Vec<Clip>,
    /// The exponential moving averages.
    pub averages: Vec<Average>,
    /// The loss scale.
    pub loss_scale: Option<LossScale>,
}

impl Default for Train {
    /// A training without any setting.
    fn default() -> Train {
        Train {
            data: None,
            seed: 0,
            until: None,
            accumulate: 1,
            rates: Program::default(),
            schedules: Vec::new(),
            learning_rates: Vec::new(),
            groups: Vec::new(),
            frozen: Vec::new(),
            clips: Vec::new(),
            averages: Vec::new(),
            loss_scale: None,
        }
    }
}

/// A gradient clip: of one variable, or of several together.
#[derive(Debug, Clone)]
pub struct Clip {
    /// Its kind, with the bounds.
    pub kind: ClipKind,
    /// Whose gradients; they are the inputs `grad 0`, `grad 1` and so on of the program.
    pub variables: Vec<VarId>,
    /// Whether a sparse gradient can be clipped by its rows alone.
    pub by_rows: bool,
    /// The program.
    pub program: Program,
    /// The clipped gradients.
    pub values: Vec<ValueId>,
}

/// An exponential moving average (EMA).
#[derive(Debug, Clone)]
pub struct Average {
    /// The averaged variable or value.
    pub source: Averaged,
    /// Its state, the average itself first.
    pub state: Vec<AverageState>,
    /// The program; the inputs are `value` and the state, by name.
    pub program: Program,
    /// The new values of the state.
    pub values: Vec<ValueId>,
    /// The span of the setting.
    pub span: Span,
}

/// The source of a moving average.
#[derive(Debug, Clone)]
pub enum Averaged {
    /// A variable, as it is after the update.
    Variable(VarId),
    /// A value of the model, by name.
    Value(String, ValueId),
}

/// A state variable of an average: the shadow variable, or a bias-correction accumulator.
#[derive(Debug, Clone)]
pub struct AverageState {
    /// The name in the program.
    pub source: &'static str,
    /// The name, as checkpoints have it.
    pub name: String,
    /// The type.
    pub ty: TensorType,
}

/// Loss scaling: the factor of the loss while gradients are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossScale {
    /// A constant scale.
    Fixed(f64),
    /// A dynamic scale: grows while gradients are finite, shrinks when they are not.
    Dynamic {
        /// The first scale.
        initial: f64,
        /// After this many consecutive finite updates it grows.
        growth_steps: i64,
        /// The factor by which it grows and shrinks.
        multiplier: f64,
    },
}

/// An optimizer and the variables it updates.
#[derive(Debug, Clone)]
pub struct Group {
    /// The optimizer's name.
    pub optimizer: String,
    /// The name TensorFlow knows.
    pub alias: String,
    /// The loss it minimizes.
    pub loss: String,
    /// What every optimizer takes.
    pub options: GroupOptions,
    /// One value a step: name, first value, next value.
    pub scalars: Vec<Scalar>,
    /// The update of each variable.
    pub updates: Vec<Update>,
    /// The span of the setting.
    pub span: Span,
}

/// A value that an optimizer keeps for all its variables.
#[derive(Debug, Clone)]
pub struct Scalar {
    /// The name, as checkpoints have it.
    pub name: String,
    /// The name in the definition.
    pub source: String,
    /// The value before the first step.
    pub start: ValueId,
    /// The program of the next value.
    pub program: Program,
    /// The next value.
    pub next: ValueId,
    /// The span of its declaration.
    pub span: Span,
}

/// Numbers scalars whose names are taken, as a second TensorFlow optimizer would, and takes their names.
pub fn number_scalars(scalars: &mut [Scalar], taken: &mut BTreeSet<String>) {
    let mut own: BTreeSet<String> = scalars.iter().map(|s| s.name.clone()).collect();
    for scalar in scalars {
        if taken.contains(&scalar.name) {
            let mut names = (1..).map(|i| format!("{}_{i}", scalar.name));
            let free = |name: &String| !taken.contains(name) && !own.contains(name);
            scalar.name = names.find(free).expect("numbers go on");
            own.insert(scalar.name.clone());
        }
    }
    taken.append(&mut own);
}

/// The update rule of one variable.
#[derive(Debug, Clone)]
pub struct Update {
    /// The variable.
    pub variable: VarId,
    /// Its slots.
    pub slots: Vec<Slot>,
    /// The program; its inputs are `param`, `grad`, slots, scalars and hyper-parameters, by name.
    pub program: Program,
    /// The new values: of `param` and of slots, by name, in order.
    pub writes: Vec<(String, ValueId)>,
}

/// A slot of an optimizer.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The name in the definition.
    pub name: String,
    /// What `get_slot` calls it; the name, unless the definition says `called`.
    pub called: String,
    /// The key under which TensorFlow saves it, after the name of its variable: `Adam`.
    pub key: String,
    /// The type.
    pub ty: TensorType,
    /// Its initializer.
    pub init: Init,
    /// The span of its declaration.
    pub span: Span,
}

impl Slot {
    /// The name of the state that it is for a variable, as checkpoints have it: `dense/kernel/Adam`.
    pub fn state_name(&self, variable: &str) -> String {
        let key = &self.key;
        StateName::Slot { variable, key }.to_string()
    }
}
