//! One step of training: the model, its gradients, the updates of the optimizers.
//!
//! The order of state: everything reads the state before the step; variables and slots are updated; scalars of optimizers
//! advance; `global_step` grows by one. All of it takes effect together.

use trainspec_ir::autodiff::Cotangent;
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Span, TensorType};

use crate::diag::{Code, Diagnostic};
use crate::lower::program::{self, Values};
use crate::lower::{Context, GLOBAL_STEP, mode_values, results, the_model};
use crate::typed::{Group, Mode, Role, Spec, Train, Update, VarId};

/// A step of training.
#[derive(Debug, Clone)]
pub struct Step {
    /// What it computes. Besides the results of the model there are `schedule/NAME` and `gradient/VARIABLE`.
    pub graph: Graph,
    /// What is odd about it.
    pub warnings: Vec<Diagnostic>,
}

/// Lowers a step of training.
pub fn step(cx: &Context<'_>) -> Result<Step, Diagnostic> {
    let missing = || Diagnostic::without_place(Code::MissingItem, "the spec has no `train`");
    let train = cx.spec.train.as_ref().ok_or_else(missing)?;
    refuse_what_is_not_run(train)?;
    let model = the_model(cx)?;
    let b = Builder::new("step");
    let values = mode_values(cx, &b, model, &model.train)?;
    results(&b, &model.train, &values);
    let mut none = |name: &str, _: &TensorType, span| Err(unknown_input(name, span));
    let rates = program::lower(cx, &b, &train.rates, &mut none)?;
    for (name, value) in &train.schedules {
        b.result(&format!("schedule/{name}"), rates.get(*value));
    }
    let mut warnings = Vec::new();
    for group in &train.groups {
        let slopes = slopes(cx, &b, &model.train, &values, group)?;
        warnings.extend(unconnected(cx, group, &slopes)?);
        for (update, slope) in group.updates.iter().zip(slopes) {
            if let Some(slope) = slope {
                let slope = slope.dense();
                b.result(&format!("gradient/{}", name_of(cx, update.variable)), slope);
                apply(cx, &b, group, update, &rates, slope)?;
            }
        }
        for scalar in &group.scalars {
            let mut inputs = |name: &str, ty: &TensorType, span| {
                input(cx, &b, group, None, &rates, name, ty, span)
            };
            let next = program::lower(cx, &b, &scalar.program, &mut inputs)?.get(scalar.next);
            b.write(&scalar.name, next);
        }
    }
    b.at(Span::default());
    let one = b.int(DType::I64, 1);
    b.write(GLOBAL_STEP, program::global_step(&b) + one);
    Ok(Step {
        graph: b.finish(),
        warnings,
    })
}

/// The model with the gradients of its losses, but without updates: `gradient/LOSS/VARIABLE` for each variable that is
/// trained, unless the loss does not depend on it. A sparse gradient has its positions and rows beside it, as
/// `gradient/LOSS/VARIABLE#indices` and `#rows`.
pub fn gradients(cx: &Context<'_>) -> Result<Graph, Diagnostic> {
    let model = the_model(cx)?;
    let b = Builder::new("gradients");
    let values = mode_values(cx, &b, model, &model.train)?;
    results(&b, &model.train, &values);
    for (loss, id) in &model.train.losses {
        let pairs = trained(cx.spec);
        let variables: Vec<VarId> = pairs
            .iter()
            .filter(|(l, _)| l == loss)
            .map(|(_, v)| *v)
            .collect();
        let reads = variables.iter().map(|v| program::read(cx, &b, *v));
        let xs: Vec<Value<'_>> = reads.collect::<Result<_, _>>()?;
        for (variable, slope) in variables.iter().zip(b.gradients(&[values.get(*id)], &xs)) {
            let name = format!("gradient/{loss}/{}", name_of(cx, *variable));
            if let Some(Cotangent::Rows(rows)) = slope {
                b.result(&format!("{name}#indices"), rows.indices);
                b.result(&format!("{name}#rows"), rows.rows);
                if let Some(count) = rows.count {
                    b.result(&format!("{name}#count"), count);
                }
            }
            if let Some(slope) = slope {
                b.result(&name, slope.dense());
            }
        }
    }
    Ok(b.finish())
}

/// Which variables are trained to make which loss smaller. Without `train`, all parameters for each loss.
pub fn trained(spec: &Spec) -> Vec<(String, VarId)> {
    match &spec.train {
        Some(train) if !train.groups.is_empty() => {
            let all = train
                .groups
                .iter()
                .flat_map(|g| g.updates.iter().map(|u| (g.loss.clone(), u.variable)));
            all.collect()
        }
        _ => {
            let losses = spec.model.iter().flat_map(|m| &m.train.losses);
            let parameters = |loss: &(String, crate::typed::ValueId)| {
                let loss = loss.0.clone();
                let all = spec
                    .variables
                    .iter()
                    .enumerate()
                    .filter(|(_, v)| v.role == Role::Param);
                all.map(move |(i, _)| (loss.clone(), VarId(i as u32)))
                    .collect::<Vec<_>>()
            };
            losses.flat_map(parameters).collect()
        }
    }
}

