//! `interleave`: several files are read in turn (`Dataset.interleave`).
//!
//! In: a reader for each file. Out: `block` records of one file, then of the next, of `cycle` files that are open at a time. Where one
//! has ended, its turn passes, and the next file takes its place: the order is that of TensorFlow's deterministic `interleave`.

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::left_out::OnError;
use crate::data::position::damaged;
use crate::data::{Position, Records, Stage, skip_decoded};

/// Opens the reader of a file, by its index.
type Open = Box<dyn Fn(usize) -> Box<dyn Stage> + Send>;

/// Files in turn.
pub(super) struct Interleave {
    files: usize,
    open: Open,
    /// The records that are read of a file before the next one.
    block: u64,
    /// The files that are open.
    slots: Vec<Option<Slot>>,
    /// The slot that is read.
    at: usize,
    /// How many records of its block were read.
    read: u64,
    /// The next file that is opened.
    next_file: usize,
    /// The records read in this epoch.
    ordinal: u64,
    on_error: OnError,
}

/// A file that is open.
struct Slot {
    file: usize,
    reader: Box<dyn Stage>,
}

const WORD: &str = "interleave";
const SLOT: &str = "interleave_slot";
const VERSION: u32 = 1;

impl Interleave {
    pub(super) fn new(
        files: usize,
        cycle: u64,
        block: u64,
        on_error: OnError,
        open: Open,
    ) -> Interleave {
        let cycle = usize::try_from(cycle).unwrap_or(usize::MAX);
        Interleave {
            files,
            open,
            block,
            slots: (0..cycle.min(files).max(1)).map(|_| None).collect(),
            at: 0,
            read: 0,
            next_file: 0,
            ordinal: 0,
            on_error,
        }
    }

    /// Passes the turn.
    fn pass_turn(&mut self) {
        self.at = (self.at + 1) % self.slots.len();
        self.read = 0;
    }

    /// Up to `max` records of the file whose turn it is; `None` after the last one of all files.
    fn read_turn(&mut self, max: usize) -> Result<Option<Block>, Error> {
        loop {
            let has_open = self.slots.iter().any(Option::is_some);
            match &mut self.slots[self.at] {
                Some(slot) => {
                    let left = usize::try_from(self.block - self.read).unwrap_or(usize::MAX);
                    if let Some(block) = slot.reader.next(max.min(left))? {
                        self.read += block.rows() as u64;
                        if self.read == self.block {
                            self.pass_turn();
                        }
                        return Ok(Some(block));
                    }
                    self.slots[self.at] = None;
                    self.pass_turn();
                }
                None if self.next_file < self.files => {
                    let file = self.next_file;
                    self.next_file += 1;
                    let reader = (self.open)(file);
                    self.slots[self.at] = Some(Slot { file, reader });
                }
                None if has_open => self.pass_turn(),
                None => return Ok(None),
            }
        }
    }
}

impl Stage for Interleave {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let max = max.min(MAX_BLOCK_ROWS);
        let (mut blocks, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < max && bytes < MAX_BLOCK_BYTES {
            let Some(block) = self.read_turn(max - rows)? else {
                break;
            };
            rows += block.rows();
            bytes += block.bytes();
            blocks.push(block);
        }
        if blocks.is_empty() {
            return Ok(None);
        }
        let mut block = Block::concat(blocks);
        block.origins = block.origins.renumbered(self.ordinal);
        self.ordinal += rows as u64;
        Ok(Some(block))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.on_error.is_skip() {
            return skip_decoded(self, max);
        }
        let mut advanced = 0;
        while advanced < max {
            // Where the turn is that of an open file, its records are skipped.
            let left = (max - advanced).min(self.block - self.read);
            let skipped = match &mut self.slots[self.at] {
                Some(slot) => slot.reader.advance(left)?,
                None => 0,
            };
            if skipped > 0 {
                self.read += skipped;
                if self.read == self.block {
                    self.pass_turn();
                }
                advanced += skipped;
                continue;
            }
            match self.read_turn(1)? {
                Some(block) => advanced += block.rows() as u64,
                None => break,
            }
        }
        self.ordinal += advanced;
        Ok(advanced)
    }

    fn restart(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot = None);
        (self.at, self.read) = (0, 0);
        (self.next_file, self.ordinal) = (0, 0);
        self.on_error.set_count(0);
    }

    fn rewind(&mut self) {
        self.restart();
    }

    /// For each slot the position of its file, and its number from 1, or 0 where none is open; then the slot whose turn it is, how many
    /// records of its block were read, the next file, and the records of the epoch.
    fn position(&self, at: &mut Position) {
        for slot in &self.slots {
            if let Some(slot) = slot {
                slot.reader.position(at);
            }
            let file = slot.as_ref().map_or(0, |slot| slot.file as u64 + 1);
            at.push(SLOT, VERSION, &[file]);
        }
        let (turn, next) = (self.at as u64, self.next_file as u64);
        let numbers = [self.slots.len() as u64, turn, self.read, next, self.ordinal];
        at.push(WORD, VERSION, &numbers);
        self.on_error.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.restart();
        self.on_error.seek(at)?;
        let left_out = self.on_error.count();
        let [slots, turn, read, next_file, ordinal] = at.pop(WORD, VERSION)?;
        let own = self.slots.len();
        if slots != own as u64 {
            let fact = format!("has {slots} files in turn, and here {own} are");
            return Err(damaged(WORD, fact)
                .help("`cycle` or the files may have changed since the position was taken"));
        }
        if turn >= slots || read >= self.block || next_file > self.files as u64 {
            return Err(damaged(WORD, "is in no turn of these files"));
        }
        for slot in (0..own).rev() {
            let [file] = at.pop(SLOT, VERSION)?;
            let Some(file) = (file as usize).checked_sub(1) else {
                continue;
            };
            if file as u64 >= next_file {
                return Err(damaged(WORD, "has a file that was not opened yet"));
            }
            let mut reader = (self.open)(file);
            reader.seek(at)?;
            self.slots[slot] = Some(Slot { file, reader });
        }
        (self.at, self.read) = (turn as usize, read);
        (self.next_file, self.ordinal) = (next_file as usize, ordinal);
        self.on_error.set_count(left_out);
        Ok(())
    }
}
