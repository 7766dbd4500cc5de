//! A requested operation, and the syntax of its call.

use serde_json::Value as Json;
use trainspec_ir::{DType, Tensor};

use crate::oracle::fields::{Fields, shortened};
use crate::oracle::ops::Input;
use crate::oracle::tensors::{self, integer};

/// A use of an operation.
#[derive(Debug)]
pub struct OpRequest<'a> {
    /// TensorFlow's name of it.
    pub op: &'a str,
    /// The tensors it takes.
    pub inputs: &'a [Input],
    /// The other arguments.
    pub args: &'a Fields<'a>,
    /// What is computed, in words.
    pub formula: Option<&'a str>,
    /// The element types of the outputs.
    pub outputs: &'a [DType],
}

/// What an argument is; one that is null is left out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Int,
    /// A list of integers, or one.
    Ints,
    /// Lists of integers.
    Pairs,
    Number,
    Bool,
    /// A word, which the language has in lower case.
    Word,
    /// Any string.
    String,
    /// Something that only concerns TensorFlow.
    Ignored,
}

impl OpRequest<'_> {
    /// Says when the number of inputs is another.
    pub(super) fn arity(&self, inputs: usize) -> Result<(), String> {
        match self.inputs.len() == inputs {
            true => Ok(()),
            false => Err(format!(
                "has {} inputs, expected {inputs}",
                self.inputs.len()
            )),
        }
    }

    /// All inputs.
    pub(super) fn all(&self) -> Vec<String> {
        (0..self.inputs.len()).map(x).collect()
    }

    /// The index of the input of that name.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.name == name)
    }

    /// The indices of the inputs of these names, which must be all there are; those marked `?` may be missing.
    pub(super) fn indices(&self, names: &[&str]) -> Result<Vec<Option<usize>>, String> {
        let known = |input: &&Input| {
            names
                .iter()
                .any(|name| name.trim_end_matches('?') == input.name)
        };
        if let Some(input) = self.inputs.iter().find(|input| !known(input)) {
            return Err(format!("an input that is not known: `{}`", input.name));
        }
        let index =
            |name: &&str| match (self.index(name.trim_end_matches('?')), name.ends_with('?')) {
                (None, false) => Err(format!("the input `{name}` is missing")),
                (index, _) => Ok(index),
            };
        names.iter().map(index).collect()
    }

    pub(super) fn shape(&self, input: usize) -> &[usize] {
        self.inputs[input].value.shape()
    }

    pub(super) fn dtype(&self, input: usize) -> DType {
        self.inputs[input].value.dtype()
    }

    /// Arguments as the language has them, `name: value`.
    pub(super) fn arguments(&self, args: &[(&str, Kind)]) -> Result<Vec<String>, String> {
        let mut given = Vec::new();
        for (name, kind) in args {
            given.extend(self.argument(name, *kind)?.map(|text| named(name, text)));
        }
        Ok(given)
    }

    /// The text of an argument.
    pub(super) fn argument(&self, name: &str, kind: Kind) -> Result<Option<String>, String> {
        let Some(json) = self.args.get(name) else {
            return Ok(None);
        };
        let text = match kind {
            Kind::Int => integer(json).map(|n| n.to_string()),
            Kind::Ints => match json {
                Json::Array(_) => list(json, |one| integer(one).map(|n| n.to_string())),
                one => integer(one).map(|n| n.to_string()),
            },
            Kind::Pairs => list(json, |pair| {
                list(pair, |n| integer(n).map(|n| n.to_string()))
            }),
            Kind::Number => literal(json),
            Kind::Bool => boolean(json).map(|b| b.to_string()),
            Kind::Word => word(json).map(|w| format!("\"{}\"", w.to_lowercase())),
            Kind::String => word(json).map(|w| format!("{w:?}")),
            Kind::Ignored => return Ok(None),
        };
        text.map(Some).map_err(|wrong| format!("`{name}`: {wrong}"))
    }

    /// An integer.
    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, String> {
        let int = |json| integer(json).map_err(|wrong| format!("`{name}`: {wrong}"));
        self.args.get(name).map(int).transpose()
    }

    /// A list of integers; one number is a list of one.
    pub(super) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, String> {
        let ints = |json: &Json| match json {
            Json::Array(list) => list.iter().map(integer).collect(),
            one => integer(one).map(|n| vec![n]),
        };
        let ints = self.args.get(name).map(ints).transpose();
        ints.map_err(|wrong| format!("`{name}`: {wrong}"))
    }

    /// A boolean, `false` where it is left out.
    pub(super) fn boolean(&self, name: &str) -> Result<bool, String> {
        let flag = |json| boolean(json).map_err(|wrong| format!("`{name}`: {wrong}"));
        self.args.get(name).map_or(Ok(false), flag)
    }

    /// A word, in lower case.
    pub(super) fn word(&self, name: &str) -> Result<Option<String>, String> {
        let lower = |json| word(json).map(str::to_lowercase);
        let word = self.args.get(name).map(lower).transpose();
        word.map_err(|wrong| format!("`{name}`: {wrong}"))
    }

    /// An element type.
    pub(super) fn dtype_arg(&self, name: &str) -> Result<Option<DType>, String> {
        let dtype = |json| word(json).and_then(tensors::dtype);
        let dtype = self.args.get(name).map(dtype).transpose();
        dtype.map_err(|wrong| format!("`{name}`: {wrong}"))
    }

    /// An input as a number that is known: its only element.
    pub(super) fn known(&self, input: usize) -> Result<String, String> {
        let value: &Tensor = &self.inputs[input].value;
        match (value.shape().is_empty(), value.dtype().is_float()) {
            (false, _) => Err(format!("`{}` is no scalar", self.inputs[input].name)),
            (true, true) => Ok(float(value.to_f64s()[0])),
            (true, false) => Ok(value.to_i64s()[0].to_string()),
        }
    }
}

