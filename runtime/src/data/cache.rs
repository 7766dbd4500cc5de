//! `cache`: the elements of the first epoch in memory, as columns (`Dataset.cache`).

use std::sync::Arc;

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::origins::Origins;
use crate::data::position::{CHANGED, damaged, flag};
use crate::data::rows::Column;
use crate::data::{Position, Records, Stage};
use crate::memory::Growth;

/// The most records of a segment.
const MAX_SEGMENT_ROWS: usize = 1 << 16;

/// Replays the elements of the first epoch in every later one.
pub(super) struct Cache {
    inner: Box<dyn Stage>,
    segments: Vec<Segment>,
    /// The number of elements in all segments.
    cached: usize,
    /// The index of the next element.
    next: usize,
    /// The segment that it is in, and the index of the first element there.
    segment: (usize, usize),
    growth: Growth,
    complete: bool,
    /// Whether the stage before it has failed, or panicked: it may be anywhere.
    failed: bool,
    /// The position of the stage before it when it was opened.
    start: Position,
}

/// A part of the cache.
enum Segment {
    Records(CachedRecords),
    Batch(Block),
}

/// Records as columns, to which more are appended up to a capacity.
struct CachedRecords {
    columns: Vec<(Arc<str>, Column)>,
    origins: Origins,
    rows: usize,
    capacity: usize,
}

impl Segment {
    /// A segment that begins with a block.
    fn new(block: Block) -> Segment {
        if block.is_batch() {
            return Segment::Batch(block);
        }
        // Segments are allocated at once: a list that grows by doubling takes up to twice its memory.
        let row_bytes = (block.bytes() / block.rows() as u64).max(1);
        let capacity = (MAX_BLOCK_BYTES / row_bytes) as usize;
        let capacity = capacity.clamp(block.rows(), MAX_SEGMENT_ROWS.max(block.rows()));
        let columns = block.columns().iter();
        let columns = columns.map(|(name, column)| (name.clone(), Column::like(column, capacity)));
        let mut records = CachedRecords {
            columns: columns.collect(),
            origins: Origins::default(),
            rows: 0,
            capacity,
        };
        records.append(&block);
        Segment::Records(records)
    }

    fn elements(&self) -> usize {
        match self {
            Segment::Records(records) => records.rows,
            Segment::Batch(_) => 1,
        }
    }

    /// Up to `max` elements from an index on.
    fn read(&self, from: usize, max: usize) -> Block {
        match self {
            Segment::Records(records) => {
                let range = from..records.rows.min(from.saturating_add(max));
                let columns = records.columns.iter();
                let columns =
                    columns.map(|(name, column)| (name.clone(), column.slice(range.clone())));
                Block::records(columns.collect(), records.origins.slice(range))
            }
            Segment::Batch(block) => block.clone(),
        }
    }
}

impl CachedRecords {
    fn fits(&self, block: &Block) -> bool {
        !block.is_batch() && self.rows + block.rows() <= self.capacity
    }

    fn append(&mut self, block: &Block) {
        for ((_, column), (_, from)) in self.columns.iter_mut().zip(block.columns()) {
            column.extend(from, 0..block.rows());
        }
        self.origins.append(&block.origins);
        self.rows += block.rows();
    }
}

const WORD: &str = "cache";
const VERSION: u32 = 1;

impl Cache {
    pub(super) fn new(inner: Box<dyn Stage>) -> Cache {
        let mut start = Position::default();
        inner.position(&mut start);
        Cache {
            inner,
            start,
            segments: Vec::new(),
            cached: 0,
            next: 0,
            segment: (0, 0),
            growth: Growth::new(
                "`cache`",
                0,
                "remove `cache`, or cache before what makes the records larger",
            ),
            complete: false,
            failed: false,
        }
    }

    /// Reads elements into the cache, where all are used and there are more.
    fn fill(&mut self, max: usize) -> Result<(), Error> {
        if self.next < self.cached || self.complete {
            return Ok(());
        }
        self.failed = true;
        let next = self.inner.next(max.min(MAX_BLOCK_ROWS))?;
        self.failed = false;
        match next {
            Some(block) => {
                self.growth.add(block.bytes())?;
                self.cached += block.elements();
                match self.segments.last_mut() {
                    Some(Segment::Records(records)) if records.fits(&block) => {
                        records.append(&block);
                    }
                    _ => self.segments.push(Segment::new(block)),
                }
            }
            None => self.complete = true,
        }
        Ok(())
    }

