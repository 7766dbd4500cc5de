//! From an operation of TensorFlow to a call of the language.
//!
//! In: the operation's name, its arguments by TensorFlow's names, its inputs. Out: the text of an expression in which the
//! inputs are `x0`, `x1`, …. The tables know operations, never single cases; an argument left out or null has
//! TensorFlow's default.

mod array;
mod asked;
mod composite;
mod elementwise;
mod losses;
mod nn;
mod reduce;
mod sparse;
#[cfg(test)]
mod tests;
mod windows;

pub use asked::{Asked, literal};
use asked::{Kind, applied};
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
    fn of(asked: &Asked<'_>) -> Precision {
        let mut dtypes = asked.inputs.iter().map(|input| input.value.dtype());
        if !dtypes.any(|dtype| dtype == DType::F64) {
            Precision::Full
        } else if losses::is_reduced(asked.op) {
            Precision::Single
        } else if elementwise::rounds_a_constant(asked.op) {
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

/// How an operation is called.
struct Row {
    op: &'static str,
    how: How,
}

enum How {
    /// By its own name: so many inputs in order, then the arguments by name.
    Same(usize, &'static [(&'static str, Kind)]),
    /// The same, its inputs being one list.
    Listed(&'static [(&'static str, Kind)]),
    /// As the function says.
    By(fn(&Asked<'_>) -> Result<String, String>),
}

const fn same(op: &'static str, inputs: usize, args: &'static [(&'static str, Kind)]) -> Row {
    Row {
        op,
        how: How::Same(inputs, args),
    }
}

const fn listed(op: &'static str, args: &'static [(&'static str, Kind)]) -> Row {
    Row {
        op,
        how: How::Listed(args),
    }
}

const fn by(op: &'static str, call: fn(&Asked<'_>) -> Result<String, String>) -> Row {
    Row {
        op,
        how: How::By(call),
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
pub fn call(asked: &Asked<'_>) -> Result<Call, String> {
    let mut rows = TABLES.iter().copied().flatten();
    let row = rows
        .find(|row| row.op == asked.op)
        .ok_or("the operation is not known")?;
    let text = match row.how {
        How::Same(inputs, args) => {
            asked.arity(inputs)?;
            applied(asked.op, asked.all(), asked.arguments(args)?)
        }
        How::Listed(args) => {
            let list = format!("[{}]", asked.all().join(", "));
            applied(asked.op, vec![list], asked.arguments(args)?)
        }
        How::By(call) => call(asked)?,
    };
    asked.args.done("an argument")?;
    Ok(Call {
        text,
        precision: Precision::of(asked),
    })
}
