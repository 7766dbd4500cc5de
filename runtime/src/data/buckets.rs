//! `bucket_by_length`: batches of records of similar length, by bucketing (`Dataset.bucket_by_sequence_length`).
//!
//! In: records with a feature of varying length. Out: a batch as soon as a bucket is full, in the order in which they are filled; at the end
//! of an epoch those that are not full, the shortest lengths first. Features of varying length are padded to the longest of their batch.
//!
//! Its position has no records: the position of the stage before it at the oldest block of which a record is held, and how many records each
//! bucket held there. To seek, what was read from there on is read again, and what was given is left out.

use std::collections::VecDeque;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::{self, Buckets, Remainder};

use crate::data::batch::join;
use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::position::{CHANGED, damaged, flag};
use crate::data::{Position, Records, Stage, count_names};
use crate::memory::Growth;
use crate::{DataError, Error};

/// Records, by length.
pub(super) struct Bucketed {
    inner: Box<dyn Stage>,
    settings: typed::Batch,
    remainder: Remainder,
    span: Span,
    /// The name of the count of the feature whose length decides.
    count: String,
    boundaries: Vec<u64>,
    buckets: Vec<Bucket>,
    /// The starts of the blocks that records are held of, the oldest first.
    marks: VecDeque<Mark>,
    /// How many records were read in this epoch.
    pulled: u64,
    growth: Growth,
    ended: bool,
    /// The buckets before this one were given at the end of the epoch.
    rest: usize,
}

/// The records of one range of lengths.
struct Bucket {
    size: usize,
    /// What is held of each block, and the number of the block.
    held: Vec<(u64, Block)>,
    /// The number of its records; after a seek those that were given since the oldest mark count, too, until it is full again.
    rows: usize,
}

/// The start of a block that was read.
struct Mark {
    /// The number of records before it in this epoch: its own number.
    first: u64,
    position: Position,
    /// How many records each bucket had.
    rows: Vec<u64>,
}

const WORD: &str = "bucket_by_length";
const BUCKET: &str = "bucket";
const VERSION: u32 = 1;

impl Bucketed {
    pub(super) fn new(
        inner: Box<dyn Stage>,
        settings: &typed::Batch,
        buckets: &Buckets,
        remainder: Remainder,
        span: Span,
    ) -> Bucketed {
        let bucket = |size: &u64| Bucket {
            size: usize::try_from(*size).unwrap_or(usize::MAX),
            held: Vec::new(),
            rows: 0,
        };
        Bucketed {
            inner,
            settings: settings.clone(),
            remainder,
            span,
            count: count_names(&buckets.feature, 1).swap_remove(0),
            boundaries: buckets.boundaries.clone(),
            buckets: buckets.sizes.iter().map(bucket).collect(),
            marks: VecDeque::new(),
            pulled: 0,
            growth: Growth::new(
                "`bucket_by_length`",
                1,
                "make the batches smaller, or use fewer boundaries",
            ),
            ended: false,
            rest: 0,
        }
    }

    fn begin(&mut self) {
        for bucket in &mut self.buckets {
            bucket.held.clear();
            bucket.rows = 0;
        }
        self.marks.clear();
        self.pulled = 0;
        self.growth.clear();
        self.ended = false;
        self.rest = 0;
    }

    fn inner_position(&self) -> Position {
        let mut position = Position::default();
        self.inner.position(&mut position);
        position
    }

    fn bucket_of(&self, length: i64) -> usize {
        let length = u64::try_from(length).unwrap_or(0);
        self.boundaries.partition_point(|least| *least <= length)
    }

    /// The bucket of each record of a block.
    fn sort(&self, block: &Block) -> Vec<usize> {
        let lengths = block.get(&self.count);
        let lengths = lengths.map_or_else(|| vec![0; block.rows()], |own| own.to_i64s());
        lengths.iter().map(|n| self.bucket_of(*n)).collect()
    }

    /// Reads records into their buckets, up to `max` and as many as can be read before any bucket may be full; false at the end.
    fn fill(&mut self, max: usize) -> Result<bool, Error> {
        let left = self.buckets.iter().map(|bucket| bucket.size - bucket.rows);
        let left = left.min().unwrap_or(1).min(max).min(MAX_BLOCK_ROWS);
        let mark = Mark {
            first: self.pulled,
            position: self.inner_position(),
            rows: self
                .buckets
                .iter()
                .map(|bucket| bucket.rows as u64)
                .collect(),
        };
        let Some(block) = self.inner.next(left)? else {
            return Ok(false);
        };
        let sorted = self.sort(&block);
        for (i, bucket) in self.buckets.iter_mut().enumerate() {
            let own = (0..sorted.len()).filter(|row| sorted[*row] == i);
            let own: Vec<usize> = own.collect();
            if !own.is_empty() {
                let records = block.gather(&own);
                self.growth.add(records.bytes())?;
                bucket.rows += own.len();
                bucket.held.push((mark.first, records));
            }
        }
        self.pulled += block.rows() as u64;
        self.marks.push_back(mark);
        Ok(true)
    }

    /// The bucket that is full.
    fn full(&self) -> Option<usize> {
        let mut buckets = self.buckets.iter();
        buckets.position(|bucket| bucket.rows >= bucket.size)
    }

