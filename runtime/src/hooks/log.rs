//! `log`: values at an interval (`tf.train.LoggingTensorHook`).

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{Interval, Mode, Spec};

use crate::data::Element;
use crate::program::Fetched;
use crate::session::{Mean, Progress, Reading, Timer};

/// The interval where a spec has no `log` hook.
const DEFAULT_INTERVAL: Interval = Interval::Steps(100);

/// A `log` hook.
#[derive(Debug)]
pub(super) struct LogHook {
    /// The names of the logged values.
    pub(super) names: Vec<String>,
    timer: Timer,
    at_end: bool,
}

impl LogHook {
    pub(super) fn new(names: Vec<String>, every: Interval, at_end: bool) -> LogHook {
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
            names: shown.map(|(name, _)| name.clone()).collect(),
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
        if let Fetch::Metric(metric) = &fetch {
            let mode = &spec.model.as_ref()?.train;
            let (_, value) = mode.metrics.iter().find(|(n, _)| n == metric)?;
            let ty = &mode.program.values[value.0 as usize];
            return Mean::of(fetched, &fetch, ty).map(Reading::Mean);
        }
        return fetched.value(&fetch).map(reading_of);
    }
    match batch.values.get(name) {
        Some(value) => Some(reading_of(value)),
        None => (name == "step").then(|| Reading::Tensor(Tensor::scalar(progress.step as i64))),
    }
}

fn reading_of(tensor: &Tensor) -> Reading {
    match tensor.shape().is_empty() && tensor.dtype().is_float() {
        true => Reading::Number(tensor.to_f64s()[0]),
        false => Reading::Tensor(tensor.clone()),
    }
}
