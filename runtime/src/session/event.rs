//! Events of a run, and the observer that receives them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::ir::Tensor;

use crate::saver::RestorePlan;
use crate::session::Mean;

/// Receives the events of a run (the observer pattern).
///
/// ```
/// use trainspec::{Event, Observer};
///
/// /// Counts the checkpoints of a run. A closure `|event: &Event| ...` is an observer too.
/// #[derive(Default)]
/// struct Saves(u64);
///
/// impl Observer for Saves {
///     fn event(&mut self, event: &Event) {
///         self.0 += u64::from(matches!(event, Event::Saved { .. }));
///     }
/// }
///
/// let mut saves = Saves::default();
/// saves.event(&Event::Saved { step: 10, path: "model.ckpt-10".into() });
/// assert_eq!(saves.0, 1);
/// ```
pub trait Observer {
    /// Called for each event, in order.
    fn event(&mut self, event: &Event);

    /// Asked after each step: whether the observer takes an [`Event::Progress`] of it. The default is never; one that draws a progress bar
    /// says so a few times a second.
    fn follows(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// The events that hooks have made and the observer has not received yet, and why the run ends. Clones share one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventQueue(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    events: Vec<Event>,
    end: Option<End>,
}

impl EventQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn push(&self, event: Event) {
        self.queue().events.push(event);
    }

    /// Says why the run ends; the first reason counts.
    pub(crate) fn end(&self, why: End) {
        self.queue().end.get_or_insert(why);
    }

    /// Why the run ends, if a hook said so.
    pub(crate) fn why(&self) -> Option<End> {
        self.queue().end.clone()
    }

    /// The value of a metric in the evaluation of a step, if that was just made.
    pub(crate) fn evaluated(&self, eval: Option<&str>, metric: &str, at: u64) -> Option<f64> {
        self.queue()
            .events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::Evaluated {
                    name,
                    step,
                    metrics,
                    ..
                } if name.as_deref() == eval && *step == at => {
                    let mut metrics = metrics.iter();
                    metrics.find(|(n, _)| n == metric).map(|(_, m)| m.value())
                }
                _ => None,
            })
    }

    /// Takes the events.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.queue().events)
    }
}

/// An event of a run.
///
/// ```
/// use trainspec::Event;
///
/// fn show(event: &Event) {
///     match event {
///         Event::Step { step, values, .. } => println!("{step}: {values:?}"),
///         Event::Saved { path, .. } => println!("saved {}", path.display()),
///         _ => {}
///     }
/// }
/// # show(&Event::Note("a note".to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The spec is checked and the data is open.
    Started {
        /// The name of the spec.
        spec: String,
        /// The number of trainable parameters.
        parameters: u64,
        /// The data sets that are used.
        data: Vec<DataSize>,
        /// The seed.
        seed: i64,
    },
    /// A warning about the spec.
    Warning(Diagnostic),
    /// Something that a user should know.
    Note(String),
    /// A program was specialised for new sizes of named dimensions: the first batch, or a last one that is smaller.
    Specialised(Specialisation),
    /// What a run is doing after a step, for an observer that follows it.
    Progress(StepProgress),
    /// Logged values of a step.
    Step {
        /// The step, counted from 1.
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
    /// Initial values were taken from the checkpoint of another training.
    WarmStarted(RestorePlan),
    /// The values of `final_ops`, from the state at the end.
    Final {
        /// After how many steps.
        step: u64,
        /// The values, by name.
        values: Vec<(String, Reading)>,
    },
    /// A run that goes on is still looking for the position of its input; at most once a second.
    Rereading {
        /// The records that were read again so far.
        records: u64,
    },
    /// The run goes on from a checkpoint.
    Resumed {
        /// The step of the checkpoint.
        step: u64,
        /// Its prefix.
        path: PathBuf,
        /// The records that were read again to find the position of the input.
        reread: u64,
    },
    /// A checkpoint is complete.
    Saved {
        /// The step.
        step: u64,
        /// Its prefix.
        path: PathBuf,
    },
    /// The training is over.
    Ended {
        /// After how many steps.
        step: u64,
        /// Why.
        why: End,
        /// The losses of the last step.
        losses: Vec<(String, f64)>,
        /// What the learning rates would be in a next step, those that depend on the step alone.
        learning_rates: Vec<(String, f64)>,
        /// Seconds since the first step began.
        seconds: f64,
    },
}

