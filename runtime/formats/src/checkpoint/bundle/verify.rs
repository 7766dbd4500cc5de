//! Verification of a bundle: every byte that a checksum covers is read, and all damage is reported.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::bundle::data::{CHUNK_BYTES, read_exact};
use crate::checkpoint::bundle::{Bundle, Entry, data_path, index_path, strings};
use crate::checkpoint::{DType, Slice, key};
use crate::crc;
use crate::error::{FileKind, FormatError, Result};
use crate::files;
use crate::storage::Storage;
use crate::table::Table;

impl Bundle {
    /// Reads everything and returns all damage; the list is empty if there is none.
    pub fn verify(&self) -> Vec<FormatError> {
        let mut damage = index_damage(&self.storage, self.prefix());
        let shards = self.header().shards;
        let entries = self.index.entries.iter();
        let used: BTreeSet<u32> = entries.filter_map(|(_, entry)| shard(entry)).collect();
        // A data file that cannot be opened is reported once, and not for each of its tensors.
        let closed: Vec<FormatError> = used
            .into_iter()
            .filter(|shard| *shard < shards)
            .filter_map(|shard| self.data_file(shard).err())
            .collect();
        let is_reported = |e: &FormatError| closed.iter().any(|closed| closed.path == e.path);
        for (key, entry) in &self.index.entries {
            let name = key::readable(key);
            let checked = match entry.slices.is_empty() {
                true => self.named(&name, || self.check(entry)),
                // The slices have entries of their own; here they must only cover the tensor.
                false => self.check_slices(key, entry),
            };
            damage.extend(checked.err().filter(|e| !is_reported(e)));
        }
        damage.extend(closed);
        // A tensor of an unsupported type cannot be verified.
        let others = self.unsupported().map(|(_, why)| {
            let error = FormatError::new(why.code, why.kind, why.cause.clone());
            error.in_file(index_path(self.prefix()))
        });
        damage.extend(others);
        damage
    }

    fn check(&self, entry: &Entry) -> Result<()> {
        if entry.dtype.size().is_none() {
            return self.strings(entry, |bytes, count, order| {
                let sum = match entry.dtype {
                    DType::Variant => strings::walk_variants(bytes, count, |_| Ok(())),
                    _ => strings::walk(bytes, count, order, |_| Ok(())),
                };
                sum.map(|sum| ((), sum))
            });
        }
        let (file, shard) = self.checked_data_file(entry)?;
        let mut buffer = vec![0; CHUNK_BYTES.min(entry.size as usize)];
        let (mut sum, mut left, mut offset) = (0, entry.size as usize, entry.offset as u64);
        while left > 0 {
            let chunk = &mut buffer[..left.min(CHUNK_BYTES)];
            read_exact(&*file, offset, chunk)
                .map_err(|e| e.in_file(data_path(self.prefix(), shard, self.header().shards)))?;
            sum = crc::append(sum, chunk);
            left -= chunk.len();
            offset += chunk.len() as u64;
        }
        self.check_crc(entry, sum)
    }

    fn check_slices(&self, key: &[u8], entry: &Entry) -> Result<()> {
        let name = std::str::from_utf8(key).unwrap_or_default();
        if key::is_slice(key) {
            return Err(
                FormatError::data_loss(FileKind::Table, "a slice has slices")
                    .in_file(index_path(self.prefix())),
            );
        }
        self.plan_of(name, entry, &Slice::full(entry.shape.len()))
    }
}

/// The shard of an entry that has bytes of its own.
fn shard(entry: &Entry) -> Option<u32> {
    match entry.slices.is_empty() {
        true => u32::try_from(entry.shard).ok(),
        false => None,
    }
}

/// The damage of the index itself.
pub(crate) fn index_damage(storage: &Arc<dyn Storage>, prefix: &Path) -> Vec<FormatError> {
    let path = index_path(prefix);
    let mut damage = Vec::new();
    let opened = files::open_in(storage, FileKind::Table, &path).and_then(Table::open);
    match opened {
        Ok(table) => table.verify(&mut |e| damage.push(e.in_file(&path))),
        Err(e) => damage.push(e.in_file(&path)),
    }
    damage
}
