//! Calls: binding of arguments to parameters, and inlining of definitions.

use std::rc::Rc;
use std::sync::Arc;

use trainspec_ir::Span;

use crate::ast::{DefinitionBody, DefinitionKind, Param};
use crate::check::ops::poisoned;
use crate::check::scope::{Frame, FrameKind, Target};
use crate::check::value::{ArgValue, Callable, Def, InitValue, Value};
use crate::check::{CallSite, Checker, types};
use crate::diag::{Code, Diagnostic, foreign, nearest, one_of};
use crate::typed::{Call, ValueId};

/// Finds the argument of each parameter; `None` (and an error) where they do not fit.
pub(crate) fn assign(
    checker: &mut Checker<'_>,
    callee: &str,
    params: &[&str],
    given: &[ArgValue],
    span: Span,
) -> Option<Vec<Option<usize>>> {
    let mut slots = vec![None; params.len()];
    let mut fine = true;
    let mut position = 0;
    for (i, argument) in given.iter().enumerate() {
        let index = match &argument.name {
            Some(name) => match params.iter().position(|p| *p == name.text) {
                Some(index) => index,
                None => {
                    let near = nearest(&name.text, params.iter().copied());
                    let help = match (near, params) {
                        _ if let Some(help) = foreign::argument(callee, &name.text) => {
                            help.to_owned()
                        }
                        (Some(near), _) => format!("did you mean `{near}`?"),
                        (None, []) => "it takes no arguments".to_owned(),
                        (None, _) => format!(
                            "it takes {}",
                            one_of(params.iter().copied()).replace(" or ", " and ")
                        ),
                    };
                    let message = format!("`{callee}` has no parameter `{}`", name.text);
                    checker.report(
                        Diagnostic::new(Code::UnknownArgument, name.span, message).help(help),
                    );
                    fine = false;
                    continue;
                }
            },
            None => {
                position += 1;
                if position > params.len() {
                    let takes = match params.len() {
                        0 => "no arguments".to_owned(),
                        1 => "1 argument".to_owned(),
                        n => format!("{n} arguments"),
                    };
                    let message = format!("`{callee}` takes {takes}");
                    checker.report(
                        Diagnostic::new(Code::TooManyArguments, argument.span, message)
                            .label(format!("this is number {position}"))
                            .maybe_help((callee == "repeat").then(|| {
                                "`epochs 3;` repeats a number of times, `repeat;` indefinitely"
                                    .to_owned()
                            })),
                    );
                    return None;
                }
                position - 1
            }
        };
        if let Some(first) = slots[index] {
            let first: usize = first;
            let message = format!("`{}` is given twice", params[index]);
            let argument_span = argument.name.as_ref().map_or(argument.span, |n| n.span);
            checker.report(
                Diagnostic::new(Code::DuplicateArgument, argument_span, message)
                    .note_at(given[first].span, "given here first"),
            );
            fine = false;
            continue;
        }
        slots[index] = Some(i);
    }
    let _ = span;
    fine.then_some(slots)
}

/// The tensors of a value, in order.
fn collect_tensors(value: &Value, found: &mut Vec<ValueId>) {
    match value {
        Value::Tensor(tensor) => found.push(tensor.id),
        Value::List(values) | Value::Tuple(values) => {
            values
                .iter()
                .for_each(|value| collect_tensors(value, found));
        }
        Value::Int(_)
        | Value::Float(_)
        | Value::Bool(_)
        | Value::Str(_)
        | Value::DType(_)
        | Value::None
        | Value::AllButLast
        | Value::Range(..)
        | Value::Quantity(_)
        | Value::Callable(_)
        | Value::Init(_)
        | Value::Data
        | Value::Poison => {}
    }
}

/// An argument that must be given and is not.
pub(crate) fn missing(callee: &str, param: &str, span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::MissingArgument,
        span,
        format!("`{callee}` needs the argument `{param}`"),
    )
    .help(format!("add it: `{param}: ...`"))
}