    /// Takes what a bucket holds.
    fn take(&mut self, index: usize) -> Vec<Block> {
        let bucket = &mut self.buckets[index];
        bucket.rows = 0;
        let blocks: Vec<Block> = bucket.held.drain(..).map(|(_, block)| block).collect();
        blocks
            .iter()
            .for_each(|block| self.growth.remove(block.bytes()));
        self.forget_marks();
        blocks
    }

    /// Drops the starts of blocks of which nothing is held.
    fn forget_marks(&mut self) {
        let held = self.buckets.iter();
        let held: Vec<u64> = held
            .flat_map(|b| b.held.iter().map(|(at, _)| *at))
            .collect();
        self.marks.retain(|mark| held.contains(&mark.first));
    }

    /// The records of a bucket as a batch.
    fn give(&mut self, index: usize) -> Result<Block, Error> {
        let blocks = self.take(index);
        // The greatest length of the bucket; that of the last one is the capacity.
        let padded = self.settings.buckets.as_ref();
        let padded = padded.filter(|buckets| buckets.pads_to_boundary);
        let longest = padded.map(|buckets| {
            let boundary = self.boundaries.get(index).map(|n| *n as i64 - 1);
            (buckets.feature.as_str(), boundary)
        });
        join(&self.settings, Block::concat(blocks), longest, self.span)
    }

    /// The next bucket that is given at the end of an epoch.
    fn rest(&mut self) -> Result<Option<Block>, Error> {
        let Some(index) = self.buckets.iter().position(|bucket| bucket.rows > 0) else {
            return Ok(None);
        };
        match self.remainder {
            Remainder::Keep => {
                self.rest = index + 1;
                self.give(index).map(Some)
            }
            Remainder::Drop => Ok(None),
            Remainder::Error => {
                let (rows, size) = (self.buckets[index].rows, self.buckets[index].size);
                let message =
                    format!("the last batch of a bucket has {rows} records, and not {size}");
                let error = DataError::new(message)
                    .at(self.span)
                    .help("`remainder: drop` leaves it out, `remainder: keep` takes it as it is");
                Err(error.into())
            }
        }
    }
}

impl Stage for Bucketed {
    fn next(&mut self, _: usize) -> Result<Option<Block>, Error> {
        while !self.ended {
            if let Some(full) = self.full() {
                return self.give(full).map(Some);
            }
            self.ended = !self.fill(usize::MAX)?;
        }
        self.rest()
    }

    fn restart(&mut self) {
        self.begin();
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.begin();
        self.inner.rewind();
    }

    /// The position of the stage before it at the oldest block that records are held of; for each bucket how many it held there; then the
    /// number of buckets, the records before that block and from it on, whether the epoch is over, and the buckets given at its end.
    fn position(&self, at: &mut Position) {
        let oldest = self.marks.front();
        match oldest {
            Some(mark) => at.append(&mark.position),
            None => self.inner.position(at),
        }
        for i in 0..self.buckets.len() {
            at.push(BUCKET, VERSION, &[oldest.map_or(0, |mark| mark.rows[i])]);
        }
        let first = oldest.map_or(self.pulled, |mark| mark.first);
        let numbers = [
            self.buckets.len() as u64,
            first,
            self.pulled - first,
            u64::from(self.ended),
            self.rest as u64,
        ];
        at.push(WORD, VERSION, &numbers);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [buckets, first, pulled, ended, rest] = at.pop(WORD, VERSION)?;
        let ended = flag(WORD, ended)?;
        let own = self.buckets.len();
        if buckets != own as u64 || rest > buckets {
            let fact = format!("has {buckets} buckets, and there are {own}");
            return Err(damaged(WORD, fact));
        }
        self.begin();
        for bucket in self.buckets.iter_mut().rev() {
            let [rows] = at.pop(BUCKET, VERSION)?;
            if rows >= bucket.size as u64 {
                let fact = format!("has {rows} records of a batch of {}", bucket.size);
                return Err(damaged(WORD, fact));
            }
            bucket.rows = rows as usize;
        }
        self.inner.seek(at)?;
        self.pulled = first;
        let end = first + pulled;
        while self.pulled < end {
            if let Some(full) = self.full() {
                self.take(full);
            }
            let before = self.pulled;
            let left = usize::try_from(end - before).unwrap_or(usize::MAX);
            if !self.fill(left)? {
                let fact = format!("is after {end} records, and there are {before}");
                return Err(damaged(WORD, fact).help(CHANGED));
            }
            at.read_again(self.pulled - before);
        }
        if let Some(full) = self.full() {
            self.take(full);
        }
        (0..rest as usize).for_each(|i| drop(self.take(i)));
        let held =
            |bucket: &Bucket| -> usize { bucket.held.iter().map(|(_, block)| block.rows()).sum() };
        if self.buckets.iter().any(|b| b.rows != held(b)) {
            let fact = "has given other records than there are";
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        // The end was seen, so the stage before it is past it.
        if ended && self.inner.advance(1)? > 0 {
            let fact = format!("ends after {end} records, and there are more");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        (self.ended, self.rest) = (ended, rest as usize);
        Ok(())
    }
}
