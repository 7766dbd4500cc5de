//! The SSTable builder (LevelDB's `TableBuilder`).
//!
//! In: keys and values in ascending order. Out: data blocks with prefix-compressed keys, an empty metaindex block, the index block and
//! the footer, as LevelDB lays them out.

use std::io::Write;

use crate::crc;
use crate::error::{FileKind, FormatError, Result};
use crate::table::layout::{BlockHandle, Footer, NO_COMPRESSION, SNAPPY_COMPRESSION};
use crate::wire::put_varint;

/// The compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// None, as TensorFlow does in checkpoints.
    #[default]
    None,
    /// Snappy, where that saves at least an eighth of a block.
    Snappy,
}

/// The settings of a table; the default is what TensorFlow uses for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A block ends as soon as it has this many bytes.
    pub block_size: usize,
    /// The number of entries between restart points, where keys are not prefix-compressed. At least 1.
    pub restart_interval: usize,
    /// The compression of blocks.
    pub compression: Compression,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            block_size: 256 * 1024,
            restart_interval: 16,
            compression: Compression::None,
        }
    }
}

/// Writes a table, block by block. At most one block and the index are in memory.
#[derive(Debug)]
pub struct TableBuilder<W> {
    out: W,
    options: Options,
    /// The number of bytes written.
    offset: u64,
    data: BlockBuilder,
    index: BlockBuilder,
    /// The last key.
    last: Option<Vec<u8>>,
    /// The block that is not yet in the index: its index key is the shortest separator before the next key.
    pending: Option<BlockHandle>,
}

impl<W: Write> TableBuilder<W> {
    /// Starts a table with TensorFlow's settings.
    pub fn new(out: W) -> TableBuilder<W> {
        TableBuilder::with_options(out, Options::default())
    }

    /// Starts a table.
    pub fn with_options(out: W, options: Options) -> TableBuilder<W> {
        TableBuilder {
            out,
            options,
            offset: 0,
            data: BlockBuilder::new(options.restart_interval.max(1)),
            index: BlockBuilder::new(1),
            last: None,
            pending: None,
        }
    }

    /// Adds an entry. Fails where its key is not above all before it, where key or value have 4 GiB or more, or where writing fails.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(last) = &self.last
            && key <= last.as_slice()
        {
            return Err(FormatError::invalid(
                FileKind::Table,
                format!(
                    "the key `{}` comes after `{}`, which is not below it",
                    key.escape_ascii(),
                    last.escape_ascii()
                ),
            ));
        }
        // Lengths inside a block have 32 bits.
        if u32::try_from(value.len()).is_err() || u32::try_from(key.len()).is_err() {
            return Err(FormatError::invalid(
                FileKind::Table,
                format!("an entry of {} bytes is too long for a table", value.len()),
            ));
        }
        if let Some(handle) = self.pending.take() {
            let mut between = self.last.take().unwrap_or_default();
            shortest_separator(&mut between, key);
            self.add_to_index(&between, handle);
        }
        match &mut self.last {
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            None => self.last = Some(key.to_vec()),
        }
        self.data.add_key(key, value.len());
        // A value that fills the block ends it, and is not copied.
        if value.len() >= self.options.block_size && self.options.compression == Compression::None {
            let (head, tail) = self.data.finish();
            self.pending = Some(self.write_raw_block(&[&head, value, &tail], NO_COMPRESSION)?);
            return Ok(());
        }
        self.data.bytes.extend_from_slice(value);
        if self.data.size() >= self.options.block_size {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is left, the index and the footer, and gives the writer back.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        let meta = self.write_block(BlockBuilder::new(1).finish())?;
        if let Some(handle) = self.pending.take() {
            let mut after = self.last.take().unwrap_or_default();
            short_successor(&mut after);
            self.add_to_index(&after, handle);
        }
        let index = self.index.finish();
        let index = self.write_block(index)?;
        self.write(&Footer { meta, index }.encode())?;
        self.out.flush().map_err(failed)?;
        Ok(self.out)
    }

