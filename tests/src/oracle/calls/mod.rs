//! From an operation of TensorFlow to a call of the language.
//!
//! In: the operation's name, its arguments by TensorFlow's names, its inputs. Out: the text of an expression in which the
//! inputs are `x0`, `x1`, …. The tables know operations, never single cases; an argument left out or null has
//! TensorFlow's default.

mod array;
mod composite;
mod elementwise;
mod losses;
mod nn;
mod reduce;
mod request;
mod sparse;
#[cfg(test)]
mod tests;
mod windows;

use request::{Kind, applied};
pub use request::{OpRequest, literal};
use trainspec_ir::DType;

use crate::oracle::compare::Tolerance;

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its text.
    pub text: String,
    /// How well TensorFlow computes it.
    pub precision: Precision,
}

/// How much of a result can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// All that its dtype holds.
    Full,
    /// It is f64, but TensorFlow rounds a constant in it to f32.
    RoundedConstant,
    /// It is given f64, but TensorFlow computes at least parts of it in f32, and may return that.
    Single,
}

impl Precision {
    /// Of an operation with these inputs.
    fn of(request: &OpRequest<'_>) -> Precision {
        let mut dtypes = request.inputs.iter().map(|input| input.value.dtype());
        if !dtypes.any(|dtype| dtype == DType::F64) {
            Precision::Full
        } else if losses::is_reduced(request.op) {
            Precision::Single
        } else if elementwise::rounds_a_constant(request.op) {
            Precision::RoundedConstant
        } else {
            Precision::Full
        }
    }

    /// What a tolerance in the case's dtype becomes.
    pub fn widen(self, tolerance: Tolerance) -> Tolerance {
        match self {
            Precision::Full => tolerance,
            Precision::RoundedConstant => tolerance.or(Tolerance::ROUNDED_CONSTANT),
            Precision::Single => tolerance.or(Tolerance::SINGLE),
        }
    }
}

/// An operation and the form of its call.
struct Row {
    op: &'static str,
    form: CallForm,
}

enum CallForm {
    /// By its own name: this many inputs in order, then the arguments by name.
    Same(usize, &'static [(&'static str, Kind)]),
    /// By its own name, with its inputs as one list.
    Listed(&'static [(&'static str, Kind)]),
    /// As the function says.
    By(fn(&OpRequest<'_>) -> Result<String, String>),
}

const fn same(op: &'static str, inputs: usize, args: &'static [(&'static str, Kind)]) -> Row {
    Row {
        op,
        form: CallForm::Same(inputs, args),
    }
}

const fn listed(op: &'static str, args: &'static [(&'static str, Kind)]) -> Row {
    Row {
        op,
        form: CallForm::Listed(args),
    }
}

const fn by(op: &'static str, call: fn(&OpRequest<'_>) -> Result<String, String>) -> Row {
    Row {
        op,
        form: CallForm::By(call),
    }
}

const TABLES: &[&[Row]] = &[
    elementwise::ROWS,
    reduce::ROWS,
    losses::ROWS,
    nn::ROWS,
    windows::ROWS,
    array::ROWS,
    sparse::ROWS,
    composite::ROWS,
];

/// The call of an operation; what is not known about it where there is none.
pub fn call(request: &OpRequest<'_>) -> Result<Call, String> {
    let mut rows = TABLES.iter().copied().flatten();
    let row = rows
        .find(|row| row.op == request.op)
        .ok_or("the operation is not known")?;
    let text = match row.form {
        CallForm::Same(inputs, args) => {
            request.arity(inputs)?;
            applied(request.op, request.all(), request.arguments(args)?)
        }
        CallForm::Listed(args) => {
            let list = format!("[{}]", request.all().join(", "));
            applied(request.op, vec![list], request.arguments(args)?)
        }
        CallForm::By(call) => call(request)?,
    };
    request.args.done("an argument")?;
    Ok(Call {
        text,
        precision: Precision::of(request),
    })
}
