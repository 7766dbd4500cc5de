//! The folder of a run: its lock, which training it belongs to (`run.json`), and its checkpoints.
//!
//! In: a folder, and the training that is about to run there. Out: a fresh folder, or the checkpoint to resume from. A folder that belongs
//! to another training, or whose data files have changed, is refused with what differs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use trainspec_compiler::Identity;
use trainspec_formats::FileKind;
use trainspec_formats::crc;
use trainspec_formats::files::{self, Durability};
use trainspec_formats::storage::{Lock, Storage};

use crate::env::Env;
use crate::{Code, Error};

/// The file that says which training a folder belongs to.
const RUN_FILE: &str = "run.json";
/// The file that is locked while a run uses the folder.
const LOCK_FILE: &str = "run.lock";
/// The version of `run.json`.
const FORMAT: u64 = 1;
/// The bytes of each of the blocks that a fingerprint samples.
const SAMPLED_BYTES: usize = 64 << 10;

/// How often a lock that is held is tried again.
const LOCK_RETRIES: u32 = 25;
/// The pause before each try.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What a run is: what must be equal where it is resumed.
#[derive(Debug, Clone)]
pub(crate) struct RunDescription {
    /// The name of the spec.
    pub(crate) spec: String,
    /// The canonical typed form, and its hash.
    pub(crate) identity: Identity,
    /// The seed.
    pub(crate) seed: i64,
    /// The data files of the training.
    pub(crate) files: Vec<PathBuf>,
    /// What generated code depends on besides: the vector width of the machine.
    pub(crate) machine: String,
}

/// A folder that this process runs in.
#[derive(Debug)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    /// What to say about it.
    pub(crate) notes: Vec<String>,
    /// Held until the run is over; a crash releases it.
    _lock: Box<dyn Lock>,
}

impl RunFolder {
    /// Takes the folder for a run: creates it, or checks that what is there belongs to this training. With `fresh` what is there is moved
    /// aside.
    pub(crate) fn open(
        env: &Arc<dyn Env>,
        path: &Path,
        run: &RunDescription,
        fresh: bool,
    ) -> Result<RunFolder, Error> {
        let storage = &env.storage();
        let mut notes = Vec::new();
        if fresh && storage.exists(&path.join(RUN_FILE)) {
            // Whoever runs there is asked first.
            drop(lock(env, path)?);
            let aside = free_name(storage, path);
            storage
                .rename(path, &aside)
                .map_err(|e| failed(path, "move it aside", e))?;
            notes.push(format!(
                "the run that was in {} is in {} now",
                path.display(),
                aside.display()
            ));
        }
        storage
            .create_dir_all(path)
            .map_err(|e| failed(path, "create the folder", e))?;
        let lock = lock(env, path)?;
        let file = path.join(RUN_FILE);
        let fingerprints = fingerprints(env, &run.files)?;
        match storage.read(&file) {
            Ok(bytes) => {
                let known = serde_json::from_slice(&bytes).map_err(|e| {
                    let message = format!("{}: it is damaged: {e}", file.display());
                    Error::new(Code::DataLoss, message)
                        .help("`--fresh` moves the folder aside and starts over")
                })?;
                notes.extend(compare(path, &known, run, &fingerprints)?);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(&file, "read it", e)),
        }
        let description = json!({
            "format": FORMAT,
            "spec": run.spec,
            "identity": run.identity.hash,
            "seed": run.seed,
            "trainspec": env!("CARGO_PKG_VERSION"),
            "machine": run.machine,
            "data": fingerprints,
            "canonical": run.identity.canonical,
        });
        let text = format!("{description:#}\n");
        files::replace_in(
            storage,
            FileKind::Other,
            &file,
            text.as_bytes(),
            Durability::Synced,
        )?;
        Ok(RunFolder {
            path: path.to_owned(),
            notes,
            _lock: lock,
        })
    }
}

