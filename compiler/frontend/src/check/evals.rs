//! `eval`: what is evaluated, on which data, how often.

use trainspec_ir::Span;

use crate::ast::{self, SettingValue};
use crate::check::scope::{Frame, FrameKind};
use crate::check::{Checker, averages};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, Averaged, DataSet, Eval, Named, NamedKind, Stage, StageKind, Train};

impl Checker<'_> {
    pub(crate) fn evals(
        &mut self,
        model: Option<&typed::Model>,
        train: Option<&Train>,
        data: &[DataSet],
    ) -> Vec<Eval> {
        let sections = self.items.evals.clone();
        let mut evals = Vec::new();
        for section in sections {
            self.reject_repeated(&section.settings, "eval");
            let frame = Frame::new(FrameKind::Train, String::new());
            let (eval, _) = self
                .in_program(|c| c.framed(frame, |c| c.eval_section(&section, model, train, data)));
            evals.extend(eval);
        }
        evals
    }

    fn eval_section(
        &mut self,
        section: &ast::Section,
        model: Option<&typed::Model>,
        train: Option<&Train>,
        data: &[DataSet],
    ) -> Option<Eval> {
        let mut eval = Eval {
            name: section.name.as_ref().map(|n| n.text.clone()),
            data: String::new(),
            every: None,
            steps: None,
            start_after: None,
            metrics: Vec::new(),
            with_ema: false,
            span: section.keyword,
        };
        let mut used = None;
        for setting in &section.settings {
            if matches!(setting.value, SettingValue::Bad(_)) {
                continue;
            }
            self.reject_clauses(setting, &[]);
            let word = setting.word.text.as_str();
            if word == "data" {
                used = self.used_data(setting, "eval", model, data);
                continue;
            }
            if crate::builtins::find("eval", word).is_none() {
                self.unknown_setting("eval", "`eval`", &setting.word);
                continue;
            }
            let Some(bound) = self.setting("eval", setting) else {
                continue;
            };
            match bound.signature.word {
                "with" => {
                    eval.with_ema = true;
                    self.reject_missing_averages(bound.span_of("what"), train);
                }
                "metrics" => {
                    let names: Vec<Named> = bound.require("names");
                    eval.metrics = self.metric_names(&names, model);
                }
                "every" => eval.every = bound.get("interval"),
                "start_after" => eval.start_after = bound.get("interval"),
                "steps" => eval.steps = bound.get("count"),
                other => unreachable!("`{other}` of `eval` is refused, or converted here"),
            }
        }
        if !section
            .settings
            .iter()
            .any(|s| s.word.text == "data" || matches!(s.value, SettingValue::Bad(_)))
        {
            self.report(
                Diagnostic::new(Code::MissingSetting, section.keyword, "`eval` has no data")
                    .help("add `data NAME;`"),
            );
        }
        eval.data = used?;
        self.fit_tables(section, &eval, train, data);
        self.reject_endless_evaluation(section, &eval, data);
        self.warn_dropped_remainder(section, &eval, model, data);
        self.warn_unlike_splits(section, &eval, train, data);
        if train.is_some_and(|train| train.data.as_deref() != Some(eval.data.as_str())) {
            let reason = "an evaluation reads its batches when it takes them";
            self.warn_prefetch(&eval.data, reason);
        }
        Some(eval)
    }

    /// Warns where the sides of a split are not disjoint, because the training and the evaluation split the same records each in its own way.
    fn warn_unlike_splits(
        &mut self,
        section: &ast::Section,
        eval: &Eval,
        train: Option<&Train>,
        data: &[DataSet],
    ) {
        let find = |name: &str| data.iter().find(|set| set.name == name);
        let trained = train.and_then(|train| find(train.data.as_deref()?));
        let (Some(trained), Some(evaluated)) = (trained, find(&eval.data)) else {
            return;
        };
        if trained.source.to_string() != evaluated.source.to_string() {
            return;
        }
        let of = |stages: &[Stage]| {
            stages.iter().find_map(|stage| match &stage.kind {
                StageKind::Split(split) => Some((split.clone(), stage.span)),
                _ => None,
            })
        };
        let (Some((own, own_span)), Some((other, span))) =
            (of(&trained.stages), of(&evaluated.eval_stages))
        else {
            return;
        };
        let difference = if own.part == other.part {
            return;
        } else if own.seed != other.seed {
            "seed"
        } else if own.holdout != other.holdout {
            "holdout"
        } else if own.by != other.by {
            "by"
        } else {
            return;
        };
        let message = format!(
            "records of `{}` may be trained on, too: its `split` has another `{difference}` than that of `{}`",
            evaluated.name, trained.name
        );
        let setting = section.settings.iter().find(|s| s.word.text == "data");
        let blamed = setting.map_or(section.keyword, |s| s.span);
        self.report(
            Diagnostic::new(Code::FeatureMismatch, blamed, message)
                .as_warning()
                .note_at(own_span, "what is trained on")
                .note_at(span, "what is evaluated on")
                .help("the sides of one split are disjoint: give both the same `seed`, `holdout` and `by`"),
        );
    }

    /// Warns of a `prefetch` that a data set says itself where nothing is prepared ahead of it.
    pub(super) fn warn_prefetch(&mut self, name: &str, reason: &str) {
        let sections = self.items.data.iter();
        let mut own = sections.filter(|s| s.name.as_ref().is_some_and(|n| n.text == name));
        let settings = own.next().map_or(&[][..], |section| &section.settings[..]);
        let Some(span) = settings
            .iter()
            .find(|s| s.word.text == "prefetch")
            .map(|s| s.span)
        else {
            return;
        };
        let message = format!("`prefetch` of `{name}` prepares nothing: {reason}");
        let warning = Diagnostic::new(Code::FeatureMismatch, span, message).as_warning();
        self.report(warning.help("remove it"));
    }

    /// Rejects an evaluation whose data takes other tables from the training data than that makes.
    fn fit_tables(
        &mut self,
        section: &ast::Section,
        eval: &Eval,
        train: Option<&Train>,
        data: &[DataSet],
    ) {
        let find = |name: &str| data.iter().find(|d| d.name == name);
        let trained = train.and_then(|train| train.data.as_deref());
        // A training set with an error is reported.
        if trained.is_some_and(|name| find(name).is_none()) {
            return;
        }
        let setting = section.settings.iter().find(|s| s.word.text == "data");
        let span = setting.map_or(section.keyword, |s| s.span);
        if let Some(set) = find(&eval.data) {
            self.tables_of_training(set, trained.and_then(find), span);
        }
    }

    /// Rejects an evaluation on all batches of a data set that has no last one.
    fn reject_endless_evaluation(&mut self, section: &ast::Section, eval: &Eval, data: &[DataSet]) {
        let set = data.iter().find(|d| d.name == eval.data);
        // A number of batches may be given with an error.
        let bounded = section.settings.iter().any(|s| s.word.text == "steps");
        if bounded || !set.is_some_and(DataSet::is_endless) {
            return;
        }
        let setting = section.settings.iter().find(|s| s.word.text == "data");
        let blamed = setting.map_or(section.keyword, |s| s.span);
        let message = format!(
            "the evaluation on `{}` never ends: it repeats indefinitely",
            eval.data
        );
        self.report(
            Diagnostic::new(Code::MissingSetting, blamed, message)
                .help("say how many batches are enough: `steps 20;` in `eval`"),
        );
    }

    /// Warns where the last records of a set may be left out of an evaluation, because the model takes full batches only.
    fn warn_dropped_remainder(
        &mut self,
        section: &ast::Section,
        eval: &Eval,
        model: Option<&typed::Model>,
        data: &[DataSet],
    ) {
        let (Some(model), Some(set)) = (model, data.iter().find(|d| d.name == eval.data)) else {
            return;
        };
        let Some(batch) = set.batch() else {
            return;
        };
        if batch.remainder.is_some() || batch.size == 1 || set.keeps_remainder(model) {
            return;
        }
        let setting = section.settings.iter().find(|s| s.word.text == "data");
        let blamed = setting.map_or(section.keyword, |s| s.span);
        let message = format!(
            "records of `{}` that fill no batch of {} are not evaluated",
            set.name, batch.size
        );
        self.report(
            Diagnostic::new(Code::FeatureMismatch, blamed, message)
                .as_warning()
                .help("leave the size open: `f32[batch, ...]` in the model; `remainder: drop` says that it is meant"),
        );
    }

    /// Rejects an evaluation with averages where no variable has one under its usual name.
    fn reject_missing_averages(&mut self, span: Span, train: Option<&Train>) {
        let Some(train) = train else {
            return;
        };
        let section = self.items.train.clone();
        let mut settings = section.iter().flat_map(|s| &s.settings);
        let written = settings.find(|s| s.word.text == "ema");
        let usable = train.averages.iter().any(|average| match average.source {
            Averaged::Variable(var) => {
                let name = &self.store.variables[var.0 as usize].name;
                average.state[0].name == averages::name_of(name, averages::NAME)
            }
            Averaged::Value(..) => false,
        });
        // The missing average may be one with an error.
        if usable || (written.is_some() && self.has_errors()) {
            return;
        }
        let message = "there are no averages to evaluate with";
        let error = Diagnostic::new(Code::MissingSetting, span, message)
            .help("add `ema (decay: 0.999);` to `train`");
        self.report(match written {
            Some(other) => error.note_at(
                other.span,
                "these have a name of their own, or are not of variables",
            ),
            None => error,
        });
    }

    fn metric_names(&mut self, names: &[Named], model: Option<&typed::Model>) -> Vec<String> {
        let Some(model) = model else {
            return Vec::new();
        };
        let both = model.eval.metrics.iter().chain(&model.eval.losses);
        let known: Vec<&str> = both.map(|(n, _)| n.as_str()).collect();
        let mut found = Vec::new();
        for named in names {
            match &named.kind {
                NamedKind::Value(name) if known.contains(&name.as_str()) => {
                    found.push(name.clone());
                }
                NamedKind::Value(name) => {
                    let help = match nearest(name, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("declare it in the model: `metric {name} = ...;`"),
                    };
                    if !self.store.broken_results {
                        let message = format!("the model has no metric `{name}`");
                        self.report(
                            Diagnostic::new(Code::UnknownName, named.span, message).help(help),
                        );
                    }
                }
                NamedKind::Variables(_) => {
                    self.report(Diagnostic::new(
                        Code::TypeMismatch,
                        named.span,
                        "metrics are named, not matched by patterns",
                    ));
                }
            }
        }
        found
    }
}
