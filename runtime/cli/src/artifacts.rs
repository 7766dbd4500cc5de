//! What a path is: a file of records, a checkpoint, event files, or a folder of these.

use std::path::{Path, PathBuf};

use trainspec_formats::checkpoint::bundle::{data_files, index_path};
use trainspec_formats::events::is_event_file;
use trainspec_formats::files::{self, ReadAt};
use trainspec_formats::records::{Compression, ReaderOptions, RecordReader};
use trainspec_formats::{Code, FileKind, FormatError, bounded, crc, table};

/// Something that training leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// A file of records.
    Records(PathBuf),
    /// A checkpoint by its prefix, or another file of named tensors.
    Checkpoint(PathBuf),
    /// The list of checkpoints in a folder.
    State(PathBuf),
    /// A folder with event files, or one of them.
    Events(PathBuf),
}

impl Artifact {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Artifact::Records(path)
            | Artifact::Checkpoint(path)
            | Artifact::State(path)
            | Artifact::Events(path) => path,
        }
    }
}

/// What a path means: of a folder the newest checkpoint and the runs in it and below it.
pub(crate) fn shown(path: &Path) -> Result<Vec<Artifact>, FormatError> {
    if !path.is_dir() || index_path(path).is_file() {
        return Ok(vec![of_file(path)?]);
    }
    let all = of_folder(path)?;
    let mut found = Vec::new();
    match trainspec_formats::checkpoint::latest_checkpoint(path, None)? {
        Some(newest) => found.push(Artifact::Checkpoint(newest)),
        // A list whose files are gone is worth a look; without one, the last by name is.
        None => {
            let last = all
                .iter()
                .rfind(|a| matches!(a, Artifact::Checkpoint(_)) && a.path().parent() == Some(path));
            let list = all.iter().find(|a| matches!(a, Artifact::State(_)));
            found.extend(last.or(list).cloned());
        }
    }
    let rest = |a: &&Artifact| matches!(a, Artifact::Events(_) | Artifact::Records(_));
    found.extend(all.iter().filter(rest).cloned());
    match found.is_empty() {
        true => Err(nothing(path)),
        false => Ok(found),
    }
}

/// Everything that a path means: of a folder all that is in it and below it, in the order of names.
pub(crate) fn all(path: &Path) -> Result<Vec<Artifact>, FormatError> {
    if !path.is_dir() || index_path(path).is_file() {
        return Ok(vec![of_file(path)?]);
    }
    let found = of_folder(path)?;
    match found.is_empty() {
        true => Err(nothing(path)),
        false => Ok(found),
    }
}

fn nothing(path: &Path) -> FormatError {
    let cause = "there is no checkpoint, event file or record file in this folder";
    FormatError::not_found(FileKind::Other, cause).in_file(path)
}

fn of_folder(folder: &Path) -> Result<Vec<Artifact>, FormatError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |e| FormatError::io(FileKind::Other, "list the folder", e).in_file(&folder);
        let mut entries: Vec<_> = std::fs::read_dir(&folder)
            .map_err(failed)?
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let mut has_events = false;
        for entry in &entries {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            // Links are not followed, so a circle of them cannot trap us.
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                if !name.starts_with('.') {
                    folders.push(path);
                }
            } else if is_event_file(&name) {
                has_events = true;
            } else if let Some(artifact) = in_folder(&path, &name) {
                found.push(artifact);
            }
        }
        if has_events {
            found.push(Artifact::Events(folder));
        }
    }
    found.sort_by(|a, b| a.path().cmp(b.path()));
    // The shards of a checkpoint of the first version are one.
    found.dedup();
    Ok(found)
}

/// What a file is among others; nothing if it belongs to another or is none of ours.
fn in_folder(path: &Path, name: &str) -> Option<Artifact> {
    if name == trainspec_formats::checkpoint::STATE_FILE {
        return Some(Artifact::State(path.to_owned()));
    }
    if path.extension().is_some_and(|ending| ending == "index") {
        let prefix = path.with_extension("");
        // Others have files of this name too.
        let is_table = || files::open(FileKind::Other, path).is_ok_and(|f| is_table(&f));
        let is_ours = !data_files(&prefix).is_empty() || is_table();
        return is_ours.then_some(Artifact::Checkpoint(prefix));
    }
    if is_data_file(name) || name.ends_with(".meta") || name.contains(".tmp-") {
        return None;
    }
    let is_empty = std::fs::metadata(path).is_ok_and(|about| about.len() == 0);
    if is_empty && !has_record_name(name) {
        return None;
    }
    match of_file(path).ok()? {
        Artifact::Checkpoint(path) => Some(Artifact::Checkpoint(whole(&path).unwrap_or(path))),
        other => Some(other),
    }
}

