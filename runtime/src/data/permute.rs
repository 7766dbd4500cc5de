//! `shuffle` without a buffer: a random permutation of all records of an epoch, which are read by their indices.
//!
//! Every epoch has a permutation of its own. Its position is the epoch and how far it is; nothing is read again to go there.

use trainspec_compiler::ir::Span;
use trainspec_formats::records::Permutation;

use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::position::{CHANGED, damaged};
use crate::data::{Position, Records, Stage};
use crate::{DataError, Error};

/// The elements of the stage before it in random order.
pub(super) struct Permute {
    inner: Box<dyn Stage>,
    seed: i64,
    pass: u64,
    /// How many elements of this epoch were given.
    drawn: u64,
    /// The order of this epoch, once it is known.
    order: Option<Permutation>,
    span: Span,
}

const WORD: &str = "permute";
const VERSION: u32 = 1;

impl Permute {
    pub(super) fn new(inner: Box<dyn Stage>, seed: i64, span: Span) -> Permute {
        Permute {
            inner,
            seed,
            pass: 0,
            drawn: 0,
            order: None,
            span,
        }
    }

    fn begin(&mut self, pass: u64) {
        (self.pass, self.drawn) = (pass, 0);
        self.order = None;
    }

    /// The order of this epoch.
    fn order(&mut self) -> Result<&Permutation, Error> {
        if self.order.is_none() {
            let Some(count) = self.inner.indexed()? else {
                let message = "without a buffer `shuffle` reads records by their indices, which these do not have";
                let error = DataError::new(message).at(self.span);
                return Err(error
                    .help("say how many are shuffled together: `shuffle (buffer: 10_000);`, or put `cache;` before it")
                    .into());
            };
            crate::memory::ensure(
                "the order of `shuffle`",
                vec![("the order".to_owned(), count.saturating_mul(8))],
            )?;
            self.order = Some(Permutation::new(count, self.seed as u64, self.pass));
        }
        Ok(self.order.as_ref().expect("it was just drawn"))
    }
}

impl Stage for Permute {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let drawn = self.drawn;
        let order = self.order()?;
        let max = max.min(MAX_BLOCK_ROWS) as u64;
        let end = drawn.saturating_add(max).min(order.len() as u64);
        let indices = (drawn..end).filter_map(|i| order.get(i as usize));
        let indices: Vec<u64> = indices.collect();
        if indices.is_empty() {
            return Ok(None);
        }
        let block = self.inner.read(&indices)?;
        self.drawn += block.elements() as u64;
        Ok(Some(block))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        let drawn = self.drawn;
        let left = (self.order()?.len() as u64).saturating_sub(drawn);
        let advanced = max.min(left);
        self.drawn += advanced;
        Ok(advanced)
    }

    fn restart(&mut self) {
        self.begin(self.pass + 1);
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.begin(0);
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push(WORD, VERSION, &[self.pass, self.drawn]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [pass, drawn] = at.pop(WORD, VERSION)?;
        self.inner.seek(at)?;
        self.begin(pass);
        if drawn == 0 {
            return Ok(());
        }
        let count = self.order()?.len() as u64;
        if drawn > count {
            let fact = format!("is after {drawn} elements, and there are {count}");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        self.drawn = drawn;
        Ok(())
    }
}
