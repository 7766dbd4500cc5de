//! Inputs of typed programs: what a value that comes from outside stands for.

use std::fmt;

use crate::typed::ValueId;

/// An input of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A feature of a data set, an input of a model, or a parameter of a definition that is checked on its own.
    Named(String),
    /// In the update of a variable: the variable.
    Param,
    /// In the update of a variable: its gradient.
    Grad,
    /// In the update of a variable: one of its slots, by its name in the definition.
    Slot(String),
    /// In the programs of an optimizer: one of its scalars, by its name in the definition.
    Scalar(String),
    /// In a clip: the gradient of one of its variables.
    ClippedGrad(usize),
    /// In a moving average: the value that is averaged.
    Averaged,
    /// In a moving average: a state variable of it, by its name in the library.
    AverageState(&'static str),
    /// A value of the program of schedules and scalars that settings use.
    Rate(ValueId),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Named(name) | Input::Slot(name) | Input::Scalar(name) => f.write_str(name),
            Input::Param => f.write_str("param"),
            Input::Grad => f.write_str("grad"),
            Input::ClippedGrad(i) => write!(f, "grad {i}"),
            Input::Averaged => f.write_str("value"),
            Input::AverageState(name) => f.write_str(name),
            Input::Rate(id) => write!(f, "rates {id}"),
        }
    }
}
