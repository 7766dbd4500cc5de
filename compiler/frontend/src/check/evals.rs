//! `eval`: what is evaluated, on which data, how often.

use trainspec_ir::Span;

use crate::ast::{self, SettingValue};
use crate::check::scope::{Frame, FrameKind};
use crate::check::{Checker, averages};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, Averaged, Constant, DataSet, Eval, Train};

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
            evals.push(eval);
        }
        evals
    }

    fn eval_section(
        &mut self,
        section: &ast::Section,
        model: Option<&typed::Model>,
        train: Option<&Train>,
        data: &[DataSet],
    ) -> Eval {
        let mut eval = Eval {
            name: section.name.as_ref().map(|n| n.text.clone()),
            data: None,
            metrics: Vec::new(),
            with_ema: false,
            settings: Vec::new(),
        };
        for setting in &section.settings {
            if setting.value == SettingValue::Bad {
                continue;
            }
            self.reject_clauses(setting, &[]);
            let word = setting.word.text.as_str();
            if word == "data" {
                eval.data = self.used_data(setting, "eval", model, data);
                continue;
            }
            if crate::builtins::find("eval", word).is_none() {
                self.unknown_setting("eval", "`eval`", &setting.word);
                continue;
            }
            let Some(bound) = self.setting("eval", setting) else {
                continue;
            };
            match word {
                "with" => {
                    eval.with_ema = true;
                    self.reject_missing_averages(setting.span, train);
                }
                "metrics" => {
                    if let Some(Constant::List(names)) = bound.get("names") {
                        eval.metrics = self.metric_names(names, setting.span, model);
                    }
                }
                _ => eval.settings.push(bound),
            }
        }
        if !section
            .settings
            .iter()
            .any(|s| s.word.text == "data" || s.value == SettingValue::Bad)
        {
            self.report(
                Diagnostic::new(Code::MissingSetting, section.keyword, "`eval` has no data")
                    .help("add `data NAME;`"),
            );
        }
        eval
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

    fn metric_names(
        &mut self,
        names: &[Constant],
        span: Span,
        model: Option<&typed::Model>,
    ) -> Vec<String> {
        let Some(model) = model else {
            return Vec::new();
        };
        let both = model.eval.metrics.iter().chain(&model.eval.losses);
        let known: Vec<&str> = both.map(|(n, _)| n.as_str()).collect();
        let mut found = Vec::new();
        for name in names {
            match name {
                Constant::Name(name) if known.contains(&name.as_str()) => found.push(name.clone()),
                Constant::Name(name) => {
                    let help = match nearest(name, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("declare it in the model: `metric {name} = ...;`"),
                    };
                    if !self.store.broken_results {
                        let message = format!("the model has no metric `{name}`");
                        let span = self.word_in(span, name);
                        self.report(Diagnostic::new(Code::UnknownName, span, message).help(help));
                    }
                }
                _ => {
                    self.report(Diagnostic::new(
                        Code::TypeMismatch,
                        span,
                        "metrics are named, not matched by patterns",
                    ));
                }
            }
        }
        found
    }
}