    /// Adds a data block to the index, under a key that is not below its last one and below the first of the next.
    fn add_to_index(&mut self, key: &[u8], handle: BlockHandle) {
        let mut value = Vec::new();
        handle.encode(&mut value);
        self.index.add_key(key, value.len());
        self.index.bytes.extend(value);
    }

    /// Ends the data block, if it has entries.
    fn flush(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let block = self.data.finish();
        self.pending = Some(self.write_block(block)?);
        Ok(())
    }

    /// Writes a block of entries and restart array, compressed if that is asked for and pays (LevelDB's `WriteBlock`).
    fn write_block(&mut self, (head, tail): (Vec<u8>, Vec<u8>)) -> Result<BlockHandle> {
        if self.options.compression == Compression::None {
            return self.write_raw_block(&[&head, &tail], NO_COMPRESSION);
        }
        let bytes = [head, tail].concat();
        // A block that does not compress is stored as it is; so is one that is too long to be compressed.
        let packed = snap::raw::Encoder::new()
            .compress_vec(&bytes)
            .ok()
            .filter(|packed| packed.len() < bytes.len() - bytes.len() / 8);
        match packed {
            Some(packed) => self.write_raw_block(&[&packed], SNAPPY_COMPRESSION),
            None => self.write_raw_block(&[&bytes], NO_COMPRESSION),
        }
    }

