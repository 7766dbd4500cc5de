//! `train`: schedules, clips, averages, loss scales, and how long.

use trainspec_ir::{DType, Span};

use crate::ast::{self, Expr, Pattern, SettingValue};
use crate::check::Checker;
use crate::check::averages::AverageSetting;
use crate::check::bound::Bound;
use crate::check::clips::ClipSetting;
use crate::check::groups::GroupSetting;
use crate::check::scope::{Frame, FrameKind, Target};
use crate::check::value::{ArgValue, Value};
use crate::diag::{Code, Diagnostic};
use crate::typed::{self, DataSet, Hook, HookKind, LossScale, Train, TrainEnd, VarId};

/// A clip or an average as it is set, before it is expanded.
pub(crate) struct Processing {
    kind: ProcessingKind,
    /// The variables that its patterns match, and where they stand.
    vars: Option<(Vec<VarId>, Span)>,
}

enum ProcessingKind {
    Clip(ClipSetting),
    Average(AverageSetting),
}

/// The settings, before their variables are resolved.
#[derive(Default)]
pub(crate) struct Settings {
    pub groups: Vec<GroupSetting>,
    processing: Vec<Processing>,
    /// The frozen variables, and the span of each `freeze`.
    pub frozen: Vec<(Vec<VarId>, Span)>,
}

/// The argument of optimizers that is drawn as a schedule.
const LEARNING_RATE: &str = "learning_rate";

