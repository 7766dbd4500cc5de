//! The input of a training: a pipeline with one element of lookahead.
//!
//! In: a pipeline. Out: batches, each with the position after it and what is known of the next one: whether an epoch ends here, and
//! whether the data does. Both depend on the data alone.

use std::path::PathBuf;

use crate::Error;
use crate::data::{Element, Pipeline, Position};

/// A pipeline, read one element ahead.
#[derive(Debug)]
pub struct Input {
    pipeline: Pipeline,
    ahead: Ahead,
    position: Position,
}

/// An element of an input, and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The features.
    pub element: Element,
    /// The position of the pipeline after this batch: a training that resumes there reads the next one.
    pub position: Position,
    /// The epochs that have ended after this batch.
    pub passes: u64,
    /// Whether the data ends after it.
    pub last: bool,
}

/// What comes after the last batch.
#[derive(Debug)]
enum Ahead {
    Unread,
    Element(Box<Element>),
    End,
    Failed(Error),
}

impl Input {
    /// The input from the pipeline's next element on.
    pub fn new(pipeline: Pipeline) -> Input {
        Input {
            position: pipeline.position(),
            pipeline,
            ahead: Ahead::Unread,
        }
    }

    /// The next batch; `None` at the end. Where the one after it cannot be read, the next call says so.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Batch>, Error> {
        if matches!(self.ahead, Ahead::Unread) {
            self.read_ahead();
        }
        let element = match std::mem::replace(&mut self.ahead, Ahead::Unread) {
            Ahead::Element(element) => *element,
            Ahead::Failed(error) => {
                self.ahead = Ahead::Failed(error.clone());
                return Err(error);
            }
            Ahead::End | Ahead::Unread => {
                self.ahead = Ahead::End;
                return Ok(None);
            }
        };
        self.position = self.pipeline.position();
        self.read_ahead();
        let passes = match &self.ahead {
            Ahead::Element(next) => next.pass,
            Ahead::End => element.pass + 1,
            Ahead::Failed(_) | Ahead::Unread => element.pass,
        };
        Ok(Some(Batch {
            element,
            position: self.position.clone(),
            passes,
            last: matches!(self.ahead, Ahead::End),
        }))
    }

    /// The element of the next batch, without taking it.
    pub fn peek(&mut self) -> Result<Option<&Element>, Error> {
        if matches!(self.ahead, Ahead::Unread) {
            self.read_ahead();
        }
        match &self.ahead {
            Ahead::Element(element) => Ok(Some(element)),
            Ahead::Failed(error) => Err(error.clone()),
            Ahead::End | Ahead::Unread => Ok(None),
        }
    }

    /// Draws the element after the last batch.
    fn read_ahead(&mut self) {
        self.ahead = match self.pipeline.next() {
            Ok(Some(element)) => Ahead::Element(Box::new(element)),
            Ok(None) => Ahead::End,
            Err(error) => Ahead::Failed(error),
        };
    }

    /// The position after the last batch that was given; before the first, that of the beginning.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Goes to a position, of this input or of another one over the same data; gives how many records were read again. After an
    /// error it is at the beginning.
    pub fn seek(&mut self, position: &Position) -> Result<u64, Error> {
        self.ahead = Ahead::Unread;
        let sought = self.pipeline.seek(position);
        self.position = self.pipeline.position();
        sought
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        &self.pipeline.name
    }

    /// Whether it repeats indefinitely.
    pub fn endless(&self) -> bool {
        self.pipeline.endless
    }

    /// The cardinality of one epoch in records, where it is known before they are read.
    pub fn records(&self) -> Option<u64> {
        self.pipeline.records
    }

    /// The batch size.
    pub fn batch(&self) -> Option<u64> {
        self.pipeline.batch
    }

    /// The data files that it reads, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        self.pipeline.files()
    }
}
