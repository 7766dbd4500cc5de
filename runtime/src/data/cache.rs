//! `cache`: the elements of the first epoch in memory (`Dataset.cache`).

use crate::Error;
use crate::data::{Element, Stage};
use crate::memory::Growth;

/// Replays the elements of the first epoch in every later one.
pub(super) struct Cache<'a> {
    inner: Box<dyn Stage + 'a>,
    cached: Vec<Element>,
    growth: Growth,
    position: usize,
    complete: bool,
}

impl<'a> Cache<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>) -> Cache<'a> {
        Cache {
            inner,
            cached: Vec::new(),
            growth: Growth::new(
                "`cache`",
                0,
                "remove `cache`, or cache before what makes the records larger",
            ),
            position: 0,
            complete: false,
        }
    }
}

impl Stage for Cache<'_> {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        if self.position == self.cached.len() && !self.complete {
            match self.inner.next()? {
                Some(element) => {
                    self.growth.add(&element)?;
                    self.cached.push(element);
                }
                None => self.complete = true,
            }
        }
        let element = self.cached.get(self.position).cloned();
        self.position += usize::from(element.is_some());
        Ok(element)
    }

    // An epoch that ends early leaves the stage before it where it is: the next one replays the cache and goes on there.
    fn restart(&mut self) {
        self.position = 0;
    }

    fn rewind(&mut self) {
        self.position = 0;
    }
}
