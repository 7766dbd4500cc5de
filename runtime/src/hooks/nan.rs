//! `nan`: stops or fails a run whose value is NaN or infinite (`tf.train.NanTensorHook`, which lets infinities pass).

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::{Span, Tensor};
use trainspec_compiler::typed::Spec;

use crate::data::Element;
use crate::program::Fetched;
use crate::{Cause, Error};

/// A `nan` hook.
#[derive(Debug)]
pub(super) struct NanHook {
    /// The value that it checks.
    pub(super) name: String,
    /// Whether it is an error, not just the end of the run.
    pub(super) fail: bool,
}

impl NanHook {
    /// Whether the value is not finite; an error where the hook fails the run.
    pub(super) fn finds(
        &self,
        spec: &Spec,
        batch: &Element,
        fetched: &Fetched,
        skipped: bool,
    ) -> Result<bool, Error> {
        let value = match Fetch::find(spec, &self.name) {
            Some(fetch) => fetched.value(&fetch),
            None => batch.values.get(&self.name),
        };
        let found = value.and_then(not_finite);
        match (found.filter(|x| x.is_nan() || !skipped), self.fail) {
            (None, _) => Ok(false),
            (Some(_), false) => Ok(true),
            (Some(value), true) => {
                let mut inputs = batch.values.iter();
                let input = inputs.find(|(_, tensor)| not_finite(tensor).is_some());
                Err(Cause::NotFinite {
                    name: self.name.clone(),
                    value,
                    input: input.map(|(name, _)| name.clone()),
                    span: span_of(spec, &self.name),
                }
                .into())
            }
        }
    }
}

/// The first element that is NaN, else the first that is infinite.
fn not_finite(tensor: &Tensor) -> Option<f64> {
    if !tensor.dtype().is_float() {
        return None;
    }
    let values = tensor.to_f64s();
    let nan = values.iter().find(|x| x.is_nan());
    nan.or_else(|| values.iter().find(|x| x.is_infinite()))
        .copied()
}

/// The span of the expression that computes a result of the model.
fn span_of(spec: &Spec, name: &str) -> Span {
    let Some(model) = &spec.model else {
        return Span::default();
    };
    let mode = &model.train;
    let mut named = mode
        .losses
        .iter()
        .chain(&mode.metrics)
        .chain(&mode.outputs)
        .chain(&mode.lets);
    let value = named.find(|(n, _)| n == name).map(|(_, value)| *value);
    let node = value.and_then(|value| {
        let mut nodes = mode.program.nodes.iter();
        nodes.find(|node| node.results.iter().any(|r| r == value))
    });
    node.map_or_else(Span::default, |node| node.span)
}
