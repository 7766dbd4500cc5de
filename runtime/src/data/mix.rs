//! `mix`: records of several data sets, drawn by their weights (`Dataset.sample_from_datasets`).
//!
//! In: data sets of records with the same features. Out: their records, each set in its own order. The i-th draw depends on the seed, the
//! epoch and i alone; where it falls on a set that has ended, the next one decides, among those that have not. Records get new
//! ordinals, so that random draws of maps after it are keyed by where they are in the mixture.

use trainspec_compiler::ir::philox::Key;
use trainspec_compiler::typed::MixUntil;

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::position::damaged;
use crate::data::{Position, Records, Stage};

/// Data sets, drawn by weight.
pub(super) struct Mix {
    parts: Vec<Part>,
    until: MixUntil,
    key: Key,
    pass: u64,
    /// How often was drawn in this epoch, draws that fell on a set at its end among them.
    drawn: u64,
    /// The records of this epoch.
    ordinal: u64,
}

struct Part {
    stage: Box<dyn Stage>,
    weight: f64,
    ended: bool,
}

const WORD: &str = "mix";
const VERSION: u32 = 1;

impl Mix {
    pub(super) fn new(
        stages: Vec<Box<dyn Stage>>,
        weights: Vec<f64>,
        seed: i64,
        until: MixUntil,
    ) -> Mix {
        let part = |(stage, weight)| Part {
            stage,
            weight,
            ended: false,
        };
        Mix {
            parts: stages.into_iter().zip(weights).map(part).collect(),
            until,
            key: Key::new(seed, WORD),
            pass: 0,
            drawn: 0,
            ordinal: 0,
        }
    }

    fn begin(&mut self, pass: u64) {
        (self.pass, self.drawn, self.ordinal) = (pass, 0, 0);
        self.parts.iter_mut().for_each(|part| part.ended = false);
    }

    fn has_ended(&self) -> bool {
        let mut ended = self.parts.iter().map(|part| part.ended);
        match self.until {
            MixUntil::All => ended.all(|ended| ended),
            MixUntil::First => ended.any(|ended| ended),
        }
    }

    /// The part that a draw falls on, among those that have not ended.
    fn draw(&self, i: u64) -> usize {
        let words = self.key.fold(self.pass as i64).block(i);
        let bits = u64::from(words[0]) | u64::from(words[1]) << 32;
        let uniform = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        let live = || self.parts.iter().enumerate().filter(|(_, p)| !p.ended);
        let total: f64 = live().map(|(_, part)| part.weight).sum();
        let mut left = uniform * total;
        let mut last = 0;
        for (i, part) in live() {
            if left < part.weight {
                return i;
            }
            left -= part.weight;
            last = i;
        }
        // Rounding may leave a last bit.
        last
    }

    /// Lets the part that is drawn next take a step with as many records as are drawn of it in a row, up to `max`; gives how many it had,
    /// 0 at the end of all.
    fn take(
        &mut self,
        max: u64,
        mut step: impl FnMut(&mut dyn Stage, u64) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        while !self.has_ended() {
            let drawn = self.draw(self.drawn);
            let mut run = 1;
            while run < max && self.draw(self.drawn + run) == drawn {
                run += 1;
            }
            match step(&mut *self.parts[drawn].stage, run)? {
                0 => {
                    self.parts[drawn].ended = true;
                    self.drawn += 1;
                }
                n => {
                    self.drawn += n;
                    self.ordinal += n;
                    return Ok(n);
                }
            }
        }
        Ok(0)
    }
}

impl Stage for Mix {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let max = max.min(MAX_BLOCK_ROWS) as u64;
        let first = self.ordinal;
        let (mut blocks, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < max && bytes < MAX_BLOCK_BYTES {
            let taken = self.take(max - rows, |stage, run| {
                let block = stage.next(run as usize)?;
                let n = block.as_ref().map_or(0, |block| block.rows() as u64);
                bytes += block.as_ref().map_or(0, Block::bytes);
                blocks.extend(block);
                Ok(n)
            })?;
            if taken == 0 {
                break;
            }
            rows += taken;
        }
        if blocks.is_empty() {
            return Ok(None);
        }
        let mut block = Block::concat(blocks);
        block.origins = block.origins.renumbered(first);
        Ok(Some(block))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        let max = max.min(MAX_BLOCK_ROWS as u64);
        self.take(max, |stage, run| stage.advance(run))
    }

    fn restart(&mut self) {
        self.begin(self.pass + 1);
        self.parts.iter_mut().for_each(|part| part.stage.restart());
    }

    fn rewind(&mut self) {
        self.begin(0);
        self.parts.iter_mut().for_each(|part| part.stage.rewind());
    }

    /// The position of each part; then the epoch, the draws, the records, and which parts have ended, as bits.
    fn position(&self, at: &mut Position) {
        self.parts.iter().for_each(|part| part.stage.position(at));
        let bits = self.parts.iter().enumerate();
        let ended = bits.fold(0, |all, (i, part)| all | u64::from(part.ended) << i);
        at.push(WORD, VERSION, &[self.pass, self.drawn, self.ordinal, ended]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [pass, drawn, ordinal, ended] = at.pop(WORD, VERSION)?;
        if ended >> self.parts.len() != 0 {
            return Err(damaged(WORD, "has parts that are not there"));
        }
        for part in self.parts.iter_mut().rev() {
            part.stage.seek(at)?;
        }
        self.begin(pass);
        (self.drawn, self.ordinal) = (drawn, ordinal);
        for (i, part) in self.parts.iter_mut().enumerate() {
            part.ended = ended >> i & 1 == 1;
        }
        Ok(())
    }
}
