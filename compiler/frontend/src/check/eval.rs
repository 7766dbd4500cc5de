//! Evaluation of expressions to values.

use std::sync::Arc;

use trainspec_ir::{DType, Size, Span, TensorType};

use crate::ast::{Argument, Expr, ExprKind, InfixOp, Name, Postfix, PostfixKind};
use crate::check::value::{ArgValue, Callable, Quantity, Tensor, Value};
use crate::check::{Checker, MAX_EXPANSION_DEPTH};
use crate::diag::{Code, Diagnostic, foreign, nearest};
use crate::syntax;
use crate::typed::{Node, NodeKind, Results, ValueId};

/// The number of elements a value may have, nested elements included.
const MAX_VALUE_WEIGHT: usize = 1 << 20;
/// The number of dimensions a tensor may have.
const MAX_RANK: usize = 254;
/// The depth to which lists and tuples may nest.
const MAX_VALUE_DEPTH: usize = 200;

impl Checker<'_> {
    /// The value of an expression; errors are reported and give `Poison`.
    pub(crate) fn eval(&mut self, expr: &Expr) -> Value {
        if !self.step(expr.span) || !self.enter(expr.span) {
            return Value::Poison;
        }
        let value = self.eval_kind(expr);
        self.depth -= 1;
        self.bounded(value, expr.span)
    }

    /// Rejects a value that is too large to work with.
    fn bounded(&mut self, value: Value, at: Span) -> Value {
        let extent = value.extent();
        if extent.depth > MAX_VALUE_DEPTH {
            let message = format!("this value nests more than {MAX_VALUE_DEPTH} deep");
            return self.fail(Diagnostic::new(Code::TooDeep, at, message));
        }
        if extent.weight > MAX_VALUE_WEIGHT {
            let message = format!("this value has more than {MAX_VALUE_WEIGHT} elements");
            return self.fail(Diagnostic::new(Code::SpecTooLarge, at, message));
        }
        value
    }

    /// Goes one level deeper; false (and an error) where that is too deep.
    pub(crate) fn enter(&mut self, at: Span) -> bool {
        if self.depth >= MAX_EXPANSION_DEPTH {
            self.report(
                Diagnostic::new(
                    Code::TooDeep,
                    at,
                    format!("calls and expressions nest more than {MAX_EXPANSION_DEPTH} deep here"),
                )
                .help(
                    "name subexpressions with `let`, and let definitions call each other less deeply",
                ),
            );
            return false;
        }
        self.depth += 1;
        true
    }

    fn eval_kind(&mut self, expr: &Expr) -> Value {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Number(number) => self.number(&number.text, span),
            ExprKind::Quantity(number, unit) => match syntax::float_value(&number.text) {
                Some(amount) => Value::Quantity(Quantity {
                    amount,
                    unit: *unit,
                }),
                None => self.number_overflow(&number.text, span),
            },
            ExprKind::Str(text) => Value::str(text),
            ExprKind::Bool(b) => Value::Bool(*b),
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Paren(inner) => self.eval(inner),
            ExprKind::Tuple(list) => Value::tuple(self.eval_all(list)),
            ExprKind::List(list) => Value::list(self.eval_all(list)),
            ExprKind::Prefix(ops, operand) => {
                let mut value = self.eval(operand);
                for op in ops.iter().rev() {
                    value = self.prefix(*op, value, span);
                }
                value
            }
            ExprKind::Infix(first, rest) => self.infix_chain(first, rest),
            ExprKind::Postfix(base, ops) => self.postfix_chain(base, ops),
            ExprKind::Range(start, end) => self.range(start, end.as_deref(), span),
            ExprKind::If(branches, otherwise) => self.if_expr(branches, otherwise.as_ref()),
            ExprKind::Loop(loop_expr) => self.eval_loop(loop_expr, span),
        }
    }

    fn eval_all(&mut self, list: &[Expr]) -> Vec<Value> {
        list.iter().map(|e| self.eval(e)).collect()
    }

    fn number(&mut self, text: &str, span: Span) -> Value {
        let value = if syntax::is_int(text) {
            syntax::int_value(text).map(Value::int)
        } else {
            syntax::float_value(text).map(Value::Float)
        };
        match value {
            Some(value) => value,
            None => self.number_overflow(text, span),
        }
    }

    fn number_overflow(&mut self, text: &str, span: Span) -> Value {
        let shown: String = text.chars().take(24).collect();
        let dots = if shown.len() < text.len() { "…" } else { "" };
        self.fail(
            Diagnostic::new(
                Code::NumberOverflow,
                span,
                format!("the number {shown}{dots} is too large"),
            )
            .help("integers go up to 9223372036854775807, floats up to 1.79e308"),
        )
    }

    /// Resolves a name.
    pub(crate) fn name(&mut self, name: &str, span: Span) -> Value {
        if !self.spend(self.frame().scopes.len(), span) {
            return Value::Poison;
        }
        if let Some(binding) = self.frame().find(name) {
            let (value, declared) = (binding.value.clone(), binding.span);
            self.mark_used(declared);
            return value;
        }
        if name == "step" && self.step_in_sight() {
            let before = self.emit_one(
                NodeKind::Step,
                TensorType::scalar(trainspec_ir::DType::F32),
                span,
            );
            return match self.step_after {
                true => self.plus_one(before, span),
                false => before,
            };
        }
        match self.lookup_global(name, span) {
            Some(value) => value,
            None => self.unknown_name(name, span),
        }
    }

    fn unknown_name(&mut self, name: &str, span: Span) -> Value {
        let known = self.known_names();
        let dtypes = DType::ALL.iter().map(|d| d.name());
        let near = nearest(name, known.iter().map(String::as_str).chain(dtypes));
        let help = match (near, name) {
            _ if let Some(help) = foreign::word(name) && name != "step" => Some(help.to_owned()),
            (Some(near), _) => Some(format!("did you mean `{near}`?")),
            (None, "step") => Some("`step` is known where training goes on: in models, schedules, optimizers and `train`".to_owned()),
            (None, name) if self.lookup_optimizer(name).is_some() => {
                Some(format!("`{name}` is an optimizer: set it in `train {{ optimizer {name}(...); }}`"))
            }
            (None, "grad" | "param") => Some(format!("`{name}` is known inside an `optimizer`")),
            (None, "shape" | "fan_in" | "fan_out") => Some(format!("`{name}` is known inside an `init`; the shape of a tensor is `shape_of(x)`")),
            _ => None,
        };
        self.fail(
            Diagnostic::new(
                Code::UnknownName,
                span,
                format!("nothing is called `{name}` here"),
            )
            .maybe_help(help),
        )
    }

    fn range(&mut self, start: &Expr, end: Option<&Expr>, span: Span) -> Value {
        let Some(end) = end else {
            return self.fail(
                Diagnostic::new(Code::Syntax, span, "this range has no end").help(
                    "an open range such as `2..` is possible between the brackets of an index",
                ),
            );
        };
        let (low, high) = (
            self.size(start, "the start of a range"),
            self.size(end, "the end of a range"),
        );
        match (low, high) {
            (Some(low), Some(high)) => Value::Range(low, high),
            _ => Value::Poison,
        }
    }

    /// An expression that must be an integer.
    pub(crate) fn size(&mut self, expr: &Expr, what: &str) -> Option<Size> {
        let value = self.eval(expr);
        self.as_size(value, expr.span, what)
    }

    /// A value that must be an integer.
    pub(crate) fn as_size(&mut self, value: Value, span: Span, what: &str) -> Option<Size> {
        match value {
            Value::Int(n) => Some(n),
            Value::Poison => None,
            Value::Float(x) => {
                self.report(
                    Diagnostic::new(
                        Code::TypeMismatch,
                        span,
                        format!("{what} must be an integer"),
                    )
                    .label(format!("this is {x:?}"))
                    .help(match x.fract() == 0.0 && x.abs() < 1e15 {
                        true => format!("write `{x}`"),
                        false => "`floordiv(a, b)` divides integers and rounds down".to_owned(),
                    }),
                );
                None
            }
            other => {
                self.wrong_kind(span, &format!("an integer for {what}"), &other);
                None
            }
        }
    }

    /// A value that must be a compile-time bool.
    pub(crate) fn as_bool(&mut self, value: &Value, span: Span, what: &str) -> Option<bool> {
        match value {
            Value::Bool(b) => Some(*b),
            Value::Tensor(t) if t.ty.dtype == trainspec_ir::DType::Bool => {
                self.report(
                    Diagnostic::new(
                        Code::NotConstant,
                        span,
                        format!("{what} must be known when the spec is checked"),
                    )
                    .label(format!("this is `{}`, known at run time only", t.ty))
                    .help("choose between tensors with `where(condition, a, b)`"),
                );
                None
            }
            other => {
                self.wrong_kind(span, &format!("`true` or `false` for {what}"), other);
                None
            }
        }
    }

    fn infix_chain(&mut self, first: &Expr, rest: &[(InfixOp, Expr)]) -> Value {
        let mut value = self.eval(first);
        let mut span = first.span;
        for (op, operand) in rest {
            let whole = span.to(operand.span);
            value = match op {
                InfixOp::Pipe => self.pipe(value, span, operand),
                _ => {
                    // `&&` and `||` of compile-time values short-circuit.
                    match (op, &value) {
                        (InfixOp::And, Value::Bool(false)) | (InfixOp::Or, Value::Bool(true)) => {
                            self.mention(operand);
                            span = whole;
                            continue;
                        }
                        _ => {}
                    }
                    let right = self.eval(operand);
                    self.infix(*op, (value, span), (right, operand.span), whole)
                }
            };
            span = whole;
        }
        value
    }

    /// `value |> stage`: the value becomes the first argument.
    fn pipe(&mut self, value: Value, value_span: Span, stage: &Expr) -> Value {
        let first = ArgValue {
            name: None,
            value,
            span: value_span,
        };
        if let ExprKind::Postfix(base, ops) = &stage.kind
            && let Some((last, before)) = ops.split_last()
            && let PostfixKind::Call(arguments) = &last.kind
        {
            let callee = self.postfix_chain(base, before);
            let mut given = vec![first];
            given.extend(self.arguments(arguments));
            return self.call(callee, given, stage.span, base.span);
        }
        let callee = self.eval(stage);
        self.call(callee, vec![first], stage.span, stage.span)
    }

    pub(crate) fn arguments(&mut self, arguments: &[Argument]) -> Vec<ArgValue> {
        let given = |a: &Argument| ArgValue {
            name: a.name.clone(),
            value: self.eval(&a.value),
            span: a.value.span,
        };
        arguments.iter().map(given).collect()
    }

    fn postfix_chain(&mut self, base: &Expr, ops: &[Postfix]) -> Value {
        let mut ops = ops.iter();
        let mut span = base.span;
        // `nn.conv2d` and `old(x)` look at names, not at values.
        let mut value = match (&base.kind, ops.as_slice()) {
            (
                ExprKind::Name(nn),
                [
                    Postfix {
                        kind: PostfixKind::Member(member),
                        ..
                    },
                    ..,
                ],
            ) if nn == "nn" && self.frame().find("nn").is_none() => {
                ops.next();
                self.member_of_nn(member)
            }
            (
                ExprKind::Name(old),
                [
                    Postfix {
                        kind: PostfixKind::Call(arguments),
                        ..
                    },
                    ..,
                ],
            ) if old == "old" && self.frame().find("old").is_none() => {
                ops.next();
                self.old(arguments, base.span)
            }
            _ => self.eval(base),
        };
        for op in ops {
            let whole = span.to(op.span);
            value = match &op.kind {
                PostfixKind::Call(arguments) => {
                    let given = self.arguments(arguments);
                    self.call(value, given, whole, span)
                }
                PostfixKind::Index(subscripts) => self.index(value, subscripts, whole),
                PostfixKind::Member(member) => self.member(value, member),
            };
            span = whole;
        }
        value
    }

    fn member_of_nn(&mut self, member: &Name) -> Value {
        match self.lookup_operation(&member.text, member.span) {
            Some(value) => value,
            None => {
                let known = self.known_names();
                let near = nearest(&member.text, known.iter().map(String::as_str));
                let help = near.map(|n| format!("did you mean `nn.{n}`?"));
                self.fail(
                    Diagnostic::new(
                        Code::UnknownName,
                        member.span,
                        format!("there is no operation `{}`", member.text),
                    )
                    .maybe_help(help),
                )
            }
        }
    }

    /// `head.kernel`: a variable of a layer.
    fn member(&mut self, value: Value, member: &Name) -> Value {
        let instance = match value {
            Value::Callable(Callable::Instance(instance)) => instance,
            Value::Poison => return Value::Poison,
            other => {
                let known = self.known_names();
                let exact = known
                    .iter()
                    .find(|n| **n == member.text)
                    .map(String::as_str);
                let own = exact.or_else(|| nearest(&member.text, known.iter().map(String::as_str)));
                let help = match (&other, member.text.as_str(), own) {
                    (Value::Tensor(_), "shape", _) => {
                        "the sizes of a tensor are `shape_of(x)`".to_owned()
                    }
                    (Value::Tensor(_), "T", _) => {
                        "a matrix is transposed by `transpose(x)`".to_owned()
                    }
                    (Value::Tensor(_), _, Some(own)) => {
                        format!(
                            "a tensor has no methods: write `{own}(x, ...)` or `x |> {own}(...)`"
                        )
                    }
                    _ => "a dot reads a variable of a `layer`, as in `head.kernel`".to_owned(),
                };
                return self.fail(
                    Diagnostic::new(
                        Code::UnknownMember,
                        member.span,
                        format!("{} has no members", other.describe()),
                    )
                    .help(help),
                );
            }
        };
        self.instance_member(instance, member)
    }

    // ---- Nodes ----

    /// Adds a node with these results.
    pub(crate) fn emit(
        &mut self,
        kind: NodeKind,
        types: Vec<TensorType>,
        span: Span,
    ) -> Vec<Value> {
        self.emit_shared(kind, types.into_iter().map(Arc::new).collect(), span)
    }

    /// Adds a node whose result types may be shared.
    pub(crate) fn emit_shared(
        &mut self,
        kind: NodeKind,
        types: Vec<Arc<TensorType>>,
        span: Span,
    ) -> Vec<Value> {
        let dims: usize = types.iter().map(|t| t.shape.0.len()).sum();
        self.nodes += 1 + (types.len() + dims) as u64 / 8;
        if let Some(ty) = types.iter().find(|t| t.shape.0.len() > MAX_RANK) {
            let rank = ty.shape.0.len();
            let message = format!("this tensor has {rank} dimensions; the limit is {MAX_RANK}");
            self.report(Diagnostic::new(Code::SpecTooLarge, span, message));
            self.exhausted = true;
        }
        let results = Results {
            first: ValueId(self.program.values.len() as u32),
            count: types.len() as u32,
        };
        let values = types
            .into_iter()
            .map(|ty| Value::Tensor(self.shared_value(ty)))
            .collect();
        let span = self.user_span(span);
        self.program.nodes.push(Node {
            kind,
            results,
            span,
        });
        values
    }

    /// A new value, the result of a node to be added.
    pub(crate) fn new_value(&mut self, ty: TensorType) -> Tensor {
        self.shared_value(Arc::new(ty))
    }

    fn shared_value(&mut self, ty: Arc<TensorType>) -> Tensor {
        let id = ValueId(self.program.values.len() as u32);
        self.program.values.push(ty.clone());
        Tensor { id, ty }
    }

    /// Adds a node with one result.
    pub(crate) fn emit_one(&mut self, kind: NodeKind, ty: TensorType, span: Span) -> Value {
        self.emit(kind, vec![ty], span)
            .pop()
            .expect("one type gives one value")
    }
}
