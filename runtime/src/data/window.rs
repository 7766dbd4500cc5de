//! `window`: consecutive records stacked along a new first dimension, with overlap or gaps (`Dataset.window`).
//!
//! A last window that is not full is left out. Records that two windows share are kept, in a buffer from which those at its front are
//! removed when they are half of it; to go to a position they are read again.

use std::collections::VecDeque;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::origins::Origin;
use crate::data::position::flag;
use crate::data::rows::Column;
use crate::data::{Position, Records, Stage};
use crate::memory::Growth;

/// Where windows overlap the position of the stage before it is taken at multiples of a number of records, whatever the windows are: it is the same
/// in a run that was interrupted.
const MARK_ROWS: u64 = 256;

/// Windows of `size` records, each beginning `shift` records after the one before it.
pub(super) struct Window {
    inner: Box<dyn Stage>,
    size: usize,
    shift: usize,
    /// The records from the start of the next window on that were read.
    kept: Kept,
    /// How many records were read, from the mark on at which this epoch was begun or gone on with.
    read: u64,
    /// How many records up to the start of the next window are still to be skipped: after a seek, and where windows have gaps.
    gap: u64,
    /// The positions of the stage before it that the next windows may need, with the records read up to there.
    marks: VecDeque<(u64, Position)>,
    growth: Growth,
    /// Whether no further window of this epoch is full.
    ended: bool,
}

/// Records in a row.
#[derive(Default)]
struct Kept {
    columns: Vec<(Arc<str>, Column)>,
    /// Where each is from, and its bytes.
    origins: VecDeque<(Origin, u64)>,
    /// How many rows at the front of the columns are no longer needed.
    unused: usize,
    bytes: u64,
}

impl Kept {
    fn len(&self) -> usize {
        self.origins.len()
    }

    /// Appends the records of a block.
    fn append(&mut self, block: &Block) {
        if self.columns.is_empty() {
            let columns = block.columns().iter();
            let column = |(name, column): &(Arc<str>, Tensor)| {
                (name.clone(), Column::like(column, block.rows()))
            };
            self.columns = columns.map(column).collect();
        }
        for ((_, column), (_, from)) in self.columns.iter_mut().zip(block.columns()) {
            column.extend(from, 0..block.rows());
        }
        let bytes = block.bytes() / block.rows() as u64;
        let origins = block.origins.iter().map(|origin| (origin, bytes));
        self.origins.extend(origins);
        self.bytes += bytes * block.rows() as u64;
    }

    /// Removes records from the front.
    fn remove(&mut self, count: usize) {
        let removed = self.origins.drain(..count);
        self.bytes -= removed.map(|(_, bytes)| bytes).sum::<u64>();
        self.unused += count;
        // Moving the rest costs no more than what was appended since the last time.
        if self.unused >= self.len() {
            let unused = std::mem::take(&mut self.unused);
            self.columns
                .iter_mut()
                .for_each(|(_, column)| column.remove_first(unused));
        }
    }

    /// The bytes of a number of records.
    fn bytes_of(&self, rows: usize) -> u64 {
        (self.bytes / self.len().max(1) as u64).saturating_mul(rows as u64)
    }

    /// The first `count` windows.
    fn windows(&self, count: usize, size: usize, shift: usize) -> Block {
        let starts = || (0..count).map(|i| i * shift);
        let columns = self.columns.iter().map(|(name, column)| {
            let starts = starts().map(|start| self.unused + start);
            (name.clone(), column.windows(starts, size))
        });
        let origins = starts().map(|start| self.origins[start].0);
        Block::records(columns.collect(), origins.collect())
    }
}

const WORD: &str = "window";
const VERSION: u32 = 1;

impl Window {
    pub(super) fn new(inner: Box<dyn Stage>, size: u64, shift: u64) -> Window {
        Window {
            inner,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            shift: usize::try_from(shift).unwrap_or(usize::MAX),
            kept: Kept::default(),
            read: 0,
            gap: 0,
            marks: VecDeque::new(),
            // The buffer doubles when it is full.
            growth: Growth::new("`window`", 2, "make the windows smaller"),
            ended: false,
        }
    }

