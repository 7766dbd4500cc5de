//! The layout of an SSTable: block handles, the block trailer, the footer.

use crate::error::{FileKind, FormatError, Result};
use crate::wire::{WireReader, put_varint};

/// The magic number, the last eight bytes of every table.
pub(super) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// The size of the footer: two block handles, padded to 40 bytes, and the magic number.
pub(super) const FOOTER_SIZE: usize = 48;
/// The size of the block trailer: the compression type, and a masked CRC-32C of the block and that byte.
pub(super) const TRAILER_SIZE: usize = 5;
/// Compression type: none.
pub(super) const NO_COMPRESSION: u8 = 0;
/// Compression type: Snappy.
pub(super) const SNAPPY_COMPRESSION: u8 = 1;

/// A block handle: offset and size of a block, without its trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlockHandle {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl BlockHandle {
    /// The byte after the block's trailer.
    pub(super) fn end(self) -> u64 {
        self.offset
            .saturating_add(self.size)
            .saturating_add(TRAILER_SIZE as u64)
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.size);
    }

    /// Decodes a handle: two varints.
    pub(super) fn decode(wire: &mut WireReader<'_>) -> Option<BlockHandle> {
        Some(BlockHandle {
            offset: wire.varint().ok()?,
            size: wire.varint().ok()?,
        })
    }
}

/// The footer: the handles of the metaindex block and of the index block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) meta: BlockHandle,
    pub(super) index: BlockHandle,
}

impl Footer {
    pub(super) fn encode(self) -> [u8; FOOTER_SIZE] {
        let mut bytes = Vec::with_capacity(FOOTER_SIZE);
        self.meta.encode(&mut bytes);
        self.index.encode(&mut bytes);
        bytes.resize(FOOTER_SIZE - 8, 0);
        bytes.extend(MAGIC.to_le_bytes());
        std::array::from_fn(|i| bytes[i])
    }

    /// Reads the footer that begins at `offset`.
    pub(super) fn decode(bytes: &[u8; FOOTER_SIZE], offset: u64) -> Result<Footer> {
        let (handles, magic) = bytes.split_at(FOOTER_SIZE - 8);
        if magic != MAGIC.to_le_bytes() {
            return Err(loss("it does not end with the magic number of a table")
                .at(offset + (FOOTER_SIZE - 8) as u64));
        }
        let mut wire = WireReader::new(handles);
        let both = BlockHandle::decode(&mut wire).zip(BlockHandle::decode(&mut wire));
        let (meta, index) =
            both.ok_or_else(|| loss("the footer does not say where the index is").at(offset))?;
        Ok(Footer { meta, index })
    }
}

pub(super) fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Table, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_round_trip() {
        let footer = Footer {
            meta: BlockHandle {
                offset: u64::MAX,
                size: u64::MAX,
            },
            index: BlockHandle {
                offset: u64::MAX,
                size: 300,
            },
        };
        assert_eq!(Footer::decode(&footer.encode(), 0).unwrap(), footer);
    }
}
