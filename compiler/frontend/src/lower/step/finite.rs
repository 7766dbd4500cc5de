//! Checks that losses are finite: results of a step that fail it before its first write of state.

use trainspec_ir::Span;
use trainspec_ir::build::{Builder, Value};

use crate::diag::Diagnostic;
use crate::lower::program::Values;
use crate::lower::step::{self, Gradients, process};
use crate::lower::{Context, Fetch, fetch};
use crate::typed::{self, LossScale, Mode, Model, ValueId};

/// Checks that the losses and the values of `nan` hooks are finite. A check is a result, so a program has it where it is fetched; it runs
/// before the first write of state.
///
/// With a dynamic loss scale an infinity passes where the gradients are not finite either, because the update is skipped, also with
/// `accumulate`: a sum with a term that is not finite is not finite. NaN never passes: no loss scale changes the loss itself.
pub(super) fn check<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    model: &Model,
    values: &Values<'g>,
    rates: &Values<'g>,
    all: &Gradients<'_, 'g>,
) -> Result<(), Diagnostic> {
    let train = step::the_train(cx)?;
    b.at(Span::default());
    let skipped = match train.loss_scale {
        Some(LossScale::Dynamic { .. }) => Some(process::all_finite(b, all).logical_not()),
        Some(LossScale::Fixed(_)) | None => None,
    };
    for name in fetch::checked_names(cx.spec) {
        let Some(value) = checked_value(cx, b, model, values, rates, name)? else {
            continue;
        };
        b.at(mode_span(&model.train, name));
        let checked = match skipped {
            Some(skipped) => {
                let skipped = skipped.broadcast(&value.shape());
                let passes = skipped.logical_and(value.is_nan().logical_not());
                let checked = passes.select(value.like(0.0), value);
                b.same_counts(value, checked);
                checked
            }
            None => value,
        };
        let check = Fetch::Check(name.to_owned()).to_string();
        b.result(&check, checked.check_finite(name));
    }
    Ok(())
}

/// A value of floats by the name that a `nan` hook has for it: one of the model, a schedule or an input.
fn checked_value<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    model: &Model,
    values: &Values<'g>,
    rates: &Values<'g>,
    name: &str,
) -> Result<Option<Value<'g>>, Diagnostic> {
    let mode = &model.train;
    let find = |list: &[(String, ValueId)]| {
        let found = list.iter().find(|(n, _)| n == name);
        found.map(|(_, id)| *id)
    };
    let schedules = step::the_train(cx)?.schedules.as_slice();
    let is_input = |node: &&typed::Node| match &node.kind {
        typed::NodeKind::Input(input) => input.to_string() == name,
        _ => false,
    };
    let input = || model.inputs.iter().find(|input| input.name == name);
    let value = if let Some(id) = named_values(mode).find_map(find) {
        Some(values.get(id))
    } else if let Some(id) = find(schedules) {
        Some(rates.get(id))
    } else if let Some(node) = mode.program.nodes.iter().find(is_input) {
        Some(values.get(node.results.first))
    } else if let Some(input) = input() {
        // The model does not read it.
        let ty = cx.bind(&input.ty, Span::default())?;
        Some(b.counted_input(name, &ty))
    } else {
        None
    };
    Ok(value.filter(|value| value.dtype().is_float()))
}

/// The values of a model that have names.
fn named_values(mode: &Mode) -> impl Iterator<Item = &[(String, ValueId)]> {
    let all = [&mode.losses, &mode.metrics, &mode.outputs, &mode.lets];
    all.into_iter().map(Vec::as_slice)
}

/// The span of the expression that computes a value of the model; empty where there is none.
fn mode_span(mode: &Mode, name: &str) -> Span {
    let value = named_values(mode)
        .flatten()
        .find(|(n, _)| n == name)
        .map(|(_, value)| *value);
    let node = value.and_then(|value| {
        let mut nodes = mode.program.nodes.iter();
        nodes.find(|node| node.results.iter().any(|r| r == value))
    });
    node.map_or_else(Span::default, |node| node.span)
}