impl Checker<'_> {
    pub(crate) fn train(
        &mut self,
        model: Option<&typed::Model>,
        data: &[DataSet],
    ) -> Option<Train> {
        let section = self.items.train.clone()?;
        if self.items.model.is_none() && !self.is_broken("model") {
            self.report(
                Diagnostic::new(
                    Code::MissingItem,
                    section.keyword,
                    "there is no model to train",
                )
                .help("write `model (x: f32[batch, n], ...) { ... loss ...; }`"),
            );
        }
        self.reject_repeated(&section.settings, "train");
        let mut train = Train::default();
        let mut settings = Settings::default();
        let frame = Frame::new(FrameKind::Train, String::new());
        let ((), rates) = self.in_program(|c| {
            c.framed(frame, |c| {
                for setting in &section.settings {
                    c.train_setting(setting, &mut train, &mut settings, model, data);
                }
            })
        });
        self.store.rates = rates.values.iter().map(|ty| (**ty).clone()).collect();
        train.rates = rates;
        for group in &settings.groups {
            name_rate(group, &mut train, model);
        }
        let broken = section
            .settings
            .iter()
            .any(|s| matches!(s.value, SettingValue::Bad(_)));
        let lacks_optimizer = !section.settings.iter().any(|s| s.word.text == "optimizer");
        if lacks_optimizer && !broken {
            self.report(
                Diagnostic::new(
                    Code::MissingSetting,
                    section.keyword,
                    "`train` has no optimizer",
                )
                .help("add `optimizer adam(learning_rate: 1e-3);`"),
            );
        }
        self.reject_lazy_accumulation(&section, &settings.groups, &train);
        if let Some(model) = model {
            self.give_out(&settings, &mut train, model);
            self.process(&settings.processing, &mut train, model);
        }
        Some(train)
    }

    fn train_setting(
        &mut self,
        setting: &ast::Setting,
        train: &mut Train,
        settings: &mut Settings,
        model: Option<&typed::Model>,
        data: &[DataSet],
    ) {
        let word = setting.word.text.as_str();
        let clauses: &[&str] = match word {
            "optimizer" => &["for", "minimizing"],
            "clip" | "ema" => &["for"],
            _ => &[],
        };
        if matches!(setting.value, SettingValue::Bad(_)) {
            return;
        }
        self.reject_clauses(setting, clauses);
        match word {
            "data" => train.data = self.used_data(setting, "train", model, data),
            "schedule" => self.schedule(setting, train),
            "optimizer" => settings.groups.extend(self.group(setting)),
            "clip" => {
                if let Some(bound) = self.call_setting(setting)
                    && let Some(clip) = self.clip(&bound)
                {
                    let kind = ProcessingKind::Clip(clip);
                    settings.processing.extend(self.processing(setting, kind));
                }
            }
            "ema" => {
                if let Some(bound) = self.setting("train", setting)
                    && let Some(average) = self.ema(&bound)
                {
                    let kind = ProcessingKind::Average(average);
                    settings.processing.extend(self.processing(setting, kind));
                }
            }
            "loss_scale" => {
                if let Some(bound) = self.call_setting(setting) {
                    train.loss_scale = self.loss_scale(&bound);
                }
            }
            "freeze" => {
                if self.setting("train", setting).is_some()
                    && let Some(expr) = only_value(setting)
                    && let Some(patterns) = self.patterns(expr)
                {
                    for (pattern, pattern_span) in patterns {
                        if let Some(vars) = self.matching(&pattern, pattern_span, "`freeze`") {
                            train.frozen.extend(&vars);
                            settings.frozen.push((vars, pattern_span));
                        }
                    }
                    train.frozen.sort();
                    train.frozen.dedup();
                }
            }
            "steps" | "epochs" | "seed" | "accumulate" => {
                let Some(bound) = self.setting("train", setting) else {
                    return;
                };
                match bound.signature.word {
                    "seed" => train.seed = bound.require("value"),
                    "accumulate" => train.accumulate = bound.require("count"),
                    "steps" => {
                        let end = TrainEnd::Steps(bound.require("count"));
                        self.set_end(train, end, bound.span);
                    }
                    "epochs" => {
                        let end = TrainEnd::Epochs(bound.require("count"));
                        self.set_end(train, end, bound.span);
                    }
                    other => unreachable!("`{other}` of `train` is converted above"),
                }
            }
            _ => self.unknown_setting("train", "`train`", &setting.word),
        }
    }

    fn set_end(&mut self, train: &mut Train, end: TrainEnd, span: Span) {
        if train.until.is_some() {
            let message = "the end of the training is set twice";
            self.report(
                Diagnostic::new(Code::DuplicateSetting, span, message)
                    .help("say `steps` or `epochs`, not both"),
            );
        }
        train.until = Some(end);
    }

    /// Warns of a training that only a flag, a signal or a program can end.
    pub(crate) fn warn_endless(&mut self, train: &Train, data: &[DataSet], hooks: &[Hook]) {
        let Some(set) = data.iter().find(|d| Some(&d.name) == train.data.as_ref()) else {
            return;
        };
        let may_end = |hook: &Hook| match hook.kind {
            HookKind::StopAt(_) | HookKind::EarlyStop(_) | HookKind::Registered(_) => true,
            HookKind::Checkpoint { .. }
            | HookKind::Summary { .. }
            | HookKind::Log { .. }
            | HookKind::Nan { .. }
            | HookKind::StepCounter { .. }
            | HookKind::Profile { .. }
            | HookKind::WaitForStep { .. }
            | HookKind::FinalOps { .. }
            | HookKind::Feed(_) => false,
        };
        let ends = train.until.is_some() || hooks.iter().any(may_end) || !set.is_endless();
        if ends || self.has_errors() {
            return;
        }
        let section = self.items.train.clone();
        let mut settings = section.iter().flat_map(|s| &s.settings);
        let data_span = settings.find(|s| s.word.text == "data").map(|s| s.span);
        let message = format!(
            "the training does not end by itself: `{}` repeats indefinitely",
            set.name
        );
        self.report(
            Diagnostic::new(Code::MissingSetting, data_span.unwrap_or_default(), message)
                .as_warning()
                .help("say `steps` or `epochs` in `train`, or run it with `--steps`"),
        );
    }

    /// A clip or an average with the variables that it is for.
    fn processing(&mut self, setting: &ast::Setting, kind: ProcessingKind) -> Option<Processing> {
        let vars = match self.for_clause(setting)? {
            Some(patterns) => {
                let what = format!("`{}`", setting.word.text);
                let mut all = Vec::new();
                for (pattern, span) in &patterns {
                    all.extend(self.matching(pattern, *span, &what)?);
                }
                all.sort();
                all.dedup();
                Some((all, patterns[0].1))
            }
            None => None,
        };
        Some(Processing { kind, vars })
    }

    /// Expands clips and averages, once the trained variables are known.
    fn process(&mut self, all: &[Processing], train: &mut Train, model: &typed::Model) {
        let updates = train.groups.iter().flat_map(|g| &g.updates);
        let updated: Vec<VarId> = updates.map(|u| u.variable).collect();
        let trained = self.trained_variables(&train.frozen);
        for one in all {
            let matched = one.vars.as_ref().map(|(vars, _)| vars.as_slice());
            let clip = match &one.kind {
                ProcessingKind::Clip(clip) => clip,
                ProcessingKind::Average(average) => {
                    let averages = self.expand_averages(average, matched, &trained, model);
                    train.averages.extend(averages);
                    continue;
                }
            };
            let selected = |v: &VarId| matched.is_none_or(|vars| vars.contains(v));
            let vars: Vec<VarId> = updated.iter().copied().filter(selected).collect();
            match (vars.as_slice(), &one.vars) {
                ([], Some((_, span))) if !self.has_errors() => {
                    let message = "this clip matches no variable that is trained";
                    self.report(Diagnostic::new(Code::GroupEmpty, *span, message));
                }
                ([], _) => {}
                (vars, _) => {
                    let clips = self.expand_clip(clip, vars);
                    train.clips.extend(clips);
                }
            }
        }
    }

    fn loss_scale(&mut self, bound: &Bound) -> Option<LossScale> {
        let (scale, wrong) = match bound.signature.word {
            "fixed" => {
                let scale: f64 = bound.require("scale");
                let wrong = (scale <= 0.0).then_some(("scale", "a scale must be positive"));
                (LossScale::Fixed(scale), wrong)
            }
            "dynamic" => {
                let initial = bound.get("initial").unwrap_or(32_768.0);
                let multiplier = bound.get("multiplier").unwrap_or(2.0);
                let wrong = match () {
                    () if initial < 1.0 => Some(("initial", "`initial` must be at least 1")),
                    () if multiplier <= 1.0 => Some(("multiplier", "`multiplier` must be above 1")),
                    () => None,
                };
                let scale = LossScale::Dynamic {
                    initial,
                    growth_steps: bound.get("growth_steps").unwrap_or(2_000),
                    multiplier,
                };
                (scale, wrong)
            }
            other => unreachable!("the loss scale `{other}` is refused, or converted here"),
        };
        if let Some((argument, message)) = wrong {
            let span = bound.span_of(argument);
            self.report(Diagnostic::new(Code::BadValue, span, message));
            return None;
        }
        Some(scale)
    }

    fn schedule(&mut self, setting: &ast::Setting, train: &mut Train) {
        let SettingValue::Assignment(Pattern::Name(name), expr) = &setting.value else {
            self.report(
                Diagnostic::new(
                    Code::Syntax,
                    setting.span,
                    "a schedule gives a name to a value",
                )
                .help("write `schedule lr = cosine_decay(1e-3, decay_steps: 2_000);`"),
            );
            return;
        };
        self.reject_duplicate(name, "schedule");
        let value = self.eval(expr);
        let tensor = self.as_tensor(&value, DType::F32, expr.span);
        let value = match tensor {
            Some(t) if t.ty.rank() == 0 && t.ty.dtype.is_float() => {
                train.schedules.push((name.text.clone(), t.id));
                // A number stays a compile-time value, so that its range can be checked.
                match value {
                    Value::Float(_) => value,
                    Value::Int(ref n) => match n.value() {
                        Some(n) => Value::Float(n as f64),
                        None => Value::Tensor(t),
                    },
                    _ => Value::Tensor(t),
                }
            }
            Some(t) => self.fail(
                Diagnostic::new(
                    Code::TypeMismatch,
                    expr.span,
                    "a schedule must be one floating-point number",
                )
                .label(format!("this is `{}`", t.ty)),
            ),
            None => Value::Poison,
        };
        self.declared
            .insert(name.span, ("schedule", name.text.clone()));
        self.bind_with(name, value, Target::Fixed("schedule"));
    }
}

