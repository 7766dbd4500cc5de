//! Glob patterns and sets of shards (`name@5`) as arguments.

use std::path::{Path, PathBuf};

use trainspec_formats::checkpoint::TableCheckpoint;
use trainspec_formats::checkpoint::bundle::{data_files, index_path};
use trainspec_formats::records::{self, ShardedName};
use trainspec_formats::{FileKind, FormatError, glob};

use super::{Artifact, SearchResult, folder, is_folder, of_file};

/// The path as a glob pattern or as a set of shards (`name@5`), if it is neither a file nor the prefix of a checkpoint.
pub(super) fn of_path(path: &Path) -> Option<&str> {
    let pattern = path.to_str()?;
    let is_pattern = glob::is_pattern(pattern) || ShardedName::parse(pattern).is_some();
    let is_there = path.exists() || index_path(path).is_file() || !data_files(path).is_empty();
    (is_pattern && !is_there).then_some(pattern)
}

/// The artifacts that match a pattern, in the order of names; `search` gives those of a folder that matches.
pub(super) fn matching(
    pattern: &str,
    search: impl Fn(&Path) -> Result<SearchResult, FormatError>,
) -> Result<SearchResult, FormatError> {
    let mut found = SearchResult::default();
    for path in records::expand(pattern)? {
        // The graph beside a checkpoint matches what the checkpoint matches.
        if path.extension().is_some_and(|ending| ending == "meta") {
            continue;
        }
        if is_folder(&path) {
            match search(&path) {
                Ok(inside) => found.extend(inside),
                Err(e) => found.damaged.push(e),
            }
            continue;
        }
        match of_file(&path) {
            Ok(Artifact::Checkpoint(prefix)) if prefix == path => {
                let set = folder::of_shard(&path);
                found.artifacts.push(Artifact::Checkpoint(set));
            }
            Ok(artifact) => found.artifacts.push(artifact),
            Err(e) => found.damaged.push(e),
        }
    }
    // All files of a checkpoint are one artifact.
    found.artifacts.dedup();
    // As in TensorFlow, tables of any names may be one checkpoint.
    if found.artifacts.len() > 1 && TableCheckpoint::open(Path::new(pattern)).is_ok() {
        found.artifacts = vec![Artifact::Checkpoint(PathBuf::from(pattern))];
    }
    match found.artifacts.is_empty() && found.damaged.is_empty() {
        true => {
            let cause = format!("no checkpoint, event file or record file matches `{pattern}`");
            Err(FormatError::not_found(FileKind::Other, cause))
        }
        false => Ok(found),
    }
}