/// What the language has and a step does not do yet.
fn refuse_what_is_not_run(train: &Train) -> Result<(), Diagnostic> {
    if let Some((setting, _)) = train.settings.first() {
        let message = format!("`{}` is checked, but cannot be run yet", setting.word);
        return Err(Diagnostic::new(Code::UnknownSetting, setting.span, message));
    }
    if train.accumulate > 1 {
        let message = "`accumulate` is checked, but cannot be run yet";
        return Err(Diagnostic::without_place(Code::UnknownSetting, message));
    }
    Ok(())
}

/// The gradient of the group's loss with respect to each of its variables.
fn slopes<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    mode: &Mode,
    values: &Values<'g>,
    group: &Group,
) -> Result<Vec<Option<Cotangent<'g>>>, Diagnostic> {
    let Some((_, loss)) = mode.losses.iter().find(|(name, _)| *name == group.loss) else {
        return Err(Diagnostic::new(
            Code::UnknownName,
            group.span,
            format!("there is no loss `{}`", group.loss),
        ));
    };
    let reads = group
        .updates
        .iter()
        .map(|u| program::read(cx, b, u.variable));
    let xs: Vec<Value<'g>> = reads.collect::<Result<_, _>>()?;
    Ok(b.gradients(&[values.get(*loss)], &xs))
}

/// Variables that the loss does not depend on: odd, and wrong where it depends on none.
fn unconnected(
    cx: &Context<'_>,
    group: &Group,
    slopes: &[Option<Cotangent<'_>>],
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let lost: Vec<VarId> = group
        .updates
        .iter()
        .zip(slopes)
        .filter(|(_, s)| s.is_none())
        .map(|(u, _)| u.variable)
        .collect();
    if !lost.is_empty() && lost.len() == group.updates.len() {
        let message = format!(
            "`{}` depends on no variable of this optimizer, so nothing can be learned",
            group.loss
        );
        return Err(Diagnostic::new(Code::NotDifferentiable, group.span, message)
            .help("integers, comparisons, `argmax`, `round` and `stop_gradient` end the path of a gradient"));
    }
    let warning = |var: &VarId| {
        let variable = &cx.spec.variables[var.0 as usize];
        let message = format!(
            "`{}` is not trained: `{}` does not depend on it",
            variable.name, group.loss
        );
        Diagnostic::new(Code::NoEffect, variable.span, message)
            .help(format!("`freeze \"{}\";` says so", variable.name))
    };
    Ok(lost.iter().map(warning).collect())
}

/// Updates one variable.
fn apply<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    group: &Group,
    update: &Update,
    rates: &Values<'g>,
    slope: Value<'g>,
) -> Result<(), Diagnostic> {
    let mut inputs = |name: &str, ty: &TensorType, span| {
        input(cx, b, group, Some((update, slope)), rates, name, ty, span)
    };
    let values = program::lower(cx, b, &update.program, &mut inputs)?;
    for (name, value) in &update.writes {
        let state = match update.slots.iter().find(|s| s.name == *name) {
            Some(slot) => &slot.variable,
            None => name_of(cx, update.variable),
        };
        b.write(state, values.get(*value));
    }
    Ok(())
}

/// An input of a program of an optimizer.
#[allow(clippy::too_many_arguments)] // the last three are those of a program's input
fn input<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    group: &Group,
    update: Option<(&Update, Value<'g>)>,
    rates: &Values<'g>,
    name: &str,
    ty: &TensorType,
    span: Span,
) -> Result<Value<'g>, Diagnostic> {
    let ty = Type::of(ty).expect("it is bound");
    if let Some(rate) = rate_of(name) {
        return Ok(rates.get(rate));
    }
    if let Some((update, slope)) = update {
        match name {
            "param" => return program::read(cx, b, update.variable),
            "grad" => return Ok(slope),
            _ => {}
        }
        if let Some(slot) = update.slots.iter().find(|s| s.name == name) {
            return Ok(b.read(&slot.variable, &ty));
        }
    }
    match group.scalars.iter().find(|s| s.source == name) {
        Some(scalar) => Ok(b.read(&scalar.name, &ty)),
        None => Err(unknown_input(name, span)),
    }
}

/// `rates %7` is a value of the program of rates.
fn rate_of(name: &str) -> Option<crate::typed::ValueId> {
    name.strip_prefix("rates %")?
        .parse()
        .ok()
        .map(crate::typed::ValueId)
}

fn name_of<'a>(cx: &Context<'a>, var: VarId) -> &'a str {
    &cx.spec.variables[var.0 as usize].name
}

fn unknown_input(name: &str, span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::UnknownName,
        span,
        format!("`{name}` has no value here"),
    )
}
