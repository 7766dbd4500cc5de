//! Bundle merge (`MergeBundles`): several bundles, such as one per worker, become one that keeps their data files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::bundle::index::{Index, VERSION};
use crate::checkpoint::bundle::writer::{
    Options, count_for, data_files_in, folder_of, make_folder, remove_others, write_index,
};
use crate::checkpoint::bundle::{Endianness, Entry, Header, Replace, data_path, index_path};
use crate::checkpoint::key;
use crate::error::{FileKind, FormatError, Result};
use crate::files::{self, Durability, Replacement};
use crate::storage::{self, Storage};

/// The entries of an index by key.
type Entries = BTreeMap<Vec<u8>, Entry>;

/// Merges several checkpoints into one. Their data files are renamed, not copied, and their other files are removed, so they are gone
/// afterwards. After an error they are there as before.
///
/// A tensor may be in one of them only, except where each has other slices of it. `shards` of the options is not used. `merged` may be
/// one of the inputs; then its data files get new names, as with [`Replace::Atomic`].
pub fn merge(parts: &[&Path], merged: &Path, options: Options) -> Result<()> {
    merge_in(&storage::local(), parts, merged, options)
}

/// [`merge`] in any storage.
pub fn merge_in(
    storage: &Arc<dyn Storage>,
    parts: &[&Path],
    merged: &Path,
    options: Options,
) -> Result<()> {
    let (entries, files) = collect_entries(storage, parts)?;
    // All must be there before the first gets another name.
    for file in &files {
        sync_data_file(storage, file, options.durability)?;
    }
    make_folder(storage, merged, Durability::Synced)?;
    let others: Vec<&Path> = parts
        .iter()
        .copied()
        .filter(|part| !same(&**storage, part, merged))
        .collect();
    // A file of an input must not take the name of one that is not renamed yet.
    let replace = match others.len() == parts.len() {
        true => options.replace,
        false => Replace::Atomic,
    };
    let requested =
        u32::try_from(files.len().max(1)).map_err(|_| invalid("too many data files"))?;
    let count = count_for(storage, merged, requested, replace)?;
    let index = write_index(storage, merged, &Header::new(count), &entries)?;
    let mut moved = RenameGuard {
        storage,
        renamed: Vec::new(),
        created: Vec::new(),
    };
    for (shard, from) in files.into_iter().enumerate() {
        moved.rename(from, data_path(merged, shard as u32, count))?;
    }
    // Empty files that only complete the shard count.
    for shard in moved.renamed.len() as u32..count {
        moved.create(data_path(merged, shard, count), options.durability)?;
    }
    // An index that is durable lists data files that are.
    let data = data_path(merged, 0, count);
    let kind = FileKind::CheckpointData;
    files::sync_name(storage, kind, &data, options.durability)?;
    index.rename(options.durability)?;
    moved.keep();
    let (kind, index) = (FileKind::Table, index_path(merged));
    files::sync_name(storage, kind, &index, options.durability)?;
    if replace == Replace::Atomic {
        remove_others(storage, merged, count);
    }
    for part in others {
        let _ = storage.remove_file(&index_path(part));
        for (file, _) in data_files_in(storage, part) {
            let _ = storage.remove_file(&file);
        }
    }
    Ok(())
}

/// The merged entries of all inputs, and the current paths of their data files.
fn collect_entries(storage: &Arc<dyn Storage>, parts: &[&Path]) -> Result<(Entries, Vec<PathBuf>)> {
    let mut entries: Entries = BTreeMap::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for &prefix in parts {
        let index = Index::open(storage, prefix)?;
        let in_index = |e: FormatError| e.in_file(index_path(prefix));
        if let Some((_, why)) = index.others.into_iter().next() {
            return Err(in_index(why));
        }
        if index.header.endianness != Endianness::Little || index.header.producer != VERSION {
            return Err(in_index(invalid("its endianness or its version differs")));
        }
        let mut shards: BTreeMap<i32, i32> = BTreeMap::new();
        for (name, mut entry) in index.entries {
            if !entry.slices.is_empty() {
                add_slices(&mut entries, name, entry).map_err(in_index)?;
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
    Ok((entries, files))
}

/// Adds the slices of a tensor that one bundle has to those that others have.
fn add_slices(entries: &mut Entries, name: Vec<u8>, entry: Entry) -> Result<()> {
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

/// Checks that a data file exists, and syncs it if the durability says so.
fn sync_data_file(storage: &Arc<dyn Storage>, file: &Path, durability: Durability) -> Result<()> {
    files::open_in(storage, FileKind::CheckpointData, file)?;
    match durability {
        Durability::Synced => storage
            .sync(file)
            .map_err(|e| FormatError::io(FileKind::CheckpointData, "write it", e).in_file(file)),
        Durability::Unsynced => Ok(()),
    }
}

/// Whether two prefixes mean the same files, however they are spelled.
fn same(storage: &dyn Storage, a: &Path, b: &Path) -> bool {
    let folder = |prefix: &Path| storage.canonicalize(&folder_of(prefix)).ok();
    a == b || a.file_name() == b.file_name() && folder(a).is_some_and(|f| Some(f) == folder(b))
}

/// Rollback guard for renames: dropped without [`keep`](RenameGuard::keep), data files get their old names back.
#[derive(Debug)]
struct RenameGuard<'a> {
    storage: &'a Arc<dyn Storage>,
    renamed: Vec<(PathBuf, PathBuf)>,
    created: Vec<PathBuf>,
}

impl RenameGuard<'_> {
    fn rename(&mut self, from: PathBuf, to: PathBuf) -> Result<()> {
        self.storage.rename(&from, &to).map_err(|e| {
            FormatError::io(FileKind::CheckpointData, "rename it", e).in_file(&from)
        })?;
        self.renamed.push((from, to));
        Ok(())
    }

    /// Makes an empty file.
    fn create(&mut self, path: PathBuf, durability: Durability) -> Result<()> {
        let kind = FileKind::CheckpointData;
        Replacement::create_in(self.storage, kind, &path)?.rename(durability)?;
        self.created.push(path);
        Ok(())
    }

    fn keep(mut self) {
        self.renamed.clear();
        self.created.clear();
    }
}

impl Drop for RenameGuard<'_> {
    fn drop(&mut self) {
        for (from, to) in self.renamed.drain(..).rev() {
            let _ = self.storage.rename(&to, &from);
        }
        for path in self.created.drain(..) {
            let _ = self.storage.remove_file(&path);
        }
    }
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Table, cause)
}
