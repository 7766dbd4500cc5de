//! The training step: forward pass, reverse-mode gradients, gradient processing, optimizer updates.
//!
//! The order of state: everything reads the state before the step; gradients are unscaled, averaged over the micro-batches of a
//! step, clipped; variables and slots are updated; scalars of optimizers advance; moving averages follow the new values;
//! `global_step` is incremented. All writes take effect together at the end of the step.

use trainspec_ir::autodiff::{Cotangent, Request};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Span, TensorType};

use crate::diag::{Code, Diagnostic};
use crate::lower::program::{self, Values};
use crate::lower::{Context, GLOBAL_STEP, SEED, mode_values, results, the_model};
use crate::typed::{Group, LossScale, Mode, Model, Role, Spec, Train, Update, VarId};

mod apply;
mod process;
mod row_wise;

pub(crate) use row_wise::lazy_errors;

/// A step of training.
#[derive(Debug, Clone)]
pub struct Step {
    /// The graph. Besides the results of the model there are `schedule/NAME` and `gradient/VARIABLE`, the gradient before it
    /// is clipped; a sparse one has its rows beside it, as `gradient/VARIABLE#rows`.
    pub graph: Graph,
    /// With `accumulate`, the graph of each micro-batch of a step but the last: gradients are accumulated, nothing is updated.
    pub micro: Option<Graph>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Lowers a step of training.
pub fn step(cx: &Context<'_>) -> Result<Step, Diagnostic> {
    let missing = || Diagnostic::without_span(Code::MissingItem, "the spec has no `train`");
    let train = cx.spec.train.as_ref().ok_or_else(missing)?;
    let model = the_model(cx)?;
    let micro = match train.accumulate {
        1 => None,
        _ => Some(step_graph(cx, train, model, true)?.0),
    };
    let (graph, warnings) = step_graph(cx, train, model, false)?;
    Ok(Step {
        graph,
        micro,
        warnings,
    })
}

/// The gradients of a step: group, update, gradient.
type Gradients<'a, 'g> = Vec<(&'a Group, &'a Update, Cotangent<'g>)>;

/// The graph of a step, or with `accumulate_only` that of every micro-batch but the last.
fn step_graph(
    cx: &Context<'_>,
    train: &Train,
    model: &Model,
    accumulate_only: bool,
) -> Result<(Graph, Vec<Diagnostic>), Diagnostic> {
    let b = Builder::new(if accumulate_only { "micro" } else { "step" });
    if train.accumulate > 1 {
        // Micro-batches of one step draw different random numbers.
        let seed = b.input(SEED, &Type::scalar(DType::I64));
        b.randomness(seed, &[program::global_step(&b), process::micro_step(&b)]);
    }
    let values = mode_values(cx, &b, model, &model.train)?;
    results(&b, &model.train, &values);
    let mut none = |name: &str, _: &TensorType, span| Err(unknown_input(name, span));
    let rates = program::lower(cx, &b, &train.rates, &mut none)?;
    for (name, value) in &train.schedules {
        b.result(&format!("schedule/{name}"), rates.get(*value));
    }
    let scale = process::loss_scale(cx, &b, train);
    let mut warnings = Vec::new();
    let mut all: Gradients<'_, '_> = Vec::new();
    for group in &train.groups {
        let found = loss_gradients(cx, &b, &model.train, &values, group, scale)?;
        warnings.extend(unconnected(cx, group, &found)?);
        let updates = group.updates.iter().zip(found);
        all.extend(updates.filter_map(|(update, gradient)| Some((group, update, gradient?))));
    }
    if let Some(scale) = scale {
        process::unscale(&mut all, scale);
    }
    b.at(Span::default());
    if train.accumulate > 1 {
        process::accumulate(cx, &b, train, &mut all, accumulate_only);
        if accumulate_only {
            return Ok((b.finish(), warnings));
        }
    }
    for (_, update, gradient) in &all {
        let name = format!("gradient/{}", name_of(cx, update.variable));
        if let Cotangent::Sparse(rows) = gradient {
            b.result(&format!("{name}#rows"), rows.masked().rows);
        }
        b.result(&name, gradient.dense());
    }
    let finite = matches!(train.loss_scale, Some(LossScale::Dynamic { .. }))
        .then(|| process::all_finite(&b, &all));
    process::clip(cx, &b, train, &rates, &mut all)?;
    let writer = process::Writer { b: &b, finite };
    update(cx, &writer, train, &rates, all)?;
    process::average(cx, &writer, train, &rates, &values)?;
    count(&writer);
    process::next_scale(&writer, train, scale);
    Ok((b.finish(), warnings))
}

/// Updates all variables that have gradients, then the scalars of optimizers.
fn update<'g>(
    cx: &Context<'_>,
    writer: &process::Writer<'g>,
    train: &Train,
    rates: &Values<'g>,
    all: Gradients<'_, 'g>,
) -> Result<(), Diagnostic> {
    // Everything fallible comes before the first write.
    let mut ready = Vec::new();
    for (group, update, gradient) in all {
        ready.push((
            group,
            update,
            apply::AppliedGradient::new(cx, group, update, gradient)?,
        ));
    }
    for (group, update, gradient) in ready {
        apply::apply(cx, writer, group, update, rates, gradient)?;
    }
    let b = writer.b;
    for group in &train.groups {
        for scalar in &group.scalars {
            let mut inputs = |name: &str, ty: &TensorType, span| {
                input(cx, b, group, None, rates, name, ty, span)
            };
            let next = program::lower(cx, b, &scalar.program, &mut inputs)?.get(scalar.next);
            writer.write(&scalar.name, next);
        }
    }
    Ok(())
}

/// Increments `global_step`.
fn count(writer: &process::Writer<'_>) {
    let b = writer.b;
    b.at(Span::default());
    let one = b.int(DType::I64, 1);
    writer.write(GLOBAL_STEP, program::global_step(b) + one);
}

/// Applies gradients (`apply_gradients` of TensorFlow's optimizers) in a graph that is built elsewhere, one gradient for
/// each of the spec's updates in order: writes variables and slots, scalars, and `global_step` where the step counts.
pub fn apply_gradients<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    gradients: &[Option<Cotangent<'g>>],
    counts: bool,
) -> Result<(), Diagnostic> {
    let missing = || Diagnostic::without_span(Code::MissingItem, "the spec has no `train`");
    let train = cx.spec.train.as_ref().ok_or_else(missing)?;
    let mut none = |name: &str, _: &TensorType, span| Err(unknown_input(name, span));
    let rates = program::lower(cx, b, &train.rates, &mut none)?;
    let updates = train.groups.iter().flat_map(|group| {
        let own = group.updates.iter();
        own.map(move |update| (group, update))
    });
    let given = updates.zip(gradients);
    let all = given.filter_map(|((group, update), gradient)| Some((group, update, (*gradient)?)));
    let writer = process::Writer { b, finite: None };
    update(cx, &writer, train, &rates, all.collect())?;
    if counts {
        count(&writer);
    }
    Ok(())
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
        for (variable, gradient) in variables.iter().zip(b.gradients(&[values.get(*id)], &xs)) {
            let name = format!("gradient/{loss}/{}", name_of(cx, *variable));
            if let Some(Cotangent::Sparse(rows)) = gradient {
                b.result(&format!("{name}#indices"), rows.indices);
                b.result(&format!("{name}#rows"), rows.rows);
                if let Some(count) = rows.count {
                    b.result(&format!("{name}#count"), count);
                }
            }
            if let Some(gradient) = gradient {
                b.result(&name, gradient.dense());
            }
        }
    }
    Ok(b.finish())
}

