//! Hooks: their arguments, and whether the names they fetch exist.

use trainspec_ir::{Span, TensorType};

use crate::ast::{self, ExprKind, SettingValue};
use crate::check::bound::Bound;
use crate::check::checkpoint::{Measured, slot_names};
use crate::check::scope::{Frame, FrameKind};
use crate::check::{Checker, glob};
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{
    self, DefaultHook, Eval, Hook, HookKind, Interval, Mode, Named, NamedKind, Registered, StopAt,
    Summary, SummaryKind, Train,
};

/// The default hook that a setting switches off: `checkpoint none;`.
fn switched_off(setting: &ast::Setting) -> Option<DefaultHook> {
    let SettingValue::Value(value) = &setting.value else {
        return None;
    };
    match &value.kind {
        ExprKind::Name(name) if name == "none" => {
            let mut all = DefaultHook::ALL.into_iter();
            all.find(|hook| hook.word() == setting.word.text)
        }
        _ => None,
    }
}

impl Checker<'_> {
    pub(crate) fn hooks(
        &mut self,
        model: Option<&typed::Model>,
        train: Option<&Train>,
        evals: &[Eval],
    ) -> (Vec<Hook>, Vec<DefaultHook>) {
        let Some(section) = self.items.hooks.clone() else {
            return Default::default();
        };
        self.reject_repeated(&section.settings, "hooks");
        let mut names = Fetchable::of(model.map(|model| (model, &model.train)), train);
        names.slots = slot_names(&self.store.variables, train);
        names.measured = model.map(|m| evals.iter().map(|e| Measured::of(e, m)).collect());
        let context = HookContext {
            model,
            evals,
            names,
            evaluated: Fetchable::of(model.map(|model| (model, &model.eval)), train),
        };
        let frame = Frame::new(FrameKind::Train, String::new());
        let off = section.settings.iter().filter_map(switched_off);
        let off: Vec<DefaultHook> = off.collect();
        let (hooks, _) = self.in_program(|c| {
            c.framed(frame, |c| {
                let mut hooks = Vec::new();
                for setting in &section.settings {
                    match switched_off(setting) {
                        Some(hook) => c.reject_others(hook, setting, &section.settings),
                        None => hooks.extend(c.hook(setting, &context)),
                    }
                }
                if off.contains(&DefaultHook::Checkpoint) {
                    c.require_folders(&hooks);
                }
                hooks
            })
        });
        (hooks, off)
    }

    /// Reports a hook that is switched off and set.
    fn reject_others(&mut self, hook: DefaultHook, off: &ast::Setting, settings: &[ast::Setting]) {
        // A word that stands once at most is reported as one that is set twice.
        let word = hook.word();
        let repeats = crate::builtins::find("hooks", word).is_some_and(|s| s.repeats);
        let other = settings
            .iter()
            .find(|s| s.word.text == word && s.word.span != off.word.span);
        if let Some(other) = other.filter(|_| repeats) {
            let message = format!("`{word} none` switches off what is set besides");
            self.report(
                Diagnostic::new(Code::DuplicateSetting, off.word.span, message)
                    .note_at(other.word.span, "set here")
                    .help(format!(
                        "remove `{word} none;`: what a spec sets replaces the default"
                    )),
            );
        }
    }

    /// Reports hooks that write files and have no folder.
    fn require_folders(&mut self, hooks: &[Hook]) {
        let saves = |hook: &Hook| matches!(hook.kind, HookKind::Checkpoint { .. });
        if hooks.iter().any(saves) {
            return;
        }
        for hook in hooks {
            if let HookKind::Summary { dir: None, .. }
            | HookKind::StepCounter { dir: None, .. }
            | HookKind::Profile { dir: None, .. } = &hook.kind
            {
                let word = hook.kind.word();
                let message = format!("`{word}` has no folder to write to");
                let help = format!(
                    "say `{word} (dir: \"runs/NAME\", ...)`, or remove `checkpoint none;`: it shares the folder of the checkpoints"
                );
                self.report(Diagnostic::new(Code::MissingArgument, hook.span, message).help(help));
            }
        }
    }

    fn hook(&mut self, setting: &ast::Setting, context: &HookContext<'_>) -> Option<Hook> {
        if matches!(setting.value, SettingValue::Bad(_)) {
            return None;
        }
        self.reject_clauses(setting, &[]);
        let word = setting.word.text.as_str();
        if let (Some(_), true) = (&setting.body, word != "summary") {
            let message = format!("`{word}` has nothing to say in braces");
            self.report(Diagnostic::new(Code::Syntax, setting.span, message));
        }
        let kind = match word {
            "hook" => HookKind::Registered(self.registered_hook(setting)?),
            "feed" => HookKind::Feed(self.registered_hook(setting)?),
            _ if crate::builtins::find("hooks", word).is_some() => {
                let bound = self.setting("hooks", setting)?;
                self.hook_kind(&bound, setting, context)?
            }
            _ => {
                self.unknown_setting("hooks", "`hooks`", &setting.word);
                return None;
            }
        };
        Some(Hook {
            kind,
            span: setting.word.span,
        })
    }

    /// `hook "name" (constants)`, `feed "name" (constants)`
    fn registered_hook(&mut self, setting: &ast::Setting) -> Option<Registered> {
        if let Some(registered) = self.registered(setting) {
            return registered;
        }
        let word = &setting.word.text;
        self.report(
            Diagnostic::new(
                Code::Syntax,
                setting.span,
                format!("`{word}` needs the name it is registered under"),
            )
            .help(format!("write `{word} \"my_{word}\" (threshold: 0.5);`")),
        );
        None
    }

    fn hook_kind(
        &mut self,
        bound: &Bound,
        setting: &ast::Setting,
        context: &HookContext<'_>,
    ) -> Option<HookKind> {
        let names = &context.names;
        let every = |otherwise: Interval| bound.get("every").unwrap_or(otherwise);
        let steps = Interval::Steps(100);
        let seconds = Interval::Seconds(600.0);
        Some(match bound.signature.word {
            "checkpoint" => self.checkpoint(bound, names)?,
            "summary" => {
                let mut values = Vec::new();
                for inner in setting.body.iter().flatten() {
                    values.extend(self.summary(inner, names));
                }
                HookKind::Summary {
                    every: every(steps),
                    dir: bound.get("dir"),
                    values,
                }
            }
            "log" => HookKind::Log {
                names: self.fetches(bound, names),
                every: every(steps),
                at_end: bound.get("at_end").unwrap_or(false),
            },
            "nan" => {
                let name: String = bound.require("name");
                self.check_name(&name, bound.span_of("name"), names);
                HookKind::Nan {
                    name,
                    fail: bound.get("fail").unwrap_or(true),
                }
            }
            "step_counter" => HookKind::StepCounter {
                every: every(steps),
                dir: bound.get("dir"),
            },
            "stop_at" => HookKind::StopAt(self.stop_at(bound)?),
            "profile" => HookKind::Profile {
                every: every(seconds),
                dir: bound.get("dir"),
                show_dataflow: bound.get("show_dataflow").unwrap_or(true),
                show_memory: bound.get("show_memory").unwrap_or(false),
            },
            "early_stop" => {
                HookKind::EarlyStop(self.early_stop(bound, context.model, context.evals)?)
            }
            "wait_for_step" => HookKind::WaitForStep {
                step: bound.require("step"),
                dir: bound.require("dir"),
            },
            "final_ops" => HookKind::FinalOps {
                names: self.fetches(bound, &context.evaluated),
            },
            other => unreachable!("the hook `{other}` is refused, or converted here"),
        })
    }

    fn stop_at(&mut self, bound: &Bound) -> Option<StopAt> {
        let blamed = match (bound.get("last_step"), bound.get("num_steps")) {
            (Some(last), None) => return Some(StopAt::LastStep(last)),
            (None, Some(count)) => return Some(StopAt::NumSteps(count)),
            (None, None) => bound.span,
            (Some(_), Some(_)) => bound.span_of("num_steps"),
        };
        let message = "`stop_at` needs `last_step` or `num_steps`, and not both";
        self.report(Diagnostic::new(Code::BadValue, blamed, message).help(
            "`last_step` counts from the beginning of all training, `num_steps` from the start of this run",
        ));
        None
    }

    fn summary(&mut self, setting: &ast::Setting, names: &Fetchable) -> Option<Summary> {
        if matches!(setting.value, SettingValue::Bad(_)) {
            return None;
        }
        self.reject_clauses(setting, &[]);
        if crate::builtins::find("summary", &setting.word.text).is_none() {
            self.unknown_setting("summary", "`summary`", &setting.word);
            return None;
        }
        let bound = self.setting("summary", setting)?;
        let max_outputs = || bound.get("max_outputs").unwrap_or(3);
        let kind = match bound.signature.word {
            "scalar" => SummaryKind::Scalar,
            "histogram" => SummaryKind::Histogram,
            "image" => SummaryKind::Image {
                max_outputs: max_outputs(),
            },
            "audio" => SummaryKind::Audio {
                sample_rate: bound.require("sample_rate"),
                max_outputs: max_outputs(),
            },
            "text" => SummaryKind::Text,
            other => unreachable!("the summary `{other}` is refused, or converted here"),
        };
        let fetched = self.fetches(&bound, names);
        self.check_summarized(kind, &fetched, names);
        Some(Summary {
            kind,
            names: fetched,
            span: bound.span,
        })
    }

    /// Reports values that are no images or sounds by their shapes.
    fn check_summarized(&mut self, kind: SummaryKind, fetched: &[Named], names: &Fetchable) {
        let (what, shape, ranks) = match kind {
            SummaryKind::Image { .. } => ("an image", "[batch, height, width, channels]", [4, 4]),
            SummaryKind::Audio { .. } => ("sound", "[batch, frames, channels]", [2, 3]),
            SummaryKind::Scalar | SummaryKind::Histogram | SummaryKind::Text => return,
        };
        let mut wrong = Vec::new();
        for named in fetched {
            let types: Vec<(&String, &TensorType)> = match &named.kind {
                NamedKind::Value(name) => {
                    let known = names.types.iter().filter(|(n, _)| n == name);
                    known.map(|(n, ty)| (n, ty)).collect()
                }
                NamedKind::Variables(pattern) => {
                    let variables = self.store.variables.iter();
                    let matching = variables.filter(|v| glob::matches(pattern, &v.name));
                    matching.map(|v| (&v.name, &v.ty)).collect()
                }
            };
            let unfit = types.iter().find(|(_, ty)| !ranks.contains(&ty.rank()));
            if let Some((name, ty)) = unfit {
                let message = format!("`{name}` is `{ty}`, and {what} has the shape {shape}");
                wrong.push(Diagnostic::new(Code::ShapeMismatch, named.span, message));
            }
        }
        wrong
            .into_iter()
            .for_each(|diagnostic| self.report(diagnostic));
    }

    /// The `names` of a hook: each must be a value that a step computes, each pattern must match a variable.
    fn fetches(&mut self, bound: &Bound, names: &Fetchable) -> Vec<Named> {
        let listed: Vec<Named> = bound.require("names");
        for named in &listed {
            match &named.kind {
                NamedKind::Value(name) => self.check_name(name, named.span, names),
                NamedKind::Variables(pattern) => {
                    let any = self
                        .store
                        .variables
                        .iter()
                        .any(|v| glob::matches(pattern, &v.name));
                    if !any {
                        let what = format!("`{}`", bound.signature.word);
                        self.matching(pattern, named.span, &what);
                    }
                }
            }
        }
        listed
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
        if !names.complete || self.store.broken_results || self.is_broken(name) {
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
        self.report(Diagnostic::new(Code::UnknownName, span, message).help(help));
    }
}

