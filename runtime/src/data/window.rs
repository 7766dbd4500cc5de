//! `window`: consecutive records stacked along a new first dimension, with overlap or gaps (`Dataset.window`).
//!
//! A last window that is not full is left out. Records that two windows share are kept; to go to a position they are read again.

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_ROWS, NamedColumn};
use crate::data::position::flag;
use crate::data::rows;
use crate::data::{Position, Records, Stage};
use std::collections::VecDeque;

/// Windows of `size` records, each beginning `shift` records after the one before it.
pub(super) struct Window {
    inner: Box<dyn Stage>,
    size: usize,
    shift: usize,
    /// The records from the start of the next window on that were read.
    kept: Option<Block>,
    /// The index of the first of them in this epoch.
    first: u64,
    /// How many records up to the start of the next window are still to be skipped, where windows have gaps.
    gap: u64,
    /// The starts of windows among the records that are kept, with the position that the stage before it had there.
    marks: VecDeque<(u64, Position)>,
    /// Whether no further window of this epoch is full.
    ended: bool,
}

const WORD: &str = "window";
const VERSION: u32 = 1;

impl Window {
    pub(super) fn new(inner: Box<dyn Stage>, size: u64, shift: u64) -> Window {
        Window {
            inner,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            shift: usize::try_from(shift).unwrap_or(usize::MAX),
            kept: None,
            first: 0,
            gap: 0,
            marks: VecDeque::new(),
            ended: false,
        }
    }

    fn begin(&mut self) {
        self.kept = None;
        (self.first, self.gap) = (0, 0);
        self.marks.clear();
        self.ended = false;
    }

    fn held(&self) -> usize {
        self.kept.as_ref().map_or(0, Block::rows)
    }

    fn inner_position(&self) -> Position {
        let mut position = Position::default();
        self.inner.position(&mut position);
        position
    }

    /// Reads until the records of so many windows are held, if there are so many. Records that stay afterwards are read up to the start
    /// of each window, so that its position is known.
    fn fill(&mut self, windows: usize) -> Result<(), Error> {
        while self.gap > 0 {
            match self.inner.advance(self.gap)? {
                0 => return Ok(()),
                n => self.gap -= n,
            }
        }
        let needed = self
            .shift
            .saturating_mul(windows - 1)
            .saturating_add(self.size);
        let next_start = self.shift.saturating_mul(windows);
        while self.held() < needed {
            let held = self.held();
            let boundary = match held < next_start {
                true => next_start,
                false => held - held % self.shift + self.shift,
            };
            let mark = (held >= next_start && held.is_multiple_of(self.shift))
                .then(|| (self.first + held as u64, self.inner_position()));
            let max = (needed.min(boundary) - held).min(MAX_BLOCK_ROWS);
            let Some(block) = self.inner.next(max)? else {
                break;
            };
            self.marks.extend(mark);
            self.kept = Some(match self.kept.take() {
                Some(kept) => Block::concat(vec![kept, block]),
                None => block,
            });
        }
        Ok(())
    }

    /// Drops the records before the start of the next window.
    fn drop_first(&mut self, count: u64) {
        let held = self.held() as u64;
        self.first += count;
        self.gap = count.saturating_sub(held);
        self.kept = match self.kept.take() {
            Some(kept) if held > count => {
                let rest: Vec<usize> = (count as usize..held as usize).collect();
                Some(kept.gather(&rest))
            }
            _ => None,
        };
        self.marks.retain(|(start, _)| *start >= self.first);
    }
}

impl Stage for Window {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let windows = max.min((MAX_BLOCK_ROWS / self.size).max(1));
        if self.ended {
            return Ok(None);
        }
        self.fill(windows)?;
        let held = self.held();
        let Some(kept) = self.kept.as_ref().filter(|_| held >= self.size) else {
            self.begin();
            self.ended = true;
            return Ok(None);
        };
        let complete = ((held - self.size) / self.shift + 1).min(windows);
        let starts = (0..complete).map(|i| i * self.shift);
        let indices: Vec<usize> =
            (starts.clone().flat_map(|start| start..start + self.size)).collect();
        let column = |(name, column): &NamedColumn| {
            let shape = [&[complete, self.size], &column.shape()[1..]].concat();
            (name.clone(), rows::gather(column, &indices).reshape(&shape))
        };
        let columns = kept.columns().iter().map(column).collect();
        let starts: Vec<usize> = starts.collect();
        let block = Block::records(columns, kept.origins.gather(&starts));
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

    /// The position of the stage before it at the start of the next window, what is to be skipped up to there, and whether no more
    /// windows come.
    fn position(&self, at: &mut Position) {
        match self.marks.front() {
            Some((_, position)) => at.append(position),
            None => self.inner.position(at),
        }
        at.push(WORD, VERSION, &[self.gap, u64::from(self.ended)]);
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
