//! `take`, `skip` and `shard`: selection of elements by position (`Dataset.take`, `skip`, `shard`).

use crate::Error;
use crate::data::{Element, Position, Records, Stage};

const VERSION: u32 = 1;

/// The first `count` elements.
pub(super) struct Take {
    inner: Box<dyn Stage>,
    count: u64,
    taken: u64,
}

impl Take {
    pub(super) fn new(inner: Box<dyn Stage>, count: u64) -> Take {
        Take {
            inner,
            count,
            taken: 0,
        }
    }
}

impl Stage for Take {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if self.taken >= self.count {
            return Ok(None);
        }
        self.taken += 1;
        self.inner.next()
    }

    fn advance(&mut self) -> Result<bool, Error> {
        if self.taken >= self.count {
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

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("take", VERSION, &[self.taken]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [taken] = at.pop("take", VERSION)?;
        self.inner.seek(at)?;
        self.taken = taken;
        Ok(())
    }
}

/// All but the first `count` elements.
pub(super) struct Skip {
    inner: Box<dyn Stage>,
    count: u64,
    skipped: u64,
}

impl Skip {
    pub(super) fn new(inner: Box<dyn Stage>, count: u64) -> Skip {
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

impl Stage for Skip {
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

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("skip", VERSION, &[self.skipped]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [skipped] = at.pop("skip", VERSION)?;
        self.inner.seek(at)?;
        self.skipped = skipped;
        Ok(())
    }
}

/// Every `count`-th element, from `index` on.
pub(super) struct Shard {
    inner: Box<dyn Stage>,
    index: u64,
    count: u64,
    /// The index of the next element of the stage before it.
    next: u64,
}

impl Shard {
    pub(super) fn new(inner: Box<dyn Stage>, index: u64, count: u64) -> Shard {
        Shard {
            inner,
            index,
            count,
            next: 0,
        }
    }

    /// Advances to the next element of this shard; false at the end.
    fn reach(&mut self) -> Result<bool, Error> {
        while self.next % self.count != self.index {
            if !self.inner.advance()? {
                return Ok(false);
            }
            self.next += 1;
        }
        Ok(true)
    }
}

impl Stage for Shard {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if !self.reach()? {
            return Ok(None);
        }
        let element = self.inner.next()?;
        self.next += u64::from(element.is_some());
        Ok(element)
    }

    fn restart(&mut self) {
        self.next = 0;
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.next = 0;
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("shard", VERSION, &[self.next]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [next] = at.pop("shard", VERSION)?;
        self.inner.seek(at)?;
        self.next = next;
        Ok(())
    }
}