    fn begin(&mut self) {
        self.kept = Kept::default();
        (self.read, self.gap) = (0, 0);
        self.marks.clear();
        self.growth.clear();
        self.ended = false;
    }

    fn overlaps(&self) -> bool {
        self.shift < self.size
    }

    /// The records before the start of the next window, as [`Window::read`] counts them.
    fn next_start(&self) -> u64 {
        self.read + self.gap - self.kept.len() as u64
    }

    /// Takes the position of the stage before it where that is due.
    fn mark(&mut self) {
        if self.overlaps() && self.read.is_multiple_of(MARK_ROWS) {
            let mut position = Position::default();
            self.inner.position(&mut position);
            self.marks.push_back((self.read, position));
        }
    }

    /// Reads until the records of a number of windows are held, or the input ends.
    fn fill(&mut self, windows: usize) -> Result<(), Error> {
        if self.gap > 0 {
            self.mark();
        }
        while self.gap > 0 {
            match self.inner.advance(self.gap)? {
                0 => return Ok(()),
                n => {
                    self.gap -= n;
                    self.read += n;
                }
            }
        }
        let needed = self
            .shift
            .saturating_mul(windows - 1)
            .saturating_add(self.size);
        while self.kept.len() < needed {
            let mut max = (needed - self.kept.len()).min(MAX_BLOCK_ROWS);
            if self.overlaps() {
                let up_to_mark = MARK_ROWS - self.read % MARK_ROWS;
                max = max.min(up_to_mark as usize);
            }
            if self.marks.back().is_none_or(|(at, _)| *at < self.read) {
                self.mark();
            }
            let Some(block) = self.inner.next(max)? else {
                break;
            };
            self.growth.clear();
            self.growth.add(self.kept.bytes + block.bytes())?;
            self.read += block.rows() as u64;
            self.kept.append(&block);
        }
        Ok(())
    }

    /// Drops the records before the start of the next window, and the marks that no window needs any more.
    fn drop_first(&mut self, count: u64) {
        let held = self.kept.len() as u64;
        self.gap = count.saturating_sub(held);
        self.kept.remove(count.min(held) as usize);
        let next = self.next_start();
        while self.marks.get(1).is_some_and(|(at, _)| *at <= next) {
            self.marks.pop_front();
        }
    }
}

impl Stage for Window {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.fill(1)?;
        if self.kept.len() < self.size {
            self.begin();
            self.ended = true;
            return Ok(None);
        }
        let rows = MAX_BLOCK_BYTES / self.kept.bytes_of(self.size).max(1);
        let windows = max.min((rows as usize).clamp(1, MAX_BLOCK_ROWS));
        self.fill(windows)?;
        let held = self.kept.len();
        let complete = ((held - self.size) / self.shift + 1).min(windows);
        let block = self.kept.windows(complete, self.size, self.shift);
        if complete < windows {
            self.begin();
            self.ended = true;
        } else {
            self.drop_first((complete as u64).saturating_mul(self.shift as u64));
        }
        Ok(Some(block))
    }

    fn restart(&mut self) {
        self.begin();
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.begin();
        self.inner.rewind();
    }

    /// The position of the stage before it, at or before the start of the next window; what is to be skipped from there, and whether no
    /// more windows come.
    fn position(&self, at: &mut Position) {
        let mut gap = self.gap;
        match self.marks.front() {
            Some((marked, position)) => {
                at.append(position);
                gap = self.next_start() - marked;
            }
            None => self.inner.position(at),
        }
        at.push(WORD, VERSION, &[gap, u64::from(self.ended)]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [gap, ended] = at.pop(WORD, VERSION)?;
        let ended = flag(WORD, ended)?;
        self.inner.seek(at)?;
        self.begin();
        (self.gap, self.ended) = (gap, ended);
        Ok(())
    }
}
