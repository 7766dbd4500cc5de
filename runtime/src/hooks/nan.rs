//! `nan`: stops or fails a run whose value is NaN or infinite (`tf.train.NanTensorHook`, which lets infinities pass).

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::{Span, Tensor};
use trainspec_compiler::typed::Spec;

use crate::coordinator::Coordinator;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::program::FeedDict;
use crate::session::{End, EventQueue, Session};
use crate::{Cause, Error};

/// The `nan` hooks of a spec, and one for every loss that has none.
#[derive(Debug)]
pub(crate) struct NanHook {
    /// The values that are checked, each with whether it is an error and not just the end of the run.
    checked: Vec<(String, bool)>,
    events: EventQueue,
    step: u64,
}

impl NanHook {
    pub(crate) fn new(events: EventQueue) -> NanHook {
        NanHook {
            checked: Vec::new(),
            events,
            step: 0,
        }
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, name: &str, fail: bool) {
        self.checked.push((name.to_owned(), fail));
    }

    /// Adds the losses that are not checked yet.
    pub(crate) fn with_losses(mut self, spec: &Spec) -> NanHook {
        for (loss, _) in spec.model.iter().flat_map(|m| &m.train.losses) {
            if !self.checked.iter().any(|(name, _)| name == loss) {
                self.add(loss, true);
            }
        }
        self
    }
}

impl SessionRunHook for NanHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.step = session.global_step();
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let session = &*context.session;
        // Where the update was skipped infinities pass: the loss scale is about to shrink.
        let skipped = session.global_step() == self.step;
        self.step = session.global_step();
        let batch = context.batches.last().copied();
        for (name, fail) in &self.checked {
            let value = match Fetch::find(session.spec(), name) {
                Some(fetch) => session.step_results().value(&fetch).and_then(not_finite),
                None => fed(batch, name).as_ref().and_then(not_finite),
            };
            let Some(value) = value.filter(|x| x.is_nan() || !skipped) else {
                continue;
            };
            if !fail {
                self.events.end(End::NotFinite(name.clone()));
                context.request_stop();
                return Ok(());
            }
            let inputs = session.spec().model.iter().flat_map(|m| &m.inputs);
            let mut inputs = inputs.map(|input| &input.name);
            let input = inputs.find(|name| {
                let value = fed(batch, name);
                value.as_ref().and_then(not_finite).is_some()
            });
            return Err(Cause::NotFinite {
                name: name.clone(),
                value,
                input: input.cloned(),
                span: span_of(session.spec(), name),
            }
            .into());
        }
        Ok(())
    }
}

fn fed(batch: Option<&dyn FeedDict>, name: &str) -> Option<Tensor> {
    Some(batch?.feed(name)?.to_tensor())
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
