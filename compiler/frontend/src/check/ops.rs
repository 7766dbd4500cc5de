//! Calls of operations of the op table: argument binding, dtype inference for literals, shape inference, a node.

use std::sync::Arc;

use trainspec_ir::ops::{Arg, Call, Elements, Kind, Op, RuleError};
use trainspec_ir::{Class, DType, Dim, Size, Span, TensorType};

use crate::check::errors::code_of;
use crate::check::fold::{self, FoldResult};
use crate::check::operators::symbol;
use crate::check::value::{ArgValue, Tensor, Value};
use crate::check::{Checker, call, columns};
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{Const, NodeKind, Operand};

impl Checker<'_> {
    /// Applies an operation: binds its arguments, folds it where all are numbers, infers its types and emits a node. Errors are reported,
    /// and the result is `Poison` then.
    pub(crate) fn apply_op(
        &mut self,
        op: &'static Op,
        mut given: Vec<ArgValue>,
        span: Span,
    ) -> Value {
        if op.name == "cast" {
            // A value that was narrowed to the type of the variable is converted from the original.
            for argument in &mut given {
                let Value::Tensor(t) = &mut argument.value else {
                    continue;
                };
                if let Some(full) = self.shortened.get(&t.id) {
                    *t = full.clone();
                } else if let Some(known) = self.known.get(&t.id)
                    && !known.computed
                {
                    argument.value = Value::Float(known.number);
                }
            }
        }
        if given.iter().any(|g| poisoned(&g.value)) {
            return Value::Poison;
        }
        let names: Vec<&str> = op.params.iter().map(|p| p.name).collect();
        let Some(slots) = call::assign(self, op.name, &names, &given, span) else {
            return Value::Poison;
        };
        let args: Vec<Option<&ArgValue>> = slots.iter().map(|s| s.map(|i| &given[i])).collect();
        for (param, arg) in op.params.iter().zip(&args) {
            if arg.is_none() && param.default_arg().is_none() {
                return self.fail(call::missing(op.name, param.name, span));
            }
        }
        if let Some(value) = self.fold_op(op, &args, span) {
            return value;
        }
        if columns::has_strings(op, &args) {
            return self.op_on_strings(op, &args, span);
        }
        if op.name == "assert_in_range" && !self.fits_range(&args) {
            return Value::Poison;
        }
        let Some(dtypes) = self.dtypes_of(op, &args, span) else {
            return Value::Poison;
        };
        let rank = args.iter().flatten().find_map(|g| match &g.value {
            Value::Tensor(t) => Some(t.ty.rank()),
            _ => None,
        });
        let mut operands = Vec::with_capacity(op.params.len());
        let mut known = Vec::with_capacity(op.params.len());
        for ((param, arg), dtype) in op.params.iter().zip(&args).zip(dtypes) {
            let given = match arg {
                Some(given) if !matches!(given.value, Value::None) => *given,
                _ => {
                    let Some(default) = param.default_arg() else {
                        return self.fail(call::missing(op.name, param.name, span));
                    };
                    operands.push(Operand::Attr(default.clone()));
                    known.push(default);
                    continue;
                }
            };
            let Some((operand, arg)) = self.op_argument(param.name, param.kind, given, dtype, rank)
            else {
                return Value::Poison;
            };
            operands.push(operand);
            known.push(arg);
        }
        let count = self.count_site(op, &operands);
        let call = Call {
            op,
            args: &known,
            site: &count,
        };
        match (op.infer)(&call) {
            Ok(types) => {
                self.warn_of_widening(op, &args, &types, span);
                let site = op.random.then(|| self.random_site(op.name));
                let types = types.into_iter().map(|ty| shared(ty, &args)).collect();
                let mut values = self.emit_shared(NodeKind::Op { op, operands, site }, types, span);
                match values.len() {
                    1 => {
                        self.keep_known(op, &args, &values[0]);
                        values.remove(0)
                    }
                    _ => Value::tuple(values),
                }
            }
            Err(error) => self.broken_rule(op, &args, error, span),
        }
    }

    /// The name of the counts that a call makes: that of an earlier call whose counts are the same.
    fn count_site(&mut self, op: &'static Op, operands: &[Operand]) -> String {
        self.counts += 1;
        let fresh = format!("count {}", self.counts);
        if !op.params.iter().any(|p| p.counting) {
            return fresh;
        }
        let deciding = op.params.iter().zip(operands);
        let deciding: Vec<&Operand> = deciding
            .filter(|(param, operand)| param.counting || matches!(operand, Operand::Attr(_)))
            .map(|(_, operand)| operand)
            .collect();
        let key = format!("{} {deciding:?}", op.name);
        self.counted.entry(key).or_insert(fresh).clone()
    }

    /// `[batch, 1]` and `[batch]` broadcast to `[batch, batch]`, which hardly anybody means.
    fn warn_of_widening(
        &mut self,
        op: &'static Op,
        args: &[Option<&ArgValue>],
        results: &[TensorType],
        span: Span,
    ) {
        let (Some(_), [result], [Some(x), Some(y)]) = (symbol(op.name), results, args) else {
            return;
        };
        let (Value::Tensor(x), Value::Tensor(y)) = (&x.value, &y.value) else {
            return;
        };
        if x.ty.rank() == y.ty.rank() || op.name == "matmul" || self.is_library_file(span.file) {
            return;
        }
        let Some(size) = repeated(result) else {
            return;
        };
        if repeated(&x.ty).is_some() || repeated(&y.ty).is_some() {
            return;
        }
        let (small, column) = match x.ty.rank() < y.ty.rank() {
            true => (&x.ty, &y.ty),
            false => (&y.ty, &x.ty),
        };
        let help = match column.shape.0.last() {
            Some(last) if last.is_one() => {
                format!(
                    "take the column out of `{column}` with `[.., 0]`, or add a dimension to `{small}` with `expand_dims(…, axis: -1)`"
                )
            }
            _ => format!(
                "add a dimension to `{small}` with `expand_dims`, so that it is clear which dimensions meet"
            ),
        };
        self.report(
            Diagnostic::new(
                Code::BroadcastWidens,
                span,
                format!("every `{size}` meets every `{size}`: the result is `{result}`"),
            )
            .label(format!("`{}` and `{}`", x.ty, y.ty))
            .help(help),
        );
    }

    /// The folded result where all arguments are compile-time numbers.
    fn fold_op(
        &mut self,
        op: &'static Op,
        args: &[Option<&ArgValue>],
        span: Span,
    ) -> Option<Value> {
        if op.name == "cast"
            && let [Some(x), Some(dtype)] = args
            && let (Value::Int(_) | Value::Float(_) | Value::Bool(_), Value::DType(dtype)) =
                (&x.value, &dtype.value)
        {
            return Some(self.constant_of(&x.value, *dtype, x.span));
        }
        let values: Option<Vec<&Value>> = args.iter().map(|a| a.map(|g| &g.value)).collect();
        match fold::operation(op.name, &values?)? {
            FoldResult::Value(value) => Some(value),
            FoldResult::Overflow => Some(self.size_overflow(span)),
            FoldResult::DivisionByZero => Some(self.fail(Diagnostic::new(
                Code::BadValue,
                span,
                "this divides by zero",
            ))),
            FoldResult::Unknown if self.generic => Some(Value::Poison),
            FoldResult::Unknown | FoldResult::Undefined => None,
        }
    }

    /// The dtype that each tensor parameter's literals take on.
    fn dtypes_of(
        &mut self,
        op: &'static Op,
        args: &[Option<&ArgValue>],
        span: Span,
    ) -> Option<Vec<DType>> {
        let mut variables: Vec<(&str, DType, Span, &TensorType)> = Vec::new();
        for (param, arg) in op.params.iter().zip(args) {
            let (Kind::Tensor(elements) | Kind::Tensors(elements)) = param.kind else {
                continue;
            };
            let Some(given) = arg else { continue };
            let tensors: Vec<&Tensor> = match &given.value {
                Value::Tensor(t) => vec![t],
                Value::List(list) | Value::Tuple(list) => list
                    .iter()
                    .filter_map(|v| match v {
                        Value::Tensor(t) => Some(t),
                        _ => None,
                    })
                    .collect(),
                _ => continue,
            };
            for t in tensors {
                let (class, variable) = match elements {
                    Elements::Only(dtype) if dtype == t.ty.dtype => continue,
                    Elements::Only(dtype) => {
                        let message =
                            format!("{} needs `{dtype}` elements", self.quoted_name(op, span));
                        let snippet = self.snippet(given.span);
                        let help = format!("convert it: `cast({snippet}, {dtype})`");
                        let help = match (dtype, t.ty.dtype) {
                            (DType::Bool, _) => {
                                format!("compare it with something: `{snippet} != 0`")
                            }
                            _ => help,
                        };
                        self.report(
                            Diagnostic::new(Code::DtypeMismatch, given.span, message)
                                .label(format!("this is `{}`", t.ty))
                                .help(help),
                        );
                        return None;
                    }
                    Elements::Of(class) => (class, None),
                    Elements::Same(variable, class) => (class, Some(variable)),
                };
                if !class.contains(t.ty.dtype) {
                    let message = format!(
                        "{} needs {} elements",
                        self.quoted_name(op, span),
                        class_name(class)
                    );
                    let snippet = self.snippet(given.span);
                    let help = match (class, t.ty.dtype) {
                        (Class::Float, _) => Some(format!("convert it: `cast({snippet}, f32)`")),
                        (Class::Int, _) => Some(format!("convert it: `cast({snippet}, i64)`")),
                        _ => Some(format!(
                            "convert it: `cast({snippet}, f32)` or `cast({snippet}, i64)`"
                        )),
                    };
                    self.report(
                        Diagnostic::new(Code::DtypeMismatch, given.span, message)
                            .label(format!("this is `{}`", t.ty))
                            .maybe_help(help),
                    );
                    return None;
                }
                let Some(variable) = variable else { continue };
                match variables.iter().find(|(v, ..)| *v == variable) {
                    None => variables.push((variable, t.ty.dtype, given.span, &*t.ty)),
                    Some((_, dtype, first_span, first)) if *dtype != t.ty.dtype => {
                        let message =
                            format!("{} needs elements of one type", self.quoted_name(op, span));
                        // The integer is cast to a float, never the float to an integer.
                        let (cast_span, expected) = match (dtype.is_float(), t.ty.dtype.is_float())
                        {
                            (false, true) => (*first_span, t.ty.dtype),
                            _ => (given.span, *dtype),
                        };
                        let snippet = match *first_span == given.span {
                            true => "…".to_owned(),
                            false => self.snippet(cast_span),
                        };
                        let diagnostic = Diagnostic::new(Code::DtypeMismatch, span, message)
                            .label(format!("`{first}` and `{}`", t.ty))
                            .help(format!(
                                "nothing is converted silently: write `cast({snippet}, {expected})`"
                            ));
                        self.report(diagnostic);
                        return None;
                    }
                    Some(_) => {}
                }
            }
        }
        // A literal in a list of literals decides for its neighbours: [1, 0.5] are floats.
        let dtype_of = |name: &str| variables.iter().find(|(v, ..)| *v == name).map(|v| v.1);
        let common = |values: &[Option<&ArgValue>]| {
            Value::common_dtype(values.iter().flatten().map(|g| &g.value))
        };
        let mut dtypes = Vec::with_capacity(op.params.len());
        for (param, arg) in op.params.iter().zip(args) {
            dtypes.push(match param.kind {
                Kind::Tensor(elements) | Kind::Tensors(elements) => match elements {
                    Elements::Only(dtype) => dtype,
                    Elements::Of(class) => within(class, common(&[*arg])),
                    Elements::Same(name, class) => dtype_of(name).unwrap_or_else(|| {
                        let same: Vec<Option<&ArgValue>> = op
                            .params
                            .iter()
                            .zip(args)
                            .filter(|(p, _)| {
                                matches!(p.kind, Kind::Tensor(Elements::Same(n, _)) | Kind::Tensors(Elements::Same(n, _)) if n == name)
                            })
                            .map(|(_, a)| *a)
                            .collect();
                        match explicit_dtype(op, args) {
                            Some(dtype) if class.contains(dtype) => dtype,
                            _ => within(class, common(&same)),
                        }
                    }),
                },
                _ => DType::F32,
            });
        }
        Some(dtypes)
    }

    /// One argument, as the operand of the node and as the shape rule sees it.
    fn op_argument(
        &mut self,
        name: &str,
        kind: Kind,
        given: &ArgValue,
        dtype: DType,
        rank: Option<usize>,
    ) -> Option<(Operand, Arg)> {
        let span = given.span;
        let known = |arg: Arg| Some((Operand::Attr(arg.clone()), arg));
        match kind {
            Kind::Tensor(_) => {
                let tensor = self.as_tensor(&given.value, dtype, span)?;
                Some((Operand::Value(tensor.id), Arg::Tensor((*tensor.ty).clone())))
            }
            Kind::Tensors(_) => {
                let list = match &given.value {
                    Value::List(list) | Value::Tuple(list) if !list.is_empty() => list.clone(),
                    other => {
                        self.wrong_kind(span, &format!("a list of tensors for `{name}`"), other);
                        return None;
                    }
                };
                let mut ids = Vec::with_capacity(list.len());
                let mut types = Vec::with_capacity(list.len());
                for value in list.iter() {
                    let tensor = self.as_tensor(value, dtype, span)?;
                    ids.push(tensor.id);
                    types.push((*tensor.ty).clone());
                }
                Some((Operand::Values(ids), Arg::Tensors(types)))
            }
            Kind::Int => known(Arg::Int(self.as_size(
                given.value.clone(),
                span,
                &format!("`{name}`"),
            )?)),
            Kind::Ints => known(Arg::Ints(self.as_sizes(&given.value, span, name, rank)?)),
            Kind::Pairs => {
                let Value::List(list) = &given.value else {
                    self.wrong_kind(span, &format!("a list of pairs for `{name}`"), &given.value);
                    return None;
                };
                let mut pairs = Vec::with_capacity(list.len());
                for pair in list.iter() {
                    let sizes = self.as_sizes(pair, span, name, None)?;
                    let [before, after] = sizes.as_slice() else {
                        self.wrong_kind(span, &format!("a list of pairs for `{name}`"), pair);
                        return None;
                    };
                    pairs.push((before.clone(), after.clone()));
                }
                known(Arg::Pairs(pairs))
            }
            Kind::Float => match fold::number(&self.as_number(given.value.clone())) {
                Some(x) => known(Arg::Float(x)),
                None => {
                    self.wrong_kind(span, &format!("a number for `{name}`"), &given.value);
                    None
                }
            },
            Kind::Number => match &self.as_number(given.value.clone()) {
                Value::Int(n) => known(Arg::Int(n.clone())),
                Value::Float(x) => known(Arg::Float(*x)),
                other => {
                    self.wrong_kind(span, &format!("a number for `{name}`"), other);
                    None
                }
            },
            Kind::Bool => {
                let what = format!("`{name}`, which is `true` or `false`,");
                known(Arg::Bool(self.as_bool(&given.value, span, &what)?))
            }
            Kind::Word(words) => match &given.value {
                Value::Str(text) if words.contains(&&**text) => {
                    known(Arg::Word((**text).to_owned()))
                }
                Value::Str(text) => {
                    let near = nearest(text, words.iter().copied());
                    let help = match near {
                        Some(near) => format!("did you mean {near:?}?"),
                        None => format!("it can be {}", one_of(words.iter().copied())),
                    };
                    let message = format!("`{name}` cannot be {text:?}");
                    self.report(Diagnostic::new(Code::BadValue, span, message).help(help));
                    None
                }
                other => {
                    let expected = format!(
                        "`{name}` as one of the strings {}",
                        one_of(words.iter().copied())
                    );
                    self.wrong_kind(span, &expected, other);
                    None
                }
            },
            Kind::String => match &given.value {
                Value::Str(text) => known(Arg::Word((**text).to_owned())),
                other => {
                    self.wrong_kind(span, &format!("a string for `{name}`"), other);
                    None
                }
            },
            Kind::DType => match &given.value {
                Value::DType(dtype) => known(Arg::DType(*dtype)),
                other => {
                    self.wrong_kind(span, &format!("an element type for `{name}`"), other);
                    None
                }
            },
        }
    }

    /// A list of integers, or one.
    fn as_sizes(
        &mut self,
        value: &Value,
        span: Span,
        name: &str,
        rank: Option<usize>,
    ) -> Option<Vec<Size>> {
        let what = format!("`{name}`");
        match value {
            Value::Int(n) => Some(vec![n.clone()]),
            Value::AllButLast => {
                let rank = rank.unwrap_or(0).max(1) as i64;
                Some((0..rank - 1).map(Size::fixed).collect())
            }
            Value::List(list) | Value::Tuple(list) => list
                .iter()
                .map(|v| self.as_size(v.clone(), span, &what))
                .collect(),
            Value::Range(a, b) => match a.value().zip(b.value()) {
                // Axes and sizes: more would be a mistake.
                Some((a, b)) if b.saturating_sub(a) <= 64 => {
                    Some((a..b).map(Size::fixed).collect())
                }
                _ => {
                    self.wrong_kind(span, &format!("a short list of integers for {what}"), value);
                    None
                }
            },
            other => {
                self.wrong_kind(span, &format!("a list of integers for {what}"), other);
                None
            }
        }
    }

    /// A tensor; a compile-time number becomes a constant of the dtype.
    pub(crate) fn as_tensor(&mut self, value: &Value, dtype: DType, span: Span) -> Option<Tensor> {
        match value {
            Value::Tensor(t) => Some(t.clone()),
            Value::Poison => None,
            Value::Bool(b) if dtype != DType::Bool => {
                let message = format!("`{b}` is a bool, and a `{dtype}` is needed here");
                let help = format!("convert it: `cast({b}, {dtype})`");
                self.report(Diagnostic::new(Code::DtypeMismatch, span, message).help(help));
                None
            }
            Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Str(_) => {
                match self.constant_of(value, dtype, span) {
                    Value::Tensor(t) => Some(t),
                    _ => None,
                }
            }
            // A list of scalars is a vector, a list of vectors a matrix.
            Value::List(list) | Value::Tuple(list) if !list.is_empty() => {
                let mut rows = Vec::with_capacity(list.len());
                for value in list.iter() {
                    rows.push(Value::Tensor(self.as_tensor(value, dtype, span)?));
                }
                let stack = trainspec_ir::ops::find("stack").expect("the table has it");
                let given = ArgValue {
                    name: None,
                    value: Value::list(rows),
                    span,
                };
                match self.apply_op(stack, vec![given], span) {
                    Value::Tensor(t) => Some(t),
                    _ => None,
                }
            }
            other => {
                self.wrong_kind_tensor(span, other);
                None
            }
        }
    }

    fn wrong_kind_tensor(&mut self, span: Span, found: &Value) {
        let mut diagnostic = Diagnostic::new(Code::TypeMismatch, span, "expected a tensor")
            .label(format!("this is {}", found.describe()));
        if let Value::Callable(_) = found {
            diagnostic = diagnostic.help("call it: put its arguments in parentheses after it");
        }
        self.report(diagnostic);
    }

    /// A compile-time number as a scalar tensor.
    pub(crate) fn constant_of(&mut self, value: &Value, dtype: DType, span: Span) -> Value {
        let constant = match value {
            Value::Int(n) if dtype.is_float() => match n.value() {
                Some(n) => Const::Float(n as f64),
                None => Const::Int(n.clone()),
            },
            Value::Int(n) if dtype.is_int() => match (n.value(), dtype.int_range()) {
                (Some(n), Some((low, high))) if n < low || n > high => {
                    let message =
                        format!("{n} does not fit in `{dtype}`, which goes from {low} to {high}");
                    return self.fail(Diagnostic::new(Code::NumberOverflow, span, message));
                }
                _ => Const::Int(n.clone()),
            },
            Value::Float(x) if dtype.is_float() => {
                self.warn_not_normal_constant(*x, dtype, span);
                Const::Float(*x)
            }
            Value::Bool(b) if dtype == DType::Bool => Const::Bool(*b),
            Value::Bool(b) if dtype.is_float() => Const::Float(f64::from(u8::from(*b))),
            Value::Bool(b) if dtype.is_int() => Const::Int(Size::fixed((*b).into())),
            Value::Str(t) if dtype == DType::String => Const::Str((**t).to_owned()),
            Value::Poison => return Value::Poison,
            other => {
                let message = format!("{} cannot be a `{dtype}`", other.describe());
                let help = match (other, dtype.is_int()) {
                    (Value::Float(_), true) => Some(format!(
                        "use an integer, or convert the other side: `cast(x, f32)` instead of `{dtype}`"
                    )),
                    _ => None,
                };
                return self
                    .fail(Diagnostic::new(Code::DtypeMismatch, span, message).maybe_help(help));
            }
        };
        self.emit_one(NodeKind::Const(constant), TensorType::scalar(dtype), span)
    }

    /// Reports a violated rule, with the types of the tensors involved.
    /// Whether an input with declared bounds can be in the range that is asserted of it.
    fn fits_range(&mut self, args: &[Option<&ArgValue>]) -> bool {
        let [Some(x), Some(low), Some(high), ..] = args else {
            return true;
        };
        let (Value::Tensor(tensor), Value::Int(low), Value::Int(high)) =
            (&x.value, &low.value, &high.value)
        else {
            return true;
        };
        let declared = self.ranges.get(&tensor.id).copied();
        let (Some((first, end)), Some(low), Some(high)) = (declared, low.value(), high.value())
        else {
            return true;
        };
        if first >= low && end <= high {
            return true;
        }
        let message = format!("these integers are in {first}..{end}, and must be in {low}..{high}");
        self.report(
            Diagnostic::new(Code::BoundMismatch, x.span, message).help(format!(
                "there are {} classes: change the bound, or their number",
                high - low
            )),
        );
        false
    }

    fn broken_rule(
        &mut self,
        op: &'static Op,
        args: &[Option<&ArgValue>],
        error: RuleError,
        span: Span,
    ) -> Value {
        let mut types: Vec<String> = Vec::new();
        for given in args.iter().flatten() {
            match &given.value {
                Value::Tensor(t) => types.push(format!("`{}`", t.ty)),
                Value::List(list) => {
                    for value in list.iter().take(6) {
                        if let Value::Tensor(t) = value {
                            types.push(format!("`{}`", t.ty));
                        }
                    }
                }
                _ => {}
            }
        }
        let label = match types.as_slice() {
            [] => String::new(),
            [init @ .., last] if !init.is_empty() => format!("{} and {last}", init.join(", ")),
            _ => format!("the tensor is {}", types.join(", ")),
        };
        let blamed = error.param.and_then(|name| {
            let index = op.params.iter().position(|p| p.name == name)?;
            args[index].map(|g| g.span)
        });
        let message = match symbol(op.name) {
            Some(sign)
                if error.kind == trainspec_ir::ops::RuleErrorKind::ShapeMismatch
                    && op.name != "matmul" =>
            {
                format!("`{sign}` cannot combine these shapes")
            }
            Some(sign) => format!("`{sign}`: {}", error.message),
            None => match self.written_name(op, span) {
                Some(name) => format!("`{name}`: {}", error.message),
                None => error.message.clone(),
            },
        };
        let code = code_of(&error);
        let help = self
            .missing_axis(op, args)
            .filter(|_| code == Code::ShapeMismatch)
            .or(error.help);
        self.fail(
            Diagnostic::new(code, blamed.unwrap_or(span), message)
                .label(label)
                .maybe_help(help),
        )
    }

    /// The name by which the source calls an operation; `None` where it is written otherwise, such as `x[0]`.
    fn written_name(&self, op: &'static Op, span: Span) -> Option<&'static str> {
        let text = self.sources.slice(span);
        let text = text.strip_prefix("nn.").unwrap_or(text);
        let word = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()?;
        [op.name]
            .into_iter()
            .chain(op.aliases.iter().copied())
            .find(|n| *n == word)
    }

    /// The name or the operator by which the source calls an operation, in backticks.
    pub(crate) fn quoted_name(&self, op: &'static Op, span: Span) -> String {
        match symbol(op.name) {
            Some(sign) => format!("`{sign}`"),
            None => format!("`{}`", self.written_name(op, span).unwrap_or(op.name)),
        }
    }

    /// A short expression as it is written, for a help that shows what to type; `…` for a long one or one of the library.
    pub(crate) fn snippet(&self, span: Span) -> String {
        match self.sources.slice(span) {
            text if text.len() <= 40
                && !text.contains('\n')
                && !self.is_library_file(span.file) =>
            {
                text.to_owned()
            }
            _ => "…".to_owned(),
        }
    }

    /// The suggested fix where one operand lacks the last dimension of the other.
    fn missing_axis(&self, op: &'static Op, args: &[Option<&ArgValue>]) -> Option<String> {
        let [Some(left), Some(right)] = args else {
            return None;
        };
        let (Value::Tensor(a), Value::Tensor(b)) = (&left.value, &right.value) else {
            return None;
        };
        let (short, long, short_span) = match a.ty.rank() < b.ty.rank() {
            true => (a, b, left.span),
            false => (b, a, right.span),
        };
        let fits = short.ty.rank() > 0
            && short.ty.rank() + 1 == long.ty.rank()
            && short.ty.shape.0 == long.ty.shape.0[..short.ty.rank()];
        if op.name == "matmul" || symbol(op.name).is_none() || !fits {
            return None;
        }
        Some(format!(
            "add the missing dimension: `expand_dims({}, axis: -1)`",
            self.snippet(short_span)
        ))
    }
}

