//! `shuffle`: a shuffle buffer, reshuffled in every epoch (`Dataset.shuffle`).

use trainspec_compiler::ir::philox::Key;

use crate::Error;
use crate::data::{Element, Stage, draw};
use crate::memory::Growth;

/// Elements drawn uniformly from a buffer of `size`, which the stage before it refills.
pub(super) struct Shuffle<'a> {
    inner: Box<dyn Stage + 'a>,
    size: usize,
    key: Key,
    pass: i64,
    drawn: u64,
    buffer: Vec<Element>,
    growth: Growth,
    ended: bool,
}

impl<'a> Shuffle<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>, size: usize, seed: i64) -> Shuffle<'a> {
        Shuffle {
            inner,
            size,
            key: Key::new(seed, "shuffle"),
            pass: 0,
            drawn: 0,
            buffer: Vec::new(),
            growth: Growth::new(
                "the buffer of `shuffle`",
                0,
                "make the buffer smaller: `shuffle (buffer: 1_000);`",
            ),
            ended: false,
        }
    }

    fn begin(&mut self, pass: i64) {
        self.pass = pass;
        self.drawn = 0;
        self.buffer.clear();
        self.growth.clear();
        self.ended = false;
    }
}

impl Stage for Shuffle<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        while !self.ended && self.buffer.len() < self.size {
            match self.inner.next()? {
                Some(element) => {
                    self.growth.add(&element)?;
                    self.buffer.push(element);
                }
                None => self.ended = true,
            }
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let index = draw(self.key.fold(self.pass), self.drawn, self.buffer.len());
        self.drawn += 1;
        let element = self.buffer.swap_remove(index);
        self.growth.remove(&element);
        Ok(Some(element))
    }

    fn restart(&mut self) {
        self.begin(self.pass + 1);
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.begin(0);
        self.inner.rewind();
    }
}
