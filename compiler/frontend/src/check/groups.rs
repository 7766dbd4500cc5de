//! Optimizer groups (parameter groups): which optimizer trains which variables, and errors for one that trains none.

use std::sync::Arc;

use trainspec_ir::Span;

use crate::ast::{self, Clause, Expr, ExprKind, PostfixKind, SettingValue};
use crate::check::Checker;
use crate::check::glob;
use crate::check::train::Settings;
use crate::check::value::{ArgValue, Def, Value};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, Aggregate, Gate, GroupOptions, Lazy, Role, Train, VarId};

/// Glob patterns over variable names with their spans. A variable is selected if it matches one of them.
pub(crate) type Patterns = Vec<(String, Span)>;

/// An optimizer setting, before variables are assigned to it.
pub(crate) struct GroupSetting {
    pub def: Arc<Def>,
    pub given: Vec<ArgValue>,
    pub options: GroupOptions,
    /// `name: "Own"`: what slots are called after instead of the optimizer.
    pub name: Option<String>,
    /// The span of `lazy: true`, where the setting itself says so.
    pub lazy: Option<Span>,
    pub patterns: Option<Patterns>,
    pub loss: Option<ast::Name>,
    pub span: Span,
}

/// Arguments that every optimizer takes.
const OPTIONS: [&str; 6] = [
    "lazy",
    "name",
    "gate",
    "aggregate",
    "use_locking",
    "colocate_gradients_with_ops",
];

const GATES: [(&str, Gate); 3] = [
    ("none", Gate::None),
    ("op", Gate::Op),
    ("graph", Gate::Graph),
];

const AGGREGATES: [(&str, Aggregate); 2] = [("add_n", Aggregate::AddN), ("tree", Aggregate::Tree)];

