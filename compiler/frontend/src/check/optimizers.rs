//! Optimizers: the update of each variable of a group.

use std::collections::BTreeSet;

use trainspec_ir::{DType, Span, TensorType};

use crate::ast::{self, Expr, Name};
use crate::check::call::assign;
use crate::check::groups::GroupSetting;
use crate::check::known::arithmetic;
use crate::check::scope::{Frame, FrameKind, Target};
use crate::check::types::Bounds;
use crate::check::value::{ArgValue, Def, Tensor, Value};
use crate::check::variables::Update;
use crate::check::{CallSite, Checker};
use crate::diag::{Code, Diagnostic};
use crate::lower::StateName;
use crate::typed::{self, Group, Input, NodeKind, Slot, VarId};

impl Checker<'_> {
    /// Expands an optimizer once for each of its variables.
    pub(crate) fn expand_group(
        &mut self,
        group: &GroupSetting,
        loss: String,
        vars: &[VarId],
        taken: &mut BTreeSet<String>,
    ) -> Group {
        let mut typed = Group {
            optimizer: group.def.name().to_owned(),
            alias: group
                .name
                .as_deref()
                .unwrap_or(alias(&group.def))
                .to_owned(),
            loss,
            options: group.options,
            scalars: Vec::new(),
            updates: Vec::new(),
            span: group.span,
        };
        for var in vars {
            let (update, scalars) = self.update(group, *var);
            self.add_scalars(&mut typed.scalars, scalars);
            typed.updates.push(update);
        }
        typed::number_scalars(&mut typed.scalars, taken);
        typed
    }

    /// Adds the scalars of an update, unless an earlier update has added them.
    fn add_scalars(&mut self, all: &mut Vec<typed::Scalar>, scalars: Vec<typed::Scalar>) {
        let before = all.len();
        for scalar in scalars {
            match all[..before].iter().find(|s| s.source == scalar.source) {
                None => all.push(scalar),
                Some(older) if older.span == scalar.span => {}
                Some(older) => {
                    let message =
                        format!("`{}` is another scalar for other variables", scalar.source);
                    let error = Diagnostic::new(Code::DuplicateName, scalar.span, message)
                        .note_at(older.span, "declared here for some variables")
                        .help("give each a name of its own");
                    self.report(error);
                }
            }
        }
    }

    fn update(&mut self, group: &GroupSetting, var: VarId) -> (typed::Update, Vec<typed::Scalar>) {
        let variable = &self.store.variables[var.0 as usize];
        let ty = variable.ty.clone();
        let outer = std::mem::replace(
            &mut self.store.update,
            Update {
                optimizer: Some((group.def.clone(), group.given.clone(), group.span)),
                variable: variable.name.clone(),
                name: group.name.clone(),
                param: Some(ty.clone()),
                ..Update::default()
            },
        );
        let def = group.def.clone();
        let ((), program) = self.in_program(|c| {
            let given = c.import(&group.given, ty.dtype);
            let name_span = def.ast.name.span;
            c.expand_with(
                &def,
                FrameKind::Optimizer,
                given,
                group.span,
                Some(String::new()),
                |c| {
                    c.frame_mut().arithmetic = arithmetic(ty.dtype);
                    let fixed = Target::Fixed("part of every optimizer");
                    let param = c.emit_one(NodeKind::Input(Input::Param), ty.clone(), name_span);
                    let grad = c.emit_one(NodeKind::Input(Input::Grad), ty.clone(), name_span);
                    c.bind_implicit("param", name_span, param, Target::Slot);
                    c.bind_implicit("grad", name_span, grad, fixed.clone());
                    c.bind_implicit("T", name_span, Value::DType(ty.dtype), fixed);
                },
            );
        });
        let update = std::mem::replace(&mut self.store.update, outer);
        if !update.writes.iter().any(|(n, _)| n == "param") && !self.has_errors() {
            self.report(
                Diagnostic::new(
                    Code::MissingItem,
                    def.ast.name.span,
                    format!("the optimizer `{}` never writes `param`", def.name()),
                )
                .help("end it with `param <- param - ...;`"),
            );
        }
        (
            typed::Update {
                variable: var,
                slots: update.slots,
                program,
                writes: update.writes,
            },
            update.scalars,
        )
    }

    /// Arguments computed once a step, as inputs of another program, in the dtype of its variable.
    fn import(&mut self, given: &[ArgValue], dtype: DType) -> Vec<ArgValue> {
        let mut imported = Vec::new();
        for argument in given {
            let value = match &argument.value {
                Value::Tensor(t) => self.rate(t.id, dtype, argument.span),
                known => known.clone(),
            };
            imported.push(ArgValue {
                value,
                ..argument.clone()
            });
        }
        imported
    }

    /// A value of the program of rates as an input of another program, in the dtype of its variable.
    pub(crate) fn rate(&mut self, id: typed::ValueId, dtype: DType, span: Span) -> Value {
        let ty = self.store.rates[id.0 as usize].clone();
        let input = self.emit_one(NodeKind::Input(Input::Rate(id)), ty, span);
        self.cast(input, dtype, span)
    }

    pub(crate) fn cast(&mut self, value: Value, dtype: DType, span: Span) -> Value {
        match &value {
            Value::Tensor(t)
                if t.ty.dtype != dtype && t.ty.dtype.is_float() && dtype.is_float() =>
            {
                let op = trainspec_ir::ops::find("cast").expect("the table has it");
                let given = [value, Value::DType(dtype)].map(|value| ArgValue {
                    name: None,
                    value,
                    span,
                });
                self.apply_op(op, given.to_vec(), span)
            }
            _ => value,
        }
    }

    /// `slot NAME: type as "x" = init;`
    pub(crate) fn slot(&mut self, slot: &ast::Variable) {
        let Some(param) = self.store.update.param.clone() else {
            return;
        };
        let ty = match &slot.ty {
            None => Some(param),
            Some(ty) => self.declared_type(ty, &Bounds::new(), false),
        };
        let init = self.eval(&slot.init);
        let init = self.as_number(init);
        let Some(ty) = ty else {
            self.bind_with(&slot.name, Value::Poison, Target::Slot);
            return;
        };
        let own = slot
            .alias
            .as_ref()
            .map_or(slot.name.text.as_str(), |a| a.value.as_str());
        let own = self.store.update.slot_key(own);
        let (called, span) = match &slot.called {
            Some(called) => (called.value.clone(), called.span),
            None => (slot.name.text.clone(), slot.name.span),
        };
        // One declaration that is expanded twice is a conflict of states.
        let mut slots = self.store.update.slots.iter();
        if let Some(other) = slots.find(|s| s.called == called && s.span != slot.name.span) {
            let message = format!("two slots are called `{called}`");
            let error = Diagnostic::new(Code::DuplicateName, span, message)
                .note_at(other.span, "the other is declared here");
            self.report(error);
        }
        let name = StateName::Slot {
            variable: &self.store.update.variable,
            key: &own,
        };
        let name = name.to_string();
        if let Some(init) = self.initializer(init, &ty, &name, slot.init.span) {
            self.store.update.slots.push(Slot {
                name: slot.name.text.clone(),
                called,
                key: own,
                ty: ty.clone(),
                init,
                span: slot.name.span,
            });
        }
        let value = self.emit_one(
            NodeKind::Input(Input::Slot(slot.name.text.clone())),
            ty,
            slot.name.span,
        );
        self.bind_with(&slot.name, value, Target::Slot);
    }

    /// `scalar NAME = start then next;`: one value for all variables of a group.
    pub(crate) fn scalar(
        &mut self,
        name: &Name,
        alias: Option<&ast::StrLit>,
        start: &Expr,
        next: &Expr,
        span: Span,
    ) {
        if !self.only_in(
            &[FrameKind::Optimizer],
            "scalar",
            span,
            "scalars belong to optimizers; a block keeps `state`",
        ) {
            return;
        }
        self.reject_duplicate(name, "scalar");
        let dtype = self
            .store
            .update
            .param
            .as_ref()
            .map_or(DType::F32, |t| t.dtype);
        if let Some(scalar) = self.scalar_program(name, alias, start, next) {
            self.store.update.scalars.push(scalar);
        }
        let input = self.emit_one(
            NodeKind::Input(Input::Scalar(name.text.clone())),
            TensorType::scalar(DType::F32),
            name.span,
        );
        let value = self.cast(input.clone(), dtype, name.span);
        if let (Value::Tensor(short), Value::Tensor(full)) = (&value, input) {
            self.shortened.insert(short.id, full);
        }
        self.bind_with(name, value, Target::Fixed("scalar"));
    }

    /// Scalars are computed apart from any variable: they see the parameters of the optimizer, `step`, and the scalars
    /// before them.
    fn scalar_program(
        &mut self,
        name: &Name,
        alias: Option<&ast::StrLit>,
        start: &Expr,
        next: &Expr,
    ) -> Option<typed::Scalar> {
        let optimizer = self.store.update.optimizer.clone();
        let (result, program) = self.in_program(|c| {
            let mut frame = Frame::new(FrameKind::Optimizer, String::new());
            frame.arithmetic = arithmetic(DType::F32);
            if optimizer.is_none() {
                // Checked on its own: the parameters are samples, good in any program.
                let known = c
                    .frame()
                    .scopes
                    .iter()
                    .flatten()
                    .map(|(n, b)| (n.clone(), b.clone()));
                let known = known
                    .filter(|(_, b)| !matches!(b.value, Value::Tensor(_)))
                    .collect();
                frame.scopes = vec![known];
            }
            c.framed(frame, |c| {
                if let Some((def, given, span)) = &optimizer {
                    let given = c.import(given, DType::F32);
                    let names: Vec<&str> = def
                        .ast
                        .params
                        .iter()
                        .map(|p| p.name.text.as_str())
                        .collect();
                    let slots = assign(c, def.name(), &names, &given, *span)?;
                    c.calls.push(CallSite::new(*span, def, &slots, &given));
                    let bound = c.bind_params(def, &slots, &given, *span);
                    c.calls.pop();
                    if !bound {
                        return None;
                    }
                }
                let before: Vec<String> = c
                    .store
                    .update
                    .scalars
                    .iter()
                    .map(|s| s.source.clone())
                    .collect();
                for scalar in before {
                    let input = c.emit_one(
                        NodeKind::Input(Input::Scalar(scalar.clone())),
                        TensorType::scalar(DType::F32),
                        name.span,
                    );
                    c.bind_implicit(&scalar, name.span, input, Target::Fixed("scalar"));
                }
                let first = c.eval(start);
                let first = c.scalar_tensor(&first, start.span)?;
                let input = c.emit_one(
                    NodeKind::Input(Input::Scalar(name.text.clone())),
                    TensorType::scalar(DType::F32),
                    name.span,
                );
                c.bind_with(name, input, Target::Fixed("scalar"));
                let then = c.eval(next);
                let then = c.scalar_tensor(&then, next.span)?;
                Some((first, then))
            })
        });
        let (first, then) = result?;
        Some(typed::Scalar {
            name: alias.map_or_else(|| name.text.clone(), |a| a.value.clone()),
            source: name.text.clone(),
            start: first.id,
            program,
            next: then.id,
            span: name.span,
        })
    }

    fn scalar_tensor(&mut self, value: &Value, span: Span) -> Option<Tensor> {
        let tensor = self.as_tensor(value, DType::F32, span)?;
        if tensor.ty.rank() == 0 && tensor.ty.dtype == DType::F32 {
            return Some(tensor);
        }
        self.report(
            Diagnostic::new(
                Code::TypeMismatch,
                span,
                "a scalar of an optimizer is one `f32`",
            )
            .label(format!("this is `{}`", tensor.ty)),
        );
        None
    }
}

/// The name that TensorFlow knows an optimizer by, or its own.
fn alias(def: &Def) -> &str {
    let alias = def.ast.alias.as_ref();
    alias.map_or(def.name(), |a| a.value.as_str())
}

impl Update {
    /// The key of a slot: with `name: "Own"`, a slot that is called after its optimizer, `Adam_1`, is called after that name, `Own_1`.
    fn slot_key(&self, declared: &str) -> String {
        let (Some(name), Some((def, _, _))) = (&self.name, &self.optimizer) else {
            return declared.to_owned();
        };
        let is_number = |rest: &str| {
            let digits = rest.strip_prefix('_').unwrap_or("");
            rest.is_empty() || (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        };
        match declared
            .strip_prefix(alias(def))
            .filter(|rest| is_number(rest))
        {
            Some(rest) => format!("{name}{rest}"),
            None => declared.to_owned(),
        }
    }
}
