//! `early_stop`: which evaluation measures its metric, and what an improvement is.

use crate::check::Checker;
use crate::check::bound::Bound;
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{self, EarlyStop, Eval, Goal, is_minimized};

impl Checker<'_> {
    /// `early_stop (metric, patience: 3, min_delta: 0.01, goal: max, eval: NAME)`
    pub(crate) fn early_stop(
        &mut self,
        bound: &Bound,
        model: Option<&typed::Model>,
        evals: &[Eval],
    ) -> Option<EarlyStop> {
        let min_delta = bound.get("min_delta").unwrap_or(0.0);
        if !(0.0..f64::INFINITY).contains(&min_delta) {
            let message = format!("`min_delta` is {min_delta}, and an improvement is at least 0");
            let error = Diagnostic::new(Code::BadValue, bound.span_of("min_delta"), message);
            self.report(error.help("`goal` says whether larger or smaller values are better"));
            return None;
        }
        let model = model?;
        let metric: String = bound.require("metric");
        let eval = self.eval_of(bound, &metric, &model.eval, evals)?;
        let goals = [("min", Goal::Min), ("max", Goal::Max)];
        let is_loss = model.eval.losses.iter().any(|(name, _)| *name == metric);
        let Some(goal) = bound
            .keyword("goal", &goals)
            .or_else(|| (is_loss || is_minimized(&metric)).then_some(Goal::Min))
        else {
            let message = format!("`early_stop` lacks a `goal`: `{metric}` is no loss");
            self.report(
                Diagnostic::new(Code::MissingArgument, bound.span, message).help(
                    "say `goal: max` where larger values are better, as of an accuracy, else `goal: min`",
                ),
            );
            return None;
        };
        Some(EarlyStop {
            metric,
            eval,
            patience: bound.require("patience"),
            min_delta,
            goal,
        })
    }

    /// The evaluation that measures a metric at an interval: the one that is named, or the only one.
    fn eval_of(
        &mut self,
        bound: &Bound,
        metric: &str,
        mode: &typed::Mode,
        evals: &[Eval],
    ) -> Option<usize> {
        // An evaluation with an error is not in the list.
        if evals.len() != self.items.evals.len() || self.store.broken_results {
            return None;
        }
        let named: Option<String> = bound.get("eval");
        let is_named = |eval: &Eval| named.is_none() || eval.name == named;
        let all: Vec<(usize, &Eval)> = evals.iter().enumerate().collect();
        let chosen: Vec<&(usize, &Eval)> = all.iter().filter(|(_, e)| is_named(e)).collect();
        if let (Some(name), true) = (&named, chosen.is_empty()) {
            let known = evals.iter().filter_map(|eval| eval.name.as_deref());
            let help = match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("name an evaluation: `eval {name} {{ ... }}`"),
            };
            let message = format!("there is no evaluation `{name}`");
            let error = Diagnostic::new(Code::UnknownName, bound.span_of("eval"), message);
            self.report(error.help(help));
            return None;
        }
        let measures = |eval: &Eval| eval.measured(mode).contains(&metric);
        let measuring: Vec<&(usize, &Eval)> =
            chosen.into_iter().filter(|(_, e)| measures(e)).collect();
        let (code, blamed, message, help) = match measuring[..] {
            [(index, eval)] if eval.every.is_some() => return Some(*index),
            [(_, eval)] => (
                Code::MissingSetting,
                bound.span,
                format!(
                    "`{metric}` is evaluated at the end alone, so `early_stop` has nothing to compare"
                ),
                format!(
                    "add `every 100 steps;` to the evaluation on `{}`",
                    eval.data
                ),
            ),
            [] => {
                let known: Vec<&str> = evals.iter().flat_map(|e| e.measured(mode)).collect();
                let help = match (nearest(metric, known.iter().copied()), &known[..]) {
                    (Some(near), _) => format!("did you mean `{near}`?"),
                    (None, []) => "add one: `eval { data NAME; every 100 steps; }`".to_owned(),
                    (None, known) => format!(
                        "evaluations measure {}",
                        one_of(known.iter().copied()).replace(" or ", " and ")
                    ),
                };
                let message = format!("no evaluation measures `{metric}`");
                (Code::UnknownName, bound.span_of("metric"), message, help)
            }
            _ => (
                Code::MissingArgument,
                bound.span,
                format!("{} evaluations measure `{metric}`", measuring.len()),
                "say which one is meant: `eval: NAME`, with `eval NAME { ... }`".to_owned(),
            ),
        };
        self.report(Diagnostic::new(code, blamed, message).help(help));
        None
    }
}
