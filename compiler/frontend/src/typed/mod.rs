//! The typed spec: what a checked spec says, with every dimension, dtype, variable and random site resolved.
//!
//! Calls of the language's own definitions are expanded: what is left are operations of the table, loops, and reads and
//! writes of variables, in order. Dimensions that are known at run time only are still names.

mod print;

pub use print::print;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainspec_ir::ops::{Arg, Op};
use trainspec_ir::{DType, Size, Span, TensorType};

/// A checked spec.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The name in its header.
    pub name: String,
    /// The language's version.
    pub edition: i64,
    /// The values of its constants, as printed.
    pub constants: Vec<(String, String)>,
    /// The data sets, by name.
    pub data: Vec<DataSet>,
    /// The model.
    pub model: Option<Model>,
    /// All variables of the model, in the order of their declaration.
    pub variables: Vec<Variable>,
    /// How it is trained.
    pub train: Option<Train>,
    /// When and on what it is evaluated.
    pub evals: Vec<Eval>,
    /// What goes on around a step.
    pub hooks: Vec<Hook>,
    /// What is read from an older checkpoint first.
    pub warm_start: Vec<Setting>,
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
    /// What is computed.
    pub nodes: Vec<Node>,
}

/// One step of a program.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it does.
    pub kind: NodeKind,
    /// The values it makes.
    pub results: Results,
    /// Where it comes from.
    pub span: Span,
}

/// The values that a node makes, which are numbered in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Results {
    /// The first of them.
    pub first: ValueId,
    /// How many there are.
    pub count: u32,
}

impl Results {
    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = ValueId> {
        (self.first.0..self.first.0 + self.count).map(ValueId)
    }
}

/// What a node does.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// An input, a feature, or another value that comes from outside, by name.
    Input(String),
    /// A constant.
    Const(Const),
    /// The number of completed updates, as f32.
    Step,
    /// The value of a variable at the start of the step.
    Read(VarId),
    /// Gives a variable a new value.
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
    /// The gradient of the sum of `y` (times `seed`).
    Grad {
        /// What is differentiated.
        y: ValueId,
        /// With respect to what; one result each.
        wrt: Vec<ValueId>,
        /// What flows into `y`.
        seed: Option<ValueId>,
    },
    /// The matrix of second derivatives of a scalar.
    Hessian {
        /// What is differentiated.
        y: ValueId,
        /// With respect to what.
        wrt: ValueId,
    },
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Const {
    /// A whole number, perhaps one that a dimension decides.
    Int(Size),
    /// A number.
    Float(f64),
    /// A truth.
    Bool(bool),
    /// A text.
    Str(String),
}

/// An operand of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A tensor.
    Value(ValueId),
    /// A list of tensors.
    Values(Vec<ValueId>),
    /// Something that is known.
    Known(Arg),
}

/// A loop over the leading dimension of tensors.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The tensors that are walked.
    pub over: Vec<ValueId>,
    /// Their slices, as the body sees them.
    pub elements: Vec<ValueId>,
    /// The values carried into the first round.
    pub starts: Vec<ValueId>,
    /// The carried values, as the body sees them.
    pub carries: Vec<ValueId>,
    /// One round.
    pub body: Vec<Node>,
    /// What a round carries into the next.
    pub nexts: Vec<ValueId>,
    /// What a round collects.
    pub yields: Vec<ValueId>,
}

/// A data set.
#[derive(Debug, Clone)]
pub struct DataSet {
    /// The name.
    pub name: String,
    /// Where records come from.
    pub source: Setting,
    /// What is read from a record.
    pub features: Vec<Feature>,
    /// What is done with them, in order.
    pub stages: Vec<Stage>,
    /// What comes out, by name.
    pub elements: BTreeMap<String, TensorType>,
}

/// A feature of a data set.
#[derive(Debug, Clone)]
pub struct Feature {
    /// The name in the spec.
    pub name: String,
    /// The name in the record.
    pub key: String,
    /// The type.
    pub ty: TensorType,
    /// The range of its values: from, and up to but without.
    pub bounds: Option<(i64, i64)>,
    /// What it is where a record lacks it.
    pub default: Option<Constant>,
    /// Where it is declared.
    pub span: Span,
}

/// A stage of a data set.
#[derive(Debug, Clone)]
pub enum Stage {
    /// Computes a feature.
    Map {
        /// The feature that is made or replaced.
        name: String,
        /// How; features are its inputs.
        program: Program,
        /// Its value.
        value: ValueId,
    },
    /// Keeps records for which a value is true.
    Filter {
        /// How it is computed.
        program: Program,
        /// Its value.
        value: ValueId,
    },
    /// Anything else, by its word.
    Setting(Setting),
}

/// The model in both modes.
#[derive(Debug, Clone)]
pub struct Model {
    /// What comes in.
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
    /// What is averaged over an evaluation.
    pub metrics: Vec<(String, ValueId)>,
    /// What a prediction gives.
    pub outputs: Vec<(String, ValueId)>,
    /// The top-level `let`s, which can be fetched by name.
    pub lets: Vec<(String, ValueId)>,
}

/// What a variable is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Trained.
    Param,
    /// Kept by a block.
    State,
}

/// A variable.
#[derive(Debug, Clone)]
pub struct Variable {
    /// The name, as checkpoints have it.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The type.
    pub ty: TensorType,
    /// How it begins.
    pub init: Init,
    /// Where it is declared.
    pub span: Span,
}

/// How a variable begins.
#[derive(Debug, Clone)]
pub struct Init {
    /// The initializer's name, for people.
    pub name: String,
    /// How it is computed.
    pub program: Program,
    /// Its value.
    pub value: ValueId,
}