/// The pattern of all shards of the checkpoint that `X-00000-of-00002` is one of.
fn whole(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (start, count) = name.rsplit_once("-of-")?;
    let (start, shard) = start.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let pattern = format!("{start}-?????-of-{count}");
    (is_number(shard) && is_number(count)).then(|| path.with_file_name(pattern))
}

/// What a file is, or the checkpoint that has the path as its prefix.
fn of_file(path: &Path) -> Result<Artifact, FormatError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_pattern = name.contains(['?', '*']) && !path.exists();
    if index_path(path).is_file() || is_pattern {
        return Ok(Artifact::Checkpoint(path.to_owned()));
    }
    if name.ends_with(".index") || is_data_file(&name) {
        return Ok(Artifact::Checkpoint(path.with_extension("")));
    }
    let file = files::open(FileKind::Other, path)?;
    if name == trainspec_formats::checkpoint::STATE_FILE {
        return Ok(Artifact::State(path.to_owned()));
    }
    if is_event_file(&name) {
        return Ok(Artifact::Events(path.to_owned()));
    }
    let failed = |e| FormatError::io(FileKind::Other, "read it", e).in_file(path);
    let length = file.length().map_err(failed)?;
    let mut head = [0; 12];
    let known = head
        .len()
        .min(usize::try_from(length).unwrap_or(usize::MAX));
    file.read_exact_at(0, &mut head[..known]).map_err(failed)?;
    // Checksums first: by chance, records may begin like an archive.
    let (size, stored) = head.split_first_chunk().expect("it is longer");
    let is_framed = crc::masked(size).to_le_bytes() == stored;
    let is_records = length == 0 || has_record_name(&name) || is_framed;
    let is_json = head[8] == b'{' && u64::from_le_bytes(*size) <= length.saturating_sub(8);
    let is_archive = head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06");
    if !is_records && (is_archive || is_json || is_table(&file)) {
        return Ok(Artifact::Checkpoint(path.to_owned()));
    }
    let is_records = is_records || is_packed(path);
    match is_records {
        true if begins_with_version(path) => Ok(Artifact::Events(path.to_owned())),
        true => Ok(Artifact::Records(path.to_owned())),
        false => {
            let cause = "this is no record file, checkpoint, event file, safetensors or npz file";
            Err(FormatError::new(Code::InvalidArgument, FileKind::Other, cause).in_file(path))
        }
    }
}

fn is_table(file: &impl ReadAt) -> bool {
    table::is_table(file).unwrap_or(false)
}

/// Whether a name is `prefix.data-00000-of-00001`.
fn is_data_file(name: &str) -> bool {
    name.rsplit_once(".data-")
        .and_then(|(_, shard)| shard.split_once("-of-"))
        .is_some_and(|(i, n)| [i, n].iter().all(|d| d.bytes().all(|b| b.is_ascii_digit())))
}

/// Whether a name is one that record files are given.
fn has_record_name(name: &str) -> bool {
    [".tfrecord", ".tfrecords", ".records"]
        .iter()
        .any(|end| name.contains(end))
}

/// Whether a file begins with a record after decompression.
fn is_packed(path: &Path) -> bool {
    let reader = RecordReader::open(path, &ReaderOptions::default());
    reader
        .is_ok_and(|mut r| r.compression() != Compression::None && matches!(r.next(), Ok(Some(_))))
}

/// Whether the first record is the version of an event file.
fn begins_with_version(path: &Path) -> bool {
    use trainspec_formats::proto::{Event, event::What};
    let reader = RecordReader::open(path, &ReaderOptions::default());
    reader.is_ok_and(|mut reader| match reader.next() {
        Ok(Some(record)) if record.len() < 256 => {
            let event = bounded::decode::<Event>(FileKind::Events, record, bounded::LARGEST);
            matches!(
                event,
                Ok(Event {
                    what: Some(What::FileVersion(_)),
                    ..
                })
            )
        }
        _ => false,
    })
}
