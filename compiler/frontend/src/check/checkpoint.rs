//! The `checkpoint` hook: what it saves, in which format, and which evaluation says what is best.

use crate::check::bound::Bound;
use crate::check::hooks::Fetchable;
use crate::check::{Checker, glob};
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::lower::{GLOBAL_STEP, GOOD_STEPS, LOSS_SCALE};
use crate::typed::{
    Best, BestMode, CheckpointFormat, Eval, HookKind, Interval, LossScale, Model, Train, Variable,
    is_maximized, is_minimized,
};

/// An evaluation, and the names of what it measures.
pub(super) struct Measured {
    eval: Option<String>,
    /// The names, and whether each is a loss.
    names: Vec<(String, bool)>,
}

impl Measured {
    pub(super) fn of(eval: &Eval, model: &Model) -> Measured {
        let is_loss = |name: &str| !model.eval.metrics.iter().any(|(n, _)| n == name);
        let names = eval.measured(&model.eval).into_iter();
        Measured {
            eval: eval.name.clone(),
            names: names.map(|n| (n.to_owned(), is_loss(n))).collect(),
        }
    }

    /// Whether a name is measured, and then whether it is a loss.
    fn finds(&self, name: &str) -> Option<bool> {
        let mut names = self.names.iter();
        names.find(|(n, _)| n == name).map(|(_, is_loss)| *is_loss)
    }
}

