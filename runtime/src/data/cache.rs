//! `cache`: what was read once is kept.

use crate::SessionError;
use crate::data::{Element, Stage};

/// The elements of the first pass, again in every later one.
pub(super) struct Cache<'a> {
    inner: Box<dyn Stage + 'a>,
    kept: Vec<Element>,
    position: usize,
    complete: bool,
}

impl<'a> Cache<'a> {
    pub(super) fn new(inner: Box<dyn Stage + 'a>) -> Cache<'a> {
        Cache {
            inner,
            kept: Vec::new(),
            position: 0,
            complete: false,
        }
    }
}

impl Stage for Cache<'_> {
    fn next(&mut self) -> Result<Option<Element>, SessionError> {
        if self.position == self.kept.len() && !self.complete {
            match self.inner.next()? {
                Some(element) => self.kept.push(element),
                None => self.complete = true,
            }
        }
        let element = self.kept.get(self.position).cloned();
        self.position += usize::from(element.is_some());
        Ok(element)
    }

    // A pass that ends early leaves the stage before it where it is: the next one replays what is kept and goes on there.
    fn restart(&mut self) {
        self.position = 0;
    }

    fn rewind(&mut self) {
        self.position = 0;
    }
}
