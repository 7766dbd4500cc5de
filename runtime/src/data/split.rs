//! `split`: a random train/holdout split.

use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::typed::{self, Holdout, Part};

use crate::data::{Element, Stage, draw};
use crate::{DataError, Error};

/// The records of one side of the split, in the order of the stage before it.
///
/// The side of a record depends on its position in the first epoch, the number of records and the seed alone, so the two sides are
/// disjoint and complete. The stage before it is rewound in every epoch, so that no reshuffling moves a record to the other side.
pub(super) struct Split<'a> {
    inner: Box<dyn Stage + 'a>,
    settings: &'a typed::Split,
    keeps_holdout: bool,
    /// The number of records, where it is known.
    records: Option<u64>,
    /// Whether the record at each position is held out.
    held: Option<Vec<bool>>,
    position: usize,
}

impl<'a> Split<'a> {
    pub(super) fn new(
        inner: Box<dyn Stage + 'a>,
        settings: &'a typed::Split,
        records: Option<u64>,
    ) -> Split<'a> {
        Split {
            inner,
            settings,
            keeps_holdout: settings.part == Part::Holdout,
            records,
            held: None,
            position: 0,
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

    /// Draws which records are held out.
    fn choose(&mut self) -> Result<(), Error> {
        if self.held.is_some() {
            return Ok(());
        }
        let records = match self.records {
            Some(n) => n,
            None => {
                let mut n = 0;
                while self.inner.advance()? {
                    n += 1;
                }
                self.inner.rewind();
                n
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
        Ok(())
    }

    /// Advances to the next record of this side; false at the end.
    fn reach(&mut self) -> Result<bool, Error> {
        self.choose()?;
        let held = self.held.as_ref().expect("it was drawn");
        while let Some(holds) = held.get(self.position) {
            if *holds == self.keeps_holdout {
                return Ok(true);
            }
            if !self.inner.advance()? {
                break;
            }
            self.position += 1;
        }
        Ok(false)
    }
}

impl Stage for Split<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if !self.reach()? {
            return Ok(None);
        }
        self.position += 1;
        self.inner.next()
    }

    fn advance(&mut self) -> Result<bool, Error> {
        if !self.reach()? {
            return Ok(false);
        }
        self.position += 1;
        self.inner.advance()
    }

    fn restart(&mut self) {
        self.rewind();
    }

    fn rewind(&mut self) {
        self.position = 0;
        self.inner.rewind();
    }
}
