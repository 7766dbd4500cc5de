//! `split`: a random train/holdout split.

use trainspec_compiler::ir::Span;
use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::typed::{Constant, Setting};

use crate::data::{Element, Stage, draw, integer, word};
use crate::{DataError, SessionError};

/// The records of one side of the split, in the order of the stage before it.
///
/// The side of a record depends on its position in the first epoch, the number of records and the seed alone, so the two sides are
/// disjoint and complete. The stage before it is rewound in every epoch, so that no reshuffling moves a record to the other side.
pub(super) struct Split<'a> {
    inner: Box<dyn Stage + 'a>,
    holdout: Holdout,
    keeps_holdout: bool,
    seed: i64,
    span: Span,
    /// The number of records, where it is known.
    records: Option<u64>,
    /// Whether the record at each position is held out.
    held: Option<Vec<bool>>,
    position: usize,
}

#[derive(Debug, Clone, Copy)]
enum Holdout {
    Records(u64),
    Fraction(f64),
}

impl<'a> Split<'a> {
    pub(super) fn new(
        inner: Box<dyn Stage + 'a>,
        setting: &Setting,
        records: Option<u64>,
    ) -> Split<'a> {
        let holdout = match setting.get("holdout") {
            Some(Constant::Float(fraction)) => Holdout::Fraction(*fraction),
            _ => Holdout::Records(integer(setting, "holdout").map_or(0, |n| n.max(0) as u64)),
        };
        Split {
            inner,
            holdout,
            keeps_holdout: word(setting, "part") == Some("holdout"),
            // Without a seed the split is the same in every run, whatever the seed of the training is.
            seed: integer(setting, "seed").unwrap_or(0),
            span: setting.span,
            records,
            held: None,
            position: 0,
        }
    }

    /// The size of this side, of `records` in total.
    pub(super) fn size_of(&self, records: u64) -> Result<u64, SessionError> {
        let held = match self.holdout {
            Holdout::Records(n) if n > records => {
                let message = format!("`holdout` is {n}, but there are {records} records");
                return Err(DataError::new(message).at(self.span).into());
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
    fn choose(&mut self) -> Result<(), SessionError> {
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
        let key = Key::new(self.seed, "split");
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
    fn reach(&mut self) -> Result<bool, SessionError> {
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
    fn next(&mut self) -> Result<Option<Element>, SessionError> {
        if !self.reach()? {
            return Ok(None);
        }
        self.position += 1;
        self.inner.next()
    }

    fn advance(&mut self) -> Result<bool, SessionError> {
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
