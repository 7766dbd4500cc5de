//! The training step: forward pass, reverse-mode gradients, gradient processing, optimizer updates.
//!
//! The order of state: everything reads the state before the step; gradients are unscaled, averaged over the micro-batches of a
//! step, clipped; variables and slots are updated; scalars of optimizers advance; moving averages follow the new values;
//! `global_step` is incremented. All writes take effect together at the end of the step.

use trainspec_ir::autodiff::{Cotangent, IndexedSlices, Request};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Span, TensorType};

use crate::diag::{Code, Diagnostic};
use crate::lower::program::{self, Values};
use crate::lower::{
    Component, Context, Fetch, GLOBAL_STEP, Lowered, ResultName, SEED, mode_values, results,
    the_model,
};
use crate::typed::{
    Group, Input, LossScale, Mode, Model, Role, Spec, Train, Update, ValueId, VarId,
};

mod accumulate;
mod apply;
mod finite;
mod process;
mod row_wise;

pub use accumulate::{accumulator_names, merge};
pub(crate) use row_wise::lazy_errors;

/// Lowers a step of training. Besides the results of the model there are the schedules, and the gradients before they are clipped.
/// Fails where the spec has no `train` or `model`, or where the loss of an optimizer depends on none of its variables.
pub fn step(cx: &Context<'_>) -> Result<Lowered, Diagnostic> {
    let (graph, warnings) = step_graph(cx, the_train(cx)?, the_model(cx)?, false)?;
    Ok(Lowered { graph, warnings })
}

/// With `accumulate`, the graph of each micro-batch of a step but the last: gradients are accumulated, nothing is updated.
pub fn micro_batch(cx: &Context<'_>) -> Result<Option<Graph>, Diagnostic> {
    let train = the_train(cx)?;
    match train.accumulate {
        1 => Ok(None),
        _ => Ok(Some(step_graph(cx, train, the_model(cx)?, true)?.0)),
    }
}

fn the_train<'a>(cx: &Context<'a>) -> Result<&'a Train, Diagnostic> {
    let missing = || Diagnostic::without_span(Code::MissingItem, "the spec has no `train`");
    cx.spec.train.as_ref().ok_or_else(missing)
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
        b.randomness(
            seed,
            &[program::global_step(&b), accumulate::micro_step(&b)],
        );
    }
    let values = mode_values(cx, &b, model, &model.train)?;
    results(&b, &model.train, &values);
    let rates = rates(cx, &b, train)?;
    for (name, value) in &train.schedules {
        let name = Fetch::Schedule(name.clone()).to_string();
        b.result(&name, rates.get(*value));
    }
    let scale = process::loss_scale(cx, &b, train);
    let mut warnings = Vec::new();
    let mut all: Gradients<'_, '_> = Vec::new();
    for group in &train.groups {
        let found = group_gradients(cx, &b, &model.train, &values, group, scale)?;
        warnings.extend(unconnected(cx, group, &found)?);
        let updates = group.updates.iter().zip(found);
        all.extend(updates.filter_map(|(update, gradient)| Some((group, update, gradient?))));
    }
    finite::check(cx, &b, model, &values, &rates, &all)?;
    b.at(Span::default());
    if train.accumulate > 1 {
        if accumulate_only {
            accumulate::add(cx, &b, train, &all);
            return Ok((b.finish(), warnings));
        }
        accumulate::mean(cx, &b, train, &mut all);
    }
    for (group, update, gradient) in &all {
        let name = |component| gradient_name(&group.loss, name_of(cx, update.variable), component);
        if let Cotangent::Sparse(rows) = gradient {
            b.result(&name(Component::Rows), rows.masked().rows);
        }
        b.result(&name(Component::Value), gradient.dense());
    }
    apply_all(cx, &b, train, &rates, scale, all, &|_, id| values.get(id))?;
    Ok((b.finish(), warnings))
}

/// The values of `Train::rates`: schedules and the scalars that settings use.
fn rates<'g>(cx: &Context<'_>, b: &'g Builder, train: &Train) -> Result<Values<'g>, Diagnostic> {
    let mut none = |input: &Input, _: &TensorType, span| Err(unknown_input(input, span));
    program::lower(cx, b, &train.rates, &mut none)
}