/// What a run is doing after a step.
///
/// ```
/// use trainspec::session::StepProgress;
///
/// let now = StepProgress { step: 50, last_step: Some(200), ..StepProgress::default() };
/// assert_eq!(now.last_step.map(|last| last - now.step), Some(150));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepProgress {
    /// The step, counted from 1.
    pub step: u64,
    /// The step at which the run ends, where it is known.
    pub last_step: Option<u64>,
    /// The epochs of the data that have ended.
    pub passes: u64,
    /// The epochs after which the run ends, where it ends by them.
    pub epochs: Option<u64>,
    /// The records that this run has trained on.
    pub examples: u64,
    /// Losses, metrics and schedules of the step, by name.
    pub values: Vec<(String, Reading)>,
    /// Seconds since the first step began.
    pub seconds: f64,
    /// Of these, the seconds in which the step waited for its data.
    pub waited: f64,
}

/// The size of a data set.
///
/// ```
/// use trainspec::session::DataSize;
///
/// let size = DataSize { name: "iris".to_owned(), records: Some(150), batch: Some(32) };
/// assert_eq!(size.records.unwrap().div_ceil(size.batch.unwrap()), 5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSize {
    /// The name.
    pub name: String,
    /// The cardinality of one epoch in records, where it is known.
    pub records: Option<u64>,
    /// The batch size.
    pub batch: Option<u64>,
}

/// A value that is shown.
///
/// ```
/// use trainspec::session::{Mean, Reading};
///
/// let accuracy = Reading::Mean(Mean { sum: 9.0, count: 10.0, is_bool: true });
/// assert!(matches!(accuracy, Reading::Mean(mean) if mean.value() == 0.9));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A floating-point number.
    Number(f64),
    /// A metric: the mean over the elements of one batch.
    Mean(Mean),
    /// Anything else.
    Tensor(Tensor),
}

/// Why a training is over.
///
/// ```
/// assert_eq!(trainspec::End::Data.name(), "end-of-data");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The requested number of steps is done.
    Steps,
    /// The requested number of epochs is done.
    Epochs,
    /// There is no more data.
    Data,
    /// The stop token was set.
    Stopped,
    /// A metric has not improved for as many evaluations as its `early_stop` hook waits.
    NoImprovement(String),
    /// A hook that the program registers asked to stop.
    Hook(String),
    /// A value is NaN or infinite, and its `nan` hook stops the run without an error.
    NotFinite(String),
}

impl End {
    /// The name in JSON output.
    pub fn name(&self) -> &'static str {
        match self {
            End::Steps => "steps",
            End::Epochs => "epochs",
            End::Data => "end-of-data",
            End::Stopped => "stopped",
            End::NoImprovement(_) => "no-improvement",
            End::Hook(_) => "hook",
            End::NotFinite(_) => "not-finite",
        }
    }
}

/// A program specialised for one binding of the named dimensions.
///
/// ```
/// use trainspec::{InputView, Options, Session};
///
/// let text = "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); }";
/// let spec = trainspec::check("line", text)?;
/// let mut session = Session::new(&spec, &Options::default())?;
/// session.run("train_op", &[("x", InputView::new(&[2], &[1.0_f32, 3.0]))])?;
/// let specialised = session.specialised();
/// assert_eq!(specialised[0].sizes["batch"], 2);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specialisation {
    /// Whether it is a step of training, not an evaluation.
    pub training: bool,
    /// Whether another binding was specialised before.
    pub again: bool,
    /// What it gives besides what every run gives, by name.
    pub fetches: Vec<String>,
    /// The sizes.
    pub sizes: std::collections::BTreeMap<String, i64>,
    /// The size of its arena, in bytes.
    pub bytes: usize,
}
