//! Recursive search of a folder for artifacts.
//!
//! In: a folder. Out: its artifacts, its damaged files, and what was skipped. A name may imply a format: an extension such as
//! `.safetensors`, the name of a shard or an event file, an entry of the list of checkpoints, a data file. A file that is not of the format
//! its name implies is damaged. Leaves alone: files of no known format whose name implies none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use trainspec_formats::checkpoint::bundle::{data_files, index_path};
use trainspec_formats::checkpoint::{CheckpointState, Npz, STATE_FILE};
use trainspec_formats::events::is_event_file;
use trainspec_formats::files;
use trainspec_formats::{Code, FileKind, FormatError};

use crate::Format;
use crate::output::{note, plain, print};

use super::{
    Artifact, foreign, has_record_name, has_tensor_name, is_data_file, is_table, recognised,
    unrecognised,
};

/// The result of a search, in the order of names.
#[derive(Debug, Default)]
pub(crate) struct SearchResult {
    pub(crate) artifacts: Vec<Artifact>,
    /// Files that cannot be opened, or are not of the format that their name implies.
    pub(crate) damaged: Vec<FormatError>,
    /// Paths that are no regular files, and models of other programs, and what they are.
    pub(crate) skipped: Vec<(PathBuf, &'static str)>,
}

/// Searches a folder and those below it.
pub(super) fn search(folder: &Path) -> SearchResult {
    let mut found = SearchResult::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        match listed(&folder) {
            Ok(entries) => found.scan(&folder, &entries, &mut folders),
            Err(e) => {
                let e = FormatError::io(FileKind::Other, "list the folder", e);
                found.damaged.push(e.in_file(&folder));
            }
        }
    }
    found.artifacts.sort_by(|a, b| a.path().cmp(b.path()));
    // All files of a checkpoint are one artifact.
    found.artifacts.dedup();
    found.damaged.sort_by(|a, b| a.path.cmp(&b.path));
    found.skipped.sort();
    if found.artifacts.is_empty() && found.damaged.is_empty() {
        let cause = "there is no checkpoint, event file or record file in this folder";
        let error = FormatError::not_found(FileKind::Other, cause);
        found.damaged.push(error.in_file(folder));
    }
    found
}

fn listed(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

impl SearchResult {
    /// Adds the result of another search.
    pub(super) fn extend(&mut self, other: SearchResult) {
        self.artifacts.extend(other.artifacts);
        self.damaged.extend(other.damaged);
        self.skipped.extend(other.skipped);
    }

    /// Reports what was skipped: a note as text, a line with `path` and `skipped` as JSON.
    pub(crate) fn report_skipped(&self, format: Format) {
        for (path, what) in &self.skipped {
            let path = path.display();
            match format {
                Format::Text => note(plain(format_args!("skipped {path}: {what}"))),
                Format::Json => print(json!({ "path": path.to_string(), "skipped": what })),
            }
        }
    }

    fn scan(&mut self, folder: &Path, entries: &[DirEntry], folders: &mut Vec<PathBuf>) {
        let named = named_in_list(folder);
        let mut has_events = false;
        // Of each shard set, whether it holds tensors; and the shards of unknown format.
        let (mut sets, mut unknown) = (BTreeMap::new(), Vec::new());
        for entry in entries {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') {
                    folders.push(path);
                }
                continue;
            }
            let set = shard_set(&name);
            let is_named = named.contains(&name);
            match irregular_kind(&path) {
                Ok(None) => {}
                Ok(Some(other)) => {
                    self.skipped.push((path, other));
                    continue;
                }
                Err(e) if e.code == Code::NotFound && !is_named && !implies_format(&name) => {
                    self.skipped.push((path, "a link that leads nowhere"));
                    continue;
                }
                Err(e) => {
                    self.damaged.push(e);
                    continue;
                }
            }
            if is_event_file(&name) {
                has_events = true;
                continue;
            }
            match artifact_of(&path, &name, &named) {
                Ok(Some(artifact)) => {
                    let has_tensors = matches!(artifact, Artifact::Checkpoint(_));
                    self.artifacts.push(match artifact {
                        Artifact::Checkpoint(found) if found == path => {
                            Artifact::Checkpoint(of_shard(&path))
                        }
                        other => other,
                    });
                    sets.extend(set.map(|set| (set, has_tensors)));
                }
                Ok(None) => {
                    if let Some(foreign) = foreign::model_in_folder(&path, &name) {
                        self.skipped.push((path.clone(), foreign.name));
                    }
                    unknown.extend(set.map(|set| (set, path)));
                }
                Err(e) => self.damaged.push(e),
            }
        }
        for (set, path) in unknown {
            match sets.get(&set) {
                // It is checked with the others.
                Some(true) => {}
                Some(false) => self.artifacts.push(Artifact::Records(path)),
                None if implies_format(&set) => self.damaged.push(unrecognised(&path)),
                None => {}
            }
        }
        if has_events {
            self.artifacts.push(Artifact::Events(folder.to_owned()));
        }
    }
}

