//! `take`, `skip` and `shard`: selection of elements by position (`Dataset.take`, `skip`, `shard`).

use crate::Error;
use crate::data::{Element, Stage};

/// The first `count` elements.
pub(super) struct Take<'a> {
    inner: Box<dyn Stage + 'a>,
    count: u64,
    taken: u64,
}

impl<'a> Take<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>, count: u64) -> Take<'a> {
        Take {
            inner,
            count,
            taken: 0,
        }
    }
}

impl Stage for Take<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if self.taken == self.count {
            return Ok(None);
        }
        self.taken += 1;
        self.inner.next()
    }

    fn advance(&mut self) -> Result<bool, Error> {
        if self.taken == self.count {
            return Ok(false);
        }
        self.taken += 1;
        self.inner.advance()
    }

    fn restart(&mut self) {
        self.taken = 0;
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.taken = 0;
        self.inner.rewind();
    }
}

/// All but the first `count` elements.
pub(super) struct Skip<'a> {
    inner: Box<dyn Stage + 'a>,
    count: u64,
    skipped: u64,
}

impl<'a> Skip<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>, count: u64) -> Skip<'a> {
        Skip {
            inner,
            count,
            skipped: 0,
        }
    }

    fn skip(&mut self) -> Result<(), Error> {
        while self.skipped < self.count && self.inner.advance()? {
            self.skipped += 1;
        }
        Ok(())
    }
}

impl Stage for Skip<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        self.skip()?;
        self.inner.next()
    }

    fn advance(&mut self) -> Result<bool, Error> {
        self.skip()?;
        self.inner.advance()
    }

    fn restart(&mut self) {
        self.skipped = 0;
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.skipped = 0;
        self.inner.rewind();
    }
}

/// Every `count`-th element, from `index` on.
pub(super) struct Shard<'a> {
    inner: Box<dyn Stage + 'a>,
    index: u64,
    count: u64,
    position: u64,
}

impl<'a> Shard<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>, index: u64, count: u64) -> Shard<'a> {
        Shard {
            inner,
            index,
            count,
            position: 0,
        }
    }

    /// Advances to the next element of this shard; false at the end.
    fn reach(&mut self) -> Result<bool, Error> {
        while self.position % self.count != self.index {
            if !self.inner.advance()? {
                return Ok(false);
            }
            self.position += 1;
        }
        Ok(true)
    }
}

impl Stage for Shard<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if !self.reach()? {
            return Ok(None);
        }
        let element = self.inner.next()?;
        self.position += u64::from(element.is_some());
        Ok(element)
    }

    fn restart(&mut self) {
        self.position = 0;
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.position = 0;
        self.inner.rewind();
    }
}