impl Checker<'_> {
    /// Calls a value.
    pub(crate) fn call(
        &mut self,
        callee: Value,
        given: Vec<ArgValue>,
        span: Span,
        callee_span: Span,
    ) -> Value {
        let work = given.iter().map(|g| g.value.extent().weight).sum();
        if !self.spend(work, span) {
            return Value::Poison;
        }
        match callee {
            Value::Callable(Callable::Op(op)) => self.apply_op(op, given, span),
            Value::Callable(Callable::Builtin(builtin)) => self.builtin(builtin, given, span),
            Value::Callable(Callable::Def(def)) => self.call_def(&def, given, span),
            Value::Callable(Callable::Instance(instance)) => {
                self.call_instance(instance, given, span)
            }
            Value::Poison => Value::Poison,
            other => {
                let help = match &other {
                    Value::Init(_) => {
                        "an initializer is called by the variable it begins".to_owned()
                    }
                    Value::Tensor(_) => {
                        "positions in a tensor are written in brackets: `x[0]`".to_owned()
                    }
                    Value::DType(dtype) => format!("elements are converted by `cast(x, {dtype})`"),
                    Value::Str(name) if self.known_names().iter().any(|n| **n == **name) => {
                        format!("write it without quotes: `{name}`")
                    }
                    _ => "functions, blocks and layers can be called".to_owned(),
                };
                let message = format!("{} cannot be called", other.describe());
                self.fail(Diagnostic::new(Code::NotCallable, callee_span, message).help(help))
            }
        }
    }

    fn call_def(&mut self, def: &Arc<Def>, given: Vec<ArgValue>, span: Span) -> Value {
        match def.ast.kind {
            DefinitionKind::Fn => self.expand(def, FrameKind::Fn, given, span, None),
            DefinitionKind::Schedule => self.expand(def, FrameKind::Schedule, given, span, None),
            DefinitionKind::Init => {
                // It fills a variable in another program, which has none of the tensors of this one.
                let given = given.into_iter().map(|argument| ArgValue {
                    value: self.as_number(argument.value),
                    ..argument
                });
                Value::Init(Rc::new(InitValue::of(def.clone(), given.collect())))
            }
            DefinitionKind::Block => self.call_block(def, given, span),
            DefinitionKind::Optimizer => self.fail(
                Diagnostic::new(
                    Code::NotCallable,
                    span,
                    format!("the optimizer `{}` cannot be called here", def.name()),
                )
                .help("optimizers are set in `train { optimizer NAME(...); }`"),
            ),
        }
    }

    /// Inlines a definition: binds its parameters in a frame of its own and runs its body.
    ///
    /// `path` is the variable scope; `None` keeps the caller's.
    pub(crate) fn expand(
        &mut self,
        def: &Arc<Def>,
        kind: FrameKind,
        given: Vec<ArgValue>,
        span: Span,
        path: Option<String>,
    ) -> Value {
        self.expand_with(def, kind, given, span, path, |_| {})
    }

    /// Inlines a definition like [`Checker::expand`], with additional names bound in its frame.
    pub(crate) fn expand_with(
        &mut self,
        def: &Arc<Def>,
        kind: FrameKind,
        given: Vec<ArgValue>,
        span: Span,
        path: Option<String>,
        implicit: impl FnOnce(&mut Self),
    ) -> Value {
        if self.calls.iter().any(|c| Arc::ptr_eq(&c.def, def)) {
            return self.fail(
                Diagnostic::new(
                    Code::Recursion,
                    span,
                    format!("`{}` calls itself", def.name()),
                )
                .note_at(def.ast.name.span, "defined here")
                .help("repeat with `for` (unrolled) or `scan` (one loop at run time)"),
            );
        }
        if !self.enter(span) {
            return Value::Poison;
        }
        self.expanded.insert(def.ast.name.span);
        if given.iter().any(|g| poisoned(&g.value)) {
            // Errors that follow from an earlier one are not reported.
            self.depth -= 1;
            return Value::Poison;
        }
        let path = path.unwrap_or_else(|| self.frame().path.clone());
        let names: Vec<&str> = def
            .ast
            .params
            .iter()
            .map(|p| p.name.text.as_str())
            .collect();
        let Some(slots) = assign(self, def.name(), &names, &given, span) else {
            self.depth -= 1;
            return Value::Poison;
        };
        self.calls.push(CallSite::new(span, def, &slots, &given));
        let record = self.begin_call(def, kind, &path, &given, span);
        let value = self.framed(Frame::new(kind, path), |c| {
            implicit(c);
            if !c.bind_params(def, &slots, &given, span) {
                return Value::Poison;
            }
            match &def.ast.body {
                DefinitionBody::Value(expr) => c.eval(expr),
                DefinitionBody::Body(body) if kind == FrameKind::Optimizer => c.body(body),
                DefinitionBody::Body(body) => c.valued_body(body, def.name()),
            }
        });
        self.end_call(record, &value);
        self.gave_up = false;
        self.calls.pop();
        self.depth -= 1;
        value
    }

    /// Records that a call in a model begins; gives its index in the program.
    fn begin_call(
        &mut self,
        def: &Arc<Def>,
        kind: FrameKind,
        path: &str,
        given: &[ArgValue],
        span: Span,
    ) -> Option<usize> {
        let is_block = kind == FrameKind::Block;
        let in_model = || self.frames.iter().any(|f| f.kind == FrameKind::Model);
        if !(is_block || kind == FrameKind::Fn) || !in_model() {
            return None;
        }
        let mut inputs = Vec::new();
        let values = given.iter().map(|argument| &argument.value);
        values.for_each(|value| collect_tensors(value, &mut inputs));
        let first = self.program.values.len() as u32;
        self.program.calls.push(Call {
            definition: def.name().to_owned(),
            scope: is_block.then(|| path.to_owned()),
            depth: self.calls.len() - 1,
            values: first..first,
            inputs,
            outputs: Vec::new(),
            span: self.user_span(span),
        });
        Some(self.program.calls.len() - 1)
    }

    /// Records what a call has made.
    fn end_call(&mut self, record: Option<usize>, value: &Value) {
        let end = self.program.values.len() as u32;
        if let Some(call) = record.and_then(|i| self.program.calls.get_mut(i)) {
            call.values.end = end;
            collect_tensors(value, &mut call.outputs);
        }
    }

    /// Binds parameters. Tensors come first, so that literals and defaults find dtypes and dimensions decided.
    pub(crate) fn bind_params(
        &mut self,
        def: &Arc<Def>,
        slots: &[Option<usize>],
        given: &[ArgValue],
        span: Span,
    ) -> bool {
        let params = &def.ast.params;
        let bounds = types::bounds_of(self, &def.ast.bounds);
        if let Some(error) = self.misplaced_arguments(def, slots, given, &bounds) {
            self.report(error);
            return false;
        }
        let mut fine = true;
        let mut values: Vec<Option<Value>> = vec![None; params.len()];
        for (i, param) in params.iter().enumerate() {
            if let (Some(slot), Some(ty)) = (slots[i], &param.ty)
                && let Value::Tensor(_) = given[slot].value
                && types::is_tensor_type(ty, &bounds)
            {
                let value = self.match_type(
                    param,
                    ty,
                    &bounds,
                    given[slot].value.clone(),
                    given[slot].span,
                );
                fine &= !value.is_poison();
                values[i] = Some(value);
            }
        }
        for (i, param) in params.iter().enumerate() {
            let value = match values[i].take() {
                Some(value) => value,
                None => {
                    match self.param_value(def, param, slots[i].map(|s| &given[s]), &bounds, span) {
                        Some(value) => {
                            fine &= !value.is_poison();
                            value
                        }
                        None => {
                            fine = false;
                            Value::Poison
                        }
                    }
                }
            };
            self.bind_with(&param.name, value, Target::Fixed("parameter"));
        }
        fine
    }

    fn param_value(
        &mut self,
        def: &Arc<Def>,
        param: &Param,
        given: Option<&ArgValue>,
        bounds: &types::Bounds,
        span: Span,
    ) -> Option<Value> {
        let (value, value_span) = match (given, &param.default) {
            (Some(given), _) => (given.value.clone(), given.span),
            (None, Some(default)) => (self.eval(default), default.span),
            (None, None) => {
                let error = missing(def.name(), &param.name.text, span)
                    .note_at(param.span, "declared here");
                self.report(error);
                return None;
            }
        };
        let value = match param.is_const {
            true => self.as_number(value),
            false => value,
        };
        if param.is_const
            && let Value::Tensor(t) = &value
        {
            let message = format!(
                "`{}` must be known when the spec is checked",
                param.name.text
            );
            self.report(
                Diagnostic::new(Code::NotConstant, value_span, message)
                    .label(format!("this is `{}`, known at run time only", t.ty))
                    .note_at(param.span, "declared `const` here"),
            );
            return None;
        }
        let value = match &param.ty {
            Some(ty) => self.match_type(param, ty, bounds, value, value_span),
            None => value,
        };
        if !param.is_const {
            let at = given.map_or(span, |given| given.span);
            self.warn_not_normal(&param.name.text, &value, at);
        }
        match (self.frame().arithmetic, &value) {
            (Some(dtype), Value::Float(number)) if !param.is_const => {
                Some(self.known_scalar(*number, dtype, value_span))
            }
            _ => Some(value),
        }
    }
}
