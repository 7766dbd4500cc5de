//! Exponential moving averages (EMA) of variables and of values of the model.

use trainspec_ir::{Size, Span, TensorType};

use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::scope::{Frame, FrameKind};
use crate::check::value::{ArgValue, Value};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{
    self, Average, AverageState, Averaged, Input, Named, NamedKind, NodeKind, Rate, Role, ValueId,
    VarId,
};

/// The default suffix of a shadow variable, as in TensorFlow.
pub(crate) const NAME: &str = "ExponentialMovingAverage";

/// An average as it is set, before it is expanded. Rates have the spans of their arguments.
pub(crate) struct AverageSetting {
    decay: (Rate, Span),
    num_updates: Option<(Rate, Span)>,
    zero_debias: bool,
    /// The values of the model.
    tensors: Vec<Named>,
    /// The suffix of the shadow variables.
    name: String,
    span: Span,
}

/// The name of the shadow variable of `variable`.
pub(crate) fn name_of(variable: &str, own: &str) -> String {
    format!("{variable}/{own}")
}

impl Checker<'_> {
    /// `ema (...)`; rejects a decay outside of 0..=1.
    pub(crate) fn ema(&mut self, bound: &Bound) -> Option<AverageSetting> {
        let decay = bound.require("decay");
        if let Rate::Number(decay) = decay
            && !(0.0..=1.0).contains(&decay)
        {
            let message =
                format!("the decay of an average lies between 0 and 1, and this is {decay}");
            let span = bound.span_of("decay");
            self.report(Diagnostic::new(Code::BadValue, span, message));
            return None;
        }
        let updates = bound.get("num_updates");
        Some(AverageSetting {
            decay: (decay, bound.span_of("decay")),
            num_updates: updates.map(|rate| (rate, bound.span_of("num_updates"))),
            zero_debias: bound.get("zero_debias").unwrap_or(false),
            tensors: bound.get("tensors").unwrap_or_default(),
            name: bound.get("name").unwrap_or_else(|| NAME.to_owned()),
            span: bound.span,
        })
    }

    /// The averages that a setting requests: of the variables it matches, or of all that are trained, and of the values that
    /// it names.
    pub(crate) fn expand_averages(
        &mut self,
        setting: &AverageSetting,
        matched: Option<&[VarId]>,
        trained: &[VarId],
        model: &typed::Model,
    ) -> Vec<Average> {
        let (named, own) = (&setting.tensors, &setting.name);
        let mut sources: Vec<(Averaged, String, TensorType)> = Vec::new();
        let vars = match (matched, named.is_empty()) {
            (Some(vars), _) => vars,
            (None, true) => trained,
            // Only values are named, so no variable is averaged.
            (None, false) => &[],
        };
        for var in vars {
            let variable = &self.store.variables[var.0 as usize];
            if variable.ty.dtype.is_float() {
                let (name, ty) = (variable.name.clone(), variable.ty.clone());
                sources.push((Averaged::Variable(*var), name, ty));
            }
        }
        for named in named {
            sources.extend(self.averaged_value(named, model));
        }
        let mut averages = Vec::new();
        for (source, name, ty) in sources {
            let name = name_of(&name, own);
            // As in TensorFlow the average of a variable starts at the variable, so it needs no bias correction.
            let debias = setting.zero_debias && matches!(source, Averaged::Value(..));
            averages.extend(self.average(setting, source, name, ty, debias));
        }
        averages
    }

    fn average(
        &mut self,
        setting: &AverageSetting,
        source: Averaged,
        name: String,
        ty: TensorType,
        debias: bool,
    ) -> Option<Average> {
        let span = setting.span;
        let entry = |source, suffix: &str, ty: &TensorType| AverageState {
            source,
            name: format!("{name}{suffix}"),
            ty: ty.clone(),
        };
        let mut all = vec![entry("average", "", &ty)];
        if debias {
            all.push(entry("biased", "/biased", &ty));
            all.push(entry(
                "local_step",
                "/local_step",
                &TensorType::scalar(ty.dtype),
            ));
        }
        let (values, program) = self.in_program(|c| {
            let frame = Frame::new(FrameKind::Train, String::new());
            c.framed(frame, |c| c.averaged(setting, &ty, &all, span))
        });
        Some(Average {
            source,
            state: all,
            program,
            values: values?,
            span,
        })
    }

    /// The new values of the state.
    fn averaged(
        &mut self,
        setting: &AverageSetting,
        ty: &TensorType,
        state: &[AverageState],
        span: Span,
    ) -> Option<Vec<ValueId>> {
        let value = self.emit_one(NodeKind::Input(Input::Averaged), ty.clone(), span);
        let inputs: Vec<Value> = state
            .iter()
            .map(|k| {
                self.emit_one(
                    NodeKind::Input(Input::AverageState(k.source)),
                    k.ty.clone(),
                    span,
                )
            })
            .collect();
        let (decay, decay_span) = setting.decay;
        let mut decay = self.rate_value(decay, ty.dtype, decay_span);
        if let Some((updates, at)) = setting.num_updates {
            let updates = self.rate_value(updates, ty.dtype, at);
            let given = vec![(decay, decay_span), (updates, at)];
            decay = self.call_library("early_decay", given, span);
        }
        let average = |c: &mut Self, from: &Value| {
            let given = vec![
                (from.clone(), span),
                (value.clone(), span),
                (decay.clone(), decay_span),
            ];
            c.call_library("moving_average", given, span)
        };
        let next = match inputs.as_slice() {
            [plain] => vec![average(self, plain)],
            [_, biased, count] => {
                let biased = average(self, biased);
                let count = self.plus_one(count.clone(), span);
                let given = vec![
                    (biased.clone(), span),
                    (decay.clone(), decay_span),
                    (count.clone(), span),
                ];
                let corrected = self.call_library("debiased_average", given, span);
                vec![corrected, biased, count]
            }
            _ => unreachable!("the state is the average, or the average and its bias correction"),
        };
        next.iter()
            .map(|value| Some(self.as_tensor(value, ty.dtype, span)?.id))
            .collect()
    }

    /// A value of the model that can be averaged.
    fn averaged_value(
        &mut self,
        named: &Named,
        model: &typed::Model,
    ) -> Option<(Averaged, String, TensorType)> {
        let span = named.span;
        let NamedKind::Value(name) = &named.kind else {
            let message = "values are named, not matched by patterns";
            self.report(
                Diagnostic::new(Code::TypeMismatch, span, message)
                    .help("variables are matched by `for \"pattern\"`"),
            );
            return None;
        };
        let mode = &model.train;
        let known = || {
            let all = [&mode.losses, &mode.metrics, &mode.outputs, &mode.lets];
            all.into_iter().flatten()
        };
        let Some((_, id)) = known().find(|(n, _)| n == name) else {
            let near = nearest(name, known().map(|(n, _)| n.as_str()));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = format!("the model has no value `{name}`");
            self.report(Diagnostic::new(Code::UnknownName, span, message).maybe_help(help));
            return None;
        };
        let ty = (*mode.program.values[id.0 as usize]).clone();
        if let Some(dim) = ty.shape.0.iter().find(|d| d.size.value().is_none()) {
            let message = format!("`{name}` cannot be averaged: its size `{dim}` is not known");
            let help = format!("average what is left of it: `let mean_{name} = mean({name});`");
            self.report(
                Diagnostic::new(Code::UnknownSize, span, message)
                    .label(format!("this is `{ty}`"))
                    .help(help),
            );
            return None;
        }
        if ty.dtype.is_float() && !ty.shape.is_counted() {
            return Some((Averaged::Value(name.clone(), *id), name.clone(), ty));
        }
        let message = format!("`{name}` cannot be averaged");
        self.report(
            Diagnostic::new(Code::TypeMismatch, span, message).label(format!("this is `{ty}`")),
        );
        None
    }

    /// One more.
    pub(crate) fn plus_one(&mut self, count: Value, span: Span) -> Value {
        let add = trainspec_ir::ops::find("add").expect("the table has it");
        let given = [count, Value::Int(Size::fixed(1))].map(|value| ArgValue {
            name: None,
            value,
            span,
        });
        self.apply_op(add, given.to_vec(), span)
    }

    /// The variables that are trained.
    pub(crate) fn trained_variables(&self, frozen: &[VarId]) -> Vec<VarId> {
        (0..self.store.variables.len() as u32)
            .map(VarId)
            .filter(|v| self.store.variables[v.0 as usize].role == Role::Param)
            .filter(|v| !frozen.contains(v))
            .collect()
    }
}
