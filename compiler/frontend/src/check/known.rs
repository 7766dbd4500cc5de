//! Scalars of known number: the arguments of optimizers, which have a dtype and are known when the spec is checked.
//!
//! A number has no dtype before it meets a tensor, and arithmetic on numbers is done in 64 bits. That of an optimizer is done
//! in the dtype of the variable: 1 - 0.999 in `f32` is not 0.001. So a float given for a parameter is a constant of that
//! dtype, operations on it are nodes, and the numbers are kept beside them for what must be known: conditions, `const`
//! parameters, initializers.

use trainspec_ir::ops::Op;
use trainspec_ir::{DType, Span};

use crate::ast::InfixOp;
use crate::check::Checker;
use crate::check::fold::{self, FoldResult};
use crate::check::scope::FrameKind;
use crate::check::value::{ArgValue, Value};
use crate::diag::{Code, Diagnostic};

/// The number of a scalar tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownScalar {
    /// In 64 bits; the tensor has the rounding of its dtype.
    pub number: f64,
    /// Whether operations made it; otherwise it is an argument.
    pub computed: bool,
}

/// The dtype of an optimizer's arithmetic on numbers, from the dtype of its variable.
///
/// In 16 bits it is of no use (0.999 is 1 in `bf16`): there a number stays one until it meets a tensor.
pub(crate) fn arithmetic(variable: DType) -> Option<DType> {
    match variable {
        DType::F32 | DType::F64 => Some(variable),
        DType::F16 | DType::Bf16 => None,
        DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::Bool
        | DType::String => None,
    }
}

/// How a number misses the normal numbers of a dtype, and the number nearest to it that is one, a power of ten; `None` for normal numbers,
/// and for 0 and infinity, which are what is meant.
fn not_normal(number: f64, dtype: DType) -> Option<(String, String)> {
    let (smallest, largest) = (dtype.min_normal()?, dtype.max_finite()?);
    let size = number.abs();
    let sign = if number < 0.0 { "-" } else { "" };
    if size > 0.0 && size < smallest {
        let bound = format!("less than the smallest normal number of `{dtype}`, {smallest:.2e}");
        Some((bound, format!("{sign}1e{}", smallest.log10().ceil() as i32)))
    } else if size > largest && size.is_finite() {
        let bound = match number < 0.0 {
            false => format!("more than the largest number of `{dtype}`, {largest:.2e}"),
            true => format!("less than the lowest number of `{dtype}`, -{largest:.2e}"),
        };
        Some((bound, format!("{sign}1e{}", largest.log10().floor() as i32)))
    } else {
        None
    }
}

impl Checker<'_> {
    /// A number as a constant of the dtype.
    pub(crate) fn known_scalar(&mut self, number: f64, dtype: DType, span: Span) -> Value {
        let value = self.constant_of(&Value::Float(number), dtype, span);
        if let Value::Tensor(t) = &value {
            let known = KnownScalar {
                number,
                computed: false,
            };
            self.known.insert(t.id, known);
        }
        value
    }

    /// Warns of an argument of an optimizer that is no normal number in the dtype of its arithmetic: too small, it is zero there (the
    /// epsilon 1e-8 of Adam in `f16`), too large, it is infinite.
    pub(crate) fn warn_not_normal(&mut self, name: &str, value: &Value, span: Span) {
        let (FrameKind::Optimizer, Some(variable)) = (self.frame().kind, &self.store.update.param)
        else {
            return;
        };
        let dtype = self.frame().arithmetic.unwrap_or(variable.dtype);
        let number = match value {
            Value::Float(number) => *number,
            Value::Int(n) => match n.value() {
                Some(n) => n as f64,
                None => return,
            },
            _ => return,
        };
        let Some((bound, near)) = not_normal(number, dtype) else {
            return;
        };
        let optimizer = self.store.update.optimizer.as_ref();
        let optimizer = optimizer.map_or("this optimizer", |(def, ..)| def.name());
        let message = format!("`{name}` of `{optimizer}` is {number:e}, {bound}");
        let mut help = format!("write `{name}: {near}`");
        if arithmetic(dtype).is_none() {
            help += ", or keep the variable in `f32`";
        }
        self.report(Diagnostic::new(Code::NotNormal, span, message).help(help));
    }

    /// Warns of a number of a model that is no normal number in the dtype of the arithmetic: the epsilon 1e-12 of `l2_normalize` is zero in
    /// `f16`. Numbers of optimizers are warned of where they are given.
    pub(crate) fn warn_not_normal_constant(&mut self, number: f64, dtype: DType, span: Span) {
        let Some(frame) = self.frames.last() else {
            return;
        };
        if frame.kind == FrameKind::Optimizer || frame.arithmetic.is_some() {
            return;
        }
        let Some((bound, near)) = not_normal(number, dtype) else {
            return;
        };
        let message = format!("{number:e} is {bound}");
        // Towards larger numbers, where the number is too small in size or too far below 0.
        let least = if (number.abs() < 1.0) == (number > 0.0) {
            "at least"
        } else {
            "at most"
        };
        let help =
            format!("use a number of {least} {near}, or `cast` to `f32` before and back after");
        self.report(Diagnostic::new(Code::NotNormal, span, message).help(help));
    }

    /// The value with numbers in the place of scalars of known number.
    pub(crate) fn as_number(&self, value: Value) -> Value {
        if self.known.is_empty() {
            return value;
        }
        let all = |list: &[Value]| list.iter().map(|v| self.as_number(v.clone())).collect();
        match &value {
            Value::Tensor(t) => match self.known.get(&t.id) {
                Some(known) => Value::Float(known.number),
                None => value,
            },
            Value::List(list) => Value::list(all(list)),
            Value::Tuple(list) => Value::tuple(all(list)),
            _ => value,
        }
    }

    /// The operands of an operator, as numbers where it compares two that are known.
    pub(crate) fn compared(&self, op: InfixOp, left: Value, right: Value) -> (Value, Value) {
        match op {
            InfixOp::Equal
            | InfixOp::NotEqual
            | InfixOp::Less
            | InfixOp::LessEqual
            | InfixOp::Greater
            | InfixOp::GreaterEqual => {
                let numbers = (self.as_number(left.clone()), self.as_number(right.clone()));
                match numbers {
                    (Value::Tensor(_), _) | (_, Value::Tensor(_)) => (left, right),
                    numbers => numbers,
                }
            }
            InfixOp::Pipe
            | InfixOp::Or
            | InfixOp::And
            | InfixOp::Add
            | InfixOp::Subtract
            | InfixOp::Multiply
            | InfixOp::Divide
            | InfixOp::Modulo
            | InfixOp::Matmul => (left, right),
        }
    }

    /// Keeps the number of a result whose operands are all known.
    pub(crate) fn keep_known(&mut self, op: &Op, args: &[Option<&ArgValue>], result: &Value) {
        if self.known.is_empty() {
            return;
        }
        let Value::Tensor(result) = result else {
            return;
        };
        let operands: Option<Vec<Value>> = args
            .iter()
            .map(|a| a.map(|g| self.as_number(g.value.clone())))
            .collect();
        let Some(operands) = operands else {
            return;
        };
        let operands: Vec<&Value> = operands.iter().collect();
        if let Some(FoldResult::Value(Value::Float(number))) = fold::operation(op.name, &operands) {
            let known = KnownScalar {
                number,
                computed: true,
            };
            self.known.insert(result.id, known);
        }
    }
}
