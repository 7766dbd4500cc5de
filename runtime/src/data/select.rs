//! `take`, `skip` and `shard`: selection of elements by position (`Dataset.take`, `skip`, `shard`).

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::{Position, Records, Stage};

const VERSION: u32 = 1;

/// The number of shards up to which the records of all are read.
const MAX_DENSE_SHARDS: u64 = 8;

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
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let left = usize::try_from(self.count - self.taken).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        let block = self.inner.next(max.min(left))?;
        self.taken += block.as_ref().map_or(0, |block| block.elements() as u64);
        Ok(block)
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        let left = max.min(self.count - self.taken);
        if left == 0 {
            return Ok(0);
        }
        let advanced = self.inner.advance(left)?;
        self.taken += advanced;
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let records = self.inner.indexed()?;
        Ok(records.map(|n| n.min(self.count)))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        self.inner.read(indices)
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
        self.taken = taken.min(self.count);
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
        while self.skipped < self.count {
            match self.inner.advance(self.count - self.skipped)? {
                0 => break,
                n => self.skipped += n,
            }
        }
        Ok(())
    }
}

impl Stage for Skip {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        self.skip()?;
        self.inner.next(max)
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        self.skip()?;
        self.inner.advance(max)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let records = self.inner.indexed()?;
        Ok(records.map(|n| n.saturating_sub(self.count)))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let inner: Vec<u64> = indices.iter().map(|i| i + self.count).collect();
        self.inner.read(&inner)
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
        loop {
            // From `next` on to the next number that is `index` modulo `count`.
            let missing = (self.index + self.count - self.next % self.count) % self.count;
            if missing == 0 {
                return Ok(true);
            }
            match self.inner.advance(missing)? {
                0 => return Ok(false),
                n => self.next += n,
            }
        }
    }
}

impl Stage for Shard {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        if !self.reach()? {
            return Ok(None);
        }
        // Of a few shards all records are read, and those of the others dropped: that is faster than to skip them one by one.
        let all = (max.min(MAX_BLOCK_ROWS) - 1) as u64 * self.count + 1;
        let asked = if self.count <= MAX_DENSE_SHARDS {
            all
        } else {
            1
        };
        let Some(block) = self.inner.next(asked.min(MAX_BLOCK_ROWS as u64) as usize)? else {
            return Ok(None);
        };
        self.next += block.elements() as u64;
        if block.elements() == 1 {
            return Ok(Some(block));
        }
        let own: Vec<usize> = (0..block.rows()).step_by(self.count as usize).collect();
        Ok(Some(block.gather(&own)))
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let records = self.inner.indexed()?;
        Ok(records.map(|n| n.saturating_sub(self.index).div_ceil(self.count)))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let inner = indices.iter().map(|i| i * self.count + self.index);
        self.inner.read(&inner.collect::<Vec<u64>>())
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
