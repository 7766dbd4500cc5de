//! The SSTable reader: point lookup and iteration.

use std::sync::{Arc, Mutex, PoisonError};

use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::ReadAt;
use crate::memory::zeros;
use crate::table::block::{Block, Entries};
use crate::table::layout::{
    BlockHandle, FOOTER_SIZE, Footer, NO_COMPRESSION, SNAPPY_COMPRESSION, TRAILER_SIZE, loss,
};
use crate::wire::WireReader;

/// The maximum compression ratio of Snappy: three bytes stand for at most 64.
const MAX_SNAPPY_RATIO: usize = 22;

/// An open table, with its index block in memory. Data blocks are read on demand.
#[derive(Debug)]
pub struct Table<R> {
    file: R,
    /// The offset of the footer: every block ends before.
    footer: u64,
    meta: BlockHandle,
    index: Arc<Block>,
    /// A cache of one block, that of the last lookup: the next one is often for a neighbouring key.
    recent: Mutex<Option<(BlockHandle, Arc<Block>)>>,
}

impl<R: ReadAt> Table<R> {
    /// Reads the footer and the index.
    pub fn open(file: R) -> Result<Table<R>> {
        let length = file
            .length()
            .map_err(|e| FormatError::io(FileKind::Table, "find its length", e))?;
        let Some(footer) = length.checked_sub(FOOTER_SIZE as u64) else {
            return Err(loss(format!("it has {length} bytes and a table at least 48")).at(0));
        };
        let mut bytes = [0; FOOTER_SIZE];
        read(&file, footer, &mut bytes)?;
        let footer_handles = Footer::decode(&bytes, footer)?;
        let mut table = Table {
            file,
            footer,
            meta: footer_handles.meta,
            index: Arc::new(Block::new(vec![0; 4], footer)?),
            recent: Mutex::new(None),
        };
        table.index = Arc::new(table.block(footer_handles.index)?);
        Ok(table)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.cursor();
        Ok(match cursor.seek(key)? && cursor.key() == key {
            true => Some(cursor.value().to_vec()),
            false => None,
        })
    }

    /// A cursor before the first entry.
    pub fn cursor(&self) -> Cursor<'_, R> {
        Cursor {
            table: self,
            index: Entries::new(self.index.clone()),
            block: None,
            end: 0,
            last: None,
            index_damaged: false,
        }
    }

    /// Reads everything and calls `damage` for every damaged block.
    pub fn verify(&self, damage: &mut dyn FnMut(FormatError)) {
        if let Err(e) = self.block(self.meta) {
            damage(e);
        }
        let mut cursor = self.cursor();
        loop {
            match cursor.advance() {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => {
                    damage(e);
                    // The rest of the block is skipped; the next one may be intact. A damaged index cannot be followed.
                    cursor.block = None;
                    cursor.last = None;
                    if cursor.index_damaged {
                        return;
                    }
                }
            }
        }
    }

    /// What the table is read from.
    pub fn file(&self) -> &R {
        &self.file
    }

    /// The block of a handle for a lookup, from the cache if it is there. Another cached block is dropped first.
    fn cached_block(&self, handle: BlockHandle) -> Result<Arc<Block>> {
        // A poisoned lock guards a consistent cache.
        let recent = self
            .recent
            .lock()
            .map_or_else(|e| e.into_inner().take(), |mut r| r.take());
        if let Some((known, block)) = recent
            && known == handle
        {
            return Ok(block);
        }
        Ok(Arc::new(self.block(handle)?))
    }

    /// Caches a block for the next lookup, unless the value found is most of it: it may be large, and is not looked up again.
    fn cache_block(&self, handle: BlockHandle, found: &Entries) {
        if found.value().len() <= found.block().len() / 2 {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            *recent = Some((handle, found.block().clone()));
        }
    }

    fn block(&self, handle: BlockHandle) -> Result<Block> {
        if handle.end() > self.footer {
            return Err(loss(format!(
                "a block of {} bytes does not fit before the footer at byte {}",
                handle.size, self.footer
            ))
            .at(handle.offset));
        }
        let fail = |cause: String| loss(cause).at(handle.offset);
        let size = usize::try_from(handle.size)
            .map_err(|_| fail(format!("a block of {} bytes", handle.size)))?;
        let bytes = zeros(FileKind::Table, size.saturating_add(TRAILER_SIZE));
        let mut bytes = bytes.map_err(|e| e.at(handle.offset))?;
        read(&self.file, handle.offset, &mut bytes)?;
        let stored: [u8; 4] = std::array::from_fn(|i| bytes[size + 1 + i]);
        let (stored, found) = (
            crc::unmask(u32::from_le_bytes(stored)),
            crc::of(&bytes[..=size]),
        );
        if stored != found {
            return Err(fail(format!(
                "the checksum of a block is {found:#010x} instead of {stored:#010x}"
            )));
        }
        let compression = bytes[size];
        bytes.truncate(size);
        match compression {
            NO_COMPRESSION => Block::new(bytes, handle.offset),
            SNAPPY_COMPRESSION => {
                let bytes = decompress(&bytes).map_err(|e| e.at(handle.offset))?;
                Block::new(bytes, handle.offset)
            }
            other => Err(FormatError::new(
                Code::Unimplemented,
                FileKind::Table,
                format!("a block has an unknown compression type: {other}"),
            )
            .at(handle.offset)),
        }
    }
}

