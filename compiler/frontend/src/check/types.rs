//! Types: resolution of `f32[batch, 3]`, and unification of a value with it (binding of dtype variables and dimensions).

use std::collections::HashMap;

use trainspec_ir::{Class, Count, DType, Dim, Shape, Size, Span, TensorType};

use crate::ast::{Bound, DimExpr, DimKind, Expr, ExprKind, Name, Param, Type};
use crate::check::Checker;
use crate::check::fold;
use crate::check::ops::class_name;
use crate::check::scope::Target;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic, nearest};

/// Dtype variables and their classes.
pub(crate) type Bounds = HashMap<String, Class>;

/// The resolved name of a type.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TypeName {
    DType(DType),
    /// A dtype variable that is not bound yet.
    Variable(Class),
    Kind(&'static str),
}

/// Types of compile-time values.
const KINDS: [&str; 4] = ["int", "float", "bool", "string"];

/// The bounds of a `where` clause.
pub(crate) fn bounds_of(checker: &mut Checker<'_>, bounds: &[Bound]) -> Bounds {
    let mut found = Bounds::new();
    for bound in bounds {
        match Class::from_name(&bound.class.text) {
            Some(class) => {
                found.insert(bound.name.text.clone(), class);
            }
            None => {
                let classes = Class::ALL.map(Class::name);
                let near = nearest(&bound.class.text, classes);
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the classes are {}", crate::diag::one_of(classes)),
                };
                let message = format!("there is no class of types `{}`", bound.class.text);
                checker.report(
                    Diagnostic::new(Code::UnknownType, bound.class.span, message).help(help),
                );
                found.insert(bound.name.text.clone(), Class::Any);
            }
        }
    }
    found
}

/// Whether a parameter of this type takes tensors (and not a compile-time `int` or its kin).
pub(crate) fn is_tensor_type(ty: &Type, bounds: &Bounds) -> bool {
    ty.dims.is_some()
        || bounds.contains_key(&ty.name.text)
        || !KINDS.contains(&ty.name.text.as_str())
}