/// Locks a folder, with the id of this process in the lock; fails where another one has it.
fn lock(env: &Arc<dyn Env>, path: &Path) -> Result<Box<dyn Lock>, Error> {
    let (storage, file) = (env.storage(), path.join(LOCK_FILE));
    let try_lock = || {
        let lock = storage.try_lock(&file);
        lock.map_err(|e| failed(&file, "lock it", e))
    };
    let mut lock = try_lock()?;
    // A process that has just ended may have left the lock to a child that is not started yet.
    for _ in 0..LOCK_RETRIES {
        if lock.is_none() {
            env.clock().sleep(LOCK_PAUSE);
            lock = try_lock()?;
        }
    }
    match lock {
        Some(mut lock) => {
            let id = std::process::id().to_string();
            lock.write(&id).map_err(|e| failed(&file, "write it", e))?;
            Ok(lock)
        }
        None => {
            let owner = storage.read(&file).unwrap_or_default();
            let owner = String::from_utf8_lossy(&owner);
            let message = format!(
                "{} is in use by another run (process {})",
                path.display(),
                owner.trim()
            );
            Err(Error::new(Code::FailedPrecondition, message)
                .help("wait for it, stop it, or give another folder"))
        }
    }
}

/// Compares what `run.json` says with the run; gives what is worth saying, and fails where it is another training.
fn compare(
    path: &Path,
    known: &Value,
    run: &RunDescription,
    fingerprints: &Map<String, Value>,
) -> Result<Vec<String>, Error> {
    let refused = |what: String| {
        let message = format!("{} belongs to another run: {what}", path.display());
        Err(Error::new(Code::FailedPrecondition, message)
            .help("`--fresh` moves that run aside and starts over; another `dir` keeps both"))
    };
    if known["format"] != json!(FORMAT) {
        return refused(format!(
            "its {RUN_FILE} has the format {}, and this program reads {FORMAT}",
            known["format"]
        ));
    }
    if known["identity"] != json!(run.identity.hash) {
        let before = known["canonical"].as_str().unwrap_or_default();
        let what = run.identity.difference(before);
        return refused(match what {
            Some(lines) => format!("the spec now has {lines}"),
            None => "the spec is another one".to_owned(),
        });
    }
    if known["seed"] != json!(run.seed) {
        return refused(format!(
            "its seed is {}, and not {}",
            known["seed"], run.seed
        ));
    }
    let empty = Map::new();
    let before = known["data"].as_object().unwrap_or(&empty);
    for (file, now) in fingerprints {
        match before.get(file) {
            Some(then) if then == now => {}
            Some(_) => return refused(format!("the data file {file} has changed")),
            None => return refused(format!("it was not trained on {file}")),
        }
    }
    if let Some(file) = before.keys().find(|file| !fingerprints.contains_key(*file)) {
        return refused(format!("it was also trained on {file}"));
    }
    let mut notes = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    if known["machine"] != json!(run.machine) || known["trainspec"] != json!(version) {
        notes.push(format!(
            "the run began with version {} on {}, and goes on with {version} on {}: the same bits are not promised",
            known["trainspec"], known["machine"], run.machine
        ));
    }
    Ok(notes)
}

/// The length of each file and a checksum of three blocks of it: its start, middle and end.
fn fingerprints(env: &Arc<dyn Env>, paths: &[PathBuf]) -> Result<Map<String, Value>, Error> {
    let mut all = Map::new();
    for path in paths {
        let unreadable = |e| failed(path, "read it", e);
        let file = env.open(path).map_err(unreadable)?;
        let length = file.length().map_err(unreadable)?;
        let block = length.min(SAMPLED_BYTES as u64);
        let mut bytes = vec![0; block as usize];
        let mut sum = 0;
        for start in [0, (length - block) / 2, length - block] {
            file.read_exact_at(start, &mut bytes).map_err(unreadable)?;
            sum = crc::append(sum, &bytes);
        }
        let fingerprint = json!({ "bytes": length, "crc32c": format!("{sum:08x}") });
        all.insert(path.display().to_string(), fingerprint);
    }
    Ok(all)
}

/// The first of `PATH.1`, `PATH.2`, ... that is free.
fn free_name(storage: &Arc<dyn Storage>, path: &Path) -> PathBuf {
    let named = |i: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{i}"));
        PathBuf::from(name)
    };
    let mut names = (1..).map(named);
    names
        .find(|name| !storage.exists(name))
        .expect("there are endless names")
}

fn failed(path: &Path, doing: &str, error: std::io::Error) -> Error {
    trainspec_formats::FormatError::io(FileKind::Other, doing, error)
        .in_file(path)
        .into()
}