/// Everything a step does with its gradients: clips, updates, averages, counters, the next loss scale. `value` gives the values
/// of the model that are averaged.
fn apply_all<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    train: &Train,
    rates: &Values<'g>,
    scale: Option<Value<'g>>,
    mut all: Gradients<'_, 'g>,
    value: &dyn Fn(&str, ValueId) -> Value<'g>,
) -> Result<(), Diagnostic> {
    let finite = matches!(train.loss_scale, Some(LossScale::Dynamic { .. }))
        .then(|| process::all_finite(b, &all));
    process::clip(cx, b, train, rates, &mut all)?;
    let writer = process::Writer { b, finite };
    update(cx, &writer, train, rates, all)?;
    process::average(cx, &writer, train, rates, value)?;
    increment_global_step(&writer);
    process::next_scale(&writer, train, scale);
    Ok(())
}

fn gradient_name(loss: &str, variable: &str, component: Component) -> String {
    let fetch = Fetch::Gradient {
        loss: loss.to_owned(),
        variable: variable.to_owned(),
    };
    ResultName { fetch, component }.to_string()
}

/// The updates of a step apart from its gradients, which are inputs by the names under which [`gradients`] gives them: what a worker
/// computes, a parameter server applies. The two together write what a [`step`] writes, bit for bit.
pub fn apply(cx: &Context<'_>) -> Result<Graph, Diagnostic> {
    let (train, model) = (the_train(cx)?, the_model(cx)?);
    // Differentiated in a graph that is discarded, for the types of the gradients.
    let discarded = Builder::new("gradients");
    let values = mode_values(cx, &discarded, model, &model.train)?;
    let discarded_scale = process::loss_scale(cx, &discarded, train);
    let b = Builder::new("apply");
    let mut all: Gradients<'_, '_> = Vec::new();
    for group in &train.groups {
        let found = group_gradients(
            cx,
            &discarded,
            &model.train,
            &values,
            group,
            discarded_scale,
        )?;
        for (update, gradient) in group.updates.iter().zip(found) {
            let input = |component, like: Value<'_>| {
                let name = gradient_name(&group.loss, name_of(cx, update.variable), component);
                b.input(&name, &like.ty())
            };
            let Some(gradient) = gradient else { continue };
            let gradient = match gradient {
                Cotangent::Dense(dense) => Cotangent::Dense(input(Component::Value, dense)),
                Cotangent::Sparse(slices) => Cotangent::Sparse(IndexedSlices {
                    indices: input(Component::Indices, slices.indices),
                    rows: input(Component::Rows, slices.rows),
                    length: slices.length,
                    count: slices.count.map(|n| input(Component::Count(None), n)),
                }),
            };
            all.push((group, update, gradient));
        }
    }
    let rates = rates(cx, &b, train)?;
    let scale = process::loss_scale(cx, &b, train);
    let value = |name: &str, id| {
        let fetch = Fetch::find(cx.spec, name).map_or_else(|| name.to_owned(), |f| f.to_string());
        b.input(&fetch, &values.get(id).ty())
    };
    apply_all(cx, &b, train, &rates, scale, all, &value)?;
    Ok(b.finish())
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
            let mut inputs = |input: &Input, ty: &TensorType, span| {
                optimizer_input(cx, b, group, None, rates, input, ty, span)
            };
            let next = program::lower(cx, b, &scalar.program, &mut inputs)?.get(scalar.next);
            writer.write(&scalar.name, next);
        }
    }
    Ok(())
}

/// Increments `global_step`.
fn increment_global_step(writer: &process::Writer<'_>) {
    let b = writer.b;
    b.at(Span::default());
    let one = b.int(DType::I64, 1);
    writer.write(GLOBAL_STEP, program::global_step(b) + one);
}