impl Checker<'_> {
    /// Resolves the name of a type.
    fn head(&mut self, name: &Name, scalar: bool, bounds: &Bounds) -> Option<TypeName> {
        if let Some(binding) = self.frame().find(&name.text) {
            let (value, declared) = (binding.value.clone(), binding.span);
            match value {
                Value::DType(dtype) => {
                    self.mark_used(declared);
                    return Some(TypeName::DType(dtype));
                }
                Value::Poison => return None,
                _ => {}
            }
        }
        if let Some(class) = bounds.get(&name.text) {
            return Some(TypeName::Variable(*class));
        }
        if scalar && let Some(kind) = KINDS.into_iter().find(|k| *k == name.text) {
            return Some(TypeName::Kind(kind));
        }
        if let Some(dtype) = DType::from_name(&name.text) {
            return Some(TypeName::DType(dtype));
        }
        let names = DType::ALL.iter().map(|d| d.name());
        let near = nearest(
            &name.text,
            names.chain(KINDS).chain(bounds.keys().map(String::as_str)),
        );
        let short = name.text.len() == 1 && name.text.chars().all(|c| c.is_ascii_uppercase());
        let help = match near {
            _ if short => format!(
                "if `{0}` is to stand for any type, say `where {0}: float`",
                name.text
            ),
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "the types are {}",
                crate::diag::one_of(DType::ALL.map(DType::name))
            ),
        };
        self.report(
            Diagnostic::new(
                Code::UnknownType,
                name.span,
                format!("there is no type `{}`", name.text),
            )
            .help(help),
        );
        None
    }

    /// Whether `value` is of the parameter's type; literals take it on, names in it are bound. The value as it is bound,
    /// or `Poison`.
    pub(crate) fn match_type(
        &mut self,
        param: &Param,
        ty: &Type,
        bounds: &Bounds,
        value: Value,
        span: Span,
    ) -> Value {
        self.match_named(&param.name, ty, bounds, value, span)
    }

    pub(crate) fn match_named(
        &mut self,
        name: &Name,
        ty: &Type,
        bounds: &Bounds,
        value: Value,
        span: Span,
    ) -> Value {
        let Some(head) = self.head(&ty.name, ty.dims.is_none(), bounds) else {
            return Value::Poison;
        };
        match head {
            TypeName::Kind(kind) => self.match_kind(name, kind, value, span),
            TypeName::DType(_) | TypeName::Variable(_) => {
                self.match_tensor(name, ty, head, value, span)
            }
        }
    }

    fn match_kind(&mut self, name: &Name, kind: &str, value: Value, span: Span) -> Value {
        let expected = match kind {
            "int" => "an integer",
            "float" => "a number",
            "bool" => "`true` or `false`",
            _ => "a string",
        };
        match (kind, value) {
            (_, Value::Poison) => Value::Poison,
            (_, Value::None) => Value::None,
            ("int", Value::Int(n)) => Value::Int(n),
            ("float", value @ (Value::Int(_) | Value::Float(_))) => match fold::number(&value) {
                Some(x) => Value::Float(x),
                None => value,
            },
            // It keeps its dtype.
            ("float", Value::Tensor(t)) if self.known.contains_key(&t.id) => Value::Tensor(t),
            ("bool", Value::Bool(b)) => Value::Bool(b),
            ("string", Value::Str(t)) => Value::Str(t),
            ("int", other @ Value::Float(_)) => {
                self.as_size(other, span, &format!("`{}`", name.text));
                Value::Poison
            }
            (_, other) => self.wrong_kind(span, &format!("{expected} for `{}`", name.text), &other),
        }
    }

    fn match_tensor(
        &mut self,
        name: &Name,
        ty: &Type,
        head: TypeName,
        value: Value,
        span: Span,
    ) -> Value {
        let natural = match (&head, &value) {
            (TypeName::DType(dtype), _) => *dtype,
            (TypeName::Variable(_), Value::Tensor(t)) => t.ty.dtype,
            (TypeName::Variable(Class::Int), _) => DType::I64,
            (TypeName::Variable(Class::Float), _) => DType::F32,
            _ => value.natural_dtype(),
        };
        if let Value::None = value {
            return Value::None;
        }
        let Some(tensor) = self.as_tensor(&value, natural, span) else {
            return Value::Poison;
        };
        let found = tensor.ty.dtype;
        match head {
            TypeName::DType(expected) if expected != found => {
                let message = format!("`{}` must have `{expected}` elements", name.text);
                let origin = match DType::from_name(&ty.name.text) {
                    Some(_) => None,
                    None => Some(format!(
                        "`{}` is `{expected}` because of an argument before it",
                        ty.name.text
                    )),
                };
                let mut error = Diagnostic::new(Code::DtypeMismatch, span, message)
                    .label(format!("this is `{}`", tensor.ty))
                    .help(format!(
                        "nothing is converted silently: write `cast({}, {expected})`",
                        self.snippet(span)
                    ));
                if let Some(origin) = origin {
                    error = error.note(origin);
                }
                return self.fail(error);
            }
            TypeName::Variable(class) if !class.contains(found) => {
                let message = format!("`{}` must have {} elements", name.text, class_name(class));
                let cast = if class == Class::Int { "i64" } else { "f32" };
                let shown = self.snippet(span);
                let help = match found {
                    DType::String => self.string_help(span),
                    _ => format!("convert it: `cast({shown}, {cast})`"),
                };
                let written = self.sources.slice(ty.span);
                let declared = format!(
                    "`{}` is declared as `{written}` where `{}: {}`",
                    name.text,
                    ty.name.text,
                    class.name()
                );
                return self.fail(
                    Diagnostic::new(Code::DtypeMismatch, span, message)
                        .label(format!("this is `{}`", tensor.ty))
                        .note(declared)
                        .help(help),
                );
            }
            TypeName::Variable(_) => {
                self.bind_with(&ty.name, Value::DType(found), Target::Fixed("type"));
            }
            _ => {}
        }
        let pattern = ty.dims.as_deref().unwrap_or(&[]);
        match self.match_dims(name, ty, pattern, &tensor.ty, span) {
            true => Value::Tensor(tensor),
            false => Value::Poison,
        }
    }

    fn match_dims(
        &mut self,
        name: &Name,
        ty: &Type,
        pattern: &[DimExpr],
        found: &TensorType,
        span: Span,
    ) -> bool {
        let rests: Vec<usize> = (0..pattern.len())
            .filter(|i| pattern[*i].kind == DimKind::Rest)
            .collect();
        if rests.len() > 1 {
            self.report(Diagnostic::new(
                Code::Syntax,
                pattern[rests[1]].span,
                "`..` may stand in a type only once",
            ));
            return false;
        }
        let dims = &found.shape.0;
        let written = self.sources.slice(ty.span).to_owned();
        let fixed = pattern.len() - rests.len();
        let fits = match rests.is_empty() {
            true => dims.len() == fixed,
            false => dims.len() >= fixed,
        };
        if !fits {
            let least = if rests.is_empty() { "" } else { "at least " };
            let count = |n: usize| match n {
                0 => "no dimensions".to_owned(),
                1 => "1 dimension".to_owned(),
                n => format!("{n} dimensions"),
            };
            let message = format!("`{}` must have {least}{}", name.text, count(fixed));
            let help = match (dims.len() + 1 == fixed, dims.len()) {
                (true, 0) => Some(
                    "a scalar has no dimensions: `fill([n], x)` makes a vector of it".to_owned(),
                ),
                (true, _) => {
                    // A dimension of any size, as of a batch, is not the one that is missing.
                    let has_batch = dims[0].size.value().is_none();
                    let axis = if has_batch { -1 } else { 0 };
                    let shown = self.snippet(span);
                    Some(format!(
                        "`expand_dims({shown}, axis: {axis})` adds a dimension"
                    ))
                }
                _ if dims.len() > fixed => {
                    Some("`flatten(x)` or `reshape(x, [...])` joins dimensions".to_owned())
                }
                _ => None,
            };
            self.report(
                Diagnostic::new(Code::RankMismatch, span, message)
                    .label(format!(
                        "this is `{found}`, which has {}",
                        count(dims.len())
                    ))
                    .note(format!("`{}` is declared as `{written}`", name.text))
                    .maybe_help(help),
            );
            return false;
        }
        let rest_at = rests.first().copied().unwrap_or(pattern.len());
        let skipped = dims.len() - fixed;
        let mut fine = true;
        for (i, dim) in pattern.iter().enumerate() {
            if i == rest_at {
                continue;
            }
            let axis = if i < rest_at { i } else { i - 1 + skipped };
            fine &= self.match_dim(name, dim, &dims[axis], found, axis, &written, span);
        }
        fine
    }

    #[allow(clippy::too_many_arguments)] // all of them are needed for the message
    fn match_dim(
        &mut self,
        name: &Name,
        pattern: &DimExpr,
        found: &Dim,
        whole: &TensorType,
        axis: usize,
        written: &str,
        span: Span,
    ) -> bool {
        let (expr, counted) = match &pattern.kind {
            DimKind::Rest => return true,
            DimKind::Capacity(expr) => (expr, true),
            DimKind::Size(expr) => (expr, false),
        };
        if counted && found.count.is_none() {
            self.report(
                Diagnostic::new(
                    Code::CountMismatch,
                    span,
                    format!("`{}` must have a run-time count", name.text),
                )
                .label(format!("this is `{whole}`"))
                .note(format!("`{}` is declared as `{written}`", name.text)),
            );
            return false;
        }
        if let Some(new) = self.unbound_name(expr) {
            self.bind_with(
                &new,
                Value::Int(found.size.clone()),
                Target::Fixed("dimension"),
            );
            return true;
        }
        let Some(expected) = self.size(expr, "a dimension") else {
            return false;
        };
        if expected == found.size {
            return true;
        }
        let message = format!(
            "`{}` has the wrong size in dimension {axis}: expected {expected}, found {}",
            name.text, found.size
        );
        self.report(
            Diagnostic::new(Code::ShapeMismatch, span, message)
                .label(format!("this is `{whole}`"))
                .note(format!("`{}` is declared as `{written}`", name.text)),
        );
        false
    }

    /// An unbound bare name: a dimension to bind.
    fn unbound_name(&mut self, expr: &Expr) -> Option<Name> {
        let ExprKind::Name(text) = &expr.kind else {
            return None;
        };
        if self.frame().find(text).is_some() || self.is_constant(text, expr.span) {
            return None;
        }
        Some(Name {
            text: text.clone(),
            span: expr.span,
        })
    }

    /// The type that a declaration states, where all names in it are known; with `named`, unknown names are dimensions
    /// that the data decides.
    pub(crate) fn declared_type(
        &mut self,
        ty: &Type,
        bounds: &Bounds,
        named: bool,
    ) -> Option<TensorType> {
        let dtype = match self.head(&ty.name, false, bounds)? {
            TypeName::DType(dtype) => dtype,
            TypeName::Variable(class) => {
                // Only definitions that are checked on their own meet this.
                let dtype = if class == Class::Int {
                    DType::I64
                } else {
                    DType::F32
                };
                self.bind_with(&ty.name, Value::DType(dtype), Target::Fixed("type"));
                dtype
            }
            TypeName::Kind(_) => unreachable!("kinds are asked for scalars only"),
        };
        let mut dims = Vec::new();
        for dim in ty.dims.as_deref().unwrap_or(&[]) {
            let (expr, counted) = match &dim.kind {
                DimKind::Rest if self.generic => {
                    dims.push(Dim::exact(Size::named("rest")));
                    continue;
                }
                DimKind::Rest => {
                    self.report(
                        Diagnostic::new(
                            Code::UnknownSize,
                            dim.span,
                            "`..` has no meaning here: the number of dimensions must be known",
                        )
                        .help(
                            "`..` stands for any dimensions in the parameters of a `fn` or `block`",
                        ),
                    );
                    return None;
                }
                DimKind::Capacity(expr) => (expr, true),
                DimKind::Size(expr) => (expr, false),
            };
            if named && let Some(new) = self.unbound_name(expr) {
                // The size of a constant with an error is unknown, not the data's.
                if self.is_broken(&new.text) {
                    return None;
                }
                let size = Value::Int(Size::named(&new.text));
                self.bind_with(&new, size, Target::Fixed("dimension"));
            }
            let size = self.size(expr, "a dimension")?;
            if let Some(n) = size.value()
                && n < 0
            {
                let message = format!("a dimension cannot be {n}");
                let help = (n == -1).then(|| {
                    "a dimension whose size varies has a name: `f32[batch, 4]`".to_owned()
                });
                self.report(
                    Diagnostic::new(Code::NegativeSize, dim.span, message).maybe_help(help),
                );
                return None;
            }
            dims.push(match counted {
                false => Dim::exact(size),
                // Inputs of one capacity share one run-time count.
                true => {
                    let written = format!("<={size}");
                    Dim::at_most(size, Count(written.into()))
                }
            });
        }
        let found = TensorType::new(dtype, Shape(dims));
        if found.shape.elements().is_none() {
            self.size_overflow(ty.span);
            return None;
        }
        Some(found)
    }

    /// The range that `in a..b` states for values of a type.
    pub(crate) fn value_bounds(&mut self, bound: &Expr, ty: &TensorType) -> Option<(i64, i64)> {
        let value = self.eval(bound);
        let (low, high) = match value {
            Value::Range(a, b) => match (a.value(), b.value()) {
                (Some(a), Some(b)) => (a, b),
                _ => {
                    self.report(Diagnostic::new(
                        Code::UnknownSize,
                        bound.span,
                        "the bounds of a value must be known",
                    ));
                    return None;
                }
            },
            Value::Poison => return None,
            other => {
                self.wrong_kind(bound.span, "a range such as `0..10`", &other);
                return None;
            }
        };
        if !ty.dtype.is_int() {
            self.report(
                Diagnostic::new(
                    Code::BoundMismatch,
                    bound.span,
                    format!("only integers can be bounded, and this is `{ty}`"),
                )
                .help("remove the bounds, or declare an integer type such as `i64`"),
            );
            return None;
        }
        let (least, greatest) = ty.dtype.int_range().unwrap_or((i64::MIN, i64::MAX));
        if low >= high || low < least || high.saturating_sub(1) > greatest {
            let message = match low >= high {
                true => format!("the bounds {low}..{high} hold no number"),
                false => format!("the bounds {low}..{high} do not fit in `{}`", ty.dtype),
            };
            self.report(
                Diagnostic::new(Code::BoundMismatch, bound.span, message)
                    .help("`in a..b` means: from a, up to but without b"),
            );
            return None;
        }
        Some((low, high))
    }
}
