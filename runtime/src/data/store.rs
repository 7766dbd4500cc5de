//! Elements kept by slot, in no order: the memory of a shuffle buffer.

use std::sync::Arc;

use crate::Error;
use crate::data::block::Block;
use crate::data::origins::Origin;
use crate::data::rows::Column;
use crate::memory::Growth;

/// Elements by slot; the slot of one that was taken is used again.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Of records.
    columns: Vec<(Arc<str>, Column)>,
    origins: Vec<Origin>,
    /// Of batches.
    batches: Vec<Option<Block>>,
    free: Vec<u32>,
}

impl Store {
    /// Whether its elements are batches, which are taken one by one.
    pub(super) fn holds_batches(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Keeps the elements of a block; gives their slots, in order.
    pub(super) fn put(&mut self, block: Block, growth: &mut Growth) -> Result<Vec<u32>, Error> {
        growth.add(block.bytes())?;
        if block.is_batch() {
            let slot = self.free.pop().unwrap_or(self.batches.len() as u32);
            if slot as usize == self.batches.len() {
                self.batches.push(None);
            }
            self.batches[slot as usize] = Some(block);
            return Ok(vec![slot]);
        }
        if self.columns.is_empty() {
            let columns = block.columns().iter();
            let column = |(name, c): &(Arc<str>, _)| (name.clone(), Column::like(c, 0));
            self.columns = columns.map(column).collect();
        }
        let rows = block.rows();
        let reused = self
            .free
            .split_off(self.free.len() - rows.min(self.free.len()));
        let first = self.origins.len();
        for ((_, column), (_, from)) in self.columns.iter_mut().zip(block.columns()) {
            column.put(&reused, from);
            column.extend(from, reused.len()..rows);
        }
        let mut origins = block.origins.iter();
        for (slot, origin) in reused.iter().zip(&mut origins) {
            self.origins[*slot as usize] = origin;
        }
        self.origins.extend(origins);
        let mut slots = reused;
        slots.extend(first as u32..self.origins.len() as u32);
        Ok(slots)
    }

    /// Takes the elements of slots, which are of records, or one batch.
    pub(super) fn take(&mut self, slots: &[u32], growth: &mut Growth) -> Block {
        let taken = match slots {
            [slot] if !self.batches.is_empty() => {
                let batch = self.batches[*slot as usize].take();
                batch.expect("a slot holds an element until it is taken")
            }
            _ => {
                let columns = self.columns.iter();
                let column = |(name, c): &(Arc<str>, Column)| (name.clone(), c.gather(slots));
                let origins = slots.iter().map(|slot| self.origins[*slot as usize]);
                Block::records(columns.map(column).collect(), origins.collect())
            }
        };
        growth.remove(taken.bytes());
        self.free.extend_from_slice(slots);
        taken
    }
}
