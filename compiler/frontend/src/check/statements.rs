//! Statements: what each declares or does, and where it may stand.

use trainspec_ir::{DType, Span};

use crate::ast::{Body, Expr, ExprKind, Name, Statement, StatementKind};
use crate::check::Checker;
use crate::check::scope::{FrameKind, Target};
use crate::check::types::Bounds;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{NodeKind, OutputWords};

impl Checker<'_> {
    /// Runs statements in the innermost scope; gives the value at the end, or `None`.
    pub(crate) fn body(&mut self, body: &Body) -> Value {
        if !self.statements(&body.statements) {
            self.mention_body(body);
            return Value::Poison;
        }
        match &body.value {
            Some(value) => self.eval(value),
            None => Value::None,
        }
    }

    /// As [`body`](Checker::body), of a definition, which must have a value.
    pub(crate) fn valued_body(&mut self, body: &Body, name: &str) -> Value {
        let last = body.statements.split_last();
        if body.value.is_some()
            || last.is_some_and(|(s, _)| matches!(s.kind, StatementKind::Bad(_)))
        {
            return match self.body(body) {
                Value::None if body.value.is_none() => Value::Poison,
                value => value,
            };
        }
        let (before, ended) = match last {
            Some((
                Statement {
                    kind: StatementKind::Expr { value, .. },
                    ..
                },
                before,
            )) => (before, Some(value.span)),
            _ => (&body.statements[..], None),
        };
        if !self.statements(before) {
            self.mention_body(body);
            return Value::Poison;
        }
        let brace = Span {
            start: body.span.end - 1,
            ..body.span
        };
        let help = match ended {
            Some(_) => {
                "a body gives its last expression, and none where that ends with `;`: remove the `;`"
            }
            None => "end it with an expression, without `;`",
        };
        let message = format!("`{name}` has no value");
        self.fail(Diagnostic::new(Code::TypeMismatch, ended.unwrap_or(brace), message).help(help))
    }

    /// Runs statements; false where the checker gave up.
    fn statements(&mut self, statements: &[Statement]) -> bool {
        for statement in statements {
            if self.exhausted || self.gave_up {
                break;
            }
            self.statement(statement);
        }
        !(self.exhausted || self.gave_up)
    }

    fn statement(&mut self, statement: &Statement) {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Let { pattern, ty, value } => {
                let mut found = self.eval(value);
                if let Some(ty) = ty {
                    let name = Name {
                        text: self.sources.slice(pattern.span()).to_owned(),
                        span: pattern.span(),
                    };
                    found = self.match_named(&name, ty, &Bounds::new(), found, value.span);
                }
                self.bind_pattern(pattern, found, value.span, "let");
            }
            StatementKind::Variable(variable) => self.variable(variable, span),
            StatementKind::Scalar {
                name,
                alias,
                start,
                next,
            } => self.scalar(name, alias.as_ref(), start, next, span),
            StatementKind::Layer { name, value } => self.layer(name, value),
            StatementKind::Loss { name, value } => self.loss(name.as_ref(), value, span),
            StatementKind::Metric { name, value } => {
                if let Some(tensor) = self.model_result(name, value, "metric") {
                    self.store.mode.metrics.push((name.text.clone(), tensor));
                }
            }
            StatementKind::Output { name, value } => {
                if let Some(tensor) = self.model_result(name, value, "output") {
                    if let Some((vocabulary, span)) = self.store.word_ids.get(&tensor) {
                        self.store.mode.words.push(OutputWords {
                            output: name.text.clone(),
                            vocabulary: vocabulary.clone(),
                            span: *span,
                        });
                    }
                    self.store.mode.outputs.push((name.text.clone(), tensor));
                }
            }
            StatementKind::Yield(value) => {
                let found = self.eval(value);
                let found = self.one_yielded(found, value);
                self.yield_value(found, span);
            }
            StatementKind::Write { target, value } => self.write(target, value),
            StatementKind::Expr { value, .. } => {
                let found = self.eval(value);
                // An `if` or a loop may be there for its statements.
                let has_value = match &value.kind {
                    ExprKind::If(..) | ExprKind::Loop(_) => is_something(&found),
                    _ => !found.is_poison(),
                };
                if has_value {
                    self.report(
                        Diagnostic::new(Code::NoEffect, value.span, "this value is not used")
                            .help("bind it with `let`, or remove the statement"),
                    );
                }
            }
            StatementKind::Bad(names) => {
                // It may have been a loss, a metric or an output.
                self.store.broken_results |= self.frame().kind == FrameKind::Model;
                for name in names {
                    if self.frame().find(&name.text).is_none() {
                        self.bind_with(name, Value::Poison, Target::Fixed("name"));
                    }
                }
            }
        }
    }

    /// Rejects a statement that is not allowed here.
    pub(crate) fn only_in(
        &mut self,
        kinds: &[FrameKind],
        what: &str,
        span: Span,
        help: &str,
    ) -> bool {
        let here = self.frame().kind;
        if kinds.contains(&here) {
            return true;
        }
        let message = format!("`{what}` may not stand in {}", here.describe());
        self.report(
            Diagnostic::new(Code::MisplacedStatement, head(span, what), message).help(help),
        );
        false
    }

    fn write(&mut self, target: &Name, value: &Expr) {
        let found = self.eval(value);
        let Some(binding) = self.frame().find(&target.text) else {
            self.unknown_target(target);
            return;
        };
        let (declared_at, kind, current) =
            (binding.span, binding.target.clone(), binding.value.clone());
        if let Target::Fixed(what) = kind {
            if current.is_poison() {
                return;
            }
            let help = match what {
                "let" if self.frame().kind == FrameKind::Optimizer => {
                    "bind a new value with another `let`, or declare it as `slot`"
                }
                "let" => "bind a new value with another `let`, or declare it as `state`",
                "trained parameter" => {
                    "parameters are changed by the optimizer alone; `state` can be written"
                }
                _ => "only `state` can be written, and in an optimizer `param` and slots",
            };
            self.report(
                Diagnostic::new(
                    Code::WriteTarget,
                    target.span,
                    match what {
                        "let" => format!(
                            "`{}` cannot be written: it is bound with `let`",
                            target.text
                        ),
                        _ => format!("`{}` cannot be written: it is a {what}", target.text),
                    },
                )
                .note_at(declared_at, "declared here")
                .help(help),
            );
            return;
        }
        if self.scan_depth > 0 {
            self.report(
                Diagnostic::new(
                    Code::MisplacedStatement,
                    target.span,
                    "state cannot be written inside a `scan`",
                )
                .help("carry the value through the loop, and write it after the loop"),
            );
            return;
        }
        let Value::Tensor(current) = current else {
            return;
        };
        let Some(tensor) = self.as_tensor(&found, current.ty.dtype, value.span) else {
            return;
        };
        let fits = tensor.ty == current.ty;
        let mut tensor = tensor;
        if !fits {
            // A smaller value that broadcasts to the state fills it.
            match self.broadcast_to(&tensor, &current.ty, value.span) {
                Some(wide) => tensor = wide,
                None => {
                    let code = match tensor.ty.dtype == current.ty.dtype {
                        true => Code::ShapeMismatch,
                        false => Code::DtypeMismatch,
                    };
                    self.report(
                        Diagnostic::new(
                            code,
                            value.span,
                            format!("`{}` cannot take this value", target.text),
                        )
                        .label(format!("this is `{}`", tensor.ty))
                        .note_at(
                            declared_at,
                            format!("`{}` is `{}`", target.text, current.ty),
                        ),
                    );
                    return;
                }
            }
        }
        match kind {
            Target::State(var) if self.writes => {
                self.emit(NodeKind::Write(var, tensor.id), Vec::new(), target.span);
            }
            Target::Slot => self
                .store
                .update
                .writes
                .push((target.text.clone(), tensor.id)),
            _ => {}
        }
        if let Some(binding) = self.frame_mut().find_mut(&target.text) {
            binding.value = Value::Tensor(tensor);
        }
    }

    /// Reports a write to something that is not state.
    fn unknown_target(&mut self, target: &Name) {
        let name = target.text.as_str();
        let (word, init) = match self.frame().kind {
            FrameKind::Optimizer => ("slot", ""),
            _ => ("state", ": f32[...]"),
        };
        let bindings = self.frame().scopes.iter().flatten();
        let writable = bindings.filter(|(_, b)| !matches!(b.target, Target::Fixed(_)));
        let near = nearest(name, writable.map(|(n, _)| n.as_str()));
        let near = near.map(|near| format!("did you mean `{near}`?"));
        let error = match name == "step" || self.lookup_global(name, target.span).is_some() {
            true => {
                let message = format!("`{name}` cannot be written: it is no state");
                Diagnostic::new(Code::WriteTarget, target.span, message).maybe_help(near)
            }
            false => {
                let message = format!("nothing is called `{name}` here");
                let declare = || format!("declare it: `{word} {name}{init} = zeros;`");
                Diagnostic::new(Code::UnknownName, target.span, message)
                    .help(near.unwrap_or_else(declare))
            }
        };
        self.report(error);
    }

    fn broadcast_to(
        &mut self,
        tensor: &crate::check::value::Tensor,
        expected: &trainspec_ir::TensorType,
        span: Span,
    ) -> Option<crate::check::value::Tensor> {
        if tensor.ty.dtype != expected.dtype || tensor.ty.rank() != 0 {
            return None;
        }
        let op = trainspec_ir::ops::find("broadcast_to")?;
        let sizes: Vec<trainspec_ir::Size> =
            expected.shape.0.iter().map(|d| d.size.clone()).collect();
        let given = [Value::Tensor(tensor.clone()), Self::sizes_value(&sizes)]
            .map(|value| crate::check::value::ArgValue {
                name: None,
                value,
                span,
            })
            .to_vec();
        match self.apply_op(op, given, span) {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    fn loss(&mut self, name: Option<&Name>, value: &Expr, span: Span) {
        if !self.only_in(
            &[FrameKind::Model],
            "loss",
            span,
            "a loss is a statement of the model",
        ) {
            return;
        }
        let text = name.map_or("loss", |n| n.text.as_str()).to_owned();
        let loss_span = name.map_or(head(span, "loss"), |n| n.span);
        if self.store.mode.losses.iter().any(|(n, _)| *n == text) {
            self.report(
                Diagnostic::new(
                    Code::DuplicateName,
                    loss_span,
                    match name {
                        Some(_) => format!("there is a second loss `{text}`"),
                        None => "there is a second loss without a name".to_owned(),
                    },
                )
                .help("name each: `loss generator = ...;`"),
            );
            return;
        }
        let found = self.eval(value);
        if found.is_poison() {
            self.store.broken_results = true;
            return;
        }
        let Some(tensor) = self.as_tensor(&found, DType::F32, value.span) else {
            self.store.broken_results = true;
            return;
        };
        if tensor.ty.rank() != 0 || !tensor.ty.dtype.is_float() {
            self.store.broken_results = true;
            let help = match tensor.ty.rank() {
                0 => "convert it: `cast(loss, f32)`",
                _ => "reduce it to one number: `mean(...)` or `sum(...)`",
            };
            self.report(
                Diagnostic::new(
                    Code::LossType,
                    value.span,
                    "a loss must be one floating-point number",
                )
                .label(format!("this is `{}`", tensor.ty))
                .help(help),
            );
            return;
        }
        self.store.mode.losses.push((text.clone(), tensor.id));
        if let Some(name) = name {
            self.bind_with(name, Value::Tensor(tensor), Target::Fixed("loss"));
        }
    }

    /// The value of a `metric` or an `output`.
    fn model_result(
        &mut self,
        name: &Name,
        value: &Expr,
        what: &'static str,
    ) -> Option<crate::typed::ValueId> {
        let span = Span {
            start: value.span.start,
            ..value.span
        };
        if !self.only_in(
            &[FrameKind::Model],
            what,
            name.span,
            &format!("a {what} is a statement of the model"),
        ) {
            return None;
        }
        let known = match what {
            "metric" => &self.store.mode.metrics,
            _ => &self.store.mode.outputs,
        };
        if known.iter().any(|(n, _)| *n == name.text) {
            let first = self
                .frame()
                .find(&name.text)
                .map(|b| (b.span, b.target.clone()));
            let message = format!("the {what} `{}` is declared twice", name.text);
            let mut error = Diagnostic::new(Code::DuplicateName, name.span, message);
            if let Some((first, Target::Fixed(kind))) = first
                && kind == what
            {
                error = error.note_at(first, "declared here first");
            }
            self.report(error);
            return None;
        }
        let found = self.eval(value);
        if found.is_poison() {
            self.store.broken_results = true;
            return None;
        }
        let tensor = self.as_tensor(&found, found.natural_dtype(), span);
        let Some(tensor) = tensor else {
            self.store.broken_results = true;
            return None;
        };
        if what == "metric" && tensor.ty.dtype == DType::String {
            self.report(
                Diagnostic::new(
                    Code::DtypeMismatch,
                    span,
                    "a metric is averaged, so it must be numbers or bools",
                )
                .label(format!("this is `{}`", tensor.ty)),
            );
            return None;
        }
        if self.frame().find(&name.text).is_none() {
            self.bind_with(name, Value::Tensor(tensor.clone()), Target::Fixed(what));
        }
        Some(tensor.id)
    }
}

/// Whether a value of an `if` or a loop is one that could be used.
fn is_something(value: &Value) -> bool {
    match value {
        Value::None | Value::Poison => false,
        Value::List(list) | Value::Tuple(list) => list.iter().any(is_something),
        _ => true,
    }
}

/// The leading word of a statement.
pub(crate) fn head(span: Span, word: &str) -> Span {
    Span {
        end: span.end.min(span.start + word.len() as u32),
        ..span
    }
}
