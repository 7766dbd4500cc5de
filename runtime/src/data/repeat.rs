//! `epochs` and `repeat`: N epochs in a row, or endless ones (`Dataset.repeat`).

use crate::Error;
use crate::data::block::Block;
use crate::data::position::{damaged, flag};
use crate::data::{Position, Records, Stage};

/// The elements of `count` epochs, or of epochs without end.
pub(super) struct Repeat {
    inner: Box<dyn Stage>,
    count: Option<u64>,
    /// Epochs that have ended.
    done: u64,
    /// The number of the first inner epoch within the current one; they differ where `epochs` are nested.
    first: u64,
    /// The number of the last inner epoch seen within it.
    last: u64,
    /// Whether the current epoch has had an element.
    any: bool,
    ended: bool,
}

const VERSION: u32 = 1;

impl Repeat {
    pub(super) fn new(inner: Box<dyn Stage>, count: Option<u64>) -> Repeat {
        Repeat {
            inner,
            count,
            done: 0,
            first: 0,
            last: 0,
            any: false,
            ended: false,
        }
    }

    /// The word of the setting.
    fn word(&self) -> &'static str {
        match self.count {
            Some(_) => "epochs",
            None => "repeat",
        }
    }

    /// Whether an epoch comes after those that have ended. Another epoch of an empty data set would be empty too.
    fn has_next(&self) -> bool {
        self.any && self.count.is_none_or(|count| self.done < count)
    }

    /// Begins the next epoch.
    fn next_epoch(&mut self) {
        self.first = self.last + 1;
        (self.any, self.ended) = (false, false);
        self.inner.restart();
    }

    fn begin(&mut self) {
        (self.done, self.first, self.last) = (0, 0, 0);
        (self.any, self.ended) = (false, false);
    }
}

impl Stage for Repeat {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        while !self.ended {
            if let Some(mut block) = self.inner.next(max)? {
                self.any = true;
                block.origins.add_passes(self.first);
                // Of a batch the epoch that it began in counts.
                let passes = block.origins.passes();
                let pass = passes.map(|(first, last)| if block.is_batch() { first } else { last });
                self.last = self.last.max(pass.unwrap_or(0));
                return Ok(Some(block));
            }
            self.done += 1;
            match self.has_next() {
                true => self.next_epoch(),
                false => self.ended = true,
            }
        }
        Ok(None)
    }

    fn restart(&mut self) {
        self.begin();
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.begin();
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        let flags = [self.any, self.ended].map(u64::from);
        let numbers = [self.done, self.first, self.last, flags[0], flags[1]];
        at.push(self.word(), VERSION, &numbers);
    }

    /// A data set that had ended goes on where there are more epochs now.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let word = self.word();
        let [done, first, last, any, ended] = at.pop(word, VERSION)?;
        let (any, ended) = (flag(word, any)?, flag(word, ended)?);
        if first > last + 1 {
            let fact = format!("is in epoch {first}, after epoch {last}");
            return Err(damaged(word, fact));
        }
        self.inner.seek(at)?;
        (self.done, self.first, self.last) = (done, first, last);
        (self.any, self.ended) = (any, ended);
        match ended {
            true if self.has_next() => self.next_epoch(),
            _ => self.ended |= self.count.is_some_and(|count| done >= count),
        }
        Ok(())
    }
}
