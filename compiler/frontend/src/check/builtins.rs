//! Compile-time builtins: type and shape queries, `grad`, `hessian`, `old`, `fail`. Those on columns have a file of their own.

use trainspec_ir::{Shape, Size, Span, TensorType};

use crate::ast::{Argument, ExprKind};
use crate::check::Checker;
use crate::check::call::{assign, missing};
use crate::check::ops::poisoned;
use crate::check::scope::{FrameKind, Target};
use crate::check::value::{ArgValue, Builtin, Tensor, Value};
use crate::diag::{Code, Diagnostic};
use crate::typed::NodeKind;

impl Checker<'_> {
    pub(crate) fn builtin(&mut self, builtin: Builtin, given: Vec<ArgValue>, span: Span) -> Value {
        if given.iter().any(|g| poisoned(&g.value)) {
            return Value::Poison;
        }
        let (params, required) = builtin.params();
        let Some(slots) = assign(self, builtin.name(), params, &given, span) else {
            return Value::Poison;
        };
        for (slot, param) in slots.iter().zip(params).take(required) {
            if slot.is_none() {
                return self.fail(missing(builtin.name(), param, span));
            }
        }
        let args: Vec<Option<&ArgValue>> = slots.iter().map(|s| s.map(|i| &given[i])).collect();
        let first = args[0].expect("the first argument is required");
        match builtin {
            Builtin::Len => match &first.value {
                Value::List(list) | Value::Tuple(list) => Value::int(list.len() as i64),
                Value::Range(a, b) => match b.sub(a) {
                    Some(n) => Value::Int(n),
                    None => self.size_overflow(span),
                },
                other => self.wrong_kind(first.span, "a list", &other.clone()),
            },
            Builtin::Known => {
                let value = self.as_number(first.value.clone());
                Value::Bool(!matches!(value, Value::Tensor(_)))
            }
            Builtin::Fail => match &first.value {
                Value::Str(text) => {
                    let message = text.to_string();
                    let help = match args.get(1).copied().flatten().map(|help| &help.value) {
                        Some(Value::Str(help)) => Some(help.to_string()),
                        _ => None,
                    };
                    self.gave_up = !self.calls.is_empty();
                    self.fail(Diagnostic::new(Code::BadValue, span, message).maybe_help(help))
                }
                other => self.wrong_kind(first.span, "a string", &other.clone()),
            },
            Builtin::Old => self.fail(
                Diagnostic::new(
                    Code::TypeMismatch,
                    first.span,
                    "`old` takes the name of a state",
                )
                .help("write `old(moving_mean)`"),
            ),
            Builtin::Bytes
            | Builtin::Characters
            | Builtin::Crossed
            | Builtin::HashBucket
            | Builtin::IsMissing
            | Builtin::Standardize
            | Builtin::Vocabulary
            | Builtin::Words => self.column_function(builtin, &args, span),
            Builtin::WordsOf => self.words_of(first, args[1], span),
            Builtin::Grad => self.grad(&args, span),
            Builtin::Hessian => self.hessian(&args, span),
            Builtin::ShapeOf | Builtin::Rank | Builtin::DTypeOf | Builtin::SizeOf => {
                let ty = match &first.value {
                    Value::Tensor(t) => t.ty.clone(),
                    Value::Int(_) | Value::Float(_) => {
                        let dtype = match &first.value {
                            Value::Int(_) => trainspec_ir::DType::I64,
                            _ => trainspec_ir::DType::F32,
                        };
                        TensorType::scalar(dtype).into()
                    }
                    other => return self.wrong_kind(first.span, "a tensor", &other.clone()),
                };
                match builtin {
                    Builtin::ShapeOf => Value::list(
                        ty.shape
                            .0
                            .iter()
                            .map(|d| Value::Int(d.size.clone()))
                            .collect(),
                    ),
                    Builtin::Rank => Value::int(ty.rank() as i64),
                    Builtin::DTypeOf => Value::DType(ty.dtype),
                    _ => match ty.shape.elements() {
                        Some(n) => Value::Int(n),
                        None => self.size_overflow(span),
                    },
                }
            }
        }
    }

    fn float_tensor(&mut self, given: &ArgValue, what: &str) -> Option<Tensor> {
        match &given.value {
            Value::Tensor(t) if t.ty.dtype.is_float() => Some(t.clone()),
            Value::Tensor(t) => {
                let message =
                    format!("{what} must have floating-point elements to be differentiated");
                self.report(
                    Diagnostic::new(Code::NotDifferentiable, given.span, message)
                        .label(format!("this is `{}`", t.ty)),
                );
                None
            }
            Value::Poison => None,
            other => {
                let message = format!("{what} is {}, which has no derivative", other.describe());
                self.report(Diagnostic::new(
                    Code::NotDifferentiable,
                    given.span,
                    message,
                ));
                None
            }
        }
    }

    fn grad(&mut self, args: &[Option<&ArgValue>], span: Span) -> Value {
        let (Some(y), Some(wrt)) = (args[0], args[1]) else {
            return Value::Poison;
        };
        let Some(y) = self.float_tensor(y, "what is differentiated") else {
            return Value::Poison;
        };
        let (list, single) = match &wrt.value {
            Value::List(list) | Value::Tuple(list) => (list.to_vec(), false),
            one => (vec![one.clone()], true),
        };
        let mut xs = Vec::new();
        for x in list {
            let given = ArgValue {
                name: None,
                value: x,
                span: wrt.span,
            };
            match self.float_tensor(&given, "`wrt`") {
                Some(x) => xs.push(x),
                None => return Value::Poison,
            }
        }
        let mut seed = None;
        if let Some(given) = args[2].filter(|g| !matches!(g.value, Value::None)) {
            let Some(tensor) = self.as_tensor(&given.value, y.ty.dtype, given.span) else {
                return Value::Poison;
            };
            if tensor.ty != y.ty {
                return self.fail(
                    Diagnostic::new(
                        Code::ShapeMismatch,
                        given.span,
                        "the seed must be like what is differentiated",
                    )
                    .label(format!("`{}` and `{}`", tensor.ty, y.ty)),
                );
            }
            seed = Some(tensor.id);
        }
        let types = xs.iter().map(|x| (*x.ty).clone()).collect();
        let kind = NodeKind::Grad {
            y: y.id,
            wrt: xs.iter().map(|x| x.id).collect(),
            seed,
        };
        let mut values = self.emit(kind, types, span);
        if single {
            values.remove(0)
        } else {
            Value::list(values)
        }
    }

    fn hessian(&mut self, args: &[Option<&ArgValue>], span: Span) -> Value {
        let (Some(y_given), Some(wrt)) = (args[0], args[1]) else {
            return Value::Poison;
        };
        let (Some(y), Some(x)) = (
            self.float_tensor(y_given, "what is differentiated"),
            self.float_tensor(wrt, "`wrt`"),
        ) else {
            return Value::Poison;
        };
        if y.ty.rank() != 0 {
            return self.fail(
                Diagnostic::new(
                    Code::RankMismatch,
                    y_given.span,
                    "only a scalar has a hessian",
                )
                .label(format!("this is `{}`", y.ty))
                .help("reduce it first: `sum(y)`"),
            );
        }
        let dims = x.ty.shape.0.iter().chain(&x.ty.shape.0).cloned().collect();
        let ty = TensorType::new(y.ty.dtype, Shape(dims));
        self.emit_one(NodeKind::Hessian { y: y.id, wrt: x.id }, ty, span)
    }

    /// `old(x)`: the value at the start of the step.
    pub(crate) fn old(&mut self, arguments: &[Argument], span: Span) -> Value {
        let name = match arguments {
            [Argument { name: None, value }] => match &value.kind {
                ExprKind::Name(name) => Some((name, value.span)),
                _ => None,
            },
            _ => None,
        };
        let Some((name, name_span)) = name else {
            return self.fail(
                Diagnostic::new(Code::TypeMismatch, span, "`old` takes the name of a state")
                    .help("write `old(moving_mean)`"),
            );
        };
        match self.frame().find(name) {
            None => self.name(name, name_span),
            Some(binding) => match (&binding.old, &binding.target) {
                (Some(old), _) => {
                    let (old, declared) = (old.clone(), binding.span);
                    self.mark_used(declared);
                    old
                }
                (None, Target::Fixed(what)) => {
                    let message = match *what {
                        "let" => format!("`{name}` is bound with `let`, and has no older value"),
                        what => format!("`{name}` is a {what}, which has no older value"),
                    };
                    self.fail(Diagnostic::new(Code::WriteTarget, name_span, message).help(
                        "`old` reads a `state`, a `slot` or `param` as it was before this step",
                    ))
                }
                (None, _) => Value::Poison,
            },
        }
    }

    /// Whether `step` is defined here.
    pub(crate) fn step_in_sight(&self) -> bool {
        match self.frame().kind {
            FrameKind::Model | FrameKind::Schedule | FrameKind::Optimizer | FrameKind::Train => {
                true
            }
            // A `fn` or `block` is part of whatever it was called from.
            FrameKind::Fn | FrameKind::Block => !self
                .frames
                .iter()
                .any(|f| matches!(f.kind, FrameKind::Data | FrameKind::Const | FrameKind::Init)),
            FrameKind::Data | FrameKind::Const | FrameKind::Init => false,
        }
    }

    /// A list of sizes as values.
    pub(crate) fn sizes_value(sizes: &[Size]) -> Value {
        Value::list(sizes.iter().cloned().map(Value::Int).collect())
    }
}
