//! Indexing and slicing: lowered to `strided_slice` and gathers.

use trainspec_ir::{Size, Span};

use crate::ast::{Subscript, SubscriptKind};
use crate::check::Checker;
use crate::check::value::{ArgValue, Tensor, Value};
use crate::diag::{Code, Diagnostic};

impl Checker<'_> {
    pub(crate) fn index(&mut self, value: Value, subscripts: &[Subscript], span: Span) -> Value {
        match value {
            Value::Poison => Value::Poison,
            Value::Tensor(t) => self.index_tensor(t, subscripts, span),
            Value::List(list) => self.index_list(&list, subscripts, span, Value::list),
            Value::Tuple(list) => self.index_list(&list, subscripts, span, Value::tuple),
            other => self.fail(
                Diagnostic::new(
                    Code::TypeMismatch,
                    span,
                    format!("{} has no positions", other.describe()),
                )
                .help("tensors, lists and tuples can be indexed"),
            ),
        }
    }

    fn index_list(
        &mut self,
        list: &[Value],
        subscripts: &[Subscript],
        span: Span,
        wrap: fn(Vec<Value>) -> Value,
    ) -> Value {
        let [subscript] = subscripts else {
            return self.fail(Diagnostic::new(
                Code::RankMismatch,
                span,
                "a list has one dimension, so one position",
            ));
        };
        if !matches!(subscript.kind, SubscriptKind::At(_)) && !self.spend(list.len(), span) {
            return Value::Poison;
        }
        let length = list.len() as i64;
        let clamp = |n: i64| {
            if n < 0 {
                (n + length).max(0)
            } else {
                n.min(length)
            }
        };
        match &subscript.kind {
            SubscriptKind::Rest | SubscriptKind::Full => wrap(list.to_vec()),
            SubscriptKind::At(expr) => {
                let Some(size) = self.size(expr, "a position") else {
                    return Value::Poison;
                };
                let position = size
                    .value()
                    .map(|n| if n < 0 { n.saturating_add(length) } else { n });
                match position
                    .and_then(|n| usize::try_from(n).ok())
                    .and_then(|n| list.get(n))
                {
                    Some(value) => value.clone(),
                    None => self.fail(
                        Diagnostic::new(
                            Code::IndexOutOfRange,
                            expr.span,
                            format!("position {size} does not exist: there are {length}"),
                        )
                        .help("positions count from 0"),
                    ),
                }
            }
            SubscriptKind::Slice { start, end, step } => {
                let mut bounds = [0, length, 1];
                for (bound, expr) in bounds.iter_mut().zip([start, end, step]) {
                    if let Some(expr) = expr {
                        let Some(size) = self.size(expr, "a position") else {
                            return Value::Poison;
                        };
                        let Some(n) = size.value() else {
                            return self.wrong_kind(
                                expr.span,
                                "a position that is known",
                                &Value::Int(size),
                            );
                        };
                        *bound = n;
                    }
                }
                let [low, high, step] = bounds;
                if step < 1 {
                    return self.fail(Diagnostic::new(
                        Code::BadValue,
                        subscript.span,
                        "the step of a slice of a list is 1 or more",
                    ));
                }
                let (low, high) = (clamp(low) as usize, clamp(high) as usize);
                let taken = list.get(low..high.max(low)).unwrap_or(&[]);
                wrap(taken.iter().step_by(step as usize).cloned().collect())
            }
        }
    }

    fn index_tensor(&mut self, tensor: Tensor, subscripts: &[Subscript], span: Span) -> Value {
        let rank = tensor.ty.rank();
        let rests = subscripts
            .iter()
            .filter(|s| s.kind == SubscriptKind::Rest)
            .count();
        let given = subscripts.len() - rests;
        if rests > 1 || given > rank {
            let message = match rests > 1 {
                true => "`..` may stand in an index only once".to_owned(),
                false => format!("there are {given} positions for {rank} dimensions"),
            };
            let help = (rests <= 1).then(|| format!("leave out {}", given - rank));
            return self.fail(
                Diagnostic::new(Code::RankMismatch, span, message)
                    .label(format!("the tensor is `{}`", tensor.ty))
                    .maybe_help(help),
            );
        }
        let mut slices = Slices::default();
        let mut run_time: Vec<(usize, ArgValue)> = Vec::new();
        for subscript in subscripts {
            match &subscript.kind {
                SubscriptKind::Rest => {
                    for _ in 0..rank - given {
                        slices.full();
                    }
                }
                SubscriptKind::Full => slices.full(),
                SubscriptKind::At(expr) => match self.eval(expr) {
                    Value::Tensor(t) if t.ty.dtype.is_int() => {
                        run_time.push((
                            slices.kept(),
                            ArgValue {
                                name: None,
                                value: Value::Tensor(t),
                                span: expr.span,
                            },
                        ));
                        slices.full();
                    }
                    Value::Tensor(t) => {
                        return self.fail(
                            Diagnostic::new(
                                Code::DtypeMismatch,
                                expr.span,
                                "a position must be an integer",
                            )
                            .label(format!("this is `{}`", t.ty))
                            .help("choose elements by a bool with `boolean_mask(x, mask)`"),
                        );
                    }
                    value => match self.as_size(value, expr.span, "a position") {
                        Some(size) => slices.at(size),
                        None => return Value::Poison,
                    },
                },
                SubscriptKind::Slice { start, end, step } => {
                    let mut bounds = [None, None, None];
                    for (bound, expr) in bounds.iter_mut().zip([start, end, step]) {
                        if let Some(expr) = expr {
                            match self.size(expr, "a position") {
                                Some(size) => *bound = Some(size),
                                None => return Value::Poison,
                            }
                        }
                    }
                    let axis = slices.begin.len();
                    let length = tensor.ty.shape.0[axis].size.value();
                    for (bound, expr) in bounds.iter().zip([start, end]) {
                        if let (Some(bound), Some(expr), Some(length)) = (bound, expr, length)
                            && let Some(n) = bound.value()
                            && !(-length..=length).contains(&n)
                        {
                            let message = format!(
                                "the slice goes beyond dimension {axis}, which has {length}"
                            );
                            return self.fail(
                                Diagnostic::new(Code::IndexOutOfRange, expr.span, message)
                                    .label(format!("the tensor is `{}`", tensor.ty))
                                    .help(format!("use a bound from -{length} to {length}")),
                            );
                        }
                    }
                    let [start, end, step] = bounds;
                    slices.slice(start, end, step);
                }
            }
        }
        let mut value = Value::Tensor(tensor);
        if !slices.all_full {
            let op = trainspec_ir::ops::find("strided_slice").expect("the table has it");
            let mut arguments = vec![ArgValue {
                name: None,
                value,
                span,
            }];
            for list in [&slices.begin, &slices.end, &slices.strides] {
                arguments.push(ArgValue {
                    name: None,
                    value: Self::sizes_value(list),
                    span,
                });
            }
            for (name, mask) in [
                ("begin_mask", slices.begin_mask),
                ("end_mask", slices.end_mask),
                ("shrink_axis_mask", slices.shrink_mask),
            ] {
                arguments.push(ArgValue {
                    name: Some(crate::ast::Name {
                        text: name.to_owned(),
                        span,
                    }),
                    value: Value::int(mask),
                    span,
                });
            }
            value = self.apply_op(op, arguments, span);
        }
        // Run-time positions become gather ops; from the last axis, so that the axes before it keep their numbers.
        for (axis, position) in run_time.into_iter().rev() {
            let op = trainspec_ir::ops::find("gather").expect("the table has it");
            let tensor = ArgValue {
                name: None,
                value,
                span,
            };
            let axis = ArgValue {
                name: None,
                value: Value::int(axis as i64),
                span,
            };
            value = self.apply_op(op, vec![tensor, position, axis], span);
        }
        value
    }
}

