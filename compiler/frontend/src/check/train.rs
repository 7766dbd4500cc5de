//! `train`: schedules, groups of variables, clips, averages.

use std::rc::Rc;

use trainspec_ir::{DType, Span};

use crate::ast::{self, Clause, Expr, ExprKind, PostfixKind, SettingValue};
use crate::check::Checker;
use crate::check::glob;
use crate::check::scope::{Frame, FrameKind, Target};
use crate::check::value::{Def, Given, Value};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, Constant, DataSet, Interval, LossScale, Role, Train, VarId};

/// Patterns over variable names, and where each stands. A variable is meant that matches one of them.
pub(crate) type Patterns = Vec<(String, Span)>;

/// An optimizer as it is set, before variables are given out.
pub(crate) struct GroupSetting {
    pub def: Rc<Def>,
    pub given: Vec<Given>,
    pub options: Vec<(String, Constant)>,
    /// Where `lazy: true` is asked for.
    pub lazy: Option<Span>,
    pub patterns: Option<Patterns>,
    pub loss: Option<ast::Name>,
    pub span: Span,
}

/// A clip or an average as it is set, before it is expanded.
pub(crate) struct Processing {
    word: String,
    setting: typed::Setting,
    /// The variables that its patterns match, and where they stand.
    vars: Option<(Vec<VarId>, Span)>,
}

/// What is set, before it is known which variables it is for.
#[derive(Default)]
struct Settings {
    groups: Vec<GroupSetting>,
    processing: Vec<Processing>,
    /// What is frozen, and where.
    frozen: Vec<(Vec<VarId>, Span)>,
}

