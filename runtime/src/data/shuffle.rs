//! `shuffle`: a shuffle buffer, reshuffled in every epoch (`Dataset.shuffle`).
//!
//! Its position has no elements: the position of the stage before it at the beginning of the epoch, and how far the epoch is. To
//! seek, the draws are simulated on the ordinals of the elements, and those whose ordinals are in the buffer are read again.

use std::collections::VecDeque;

use trainspec_compiler::ir::philox::Key;

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::position::{CHANGED, damaged, flag};
use crate::data::store::Store;
use crate::data::{Position, Records, Stage, draw};
use crate::memory::Growth;

/// Elements drawn uniformly from a buffer of `size`, which the stage before it refills.
pub(super) struct Shuffle {
    inner: Box<dyn Stage>,
    size: usize,
    key: Key,
    pass: i64,
    drawn: u64,
    /// How many elements of this epoch the buffer has had.
    pulled: u64,
    /// The slots of the elements in the buffer, in its order.
    buffer: Vec<u32>,
    store: Store,
    growth: Growth,
    ended: bool,
    /// The position of the stage before it at the beginning of this epoch; `None` before the first element.
    start: Option<Position>,
}

/// How many elements are skipped before it is said how many there were.
const PROGRESS: u64 = 1 << 16;

const WORD: &str = "shuffle";
const VERSION: u32 = 1;

impl Shuffle {
    pub(super) fn new(inner: Box<dyn Stage>, size: usize, seed: i64) -> Shuffle {
        Shuffle {
            inner,
            size,
            key: Key::new(seed, "shuffle"),
            pass: 0,
            drawn: 0,
            pulled: 0,
            buffer: Vec::new(),
            store: Store::default(),
            growth: Growth::new(
                "the buffer of `shuffle`",
                1,
                "make the buffer smaller: `shuffle (buffer: 1_000);`",
            ),
            ended: false,
            start: None,
        }
    }

    fn begin(&mut self, pass: i64) {
        self.pass = pass;
        (self.drawn, self.pulled) = (0, 0);
        self.buffer.clear();
        self.store = Store::default();
        self.growth.clear();
        self.ended = false;
        self.start = None;
    }

    /// The position of the stage before it, where it is now.
    fn inner_position(&self) -> Position {
        let mut position = Position::default();
        self.inner.position(&mut position);
        position
    }

    /// The ordinals of the elements that are in the buffer after `drawn` draws from `pulled` elements, in its order.
    fn simulate(&self, pass: i64, drawn: u64, pulled: u64) -> Vec<u64> {
        let key = self.key.fold(pass);
        let (mut buffer, mut next) = (Vec::new(), 0);
        for i in 0..drawn {
            while buffer.len() < self.size && next < pulled {
                buffer.push(next);
                next += 1;
            }
            buffer.swap_remove(draw(key, i, buffer.len()));
        }
        buffer
    }

    /// Fills the buffer as it was after `drawn` draws of the epoch that begins here.
    fn refill(&mut self, drawn: u64, pulled: u64, progress: &mut Records<'_>) -> Result<(), Error> {
        let ordinals = self.simulate(self.pass, drawn, pulled);
        let mut in_buffer: Vec<(u64, usize)> = ordinals.iter().copied().zip(0..).collect();
        in_buffer.sort_unstable();
        self.buffer = vec![0; ordinals.len()];
        let (mut at, mut found) = (0, 0);
        while at < pulled {
            // The elements up to the next one of the buffer are skipped, those of the buffer that follow one another are read.
            let next = in_buffer.get(found).map_or(pulled, |(ordinal, _)| *ordinal);
            let advanced = if next > at {
                self.inner.advance((next - at).min(PROGRESS))?
            } else {
                let rest = in_buffer[found..].iter().enumerate();
                let run = rest.take_while(|(i, (ordinal, _))| *ordinal == at + *i as u64);
                match self.inner.next(run.count())? {
                    Some(block) => {
                        let slots = self.store.put(block, &mut self.growth)?;
                        for (slot, (_, index)) in slots.iter().zip(&in_buffer[found..]) {
                            self.buffer[*index] = *slot;
                        }
                        found += slots.len();
                        slots.len() as u64
                    }
                    None => 0,
                }
            };
            if advanced == 0 {
                let fact = format!("is after {pulled} elements, and there are {at}");
                return Err(damaged(WORD, fact).help(CHANGED));
            }
            at += advanced;
            progress.read_again(advanced);
        }
        (self.drawn, self.pulled) = (drawn, pulled);
        Ok(())
    }
}

impl Stage for Shuffle {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        if self.start.is_none() {
            self.start = Some(self.inner_position());
        }
        // Before each draw the buffer is filled, so `draws` of them need as many elements but one beside a full buffer.
        let mut draws = max.min(MAX_BLOCK_ROWS);
        let mut waiting = VecDeque::new();
        loop {
            if self.store.holds_batches() {
                draws = 1;
            }
            let needed = (self.size - self.buffer.len()).saturating_add(draws - 1);
            if self.ended || waiting.len() >= needed {
                break;
            }
            match self
                .inner
                .next((needed - waiting.len()).min(MAX_BLOCK_ROWS))?
            {
                Some(block) => {
                    self.pulled += block.elements() as u64;
                    waiting.extend(self.store.put(block, &mut self.growth)?);
                }
                None => self.ended = true,
            }
        }
        let key = self.key.fold(self.pass);
        let mut slots = Vec::with_capacity(draws);
        while slots.len() < draws {
            let room = self.size - self.buffer.len();
            self.buffer.extend(waiting.drain(..room.min(waiting.len())));
            if self.buffer.is_empty() {
                break;
            }
            let index = draw(key, self.drawn, self.buffer.len());
            self.drawn += 1;
            slots.push(self.buffer.swap_remove(index));
        }
        Ok((!slots.is_empty()).then(|| self.store.take(&slots, &mut self.growth)))
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
        match &self.start {
            Some(start) => at.append(start),
            None => self.inner.position(at),
        }
        let ended = u64::from(self.ended);
        let numbers = [self.pass as u64, self.drawn, self.pulled, ended];
        at.push(WORD, VERSION, &numbers);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [pass, drawn, pulled, ended] = at.pop(WORD, VERSION)?;
        let ended = flag(WORD, ended)?;
        // Before each draw the buffer is filled, unless the epoch has ended.
        let size = self.size as u64;
        let is_possible = match (ended, drawn) {
            (true, _) => drawn <= pulled && pulled - drawn < size,
            (false, 0) => pulled == 0,
            (false, _) => pulled - drawn.min(pulled) == size - 1 && drawn <= pulled,
        };
        if !is_possible {
            let fact =
                format!("has drawn {drawn} of {pulled} elements, which a buffer of {size} cannot");
            return Err(damaged(WORD, fact));
        }
        self.inner.seek(at)?;
        self.begin(pass as i64);
        if pulled == 0 && !ended {
            return Ok(());
        }
        self.start = Some(self.inner_position());
        self.refill(drawn, pulled, at)?;
        // The end was seen, so the stage before it is past it.
        if ended && self.inner.advance(1)? > 0 {
            let fact = format!("ends after {pulled} elements, and there are more");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        self.ended = ended;
        Ok(())
    }
}
