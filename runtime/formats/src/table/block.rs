//! One block of an SSTable: prefix-compressed entries, and an array of restart points.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::table::layout::loss;
use crate::wire::{WireError, WireReader};

/// The bytes of a block, whose restart array fits into them.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    /// The end of the entries, where the restart array begins.
    entries: usize,
    restarts: usize,
    /// The offset of the block in its file.
    pub(super) offset: u64,
}

impl Block {
    pub(super) fn new(bytes: Vec<u8>, offset: u64) -> Result<Block> {
        let broken = |cause| loss(cause).at(offset);
        let Some((rest, count)) = bytes.split_last_chunk::<4>() else {
            return Err(broken("a block is too short for its restart points"));
        };
        let restarts = u32::from_le_bytes(*count) as usize;
        let entries = restarts
            .checked_mul(4)
            .and_then(|list| rest.len().checked_sub(list))
            .ok_or_else(|| broken("a block is too short for its restart points"))?;
        Ok(Block {
            bytes,
            entries,
            restarts,
            offset,
        })
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn restart_point(&self, i: usize) -> Result<usize> {
        let at = self.entries + 4 * i;
        let bytes: [u8; 4] = std::array::from_fn(|k| self.bytes[at + k]);
        let start = u32::from_le_bytes(bytes) as usize;
        match start <= self.entries {
            true => Ok(start),
            false => Err(loss("a restart point of a block is outside its entries").at(self.offset)),
        }
    }
}

/// An iterator over the entries of a block.
#[derive(Debug)]
pub(super) struct Entries {
    block: Arc<Block>,
    key: Vec<u8>,
    value: Range<usize>,
    next: usize,
    /// Whether there is a previous key, which the next one must be above.
    ordered: bool,
}

impl Entries {
    /// Before the first entry.
    pub(super) fn new(block: Arc<Block>) -> Entries {
        Entries {
            block,
            key: Vec::new(),
            value: 0..0,
            next: 0,
            ordered: false,
        }
    }

    pub(super) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.block.bytes[self.value.clone()]
    }

    /// The offset of the block in its file.
    pub(super) fn offset(&self) -> u64 {
        self.block.offset
    }

    /// Goes to the next entry; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.next >= self.block.entries {
            return Ok(false);
        }
        let entries = &self.block.bytes[self.next..self.block.entries];
        let mut wire = WireReader::new(entries);
        let (shared, own, value) = match entry(&mut wire) {
            Ok(parts) => parts,
            Err(broken) => return Err(self.broken(broken.cause)),
        };
        if shared > self.key.len() {
            return Err(self.broken("a key shares more than the key before it has"));
        }
        if self.ordered && own <= &self.key[shared..] {
            return Err(self.broken("the keys are not in order"));
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(own);
        let end = self.next + wire.position();
        self.value = end - value..end;
        self.next = end;
        self.ordered = true;
        Ok(true)
    }

    /// Goes to the first entry that is not below `key`; false if there is none.
    pub(super) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        // Binary search for the last restart point whose key is below the target, then a linear scan.
        let (mut low, mut high) = (0, self.block.restarts);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            self.restart(middle)?;
            match self.advance()? && self.key() < key {
                true => low = middle,
                false => high = middle,
            }
        }
        match self.block.restarts {
            0 => self.from(0),
            _ => self.restart(low)?,
        }
        while self.advance()? {
            if self.key() >= key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self, i: usize) -> Result<()> {
        let start = self.block.restart_point(i)?;
        self.from(start);
        Ok(())
    }

    fn from(&mut self, start: usize) {
        self.key.clear();
        self.value = 0..0;
        self.next = start;
        self.ordered = false;
    }

    fn broken(&self, cause: &str) -> crate::FormatError {
        loss(format!(
            "in the block that begins here, after {} bytes: {cause}",
            self.next
        ))
        .at(self.block.offset)
    }
}

/// The length of the shared key prefix, the unshared key bytes, and the length of the value.
fn entry<'a>(
    wire: &mut WireReader<'a>,
) -> std::result::Result<(usize, &'a [u8], usize), WireError> {
    let mut number = || -> std::result::Result<usize, WireError> {
        let value = wire.varint()?;
        Ok(usize::try_from(value).unwrap_or(usize::MAX))
    };
    let (shared, own, value) = (number()?, number()?, number()?);
    let own = wire.take(own)?;
    wire.take(value)?;
    Ok((shared, own, value))
}
