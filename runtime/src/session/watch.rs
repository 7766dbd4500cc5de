//! The hooks that the plain loop runs: `log`, `nan` and `stop_at`.

use std::collections::BTreeSet;

use trainspec_compiler::ir::{Span, Tensor};
use trainspec_compiler::typed::{Constant, Interval, Mode, Setting, Spec};

use crate::Cause;
use crate::SessionError;
use crate::data::Element;
use crate::program::Fetched;
use crate::session::due::{Due, Moment};
use crate::session::{Mean, Reading, result_name};

/// How often values are shown if nothing is said.
const OFTEN: Interval = Interval::Steps(100);

/// What is watched during a run.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    spec: &'a Spec,
    logs: Vec<Log>,
    /// Values that must be numbers, and whether it is a failure if they are not.
    numbers: Vec<(String, bool)>,
    /// The last step that hooks allow.
    pub(super) last_step: Option<u64>,
    /// Hooks that are not run, each once.
    pub(super) ignored: Vec<String>,
}

#[derive(Debug)]
struct Log {
    names: Vec<String>,
    due: Due,
    at_end: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(spec: &'a Spec, mode: &Mode) -> Watch<'a> {
        let mut watch = Watch {
            spec,
            logs: Vec::new(),
            numbers: Vec::new(),
            last_step: None,
            ignored: Vec::new(),
        };
        for hook in &spec.hooks {
            watch.hook(&hook.setting);
        }
        if !spec.hooks.iter().any(|h| h.setting.word == "log") {
            let shown = mode.losses.iter().chain(&mode.metrics);
            watch.logs.push(Log {
                names: shown.map(|(name, _)| name.clone()).collect(),
                due: Due::every(OFTEN),
                at_end: true,
            });
        }
        for (loss, _) in &mode.losses {
            if !watch.numbers.iter().any(|(name, _)| name == loss) {
                watch.numbers.push((loss.clone(), true));
            }
        }
        watch
    }

    fn hook(&mut self, setting: &Setting) {
        match setting.word.as_str() {
            "log" => {
                let mut names = Vec::new();
                for name in list(setting, "names") {
                    match name {
                        Constant::Name(name) => names.push(name.clone()),
                        Constant::Str(_) => self.ignore("log of variables"),
                        _ => {}
                    }
                }
                let every = match setting.get("every") {
                    Some(Constant::Interval(every)) => *every,
                    _ => OFTEN,
                };
                self.logs.push(Log {
                    names,
                    due: Due::every(every),
                    at_end: setting.get("at_end") == Some(&Constant::Bool(true)),
                });
            }
            "nan" => {
                if let Some(Constant::Name(name)) = setting.get("name") {
                    let fail = setting.get("fail") != Some(&Constant::Bool(false));
                    self.numbers.push((name.clone(), fail));
                }
            }
            "stop_at" => {
                // A run starts at step 0, so both count the same.
                for name in ["last_step", "num_steps"] {
                    if let Some(Constant::Int(n)) = setting.get(name)
                        && let Some(n) = n.value()
                    {
                        let n = n.max(0) as u64;
                        self.last_step = Some(self.last_step.map_or(n, |last| last.min(n)));
                    }
                }
            }
            other => self.ignore(other),
        }
    }

    fn ignore(&mut self, what: &str) {
        if !self.ignored.iter().any(|known| known == what) {
            self.ignored.push(what.to_owned());
        }
    }

    /// The results of a step that are needed, as the lowering calls them.
    pub(super) fn results(&self) -> BTreeSet<String> {
        let logged = self.logs.iter().flat_map(|log| &log.names);
        let numbers = self.numbers.iter().map(|(name, _)| name);
        logged
            .chain(numbers)
            .filter_map(|name| result_name(self.spec, name))
            .collect()
    }

    /// The values that are shown after a step; `None` where it is not time for any.
    pub(super) fn shown(
        &mut self,
        now: &Moment,
        last: bool,
        batch: &Element,
        fetched: &Fetched,
    ) -> Option<Vec<(String, Reading)>> {
        let mut names: Vec<&str> = Vec::new();
        let mut any = false;
        for log in &mut self.logs {
            // Asked in any case, so that it knows the time.
            let due = log.due.is_due(now);
            if due || (last && log.at_end) {
                any = true;
                let new = log.names.iter().map(String::as_str);
                let new: Vec<&str> = new.filter(|name| !names.contains(name)).collect();
                names.extend(new);
            }
        }
        let spec = self.spec;
        let reading = |name: &str| Some((name.to_owned(), read(spec, now, batch, fetched, name)?));
        any.then(|| names.into_iter().filter_map(reading).collect())
    }

    /// The first watched value that is not a number; an error if that is a failure.
    pub(super) fn not_a_number(
        &self,
        batch: &Element,
        fetched: &Fetched,
    ) -> Result<Option<String>, SessionError> {
        for (name, fail) in &self.numbers {
            let value = match result_name(self.spec, name) {
                Some(result) => fetched.get(&result),
                None => batch.values.get(name),
            };
            if !value.is_some_and(has_nan) {
                continue;
            }
            if !fail {
                return Ok(Some(name.clone()));
            }
            return Err(Cause::NotANumber {
                name: name.clone(),
                span: place_of(self.spec, name),
            }
            .into());
        }
        Ok(None)
    }
}

/// The value of something that a step computes, by its bare name.
fn read(
    spec: &Spec,
    now: &Moment,
    batch: &Element,
    fetched: &Fetched,
    name: &str,
) -> Option<Reading> {
    if let Some(result) = result_name(spec, name) {
        if let Some(metric) = result.strip_prefix("metric/") {
            let mode = &spec.model.as_ref()?.train;
            let (_, value) = mode.metrics.iter().find(|(n, _)| n == metric)?;
            let ty = &mode.program.values[value.0 as usize];
            return Mean::of(fetched, &result, ty).map(Reading::Mean);
        }
        return fetched.get(&result).map(reading_of);
    }
    match batch.values.get(name) {
        Some(value) => Some(reading_of(value)),
        None => (name == "step").then_some(Reading::Number(now.step as f64)),
    }
}

fn reading_of(tensor: &Tensor) -> Reading {
    use trainspec_compiler::ir::DType;
    match tensor.shape().is_empty() && tensor.dtype() != DType::String {
        true => Reading::Number(tensor.to_f64s()[0]),
        false => Reading::Tensor(tensor.clone()),
    }
}

fn has_nan(tensor: &Tensor) -> bool {
    tensor.dtype().is_float() && tensor.to_f64s().iter().any(|x| x.is_nan())
}

/// Where a result of the model is computed.
fn place_of(spec: &Spec, name: &str) -> Span {
    let Some(model) = &spec.model else {
        return Span::default();
    };
    let mode = &model.train;
    let mut named = mode
        .losses
        .iter()
        .chain(&mode.metrics)
        .chain(&mode.outputs)
        .chain(&mode.lets);
    let value = named.find(|(n, _)| n == name).map(|(_, value)| *value);
    let node = value.and_then(|value| {
        let mut nodes = mode.program.nodes.iter();
        nodes.find(|node| node.results.iter().any(|r| r == value))
    });
    node.map_or_else(Span::default, |node| node.span)
}

fn list<'s>(setting: &'s Setting, name: &str) -> &'s [Constant] {
    match setting.get(name) {
        Some(Constant::List(list)) => list,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    }
}
