//! What a path is: a file of records, a checkpoint, event files, or a folder of these.

use std::path::{Path, PathBuf};

use trainspec_formats::events::is_event_file;
use trainspec_formats::files::{self, ReadAt};
use trainspec_formats::records::{Compression, HEADER, ReaderOptions, RecordReader};
use trainspec_formats::{Code, FileKind, FormatError, crc, table};

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
    if !path.is_dir() || index_of(path).is_file() {
        return Ok(vec![of_file(path)?]);
    }
    let all = of_folder(path)?;
    let mut found = Vec::new();
    let has_state = all.iter().any(|a| matches!(a, Artifact::State(_)));
    match trainspec_formats::checkpoint::latest_checkpoint(path, None)? {
        Some(newest) => found.push(Artifact::Checkpoint(newest)),
        // A list whose files are gone is worth a look; without one, the last by name is.
        None => {
            let last = all
                .iter()
                .rfind(|a| matches!(a, Artifact::Checkpoint(_)) && a.path().parent() == Some(path));
            let list = all.iter().find(|a| matches!(a, Artifact::State(_)));
            found.extend(last.or(list.filter(|_| has_state)).cloned());
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
    if !path.is_dir() || index_of(path).is_file() {
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
    Ok(found)
}

/// What a file is among others; nothing if it belongs to another or is none of ours.
fn in_folder(path: &Path, name: &str) -> Option<Artifact> {
    if name == trainspec_formats::checkpoint::STATE_FILE {
        return Some(Artifact::State(path.to_owned()));
    }
    if let Some(prefix) = path.to_str()?.strip_suffix(".index") {
        return Some(Artifact::Checkpoint(prefix.into()));
    }
    if is_data_file(name) || name.ends_with(".meta") || name.contains(".tmp-") {
        return None;
    }
    let is_empty = std::fs::metadata(path).is_ok_and(|about| about.len() == 0);
    match is_empty && !has_record_name(name) {
        true => None,
        false => of_file(path).ok(),
    }
}

/// What a file is, or the checkpoint that has the path as its prefix.
fn of_file(path: &Path) -> Result<Artifact, FormatError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = path.to_string_lossy();
    if index_of(path).is_file() {
        return Ok(Artifact::Checkpoint(path.to_owned()));
    }
    if let Some(prefix) = text.strip_suffix(".index") {
        return Ok(Artifact::Checkpoint(prefix.into()));
    }
    if is_data_file(&name) {
        let prefix = text
            .rsplit_once(".data-")
            .map_or(&*text, |(prefix, _)| prefix);
        return Ok(Artifact::Checkpoint(prefix.into()));
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
    let is_archive = head.starts_with(b"PK") || head[8] == b'{';
    if is_archive || table::is_table(&file).map_err(failed)? {
        return Ok(Artifact::Checkpoint(path.to_owned()));
    }
    let is_records = length == 0 || has_record_name(&name) || is_framed(path);
    match is_records {
        true if begins_with_version(path) => Ok(Artifact::Events(path.to_owned())),
        true => Ok(Artifact::Records(path.to_owned())),
        false => {
            let cause = "this is no record file, checkpoint, event file, safetensors or npz file";
            Err(FormatError::new(Code::InvalidArgument, FileKind::Other, cause).in_file(path))
        }
    }
}

/// `prefix.index`.
fn index_of(prefix: &Path) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(".index");
    name.into()
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

/// Whether the first length has the checksum that stands behind it, after decompression.
fn is_framed(path: &Path) -> bool {
    let Ok(file) = files::open(FileKind::Record, path) else {
        return false;
    };
    let mut head = [0; HEADER];
    if file.read_exact_at(0, &mut head).is_ok() && Compression::detect(&head) == Compression::None {
        let (length, stored) = head.split_at(8);
        return crc::masked(length).to_le_bytes() == stored;
    }
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
            let event =
                trainspec_formats::events::decode::<Event>(record, (record.len() as u64) * 64);
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
