//! Hooks: their arguments, and whether the names they fetch exist.

use trainspec_ir::Span;

use crate::ast::{self, SettingValue};
use crate::check::scope::{Frame, FrameKind};
use crate::check::{Checker, glob};
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{self, Constant, Hook, Setting, Train};

impl Checker<'_> {
    pub(crate) fn hooks(
        &mut self,
        model: Option<&typed::Model>,
        train: Option<&Train>,
    ) -> Vec<Hook> {
        let Some(section) = self.items.hooks.clone() else {
            return Vec::new();
        };
        let names = Fetchable::of(model, train);
        let frame = Frame::new(FrameKind::Train, String::new());
        let (hooks, _) = self.in_program(|c| {
            c.framed(frame, |c| {
                let mut hooks = Vec::new();
                for setting in &section.settings {
                    hooks.extend(c.hook(setting, &names));
                }
                hooks
            })
        });
        hooks
    }

    fn hook(&mut self, setting: &ast::Setting, names: &Fetchable) -> Option<Hook> {
        if setting.value == SettingValue::Bad {
            return None;
        }
        self.reject_clauses(setting, &[]);
        let word = setting.word.text.as_str();
        let bound = match word {
            "hook" | "feed" => match self.registered(setting) {
                Some(bound) => bound?,
                None => {
                    self.report(
                        Diagnostic::new(
                            Code::Syntax,
                            setting.span,
                            format!("`{word}` needs the name it is registered under"),
                        )
                        .help(format!("write `{word} \"my_{word}\" (threshold: 0.5);`")),
                    );
                    return None;
                }
            },
            _ if crate::builtins::find("hooks", word).is_some() => {
                self.setting("hooks", setting)?
            }
            _ => {
                self.unknown_setting("hooks", "`hooks`", &setting.word);
                return None;
            }
        };
        if !matches!(word, "hook" | "feed") {
            self.check_names(&bound, setting.span, names);
        }
        if word == "stop_at" {
            let given = |name: &str| bound.get(name).is_some_and(|v| *v != Constant::None);
            if given("last_step") == given("num_steps") {
                self.report(
                    Diagnostic::new(Code::BadValue, setting.span, "`stop_at` needs `last_step` or `num_steps`, and not both")
                        .help("`last_step` counts from the beginning of all training, `num_steps` from the start of this run"),
                );
            }
        }
        let mut body = Vec::new();
        match (&setting.body, word) {
            (None, _) => {}
            (Some(inner), "summary") => {
                for setting in inner {
                    body.extend(self.summary(setting, names));
                }
            }
            (Some(_), _) => {
                let message = format!("`{word}` has nothing to say in braces");
                self.report(Diagnostic::new(Code::Syntax, setting.span, message));
            }
        }
        Some(Hook {
            setting: bound,
            body,
        })
    }

    fn summary(&mut self, setting: &ast::Setting, names: &Fetchable) -> Option<Setting> {
        if setting.value == SettingValue::Bad {
            return None;
        }
        self.reject_clauses(setting, &[]);
        if crate::builtins::find("summary", &setting.word.text).is_none() {
            self.unknown_setting("summary", "`summary`", &setting.word);
            return None;
        }
        let bound = self.setting("summary", setting)?;
        self.check_names(&bound, setting.span, names);
        Some(bound)
    }

    /// Every name must be a value that a step computes, every pattern must match a variable.
    fn check_names(&mut self, setting: &Setting, span: Span, names: &Fetchable) {
        let listed = match (setting.get("names"), setting.word.as_str()) {
            (Some(Constant::List(list)), _) => list.clone(),
            (None, "nan") => setting.get("name").cloned().into_iter().collect(),
            _ => return,
        };
        for name in listed {
            match name {
                Constant::Name(name) => self.check_name(&name, span, names),
                Constant::Str(pattern) => {
                    let any = self
                        .store
                        .variables
                        .iter()
                        .any(|v| glob::matches(&pattern, &v.name));
                    if !any {
                        self.matching(&pattern, span, &format!("`{}`", setting.word));
                    }
                }
                _ => {}
            }
        }
    }

    /// The span of a word within a setting.
    pub(crate) fn word_in(&self, span: Span, word: &str) -> Span {
        let text = self.sources.slice(span);
        let alone = |c: Option<char>| !c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let found = text.match_indices(word).find(|(i, _)| {
            alone(text[..*i].chars().next_back()) && alone(text[*i + word.len()..].chars().next())
        });
        match found {
            Some((i, _)) => Span {
                start: span.start + i as u32,
                end: span.start + (i + word.len()) as u32,
                ..span
            },
            None => span,
        }
    }

    fn check_name(&mut self, name: &str, span: Span, names: &Fetchable) {
        if names.known.iter().any(|k| k == name) {
            let declared = self
                .declared
                .iter()
                .find(|(_, (_, n))| n == name)
                .map(|(s, _)| *s);
            if let Some(declared) = declared {
                self.mark_used(declared);
            }
            return;
        }
        if !names.complete || self.store.broken_results {
            return;
        }
        let help = match nearest(name, names.known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "a step computes {}",
                one_of(names.known.iter().map(String::as_str)).replace(" or ", " and ")
            ),
        };
        let message = format!("a step computes nothing called `{name}`");
        let span = self.word_in(span, name);
        self.report(Diagnostic::new(Code::UnknownName, span, message).help(help));
    }
}

/// The values that hooks can fetch by name.
struct Fetchable {
    known: Vec<String>,
    /// Whether the list is complete; it is not without a model.
    complete: bool,
}

impl Fetchable {
    fn of(model: Option<&typed::Model>, train: Option<&Train>) -> Fetchable {
        let mut known = Vec::new();
        if let Some(model) = model {
            let mode = &model.train;
            for (name, _) in mode
                .losses
                .iter()
                .chain(&mode.metrics)
                .chain(&mode.outputs)
                .chain(&mode.lets)
            {
                known.push(name.clone());
            }
            known.extend(model.inputs.iter().map(|i| i.name.clone()));
        }
        if let Some(train) = train {
            known.extend(train.schedules.iter().map(|(n, _)| n.clone()));
        }
        known.push("step".to_owned());
        known.dedup();
        Fetchable {
            known,
            complete: model.is_some(),
        }
    }
}
