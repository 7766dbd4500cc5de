//! `warm_start`: its patterns, names and vocabularies, compared with the variables of the model.

use std::collections::BTreeSet;

use trainspec_ir::Span;

use crate::ast::{Expr, ExprKind, PostfixKind};
use crate::builtins::{find, words};
use crate::check::bound::Bound;
use crate::check::checkpoint::slot_names;
use crate::check::scope::{Frame, FrameKind};
use crate::check::value::Value;
use crate::check::{Checker, glob};
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{Role, Train, VarId, VocabInfo, WarmStart, WarmStartKind, WarmStartVars};

/// Pairs of strings, each with the span of the pair.
pub(crate) type StrPairs = Vec<(String, String, Span)>;

impl Checker<'_> {
    pub(crate) fn warm_start(&mut self, train: Option<&Train>) -> Option<WarmStart> {
        let (arguments, span) = self.items.warm_start.clone()?;
        let signature = find("warm_start", "warm_start").expect("it is in the table");
        let frame = Frame::new(FrameKind::Train, String::new());
        let (warm, _) = self.in_program(|c| {
            c.framed(frame, |c| {
                let bound = c.bind_setting(signature, &arguments, span)?;
                // Variables may be missing because of another error.
                let kind = match c.has_errors() {
                    true => None,
                    false => c.warm_start_kind(&bound, train),
                };
                Some(WarmStart {
                    checkpoint: bound.require("checkpoint"),
                    kind: kind?,
                    span,
                })
            })
        });
        warm
    }

    fn warm_start_kind(&mut self, bound: &Bound, train: Option<&Train>) -> Option<WarmStartKind> {
        if let Some(pairs) = bound.get::<StrPairs>("assign") {
            let others = ["vars", "rename", "vocab"];
            if let Some(other) = others.into_iter().find(|name| bound.has(name)) {
                let message = format!("`assign` and `{other}` cannot be combined");
                let help = "`assign` maps names or scopes of the checkpoint to those here; `vars`, `rename` and `vocab` go by the names here";
                let span = bound.span_of(other);
                self.report(Diagnostic::new(Code::BadValue, span, message).help(help));
                return None;
            }
            return self.assignments(pairs);
        }
        let vars = bound.get::<WarmStartVars>("vars");
        let vars = vars.unwrap_or_else(|| WarmStartVars::Trainable("**".to_owned()));
        let selected = self.selected(&vars, bound.span_of("vars"), train)?;
        let mut fine = true;
        let mut previous: Vec<(String, String)> = Vec::new();
        for (variable, name, span) in bound.get::<StrPairs>("rename").unwrap_or_default() {
            fine &= self.is_selected(&variable, &selected, span);
            if previous.iter().any(|(known, _)| *known == variable) {
                let message = format!("`{variable}` is renamed twice");
                self.report(Diagnostic::new(Code::DuplicateSetting, span, message));
                fine = false;
            }
            previous.push((variable, name));
        }
        let mut vocabularies: Vec<VocabInfo> = Vec::new();
        for call in bound.get::<Vec<Bound>>("vocab").unwrap_or_default() {
            let Some(info) = self.vocabulary(&call, &selected) else {
                fine = false;
                continue;
            };
            if vocabularies
                .iter()
                .any(|known| known.variable == info.variable)
            {
                let message = "the variable has a vocabulary already";
                let span = call.span_of("variable");
                self.report(Diagnostic::new(Code::DuplicateSetting, span, message));
                fine = false;
            }
            vocabularies.push(info);
        }
        fine.then_some(WarmStartKind::Variables {
            vars,
            previous,
            vocabularies,
        })
    }

    /// The names that the patterns select.
    fn selected(
        &mut self,
        vars: &WarmStartVars,
        span: Span,
        train: Option<&Train>,
    ) -> Option<BTreeSet<String>> {
        let trainable = self
            .store
            .variables
            .iter()
            .filter(|v| v.role == Role::Param);
        let trainable: Vec<String> = trainable.map(|v| v.name.clone()).collect();
        let all: Vec<String> = (self.store.variables.iter().map(|v| v.name.clone()))
            .chain(slot_names(&self.store.variables, train))
            .collect();
        let (patterns, names) = match vars {
            WarmStartVars::Trainable(pattern) => (std::slice::from_ref(pattern), trainable),
            WarmStartVars::All(patterns) => (patterns.as_slice(), all),
            WarmStartVars::WithVocabulary => return Some(trainable.into_iter().collect()),
        };
        let mut selected = BTreeSet::new();
        for pattern in patterns {
            let matching = names.iter().filter(|name| glob::matches(pattern, name));
            let matching: Vec<String> = matching.cloned().collect();
            if matching.is_empty() {
                let found = self.matching(pattern, span, "`warm_start`")?;
                let state = found
                    .first()
                    .map(|v| &self.store.variables[v.0 as usize].name);
                let message = format!(
                    "`{pattern}` matches no trainable variable, but the state `{}`",
                    state.map_or("", |name| name)
                );
                let help = format!("a list matches everything: `[\"{pattern}\"]`");
                self.report(Diagnostic::new(Code::GroupEmpty, span, message).help(help));
                return None;
            }
            selected.extend(matching);
        }
        Some(selected)
    }

    /// Rejects a variable that is not warm-started.
    fn is_selected(&mut self, variable: &str, selected: &BTreeSet<String>, span: Span) -> bool {
        if selected.contains(variable) {
            return true;
        }
        let known = self.store.variables.iter().any(|v| v.name == variable);
        let message = match known {
            true => format!("`{variable}` is not warm-started: `vars` does not match it"),
            false => format!("the model has no variable `{variable}`"),
        };
        let help = match nearest(variable, selected.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it can be {}", one_of(selected.iter().map(String::as_str))),
        };
        self.report(Diagnostic::new(Code::UnknownName, span, message).help(help));
        false
    }

    /// `vocabulary(variable, new_vocab, ...)`
    fn vocabulary(&mut self, bound: &Bound, selected: &BTreeSet<String>) -> Option<VocabInfo> {
        let name: String = bound.require("variable");
        let span = bound.span_of("variable");
        if !self.is_selected(&name, selected, span) {
            return None;
        }
        let mut wrong = |argument: &str, message: String, help: &str| {
            let error = Diagnostic::new(Code::BadValue, bound.span_of(argument), message);
            self.report(error.help(help));
            None
        };
        let axis: i64 = bound.get("axis").unwrap_or(0);
        if !(0..=1).contains(&axis) {
            let message = format!("`axis` is {axis}, and must be 0 or 1");
            return wrong("axis", message, "0 has a row for each word, 1 a column");
        }
        let counts = ["num_oov_buckets", "old_vocab_size"];
        let [buckets, old_size] = counts.map(|argument| bound.get::<i64>(argument));
        let buckets = buckets.unwrap_or(0);
        if buckets < 0 {
            let message = format!("`num_oov_buckets` is {buckets}");
            return wrong("num_oov_buckets", message, "give 0 or more");
        }
        let old_vocab_size = match old_size {
            None | Some(-1) => None,
            Some(n) if n < 1 => {
                let message = format!("`old_vocab_size` is {n}");
                return wrong("old_vocab_size", message, "-1, or nothing, uses all words");
            }
            Some(_) if axis == 1 => {
                let message = "`old_vocab_size` is set for axis 1".to_owned();
                let help = "leave it out: TensorFlow ignores it for axis 1";
                return wrong("old_vocab_size", message, help);
            }
            Some(n) => Some(n as u64),
        };
        let index = self.store.variables.iter().position(|v| v.name == name);
        let Some(index) = index else {
            let message = format!("`{name}` is a slot, and a vocabulary is of a variable");
            self.report(Diagnostic::new(Code::BadValue, span, message));
            return None;
        };
        let ty = self.store.variables[index].ty.clone();
        let sizes: Vec<Option<i64>> = ty.shape.0.iter().map(|dim| dim.size.value()).collect();
        let [rows, columns] = sizes[..] else {
            let message = format!("`{name}` is `{ty}`, and a vocabulary needs a matrix");
            self.report(Diagnostic::new(Code::ShapeMismatch, span, message));
            return None;
        };
        let words = [rows, columns][axis as usize].unwrap_or(0);
        let new_vocab_size = bound.get("new_vocab_size").unwrap_or(words - buckets);
        if new_vocab_size + buckets != words || new_vocab_size < 1 {
            let message = format!(
                "dimension {axis} of `{ty}` is {words}, and there are {new_vocab_size} words and {buckets} buckets for others"
            );
            let at = bound.span_of("new_vocab_size");
            self.report(Diagnostic::new(Code::ShapeMismatch, at, message));
            return None;
        }
        let backup = match bound.get::<Value>("backup_initializer") {
            Some(value) => {
                let at = bound.span_of("backup_initializer");
                Some(self.initializer(value, &ty, &format!("{name}/backup"), at)?)
            }
            None => None,
        };
        Some(VocabInfo {
            variable: VarId(index as u32),
            new_vocab: bound.require("new_vocab"),
            new_vocab_size: new_vocab_size as u64,
            num_oov_buckets: buckets as u64,
            old_vocab: bound.require("old_vocab"),
            old_vocab_size,
            backup,
            axis: axis as usize,
        })
    }

    /// `assign`: from a name or scope of the checkpoint to a variable or scope of the model.
    fn assignments(&mut self, pairs: StrPairs) -> Option<WarmStartKind> {
        let names: Vec<String> = self
            .store
            .variables
            .iter()
            .map(|v| v.name.clone())
            .collect();
        let mut assigned: Vec<(String, String)> = Vec::new();
        let mut fine = true;
        for (stored, current, span) in pairs {
            let scope = match current.as_str() {
                "/" => "",
                other => other,
            };
            let is_scope = stored.ends_with('/') && current.ends_with('/');
            let known = names.contains(&current)
                || (is_scope && names.iter().any(|name| name.starts_with(scope)));
            let error = match known {
                _ if assigned.iter().any(|(other, _)| *other == stored) => {
                    let message = format!("`{stored}` is assigned twice");
                    Some(Diagnostic::new(Code::DuplicateSetting, span, message))
                }
                true => None,
                false if is_scope => {
                    let message = format!("the model has no variable below `{current}`");
                    Some(Diagnostic::new(Code::UnknownName, span, message))
                }
                false => {
                    let message = format!(
                        "the model has no variable `{current}`, to which `{stored}` is assigned"
                    );
                    let help = match nearest(&current, names.iter().map(String::as_str)) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "to assign scopes, end both with a slash: `(\"old/\", \"new/\")`"
                            .to_owned(),
                    };
                    Some(Diagnostic::new(Code::UnknownName, span, message).help(help))
                }
            };
            fine &= error.is_none();
            if let Some(error) = error {
                self.report(error);
            }
            assigned.push((stored, current));
        }
        fine.then_some(WarmStartKind::Assign(assigned))
    }

    /// `none`, a pattern, or a list of patterns.
    pub(super) fn warm_start_vars(&mut self, expr: &Expr, what: &str) -> Option<WarmStartVars> {
        let vars = match self.eval(expr) {
            Value::None => return Some(WarmStartVars::WithVocabulary),
            Value::Str(pattern) => {
                self.glob(&pattern, expr.span)?;
                WarmStartVars::Trainable(pattern.to_string())
            }
            Value::List(list) => {
                let mut patterns = Vec::new();
                for value in list.iter() {
                    let Value::Str(pattern) = value else {
                        self.wrong_kind(expr.span, &format!("patterns for {what}"), value);
                        return None;
                    };
                    self.glob(pattern, expr.span)?;
                    patterns.push(pattern.to_string());
                }
                WarmStartVars::All(patterns)
            }
            other => {
                let expected = format!("a pattern, a list of patterns or `none` for {what}");
                self.wrong_kind(expr.span, &expected, &other);
                return None;
            }
        };
        Some(vars)
    }

    /// A list of pairs of strings.
    pub(super) fn string_pairs(&mut self, expr: &Expr, what: &str) -> Option<StrPairs> {
        let elements: Vec<(Value, Span)> = match &expr.kind {
            ExprKind::List(list) => list.iter().map(|e| (self.eval(e), e.span)).collect(),
            _ => match self.eval(expr) {
                Value::List(list) => list.iter().map(|v| (v.clone(), expr.span)).collect(),
                other => vec![(other, expr.span)],
            },
        };
        let mut pairs = Vec::new();
        for (value, span) in elements {
            match &value {
                Value::Tuple(two) | Value::List(two)
                    if let [Value::Str(a), Value::Str(b)] = &two[..] =>
                {
                    pairs.push((a.to_string(), b.to_string(), span));
                }
                other => {
                    let expected = format!("a list of pairs of strings for {what}");
                    self.wrong_kind(span, &expected, other);
                    return None;
                }
            }
        }
        Some(pairs)
    }

    /// Calls of the settings of a section: one, or a list.
    pub(super) fn setting_calls(
        &mut self,
        section: &str,
        expr: &Expr,
        what: &str,
    ) -> Option<Vec<Bound>> {
        let elements: Vec<&Expr> = match &expr.kind {
            ExprKind::List(list) => list.iter().collect(),
            _ => vec![expr],
        };
        let mut calls = Vec::new();
        for element in elements {
            if let ExprKind::Postfix(base, ops) = &element.kind
                && let ExprKind::Name(name) = &base.kind
                && let [only] = ops.as_slice()
                && let PostfixKind::Call(arguments) = &only.kind
                && let Some(signature) = find(section, name)
            {
                calls.push(self.bind_setting(signature, arguments, base.span)?);
                continue;
            }
            let known = words(section);
            let message = format!("{what} needs a call of {}", one_of(known.iter().copied()));
            let help = format!("write `{}(variable: \"...\", ...)`", known[0]);
            self.report(Diagnostic::new(Code::TypeMismatch, element.span, message).help(help));
            return None;
        }
        Some(calls)
    }
}