impl Checker<'_> {
    pub(super) fn checkpoint(&mut self, bound: &Bound, names: &Fetchable) -> Option<HookKind> {
        self.reject_paths(bound);
        let vars = self.saved_patterns(bound, names);
        let best = self.best(bound, names);
        Some(HookKind::Checkpoint {
            dir: bound.require("dir"),
            every: bound.get("every").unwrap_or(Interval::Seconds(600.0)),
            keep: bound.get("keep").unwrap_or(5),
            keep_every: match bound.get("keep_every") {
                Some(Interval::Seconds(seconds)) => Some(seconds),
                Some(Interval::Steps(_) | Interval::Epochs(_)) => {
                    unreachable!("`keep_every` is a duration")
                }
                None => None,
            },
            basename: bound
                .get("basename")
                .unwrap_or_else(|| "model.ckpt".to_owned()),
            format: bound
                .keyword(
                    "format",
                    &[
                        ("bundle", CheckpointFormat::Bundle),
                        ("safetensors", CheckpointFormat::Safetensors),
                    ],
                )
                .unwrap_or(CheckpointFormat::Bundle),
            vars: vars?,
            best: best?,
        })
    }

    /// Where and how many: what would fail at the first save, or never be found again.
    fn reject_paths(&mut self, bound: &Bound) {
        let basename: Option<String> = bound.get("basename");
        let dir: String = bound.require("dir");
        let keep: Option<i64> = bound.get("keep");
        let wrong = match (basename.as_deref(), keep) {
            (Some(""), _) => Some((
                "basename",
                "the names of checkpoints begin with `basename`, which is empty",
                "`model.ckpt` is the usual one",
            )),
            (Some(name), _) if name.contains('/') => Some((
                "basename",
                "`basename` is the beginning of file names, and has a `/`",
                "`dir` is the folder",
            )),
            (_, Some(keep)) if keep < 0 => Some((
                "keep",
                "a negative number of checkpoints cannot be kept",
                "`keep: 0` keeps all of them",
            )),
            _ if dir.is_empty() => Some(("dir", "`dir` is empty", "the working folder is `.`")),
            _ => None,
        };
        if let Some((argument, message, help)) = wrong {
            let span = bound.span_of(argument);
            self.report(Diagnostic::new(Code::BadValue, span, message).help(help));
        }
        if let Some(Interval::Seconds(seconds)) = bound.get("keep_every")
            && seconds <= 0.0
        {
            let span = bound.span_of("keep_every");
            let message = "`keep_every` is the time between two checkpoints that are kept for good";
            self.report(
                Diagnostic::new(Code::BadValue, span, message).help("`keep: 0` keeps all of them"),
            );
        }
    }

    /// `vars`: patterns over the names of the state, each of which must match something.
    fn saved_patterns(&mut self, bound: &Bound, names: &Fetchable) -> Option<Vec<String>> {
        let patterns: Vec<(String, _)> = bound.get("vars").unwrap_or_default();
        let mut fine = true;
        for (pattern, span) in &patterns {
            fine &= self.glob(pattern, *span).is_some();
            let any = (self.store.variables.iter().map(|v| &v.name))
                .chain(&names.slots)
                .any(|name| glob::matches(pattern, name));
            if fine && !any && names.complete {
                let what = format!("`{}`", bound.signature.word);
                fine = self.matching(pattern, *span, &what).is_some();
            }
        }
        fine.then(|| patterns.into_iter().map(|(pattern, _)| pattern).collect())
    }

    /// `best`, with `mode` and `eval`: a metric of one evaluation. The outer `None` is an error.
    fn best(&mut self, bound: &Bound, names: &Fetchable) -> Option<Option<Best>> {
        let Some(metric) = bound.get::<String>("best") else {
            let idle = ["mode", "eval"].into_iter().find(|name| bound.has(name));
            let Some(idle) = idle else {
                return Some(None);
            };
            let message = format!("`{idle}` is about `best`, which is not given");
            let help = "say which metric is best: `best: accuracy`";
            self.report(
                Diagnostic::new(Code::MissingArgument, bound.span_of(idle), message).help(help),
            );
            return None;
        };
        let span = bound.span_of("best");
        let (Some(evals), false) = (&names.measured, self.store.broken_results) else {
            return None;
        };
        let of: Option<String> = bound.get("eval");
        let asked = |m: &&Measured| of.is_none() || m.eval == of;
        let candidates: Vec<&Measured> = evals.iter().filter(asked).collect();
        if let (Some(of), true) = (&of, candidates.is_empty()) {
            let message = format!("there is no evaluation `{of}`");
            let named = evals.iter().filter_map(|m| m.eval.as_deref());
            let help = match nearest(of, named) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("name one: `eval {of} {{ ... }}`"),
            };
            let span = bound.span_of("eval");
            self.report(Diagnostic::new(Code::UnknownName, span, message).help(help));
            return None;
        }
        let found: Vec<(&Measured, bool)> = (candidates.iter())
            .filter_map(|m| Some((*m, m.finds(&metric)?)))
            .collect();
        let error = match found[..] {
            [(one, is_loss)] => {
                let by_name = match (is_loss || is_minimized(&metric), is_maximized(&metric)) {
                    (true, _) => Some(BestMode::Min),
                    (false, true) => Some(BestMode::Max),
                    (false, false) => None,
                };
                let modes = [("min", BestMode::Min), ("max", BestMode::Max)];
                let eval = one.eval.clone();
                if let Some(mode) = bound.keyword("mode", &modes).or(by_name) {
                    return Some(Some(Best { eval, metric, mode }));
                }
                let message = format!(
                    "whether the best `{metric}` is the smallest or the largest is not known"
                );
                Diagnostic::new(Code::MissingArgument, span, message)
                    .help("say `mode: max` where larger values are better, as of an accuracy, else `mode: min`")
            }
            [] if evals.is_empty() => {
                let message = format!("there is no evaluation that measures `{metric}`");
                Diagnostic::new(Code::MissingSetting, span, message).help(format!(
                    "add one: `eval {{ data NAME; every 100 steps; metrics [{metric}]; }}`"
                ))
            }
            [] => {
                let known = candidates.iter().flat_map(|m| &m.names);
                let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
                let help = match nearest(&metric, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it can be {}", one_of(known.iter().copied())),
                };
                let message = format!("no evaluation measures `{metric}`");
                Diagnostic::new(Code::UnknownName, span, message).help(help)
            }
            [_, _, ..] => {
                let named = found.iter().filter_map(|(m, _)| m.eval.as_deref());
                let message = format!("{} evaluations measure `{metric}`", found.len());
                Diagnostic::new(Code::BadValue, span, message).help(format!(
                    "say which one counts: `eval: NAME`, with {}",
                    one_of(named)
                ))
            }
        };
        self.report(error);
        None
    }
}

/// The names of the state besides variables, as checkpoints have them.
pub(super) fn slot_names(variables: &[Variable], train: Option<&Train>) -> Vec<String> {
    let mut names = vec![GLOBAL_STEP.to_owned()];
    let Some(train) = train else {
        return names;
    };
    for group in &train.groups {
        names.extend(group.scalars.iter().map(|scalar| scalar.name.clone()));
        for update in &group.updates {
            let variable = &variables[update.variable.0 as usize].name;
            names.extend(update.slots.iter().map(|slot| slot.state_name(variable)));
        }
    }
    let averages = train.averages.iter().flat_map(|average| &average.state);
    names.extend(averages.map(|state| state.name.clone()));
    if let Some(LossScale::Dynamic { .. }) = train.loss_scale {
        names.extend([LOSS_SCALE.to_owned(), GOOD_STEPS.to_owned()]);
    }
    names
}