fn read(file: &impl ReadAt, at: u64, bytes: &mut [u8]) -> Result<()> {
    file.read_exact_at(at, bytes)
        .map_err(|e| FormatError::io(FileKind::Table, "read it", e).at(at))
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    let broken = |e: snap::Error| loss(format!("a compressed block: {e}"));
    let length = snap::raw::decompress_len(bytes).map_err(broken)?;
    if length > bytes.len().saturating_mul(MAX_SNAPPY_RATIO) {
        return Err(loss(format!(
            "{} compressed bytes cannot hold {length}",
            bytes.len()
        )));
    }
    let mut out = zeros(FileKind::Table, length)?;
    let written = snap::raw::Decoder::new().decompress(bytes, &mut out);
    out.truncate(written.map_err(broken)?);
    Ok(out)
}

/// A cursor over the entries of a table. It starts before the first entry.
///
/// ```
/// # use trainspec_formats::table::{Table, TableBuilder};
/// # let mut builder = TableBuilder::new(Vec::new());
/// # builder.add(b"bias", b"1")?;
/// # let table = Table::open(builder.finish()?)?;
/// let mut cursor = table.cursor();
/// while cursor.advance()? {
///     println!("{:?} has {} bytes", cursor.key(), cursor.value().len());
/// }
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct Cursor<'a, R> {
    table: &'a Table<R>,
    index: Entries,
    block: Option<Entries>,
    /// The end of the last block that was read. Blocks must be in file order, so that no byte is read twice.
    end: u64,
    /// The last key of the block before.
    last: Option<Vec<u8>>,
    /// The index block itself is damaged.
    index_damaged: bool,
}

impl<R: ReadAt> Cursor<'_, R> {
    /// The key of the current entry.
    ///
    /// # Panics
    ///
    /// If the last call to [`advance`](Cursor::advance) or [`seek`](Cursor::seek) did not return true.
    pub fn key(&self) -> &[u8] {
        self.current().key()
    }

    /// The value of the current entry.
    ///
    /// # Panics
    ///
    /// As [`key`](Cursor::key).
    pub fn value(&self) -> &[u8] {
        self.current().value()
    }

    /// The offset of the block that holds the current entry.
    ///
    /// # Panics
    ///
    /// As [`key`](Cursor::key).
    pub fn offset(&self) -> u64 {
        self.current().offset()
    }

    fn current(&self) -> &Entries {
        self.block.as_ref().expect("the cursor is at an entry")
    }

    /// Goes to the next entry; false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(block) = &mut self.block {
                if block.advance()? {
                    if let Some(last) = self.last.take()
                        && block.key() <= last.as_slice()
                    {
                        return Err(
                            loss("the first key of a block is not above the block before")
                                .at(block.offset()),
                        );
                    }
                    return Ok(true);
                }
                self.last = Some(block.key().to_vec());
                self.block = None;
            }
            if !self.next_block()? {
                return Ok(false);
            }
        }
    }

    /// Goes to the first entry that is not below `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.block = None;
        self.end = 0;
        self.last = None;
        // An index entry is not below any key of its block and below every key of the next.
        if !self.index.seek(key)? {
            return Ok(false);
        }
        let handle = self.handle()?;
        let mut block = Entries::new(self.table.cached_block(handle)?);
        if block.seek(key)? {
            self.table.cache_block(handle, &block);
            self.block = Some(block);
            return Ok(true);
        }
        self.advance()
    }

    /// Opens the next block before its first entry.
    fn next_block(&mut self) -> Result<bool> {
        match self.index.advance() {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(e) => {
                self.index_damaged = true;
                return Err(e);
            }
        }
        let block = self.table.block(self.handle()?)?;
        self.block = Some(Entries::new(Arc::new(block)));
        Ok(true)
    }

    /// The block handle of the current index entry.
    fn handle(&mut self) -> Result<BlockHandle> {
        let fail = |cause: &str| loss(cause).at(self.index.offset());
        let mut wire = WireReader::new(self.index.value());
        let handle = BlockHandle::decode(&mut wire)
            .ok_or_else(|| fail("an entry of the index is no block handle"))?;
        if handle.offset < self.end {
            return Err(fail(
                "the blocks of the index are not in the order of the file",
            ));
        }
        self.end = handle.end();
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::table::TableBuilder;

    /// Bytes that count how often they are read.
    struct Counted {
        bytes: Vec<u8>,
        reads: AtomicUsize,
    }

    impl ReadAt for Counted {
        fn length(&self) -> std::io::Result<u64> {
            self.bytes.length()
        }

        fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.bytes.read_at(position, buffer)
        }
    }

    #[test]
    fn a_block_is_read_once_for_consecutive_keys() {
        let key = |i: usize| format!("{i:06}").into_bytes();
        let mut builder = TableBuilder::new(Vec::new());
        for i in 0..30_000 {
            builder.add(&key(i), b"a value of twenty by").unwrap();
        }
        // Such a value is a block of its own, which is not cached.
        builder.add(b"large", &[7; 400_000]).unwrap();
        let file = Counted {
            bytes: builder.finish().unwrap(),
            reads: AtomicUsize::new(0),
        };
        let table = Table::open(file).unwrap();
        let reads = || table.file().reads.swap(0, Ordering::Relaxed);
        reads();
        for i in 0..30_000 {
            assert!(table.get(&key(i)).unwrap().is_some());
        }
        let blocks = reads();
        assert!((2..10).contains(&blocks), "{blocks} blocks");
        // The cache holds one block: after another one it is read again.
        table.get(&key(0)).unwrap();
        table.get(&key(29_999)).unwrap();
        table.get(&key(0)).unwrap();
        assert_eq!(reads(), 3);
        assert_eq!(table.get(b"large").unwrap().unwrap().len(), 400_000);
        assert!(table.recent.lock().unwrap().is_none());
    }
}
