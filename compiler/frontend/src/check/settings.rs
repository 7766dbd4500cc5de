//! Settings: their arguments are checked against their signatures.

use trainspec_ir::Span;

use crate::ast::{self, Argument, Clause, Expr, ExprKind, PostfixKind, SettingValue, Unit};
use crate::builtins::SettingKind::*;
use crate::builtins::{SettingKind, SettingParam, SettingSignature, find, words};
use crate::check::bound::{ArgumentValue, Bound, BoundArgument};
use crate::check::fold;
use crate::check::glob::{self, BadGlob};
use crate::check::groups::Patterns;
use crate::check::value::{Quantity, Value};
use crate::check::{Checker, call};
use crate::diag::{Code, Diagnostic, foreign, nearest, one_of};
use crate::typed::{Interval, Named, NamedKind, Rate};

impl Checker<'_> {
    /// Reports a setting that a section does not have.
    pub(crate) fn unknown_setting(&mut self, section: &str, section_name: &str, word: &ast::Name) {
        let known = words(section);
        let help = match nearest(&word.text, known.iter().copied()) {
            _ if let Some(help) = foreign::setting(section, &word.text) => help.to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "it knows {}",
                one_of(known.iter().copied()).replace(" or ", " and ")
            ),
        };
        let message = format!("{section_name} knows no setting `{}`", word.text);
        self.report(Diagnostic::new(Code::UnknownSetting, word.span, message).help(help));
    }

    /// Reports settings given more than once.
    pub(crate) fn reject_repeated(&mut self, settings: &[ast::Setting], section: &str) {
        let once = |word: &str| match find(section, word) {
            Some(signature) => !signature.repeats,
            None => matches!(
                (section, word),
                ("data", "source") | ("train", "loss_scale")
            ),
        };
        for (i, setting) in settings.iter().enumerate() {
            let first = settings[..i]
                .iter()
                .find(|s| s.word.text == setting.word.text);
            if let Some(first) = first.filter(|_| once(&setting.word.text)) {
                self.report(
                    Diagnostic::new(
                        Code::DuplicateSetting,
                        setting.word.span,
                        format!("`{}` is set twice", setting.word.text),
                    )
                    .note_at(first.word.span, "set here first"),
                );
            }
        }
    }

    /// Rejects clauses that a setting does not take.
    pub(crate) fn reject_clauses(&mut self, setting: &ast::Setting, allowed: &[&str]) {
        for clause in &setting.clauses {
            let (word, span) = match clause {
                Clause::For(expr) => ("for", expr.span),
                Clause::Minimizing(name) => ("minimizing", name.span),
            };
            if !allowed.contains(&word) {
                let message = format!("`{}` takes no `{word}`", setting.word.text);
                self.report(Diagnostic::new(Code::UnknownArgument, span, message));
            }
        }
    }

    /// Checks a setting against its signature.
    pub(crate) fn setting(&mut self, section: &str, setting: &ast::Setting) -> Option<Bound> {
        let signature = find(section, &setting.word.text)?;
        let at = setting.word.span;
        let single;
        let arguments: &[Argument] = match &setting.value {
            SettingValue::None => &[],
            SettingValue::Arguments(arguments) => arguments,
            SettingValue::Value(expr) => {
                single = [Argument {
                    name: None,
                    value: expr.clone(),
                }];
                &single
            }
            SettingValue::Bad(_) => return None,
            SettingValue::Declaration(_) | SettingValue::Assignment(..) => {
                let message = format!("`{}` takes its arguments in parentheses", setting.word.text);
                self.report(
                    Diagnostic::new(Code::Syntax, setting.span, message)
                        .help(format!("write `{} (name: value, ...);`", setting.word.text)),
                );
                return None;
            }
        };
        self.bind_setting(signature, arguments, at)
    }

    /// A setting whose value is a call: `source csv("x.csv")`, `clip global_norm(1.0)`.
    pub(crate) fn call_setting(&mut self, setting: &ast::Setting) -> Option<Bound> {
        let section = setting.word.text.clone();
        let known = words(&section);
        let (name, arguments, span) = match &setting.value {
            SettingValue::Bad(_) => return None,
            SettingValue::Value(Expr {
                kind: ExprKind::Postfix(base, ops),
                span,
            }) => match (&base.kind, ops.as_slice()) {
                (ExprKind::Name(name), [only]) => match &only.kind {
                    PostfixKind::Call(arguments) => (
                        name.clone(),
                        arguments.clone(),
                        Span {
                            end: base.span.end,
                            ..*span
                        },
                    ),
                    _ => (String::new(), Vec::new(), *span),
                },
                _ => (String::new(), Vec::new(), *span),
            },
            SettingValue::Value(Expr {
                kind: ExprKind::Name(name),
                span,
            }) => (name.clone(), Vec::new(), *span),
            _ => (String::new(), Vec::new(), setting.span),
        };
        match find(&section, &name) {
            Some(signature) => self.bind_setting(signature, &arguments, span),
            None => {
                let sets: Vec<String> = match section.as_str() {
                    "source" => self.data_set_names(),
                    _ => Vec::new(),
                };
                let message = match name.as_str() {
                    "" => format!("`{section}` needs one of its kinds"),
                    name if section == "source" => {
                        format!("there is no source and no data set `{name}`")
                    }
                    name => format!("there is no {section} `{name}`"),
                };
                let own = sets.iter().map(String::as_str);
                let help = match nearest(&name, known.iter().copied().chain(own)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "the kinds are {}",
                        one_of(known.iter().copied()).replace(" or ", " and ")
                    ),
                };
                self.report(Diagnostic::new(Code::UnknownSetting, span, message).help(help));
                None
            }
        }
    }

    /// Arguments to the parameters of a signature. A setting that cannot be run yet is an error.
    pub(crate) fn bind_setting(
        &mut self,
        signature: &'static SettingSignature,
        arguments: &[Argument],
        at: Span,
    ) -> Option<Bound> {
        let names: Vec<&str> = signature.params.iter().map(|p| p.name).collect();
        // Values are evaluated by kind below; here only names and positions matter.
        let given: Vec<_> = arguments
            .iter()
            .map(|a| crate::check::value::ArgValue {
                name: a.name.clone(),
                value: Value::None,
                span: a.value.span,
            })
            .collect();
        let slots = call::assign(self, signature.word, &names, &given, at)?;
        let mut bound = Vec::new();
        let mut fine = true;
        for (param, slot) in signature.params.iter().zip(slots) {
            match slot {
                Some(i) => match self.setting_value(signature, param, &arguments[i]) {
                    Some(value) => bound.push(BoundArgument {
                        name: param.name,
                        value,
                        span: arguments[i].value.span,
                    }),
                    None => fine = false,
                },
                None if param.required => {
                    self.report(call::missing(signature.word, param.name, at));
                    fine = false;
                }
                None => {}
            }
        }
        fine.then_some(Bound {
            signature,
            arguments: bound,
            span: at,
        })
    }

    fn setting_value(
        &mut self,
        signature: &SettingSignature,
        param: &SettingParam,
        argument: &Argument,
    ) -> Option<ArgumentValue> {
        let expr = &argument.value;
        // The only value of a setting has a name that nobody writes.
        let what = match (&argument.name, signature.params) {
            (None, [_]) => format!("`{}`", signature.word),
            _ => format!("`{}`", param.name),
        };
        let span = expr.span;
        match param.kind {
            Keyword(words) => {
                let name = match &expr.kind {
                    ExprKind::Name(name) | ExprKind::Str(name) => name.clone(),
                    _ => String::new(),
                };
                if let Some(word) = words.iter().find(|word| **word == name) {
                    return Some(ArgumentValue::Keyword(word));
                }
                let help = match nearest(&name, words.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it can be {}", one_of(words.iter().copied())),
                };
                let message = match name.as_str() {
                    "" => format!("this is no value for {what}"),
                    name => format!("`{name}` is no value for {what}"),
                };
                self.report(Diagnostic::new(Code::BadValue, span, message).help(help));
                None
            }
            Name => match &expr.kind {
                ExprKind::Name(name) => Some(ArgumentValue::Name(name.clone())),
                _ => {
                    let value = self.eval(expr);
                    self.wrong_kind(span, &format!("a name for {what}"), &value);
                    None
                }
            },
            Names => self.names(expr, &what).map(ArgumentValue::Names),
            SettingKind::Rate | RateAfter => {
                let outer = std::mem::replace(&mut self.step_after, param.kind == RateAfter);
                let value = self.eval(expr);
                self.step_after = outer;
                match &value {
                    Value::Tensor(t) if t.ty.rank() == 0 && t.ty.dtype.is_float() => {
                        Some(ArgumentValue::Rate(Rate::Value(t.id)))
                    }
                    Value::Tensor(t) => {
                        let message = format!("{what} must be one floating-point number");
                        self.report(
                            Diagnostic::new(Code::TypeMismatch, span, message)
                                .label(format!("this is `{}`", t.ty)),
                        );
                        None
                    }
                    other => {
                        let number = match self.known_number(other, span, &what)? {
                            Known::Int(n) => n as f64,
                            Known::Float(x) => x,
                        };
                        Some(ArgumentValue::Rate(Rate::Number(number)))
                    }
                }
            }
            Number => {
                let value = self.eval(expr);
                Some(match self.known_number(&value, span, &what)? {
                    Known::Int(n) => ArgumentValue::Int(n),
                    Known::Float(x) => ArgumentValue::Float(x),
                })
            }
            Int | Count => {
                let value = self.eval(expr);
                if let Value::Quantity(q) = value {
                    let message = format!("{what} is a plain number, without `{}`", q.unit.word());
                    self.report(
                        Diagnostic::new(Code::UnitMismatch, span, message)
                            .help(format!("write `{}`", q.amount)),
                    );
                    return None;
                }
                let size = self.as_size(value, span, &what)?;
                match size.value() {
                    Some(n) if param.kind == Count && n < 1 => {
                        let message = format!("{what} must be at least 1, and this is {n}");
                        self.report(Diagnostic::new(Code::BadValue, span, message));
                        None
                    }
                    Some(n) => Some(ArgumentValue::Int(n)),
                    None => {
                        self.wrong_kind(
                            span,
                            &format!("a known number for {what}"),
                            &Value::Int(size),
                        );
                        None
                    }
                }
            }
            Ints => {
                let value = self.eval(expr);
                let list = match &value {
                    Value::List(list) => list.to_vec(),
                    one => vec![one.clone()],
                };
                let mut ints = Vec::new();
                for value in list {
                    let size = self.as_size(value, span, &what)?;
                    let Some(n) = size.value() else {
                        let expected = format!("known numbers for {what}");
                        self.wrong_kind(span, &expected, &Value::Int(size));
                        return None;
                    };
                    ints.push(n);
                }
                Some(ArgumentValue::Ints(ints))
            }
            Bool => {
                let value = self.eval(expr);
                self.as_bool(&value, span, &what).map(ArgumentValue::Bool)
            }
            Str => match self.eval(expr) {
                Value::Str(text) => Some(ArgumentValue::Str(text.to_string())),
                other => {
                    self.wrong_kind(span, &format!("a string for {what}"), &other);
                    None
                }
            },
            StrList => self.string_list(expr, &what).map(ArgumentValue::Strings),
            SettingKind::StrPairs => self.string_pairs(expr, &what).map(ArgumentValue::Pairs),
            SettingKind::Patterns => self.warm_start_vars(expr, &what).map(ArgumentValue::Vars),
            Calls(section) => {
                let calls = self.setting_calls(section, expr, &what);
                calls.map(ArgumentValue::Calls)
            }
            Init => Some(ArgumentValue::Init(self.eval(expr))),
            Duration => match self.eval(expr) {
                Value::Quantity(q) if q.unit.seconds().is_some() => Some(ArgumentValue::Interval(
                    Interval::Seconds(q.amount * q.unit.seconds().unwrap_or(1.0)),
                )),
                other => self.unit_error(&other, span, &what, "a time such as `30 s` or `1 h`"),
            },
            SettingKind::Interval => match self.eval(expr) {
                Value::Quantity(q) => self.interval(q, span).map(ArgumentValue::Interval),
                other => self.unit_error(
                    &other,
                    span,
                    &what,
                    "steps, epochs or a time, such as `100 steps` or `30 s`",
                ),
            },
        }
    }

    fn unit_error(
        &mut self,
        value: &Value,
        span: Span,
        what: &str,
        expected: &str,
    ) -> Option<ArgumentValue> {
        // A unit without a space before it was reported already.
        let rest = &self.sources.get(span.file).text[span.end as usize..];
        if value.is_poison() || rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        let help = match value {
            Value::Int(n) => Some(format!("add the unit: `{n} steps`")),
            _ => None,
        };
        self.report(
            Diagnostic::new(Code::UnitMismatch, span, format!("{what} needs {expected}"))
                .label(format!("this is {}", value.describe()))
                .maybe_help(help),
        );
        None
    }

    /// A quantity as an interval: an integer number of steps or epochs, or a positive duration.
    pub(crate) fn interval(&mut self, q: Quantity, span: Span) -> Option<Interval> {
        let whole = q.amount.fract() == 0.0 && q.amount < 9e15;
        let interval = match q.unit {
            _ if q.amount <= 0.0 => None,
            Unit::Steps => whole.then_some(Interval::Steps(q.amount as i64)),
            Unit::Epochs => whole.then_some(Interval::Epochs(q.amount as i64)),
            unit => unit.seconds().map(|s| Interval::Seconds(s * q.amount)),
        };
        if interval.is_none() {
            let message = format!("{} {} is no interval", q.amount, q.unit.word());
            self.report(
                Diagnostic::new(Code::BadValue, span, message).help("use an integer of at least 1"),
            );
        }
        interval
    }

    pub(super) fn known_number(&mut self, value: &Value, span: Span, what: &str) -> Option<Known> {
        let known = match value {
            Value::Int(n) => n.value().map(Known::Int),
            other => fold::number(other).map(Known::Float),
        };
        match (known, value) {
            (Some(known), _) => Some(known),
            (None, Value::Quantity(q)) => {
                let message = format!("{what} is a plain number, without `{}`", q.unit.word());
                self.report(
                    Diagnostic::new(Code::UnitMismatch, span, message)
                        .help(format!("write `{}`", q.amount)),
                );
                None
            }
            (None, other) => {
                self.wrong_kind(span, &format!("a number for {what}"), other);
                None
            }
        }
    }

    /// A string or a list of strings. The elements of a list that is written out have spans of their own.
    pub(crate) fn string_list(&mut self, expr: &Expr, what: &str) -> Option<Strings> {
        if let ExprKind::List(elements) = &expr.kind {
            let mut all = Vec::new();
            for element in elements {
                if let ExprKind::Name(name) = &element.kind
                    && !self.known_names().contains(name)
                {
                    let message = format!("expected strings for {what}");
                    let help = format!("write it in quotes: \"{name}\"");
                    self.report(
                        Diagnostic::new(Code::TypeMismatch, element.span, message).help(help),
                    );
                    return None;
                }
                match self.eval(element) {
                    Value::Str(text) => all.push((text.to_string(), element.span)),
                    other => {
                        self.wrong_kind(element.span, &format!("strings for {what}"), &other);
                        return None;
                    }
                }
            }
            return Some(all);
        }
        if let ExprKind::Postfix(base, ops) = &expr.kind
            && let ExprKind::Name(name) = &base.kind
            && matches!(ops.last().map(|op| &op.kind), Some(PostfixKind::Member(_)))
            && !self.known_names().contains(name)
        {
            let written = self.sources.slice(expr.span);
            let help = format!("write it in quotes: \"{written}\"");
            let message = format!("expected a string for {what}");
            self.report(Diagnostic::new(Code::TypeMismatch, expr.span, message).help(help));
            return None;
        }
        match self.eval(expr) {
            Value::Str(text) => Some(vec![(text.to_string(), expr.span)]),
            other => self.strings(&other, expr.span, what),
        }
    }

    fn strings(&mut self, value: &Value, span: Span, what: &str) -> Option<Strings> {
        let (Value::List(list) | Value::Tuple(list)) = value else {
            let expected = format!("a string or a list of strings for {what}");
            self.wrong_kind(span, &expected, value);
            return None;
        };
        let mut strings = Vec::new();
        for value in list.iter() {
            match value {
                Value::Str(text) => strings.push((text.to_string(), span)),
                other => {
                    self.wrong_kind(span, &format!("strings for {what}"), other);
                    return None;
                }
            }
        }
        Some(strings)
    }

    /// `loss`, `[loss, accuracy]` or a pattern over variables.
    fn names(&mut self, expr: &Expr, what: &str) -> Option<Vec<Named>> {
        let span = expr.span;
        let one = |kind| Some(vec![Named { kind, span }]);
        match &expr.kind {
            ExprKind::Name(name) => one(NamedKind::Value(name.clone())),
            ExprKind::Str(pattern) => {
                self.glob(pattern, span)?;
                one(NamedKind::Variables(pattern.clone()))
            }
            ExprKind::List(list) => {
                let mut all = Vec::new();
                for inner in list {
                    all.extend(self.names(inner, what)?);
                }
                Some(all)
            }
            _ => {
                let value = self.eval(expr);
                self.wrong_kind(span, &format!("names for {what}"), &value);
                None
            }
        }
    }

    /// Rejects an invalid pattern.
    pub(crate) fn glob(&mut self, pattern: &str, span: Span) -> Option<()> {
        let message = match glob::check(pattern) {
            Ok(()) => return Some(()),
            Err(BadGlob::Empty) => "an empty pattern matches nothing".to_owned(),
            Err(BadGlob::Character(c)) => format!("`{c}` has no meaning in a pattern"),
        };
        self.report(
            Diagnostic::new(Code::BadGlob, span, message)
                .help("`*` stands for part of a name, `**` also crosses `/`, `?` is one character"),
        );
        None
    }

    /// The patterns of a `for` clause.
    pub(crate) fn for_clause(&mut self, setting: &ast::Setting) -> Option<Option<Patterns>> {
        for clause in &setting.clauses {
            if let Clause::For(expr) = clause {
                return self.patterns(expr).map(Some);
            }
        }
        Some(None)
    }

    /// A pattern over variable names, or a list of some.
    pub(crate) fn patterns(&mut self, expr: &Expr) -> Option<Patterns> {
        let elements = match &expr.kind {
            ExprKind::List(elements) if !elements.is_empty() => elements.iter().collect(),
            _ => vec![expr],
        };
        let mut all = Patterns::new();
        let mut fine = true;
        for element in elements {
            match self.eval(element) {
                Value::Str(text) => {
                    fine &= self.glob(&text, element.span).is_some();
                    all.push((text.to_string(), element.span));
                }
                other => {
                    let expected = "a pattern over variable names, such as \"head/**\"";
                    self.wrong_kind(element.span, expected, &other);
                    fine = false;
                }
            }
        }
        fine.then_some(all)
    }
}

/// Strings with their spans.
type Strings = Vec<(String, Span)>;

/// A compile-time number.
pub(super) enum Known {
    Int(i64),
    Float(f64),
}
