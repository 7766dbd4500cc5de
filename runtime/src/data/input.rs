//! The input of a training: batches from a pipeline, each with the position after it, prepared ahead on a thread (`Dataset.prefetch`).
//!
//! In: a pipeline. Out: batches, each with the position after it and what is known of the next one: whether an epoch ends here, and
//! whether the data does. Both depend on the data alone, and so do the batches and their order, however many are prepared ahead.

mod prefetch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::data::{Element, LeftOut, Pipeline, Position};
use crate::{Code, Error};

use prefetch::Prefetch;

/// The input of a training.
#[derive(Debug)]
pub struct Input {
    reader: Reader,
    /// Whether batches are prepared on a thread, from the first that is taken.
    is_ahead: bool,
    /// What the pipeline says of itself.
    about: About,
    position: Position,
    left_out: Option<LeftOut>,
    waited: Duration,
}

/// Where batches are made.
#[derive(Debug)]
enum Reader {
    /// On the thread that takes them.
    Here(Box<Lookahead>),
    /// On a thread of their own.
    Ahead(Prefetch),
    /// On neither: a thread has panicked with the pipeline.
    Lost(Error),
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

/// A batch, and the records that were left out up to it.
#[derive(Debug)]
struct Prepared {
    batch: Batch,
    left_out: Option<LeftOut>,
}

#[derive(Debug)]
struct About {
    name: String,
    endless: bool,
    records: Option<u64>,
    batch: Option<u64>,
    prefetch: Option<u64>,
    files: Vec<PathBuf>,
}

impl Input {
    /// The input from the pipeline's next element on, read by the thread that takes the batches.
    pub fn new(pipeline: Pipeline) -> Input {
        Input {
            about: About {
                name: pipeline.name.clone(),
                endless: pipeline.endless,
                records: pipeline.records,
                batch: pipeline.batch,
                prefetch: pipeline.prefetch,
                files: pipeline.files(),
            },
            position: pipeline.position(),
            reader: Reader::Here(Box::new(Lookahead::new(pipeline))),
            is_ahead: false,
            left_out: None,
            waited: Duration::ZERO,
        }
    }

    /// The same batches, prepared ahead on a thread: as many as `prefetch` says, or as take little memory.
    pub fn ahead(mut self) -> Input {
        self.is_ahead = true;
        self
    }

    /// The next batch; `None` at the end. Where the one after it cannot be read, the next call says so.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Batch>, Error> {
        self.start();
        let prepared = match &mut self.reader {
            Reader::Here(lookahead) => {
                let start = Instant::now();
                let next = lookahead.next();
                self.waited += start.elapsed();
                next?
            }
            Reader::Ahead(prefetch) => prefetch.next(&mut self.waited)?,
            Reader::Lost(error) => return Err(error.clone()),
        };
        let Some(Prepared { batch, left_out }) = prepared else {
            return Ok(None);
        };
        self.position = batch.position.clone();
        self.left_out = left_out;
        Ok(Some(batch))
    }

    /// The records that cannot be decoded and were left out up to the last batch that was given, if there are any.
    pub fn left_out(&self) -> Option<&LeftOut> {
        self.left_out.as_ref()
    }

    /// The element of the next batch, without taking it.
    pub fn peek(&mut self) -> Result<Option<Element>, Error> {
        match &mut self.reader {
            Reader::Here(lookahead) => lookahead.peek(),
            Reader::Ahead(prefetch) => prefetch.peek(&mut self.waited),
            Reader::Lost(error) => Err(error.clone()),
        }
    }

    /// Moves the pipeline to a thread.
    fn start(&mut self) {
        let lost = || Reader::Lost(prefetch::lost(&self.about.name));
        match std::mem::replace(&mut self.reader, lost()) {
            Reader::Here(lookahead) if self.is_ahead => {
                self.reader = Reader::Ahead(Prefetch::start(lookahead, self.about.prefetch));
            }
            other => self.reader = other,
        }
    }

