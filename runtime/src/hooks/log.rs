//! `log`: values at an interval (`tf.train.LoggingTensorHook`).

use std::collections::BTreeSet;

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{Interval, Mode, Named, NamedKind, Spec};

use crate::Error;
use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::program::FeedDict;
use crate::session::{Event, EventQueue, Reading, Session, Timer, value_type};

/// The interval where a spec has no `log` hook.
pub(crate) const DEFAULT_LOG_INTERVAL: Interval = Interval::Steps(100);

/// Something that is logged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Logged {
    /// A value that a step computes, or an input, by name.
    Value(String),
    /// A variable after the step, by name.
    Variable(String),
}

/// All `log` hooks of a spec: what is logged at one step is one event.
#[derive(Debug)]
pub(crate) struct LogHook {
    logs: Vec<Log>,
    events: EventQueue,
    /// The step of the last event, or that of a run that has not begun.
    logged_step: Option<u64>,
}

/// A `log` hook of a spec.
#[derive(Debug)]
struct Log {
    names: Vec<Logged>,
    timer: Timer,
    at_end: bool,
    /// Whether it logs at this step.
    triggered: bool,
}

impl LogHook {
    pub(crate) fn new(events: EventQueue) -> LogHook {
        LogHook {
            logs: Vec::new(),
            events,
            logged_step: None,
        }
    }

    /// Adds a `log` hook of a spec.
    pub(crate) fn add(&mut self, spec: &Spec, names: &[Named], every: Interval, at_end: bool) {
        let mut logged = Vec::new();
        for named in names {
            match &named.kind {
                NamedKind::Value(name) => logged.push(Logged::Value(name.clone())),
                NamedKind::Variables(pattern) => {
                    let variables = spec.variables_matching(pattern);
                    logged.extend(variables.map(|v| Logged::Variable(v.name.clone())));
                }
            }
        }
        self.logs.push(Log {
            names: logged,
            timer: Timer::every(every),
            at_end,
            triggered: false,
        });
    }

    /// Where a spec has none: all losses and metrics, at the default interval and at the end.
    pub(crate) fn or_default(mut self, mode: &Mode) -> LogHook {
        if self.logs.is_empty() {
            let shown = mode.losses.iter().chain(&mode.metrics);
            self.logs.push(Log {
                names: shown.map(|(name, _)| Logged::Value(name.clone())).collect(),
                timer: Timer::every(DEFAULT_LOG_INTERVAL),
                at_end: true,
                triggered: false,
            });
        }
        self
    }

    /// The values of names, each once.
    fn read<'a>(
        names: impl Iterator<Item = &'a Logged>,
        session: &Session,
        batch: Option<&dyn FeedDict>,
    ) -> Vec<(String, Reading)> {
        let mut seen = BTreeSet::new();
        let mut values = Vec::new();
        for logged in names.filter(|name| seen.insert(*name)) {
            let (name, value) = match logged {
                Logged::Value(name) => (name, read(session, batch, name)),
                Logged::Variable(name) => (name, session.state().get(name).map(reading_of)),
            };
            values.extend(value.map(|value| (name.clone(), value)));
        }
        values
    }

    fn emit(&mut self, session: &Session, values: Vec<(String, Reading)>) {
        let now = session.progress();
        self.logged_step = Some(now.step);
        self.events.push(Event::Step {
            step: now.step,
            values,
            seconds: now.time.as_secs_f64(),
        });
    }
}

impl SessionRunHook for LogHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        let now = session.progress();
        self.logged_step = Some(now.step);
        self.logs.iter_mut().for_each(|log| log.timer.begin(&now));
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let last = context.session.status().last || context.stop_requested();
        let session = &*context.session;
        let now = session.progress();
        if self.logged_step == Some(now.step) {
            return Ok(());
        }
        let mut any = false;
        for log in &mut self.logs {
            // The timer is asked after every step, so that it measures from the last time it triggered.
            log.triggered = log.timer.triggers(&now) || (last && log.at_end);
            any |= log.triggered;
        }
        if any {
            let due = self.logs.iter().filter(|log| log.triggered);
            let names = due.flat_map(|log| &log.names);
            let values = LogHook::read(names, session, context.batches.last().copied());
            self.emit(session, values);
        }
        Ok(())
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        let at_end = self.logs.iter().filter(|log| log.at_end);
        let names: Vec<&Logged> = at_end.flat_map(|log| &log.names).collect();
        if self.logged_step != Some(session.global_step()) && !names.is_empty() {
            let values = LogHook::read(names.into_iter(), session, None);
            self.emit(session, values);
        }
        Ok(())
    }
}

/// The value of something that a step computes, by its bare name.
pub(crate) fn read(session: &Session, batch: Option<&dyn FeedDict>, name: &str) -> Option<Reading> {
    let (spec, fetched) = (session.spec(), session.step_results());
    if let Some(fetch) = Fetch::find(spec, name) {
        let Some(ty) = value_type(spec, &fetch) else {
            return fetched.value(&fetch).map(reading_of);
        };
        return match &fetch {
            Fetch::Metric(_) => session.step_metric(&fetch, ty).map(Reading::Mean),
            _ => fetched.without_padding(&fetch, ty).map(|t| reading_of(&t)),
        };
    }
    match batch.and_then(|batch| batch.feed(name)) {
        Some(value) => Some(reading_of(&value.to_tensor())),
        None => {
            let step = session.global_step() as i64;
            (name == "step").then(|| Reading::Tensor(Tensor::scalar(step)))
        }
    }
}

/// A tensor as it is shown.
pub(super) fn reading_of(tensor: &Tensor) -> Reading {
    match tensor.shape().is_empty() && tensor.dtype().is_float() {
        true => Reading::Number(tensor.to_f64s()[0]),
        false => Reading::Tensor(tensor.clone()),
    }
}
