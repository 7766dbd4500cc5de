//! Several bundles, such as one of each worker, become one whose data files are theirs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::checkpoint::bundle::index::{Index, VERSION};
use crate::checkpoint::bundle::writer::{
    Options, count_for, make_folder, remove_others, write_index,
};
use crate::checkpoint::bundle::{Endianness, Entry, Header, Replace, data_path, index_path};
use crate::checkpoint::key;
use crate::error::{FileKind, FormatError, Result};
use crate::files::{Durability, Replacement};

/// Makes one checkpoint of several. Their data files are renamed, not copied, and their indexes removed, so they are gone afterwards.
///
/// A tensor may be in one of them only, except where each has other parts of it. `shards` of the options is not used.
pub fn merge(parts: &[&Path], merged: &Path, options: Options) -> Result<()> {
    let mut entries: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for &prefix in parts {
        let index = Index::open(prefix)?;
        let in_index = |e: FormatError| e.in_file(index_path(prefix));
        if index.header.endianness != Endianness::Little || index.header.producer != VERSION {
            return Err(in_index(invalid("its numbers or its version are not ours")));
        }
        let mut shards: BTreeMap<i32, i32> = BTreeMap::new();
        for (name, mut entry) in index.entries {
            if !entry.slices.is_empty() {
                add_parts(&mut entries, name, entry).map_err(in_index)?;
                continue;
            }
            if entries.contains_key(&name) {
                return Err(in_index(invalid(format!(
                    "`{}` is in another part already",
                    name.escape_ascii()
                ))));
            }
            let shard = u32::try_from(entry.shard).ok();
            let shard = shard.filter(|&shard| shard < index.header.shards);
            let shard = shard.ok_or_else(|| {
                in_index(FormatError::data_loss(
                    FileKind::Table,
                    format!("data file {} of {}", entry.shard, index.header.shards),
                ))
            })?;
            entry.shard = *shards.entry(entry.shard).or_insert_with(|| {
                files.push(data_path(prefix, shard, index.header.shards));
                files.len() as i32 - 1
            });
            entries.insert(name, entry);
        }
    }
    make_folder(merged)?;
    let wanted = u32::try_from(files.len().max(1)).map_err(|_| invalid("too many data files"))?;
    let count = count_for(merged, wanted, options.replace)?;
    let index = write_index(merged, &Header::new(count), &entries)?;
    for (shard, from) in files.iter().enumerate() {
        let to = data_path(merged, shard as u32, count);
        settle(from, &to, options.durability)?;
    }
    // Files that are only there for their number.
    for shard in files.len() as u32..count {
        let path = data_path(merged, shard, count);
        Replacement::create(FileKind::CheckpointData, &path)?.commit(options.durability)?;
    }
    index.commit(options.durability)?;
    if options.replace == Replace::Whole {
        remove_others(merged, count);
    }
    for prefix in parts.iter().filter(|&&prefix| prefix != merged) {
        let _ = fs::remove_file(index_path(prefix));
    }
    Ok(())
}

/// Adds the parts of a tensor that one bundle has to those that others have.
fn add_parts(entries: &mut BTreeMap<Vec<u8>, Entry>, name: Vec<u8>, entry: Entry) -> Result<()> {
    debug_assert!(!key::is_slice(&name));
    match entries.get_mut(&name) {
        None => {
            entries.insert(name, entry);
        }
        Some(known)
            if !known.slices.is_empty()
                && known.dtype == entry.dtype
                && known.shape == entry.shape =>
        {
            known.slices.extend(entry.slices);
        }
        Some(_) => {
            return Err(invalid(format!(
                "`{}` is in another part already and does not fit it",
                name.escape_ascii()
            )));
        }
    }
    Ok(())
}

/// Gives a data file its new name, when its bytes are on the disk.
fn settle(from: &Path, to: &Path, durability: Durability) -> Result<()> {
    let fail = |e| FormatError::io(FileKind::CheckpointData, "rename it", e).in_file(from);
    if durability == Durability::Synced {
        fs::File::open(from)
            .and_then(|file| file.sync_all())
            .map_err(fail)?;
    }
    fs::rename(from, to).map_err(fail)
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Table, cause)
}