/// How a spec is trained.
#[derive(Debug, Clone)]
pub struct Train {
    /// The data set.
    pub data: Option<String>,
    /// The seed of everything random.
    pub seed: i64,
    /// Where to stop.
    pub until: Option<Interval>,
    /// How many micro-batches make a step.
    pub accumulate: i64,
    /// Schedules and the scalars that settings use, computed once a step.
    pub rates: Program,
    /// The schedules by name.
    pub schedules: Vec<(String, ValueId)>,
    /// The optimizers with their variables.
    pub groups: Vec<Group>,
    /// The variables that are not trained.
    pub frozen: Vec<VarId>,
    /// How gradients are bounded, in order.
    pub clips: Vec<Clip>,
    /// The moving averages that are kept.
    pub averages: Vec<Average>,
    /// By what the loss is multiplied while gradients are computed.
    pub loss_scale: Option<LossScale>,
}

/// A bound on gradients: of one variable, or of several together.
#[derive(Debug, Clone)]
pub struct Clip {
    /// As it is set.
    pub setting: Setting,
    /// Whose gradients; they are the inputs `grad 0`, `grad 1` and so on of the program.
    pub variables: Vec<VarId>,
    /// Whether the rows of a sparse gradient can stand for the whole.
    pub by_rows: bool,
    /// How it is computed.
    pub program: Program,
    /// The bounded gradients.
    pub values: Vec<ValueId>,
}

/// A moving average.
#[derive(Debug, Clone)]
pub struct Average {
    /// What is averaged.
    pub source: Averaged,
    /// What is kept: first the average itself.
    pub state: Vec<AverageState>,
    /// How it is computed; the inputs are `value` and what is kept, by name.
    pub program: Program,
    /// The new values of what is kept.
    pub values: Vec<ValueId>,
    /// Where it is set.
    pub span: Span,
}

/// What is averaged.
#[derive(Debug, Clone)]
pub enum Averaged {
    /// A variable, as it is after the update.
    Variable(VarId),
    /// A value of the model, by name.
    Value(String, ValueId),
}

/// Something that an average keeps from step to step.
#[derive(Debug, Clone)]
pub struct AverageState {
    /// The name in the program.
    pub source: &'static str,
    /// The name, as checkpoints have it.
    pub name: String,
    /// The type.
    pub ty: TensorType,
}

/// By what a loss is multiplied while gradients are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossScale {
    /// One number.
    Fixed(f64),
    /// As much as does not overflow.
    Dynamic {
        /// The first scale.
        initial: f64,
        /// After so many good updates it grows.
        growth_steps: i64,
        /// By what it grows and shrinks.
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
    /// `lazy`, `gate`, `aggregate`.
    pub options: Vec<(String, Constant)>,
    /// One value a step: name, first value, next value.
    pub scalars: Vec<Scalar>,
    /// The update of each variable.
    pub updates: Vec<Update>,
    /// Where it is set.
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
    /// How the next value is computed.
    pub program: Program,
    /// The next value.
    pub next: ValueId,
    /// Where it is declared.
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

/// How one variable is updated.
#[derive(Debug, Clone)]
pub struct Update {
    /// The variable.
    pub variable: VarId,
    /// Its slots.
    pub slots: Vec<Slot>,
    /// What is computed; its inputs are `param`, `grad`, slots, scalars and hyper-parameters, by name.
    pub program: Program,
    /// The new values: of `param` and of slots, by name, in order.
    pub writes: Vec<(String, ValueId)>,
}

/// A slot of an optimizer.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The name in the definition.
    pub name: String,
    /// The name of its variable, as checkpoints have it.
    pub variable: String,
    /// The type.
    pub ty: TensorType,
    /// How it begins.
    pub init: Init,
    /// Where it is declared.
    pub span: Span,
}

/// When something happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interval {
    /// After so many updates.
    Steps(i64),
    /// After so many passes over the data.
    Epochs(i64),
    /// After so much time.
    Seconds(f64),
}

/// An evaluation.
#[derive(Debug, Clone)]
pub struct Eval {
    /// The name, where it has one.
    pub name: Option<String>,
    /// The data set.
    pub data: Option<String>,
    /// The metrics, all where empty.
    pub metrics: Vec<String>,
    /// Whether averages stand in for the variables.
    pub with_ema: bool,
    /// `every`, `steps`, `start_after`.
    pub settings: Vec<Setting>,
}

/// A hook.
#[derive(Debug, Clone)]
pub struct Hook {
    /// What it is and its arguments.
    pub setting: Setting,
    /// What stands in its braces.
    pub body: Vec<Setting>,
}

/// A word with its arguments, all of them known.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The word.
    pub word: String,
    /// The arguments by name, defaults filled in.
    pub arguments: Vec<(String, Constant)>,
    /// Where it is.
    pub span: Span,
}

impl Setting {
    /// The argument of that name.
    pub fn get(&self, name: &str) -> Option<&Constant> {
        self.arguments
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v)
    }
}

/// Something known when a spec is checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// Nothing.
    None,
    /// A whole number.
    Int(Size),
    /// A number.
    Float(f64),
    /// A truth.
    Bool(bool),
    /// A text.
    Str(String),
    /// A word that is no text, such as the name of a loss.
    Name(String),
    /// An element type.
    DType(DType),
    /// When something happens.
    Interval(Interval),
    /// A value of the program it stands beside (a schedule's, say).
    Value(ValueId),
    /// Several.
    List(Vec<Constant>),
}