    /// Writes the chunks of a block, then its trailer: the compression and the masked checksum (LevelDB's `WriteRawBlock`).
    fn write_raw_block(&mut self, chunks: &[&[u8]], compression: u8) -> Result<BlockHandle> {
        let handle = BlockHandle {
            offset: self.offset,
            size: chunks.iter().map(|chunk| chunk.len() as u64).sum(),
        };
        let mut sum = 0;
        for chunk in chunks {
            sum = crc::append(sum, chunk);
            self.write(chunk)?;
        }
        self.write(&[compression])?;
        self.write(&crc::mask(crc::append(sum, &[compression])).to_le_bytes())?;
        Ok(handle)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(failed)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn failed(source: std::io::Error) -> FormatError {
    FormatError::io(FileKind::Table, "write it", source)
}

/// A block under construction.
#[derive(Debug)]
struct BlockBuilder {
    bytes: Vec<u8>,
    /// The offsets of the entries whose keys are complete.
    restarts: Vec<u32>,
    interval: usize,
    since_restart: usize,
    last: Vec<u8>,
}

impl BlockBuilder {
    fn new(interval: usize) -> BlockBuilder {
        BlockBuilder {
            bytes: Vec::new(),
            restarts: vec![0],
            interval,
            since_restart: 0,
            last: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The size of the block if it ended here.
    fn size(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Adds an entry without its value, whose `value_len` bytes must follow.
    fn add_key(&mut self, key: &[u8], value_len: usize) {
        let shared = match self.since_restart < self.interval {
            true => shared_prefix(&self.last, key),
            false => {
                // A longer block ends before the next entry, so offsets fit into 32 bits; entries are below 4 GiB.
                self.restarts.push(self.bytes.len() as u32);
                self.since_restart = 0;
                0
            }
        };
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, (key.len() - shared) as u64);
        put_varint(&mut self.bytes, value_len as u64);
        self.bytes.extend_from_slice(&key[shared..]);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.since_restart += 1;
    }

    /// The block's entries and its restart array; it is empty afterwards.
    fn finish(&mut self) -> (Vec<u8>, Vec<u8>) {
        let block = std::mem::replace(self, BlockBuilder::new(self.interval));
        let count = block.restarts.len() as u32;
        let restarts = block.restarts.into_iter().chain([count]);
        (block.bytes, restarts.flat_map(u32::to_le_bytes).collect())
    }
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Shortens `key` to a separator that is not below it and is below `limit` (LevelDB's `FindShortestSeparator`).
fn shortest_separator(key: &mut Vec<u8>, limit: &[u8]) {
    let shared = shared_prefix(key, limit);
    if let (Some(&here), Some(&there)) = (key.get(shared), limit.get(shared))
        && here < u8::MAX
        && here + 1 < there
    {
        key.truncate(shared + 1);
        key[shared] += 1;
    }
}

/// Shortens `key` to one that is not below it (LevelDB's `FindShortSuccessor`).
fn short_successor(key: &mut Vec<u8>) {
    if let Some(at) = key.iter().position(|&byte| byte != u8::MAX) {
        key.truncate(at + 1);
        key[at] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::table::Table;

    fn entries(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entry = |i: usize| {
            (
                format!("layer_{:05}/kernel", i).into_bytes(),
                vec![i as u8; i % 50],
            )
        };
        (0..count).map(entry).collect()
    }

    fn written(entries: &[(Vec<u8>, Vec<u8>)], options: Options) -> Vec<u8> {
        let mut builder = TableBuilder::with_options(Vec::new(), options);
        for (key, value) in entries {
            builder.add(key, value).unwrap();
        }
        builder.finish().unwrap()
    }

    #[test]
    fn tables_round_trip_with_any_options() {
        let entries = entries(300);
        for (block_size, restart_interval) in [(1, 1), (100, 1), (500, 16), (1 << 20, 3)] {
            for compression in [Compression::None, Compression::Snappy] {
                let options = Options {
                    block_size,
                    restart_interval,
                    compression,
                };
                let table = Table::open(written(&entries, options)).unwrap();
                let mut cursor = table.cursor();
                for (key, value) in &entries {
                    assert!(cursor.advance().unwrap());
                    assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                    assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
                    let mut above = key.clone();
                    above.push(0);
                    assert_eq!(table.get(&above).unwrap(), None);
                }
                assert!(!cursor.advance().unwrap());
                assert_eq!(table.get(b"").unwrap(), None);
                assert_eq!(table.get(b"z").unwrap(), None);
                table.verify(&mut |e| panic!("{e}"));
            }
        }
    }

    #[test]
    fn compressed_blocks_are_smaller() {
        let options = Options {
            compression: Compression::Snappy,
            ..Options::default()
        };
        let (plain, packed) = (
            written(&entries(300), Options::default()),
            written(&entries(300), options),
        );
        assert!(packed.len() < plain.len() / 2);
    }

    #[test]
    fn a_table_may_be_empty() {
        let table = Table::open(TableBuilder::new(Vec::new()).finish().unwrap()).unwrap();
        assert!(!table.cursor().advance().unwrap());
        assert_eq!(table.get(b"a").unwrap(), None);
    }

    #[test]
    fn keys_must_ascend() {
        let mut builder = TableBuilder::new(Vec::new());
        builder.add(b"b", b"").unwrap();
        for key in [&b"b"[..], b"a", b""] {
            assert_eq!(
                builder.add(key, b"").unwrap_err().code,
                Code::InvalidArgument
            );
        }
    }

    #[test]
    fn every_truncation_and_changed_byte_is_detected() {
        let entries = entries(40);
        let options = Options {
            block_size: 300,
            ..Options::default()
        };
        let whole = written(&entries, options);
        let read = |bytes: Vec<u8>| -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
            let table = Table::open(bytes)?;
            let mut cursor = table.cursor();
            let mut found = Vec::new();
            while cursor.advance()? {
                found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            }
            Ok(found)
        };
        for length in 0..whole.len() {
            assert!(read(whole[..length].to_vec()).is_err(), "cut to {length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(found) = read(bytes) {
                    // The footer has padding, and the metaindex block is not needed.
                    assert_eq!(found, entries, "byte {at}");
                }
            }
        }
    }

    #[test]
    fn verification_finds_every_broken_block() {
        let options = Options {
            block_size: 300,
            ..Options::default()
        };
        let mut bytes = written(&entries(40), options);
        bytes[10] ^= 1;
        bytes[800] ^= 1;
        let table = Table::open(bytes).unwrap();
        let mut offsets = Vec::new();
        table.verify(&mut |e| offsets.push(e.offset.unwrap()));
        assert_eq!(offsets.len(), 2, "{offsets:?}");
        assert_eq!(offsets[0], 0);
        assert!(offsets[1] > 300 && offsets[1] <= 800);
    }
}
