//! Fetches: what a program gives by name, and the fetch set that a program is compiled for.
//!
//! A result of a graph is called by its [`ResultName`], which is printed and parsed here alone: `loss/loss`, `metric/accuracy`,
//! `gradient/loss/dense/kernel`. What is made of several tensors has a result for each: a value with run-time counts has them beside
//! it, a sparse gradient its indices and rows.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use trainspec_ir::CountName;
use trainspec_ir::graph::Graph;

use crate::typed::{HookKind, Mode, Spec};

/// Something that a program gives by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fetch {
    /// A loss of the model.
    Loss(String),
    /// A metric of the model: the values of a batch, not yet averaged.
    Metric(String),
    /// An output of the model.
    Output(String),
    /// A top-level `let` of the model.
    Let(String),
    /// A schedule of `train`.
    Schedule(String),
    /// The check of a training step that a loss, or a value of a `nan` hook, is finite: it fails the run before any state is written.
    Check(String),
    /// The gradient of a loss with respect to a variable, before it is clipped.
    Gradient {
        /// The loss.
        loss: String,
        /// The variable.
        variable: String,
    },
}

impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fetch::Loss(name) => write!(f, "loss/{name}"),
            Fetch::Metric(name) => write!(f, "metric/{name}"),
            Fetch::Output(name) => write!(f, "output/{name}"),
            Fetch::Let(name) => write!(f, "let/{name}"),
            Fetch::Schedule(name) => write!(f, "schedule/{name}"),
            Fetch::Check(name) => write!(f, "check/{name}"),
            Fetch::Gradient { loss, variable } => write!(f, "gradient/{loss}/{variable}"),
        }
    }
}

impl FromStr for Fetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Fetch, String> {
        let unknown = || {
            format!(
                "`{text}` names no result: write loss/, metric/, output/, let/, schedule/ or check/ and a name, or gradient/LOSS/VARIABLE"
            )
        };
        let (kind, name) = text.split_once('/').ok_or_else(unknown)?;
        let name = name.to_owned();
        Ok(match kind {
            "loss" => Fetch::Loss(name),
            "metric" => Fetch::Metric(name),
            "output" => Fetch::Output(name),
            "let" => Fetch::Let(name),
            "schedule" => Fetch::Schedule(name),
            "check" => Fetch::Check(name),
            "gradient" => {
                // The name of a loss has no slash, that of a variable may have several.
                let (loss, variable) = name.split_once('/').ok_or_else(unknown)?;
                Fetch::Gradient {
                    loss: loss.to_owned(),
                    variable: variable.to_owned(),
                }
            }
            _ => return Err(unknown()),
        })
    }
}

impl Fetch {
    /// What a bare name stands for in a spec, where hooks and evaluations mention it; `None` where it is no result of a step.
    pub fn find(spec: &Spec, name: &str) -> Option<Fetch> {
        let mode = &spec.model.as_ref()?.train;
        let is_in =
            |named: &[(String, crate::typed::ValueId)]| named.iter().any(|(n, _)| n == name);
        let schedules = || spec.train.iter().any(|t| is_in(&t.schedules));
        let name = || name.to_owned();
        match () {
            () if is_in(&mode.losses) => Some(Fetch::Loss(name())),
            () if is_in(&mode.metrics) => Some(Fetch::Metric(name())),
            () if is_in(&mode.outputs) => Some(Fetch::Output(name())),
            () if is_in(&mode.lets) => Some(Fetch::Let(name())),
            () if schedules() => Some(Fetch::Schedule(name())),
            () => None,
        }
    }
}

/// Which tensor of a fetch a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The value itself; a sparse gradient as a dense tensor.
    Value,
    /// A run-time count of one of its dimensions.
    Count(Option<usize>),
    /// The indices of a sparse gradient.
    Indices,
    /// The rows of a sparse gradient.
    Rows,
}

/// The name of a result of a graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultName {
    /// What it belongs to.
    pub fetch: Fetch,
    /// Which tensor of it.
    pub component: Component,
}

impl fmt::Display for ResultName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.component {
            Component::Value => write!(f, "{}", self.fetch),
            Component::Count(index) => {
                let of = &self.fetch.to_string();
                write!(f, "{}", CountName { of, index })
            }
            Component::Indices => write!(f, "{}#indices", self.fetch),
            Component::Rows => write!(f, "{}#rows", self.fetch),
        }
    }
}

impl FromStr for ResultName {
    type Err = String;

