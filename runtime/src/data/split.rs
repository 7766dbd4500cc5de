//! `split`: a random train/holdout split.

use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::typed::{self, Holdout, Part};

use crate::data::position::{CHANGED, damaged, flag};
use crate::data::{Element, Position, Records, Stage, draw};
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
                while self.inner.advance()? {
                    counted += 1;
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
        while let Some(holds) = held.get(self.next) {
            if *holds == self.keeps_holdout {
                return Ok(true);
            }
            if !self.inner.advance()? {
                break;
            }
            self.next += 1;
        }
        Ok(false)
    }
}

impl Stage for Split {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if !self.reach()? {
            return Ok(None);
        }
        self.next += 1;
        self.inner.next()
    }

    fn advance(&mut self) -> Result<bool, Error> {
        if !self.reach()? {
            return Ok(false);
        }
        self.next += 1;
        self.inner.advance()
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
            at.reread += counted;
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