    /// The time that was spent waiting for batches, or reading them: the training is bound by its reader where that is much.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The position after the last batch that was given; before the first, that of the beginning.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Goes to a position, of this input or of another one over the same data; gives how many records were read again. After an
    /// error it is at the beginning.
    pub fn seek(&mut self, position: &Position) -> Result<u64, Error> {
        self.seek_watched(position, &mut |_| {})
    }

    /// As [`Input::seek`]; tells a function how many records were read again so far.
    pub fn seek_watched(
        &mut self,
        position: &Position,
        watch: &mut dyn FnMut(u64),
    ) -> Result<u64, Error> {
        let lost = Reader::Lost(prefetch::lost(&self.about.name));
        let mut lookahead = match std::mem::replace(&mut self.reader, lost) {
            Reader::Here(lookahead) => lookahead,
            Reader::Ahead(prefetch) => prefetch.stop()?,
            Reader::Lost(error) => return Err(error),
        };
        let sought = lookahead.seek(position, watch);
        self.position = lookahead.pipeline.position();
        self.reader = Reader::Here(lookahead);
        sought
    }

    /// The name of the data set.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// Whether it repeats indefinitely.
    pub fn endless(&self) -> bool {
        self.about.endless
    }

    /// The cardinality of one epoch in records, where it is known before they are read.
    pub fn records(&self) -> Option<u64> {
        self.about.records
    }

    /// The batch size.
    pub fn batch(&self) -> Option<u64> {
        self.about.batch
    }

    /// The data files that it reads, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        self.about.files.clone()
    }
}

/// A pipeline, read one element ahead.
#[derive(Debug)]
struct Lookahead {
    pipeline: Pipeline,
    ahead: Ahead,
}

/// What comes after the last batch.
#[derive(Debug)]
enum Ahead {
    Unread,
    Element(Box<Element>),
    End,
    Failed(Error),
}

impl Lookahead {
    fn new(pipeline: Pipeline) -> Lookahead {
        Lookahead {
            pipeline,
            ahead: Ahead::Unread,
        }
    }

    fn next(&mut self) -> Result<Option<Prepared>, Error> {
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
        let position = self.pipeline.position();
        self.read_ahead();
        let passes = match &self.ahead {
            Ahead::Element(next) => next.pass,
            Ahead::End => element.pass + 1,
            Ahead::Failed(_) | Ahead::Unread => element.pass,
        };
        Ok(Some(Prepared {
            batch: Batch {
                element,
                position,
                passes,
                last: matches!(self.ahead, Ahead::End),
            },
            left_out: self.pipeline.left_out(),
        }))
    }

    fn peek(&mut self) -> Result<Option<Element>, Error> {
        if matches!(self.ahead, Ahead::Unread) {
            self.read_ahead();
        }
        match &self.ahead {
            Ahead::Element(element) => Ok(Some((**element).clone())),
            Ahead::Failed(error) => Err(error.clone()),
            Ahead::End | Ahead::Unread => Ok(None),
        }
    }

    /// Draws the element after the last batch.
    fn read_ahead(&mut self) {
        let pipeline = &mut self.pipeline;
        self.ahead = match caught(&pipeline.name.clone(), || pipeline.next()) {
            Ok(Some(element)) => Ahead::Element(Box::new(element)),
            Ok(None) => Ahead::End,
            Err(error) => Ahead::Failed(error),
        };
    }

    fn seek(&mut self, position: &Position, watch: &mut dyn FnMut(u64)) -> Result<u64, Error> {
        self.ahead = Ahead::Unread;
        let pipeline = &mut self.pipeline;
        caught(&pipeline.name.clone(), || {
            pipeline.seek_watched(position, watch)
        })
    }
}

/// A panic of a stage as an error: a source may be a program's own. A pipeline that panicked is asked for nothing but a seek, which sets
/// every stage anew.
fn caught<T>(name: &str, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("without a message");
        let message = format!("a stage of the data set `{name}` panicked: {text}");
        Err(Error::new(Code::Internal, message))
    })
}