    /// Records by their segments and the indices there.
    fn gather(&self, rows: &[(usize, usize)]) -> Block {
        let records = |segment: usize| match &self.segments[segment] {
            Segment::Records(records) => records,
            Segment::Batch(_) => unreachable!("a cache holds records, or batches"),
        };
        let first = records(rows[0].0);
        let column = |(i, (name, _)): (usize, &(Arc<str>, Column))| {
            let mut column: Option<Column> = None;
            for (segment, row) in rows {
                let own = &records(*segment).columns[i].1;
                column
                    .get_or_insert_with(|| own.empty(rows.len()))
                    .extend_from(own, *row);
            }
            let column = column.expect("there is a record");
            (name.clone(), column.into_tensor())
        };
        let columns = first.columns.iter().enumerate().map(column).collect();
        let origins = rows
            .iter()
            .filter_map(|(segment, row)| records(*segment).origins.get(*row));
        Block::records(columns, origins.collect())
    }

    /// Goes to the segment of an element.
    fn go_to_segment(&mut self, next: usize) {
        if next < self.segment.1 {
            self.segment = (0, 0);
        }
        while let Some(segment) = self.segments.get(self.segment.0)
            && next >= self.segment.1 + segment.elements()
            && self.segment.0 + 1 < self.segments.len()
        {
            self.segment = (self.segment.0 + 1, self.segment.1 + segment.elements());
        }
    }

    fn inner_position(&self) -> Position {
        let mut position = Position::default();
        self.inner.position(&mut position);
        position
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.growth.clear();
        (self.cached, self.next, self.complete) = (0, 0, false);
        self.segment = (0, 0);
    }

    /// Reads the first `cached` elements of the first epoch, and to its end where they are `complete`.
    fn read_again(
        &mut self,
        cached: u64,
        complete: bool,
        progress: &mut Records<'_>,
    ) -> Result<(), Error> {
        self.clear();
        // A rewind would leave what the stages before it have cached.
        self.inner.seek(&mut Records::new(&self.start))?;
        while (self.cached as u64) < cached {
            match self.advance(cached - self.cached as u64)? {
                0 => break,
                read => progress.read_again(read),
            }
        }
        let read = self.cached;
        if (read as u64) < cached {
            let fact = format!("has {cached} cached elements, and there are {read}");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        if complete && self.advance(1)? > 0 {
            let fact = format!("ends after {cached} elements, and there are more");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        Ok(())
    }
}

impl Stage for Cache {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        self.fill(max)?;
        if self.next == self.cached {
            return Ok(None);
        }
        self.go_to_segment(self.next);
        let (index, first) = self.segment;
        let block = self.segments[index].read(self.next - first, max);
        self.next += block.elements();
        Ok(Some(block))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        self.fill(usize::try_from(max).unwrap_or(usize::MAX))?;
        let advanced = max.min((self.cached - self.next) as u64);
        self.next += advanced as usize;
        Ok(advanced)
    }

    /// Fills the cache.
    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let next = std::mem::replace(&mut self.next, self.cached);
        while !self.complete {
            self.next = self.cached;
            self.fill(MAX_BLOCK_ROWS)?;
        }
        self.next = next;
        Ok(Some(self.cached as u64))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let mut blocks = Vec::new();
        for index in indices {
            self.go_to_segment(*index as usize);
            let (segment, first) = self.segment;
            blocks.push((segment, *index as usize - first));
        }
        if let [(segment, _), ..] = blocks[..]
            && let Segment::Batch(block) = &self.segments[segment]
        {
            return Ok(block.clone());
        }
        Ok(self.gather(&blocks))
    }

    // An epoch that ends early leaves the stage before it where it is: the next one replays the cache and goes on there.
    fn restart(&mut self) {
        self.next = 0;
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        let (next, cached) = (self.next as u64, self.cached as u64);
        at.push(WORD, VERSION, &[next, cached, u64::from(self.complete)]);
    }

    /// The stage before it is not sought: what was cached is read again from the beginning, and must end at its position.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [next, cached, complete] = at.pop(WORD, VERSION)?;
        let complete = flag(WORD, complete)?;
        if next > cached {
            let fact = format!("is at element {next}, and {cached} are cached");
            return Err(damaged(WORD, fact));
        }
        let is_same = !self.failed && self.cached as u64 == cached && self.complete == complete;
        if !(is_same && at.expect(&self.inner_position()).is_ok()) {
            self.read_again(cached, complete, at)?;
            at.expect(&self.inner_position())?;
        }
        self.next = next as usize;
        Ok(())
    }
}
