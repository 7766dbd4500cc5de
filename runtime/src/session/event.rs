//! What a run tells while it goes on.

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::ir::Tensor;

use crate::session::Mean;

/// Who is told.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The spec is fine and the data is open.
    Started {
        /// The name of the spec.
        spec: String,
        /// How many numbers are trained.
        parameters: u64,
        /// The data sets that are used.
        data: Vec<DataSize>,
        /// The seed.
        seed: i64,
    },
    /// Something in the spec is odd.
    Warning(Diagnostic),
    /// Something in the spec is not done yet.
    Note(String),
    /// A program was made for sizes of named dimensions that had none: the first batch, or a last one that is smaller.
    Specialised(Specialisation),
    /// Values of a step.
    Step {
        /// Which, counted from 1.
        step: u64,
        /// The values, by name.
        values: Vec<(String, Reading)>,
        /// Seconds since the first step began.
        seconds: f64,
    },
    /// An evaluation is over.
    Evaluated {
        /// Its name, where it has one.
        name: Option<String>,
        /// The data set.
        data: String,
        /// After how many steps.
        step: u64,
        /// The means over all batches.
        metrics: Vec<(String, Mean)>,
    },
    /// The training is over.
    Ended {
        /// After how many steps.
        step: u64,
        /// Why.
        why: End,
        /// The losses of the last step.
        losses: Vec<(String, f64)>,
        /// Seconds since the first step began.
        seconds: f64,
    },
}

/// The size of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSize {
    /// The name.
    pub name: String,
    /// How many records one pass has, where that is known.
    pub records: Option<u64>,
    /// How many records a full batch has.
    pub batch: Option<u64>,
}

/// A value that is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A number.
    Number(f64),
    /// A metric: the mean over the elements of one batch.
    Mean(Mean),
    /// Anything else.
    Tensor(Tensor),
}

/// Why a training is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It made as many steps as it was told to.
    Steps,
    /// It went over the data as often as it was told to.
    Epochs,
    /// There is no more data.
    Data,
    /// A value is not a number, and a hook says to stop then.
    NotANumber(String),
}

impl End {
    /// A word for it.
    pub fn name(&self) -> &'static str {
        match self {
            End::Steps => "steps",
            End::Epochs => "epochs",
            End::Data => "end-of-data",
            End::NotANumber(_) => "not-a-number",
        }
    }
}

/// A program for certain sizes of named dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specialisation {
    /// Whether it is a step of training, not an evaluation.
    pub training: bool,
    /// Whether there was one for other sizes before.
    pub again: bool,
    /// The sizes.
    pub sizes: std::collections::BTreeMap<String, i64>,
    /// The memory it computes in.
    pub bytes: usize,
}
