//! The measure of a sweep: which value of a trial counts, and which of two is better.

use std::cmp::Ordering;

use clap::ValueEnum;
use serde_json::{Value, json};
use trainspec::runs::is_minimized;
use trainspec_compiler::diag::nearest;
use trainspec_compiler::typed::{Eval, Spec};

use crate::failure::Failure;
use crate::tensors::{Number, json_of};

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// Smaller ones.
    Min,
    /// Larger ones.
    Max,
}

/// What trials are compared by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    pub(super) name: String,
    /// The evaluation that measures it: its name, or that of its data; `None` for a loss of the training.
    pub(super) evaluation: Option<String>,
    pub(super) goal: Goal,
}

/// A value at the end of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) evaluation: Option<String>,
    pub(super) metric: String,
    pub(super) value: f64,
}

impl Metric {
    /// The metric that is asked for; without a name the first of the first evaluation, else the first loss.
    pub(super) fn choose(
        spec: &Spec,
        name: Option<&str>,
        goal: Option<Goal>,
    ) -> Result<Metric, Failure> {
        let known = known(spec);
        let chosen = match name {
            None => known.first(),
            Some(name) => known.iter().find(|(evaluation, metric)| {
                metric == name || full_name(evaluation.as_deref(), metric) == name
            }),
        };
        let Some((evaluation, metric)) = chosen else {
            return Err(not_measured(name.unwrap_or("loss"), &known));
        };
        let losses = spec.model.iter().flat_map(|model| &model.eval.losses);
        let is_loss = losses.into_iter().any(|(loss, _)| loss == metric);
        let default = match is_loss || is_minimized(metric) {
            true => Goal::Min,
            false => Goal::Max,
        };
        Ok(Metric {
            name: metric.clone(),
            evaluation: evaluation.clone(),
            goal: goal.unwrap_or(default),
        })
    }

    /// Its value among those of a trial.
    pub(super) fn of(&self, values: &[Measured]) -> Option<f64> {
        let is_it = |m: &&Measured| m.metric == self.name && m.evaluation == self.evaluation;
        values.iter().find(is_it).map(|measured| measured.value)
    }

    /// The better one first; NaN after all numbers, and no value last.
    pub(super) fn order(&self, a: Option<f64>, b: Option<f64>) -> Ordering {
        let rank = |value: Option<f64>| match value {
            Some(x) if !x.is_nan() => 0,
            Some(_) => 1,
            None => 2,
        };
        let by_value = || match (a, b, self.goal) {
            (Some(a), Some(b), Goal::Min) => a.partial_cmp(&b),
            (Some(a), Some(b), Goal::Max) => b.partial_cmp(&a),
            _ => None,
        };
        let by_rank = rank(a).cmp(&rank(b));
        by_rank.then_with(|| by_value().unwrap_or(Ordering::Equal))
    }

    /// `accuracy of test_set, larger is better`
    pub(super) fn in_words(&self) -> String {
        let better = match self.goal {
            Goal::Min => "smaller is better",
            Goal::Max => "larger is better",
        };
        match &self.evaluation {
            Some(evaluation) => format!("{} of {evaluation}, {better}", self.name),
            None => format!("{} of the last step, {better}", self.name),
        }
    }

    pub(super) fn goal_word(&self) -> &'static str {
        match self.goal {
            Goal::Min => "min",
            Goal::Max => "max",
        }
    }
}

impl Measured {
    pub(super) fn to_json(&self) -> Value {
        let value = json_of(Number::Real(self.value));
        json!({ "evaluation": self.evaluation, "metric": self.metric, "value": value })
    }

    pub(super) fn from_json(object: &Value) -> Option<Measured> {
        Some(Measured {
            evaluation: object["evaluation"].as_str().map(str::to_owned),
            metric: object["metric"].as_str()?.to_owned(),
            value: real(&object["value"])?,
        })
    }
}

/// A number of JSON output; one that is not finite is a string there.
pub(super) fn real(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        number => number.as_f64(),
    }
}

/// The name of an evaluation in events.
pub(super) fn evaluation_name(eval: &Eval) -> &str {
    eval.name.as_ref().unwrap_or(&eval.data)
}

/// All that can be measured at the end of a run: what evaluations measure, then losses.
fn known(spec: &Spec) -> Vec<(Option<String>, String)> {
    let Some(model) = &spec.model else {
        return Vec::new();
    };
    let evaluated = spec.evals.iter().flat_map(|eval| {
        let names = eval.measured(&model.eval).into_iter();
        names.map(|name| (Some(evaluation_name(eval).to_owned()), name.to_owned()))
    });
    let losses = model.train.losses.iter();
    let losses = losses.map(|(name, _)| (None, name.clone()));
    evaluated.chain(losses).collect()
}

fn full_name(evaluation: Option<&str>, metric: &str) -> String {
    match evaluation {
        Some(evaluation) => format!("{evaluation}/{metric}"),
        None => metric.to_owned(),
    }
}

fn not_measured(name: &str, known: &[(Option<String>, String)]) -> Failure {
    let failure = Failure::input(format!("nothing measures `{name}` at the end of a run"));
    let names = known.iter().map(|(_, metric)| metric.as_str());
    let mut full: Vec<String> = known
        .iter()
        .map(|(evaluation, metric)| full_name(evaluation.as_deref(), metric))
        .collect();
    full.dedup();
    let help = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None if full.is_empty() => "the model has no loss".to_owned(),
        None => format!("there are {}", full.join(", ")),
    };
    failure.help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_values_come_first_and_nan_after_all() {
        let metric = |goal| Metric {
            name: "m".to_owned(),
            evaluation: None,
            goal,
        };
        let sorted = |goal| {
            let mut values = vec![Some(2.0), None, Some(f64::NAN), Some(-1.0), Some(3.0)];
            values.sort_by(|a, b| metric(goal).order(*a, *b));
            format!("{values:?}")
        };
        assert_eq!(
            sorted(Goal::Min),
            "[Some(-1.0), Some(2.0), Some(3.0), Some(NaN), None]"
        );
        assert_eq!(
            sorted(Goal::Max),
            "[Some(3.0), Some(2.0), Some(-1.0), Some(NaN), None]"
        );
    }
}