/// Applies gradients (`apply_gradients` of TensorFlow's optimizers) in a graph that is built elsewhere, one gradient for
/// each of the spec's updates in order: writes variables and slots, scalars, and with `counts` `global_step`.
pub fn apply_gradients<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    gradients: &[Option<Cotangent<'g>>],
    counts: bool,
) -> Result<(), Diagnostic> {
    let train = the_train(cx)?;
    let rates = rates(cx, b, train)?;
    let updates = train.groups.iter().flat_map(|group| {
        let own = group.updates.iter();
        own.map(move |update| (group, update))
    });
    let given = updates.zip(gradients);
    let all = given.filter_map(|((group, update), gradient)| Some((group, update, (*gradient)?)));
    let writer = process::Writer { b, finite: None };
    update(cx, &writer, train, &rates, all.collect())?;
    if counts {
        increment_global_step(&writer);
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
    let train = cx.spec.train.as_ref();
    let scale = train.and_then(|train| process::loss_scale(cx, &b, train));
    let pairs = trained(cx.spec);
    for (loss, id) in &model.train.losses {
        let variables: Vec<VarId> = pairs
            .iter()
            .filter(|(l, _)| l == loss)
            .map(|(_, v)| *v)
            .collect();
        let found = loss_gradients(cx, &b, values.get(*id), &variables, scale)?;
        for (variable, gradient) in variables.iter().zip(found) {
            let name = |component| gradient_name(loss, name_of(cx, *variable), component);
            if let Some(Cotangent::Sparse(rows)) = gradient {
                b.result(&name(Component::Indices), rows.indices);
                b.result(&name(Component::Rows), rows.rows);
                if let Some(count) = rows.count {
                    b.result(&name(Component::Count(None)), count);
                }
            }
            if let Some(gradient) = gradient {
                b.result(&name(Component::Value), gradient.dense());
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
            let parameters = |loss: &(String, ValueId)| {
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
fn group_gradients<'g>(
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
    let variables: Vec<VarId> = group.updates.iter().map(|u| u.variable).collect();
    loss_gradients(cx, b, values.get(*loss), &variables, scale)
}

/// The gradient of a loss with respect to each of some variables, computed with the loss scale and unscaled.
fn loss_gradients<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    loss: Value<'g>,
    variables: &[VarId],
    scale: Option<Value<'g>>,
) -> Result<Vec<Option<Cotangent<'g>>>, Diagnostic> {
    let reads = variables.iter().map(|v| program::read(cx, b, *v));
    let request = Request {
        ys: vec![loss],
        xs: reads.collect::<Result<_, _>>()?,
        seeds: vec![scale.map(|s| s.cast(loss.dtype()).broadcast(&loss.shape()))],
        stop_gradients: Vec::new(),
    };
    let gradients = b.differentiate(&request).into_iter();
    let unscaled = |gradient| match scale {
        Some(scale) => process::unscale(gradient, scale),
        None => gradient,
    };
    Ok(gradients.map(|g| g.map(unscaled)).collect())
}

/// Variables that the loss does not depend on: a warning, and an error where it depends on none.
fn unconnected(
    cx: &Context<'_>,
    group: &Group,
    gradients: &[Option<Cotangent<'_>>],
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let variables: Vec<VarId> = group
        .updates
        .iter()
        .zip(gradients)
        .filter(|(_, gradient)| gradient.is_none())
        .map(|(update, _)| update.variable)
        .collect();
    if !variables.is_empty() && variables.len() == group.updates.len() {
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
    Ok(variables.iter().map(warning).collect())
}

/// The value of an input of a program of an optimizer.
#[allow(clippy::too_many_arguments)] // the last three are those of a program's input
fn optimizer_input<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    group: &Group,
    update: Option<(&Update, &apply::AppliedGradient<'g>)>,
    rates: &Values<'g>,
    input: &Input,
    ty: &TensorType,
    span: Span,
) -> Result<Value<'g>, Diagnostic> {
    let ty = Type::of(ty).expect("it is bound");
    let found = match (input, update) {
        (Input::Rate(rate), _) => Some(rates.get(*rate)),
        (Input::Param, Some((update, gradient))) => {
            Some(gradient.old(program::read(cx, b, update.variable)?))
        }
        (Input::Grad, Some((_, gradient))) => Some(gradient.gradient()),
        (Input::Slot(name), Some((update, gradient))) => {
            let slot = update.slots.iter().find(|s| s.name == *name);
            slot.map(|slot| {
                let state = slot.state_name(name_of(cx, update.variable));
                gradient.old(b.read(&state, &ty))
            })
        }
        (Input::Scalar(name), _) => {
            let scalar = group.scalars.iter().find(|s| s.source == *name);
            scalar.map(|scalar| b.read(&scalar.name, &ty))
        }
        _ => None,
    };
    found.ok_or_else(|| unknown_input(input, span))
}

fn name_of<'a>(cx: &Context<'a>, var: VarId) -> &'a str {
    &cx.spec.variables[var.0 as usize].name
}

fn unknown_input(input: &Input, span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::UnknownName,
        span,
        format!("`{input}` has no value here"),
    )
}
