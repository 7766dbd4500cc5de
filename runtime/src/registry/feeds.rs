//! The feeds that a program registers: inputs of the model that the data lacks.

use std::sync::{Arc, Mutex, PoisonError};

use trainspec_compiler::ir::Tensor;

use crate::data::Element;
use crate::hooks::FeedFn;
use crate::monitored::guarded;
use crate::{Code, Error};

/// The feeds of a spec. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    feeds: Vec<(String, FeedFn)>,
    /// What was given for the next run already.
    ahead: Option<Vec<Given>>,
}

/// What a feed gave: its name, that of the input, and the value.
#[derive(Clone)]
struct Given {
    feed: String,
    input: String,
    value: Tensor,
}

impl Feeds {
    pub(super) fn new(feeds: Vec<(String, FeedFn)>) -> Feeds {
        let ahead = None;
        Feeds(Arc::new(Mutex::new(State { feeds, ahead })))
    }

    /// Calls every feed once, and adds what they give to each of the batches of a run.
    pub(crate) fn fill<'a>(
        &self,
        batches: impl Iterator<Item = &'a mut Element>,
    ) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = state.given()?;
        add(&given, batches)
    }

    /// Adds to a batch what the next run is fed: its feeds are not called again for it.
    pub(crate) fn fill_ahead(&self, batch: &mut Element) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = state.given()?;
        add(&given, std::iter::once(batch))?;
        state.ahead = Some(given);
        Ok(())
    }
}

impl State {
    fn given(&mut self) -> Result<Vec<Given>, Error> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(ahead);
        }
        let mut given = Vec::new();
        for (name, feed) in &mut self.feeds {
            for (input, value) in guarded("feed", name, "its function", feed)? {
                let feed = name.clone();
                given.push(Given { feed, input, value });
            }
        }
        Ok(given)
    }
}

fn add<'a>(given: &[Given], batches: impl Iterator<Item = &'a mut Element>) -> Result<(), Error> {
    for batch in batches {
        for Given { feed, input, value } in given {
            let before = batch.values.insert(input.clone(), value.clone());
            if before.is_some() {
                let message = format!(
                    "`{input}` is fed twice: by the feed `{feed}`, and by another one or the data"
                );
                return Err(Error::new(Code::FailedPrecondition, message));
            }
        }
    }
    Ok(())
}