/// Arguments that every optimizer takes.
const OPTIONS: [(&str, &[&str]); 3] = [
    ("lazy", &[]),
    ("gate", &["none", "op", "graph"]),
    ("aggregate", &["add_n", "tree"]),
];

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
        self.refuse_repeated(&section.settings, "train");
        let mut train = Train {
            data: None,
            seed: 0,
            until: None,
            accumulate: 1,
            rates: typed::Program::default(),
            schedules: Vec::new(),
            groups: Vec::new(),
            frozen: Vec::new(),
            clips: Vec::new(),
            averages: Vec::new(),
            loss_scale: None,
        };
        let mut settings = Settings::default();
        let frame = Frame::new(FrameKind::Train, String::new());
        let ((), rates) = self.in_program(|c| {
            c.framed(frame, |c| {
                for setting in &section.settings {
                    c.train_setting(setting, &mut train, &mut settings, model, data);
                }
            })
        });
        self.world.rates = rates.values.iter().map(|ty| (**ty).clone()).collect();
        train.rates = rates;
        let broken = section
            .settings
            .iter()
            .any(|s| s.value == SettingValue::Bad);
        let wants_optimizer = !section.settings.iter().any(|s| s.word.text == "optimizer");
        if wants_optimizer && !broken {
            self.report(
                Diagnostic::new(
                    Code::MissingSetting,
                    section.keyword,
                    "`train` has no optimizer",
                )
                .help("add `optimizer adam(learning_rate: 1e-3);`"),
            );
        }
        self.refuse_lazy_sums(&section, &settings.groups, &train);
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
        if setting.value == SettingValue::Bad {
            return;
        }
        self.refuse_clauses(setting, clauses);
        match word {
            "data" => train.data = self.used_data(setting, "train", model, data),
            "schedule" => self.schedule(setting, train),
            "optimizer" => settings.groups.extend(self.group(setting)),
            "clip" => {
                if let Some(bound) = self.call_setting(setting)
                    && self.check_clip(&bound)
                {
                    settings.processing.extend(self.processing(setting, bound));
                }
            }
            "ema" => {
                if let Some(mut bound) = self.setting("train", setting)
                    && self.check_average(&bound)
                {
                    // Values that are named inside are told of where they stand.
                    bound.span = setting.span;
                    settings.processing.extend(self.processing(setting, bound));
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
                    for (pattern, place) in patterns {
                        if let Some(vars) = self.matching(&pattern, place, "`freeze`") {
                            train.frozen.extend(&vars);
                            settings.frozen.push((vars, place));
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
                let Some((_, Constant::Int(n))) = bound.arguments.first() else {
                    return;
                };
                let n = n.value().unwrap_or(1);
                match word {
                    "seed" => train.seed = n,
                    "accumulate" => train.accumulate = n,
                    _ => {
                        if train.until.is_some() {
                            self.report(
                                Diagnostic::new(
                                    Code::DuplicateSetting,
                                    setting.word.span,
                                    "the end of the training is set twice",
                                )
                                .help("say `steps` or `epochs`, not both"),
                            );
                        }
                        train.until = Some(match word {
                            "steps" => Interval::Steps(n),
                            _ => Interval::Epochs(n),
                        });
                    }
                }
            }
            _ => self.unknown_setting("train", "`train`", &setting.word),
        }
    }

    /// A clip or an average with the variables that it is for.
    fn processing(&mut self, setting: &ast::Setting, bound: typed::Setting) -> Option<Processing> {
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
        Some(Processing {
            word: setting.word.text.clone(),
            setting: bound,
            vars,
        })
    }

    /// Expands clips and averages, now that it is known what is trained.
    fn process(&mut self, all: &[Processing], train: &mut Train, model: &typed::Model) {
        let updates = train.groups.iter().flat_map(|g| &g.updates);
        let updated: Vec<VarId> = updates.map(|u| u.variable).collect();
        let trained = self.trained_variables(&train.frozen);
        for one in all {
            let matched = one.vars.as_ref().map(|(vars, _)| vars.as_slice());
            if one.word == "ema" {
                let averages = self.expand_averages(&one.setting, matched, &trained, model);
                train.averages.extend(averages);
                continue;
            }
            let wanted = |v: &VarId| matched.is_none_or(|vars| vars.contains(v));
            let vars: Vec<VarId> = updated.iter().copied().filter(wanted).collect();
            match (vars.as_slice(), &one.vars) {
                ([], Some((_, span))) if !self.has_errors() => {
                    let message = "this clip matches no variable that is trained";
                    self.report(Diagnostic::new(Code::GroupEmpty, *span, message));
                }
                ([], _) => {}
                (vars, _) => {
                    let clips = self.expand_clip(&one.setting, vars);
                    train.clips.extend(clips);
                }
            }
        }
    }

    fn loss_scale(&mut self, setting: &typed::Setting) -> Option<LossScale> {
        let number = |name: &str, otherwise: f64| match setting.get(name) {
            Some(Constant::Float(x)) => *x,
            Some(Constant::Int(n)) => n.value().map_or(otherwise, |n| n as f64),
            _ => otherwise,
        };
        let (scale, wrong) = match setting.word.as_str() {
            "fixed" => {
                let scale = number("scale", 1.0);
                let wrong = (scale <= 0.0).then_some("a scale must be positive");
                (LossScale::Fixed(scale), wrong)
            }
            _ => {
                let (initial, multiplier) =
                    (number("initial", 32_768.0), number("multiplier", 2.0));
                let wrong = match () {
                    () if initial < 1.0 => Some("`initial` must be at least 1"),
                    () if multiplier <= 1.0 => Some("`multiplier` must be above 1"),
                    () => None,
                };
                let scale = LossScale::Dynamic {
                    initial,
                    growth_steps: number("growth_steps", 2_000.0) as i64,
                    multiplier,
                };
                (scale, wrong)
            }
        };
        if let Some(message) = wrong {
            self.report(Diagnostic::new(Code::BadValue, setting.span, message));
            return None;
        }
        Some(scale)
    }

    fn schedule(&mut self, setting: &ast::Setting, train: &mut Train) {
        let SettingValue::Assignment(name, expr) = &setting.value else {
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
        self.refuse_duplicate(name, "schedule");
        let value = self.eval(expr);
        let tensor = self.as_tensor(&value, DType::F32, expr.span);
        let value = match tensor {
            Some(t) if t.ty.rank() == 0 && t.ty.dtype.is_float() => {
                train.schedules.push((name.text.clone(), t.id));
                // A number stays known, so that whoever takes it can refuse it.
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
        self.bind_with(name, value, Target::Fixed("schedule"));
    }

    fn group(&mut self, setting: &ast::Setting) -> Option<GroupSetting> {
        let (name, arguments, span) = match &setting.value {
            SettingValue::Value(Expr {
                kind: ExprKind::Name(name),
                span,
            }) => (name.clone(), Vec::new(), *span),
            SettingValue::Value(Expr {
                kind: ExprKind::Postfix(base, ops),
                span,
            }) => match (&base.kind, ops.as_slice()) {
                (ExprKind::Name(name), [only]) => match &only.kind {
                    PostfixKind::Call(arguments) => (name.clone(), arguments.clone(), *span),
                    _ => return self.no_optimizer(setting.span),
                },
                _ => return self.no_optimizer(setting.span),
            },
            _ => return self.no_optimizer(setting.span),
        };
        let patterns = self.for_clause(setting)?;
        let loss = setting.clauses.iter().find_map(|c| match c {
            Clause::Minimizing(name) => Some(name.clone()),
            Clause::For(_) => None,
        });
        let Some(def) = self.lookup_optimizer(&name) else {
            if self.is_broken(&name) {
                return None;
            }
            let known = self.known_optimizers();
            let help = match nearest(&name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "define it: `optimizer NAME(learning_rate) { param <- param - learning_rate * grad; }`".to_owned(),
            };
            let place = Span {
                end: span.start + name.len() as u32,
                ..span
            };
            let message = format!("there is no optimizer `{name}`");
            self.report(Diagnostic::new(Code::UnknownName, place, message).help(help));
            return None;
        };
        let mut options = Vec::new();
        let mut own = Vec::new();
        let mut lazy = None;
        for (i, argument) in arguments.into_iter().enumerate() {
            let place = || def.ast.params.get(i).map(|p| p.name.text.as_str());
            let key = argument.name.as_ref().map(|n| n.text.as_str());
            // Of the arguments that are given by their place, only `lazy` can be both an option and a parameter.
            let key = key.or_else(|| place().filter(|p| *p == "lazy"));
            let option = OPTIONS.iter().find(|(n, _)| Some(*n) == key);
            let declared = def
                .ast
                .params
                .iter()
                .any(|p| Some(p.name.text.as_str()) == key);
            if let Some((name, words)) = option.filter(|(name, _)| !declared || *name == "lazy") {
                let value = self.option(name, words, &argument.value)?;
                if *name == "lazy" && value == Constant::Bool(true) {
                    lazy = Some(argument.value.span);
                }
                options.push(((*name).to_owned(), value));
            }
            if option.is_none() || declared {
                own.push(argument);
            }
        }
        // A definition says what holds where nothing is said.
        let default = def.ast.params.iter().find(|p| p.name.text == "lazy");
        if let Some(default) = default.and_then(|p| p.default.clone())
            && !options.iter().any(|(name, _)| name == "lazy")
        {
            let value = self.option("lazy", &[], &default)?;
            options.push(("lazy".to_owned(), value));
        }
        Some(GroupSetting {
            given: self.arguments(&own),
            def,
            options,
            lazy,
            patterns,
            loss,
            span,
        })
    }

    /// Gradients of several batches are added up as a whole, so no row of them stays out.
    fn refuse_lazy_sums(&mut self, section: &ast::Section, groups: &[GroupSetting], train: &Train) {
        let setting = section
            .settings
            .iter()
            .find(|s| s.word.text == "accumulate");
        let Some(setting) = setting.filter(|_| train.accumulate > 1) else {
            return;
        };
        for place in groups.iter().filter_map(|g| g.lazy) {
            let message = "`lazy` updates rows that were read, and `accumulate` adds up all rows";
            self.report(
                Diagnostic::new(Code::BadValue, place, message)
                    .note_at(setting.span, "gradients are added up here")
                    .help("leave one of them out; rows that were not read have a gradient of 0"),
            );
        }
    }

    fn no_optimizer(&mut self, span: Span) -> Option<GroupSetting> {
        self.report(
            Diagnostic::new(
                Code::Syntax,
                span,
                "`optimizer` needs an optimizer and its arguments",
            )
            .help("write `optimizer adam(learning_rate: 1e-3);`"),
        );
        None
    }

    fn option(&mut self, name: &str, words: &[&str], expr: &Expr) -> Option<Constant> {
        if words.is_empty() {
            let value = self.eval(expr);
            return self
                .as_bool(&value, expr.span, &format!("`{name}`"))
                .map(Constant::Bool);
        }
        match &expr.kind {
            ExprKind::Name(word) | ExprKind::Text(word) if words.contains(&word.as_str()) => {
                Some(Constant::Word(word.clone()))
            }
            _ => {
                let message = format!("this is no value for `{name}`");
                let help = format!("it can be {}", crate::diag::one_of(words.iter().copied()));
                self.report(Diagnostic::new(Code::BadValue, expr.span, message).help(help));
                None
            }
        }
    }

    /// The variables that a pattern matches; an error where it matches none.
    pub(crate) fn matching(&mut self, pattern: &str, span: Span, what: &str) -> Option<Vec<VarId>> {
        self.glob(pattern, span)?;
        let found: Vec<VarId> = (0..self.world.variables.len() as u32)
            .map(VarId)
            .filter(|v| glob::matches(pattern, &self.world.variables[v.0 as usize].name))
            .collect();
        if found.is_empty() {
            // What else is wrong may be why; another pattern is not.
            if !self
                .errors
                .iter()
                .any(|e| e.is_error() && e.code != Code::GroupEmpty)
            {
                let error = self.no_match(pattern, span, what);
                self.report(error);
            }
            return None;
        }
        Some(found)
    }

    fn no_match(&self, pattern: &str, span: Span, what: &str) -> Diagnostic {
        let names: Vec<&str> = self
            .world
            .variables
            .iter()
            .map(|v| v.name.as_str())
            .collect();
        let help = match nearest(
            pattern.trim_end_matches("/**").trim_end_matches("/*"),
            scopes(&names),
        ) {
            Some(near) => format!("did you mean \"{near}/**\"?"),
            None => {
                let shown: Vec<String> = names.iter().take(6).map(|n| format!("`{n}`")).collect();
                let more = if names.len() > 6 { ", …" } else { "" };
                format!("the variables are {}{more}", shown.join(", "))
            }
        };
        Diagnostic::new(
            Code::GroupEmpty,
            span,
            format!("{what} matches no variable: \"{pattern}\""),
        )
        .help(help)
    }

    /// Gives each trained variable to the last group that matches it.
    fn give_out(&mut self, settings: &Settings, train: &mut Train, model: &typed::Model) {
        let groups = settings.groups.as_slice();
        let params: Vec<VarId> = (0..self.world.variables.len() as u32)
            .map(VarId)
            .filter(|v| self.world.variables[v.0 as usize].role == Role::Param)
            .collect();
        let mut owned: Vec<Vec<VarId>> = vec![Vec::new(); groups.len()];
        let mut orphans = Vec::new();
        for v in params.iter().copied().filter(|v| !train.frozen.contains(v)) {
            match groups.iter().rposition(|g| self.is_for(g, v)) {
                Some(i) => owned[i].push(v),
                None => orphans.push(v),
            }
        }
        if self.has_errors() {
            // What is missing may be missing because of those.
            orphans.clear();
        }
        if let (Some(first), false) = (orphans.first(), groups.is_empty()) {
            let name = self.world.variables[first.0 as usize].name.clone();
            let more = match orphans.len() {
                1 => String::new(),
                n => format!(" (and {} more)", n - 1),
            };
            let section = self.items.train.clone();
            let place = section.map_or(groups[0].span, |s| s.keyword);
            self.report(
                Diagnostic::new(
                    Code::NoOptimizer,
                    place,
                    format!("no optimizer trains the variable `{name}`{more}"),
                )
                .help(
                    "add an optimizer without `for`, or leave variables out with `freeze \"...\";`",
                ),
            );
        }
        let mut scalar_names = std::collections::BTreeSet::new();
        // What else is wrong may be why a group has no variable; another group is not.
        let other = |e: &Diagnostic| e.is_error() && e.code != Code::GroupEmpty;
        let fine = !self.errors.iter().any(other);
        for (i, group) in groups.iter().enumerate() {
            if fine && !self.matches_nothing(group, &params) && owned[i].is_empty() {
                self.left_with_none(settings, i, &params);
            }
            let Some(loss) = self.loss_of(group, model) else {
                continue;
            };
            let typed = self.expand_group(group, loss, &owned[i], &mut scalar_names);
            train.groups.push(typed);
        }
    }

    /// Whether a variable is one that a group is set for.
    fn is_for(&self, group: &GroupSetting, var: VarId) -> bool {
        let name = &self.world.variables[var.0 as usize].name;
        let patterns = group.patterns.as_ref();
        patterns.is_none_or(|all| all.iter().any(|(pattern, _)| glob::matches(pattern, name)))
    }

    /// Refuses patterns of a group that match nothing.
    fn matches_nothing(&mut self, group: &GroupSetting, params: &[VarId]) -> bool {
        let mut found = false;
        for (pattern, span) in group.patterns.iter().flatten() {
            let name = |v: &VarId| self.world.variables[v.0 as usize].name.as_str();
            if !params.is_empty() && !params.iter().any(|v| glob::matches(pattern, name(v))) {
                let error = self.no_match(pattern, *span, "this group");
                self.report(error);
                found = true;
            }
        }
        found
    }

    /// Tells why a group has no variable: there is none, all are frozen, or later groups take them.
    fn left_with_none(&mut self, settings: &Settings, i: usize, params: &[VarId]) {
        let group = &settings.groups[i];
        let name = group.def.name();
        let own: Vec<VarId> = params
            .iter()
            .copied()
            .filter(|v| self.is_for(group, *v))
            .collect();
        let frozen = |v: &VarId| settings.frozen.iter().find(|(vars, _)| vars.contains(v));
        let error = match own.as_slice() {
            _ if params.is_empty() => Diagnostic::new(
                Code::GroupEmpty,
                group.span,
                "the model has no variables to train",
            )
            .help("layers and `param` make variables"),
            own if own.iter().all(|v| frozen(v).is_some()) => {
                let message = format!("`{name}` is left with no variable: all are frozen");
                let mut error = Diagnostic::new(Code::GroupEmpty, group.span, message);
                let mut places: Vec<Span> = own.iter().filter_map(frozen).map(|f| f.1).collect();
                places.dedup();
                for place in places {
                    error = error.note_at(place, "this freezes them");
                }
                error.help("freeze fewer variables")
            }
            own => {
                let left = |v: &&VarId| frozen(v).is_none();
                let takes = |g: &&GroupSetting| own.iter().filter(left).any(|v| self.is_for(g, *v));
                let later = settings.groups[i + 1..].iter().find(takes).map(|g| g.span);
                let message = format!(
                    "`{name}` is left with no variable: the last matching group trains each"
                );
                let error = Diagnostic::new(Code::GroupEmpty, group.span, message)
                    .help("put the general optimizer first and the special ones behind it");
                match later {
                    Some(later) => error.note_at(later, "a later group takes them"),
                    None => error,
                }
            }
        };
        self.report(error);
    }

    fn loss_of(&mut self, group: &GroupSetting, model: &typed::Model) -> Option<String> {
        let losses = &model.train.losses;
        let known: Vec<&str> = losses.iter().map(|(n, _)| n.as_str()).collect();
        match &group.loss {
            Some(name) if known.contains(&name.text.as_str()) => Some(name.text.clone()),
            Some(name) => {
                let help = match nearest(&name.text, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "the losses are {}",
                        crate::diag::one_of(known.iter().copied())
                    ),
                };
                if !self.world.broken_results {
                    let message = format!("the model has no loss `{}`", name.text);
                    self.report(Diagnostic::new(Code::UnknownName, name.span, message).help(help));
                }
                None
            }
            None => match known.as_slice() {
                [only] => Some((*only).to_owned()),
                [] => {
                    if !self.world.broken_results && !self.has_errors() {
                        self.report(
                            Diagnostic::new(
                                Code::MissingItem,
                                group.span,
                                "the model has no loss to minimize",
                            )
                            .help("add `loss ...;` to the model"),
                        );
                    }
                    None
                }
                several => {
                    let message =
                        "the model has several losses: say which one this optimizer minimizes";
                    let help = format!("add `minimizing {}`", several[0]);
                    self.report(
                        Diagnostic::new(Code::MissingArgument, group.span, message).help(help),
                    );
                    None
                }
            },
        }
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
        | SettingValue::Bad => None,
    }
}

/// The scopes that names lie in.
fn scopes<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = names
        .iter()
        .filter_map(|n| Some(n.rsplit_once('/')?.0))
        .collect();
    found.dedup();
    found
}