/// What hooks are checked against.
struct HookContext<'a> {
    model: Option<&'a typed::Model>,
    evals: &'a [Eval],
    /// The values of a step.
    names: Fetchable,
    /// The values of an evaluation.
    evaluated: Fetchable,
}

/// The values that hooks can fetch by name.
pub(super) struct Fetchable {
    known: Vec<String>,
    /// The types of values and inputs of the model.
    types: Vec<(String, TensorType)>,
    /// Whether the list is complete; it is not without a model.
    pub(super) complete: bool,
    /// The names of the state besides variables.
    pub(super) slots: Vec<String>,
    /// What the evaluations measure; `None` without a model.
    pub(super) measured: Option<Vec<Measured>>,
}

impl Fetchable {
    fn of(model: Option<(&typed::Model, &Mode)>, train: Option<&Train>) -> Fetchable {
        let (mut known, mut types) = (Vec::new(), Vec::new());
        if let Some((model, mode)) = model {
            for (name, value) in mode
                .losses
                .iter()
                .chain(&mode.metrics)
                .chain(&mode.outputs)
                .chain(&mode.lets)
            {
                known.push(name.clone());
                let ty = TensorType::clone(&mode.program.values[value.0 as usize]);
                types.push((name.clone(), ty));
            }
            types.extend(model.inputs.iter().map(|i| (i.name.clone(), i.ty.clone())));
            known.extend(model.inputs.iter().map(|i| i.name.clone()));
        }
        if let Some(train) = train {
            known.extend(train.schedules.iter().map(|(n, _)| n.clone()));
        }
        known.push("step".to_owned());
        known.dedup();
        Fetchable {
            known,
            types,
            complete: model.is_some(),
            slots: Vec::new(),
            measured: None,
        }
    }
}
