//! The data files of a run, compared with what they were when it began: length and time, and where those differ a fingerprint.
//!
//! In: the files of the training. Out: an error that names the file that changed. Leaves alone: contents between the sampled blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use trainspec_formats::crc;

use crate::env::Storage;
use crate::{Code, Error};

/// The bytes of each of the blocks that a fingerprint samples.
const SAMPLED_BYTES: usize = 64 << 10;

/// The data files of a run, as they were when it began.
#[derive(Debug)]
pub(crate) struct DataWatch {
    storage: Arc<dyn Storage>,
    files: Vec<WatchedFile>,
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// What it is called in `run.json`.
    name: String,
    /// Its length and when it was written; `None` where the storage does not know it.
    seen: Option<(u64, Option<SystemTime>)>,
    fingerprint: Value,
}

impl DataWatch {
    /// Reads the fingerprints of files; `folder` is where relative paths of the spec begin.
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        folder: &Path,
        paths: &[PathBuf],
    ) -> Result<DataWatch, Error> {
        let watched = |path: &PathBuf| {
            Ok(WatchedFile {
                path: path.clone(),
                name: name_in(folder, path),
                // Before the fingerprint: what is written in between is noticed.
                seen: seen(storage, path),
                fingerprint: fingerprint(storage, path).map_err(|e| unreadable(path, e))?,
            })
        };
        Ok(DataWatch {
            storage: storage.clone(),
            files: paths.iter().map(watched).collect::<Result<_, Error>>()?,
        })
    }

    /// The fingerprint of each file, by its name.
    pub(crate) fn fingerprints(&self) -> Map<String, Value> {
        let files = self.files.iter();
        files
            .map(|file| (file.name.clone(), file.fingerprint.clone()))
            .collect()
    }

    /// Fails where files changed since the run began: what was trained then is not what the next start would train on.
    pub(crate) fn ensure_unchanged(&mut self) -> Result<(), Error> {
        let mut changed = Vec::new();
        for file in &mut self.files {
            let now = seen(&self.storage, &file.path);
            if now == file.seen {
                continue;
            }
            let same = fingerprint(&self.storage, &file.path)
                .is_ok_and(|one| has_same_content(&file.fingerprint, &one));
            match same {
                true => file.seen = now,
                false => changed.push(file.path.display().to_string()),
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let message = format!(
            "data files changed while the run used them: {}",
            changed.join(", ")
        );
        let help = "nothing more is saved; with the files of before, the run goes on from its last checkpoint, and `--fresh` starts over with these";
        Err(Error::new(Code::FailedPrecondition, message).help(help))
    }
}

/// The name of a data file: its path from the folder in which relative paths begin, however that folder is spelt, so that a run goes on
/// from another working folder and with data that was moved as a whole. A file elsewhere has its absolute path.
fn name_in(folder: &Path, path: &Path) -> String {
    // The empty path is the working folder, and `absolute` refuses it.
    let absolute = |path: &Path| {
        let path = Path::new(".").join(path);
        std::path::absolute(&path).unwrap_or(path)
    };
    let (folder, path) = (absolute(folder), absolute(path));
    let name = path.strip_prefix(&folder).unwrap_or(&path);
    name.display().to_string()
}

fn seen(storage: &Arc<dyn Storage>, path: &Path) -> Option<(u64, Option<SystemTime>)> {
    let about = storage.metadata(path).ok()?;
    Some((about.length, about.modified))
}

/// The length of a file, a checksum of three blocks of it (its start, middle and end), and, as a hint alone, its time of modification.
fn fingerprint(storage: &Arc<dyn Storage>, path: &Path) -> std::io::Result<Value> {
    let file = storage.open(path)?;
    let length = file.length()?;
    let block = length.min(SAMPLED_BYTES as u64);
    let mut bytes = vec![0; block as usize];
    let mut sum = 0;
    for start in [0, (length - block) / 2, length - block] {
        file.read_exact_at(start, &mut bytes)?;
        sum = crc::append(sum, &bytes);
    }
    let modified = seen(storage, path).and_then(|(_, modified)| modified);
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(json!({
        "bytes": length,
        "crc32c": format!("{sum:08x}"),
        "modified": since.map(|time| time.as_secs()),
    }))
}

/// Whether two fingerprints agree in length and sampled blocks.
pub(crate) fn has_same_content(then: &Value, now: &Value) -> bool {
    ["bytes", "crc32c"].iter().all(|key| then[key] == now[key])
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    crate::run_folder::failed(path, "read it", error)
}