/// A symbolic size that two dimensions have.
fn repeated(ty: &TensorType) -> Option<&Size> {
    let named = |d: &&Dim| d.size.value().is_none();
    let dims = &ty.shape.0;
    let mut sizes = dims.iter().enumerate().filter(|(_, d)| named(d));
    sizes.find_map(|(i, d)| {
        let again = dims[i + 1..].iter().any(|e| e.size == d.size);
        again.then_some(&d.size)
    })
}

/// A result that is like one of the arguments shares its type: most are, and a long spec has many.
fn shared(ty: TensorType, args: &[Option<&ArgValue>]) -> Arc<TensorType> {
    let same = args.iter().flatten().find_map(|g| match &g.value {
        Value::Tensor(t) if *t.ty == ty => Some(t.ty.clone()),
        _ => None,
    });
    same.unwrap_or_else(|| Arc::new(ty))
}

/// The dtype, or the default of the class where it does not belong to it.
fn within(class: Class, dtype: DType) -> DType {
    match class {
        _ if class.contains(dtype) => dtype,
        Class::Float => DType::F32,
        Class::Int | Class::Number | Class::Any => DType::I64,
    }
}

/// A dtype that an argument names (`range(3, dtype: i32)`).
fn explicit_dtype(op: &Op, args: &[Option<&ArgValue>]) -> Option<DType> {
    op.params
        .iter()
        .zip(args)
        .find_map(|(param, arg)| match (param.kind, arg) {
            (Kind::DType, Some(given)) => match given.value {
                Value::DType(dtype) => Some(dtype),
                _ => None,
            },
            _ => None,
        })
}

/// Whether a value has an error that was reported, or an element that has.
pub(crate) fn poisoned(value: &Value) -> bool {
    match value {
        Value::Poison => true,
        Value::List(list) | Value::Tuple(list) => list.iter().any(poisoned),
        _ => false,
    }
}

/// A class of dtypes as messages name it: `… elements`.
pub(crate) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Float => "floating-point",
        Class::Int => "integer",
        Class::Number => "number",
        Class::Any => "any",
    }
}
