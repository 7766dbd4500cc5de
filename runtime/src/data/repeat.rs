//! `epochs` and `repeat`: N epochs in a row, or endless ones (`Dataset.repeat`).

use crate::Error;
use crate::data::{Element, Stage};

/// The elements of `count` epochs, or of epochs without end.
pub(super) struct Repeat<'a> {
    inner: Box<dyn Stage + 'a>,
    count: Option<u64>,
    /// Epochs that have ended.
    done: u64,
    /// The number of the first inner epoch within the current one; they differ where `epochs` are nested.
    first: u64,
    /// The number of the last inner epoch seen within it.
    last: u64,
    /// Whether the current epoch has had an element.
    any: bool,
    ended: bool,
}

impl<'a> Repeat<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>, count: Option<u64>) -> Repeat<'a> {
        Repeat {
            inner,
            count,
            done: 0,
            first: 0,
            last: 0,
            any: false,
            ended: false,
        }
    }

    fn begin(&mut self) {
        (self.done, self.first, self.last) = (0, 0, 0);
        (self.any, self.ended) = (false, false);
    }
}

impl Stage for Repeat<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        while !self.ended {
            if let Some(mut element) = self.inner.next()? {
                self.any = true;
                element.pass += self.first;
                self.last = self.last.max(element.pass);
                return Ok(Some(element));
            }
            self.done += 1;
            // Another epoch of an empty data set would be empty too.
            self.ended = !self.any || self.count == Some(self.done);
            if !self.ended {
                self.first = self.last + 1;
                self.any = false;
                self.inner.restart();
            }
        }
        Ok(None)
    }

    fn restart(&mut self) {
        self.begin();
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.begin();
        self.inner.rewind();
    }
}