/// The checkpoints in a folder, without those below it.
pub(super) fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    let mut found = SearchResult::default();
    let entries = listed(folder).unwrap_or_default();
    found.scan(folder, &entries, &mut Vec::new());
    let checkpoints = found
        .artifacts
        .into_iter()
        .filter_map(|artifact| match artifact {
            Artifact::Checkpoint(path) => Some(path),
            Artifact::Records(_) | Artifact::State(_) | Artifact::Events(_) => None,
        });
    let all: BTreeSet<PathBuf> = checkpoints.collect();
    all.into_iter().collect()
}

/// The kind of a path that is no regular file; `None` for a regular file.
///
/// Symbolic links to files are followed; those to folders are not, so that a cycle of them cannot loop endlessly.
fn irregular_kind(path: &Path) -> Result<Option<&'static str>, FormatError> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => Ok(None),
        Ok(about) if about.is_dir() => Ok(Some("a link to a folder")),
        Ok(_) => Ok(Some("no regular file")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let cause = "the link leads nowhere";
            Err(FormatError::not_found(FileKind::Other, cause).in_file(path))
        }
        Err(e) => Err(FormatError::io(FileKind::Other, "open it", e).in_file(path)),
    }
}

/// The artifact of a file in a folder; `None` if it belongs to another file's artifact or its format is unknown.
fn artifact_of(
    path: &Path,
    name: &str,
    named: &BTreeSet<String>,
) -> Result<Option<Artifact>, FormatError> {
    if name == STATE_FILE {
        return Ok(Some(Artifact::State(path.to_owned())));
    }
    if let Some(prefix) = name.strip_suffix(".index") {
        let is_named = named.contains(prefix);
        let prefix = path.with_extension("");
        // Other programs have files of this name too.
        let is_checkpoint = is_named
            || !data_files(&prefix).is_empty()
            || is_table(&files::open(FileKind::Other, path)?);
        return Ok(is_checkpoint.then_some(Artifact::Checkpoint(prefix)));
    }
    if name.ends_with(".meta") || name.contains(".tmp-") {
        return Ok(None);
    }
    if is_data_file(name) {
        let prefix = path.with_extension("");
        let is_lone = !index_path(&prefix).exists();
        return Ok(is_lone.then_some(Artifact::Checkpoint(prefix)));
    }
    if named.contains(name) {
        return Ok(Some(Artifact::Checkpoint(path.to_owned())));
    }
    let is_empty = fs::metadata(path).is_ok_and(|about| about.len() == 0);
    if is_empty && !has_record_name(name) && !has_tensor_name(name) {
        return Ok(None);
    }
    let found = recognised(path)?;
    let is_tensors = matches!(found, Some(Artifact::Checkpoint(_))) && !has_tensor_name(name);
    // A zip archive may be anything; one that NumPy cannot read is left alone.
    match is_tensors && is_foreign_archive(path) {
        true => Ok(None),
        false => Ok(found),
    }
}

fn is_foreign_archive(path: &Path) -> bool {
    let mut head = [0; 2];
    let opened = files::open(FileKind::Other, path);
    let is_archive = opened.is_ok_and(|file| {
        files::ReadAt::read_exact_at(&file, 0, &mut head).is_ok() && head == *b"PK"
    });
    is_archive && Npz::open(path).is_err()
}

/// The names in this folder that its list of checkpoints has.
fn named_in_list(folder: &Path) -> BTreeSet<String> {
    let Ok(state) = CheckpointState::read(&folder.join(STATE_FILE)) else {
        return BTreeSet::new();
    };
    let here = folder.canonicalize().ok();
    let named = state.listed().into_iter().filter_map(|prefix| {
        let path = folder.join(prefix);
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let name = path.file_name()?.to_str()?.to_owned();
        (parent.is_some() && parent == here).then_some(name)
    });
    named.collect()
}

/// Whether the name of a file implies a known format.
fn implies_format(name: &str) -> bool {
    let is_shard = shard_set(name).is_some_and(|set| {
        let start = set.split("-?????-of-").next().unwrap_or_default();
        !start.contains('.') || start.contains(".ckpt")
    });
    name == STATE_FILE
        || name.ends_with(".index")
        || is_data_file(name)
        || is_event_file(name)
        || has_record_name(name)
        || has_tensor_name(name)
        || is_shard
}

/// The path of the shard set that a checkpoint's path belongs to, or else the path itself.
pub(super) fn of_shard(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    match name.and_then(shard_set) {
        Some(set) => path.with_file_name(set),
        None => path.to_owned(),
    }
}

/// The glob pattern of the shard set of `X-00000-of-00002`. Data files are found by their index instead.
fn shard_set(name: &str) -> Option<String> {
    let (start, count) = name.rsplit_once("-of-")?;
    let (start, shard) = start.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let is_shard = (is_number(shard) || shard == "?????") && is_number(count);
    (is_shard && !name.contains(".data-")).then(|| format!("{start}-?????-of-{count}"))
}
