//! Gradient clipping: calls of the clip functions of the library.

use trainspec_ir::{DType, Span};

use crate::check::Checker;
use crate::check::scope::{Frame, FrameKind};
use crate::check::value::{ArgValue, Callable, Value};
use crate::diag::{Code, Diagnostic};
use crate::typed::{Clip, Constant, Input, NodeKind, Setting, ValueId, VarId};

/// The kinds of clips, their library functions, and whether each takes one gradient and may take the rows of a sparse one.
const KINDS: [(&str, &str, ClipInput); 4] = [
    ("value", "clip_by_value", ClipInput::Each { by_rows: true }),
    ("norm", "clip_by_norm", ClipInput::Each { by_rows: true }),
    (
        "average_norm",
        "clip_by_average_norm",
        // It divides by the number of all elements.
        ClipInput::Each { by_rows: false },
    ),
    ("global_norm", "clip_by_global_norm", ClipInput::All),
];

/// The argument of a clip function.
#[derive(Debug, Clone, Copy)]
enum ClipInput {
    /// One gradient.
    Each { by_rows: bool },
    /// A list of gradients; the first result is the list of clipped ones.
    All,
}

impl Checker<'_> {
    /// Rejects invalid bounds.
    pub(crate) fn check_clip(&mut self, setting: &Setting) -> bool {
        let number = |name: &str| match setting.get(name) {
            Some(Constant::Float(x)) => Some(*x),
            Some(Constant::Int(n)) => n.value().map(|n| n as f64),
            _ => None,
        };
        let wrong = match setting.word.as_str() {
            "value" => match (number("low"), number("high")) {
                (Some(low), Some(high)) if low > high => {
                    Some("the lower bound is above the upper one".to_owned())
                }
                _ => None,
            },
            kind => match number("norm") {
                Some(norm) if norm <= 0.0 || norm.is_nan() => {
                    Some(format!("the norm of `{kind}` must be positive"))
                }
                _ => None,
            },
        };
        match wrong {
            Some(message) => {
                self.report(Diagnostic::new(Code::BadValue, setting.span, message));
                false
            }
            None => true,
        }
    }

    /// Expands a clip for the variables whose gradients it clips.
    pub(crate) fn expand_clip(&mut self, setting: &Setting, vars: &[VarId]) -> Vec<Clip> {
        let Some((_, function, input)) = KINDS.iter().find(|(kind, ..)| *kind == setting.word)
        else {
            return Vec::new();
        };
        let batches: Vec<&[VarId]> = match input {
            ClipInput::Each { .. } => vars.chunks(1).collect(),
            ClipInput::All => vec![vars],
        };
        let mut clips = Vec::new();
        for variables in batches {
            let (values, program) = self.in_program(|c| {
                let frame = Frame::new(FrameKind::Train, String::new());
                c.framed(frame, |c| c.clipped(function, *input, setting, variables))
            });
            if let Some(values) = values {
                clips.push(Clip {
                    setting: setting.clone(),
                    variables: variables.to_vec(),
                    by_rows: !matches!(input, ClipInput::Each { by_rows: false }),
                    program,
                    values,
                });
            }
        }
        clips
    }

    /// The clipped gradients.
    fn clipped(
        &mut self,
        function: &str,
        input: ClipInput,
        setting: &Setting,
        variables: &[VarId],
    ) -> Option<Vec<ValueId>> {
        let span = setting.span;
        let mut grads = Vec::new();
        for (i, var) in variables.iter().enumerate() {
            let ty = self.store.variables[var.0 as usize].ty.clone();
            grads.push(self.emit_one(NodeKind::Input(Input::ClippedGrad(i)), ty, span));
        }
        let first = self.store.variables[variables[0].0 as usize].ty.dtype;
        let subject = match input {
            ClipInput::Each { .. } => grads.remove(0),
            ClipInput::All => Value::list(grads),
        };
        let arguments = setting.arguments.iter().map(|(_, value)| value);
        let given: Vec<Value> = std::iter::once(subject)
            .chain(arguments.map(|value| self.known_again(value, first, span)))
            .collect();
        let value = self.call_library(function, given, span);
        let tensor = |value: &Value| match value {
            Value::Tensor(t) => Some(t.id),
            _ => None,
        };
        match (input, &value) {
            (ClipInput::Each { .. }, value) => Some(vec![tensor(value)?]),
            (ClipInput::All, Value::Tuple(batches)) => match batches.first()? {
                Value::List(list) => list.iter().map(tensor).collect(),
                _ => None,
            },
            (ClipInput::All, _) => None,
        }
    }

    /// Calls a function of the library.
    pub(crate) fn call_library(&mut self, function: &str, given: Vec<Value>, span: Span) -> Value {
        let def = self
            .library_function(function)
            .expect("the library has what settings are made of");
        let given = given
            .into_iter()
            .map(|value| ArgValue {
                name: None,
                value,
                span,
            })
            .collect();
        self.call(Value::Callable(Callable::Def(def)), given, span, span)
    }

    /// An argument of a setting as a value of the program that is being built; a schedule becomes an input in the given dtype.
    pub(crate) fn known_again(&mut self, constant: &Constant, dtype: DType, span: Span) -> Value {
        match constant {
            Constant::None => Value::None,
            Constant::Int(n) => Value::Int(n.clone()),
            Constant::Float(x) => Value::Float(*x),
            Constant::Bool(flag) => Value::Bool(*flag),
            Constant::List(list) => Value::list(
                list.iter()
                    .map(|value| self.known_again(value, dtype, span))
                    .collect(),
            ),
            Constant::Value(id) => self.rate(*id, dtype, span),
            Constant::Str(_) | Constant::Name(_) | Constant::DType(_) | Constant::Interval(_) => {
                unreachable!("settings that are computed with have numbers")
            }
        }
    }
}
