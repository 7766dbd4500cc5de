//! `eval`: what is evaluated, on which data, how often.

use trainspec_ir::Span;

use crate::ast::{self, SettingValue};
use crate::check::Checker;
use crate::check::scope::{Frame, FrameKind};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, Constant, DataSet, Eval};

impl Checker<'_> {
    pub(crate) fn evals(&mut self, model: Option<&typed::Model>, data: &[DataSet]) -> Vec<Eval> {
        let sections = self.items.evals.clone();
        let mut evals = Vec::new();
        for section in sections {
            self.refuse_repeated(&section.settings, "eval");
            let frame = Frame::new(FrameKind::Train, String::new());
            let (eval, _) =
                self.in_program(|c| c.framed(frame, |c| c.eval_section(&section, model, data)));
            evals.push(eval);
        }
        evals
    }

    fn eval_section(
        &mut self,
        section: &ast::Section,
        model: Option<&typed::Model>,
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
            self.refuse_clauses(setting, &[]);
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
                    let has = self.items.train.as_ref().is_some_and(|section| {
                        section.settings.iter().any(|s| s.word.text == "ema")
                    });
                    if !has && self.items.train.is_some() {
                        self.report(
                            Diagnostic::new(
                                Code::MissingSetting,
                                setting.span,
                                "there are no averages to evaluate with",
                            )
                            .help("add `ema (decay: 0.999);` to `train`"),
                        );
                    }
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
                Constant::Word(name) if known.contains(&name.as_str()) => found.push(name.clone()),
                Constant::Word(name) => {
                    let help = match nearest(name, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("declare it in the model: `metric {name} = ...;`"),
                    };
                    if !self.world.broken_results {
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