    fn from_str(text: &str) -> Result<ResultName, String> {
        let (fetch, component) = match text.split_once('#') {
            None => (text, Component::Value),
            Some((fetch, "indices")) => (fetch, Component::Indices),
            Some((fetch, "rows")) => (fetch, Component::Rows),
            Some((fetch, _)) => match CountName::parse(text) {
                Some(count) => (fetch, Component::Count(count.index)),
                None => return Err(format!("`{text}` names no result")),
            },
        };
        Ok(ResultName {
            fetch: fetch.parse()?,
            component,
        })
    }
}

/// The fetch set of a program: the results that it is compiled for. All others are dead code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchSet {
    /// Every result of the graph.
    All,
    /// These, each with all its tensors.
    Only(BTreeSet<Fetch>),
}

impl FetchSet {
    /// Whether a result of a graph is fetched.
    pub fn contains(&self, result: &str) -> bool {
        match self {
            FetchSet::All => true,
            FetchSet::Only(fetches) => result
                .parse::<ResultName>()
                .is_ok_and(|name| fetches.contains(&name.fetch)),
        }
    }

    /// Keeps only the results of a graph that are fetched.
    pub fn restrict(&self, graph: &mut Graph) {
        graph.results.retain(|(name, _)| self.contains(name));
    }

    /// What a training step gives in every run: losses, metrics and schedules, whatever else a hook names, and the checks that losses
    /// are finite.
    pub fn of_step(spec: &Spec) -> FetchSet {
        let mut fetches = BTreeSet::new();
        if let Some(model) = &spec.model {
            fetches.extend(losses(&model.train).chain(metrics(&model.train)));
        }
        fetches.extend(checked_names(spec).map(|name| Fetch::Check(name.to_owned())));
        let schedules = spec.train.iter().flat_map(|t| &t.schedules);
        fetches.extend(schedules.map(|(name, _)| Fetch::Schedule(name.clone())));
        for hook in &spec.hooks {
            let names = hook.kind.value_names().into_iter();
            fetches.extend(names.filter_map(|name| Fetch::find(spec, name)));
        }
        FetchSet::Only(fetches)
    }

    /// The set without checks for finite values: a step that goes on with NaN, as TensorFlow's sessions do.
    pub fn without_checks(mut self) -> FetchSet {
        if let FetchSet::Only(fetches) = &mut self {
            fetches.retain(|fetch| !matches!(fetch, Fetch::Check(_)));
        }
        self
    }

    /// What the evaluations of a spec measure.
    pub fn of_evaluation(spec: &Spec) -> FetchSet {
        let Some(model) = &spec.model else {
            return FetchSet::Only(BTreeSet::new());
        };
        FetchSet::Only(losses(&model.eval).chain(metrics(&model.eval)).collect())
    }

    /// The outputs of a prediction.
    pub fn of_prediction(spec: &Spec) -> FetchSet {
        let outputs = spec.model.iter().flat_map(|m| &m.eval.outputs);
        FetchSet::Only(
            outputs
                .map(|(name, _)| Fetch::Output(name.clone()))
                .collect(),
        )
    }
}

/// What a training step checks to be finite: its losses, then the values that `nan` hooks name.
pub(super) fn checked_names(spec: &Spec) -> impl Iterator<Item = &str> {
    let losses = spec.model.iter().flat_map(|model| &model.train.losses);
    let is_loss = |name: &str| {
        let mut losses = spec.model.iter().flat_map(|model| &model.train.losses);
        losses.any(|(loss, _)| loss == name)
    };
    let named = spec.hooks.iter().filter_map(|hook| match &hook.kind {
        HookKind::Nan { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let named = named.filter(move |name| !is_loss(name));
    losses.map(|(name, _)| name.as_str()).chain(named)
}

fn losses(mode: &Mode) -> impl Iterator<Item = Fetch> {
    mode.losses
        .iter()
        .map(|(name, _)| Fetch::Loss(name.clone()))
}

fn metrics(mode: &Mode) -> impl Iterator<Item = Fetch> {
    mode.metrics
        .iter()
        .map(|(name, _)| Fetch::Metric(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_results_round_trip() {
        let names = [
            "loss/loss",
            "metric/accuracy",
            "output/y#count",
            "let/h#count/1",
            "schedule/lr",
            "check/loss",
            "gradient/loss/encoder/dense/kernel",
            "gradient/loss/embedding/table#rows",
            "gradient/loss/embedding/table#indices",
        ];
        for name in names {
            let parsed: ResultName = name.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(parsed.to_string(), name);
        }
        for wrong in ["loss", "gradient/loss", "weight/w", "loss/a#size"] {
            assert!(wrong.parse::<ResultName>().is_err(), "{wrong}");
        }
    }
}