/// The only argument of a setting, with a name or without.
fn only_value(setting: &ast::Setting) -> Option<&Expr> {
    match &setting.value {
        SettingValue::Value(expr) => Some(expr),
        SettingValue::Arguments(arguments) => arguments.first().map(|a| &a.value),
        SettingValue::None
        | SettingValue::Declaration(..)
        | SettingValue::Assignment(..)
        | SettingValue::Bad(_) => None,
    }
}

/// Gives a learning rate that is computed in the argument itself a name, so that it can be logged and drawn as a schedule can.
fn name_rate(group: &GroupSetting, train: &mut Train, model: Option<&typed::Model>) {
    let params = &group.def.ast.params;
    let is_rate = |(i, given): (usize, &ArgValue)| {
        let name = given.name.as_ref().or(params.get(i).map(|p| &p.name));
        let is_rate = name.is_some_and(|name| name.text == LEARNING_RATE);
        let Value::Tensor(t) = &given.value else {
            return None;
        };
        (is_rate && t.ty.rank() == 0 && t.ty.dtype.is_float()).then_some(t.id)
    };
    let Some(rate) = group.given.iter().enumerate().find_map(is_rate) else {
        return;
    };
    let modes = model.iter().map(|model| &model.train);
    let named = modes.flat_map(|mode| [&mode.losses, &mode.metrics, &mode.outputs, &mode.lets]);
    let named = named.chain([&train.schedules]);
    let mut inputs = model.iter().flat_map(|model| &model.inputs);
    let is_taken = named.flatten().any(|(name, _)| name == LEARNING_RATE)
        || inputs.any(|input| input.name == LEARNING_RATE);
    train.learning_rates.push(rate);
    if !is_taken && train.schedules.iter().all(|(_, id)| *id != rate) {
        train.schedules.push((LEARNING_RATE.to_owned(), rate));
    }
}