/// The operands of `strided_slice`, dimension by dimension.
#[derive(Default)]
struct Slices {
    begin: Vec<Size>,
    end: Vec<Size>,
    strides: Vec<Size>,
    begin_mask: i64,
    end_mask: i64,
    shrink_mask: i64,
    all_full: bool,
    taken: usize,
    started: bool,
}

impl Slices {
    fn push(&mut self, begin: Size, end: Size, stride: Size) -> i64 {
        if !self.started {
            self.started = true;
            self.all_full = true;
        }
        self.begin.push(begin);
        self.end.push(end);
        self.strides.push(stride);
        // Masks have 62 bits at most: there are no more subscripts than dimensions.
        1i64.checked_shl(self.begin.len() as u32 - 1).unwrap_or(0)
    }

    /// The number of dimensions kept so far.
    fn kept(&self) -> usize {
        self.begin.len() - self.taken
    }

    fn full(&mut self) {
        let bit = self.push(Size::fixed(0), Size::fixed(0), Size::fixed(1));
        self.begin_mask |= bit;
        self.end_mask |= bit;
    }

    fn at(&mut self, position: Size) {
        let end = position
            .add(&Size::fixed(1))
            .unwrap_or_else(|| position.clone());
        let bit = self.push(position, end, Size::fixed(1));
        self.shrink_mask |= bit;
        self.taken += 1;
        self.all_full = false;
    }

    fn slice(&mut self, start: Option<Size>, end: Option<Size>, step: Option<Size>) {
        let (no_start, no_end) = (start.is_none(), end.is_none());
        let zero = || Size::fixed(0);
        let bit = self.push(
            start.unwrap_or_else(zero),
            end.unwrap_or_else(zero),
            step.unwrap_or_else(|| Size::fixed(1)),
        );
        if no_start {
            self.begin_mask |= bit;
        }
        if no_end {
            self.end_mask |= bit;
        }
        self.all_full = false;
    }
}
