//! Constant folding of compile-time values: integers, floats, bools, strings, lists.

use trainspec_ir::Size;

use crate::ast::InfixOp;
use crate::check::value::{Value, same};

/// The result of folding an operation on compile-time values.
pub(crate) enum FoldResult {
    Value(Value),
    /// The result overflows.
    Overflow,
    DivisionByZero,
    /// The result depends on symbolic sizes.
    Unknown,
    /// The operation is not defined for these values.
    Undefined,
}

pub(crate) fn infix(op: InfixOp, a: &Value, b: &Value) -> FoldResult {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => ints(op, a, b),
        (Value::Float(_) | Value::Int(_), Value::Float(_) | Value::Int(_)) => {
            match (number(a), number(b)) {
                (Some(x), Some(y)) => floats(op, x, y),
                _ => FoldResult::Unknown,
            }
        }
        (Value::Bool(a), Value::Bool(b)) => match op {
            InfixOp::And => FoldResult::Value(Value::Bool(*a && *b)),
            InfixOp::Or => FoldResult::Value(Value::Bool(*a || *b)),
            _ => FoldResult::Undefined,
        },
        (Value::List(a), Value::List(b)) if op == InfixOp::Add => {
            FoldResult::Value(Value::list(a.iter().chain(b.iter()).cloned().collect()))
        }
        (a, b) => match (op, same(a, b)) {
            (InfixOp::Equal, Some(equal)) => FoldResult::Value(Value::Bool(equal)),
            (InfixOp::NotEqual, Some(equal)) => FoldResult::Value(Value::Bool(!equal)),
            _ => FoldResult::Undefined,
        },
    }
}

/// A compile-time number as a float.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => n.value().map(|n| n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn ints(op: InfixOp, a: &Size, b: &Size) -> FoldResult {
    let size = |s: Option<Size>| match s {
        Some(n) => FoldResult::Value(Value::Int(n)),
        None => FoldResult::Overflow,
    };
    match op {
        InfixOp::Add => size(a.add(b)),
        InfixOp::Subtract => size(a.sub(b)),
        InfixOp::Multiply => size(a.mul(b)),
        InfixOp::Divide | InfixOp::Modulo if b.value() == Some(0) => FoldResult::DivisionByZero,
        InfixOp::Modulo => size(a.rem(b)),
        // An integer where the remainder is zero, so that `d / heads` is a size; a float otherwise.
        InfixOp::Divide => match (a.div_exact(b), a.value(), b.value()) {
            (Some(n), _, _) => FoldResult::Value(Value::Int(n)),
            (None, Some(a), Some(b)) => FoldResult::Value(Value::Float(a as f64 / b as f64)),
            (None, _, _) => size(a.floor_div(b)),
        },
        InfixOp::Equal
        | InfixOp::NotEqual
        | InfixOp::Less
        | InfixOp::LessEqual
        | InfixOp::Greater
        | InfixOp::GreaterEqual => match a.sub(b) {
            None => FoldResult::Overflow,
            Some(difference) => match difference.value() {
                Some(d) => compare(op, d as f64, 0.0),
                None => FoldResult::Unknown,
            },
        },
        InfixOp::Pipe | InfixOp::Or | InfixOp::And | InfixOp::Matmul => FoldResult::Undefined,
    }
}

fn floats(op: InfixOp, x: f64, y: f64) -> FoldResult {
    let value = match op {
        InfixOp::Add => x + y,
        InfixOp::Subtract => x - y,
        InfixOp::Multiply => x * y,
        InfixOp::Divide => x / y,
        InfixOp::Modulo => x - (x / y).floor() * y,
        InfixOp::Pipe | InfixOp::Or | InfixOp::And | InfixOp::Matmul => {
            return FoldResult::Undefined;
        }
        _ => return compare(op, x, y),
    };
    FoldResult::Value(Value::Float(value))
}

fn compare(op: InfixOp, x: f64, y: f64) -> FoldResult {
    let result = match op {
        InfixOp::Equal => x == y,
        InfixOp::NotEqual => x != y,
        InfixOp::Less => x < y,
        InfixOp::LessEqual => x <= y,
        InfixOp::Greater => x > y,
        InfixOp::GreaterEqual => x >= y,
        _ => return FoldResult::Undefined,
    };
    FoldResult::Value(Value::Bool(result))
}

/// Folds an operation of the op table on compile-time numbers; `None` where it is left for run time.
pub(crate) fn operation(name: &str, args: &[&Value]) -> Option<FoldResult> {
    let binary = |op| match args {
        [a, b] => Some(infix(op, a, b)),
        _ => None,
    };
    match name {
        "add" => return binary(InfixOp::Add),
        "subtract" => return binary(InfixOp::Subtract),
        "multiply" => return binary(InfixOp::Multiply),
        "divide" => return binary(InfixOp::Divide),
        "floormod" => return binary(InfixOp::Modulo),
        _ => {}
    }
    if let [Value::Int(a), Value::Int(b)] = args {
        let known = a.value().zip(b.value());
        return Some(match (name, known) {
            ("floordiv", _) if b.value() == Some(0) => FoldResult::DivisionByZero,
            ("floordiv", _) => match a.floor_div(b) {
                Some(n) => FoldResult::Value(Value::Int(n)),
                None => FoldResult::Overflow,
            },
            ("maximum", Some((a, b))) => FoldResult::Value(Value::int(a.max(b))),
            ("minimum", Some((a, b))) => FoldResult::Value(Value::int(a.min(b))),
            ("maximum" | "minimum", None) if a == b => FoldResult::Value(Value::Int(a.clone())),
            ("maximum" | "minimum", None) => FoldResult::Unknown,
            ("pow", Some((a, b))) => match u32::try_from(b).ok().and_then(|b| a.checked_pow(b)) {
                Some(n) => FoldResult::Value(Value::int(n)),
                None => FoldResult::Value(Value::Float((a as f64).powf(b as f64))),
            },
            _ => return None,
        });
    }
    let float = |x: f64| Some(FoldResult::Value(Value::Float(x)));
    match args {
        [Value::Int(n)] if name == "abs" => n.value().map(|n| match n.checked_abs() {
            Some(n) => FoldResult::Value(Value::int(n)),
            None => FoldResult::Overflow,
        }),
        [Value::Int(n)] if matches!(name, "floor" | "ceil") => {
            Some(FoldResult::Value(Value::Int(n.clone())))
        }
        [x] => {
            let x = number(x)?;
            match name {
                "sqrt" => float(x.sqrt()),
                "rsqrt" => float(1.0 / x.sqrt()),
                "exp" => float(x.exp()),
                "log" => float(x.ln()),
                "abs" => float(x.abs()),
                "floor" => float(x.floor()),
                "ceil" => float(x.ceil()),
                "sin" => float(x.sin()),
                "cos" => float(x.cos()),
                "tanh" => float(x.tanh()),
                "negative" => float(-x),
                _ => None,
            }
        }
        [x, y] => {
            let (x, y) = (number(x)?, number(y)?);
            match name {
                "pow" => float(x.powf(y)),
                "maximum" => float(if x >= y || x.is_nan() { x } else { y }),
                "minimum" => float(if x <= y || x.is_nan() { x } else { y }),
                "floordiv" => float((x / y).floor()),
                _ => None,
            }
        }
        _ => None,
    }
}
