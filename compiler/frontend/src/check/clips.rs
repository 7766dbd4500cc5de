//! Gradient clipping: calls of the clip functions of the library.

use trainspec_ir::{DType, Span};

use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::scope::{Frame, FrameKind};
use crate::check::value::{ArgValue, Callable, Value};
use crate::diag::{Code, Diagnostic};
use crate::typed::{Clip, ClipKind, Input, NodeKind, Rate, ValueId, VarId};

/// The argument of a clip function.
#[derive(Debug, Clone, Copy)]
enum ClipInput {
    /// One gradient; whether it may be the rows of a sparse one.
    Each { by_rows: bool },
    /// A list of gradients; the first result is the list of clipped ones.
    All,
}

/// A clip as it is set, before it is expanded.
pub(crate) struct ClipSetting {
    kind: ClipKind,
    /// The library function.
    function: &'static str,
    input: ClipInput,
    /// The arguments of the function after the gradients.
    arguments: Vec<(ClipArgument, Span)>,
    span: Span,
}

/// An argument of a clip function.
enum ClipArgument {
    None,
    Rate(Rate),
    Ints(Vec<i64>),
}

impl Checker<'_> {
    /// `clip KIND(...)`; rejects invalid bounds.
    pub(crate) fn clip(&mut self, bound: &Bound) -> Option<ClipSetting> {
        let norm = || bound.require("norm");
        let (kind, function, input) = match bound.signature.word {
            "global_norm" => {
                let use_norm = bound.get("use_norm");
                let kind = ClipKind::GlobalNorm {
                    norm: norm(),
                    use_norm,
                };
                (kind, "clip_by_global_norm", ClipInput::All)
            }
            "norm" => {
                let axes = bound.get("axes");
                let kind = ClipKind::Norm { norm: norm(), axes };
                (kind, "clip_by_norm", ClipInput::Each { by_rows: true })
            }
            "average_norm" => {
                let kind = ClipKind::AverageNorm { norm: norm() };
                // It divides by the number of all elements.
                let input = ClipInput::Each { by_rows: false };
                (kind, "clip_by_average_norm", input)
            }
            "value" => {
                let kind = ClipKind::Value {
                    low: bound.require("low"),
                    high: bound.require("high"),
                };
                (kind, "clip_by_value", ClipInput::Each { by_rows: true })
            }
            other => unreachable!("the clip `{other}` is refused, or converted here"),
        };
        self.check_clip(bound, &kind)?;
        let span = |name: &str| bound.span_of(name);
        let optional = |rate: &Option<Rate>| rate.map_or(ClipArgument::None, ClipArgument::Rate);
        let arguments = match &kind {
            ClipKind::GlobalNorm { norm, use_norm } => vec![
                (ClipArgument::Rate(*norm), span("norm")),
                (optional(use_norm), span("use_norm")),
            ],
            ClipKind::Norm { norm, axes } => {
                let axes = axes.clone().map_or(ClipArgument::None, ClipArgument::Ints);
                vec![
                    (ClipArgument::Rate(*norm), span("norm")),
                    (axes, span("axes")),
                ]
            }
            ClipKind::AverageNorm { norm } => vec![(ClipArgument::Rate(*norm), span("norm"))],
            ClipKind::Value { low, high } => vec![
                (ClipArgument::Rate(*low), span("low")),
                (ClipArgument::Rate(*high), span("high")),
            ],
        };
        Some(ClipSetting {
            kind,
            function,
            input,
            arguments,
            span: bound.span,
        })
    }

    fn check_clip(&mut self, bound: &Bound, kind: &ClipKind) -> Option<()> {
        let wrong = match kind {
            ClipKind::Value {
                low: Rate::Number(low),
                high: Rate::Number(high),
            } => (low > high).then(|| ("low", "the lower bound is above the upper one".to_owned())),
            ClipKind::Value { .. } => None,
            ClipKind::GlobalNorm { norm, .. }
            | ClipKind::Norm { norm, .. }
            | ClipKind::AverageNorm { norm } => match norm {
                Rate::Number(norm) if *norm <= 0.0 || norm.is_nan() => {
                    let word = bound.signature.word;
                    Some(("norm", format!("the norm of `{word}` must be positive")))
                }
                Rate::Number(_) | Rate::Value(_) => None,
            },
        };
        let Some((argument, message)) = wrong else {
            return Some(());
        };
        let span = bound.span_of(argument);
        self.report(Diagnostic::new(Code::BadValue, span, message));
        None
    }

    /// Expands a clip for the variables whose gradients it clips.
    pub(crate) fn expand_clip(&mut self, setting: &ClipSetting, vars: &[VarId]) -> Vec<Clip> {
        let batches: Vec<&[VarId]> = match setting.input {
            ClipInput::Each { .. } => vars.chunks(1).collect(),
            ClipInput::All => vec![vars],
        };
        let mut clips = Vec::new();
        for variables in batches {
            let (values, program) = self.in_program(|c| {
                let frame = Frame::new(FrameKind::Train, String::new());
                c.framed(frame, |c| c.clipped(setting, variables))
            });
            if let Some(values) = values {
                clips.push(Clip {
                    kind: setting.kind.clone(),
                    variables: variables.to_vec(),
                    by_rows: !matches!(setting.input, ClipInput::Each { by_rows: false }),
                    program,
                    values,
                });
            }
        }
        clips
    }

    /// The clipped gradients.
    fn clipped(&mut self, setting: &ClipSetting, variables: &[VarId]) -> Option<Vec<ValueId>> {
        let span = setting.span;
        let mut grads = Vec::new();
        for (i, var) in variables.iter().enumerate() {
            let ty = self.store.variables[var.0 as usize].ty.clone();
            grads.push(self.emit_one(NodeKind::Input(Input::ClippedGrad(i)), ty, span));
        }
        let dtypes: Vec<DType> = variables
            .iter()
            .map(|var| self.store.variables[var.0 as usize].ty.dtype)
            .collect();
        // A norm over variables of several element types has the widest of them.
        let wide = dtypes.iter().copied().max_by_key(|dtype| dtype.bytes());
        let wide = wide.expect("a clip has a variable");
        let subject = match setting.input {
            ClipInput::Each { .. } => grads.remove(0),
            ClipInput::All => {
                let grads = grads.into_iter().zip(&dtypes);
                let wide_grads = grads.map(|(grad, dtype)| match *dtype == wide {
                    true => grad,
                    false => self.cast(grad, wide, span),
                });
                Value::list(wide_grads.collect())
            }
        };
        let mut given = vec![(subject, span)];
        for (argument, span) in &setting.arguments {
            let value = match argument {
                ClipArgument::None => Value::None,
                // A norm that is given takes the place of one that is computed.
                ClipArgument::Rate(Rate::Number(x))
                    if given.len() == 2 && matches!(setting.input, ClipInput::All) =>
                {
                    Value::Tensor(self.as_tensor(&Value::Float(*x), wide, *span)?)
                }
                ClipArgument::Rate(rate) => self.rate_value(*rate, wide, *span),
                ClipArgument::Ints(list) => {
                    Value::list(list.iter().map(|n| Value::int(*n)).collect())
                }
            };
            given.push((value, *span));
        }
        let value = self.call_library(setting.function, given, span);
        let tensor = |value: &Value| match value {
            Value::Tensor(t) => Some(t.id),
            _ => None,
        };
        match (setting.input, &value) {
            (ClipInput::Each { .. }, value) => Some(vec![tensor(value)?]),
            (ClipInput::All, Value::Tuple(batches)) => match batches.first()? {
                Value::List(list) => {
                    let clipped = list.iter().zip(&dtypes);
                    let narrow = clipped.map(|(value, dtype)| match *dtype == wide {
                        true => tensor(value),
                        false => tensor(&self.cast(value.clone(), *dtype, span)),
                    });
                    narrow.collect()
                }
                _ => None,
            },
            (ClipInput::All, _) => None,
        }
    }

    /// Calls a function of the library with arguments and their spans.
    pub(crate) fn call_library(
        &mut self,
        function: &str,
        given: Vec<(Value, Span)>,
        span: Span,
    ) -> Value {
        let def = self
            .library_function(function)
            .expect("the library has what settings are made of");
        let given = given
            .into_iter()
            .map(|(value, span)| ArgValue {
                name: None,
                value,
                span,
            })
            .collect();
        self.call(Value::Callable(Callable::Def(def)), given, span, span)
    }

    /// A rate as a value of the program that is being built; a schedule becomes an input in the given dtype.
    pub(crate) fn rate_value(&mut self, rate: Rate, dtype: DType, span: Span) -> Value {
        match rate {
            Rate::Number(x) => Value::Float(x),
            Rate::Value(id) => self.rate(id, dtype, span),
        }
    }
}
