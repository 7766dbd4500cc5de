//! `final_ops`: values of the model from the state at the end (`tf.train.FinalOpsHook`), on the last batch of the training.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{Named, NamedKind};

use crate::data::Element;
use crate::hooks::SessionRunHook;
use crate::hooks::log::reading_of;
use crate::program::FeedDict;
use crate::session::{Event, EventQueue, Mean, Reading, Session, value_type};
use crate::{Code, Error};

/// The last batch that was trained on, or the first to be. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastBatch(Arc<Mutex<Option<Element>>>);

impl LastBatch {
    pub(crate) fn set(&self, batch: Element) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
    }
}

/// A `final_ops` hook of a spec: the model in evaluation mode, with the state at the end.
#[derive(Debug)]
pub(crate) struct FinalValuesHook {
    names: Vec<Named>,
    batch: LastBatch,
    events: EventQueue,
}

impl FinalValuesHook {
    pub(crate) fn new(names: &[Named], batch: LastBatch, events: EventQueue) -> FinalValuesHook {
        FinalValuesHook {
            names: names.to_vec(),
            batch,
            events,
        }
    }

    /// The value of a name; an evaluation has computed what it computes.
    fn value(session: &Session, batch: &Element, name: &str) -> Option<Reading> {
        let spec = session.spec();
        match Fetch::find(spec, name) {
            // A schedule belongs to a step: its value is that of the last.
            Some(fetch @ (Fetch::Schedule(_) | Fetch::Gradient { .. })) => {
                session.step_results().value(&fetch).map(reading_of)
            }
            Some(fetch) => {
                let ty = value_type(spec, &fetch)?;
                let results = session.results();
                match &fetch {
                    Fetch::Metric(_) => Mean::of(results, &fetch, ty).map(Reading::Mean),
                    _ => (results.without_padding(&fetch, ty)).map(|t| reading_of(&t)),
                }
            }
            None => match batch.feed(name) {
                Some(value) => Some(reading_of(&value.to_tensor())),
                None => (name == "step").then(|| {
                    let step = session.global_step() as i64;
                    Reading::Tensor(Tensor::scalar(step))
                }),
            },
        }
    }
}

impl SessionRunHook for FinalValuesHook {
    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        let spec = session.spec().clone();
        let batch = self.batch.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(batch) = batch.as_ref() else {
            let message = "no batch was read, so `final_ops` has nothing to compute with";
            self.events.push(Event::Note(message.to_owned()));
            return Ok(());
        };
        let named = self.names.iter().filter_map(|named| match &named.kind {
            NamedKind::Value(name) => Fetch::find(&spec, name),
            NamedKind::Variables(_) => None,
        });
        let computed: BTreeSet<Fetch> = named
            .filter(|fetch| !matches!(fetch, Fetch::Schedule(_) | Fetch::Gradient { .. }))
            .collect();
        if !computed.is_empty() {
            session.evaluate(batch, &computed, false)?;
        }
        let mut values = Vec::new();
        for named in &self.names {
            match &named.kind {
                NamedKind::Value(name) => {
                    let value = FinalValuesHook::value(session, batch, name).ok_or_else(|| {
                        let message = format!("there is no value of `{name}` at the end");
                        Error::new(Code::NotFound, message)
                    })?;
                    values.push((name.clone(), value));
                }
                NamedKind::Variables(pattern) => {
                    for variable in spec.variables_matching(pattern) {
                        let value = session.state().get(&variable.name);
                        values.extend(value.map(|v| (variable.name.clone(), reading_of(v))));
                    }
                }
            }
        }
        self.events.push(Event::Final {
            step: session.global_step(),
            values,
        });
        Ok(())
    }
}
