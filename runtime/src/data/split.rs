//! `split`: a random train/holdout split.

use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::typed::{self, Holdout, Part};

use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::position::{CHANGED, damaged, flag};
use crate::data::{Position, Records, Stage, draw};
use crate::{DataError, Error};

/// The records of one side of the split, in the order of the stage before it.
///
/// The side of a record depends on its position in the first epoch, the number of records and the seed alone, so the two sides are
/// disjoint and complete. The stage before it is rewound in every epoch, so that no reshuffling moves a record to the other side.
pub(super) struct Split {
    inner: Box<dyn Stage>,
    settings: typed::Split,
    keeps_holdout: bool,
    /// The number of records, where it is known.
    records: Option<u64>,
    /// Whether the record at each position is held out.
    held: Option<Vec<bool>>,
    /// The indices of the records of this side, where they are read by them.
    own: Option<Vec<u64>>,
    /// The index of the next record of the stage before it.
    next: usize,
}

const WORD: &str = "split";
const VERSION: u32 = 1;

impl Split {
    pub(super) fn new(
        inner: Box<dyn Stage>,
        settings: typed::Split,
        records: Option<u64>,
    ) -> Split {
        let keeps_holdout = settings.part == Part::Holdout;
        Split {
            inner,
            settings,
            keeps_holdout,
            records,
            held: None,
            own: None,
            next: 0,
        }
    }

    /// The size of this side, of `records` in total.
    pub(super) fn size_of(&self, records: u64) -> Result<u64, Error> {
        let held = match self.settings.holdout {
            Holdout::Records(n) if n > records => {
                let message = format!("`holdout` is {n}, but there are {records} records");
                return Err(DataError::new(message)
                    .at(self.settings.holdout_span)
                    .into());
            }
            Holdout::Records(n) => n,
            Holdout::Fraction(fraction) => (fraction * records as f64).round() as u64,
        };
        Ok(match self.keeps_holdout {
            true => held,
            false => records - held,
        })
    }

    /// Draws which records are held out; gives how many were read to count them.
    fn choose(&mut self) -> Result<u64, Error> {
        if self.held.is_some() {
            return Ok(0);
        }
        let mut counted = 0;
        let records = match self.records {
            Some(n) => n,
            None => {
                loop {
                    match self.inner.advance(u64::MAX)? {
                        0 => break,
                        n => counted += n,
                    }
                }
                self.inner.rewind();
                counted
            }
        };
        let own = self.size_of(records)? as usize;
        let n = records as usize;
        let held_out = if self.keeps_holdout { own } else { n - own };
        let key = Key::new(self.settings.seed, "split");
        // A partial Fisher-Yates shuffle: the first `held_out` entries of a random permutation.
        let mut order: Vec<usize> = (0..n).collect();
        let mut held = vec![false; n];
        for i in 0..held_out {
            order.swap(i, i + draw(key, i as u64, n - i));
            held[order[i]] = true;
        }
        self.held = Some(held);
        Ok(counted)
    }

    /// Advances to the next record of this side; false at the end.
    fn reach(&mut self) -> Result<bool, Error> {
        self.choose()?;
        let held = self.held.as_ref().expect("it was drawn");
        loop {
            let rest = held.get(self.next..).unwrap_or(&[]);
            let Some(others) = rest.iter().position(|h| *h == self.keeps_holdout) else {
                return Ok(false);
            };
            if others == 0 {
                return Ok(true);
            }
            match self.inner.advance(others as u64)? {
                0 => return Ok(false),
                n => self.next += n as usize,
            }
        }
    }

    /// How many records from the next one on are read for up to `max` of this side: where few are of the other side they are read
    /// and dropped, which is faster than to skip them one by one.
    fn span(&self, max: usize) -> usize {
        let held = self.held.as_ref().expect("it was drawn");
        let (mut own, mut span) = (0, 0);
        for (i, holds) in held[self.next..].iter().take(MAX_BLOCK_ROWS).enumerate() {
            if *holds == self.keeps_holdout {
                own += 1;
                if own * MIN_DENSITY > i {
                    span = i + 1;
                }
                if own == max {
                    break;
                }
            }
        }
        span
    }
}

/// One record in so many must be of the side that is kept, for all to be read.
const MIN_DENSITY: usize = 4;

impl Stage for Split {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        if !self.reach()? {
            return Ok(None);
        }
        let Some(block) = self.inner.next(self.span(max))? else {
            return Ok(None);
        };
        let held = self.held.as_ref().expect("it was drawn");
        let range = self.next..self.next + block.elements();
        let side = &held[range];
        let own: Vec<usize> = (0..side.len())
            .filter(|i| side[*i] == self.keeps_holdout)
            .collect();
        self.next += side.len();
        Ok(Some(match own.len() == side.len() {
            true => block,
            false => block.gather(&own),
        }))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if max == 0 || !self.reach()? {
            return Ok(0);
        }
        let held = self.held.as_ref().expect("it was drawn");
        let rest = held[self.next..].iter();
        let run = rest.take_while(|h| **h == self.keeps_holdout);
        let advanced = self.inner.advance(max.min(run.count() as u64))?;
        self.next += advanced as usize;
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let Some(records) = self.inner.indexed()? else {
            return Ok(None);
        };
        if self.records.is_none() {
            self.records = Some(records);
        }
        self.choose()?;
        if self.own.is_none() {
            let held = self.held.as_ref().expect("it was drawn");
            let own = (0..held.len() as u64).filter(|i| held[*i as usize] == self.keeps_holdout);
            self.own = Some(own.collect());
        }
        Ok(self.own.as_ref().map(|own| own.len() as u64))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let own = self
            .own
            .as_ref()
            .expect("it was asked whether it is indexed");
        let inner: Vec<u64> = indices.iter().map(|i| own[*i as usize]).collect();
        self.inner.read(&inner)
    }

    fn restart(&mut self) {
        self.rewind();
    }

    fn rewind(&mut self) {
        self.next = 0;
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        let chosen = u64::from(self.held.is_some());
        at.push(WORD, VERSION, &[self.next as u64, chosen]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [next, chosen] = at.pop(WORD, VERSION)?;
        // The choice comes first: it may have to count the records, which moves the stage before this one.
        if !flag(WORD, chosen)? {
            self.held = None;
        } else if self.held.is_none() {
            self.inner.rewind();
            let counted = self.choose()?;
            at.read_again(counted);
        }
        let records = self.held.as_ref().map_or(0, Vec::len);
        if next > records as u64 {
            let fact = format!("is at record {next}, and there are {records}");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        self.inner.seek(at)?;
        self.next = next as usize;
        Ok(())
    }
}