/// An input.
pub(super) fn x(input: usize) -> String {
    format!("x{input}")
}

/// `name(positional, named)`.
pub(super) fn applied(
    name: &str,
    positional: impl IntoIterator<Item = String>,
    named: impl IntoIterator<Item = String>,
) -> String {
    let arguments: Vec<String> = positional.into_iter().chain(named).collect();
    format!("{name}({})", arguments.join(", "))
}

/// `name: value`.
pub(super) fn named(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name}: {value}")
}

/// `[a, b]`.
pub(super) fn ints<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<String> = values.into_iter().map(|n| n.to_string()).collect();
    format!("[{}]", values.join(", "))
}

/// `cast(value, dtype)`, where it is not of the type.
pub(super) fn cast(value: String, from: DType, to: DType) -> String {
    match from == to {
        true => value,
        false => format!("cast({value}, {to})"),
    }
}

/// A number as it is written: `3`, `0.5`, `infinity()`.
pub fn literal(json: &Json) -> Result<String, String> {
    match json.as_i64() {
        Some(n) => Ok(n.to_string()),
        None => tensors::number(json).map(float),
    }
}

/// A float as it is written.
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        "nan()".to_owned()
    } else if x.is_infinite() {
        let sign = if x < 0.0 { "-" } else { "" };
        format!("{sign}infinity()")
    } else {
        format!("{x:?}")
    }
}

fn list(json: &Json, one: impl Fn(&Json) -> Result<String, String>) -> Result<String, String> {
    let list = json
        .as_array()
        .ok_or_else(|| format!("`{}` is no list", shortened(json)))?;
    let texts = list.iter().map(one).collect::<Result<Vec<String>, _>>()?;
    Ok(ints(texts))
}

fn boolean(json: &Json) -> Result<bool, String> {
    json.as_bool()
        .ok_or_else(|| format!("`{}` is neither true nor false", shortened(json)))
}

fn word(json: &Json) -> Result<&str, String> {
    json.as_str()
        .ok_or_else(|| format!("`{}` is no text", shortened(json)))
}
