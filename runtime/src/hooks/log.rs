//! `log`: values at an interval (`tf.train.LoggingTensorHook`).

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::{Tensor, TensorType};
use trainspec_compiler::typed::{Interval, Mode, Spec};

use crate::data::Element;
use crate::program::Fetched;
use crate::session::{Mean, Progress, Reading, Timer};

/// The interval where a spec has no `log` hook.
const DEFAULT_INTERVAL: Interval = Interval::Steps(100);

/// Something that is logged.
#[derive(Debug, PartialEq)]
pub(super) enum Logged {
    /// A value that a step computes, or an input, by name.
    Value(String),
    /// A variable after the step, by name.
    Variable(String),
}

/// A `log` hook.
#[derive(Debug)]
pub(super) struct LogHook {
    /// What is logged.
    pub(super) names: Vec<Logged>,
    timer: Timer,
    at_end: bool,
}

impl LogHook {
    pub(super) fn new(names: Vec<Logged>, every: Interval, at_end: bool) -> LogHook {
        LogHook {
            names,
            timer: Timer::every(every),
            at_end,
        }
    }

    /// The hook of a spec that has none: all losses and metrics, at the default interval and at the end.
    pub(super) fn default_of(mode: &Mode) -> LogHook {
        let shown = mode.losses.iter().chain(&mode.metrics);
        LogHook {
            names: shown.map(|(name, _)| Logged::Value(name.clone())).collect(),
            timer: Timer::every(DEFAULT_INTERVAL),
            at_end: true,
        }
    }

    /// Whether the hook logs after this step.
    pub(super) fn triggers(&mut self, progress: &Progress, last: bool) -> bool {
        // The timer is asked after every step, so that it measures from the last time it triggered.
        let triggered = self.timer.triggers(progress);
        triggered || (last && self.at_end)
    }
}

/// The value of something that a step computes, by its bare name.
pub(super) fn read(
    spec: &Spec,
    progress: &Progress,
    batch: &Element,
    fetched: &Fetched,
    name: &str,
) -> Option<Reading> {
    if let Some(fetch) = Fetch::find(spec, name) {
        let Some(ty) = type_of(spec, &fetch) else {
            return fetched.value(&fetch).map(reading_of);
        };
        return match &fetch {
            Fetch::Metric(_) => Mean::of(fetched, &fetch, ty).map(Reading::Mean),
            _ => fetched.without_padding(&fetch, ty).map(|t| reading_of(&t)),
        };
    }
    match batch.values.get(name) {
        Some(value) => Some(reading_of(value)),
        None => (name == "step").then(|| Reading::Tensor(Tensor::scalar(progress.step as i64))),
    }
}

/// The type of a value of the model in the spec, which says what has run-time counts.
fn type_of<'a>(spec: &'a Spec, fetch: &Fetch) -> Option<&'a TensorType> {
    let mode = &spec.model.as_ref()?.train;
    let (list, name) = match fetch {
        Fetch::Loss(name) => (&mode.losses, name),
        Fetch::Metric(name) => (&mode.metrics, name),
        Fetch::Output(name) => (&mode.outputs, name),
        Fetch::Let(name) => (&mode.lets, name),
        _ => return None,
    };
    let (_, value) = list.iter().find(|(n, _)| n == name)?;
    Some(&mode.program.values[value.0 as usize])
}

pub(super) fn reading_of(tensor: &Tensor) -> Reading {
    match tensor.shape().is_empty() && tensor.dtype().is_float() {
        true => Reading::Number(tensor.to_f64s()[0]),
        false => Reading::Tensor(tensor.clone()),
    }
}
