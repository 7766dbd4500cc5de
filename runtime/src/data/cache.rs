//! `cache`: the elements of the first epoch in memory (`Dataset.cache`).

use crate::Error;
use crate::data::position::{damaged, flag};
use crate::data::{Element, Position, Records, Stage};

/// Replays the elements of the first epoch in every later one.
pub(super) struct Cache {
    inner: Box<dyn Stage>,
    cached: Vec<Element>,
    /// The index of the next element.
    next: usize,
    complete: bool,
}

const WORD: &str = "cache";
const VERSION: u32 = 1;

impl Cache {
    pub(super) fn new(inner: Box<dyn Stage>) -> Cache {
        Cache {
            inner,
            cached: Vec::new(),
            next: 0,
            complete: false,
        }
    }

    /// Reads an element into the cache, where all are used and there are more.
    fn fill(&mut self) -> Result<(), Error> {
        if self.next == self.cached.len() && !self.complete {
            match self.inner.next()? {
                Some(element) => self.cached.push(element),
                None => self.complete = true,
            }
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
        if self.cached.len() as u64 != cached || self.complete != complete {
            self.inner.rewind();
            self.cached.clear();
            (self.next, self.complete) = (0, false);
            while (self.cached.len() as u64) < cached {
                self.next = self.cached.len();
                self.fill()?;
                if self.complete {
                    let read = self.cached.len();
                    let fact = format!("has {cached} cached elements, and there are {read}");
                    return Err(damaged(WORD, fact));
                }
            }
            at.reread += cached;
            if complete {
                self.next = self.cached.len();
                self.fill()?;
                if !self.complete {
                    let fact = format!("has {cached} elements, and there are more");
                    return Err(damaged(WORD, fact));
                }
            }
        }
        let mut found = Position::default();
        self.inner.position(&mut found);
        at.expect(&found)?;
        self.next = next as usize;
        Ok(())
    }
}