/// The trained variables, each with the loss it minimizes. Without `train`, all parameters for each loss.
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

/// The gradient of the group's loss with respect to each of its variables.
fn loss_gradients<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    mode: &Mode,
    values: &Values<'g>,
    group: &Group,
    scale: Option<Value<'g>>,
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
    let loss = values.get(*loss);
    Ok(b.differentiate(&Request {
        ys: vec![loss],
        xs,
        seeds: vec![scale.map(|s| s.cast(loss.dtype()).broadcast(&loss.shape()))],
        stop_gradients: Vec::new(),
    }))
}

/// Variables that the loss does not depend on: a warning, and an error where it depends on none.
fn unconnected(
    cx: &Context<'_>,
    group: &Group,
    gradients: &[Option<Cotangent<'_>>],
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let lost: Vec<VarId> = group
        .updates
        .iter()
        .zip(gradients)
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

/// An input of a program of an optimizer.
#[allow(clippy::too_many_arguments)] // the last three are those of a program's input
fn input<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    group: &Group,
    update: Option<(&Update, &apply::AppliedGradient<'g>)>,
    rates: &Values<'g>,
    name: &str,
    ty: &TensorType,
    span: Span,
) -> Result<Value<'g>, Diagnostic> {
    let ty = Type::of(ty).expect("it is bound");
    if let Some(rate) = rate_of(name) {
        return Ok(rates.get(rate));
    }
    if let Some((update, gradient)) = update {
        match name {
            "param" => return Ok(gradient.old(program::read(cx, b, update.variable)?)),
            "grad" => return Ok(gradient.gradient()),
            _ => {}
        }
        if let Some(slot) = update.slots.iter().find(|s| s.name == name) {
            return Ok(gradient.old(b.read(&slot.variable, &ty)));
        }
    }
    match group.scalars.iter().find(|s| s.source == name) {
        Some(scalar) => Ok(b.read(&scalar.name, &ty)),
        None => Err(unknown_input(name, span)),
    }
}

/// `rates %7` is a value of the program of rates.
pub(super) fn rate_of(name: &str) -> Option<crate::typed::ValueId> {
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
