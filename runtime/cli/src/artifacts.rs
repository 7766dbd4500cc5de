//! File type detection: whether a path is a TFRecord file, a checkpoint, event files, or a folder of these.
//!
//! In: a path, a glob pattern, or a set of shards (`name@5`). Out: the artifacts it means. A file of another program is an error that says
//! what it is.

mod folder;
mod foreign;
mod pattern;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trainspec_formats::checkpoint::bundle::{data_files, index_path};
use trainspec_formats::checkpoint::{
    CheckpointReader, Latest, STATE_FILE, find_latest, get_checkpoint_mtimes,
};
use trainspec_formats::events::is_event_file;
use trainspec_formats::files::{self, ReadAt};
use trainspec_formats::records::{Compression, ReaderOptions, RecordReader};
use trainspec_formats::{Code, FileKind, FormatError, bounded, crc, table};

use crate::output::{note, plain};

pub(crate) use folder::SearchResult;

/// A file or set of files that a training writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// A TFRecord file.
    Records(PathBuf),
    /// A checkpoint by its prefix, or another file of named tensors.
    Checkpoint(PathBuf),
    /// The list of checkpoints in a folder (`CheckpointState`).
    State(PathBuf),
    /// A folder with event files, or one of them.
    Events(PathBuf),
}

impl Artifact {
    /// Its path or prefix.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Artifact::Records(path)
            | Artifact::Checkpoint(path)
            | Artifact::State(path)
            | Artifact::Events(path) => path,
        }
    }
}

/// The name of the kind of [`Artifact::State`].
pub(crate) const CHECKPOINT_LIST: &str = "list of checkpoints";

/// The name of the kind of a checkpoint.
pub(crate) fn kind_of(reader: &CheckpointReader) -> &'static str {
    match reader {
        CheckpointReader::Bundle(_) | CheckpointReader::Table(_) => "checkpoint",
        CheckpointReader::Safetensors(_) => "safetensors",
        CheckpointReader::Npz(_) => "npz",
    }
}

/// The artifacts that `inspect` shows for a path: of every folder the newest checkpoint, and the event and record files.
pub(crate) fn shown(path: &Path) -> Result<SearchResult, FormatError> {
    if let Some(pattern) = pattern::of_path(path) {
        return pattern::matching(pattern, shown);
    }
    let mut found = all(path)?;
    if !is_folder(path) {
        return Ok(found);
    }
    let all = std::mem::take(&mut found.artifacts);
    let has_checkpoints = |a: &&Artifact| matches!(a, Artifact::Checkpoint(_) | Artifact::State(_));
    let parents = all.iter().filter(has_checkpoints);
    let folders: BTreeSet<&Path> = parents.filter_map(|a| a.path().parent()).collect();
    for folder in folders {
        match newest(folder) {
            Ok(Some(newest)) => found.artifacts.push(Artifact::Checkpoint(newest)),
            // A list whose files are missing is shown itself.
            Ok(None) => {
                let is_list = |a: &&Artifact| {
                    matches!(a, Artifact::State(_)) && a.path().parent() == Some(folder)
                };
                found.artifacts.extend(all.iter().find(is_list).cloned());
            }
            Err(e) => found.damaged.push(e),
        }
    }
    let rest = |a: &Artifact| matches!(a, Artifact::Events(_) | Artifact::Records(_));
    found.artifacts.extend(all.into_iter().filter(rest));
    Ok(found)
}

/// All artifacts of a path: of a folder those in it and below it, of a pattern those that match, in the order of names.
pub(crate) fn all(path: &Path) -> Result<SearchResult, FormatError> {
    if is_folder(path) {
        return Ok(folder::search(path));
    }
    match pattern::of_path(path) {
        Some(pattern) => pattern::matching(pattern, all),
        None => Ok(SearchResult {
            artifacts: vec![of_file(path)?],
            ..SearchResult::default()
        }),
    }
}

/// Opens the checkpoint at a path: of a folder the newest, of a pattern the only one that matches.
pub(crate) fn open(path: &Path) -> Result<CheckpointReader, FormatError> {
    if is_folder(path) {
        return CheckpointReader::open_prefix(&in_folder(path)?);
    }
    let mut found = all(path)?;
    if let Some(error) = found.damaged.pop() {
        return Err(error);
    }
    let other = match &found.artifacts[..] {
        [Artifact::Checkpoint(path)] => return CheckpointReader::open_prefix(path),
        [Artifact::Records(_)] => "this is a record file, and no checkpoint".to_owned(),
        [Artifact::Events(_)] => "this is an event file, and no checkpoint".to_owned(),
        [Artifact::State(_)] => "this is a list of checkpoints, and no checkpoint".to_owned(),
        several => format!("this means {} files; name one checkpoint", several.len()),
    };
    Err(FormatError::invalid(FileKind::Other, other).in_file(path))
}

/// The newest checkpoint of a folder, or the variables of a SavedModel; an error says what is below it instead.
fn in_folder(folder: &Path) -> Result<PathBuf, FormatError> {
    if let Some(newest) = newest(folder)? {
        return Ok(newest);
    }
    let variables = folder.join("variables/variables");
    if folder.join(foreign::SAVED_MODEL).is_file() && index_path(&variables).is_file() {
        return Ok(variables);
    }
    let below = folder::search(folder).artifacts;
    let checkpoints = below.iter().filter_map(|artifact| match artifact {
        Artifact::Checkpoint(path) => Some(path.display().to_string()),
        Artifact::Records(_) | Artifact::State(_) | Artifact::Events(_) => None,
    });
    let checkpoints: Vec<String> = checkpoints.collect();
    let cause = match &checkpoints[..] {
        [] => "there is no checkpoint in this folder".to_owned(),
        [only] => format!("there is no checkpoint in this folder, but below it: {only}"),
        [first, rest @ ..] => format!(
            "there is no checkpoint in this folder, but below it: {first} and {} more",
            rest.len()
        ),
    };
    Err(FormatError::not_found(FileKind::Other, cause).in_file(folder))
}

