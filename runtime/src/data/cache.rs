//! `cache`: the elements of the first epoch in memory (`Dataset.cache`).

use crate::Error;
use crate::data::position::{CHANGED, damaged, flag};
use crate::data::{Element, Position, Records, Stage};
use crate::memory::Growth;

/// Replays the elements of the first epoch in every later one.
pub(super) struct Cache {
    inner: Box<dyn Stage>,
    cached: Vec<Element>,
    /// The index of the next element.
    next: usize,
    growth: Growth,
    complete: bool,
    /// The position of the stage before it when it was opened.
    start: Position,
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
            cached: Vec::new(),
            next: 0,
            growth: Growth::new(
                "`cache`",
                0,
                "remove `cache`, or cache before what makes the records larger",
            ),
            complete: false,
        }
    }

    /// Reads an element into the cache, where all are used and there are more.
    fn fill(&mut self) -> Result<(), Error> {
        if self.next == self.cached.len() && !self.complete {
            match self.inner.next()? {
                Some(element) => {
                    self.growth.add(&element)?;
                    self.cached.push(element);
                }
                None => self.complete = true,
            }
        }
        Ok(())
    }

    fn inner_position(&self) -> Position {
        let mut position = Position::default();
        self.inner.position(&mut position);
        position
    }

    /// Reads the first `cached` elements of the first epoch, and to its end where they are `complete`.
    fn read_again(&mut self, cached: u64, complete: bool) -> Result<(), Error> {
        self.cached.clear();
        (self.next, self.complete) = (0, false);
        // A rewind would leave what the stages before it have cached.
        self.inner.seek(&mut Records::new(&self.start))?;
        while (self.cached.len() as u64) < cached && self.advance()? {}
        let read = self.cached.len();
        if (read as u64) < cached {
            let fact = format!("has {cached} cached elements, and there are {read}");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        if complete && self.advance()? {
            let fact = format!("ends after {cached} elements, and there are more");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        Ok(())
    }
}

impl Stage for Cache {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        self.fill()?;
        let element = self.cached.get(self.next).cloned();
        self.next += usize::from(element.is_some());
        Ok(element)
    }

    fn advance(&mut self) -> Result<bool, Error> {
        self.fill()?;
        let advanced = self.next < self.cached.len();
        self.next += usize::from(advanced);
        Ok(advanced)
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
        let (next, cached) = (self.next as u64, self.cached.len() as u64);
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
        let is_same = self.cached.len() as u64 == cached && self.complete == complete;
        if !(is_same && at.expect(&self.inner_position()).is_ok()) {
            self.read_again(cached, complete)?;
            at.reread += cached;
            at.expect(&self.inner_position())?;
        }
        self.next = next as usize;
        Ok(())
    }
}
