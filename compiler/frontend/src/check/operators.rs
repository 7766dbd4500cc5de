//! Operators: folded on compile-time values, lowered to operations on tensors.

use trainspec_ir::Span;

use crate::ast::{InfixOp, PrefixOp};
use crate::check::Checker;
use crate::check::fold;
use crate::check::value::{ArgValue, Value, same};
use crate::diag::{Code, Diagnostic};

impl Checker<'_> {
    pub(crate) fn prefix(&mut self, op: PrefixOp, value: Value, span: Span) -> Value {
        match (op, &value) {
            (_, Value::Poison) => Value::Poison,
            (PrefixOp::Negate, Value::Int(n)) => match n.mul(&(-1).into()) {
                Some(n) => Value::Int(n),
                None => self.size_overflow(span),
            },
            (PrefixOp::Negate, Value::Float(x)) => Value::Float(-x),
            (PrefixOp::Not, Value::Bool(b)) => Value::Bool(!b),
            (PrefixOp::Negate, Value::Tensor(_)) => {
                self.operator("negative", vec![(value, span)], span)
            }
            (PrefixOp::Not, Value::Tensor(_)) => {
                self.operator("logical_not", vec![(value, span)], span)
            }
            (_, other) => {
                let message = format!(
                    "`{}` cannot be applied to {}",
                    op.symbol(),
                    other.describe()
                );
                self.fail(Diagnostic::new(Code::TypeMismatch, span, message))
            }
        }
    }

    pub(crate) fn infix(
        &mut self,
        op: InfixOp,
        left: (Value, Span),
        right: (Value, Span),
        span: Span,
    ) -> Value {
        if left.0.is_poison() || right.0.is_poison() {
            return Value::Poison;
        }
        let (a, b) = self.compared(op, left.0, right.0);
        let (left, right) = ((a, left.1), (b, right.1));
        let tensors = [&left.0, &right.0]
            .iter()
            .any(|v| matches!(v, Value::Tensor(_)));
        if let InfixOp::Equal | InfixOp::NotEqual = op {
            let known = match (&left.0, &right.0) {
                // A comparison with `none` is decided at compile time, even for a tensor.
                (Value::None, Value::None) => Some(true),
                (Value::None, _) | (_, Value::None) => Some(false),
                (a, b) if !tensors => same(a, b),
                _ => None,
            };
            if let Some(equal) = known {
                return Value::Bool(equal == (op == InfixOp::Equal));
            }
        }
        if tensors {
            return self.operator(operation(op), vec![left, right], span);
        }
        let work = match (&left.0, &right.0) {
            (Value::Int(a), Value::Int(b)) => a.length() * b.length(),
            (a, b) => a.extent().weight + b.extent().weight,
        };
        if !self.spend(work, span) {
            return Value::Poison;
        }
        match fold::infix(op, &left.0, &right.0) {
            fold::FoldResult::Value(value) => value,
            fold::FoldResult::Overflow => self.size_overflow(span),
            fold::FoldResult::DivisionByZero => self.fail(Diagnostic::new(
                Code::BadValue,
                span,
                "this divides by zero",
            )),
            fold::FoldResult::Unknown if self.generic => Value::Poison,
            fold::FoldResult::Unknown => self.fail(
                Diagnostic::new(
                    Code::NotConstant,
                    span,
                    format!(
                        "`{}` of sizes that are not known until run time cannot be decided",
                        op.symbol()
                    ),
                )
                .help("compare numbers that are known, or tensors"),
            ),
            fold::FoldResult::Undefined => {
                let message = format!(
                    "`{}` cannot be applied to {} and {}",
                    op.symbol(),
                    left.0.describe(),
                    right.0.describe()
                );
                self.fail(Diagnostic::new(Code::TypeMismatch, span, message))
            }
        }
    }

    /// Applies the operation that an operator stands for.
    fn operator(&mut self, name: &str, operands: Vec<(Value, Span)>, span: Span) -> Value {
        let op = trainspec_ir::ops::find(name).expect("operators name operations of the table");
        let given = operands
            .into_iter()
            .map(|(value, span)| ArgValue {
                name: None,
                value,
                span,
            })
            .collect();
        self.apply_op(op, given, span)
    }
}

/// The operation of an operator on tensors.
pub(crate) fn operation(op: InfixOp) -> &'static str {
    match op {
        InfixOp::Pipe => unreachable!("a pipe is a call"),
        InfixOp::Or => "logical_or",
        InfixOp::And => "logical_and",
        InfixOp::Equal => "equal",
        InfixOp::NotEqual => "not_equal",
        InfixOp::Less => "less",
        InfixOp::LessEqual => "less_equal",
        InfixOp::Greater => "greater",
        InfixOp::GreaterEqual => "greater_equal",
        InfixOp::Add => "add",
        InfixOp::Subtract => "subtract",
        InfixOp::Multiply => "multiply",
        InfixOp::Divide => "divide",
        InfixOp::Modulo => "floormod",
        InfixOp::Matmul => "matmul",
    }
}

/// The operator symbol of an operation, for messages: `-` for `subtract`.
pub(crate) fn symbol(operation_name: &str) -> Option<&'static str> {
    let infix = InfixOp::ALL
        .into_iter()
        .filter(|op| *op != InfixOp::Pipe)
        .find(|op| operation(*op) == operation_name);
    infix.map(InfixOp::symbol)
}