/// The newest checkpoint of a folder: the one that its list names, or, with a note, the one of the highest step, the latest among equals.
fn newest(folder: &Path) -> Result<Option<PathBuf>, FormatError> {
    let list = folder.join(STATE_FILE);
    let (why, beside) = match find_latest(folder) {
        Latest::Listed(newest) => return Ok(Some(newest)),
        Latest::Missing { listed, beside } => {
            let why = format!(
                "{}: it lists `{listed}`, which is not there",
                list.display()
            );
            (why, beside)
        }
        // A path that leads out of the folder may be meant: it is not replaced by a guess.
        Latest::Broken(e) if e.code == Code::InvalidArgument => return Err(e),
        Latest::Broken(e) => (e.to_string(), None),
        Latest::Unlisted => {
            let why = "no list says which checkpoint is the newest";
            (format!("{}: {why}", folder.display()), None)
        }
    };
    if let Some(beside) = beside {
        note(plain(format_args!(
            "{why}; taking {}, of that name beside it",
            beside.display()
        )));
        return Ok(Some(beside));
    }
    // Archives of other programs are exports: one may be newer than the checkpoint that it is of.
    let order = |prefix: &PathBuf| {
        let name = prefix.file_name().unwrap_or_default().to_string_lossy();
        let times = get_checkpoint_mtimes(&[prefix]).unwrap_or_default();
        let is_checkpoint = !has_tensor_name(&name);
        (
            is_checkpoint,
            step(&name),
            times.first().copied(),
            prefix.clone(),
        )
    };
    let newest = folder::checkpoints(folder).into_iter().max_by_key(order);
    if let Some(newest) = &newest {
        note(plain(format_args!(
            "{why}; taking {}, by its step and time",
            newest.display()
        )));
    }
    Ok(newest)
}

/// The step in the name of a checkpoint: `model.ckpt-1000`, also with an extension or a shard suffix.
fn step(name: &str) -> Option<u64> {
    let name = name.split("-?????-of-").next().unwrap_or(name);
    let name = match name.rsplit_once('.') {
        Some((start, "safetensors" | "npz")) => start,
        _ => name,
    };
    let digits = name.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether a path is a folder, and not the prefix of a checkpoint beside it.
fn is_folder(path: &Path) -> bool {
    path.is_dir() && !index_path(path).is_file()
}

/// The artifact of a file, or the checkpoint that has the path as its prefix.
fn of_file(path: &Path) -> Result<Artifact, FormatError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_prefix = || !path.exists() && !data_files(path).is_empty();
    if index_path(path).is_file() || is_prefix() {
        return Ok(Artifact::Checkpoint(path.to_owned()));
    }
    if name.ends_with(".index") || is_data_file(&name) {
        return Ok(Artifact::Checkpoint(path.with_extension("")));
    }
    let found = recognised(path)?;
    let may_be_foreign = matches!(found, Some(Artifact::Checkpoint(_)) | None);
    match foreign::of_file(path).filter(|_| may_be_foreign) {
        Some(foreign) => Err(foreign.error(path)),
        None => found.ok_or_else(|| unrecognised(path)),
    }
}

/// The artifact of a file by its name and its magic bytes, if the format is known.
fn recognised(path: &Path) -> Result<Option<Artifact>, FormatError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = files::open(FileKind::Other, path)?;
    if name == trainspec_formats::checkpoint::STATE_FILE {
        return Ok(Some(Artifact::State(path.to_owned())));
    }
    if is_event_file(&name) {
        return Ok(Some(Artifact::Events(path.to_owned())));
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
    let is_records = is_framed || has_record_name(&name);
    let is_json = head[8] == b'{' && u64::from_le_bytes(*size) <= length.saturating_sub(8);
    let is_archive = head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06");
    let is_tensors = || has_tensor_name(&name) || is_archive || is_json || is_table(&file);
    if !is_records && is_tensors() {
        return Ok(Some(Artifact::Checkpoint(path.to_owned())));
    }
    Ok(
        match is_records || length == 0 || is_compressed_records(path) {
            true if begins_with_version(path) => Some(Artifact::Events(path.to_owned())),
            true => Some(Artifact::Records(path.to_owned())),
            false => None,
        },
    )
}

fn unrecognised(path: &Path) -> FormatError {
    let cause = "this is no record file, checkpoint, event file, safetensors or npz file";
    FormatError::new(Code::InvalidArgument, FileKind::Other, cause).in_file(path)
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

/// Whether a name is usual for TFRecord files.
fn has_record_name(name: &str) -> bool {
    [".tfrecord", ".tfrecords", ".records"]
        .iter()
        .any(|end| name.contains(end))
}

/// Whether a name is that of a safetensors or npz file.
fn has_tensor_name(name: &str) -> bool {
    [".safetensors", ".npz"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Whether a file begins with a record after decompression.
fn is_compressed_records(path: &Path) -> bool {
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
                bounded::decode::<Event>(FileKind::Events, record, bounded::DEFAULT_MEMORY_LIMIT);
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
