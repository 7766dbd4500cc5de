//! The trials of a sweep: a checked spec with other constants each, and how its run ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::source::Sources;
use trainspec_compiler::typed::{Hook, HookKind, Spec, print};
use trainspec_compiler::{Compilation, Identity};

use super::metric::Measured;
use super::space::{Space, Values};
use crate::failure::Failure;

/// A run of the spec with some values of its constants.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) ordinal: usize,
    /// The constants that vary, as the check of the spec evaluated them.
    pub(super) values: Vec<(String, String)>,
    /// Which training it is: the hash that its `run.json` holds.
    pub(super) identity: String,
    /// Which results it has: a hash of all that changes what is trained and measured.
    pub(super) results: String,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) end: TrialEnd,
    pub(super) step: Option<u64>,
    pub(super) values: Vec<Measured>,
    pub(super) seconds: f64,
}

/// Why a trial ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TrialEnd {
    /// By itself; the reason by its name in JSON output.
    Finished(String),
    /// With an error.
    Failed(String),
    /// It was stopped, and goes on when the sweep is called again.
    Interrupted,
}

impl TrialEnd {
    pub(super) fn name(&self) -> &'static str {
        match self {
            TrialEnd::Finished(_) => "finished",
            TrialEnd::Failed(_) => "failed",
            TrialEnd::Interrupted => "interrupted",
        }
    }

    pub(super) fn why(&self) -> Option<&str> {
        match self {
            TrialEnd::Finished(why) | TrialEnd::Failed(why) => Some(why),
            TrialEnd::Interrupted => None,
        }
    }
}

impl Trial {
    /// The name of its folder in that of the sweep.
    pub(super) fn name(&self) -> String {
        format!("{:03}", self.ordinal)
    }

    pub(super) fn dir(&self, sweep: &Path) -> PathBuf {
        sweep.join(self.name())
    }

    /// `LR=0.1 HIDDEN=64`
    pub(super) fn values_text(&self) -> String {
        values_text(&self.values)
    }

    /// The constants that vary, as an object.
    pub(super) fn values_json(&self) -> Value {
        let parsed = |value: &str| serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        let values = self.values.iter();
        let values = values.map(|(name, value)| (name.clone(), parsed(value)));
        Value::Object(values.collect())
    }
}

impl Outcome {
    /// A trial that could not be run.
    pub(super) fn failed(why: impl Into<String>) -> Outcome {
        Outcome {
            end: TrialEnd::Failed(why.into()),
            step: None,
            values: Vec::new(),
            seconds: 0.0,
        }
    }
}

/// `RATE=0.1 FILE=a.csv`
pub(crate) fn values_text(values: &[(String, String)]) -> String {
    let values = values.iter();
    let values = values.map(|(name, value)| format!("{name}={}", argument_text(value)));
    values.collect::<Vec<_>>().join(" ")
}

/// The value of a constant as it is typed after `--set NAME=`: a string without quotes, where it can be.
pub(super) fn argument_text(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    let is_plain = |text: &&str| !text.is_empty() && !text.contains(['"', '\\']);
    inner.filter(is_plain).unwrap_or(value)
}

/// The trials of a sweep.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) trials: Vec<Trial>,
    /// The spec of the first trial.
    pub(super) spec: Arc<Spec>,
    /// What decides the results of the first trial, as text.
    pub(super) canonical: String,
}

/// Why trials cannot be run.
#[derive(Debug)]
pub(super) enum BadTrials {
    Failure(Failure),
    /// What is wrong with a spec, after a line that says which.
    Diagnostics(String, Sources, Vec<Diagnostic>),
}

/// Checks the spec of every trial, before the first is run.
pub(super) fn check(
    space: &Space,
    compile: impl Fn(&[(String, String)]) -> Compilation,
) -> Result<Plan, BadTrials> {
    let mut trials = Vec::with_capacity(space.trials);
    let mut first = None;
    for ordinal in 0..space.trials {
        let given = space.values(ordinal);
        let compilation = compile(&given);
        let refused = |diagnostics| {
            let trial = values_text(&given);
            let message = format!("trial {ordinal:03} ({trial}) cannot be trained:");
            BadTrials::Diagnostics(message, Sources::clone(&compilation.sources), diagnostics)
        };
        let Some(spec) = &compilation.spec else {
            let errors = compilation.diagnostics.iter();
            return Err(refused(errors.filter(|d| d.is_error()).cloned().collect()));
        };
        let identity = Identity::of(spec).map_err(|error| refused(vec![error]))?;
        let value_of = |name: &str| {
            let found = spec.constants.iter().find(|(known, _)| known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let values = given.iter();
        let values = values.map(|(name, _)| (name.clone(), value_of(name)));
        let canonical = canonical(spec, &identity);
        trials.push(Trial {
            ordinal,
            values: values.collect(),
            identity: identity.hash,
            results: format!("{:016x}", Key::new(0, &canonical).0),
        });
        first.get_or_insert_with(|| (spec.clone(), canonical));
    }
    differ(space, &trials).map_err(BadTrials::Failure)?;
    let (spec, canonical) =
        first.ok_or_else(|| BadTrials::Failure(Failure::input("there are no trials")))?;
    Ok(Plan {
        trials,
        spec,
        canonical,
    })
}

/// All that decides what a trial measures, but for files and for the options of the command: its identity, how it ends, and its
/// evaluations.
fn canonical(spec: &Spec, identity: &Identity) -> String {
    let mut core = Spec::clone(spec);
    core.constants.clear();
    let is_counted = |hook: &Hook| {
        matches!(
            hook.kind,
            HookKind::EarlyStop(_) | HookKind::StopAt(_) | HookKind::Nan { .. }
        )
    };
    core.hooks.retain(is_counted);
    format!("{}{}", print(&core), identity.canonical)
}

/// Fails where two values of a grid are the same number in two spellings.
fn differ(space: &Space, trials: &[Trial]) -> Result<(), Failure> {
    for (i, parameter) in space.parameters.iter().enumerate() {
        let Values::Grid(_) = &parameter.values else {
            continue;
        };
        let mut spellings: HashMap<String, String> = HashMap::new();
        for trial in trials {
            let value = &trial.values[i].1;
            let number = value.parse::<f64>().map(|x| format!("{x:?}"));
            let key = number.unwrap_or_else(|_| value.clone());
            let (_, given) = &space.values(trial.ordinal)[i];
            let known = spellings.entry(key).or_insert_with(|| given.clone());
            if known != given {
                let message = format!(
                    "two values of `{}` are the same: {known} and {given}",
                    parameter.name
                );
                return Err(Failure::input(message).help("leave out one of them"));
            }
        }
    }
    Ok(())
}
