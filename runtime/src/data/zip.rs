//! `zip`: records of several data sets, joined one by one (`Dataset.zip`).
//!
//! In: data sets of records, no two of which have a feature of one name. Out: records with the features of all; it ends with the shortest.
//! Records get new ordinals, and their place is that of the first part.

use crate::Error;
use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::position::flag;
use crate::data::{Position, Records, Stage};

/// Data sets side by side.
pub(super) struct Zip {
    parts: Vec<Box<dyn Stage>>,
    /// The bytes of a record of all parts, once one was read: blocks are bounded by them.
    row_bytes: Option<u64>,
    /// The records of this epoch.
    ordinal: u64,
    /// Whether one of the parts has ended; the others may be further.
    ended: bool,
}

const WORD: &str = "zip";
const VERSION: u32 = 1;

impl Zip {
    pub(super) fn new(parts: Vec<Box<dyn Stage>>) -> Zip {
        Zip {
            parts,
            row_bytes: None,
            ordinal: 0,
            ended: false,
        }
    }

    /// The most records of a block: one, until it is known how large they are.
    fn max_rows(&self) -> usize {
        let rows = self
            .row_bytes
            .map_or(1, |bytes| MAX_BLOCK_BYTES / bytes.max(1));
        rows.clamp(1, MAX_BLOCK_ROWS as u64) as usize
    }

    fn measure(&mut self, block: &Block) {
        if self.row_bytes.is_none() && block.rows() > 0 {
            self.row_bytes = Some(block.bytes() / block.rows() as u64);
        }
    }

    fn begin(&mut self) {
        (self.ordinal, self.ended) = (0, false);
    }
}

/// Exactly N records, or those that are left.
fn read_all(part: &mut dyn Stage, rows: usize) -> Result<Option<Block>, Error> {
    let (mut blocks, mut found) = (Vec::new(), 0);
    while found < rows {
        let Some(block) = part.next(rows - found)? else {
            break;
        };
        found += block.rows();
        blocks.push(block);
    }
    Ok((found > 0).then(|| Block::concat(blocks)))
}

/// Blocks of one length as one with the features of all.
fn side_by_side(blocks: Vec<Block>, first: u64) -> Block {
    let origins = blocks[0].origins.renumbered(first);
    let columns = blocks.into_iter().flat_map(|block| block.into_columns().0);
    Block::records(columns.collect(), origins)
}

impl Stage for Zip {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        if self.ended {
            return Ok(None);
        }
        let max = max.min(self.max_rows());
        let (mut blocks, mut rows) = (Vec::with_capacity(self.parts.len()), max);
        for (i, part) in self.parts.iter_mut().enumerate() {
            let block = match i {
                0 => part.next(max)?,
                _ => read_all(&mut **part, rows)?,
            };
            let found = block.as_ref().map_or(0, Block::rows);
            self.ended |= found == 0 || (i > 0 && found < rows);
            rows = rows.min(found);
            let Some(block) = block else {
                return Ok(None);
            };
            blocks.push(block);
        }
        let blocks = blocks.into_iter().map(|block| block.first(rows));
        let block = side_by_side(blocks.collect(), self.ordinal);
        self.ordinal += rows as u64;
        self.measure(&block);
        Ok(Some(block))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.ended {
            return Ok(0);
        }
        let mut advanced = max;
        for (i, part) in self.parts.iter_mut().enumerate() {
            let mut own = 0;
            while own < advanced {
                match part.advance(advanced - own)? {
                    0 => break,
                    n => own += n,
                }
                if i == 0 {
                    break;
                }
            }
            self.ended |= own == 0 || (i > 0 && own < advanced);
            advanced = advanced.min(own);
        }
        self.ordinal += advanced;
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let mut least = None;
        for part in &mut self.parts {
            let Some(own) = part.indexed()? else {
                return Ok(None);
            };
            least = Some(least.map_or(own, |n: u64| n.min(own)));
        }
        Ok(least)
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let mut blocks = Vec::with_capacity(self.parts.len());
        let mut rows = indices.len().min(self.max_rows());
        for (i, part) in self.parts.iter_mut().enumerate() {
            let mut own = vec![part.read(&indices[..rows])?];
            let mut found = own[0].rows();
            while i > 0 && found < rows {
                let block = part.read(&indices[found..rows])?;
                found += block.rows();
                own.push(block);
            }
            rows = found;
            blocks.push(Block::concat(own));
        }
        let origins = indices[..rows].iter().zip(blocks[0].origins.iter());
        let origins = origins.map(|(ordinal, origin)| crate::data::origins::Origin {
            pass: 0,
            ordinal: *ordinal,
            ..origin
        });
        let origins = origins.collect();
        let columns = blocks.into_iter().flat_map(|block| block.into_columns().0);
        let block = Block::records(columns.collect(), origins);
        self.measure(&block);
        Ok(block)
    }

    fn restart(&mut self) {
        self.begin();
        self.parts.iter_mut().for_each(|part| part.restart());
    }

    fn rewind(&mut self) {
        self.begin();
        self.parts.iter_mut().for_each(|part| part.rewind());
    }

    /// The position of each part; then the records of the epoch, and whether it is over.
    fn position(&self, at: &mut Position) {
        self.parts.iter().for_each(|part| part.position(at));
        at.push(WORD, VERSION, &[self.ordinal, u64::from(self.ended)]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [ordinal, ended] = at.pop(WORD, VERSION)?;
        let ended = flag(WORD, ended)?;
        for part in self.parts.iter_mut().rev() {
            part.seek(at)?;
        }
        (self.ordinal, self.ended) = (ordinal, ended);
        Ok(())
    }
}