impl Checker<'_> {
    pub(crate) fn group(&mut self, setting: &ast::Setting) -> Option<GroupSetting> {
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
            let name_span = Span {
                end: span.start + name.len() as u32,
                ..span
            };
            let message = format!("there is no optimizer `{name}`");
            self.report(Diagnostic::new(Code::UnknownName, name_span, message).help(help));
            return None;
        };
        let mut options = GroupOptions {
            lazy: None,
            gate: Gate::Op,
            aggregate: Aggregate::AddN,
        };
        let mut group_name = None;
        let mut own = Vec::new();
        let mut given: Vec<(&str, Span)> = Vec::new();
        for (i, argument) in arguments.into_iter().enumerate() {
            let positional_name = || def.ast.params.get(i).map(|p| p.name.text.as_str());
            let key = argument.name.as_ref().map(|n| n.text.as_str());
            // Of the positional arguments, only `lazy` can be both an option and a parameter.
            let key = key.or_else(|| positional_name().filter(|p| *p == "lazy"));
            let option = OPTIONS.into_iter().find(|name| Some(*name) == key);
            let declared = def
                .ast
                .params
                .iter()
                .any(|p| Some(p.name.text.as_str()) == key);
            if let Some(name) = option.filter(|name| !declared || *name == "lazy") {
                let value = &argument.value;
                match given.iter().find(|(known, _)| *known == name) {
                    // Those of the definition are rejected by its call.
                    Some((_, first)) if !declared => {
                        let message = format!("`{name}` is given twice");
                        self.report(
                            Diagnostic::new(Code::DuplicateArgument, value.span, message)
                                .note_at(*first, "given here first"),
                        );
                    }
                    _ => given.push((name, value.span)),
                }
                match name {
                    "lazy" => options.lazy = Some(self.lazy(value, value.span)?),
                    "name" => group_name = Some(self.group_name(value)?),
                    // Every result is deterministic, so there is nothing to lock and no device to choose.
                    "use_locking" | "colocate_gradients_with_ops" => {
                        let on = self.eval(value);
                        self.as_bool(&on, value.span, &format!("`{name}`"))?;
                    }
                    "gate" => options.gate = self.option(name, &GATES, value)?,
                    "aggregate" => options.aggregate = self.option(name, &AGGREGATES, value)?,
                    other => unreachable!("`{other}` is no option"),
                }
            }
            if option.is_none() || declared {
                own.push(argument);
            }
        }
        let lazy = options.lazy.filter(|lazy| lazy.on).map(|lazy| lazy.span);
        // The default is that of the definition.
        let default = def.ast.params.iter().find(|p| p.name.text == "lazy");
        if let Some(default) = default.and_then(|p| p.default.clone())
            && options.lazy.is_none()
        {
            options.lazy = Some(self.lazy(&default, span)?);
        }
        Some(GroupSetting {
            given: self.arguments(&own),
            def,
            options,
            name: group_name,
            lazy,
            patterns,
            loss,
            span,
        })
    }

    /// Rejects `lazy` together with gradient accumulation, which makes gradients dense.
    pub(crate) fn reject_lazy_accumulation(
        &mut self,
        section: &ast::Section,
        groups: &[GroupSetting],
        train: &Train,
    ) {
        let setting = section
            .settings
            .iter()
            .find(|s| s.word.text == "accumulate");
        let Some(setting) = setting.filter(|_| train.accumulate > 1) else {
            return;
        };
        for lazy_span in groups.iter().filter_map(|g| g.lazy) {
            let message = "`lazy` updates rows that were read, and `accumulate` adds up all rows";
            self.report(
                Diagnostic::new(Code::BadValue, lazy_span, message)
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

    /// The value of `lazy`, with the span that errors point at.
    fn lazy(&mut self, expr: &Expr, span: Span) -> Option<Lazy> {
        let value = self.eval(expr);
        let on = self.as_bool(&value, expr.span, "`lazy`")?;
        Some(Lazy { on, span })
    }

    /// `name: "Own"`
    fn group_name(&mut self, expr: &Expr) -> Option<String> {
        let name = match self.eval(expr) {
            Value::Str(name) => name.to_string(),
            other => {
                self.wrong_kind(expr.span, "a string for `name`", &other);
                return None;
            }
        };
        let is_char = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_char) {
            return Some(name);
        }
        let message = format!("`{name}` is no name of an optimizer");
        let help = "it begins with a letter or digit; then also `_`, `.` and `-` may come";
        self.report(Diagnostic::new(Code::BadValue, expr.span, message).help(help));
        None
    }

    fn option<T: Copy>(&mut self, name: &str, values: &[(&str, T)], expr: &Expr) -> Option<T> {
        let word = match &expr.kind {
            ExprKind::Name(word) | ExprKind::Str(word) => word.as_str(),
            _ => "",
        };
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == word) {
            return Some(*value);
        }
        let message = format!("this is no value for `{name}`");
        let words = values.iter().map(|(word, _)| *word);
        let help = format!("it can be {}", crate::diag::one_of(words));
        self.report(Diagnostic::new(Code::BadValue, expr.span, message).help(help));
        None
    }

    /// The variables that a pattern matches; an error where it matches none.
    pub(crate) fn matching(&mut self, pattern: &str, span: Span, what: &str) -> Option<Vec<VarId>> {
        self.glob(pattern, span)?;
        let found: Vec<VarId> = (0..self.store.variables.len() as u32)
            .map(VarId)
            .filter(|v| glob::matches(pattern, &self.store.variables[v.0 as usize].name))
            .collect();
        if found.is_empty() {
            // Another error may be the reason; another unmatched pattern is not.
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
            .store
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

    /// Assigns each trained variable to the last group that matches it.
    pub(crate) fn give_out(
        &mut self,
        settings: &Settings,
        train: &mut Train,
        model: &typed::Model,
    ) {
        let groups = settings.groups.as_slice();
        let params: Vec<VarId> = (0..self.store.variables.len() as u32)
            .map(VarId)
            .filter(|v| self.store.variables[v.0 as usize].role == Role::Param)
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
            // Earlier errors may be the reason.
            orphans.clear();
        }
        if let (Some(first), false) = (orphans.first(), groups.is_empty()) {
            let name = self.store.variables[first.0 as usize].name.clone();
            let more = match orphans.len() {
                1 => String::new(),
                n => format!(" (and {} more)", n - 1),
            };
            let section = self.items.train.clone();
            let blamed = section.map_or(groups[0].span, |s| s.keyword);
            self.report(
                Diagnostic::new(
                    Code::NoOptimizer,
                    blamed,
                    format!("no optimizer trains the variable `{name}`{more}"),
                )
                .help(
                    "add an optimizer without `for`, or leave variables out with `freeze \"...\";`",
                ),
            );
        }
        let mut scalar_names = std::collections::BTreeSet::new();
        // Another error may be why a group has no variable; another empty group is not.
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
        let name = &self.store.variables[var.0 as usize].name;
        let patterns = group.patterns.as_ref();
        patterns.is_none_or(|all| all.iter().any(|(pattern, _)| glob::matches(pattern, name)))
    }

    /// Rejects patterns of a group that match nothing.
    fn matches_nothing(&mut self, group: &GroupSetting, params: &[VarId]) -> bool {
        let mut found = false;
        for (pattern, span) in group.patterns.iter().flatten() {
            let name = |v: &VarId| self.store.variables[v.0 as usize].name.as_str();
            if !params.is_empty() && !params.iter().any(|v| glob::matches(pattern, name(v))) {
                let error = self.no_match(pattern, *span, "this group");
                self.report(error);
                found = true;
            }
        }
        found
    }

    /// Reports why a group has no variable: there is none, all are frozen, or later groups take them.
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
                let mut spans: Vec<Span> = own.iter().filter_map(frozen).map(|f| f.1).collect();
                spans.dedup();
                for span in spans {
                    error = error.note_at(span, "this freezes them");
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
                    .help("put the general optimizer first and the special ones after it");
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
                if !self.store.broken_results {
                    let message = format!("the model has no loss `{}`", name.text);
                    self.report(Diagnostic::new(Code::UnknownName, name.span, message).help(help));
                }
                None
            }
            None => match known.as_slice() {
                [only] => Some((*only).to_owned()),
                [] => {
                    if !self.store.broken_results && !self.has_errors() {
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

/// The scopes that names lie in.
fn scopes<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = names
        .iter()
        .filter_map(|n| Some(n.rsplit_once('/')?.0))
        .collect();
    found.dedup();
    found
}
