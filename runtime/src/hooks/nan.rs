//! `nan`: stops or fails a run whose value is NaN (`tf.train.NanTensorHook`).

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::{Span, Tensor};
use trainspec_compiler::typed::Spec;

use crate::data::Element;
use crate::program::Fetched;
use crate::{Cause, SessionError};

/// A `nan` hook.
#[derive(Debug)]
pub(super) struct NanHook {
    /// The value that it checks.
    pub(super) name: String,
    /// Whether a NaN is an error, not just the end of the run.
    pub(super) fail: bool,
}

impl NanHook {
    /// Whether the value has a NaN; an error where the hook fails the run.
    pub(super) fn finds(
        &self,
        spec: &Spec,
        batch: &Element,
        fetched: &Fetched,
    ) -> Result<bool, SessionError> {
        let value = match Fetch::find(spec, &self.name) {
            Some(fetch) => fetched.value(&fetch),
            None => batch.values.get(&self.name),
        };
        match (value.is_some_and(has_nan), self.fail) {
            (false, _) => Ok(false),
            (true, false) => Ok(true),
            (true, true) => Err(Cause::NotANumber {
                name: self.name.clone(),
                span: span_of(spec, &self.name),
            }
            .into()),
        }
    }
}

fn has_nan(tensor: &Tensor) -> bool {
    tensor.dtype().is_float() && tensor.to_f64s().iter().any(|x| x.is_nan())
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
