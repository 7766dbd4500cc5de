//! Control flow: `if` (chosen at compile time), `for` (loop unrolling) and `scan` (a loop at run time).

use trainspec_ir::{DType, Dim, Shape, Span, TensorType};

use crate::ast::{Body, Expr, ExprKind, Loop, LoopKind, Name, Pattern};
use crate::check::Checker;
use crate::check::scope::Yields;
use crate::check::value::{Tensor, Value};
use crate::diag::{Code, Diagnostic};
use crate::typed::{NodeKind, Scan, ValueId};

/// The number of iterations a loop may be unrolled to.
const MAX_UNROLLED_ITERATIONS: i64 = 65_536;

impl Checker<'_> {
    /// Takes the branch whose condition holds; the others are not checked.
    pub(crate) fn if_expr(&mut self, branches: &[(Expr, Body)], otherwise: Option<&Body>) -> Value {
        let mut chosen = None;
        for (condition, body) in branches {
            if chosen.is_some() {
                self.mention(condition);
                self.mention_body(body);
                continue;
            }
            let value = self.eval(condition);
            match self.as_bool(&value, condition.span, "the condition of an `if`") {
                Some(true) => chosen = Some(body),
                Some(false) => self.mention_body(body),
                None => {
                    self.mention_body(body);
                    if let Some(body) = otherwise {
                        self.mention_body(body);
                    }
                    return Value::Poison;
                }
            }
        }
        match (chosen, otherwise) {
            (Some(body), otherwise) => {
                if let Some(otherwise) = otherwise {
                    self.mention_body(otherwise);
                }
                self.scoped(|c| c.body(body))
            }
            (None, Some(body)) => self.scoped(|c| c.body(body)),
            (None, None) => Value::None,
        }
    }

    /// A `for` or `scan`: evaluates what it loops over and the initial carried values, then the loop.
    pub(crate) fn eval_loop(&mut self, loop_expr: &Loop, span: Span) -> Value {
        let over = self.eval(&loop_expr.over);
        let starts: Vec<Value> = loop_expr
            .carries
            .iter()
            .map(|(_, e)| self.eval(e))
            .collect();
        if over.is_poison() {
            self.mention_body(&loop_expr.body);
            return Value::Poison;
        }
        let yields = Yields {
            of_scan: matches!(loop_expr.kind, LoopKind::Scan),
            ..Yields::default()
        };
        let outer = self.frame_mut().yields.replace(yields);
        let value = match loop_expr.kind {
            LoopKind::For => self.for_loop(loop_expr, over, starts),
            LoopKind::Scan => self.scan_loop(loop_expr, over, starts, span),
        };
        self.frame_mut().yields = outer;
        value
    }

    /// Unrolls a `for`: the final carried values and the lists of what was yielded; without either, the list of the values of the body.
    fn for_loop(&mut self, loop_expr: &Loop, over: Value, mut carries: Vec<Value>) -> Value {
        let elements: Vec<Value> = match over {
            Value::Range(low, high) => {
                let (Some(low), Some(high)) = (low.value(), high.value()) else {
                    return self.fail(
                        Diagnostic::new(
                            Code::UnknownSize,
                            loop_expr.over.span,
                            format!("a `for` is unrolled, so its range must be known, and {low}..{high} is not"),
                        )
                        .help("`scan` loops over a dimension of a tensor at run time"),
                    );
                };
                if high.saturating_sub(low) > MAX_UNROLLED_ITERATIONS {
                    return self.fail(
                        Diagnostic::new(
                            Code::LoopTooLong,
                            loop_expr.over.span,
                            format!(
                                "a `for` is unrolled, and {} iterations are too many",
                                high.saturating_sub(low)
                            ),
                        )
                        .help(format!(
                            "at most {MAX_UNROLLED_ITERATIONS} are possible; `scan` is one loop at run time"
                        )),
                    );
                }
                (low..high).map(Value::int).collect()
            }
            Value::List(list) | Value::Tuple(list) => list.to_vec(),
            Value::Tensor(t) => {
                return self.fail(
                    Diagnostic::new(
                        Code::TypeMismatch,
                        loop_expr.over.span,
                        "a `for` loops over a range or a list",
                    )
                    .label(format!("this is `{}`", t.ty))
                    .help("`scan` loops over the first dimension of a tensor"),
                );
            }
            other => return self.wrong_kind(loop_expr.over.span, "a range or a list", &other),
        };
        let mut values = Vec::new();
        for element in elements {
            if !self.step(loop_expr.over.span) || self.gave_up {
                return Value::Poison;
            }
            let value = self.iteration(loop_expr, element, &carries);
            if loop_expr.carries.is_empty() {
                values.push(value);
                continue;
            }
            match self.next_carries(loop_expr, value, carries.len()) {
                Some(next) => carries = next,
                None => return Value::Poison,
            }
        }
        let yields = self.frame_mut().yields.take().unwrap_or_default().lists;
        let mut results = carries;
        if yields.is_empty() && loop_expr.carries.is_empty() {
            return Value::list(values);
        }
        results.extend(yields.into_iter().map(Value::list));
        single_or_tuple(results)
    }

    /// Runs the body for one element.
    fn iteration(&mut self, loop_expr: &Loop, element: Value, carries: &[Value]) -> Value {
        self.scoped(|c| {
            c.bind_pattern(
                &loop_expr.pattern,
                element,
                loop_expr.over.span,
                "loop variable",
            );
            for ((name, _), value) in loop_expr.carries.iter().zip(carries) {
                c.bind(name, value.clone(), "carried value");
            }
            c.start_iteration();
            c.body(&loop_expr.body)
        })
    }

    /// Resets the position of `yield`: every iteration yields in the same order.
    fn start_iteration(&mut self) {
        if let Some(yields) = &mut self.frame_mut().yields {
            yields.position = 0;
        }
    }

    /// Collects a value of the innermost loop.
    /// The value of a `yield`; in a `scan` a tuple is several, which are yielded one by one.
    pub(crate) fn one_yielded(&mut self, found: Value, value: &Expr) -> Value {
        let of_scan = (self.frame().yields.as_ref()).is_some_and(|yields| yields.of_scan);
        let parts = match &found {
            Value::Tuple(parts) if of_scan => parts,
            _ => return found,
        };
        let help = match &value.kind {
            ExprKind::Tuple(parts) => {
                let each = parts.iter();
                let each = each.map(|part| format!("yield {};", self.sources.slice(part.span)));
                format!("write `{}`", each.collect::<Vec<_>>().join(" "))
            }
            _ => "bind the parts with `let (a, b) = ...;` and write `yield a; yield b;`".to_owned(),
        };
        let message = format!("a `yield` gives one value, and this is {}", parts.len());
        self.fail(Diagnostic::new(Code::TypeMismatch, value.span, message).help(help))
    }

    pub(crate) fn yield_value(&mut self, value: Value, span: Span) {
        match &mut self.frame_mut().yields {
            Some(yields) => {
                let position = yields.position;
                yields.position += 1;
                if yields.lists.len() <= position {
                    yields.lists.resize_with(position + 1, Vec::new);
                }
                yields.lists[position].push(value);
            }
            None => {
                self.report(
                    Diagnostic::new(
                        Code::MisplacedStatement,
                        span,
                        "`yield` has a meaning inside `for` and `scan` only",
                    )
                    .help("the value of a block is its last expression, without `;`"),
                );
            }
        }
    }

    /// The next carried values from the value of a body; reports where their number is wrong.
    fn next_carries(&mut self, loop_expr: &Loop, value: Value, count: usize) -> Option<Vec<Value>> {
        let span = loop_expr
            .body
            .value
            .as_ref()
            .map_or(loop_expr.body.span, |v| v.span);
        let found = match value {
            Value::Poison => return None,
            Value::None if loop_expr.body.value.is_none() => {
                self.report(
                    Diagnostic::new(
                        Code::CarryMismatch,
                        Span {
                            start: loop_expr.body.span.end - 1,
                            ..loop_expr.body.span
                        },
                        "the body of this loop has no value to carry on",
                    )
                    .help(format!(
                        "end it with the next value of {}",
                        names(&loop_expr.carries)
                    )),
                );
                return None;
            }
            single if count == 1 => return Some(vec![single]),
            Value::Tuple(list) if list.len() == count => return Some(list.to_vec()),
            Value::Tuple(list) => format!("a tuple of {}", list.len()),
            other => other.describe(),
        };
        self.report(
            Diagnostic::new(
                Code::CarryMismatch,
                span,
                format!("this loop carries {count} values, and its body gives {found}"),
            )
            .help(format!(
                "end the body with `({})`",
                names(&loop_expr.carries)
                    .replace('`', "")
                    .replace(" and ", ", ")
            )),
        );
        None
    }

    /// A `scan`: checks its body once, for symbolic elements and carried values, and emits a loop node.
    fn scan_loop(
        &mut self,
        loop_expr: &Loop,
        over: Value,
        starts: Vec<Value>,
        span: Span,
    ) -> Value {
        let (tensors, is_tuple) = match over {
            Value::Tensor(t) => (vec![t], false),
            Value::Tuple(list)
                if list.iter().all(|v| matches!(v, Value::Tensor(_))) && !list.is_empty() =>
            {
                let tensors = list.iter().filter_map(|v| match v {
                    Value::Tensor(t) => Some(t.clone()),
                    _ => None,
                });
                (tensors.collect(), true)
            }
            Value::Range(..) | Value::List(_) => {
                return self.fail(
                    Diagnostic::new(
                        Code::TypeMismatch,
                        loop_expr.over.span,
                        "a `scan` loops over the first dimension of a tensor",
                    )
                    .label(format!("this is {}", over.describe()))
                    .help("`for` loops over ranges and lists"),
                );
            }
            other => return self.wrong_kind(loop_expr.over.span, "a tensor", &other),
        };
        let mut length: Option<Dim> = None;
        for t in &tensors {
            let Some(first) = t.ty.shape.0.first() else {
                return self.fail(
                    Diagnostic::new(
                        Code::RankMismatch,
                        loop_expr.over.span,
                        "a `scan` needs a dimension to iterate over",
                    )
                    .label(format!("this is `{}`", t.ty)),
                );
            };
            match &length {
                Some(length) if length != first => {
                    let message = format!(
                        "the tensors of a `scan` must be of one length: {length} and {first} differ"
                    );
                    return self.fail(Diagnostic::new(
                        Code::ShapeMismatch,
                        loop_expr.over.span,
                        message,
                    ));
                }
                _ => length = Some(first.clone()),
            }
        }
        let length = length.expect("there is at least one tensor");
        if starts.iter().any(Value::is_poison) {
            return Value::Poison;
        }
        let dtype = tensors
            .iter()
            .map(|t| t.ty.dtype)
            .find(|d| d.is_float())
            .unwrap_or(DType::F32);
        let mut start_tensors = Vec::new();
        for (start, (_, expr)) in starts.iter().zip(&loop_expr.carries) {
            match self.as_tensor(start, dtype, expr.span) {
                Some(t) => start_tensors.push(t),
                None => return Value::Poison,
            }
        }
        let elements: Vec<Tensor> = tensors
            .iter()
            .map(|t| self.new_value(t.ty.with_dims(t.ty.shape.0[1..].to_vec())))
            .collect();
        let carries: Vec<Tensor> = start_tensors
            .iter()
            .map(|t| self.new_value((*t.ty).clone()))
            .collect();

        let outer = std::mem::take(&mut self.program.nodes);
        self.scan_depth += 1;
        let element = match is_tuple {
            true => Value::tuple(elements.iter().cloned().map(Value::Tensor).collect()),
            false => Value::Tensor(elements[0].clone()),
        };
        let carried: Vec<Value> = carries.iter().cloned().map(Value::Tensor).collect();
        let value = self.iteration(loop_expr, element, &carried);
        let nexts = match carries.is_empty() {
            true => Some(Vec::new()),
            false => self.next_carries(loop_expr, value.clone(), carries.len()),
        };
        let yields = self.frame_mut().yields.take().unwrap_or_default();
        let mut yields: Vec<Value> = yields.lists.concat();
        // Without loop-carried values a scan is a map: its body's value is collected.
        if carries.is_empty() && !matches!(value, Value::None) {
            match value {
                Value::Tuple(list) => yields.extend(list.iter().cloned()),
                single => yields.push(single),
            }
        }
        let next_ids = nexts.and_then(|n| self.scan_nexts(loop_expr, n, &carries));
        let mut yielded = Vec::new();
        for value in &yields {
            match self.as_tensor(value, dtype, loop_expr.body.span) {
                Some(t) => yielded.push(t),
                None => break,
            }
        }
        self.scan_depth -= 1;
        let body = std::mem::replace(&mut self.program.nodes, outer);
        let Some(nexts) = next_ids.filter(|_| yielded.len() == yields.len()) else {
            return Value::Poison;
        };
        let stacked = |t: &Tensor| {
            let dims = [length.clone()]
                .into_iter()
                .chain(t.ty.shape.0.iter().cloned());
            TensorType::new(t.ty.dtype, Shape(dims.collect()))
        };
        let mut types: Vec<TensorType> = carries.iter().map(|t| (*t.ty).clone()).collect();
        types.extend(yielded.iter().map(stacked));
        if types.iter().any(|t| t.shape.elements().is_none()) {
            return self.size_overflow(span);
        }
        let ids = |list: &[Tensor]| list.iter().map(|t| t.id).collect::<Vec<ValueId>>();
        let scan = Scan {
            over: ids(&tensors),
            elements: ids(&elements),
            starts: ids(&start_tensors),
            carries: ids(&carries),
            body,
            nexts,
            yields: ids(&yielded),
        };
        single_or_tuple(self.emit(NodeKind::Scan(Box::new(scan)), types, span))
    }

    /// The next carried values as tensors; reports those that change their type.
    fn scan_nexts(
        &mut self,
        loop_expr: &Loop,
        nexts: Vec<Value>,
        carries: &[Tensor],
    ) -> Option<Vec<ValueId>> {
        let span = loop_expr
            .body
            .value
            .as_ref()
            .map_or(loop_expr.body.span, |v| v.span);
        let mut ids = Vec::new();
        for ((next, carry), (name, start)) in nexts.iter().zip(carries).zip(&loop_expr.carries) {
            let next = self.as_tensor(next, carry.ty.dtype, span)?;
            if next.ty != carry.ty {
                self.report(
                    Diagnostic::new(
                        Code::CarryMismatch,
                        span,
                        format!("`{}` must keep its type in every iteration", name.text),
                    )
                    .label(format!("the next value is `{}`", next.ty))
                    .note_at(start.span, format!("it begins as `{}`", carry.ty)),
                );
                return None;
            }
            ids.push(next.id);
        }
        Some(ids)
    }

    /// Binds the names of a pattern; `what` says in messages what they are.
    pub(crate) fn bind_pattern(
        &mut self,
        pattern: &Pattern,
        value: Value,
        span: Span,
        what: &'static str,
    ) {
        match pattern {
            Pattern::Wildcard(_) => {}
            Pattern::Name(name) => self.bind(name, value, what),
            Pattern::Tuple(patterns, pattern_span) => {
                let values = match value {
                    Value::Tuple(list) | Value::List(list) if list.len() == patterns.len() => {
                        list.to_vec()
                    }
                    Value::Poison => vec![Value::Poison; patterns.len()],
                    other => {
                        let message = format!("this pattern needs {} values", patterns.len());
                        self.report(
                            Diagnostic::new(Code::PatternMismatch, *pattern_span, message)
                                .note_at(span, format!("the value is {}", other.describe())),
                        );
                        vec![Value::Poison; patterns.len()]
                    }
                };
                for (pattern, value) in patterns.iter().zip(values) {
                    self.bind_pattern(pattern, value, span, what);
                }
            }
        }
    }
}

fn single_or_tuple(mut values: Vec<Value>) -> Value {
    match values.len() {
        1 => values.remove(0),
        _ => Value::tuple(values),
    }
}

/// The names of carried values, for messages.
fn names(carries: &[(Name, Expr)]) -> String {
    let list: Vec<String> = carries
        .iter()
        .map(|(n, _)| format!("`{}`", n.text))
        .collect();
    list.join(" and ")
}
