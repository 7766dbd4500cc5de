//! The folder of a run: its lock, which training it belongs to (`run.json`), and its checkpoints.
//!
//! In: a folder, and the training that is about to run there. Out: a fresh folder, or the checkpoint to resume from. A folder that belongs
//! to another training, or whose data files have changed, is refused with what differs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use trainspec_compiler::Identity;
use trainspec_compiler::typed::Spec;
use trainspec_formats::FileKind;
use trainspec_formats::checkpoint::STATE_FILE;
use trainspec_formats::files::{self, Durability};
use trainspec_formats::storage::{Lock, Storage};

use crate::data_watch::{DataWatch, has_same_content};
use crate::env::Env;
use crate::hooks::BEST_FOLDER;
use crate::machine::VERSION;
use crate::run_description::RunDescription;
use crate::{Code, Error};

/// The file that says which training a folder belongs to.
pub(crate) const RUN_FILE: &str = "run.json";
/// The file with the text of the spec.
pub(crate) const SPEC_FILE: &str = "spec.trainspec";
/// The file that is locked while a run uses the folder.
pub(crate) const LOCK_FILE: &str = "run.lock";
/// The version of `run.json`.
const FORMAT: u64 = 1;

/// How often a lock that is held is tried again.
const LOCK_RETRIES: u32 = 25;
/// The pause before each try.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A folder that this process runs in.
#[derive(Debug)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    /// What to say about it.
    pub(crate) notes: Vec<String>,
    /// The data files, which must not change while the run saves.
    pub(crate) data: Option<DataWatch>,
    /// What [`RUN_FILE`] says.
    description: Value,
    /// The text of the spec.
    text: Arc<str>,
    storage: Arc<dyn Storage>,
    /// Held until the run is over; a crash releases it.
    _lock: Box<dyn Lock>,
}

impl RunFolder {
    /// Takes the folder for a run: creates it, or checks that what is there belongs to this training. With `fresh` what is there is moved
    /// aside.
    pub(crate) fn open(
        env: &Env,
        path: &Path,
        run: &RunDescription,
        fresh: bool,
    ) -> Result<RunFolder, Error> {
        let storage = &env.storage;
        let mut notes = Vec::new();
        let is_run = [RUN_FILE, STATE_FILE].iter();
        if fresh && is_run.clone().any(|file| storage.exists(&path.join(file))) {
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
        files::create_dir_in(storage, path, Durability::Synced).map_err(|e| {
            failed(path, "create the folder", e).help(
                "`--dir FOLDER` of the command names another folder, as `dir` of `checkpoint` does",
            )
        })?;
        let lock = lock(env, path)?;
        notes.extend(remove_temporaries(storage, path)?);
        if storage.is_dir(&path.join(BEST_FOLDER)) {
            notes.extend(remove_temporaries(storage, &path.join(BEST_FOLDER))?);
        }
        let data = DataWatch::new(storage, &run.data_folder, &run.files)?;
        let evaluated = DataWatch::new(storage, &run.data_folder, &run.evaluated)?;
        let (fingerprints, evaluated) = (data.fingerprints(), evaluated.fingerprints());
        notes.extend(compare_with(storage, path, run, &fingerprints, &evaluated)?);
        let constants = run.constants.iter();
        let constants = constants.map(|(name, value)| (name.clone(), json!(value)));
        let description = json!({
            "format": FORMAT,
            "spec": run.spec,
            "identity": run.identity.hash,
            "constants": Value::Object(constants.collect()),
            "seed": run.seed,
            "until": run.until,
            "best": run.best,
            "threads": run.threads,
            "trainspec": VERSION,
            "machine": run.machine,
            "data": fingerprints,
            "evaluation_data": evaluated,
            "canonical": run.identity.canonical,
        });
        Ok(RunFolder {
            path: path.to_owned(),
            notes,
            data: Some(data),
            description,
            storage: storage.clone(),
            text: run.text.clone(),
            _lock: lock,
        })
    }

    /// Writes which training it is, once it is known that it can begin: a start that fails leaves a folder to the training whose it is.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.write(SPEC_FILE, &self.text)?;
        self.write(RUN_FILE, &format!("{:#}\n", self.description))
    }

    /// Fails as [`RunFolder::open`] does where the folder belongs to another training, and writes nothing.
    pub(crate) fn check(
        storage: &Arc<dyn Storage>,
        path: &Path,
        run: &RunDescription,
    ) -> Result<Vec<String>, Error> {
        let files = DataWatch::new(storage, &run.data_folder, &run.files)?;
        let evaluated = DataWatch::new(storage, &run.data_folder, &run.evaluated)?;
        let (files, evaluated) = (files.fingerprints(), evaluated.fingerprints());
        compare_with(storage, path, run, &files, &evaluated)
    }

    /// Writes how the run ended, for those who look at it later: the reason by its name in JSON output, or an error. Until it is written
    /// again the run counts as interrupted.
    pub(crate) fn end(&mut self, step: u64, why: &str, error: Option<&Error>) -> Result<(), Error> {
        self.description["end"] = json!({
            "why": why,
            "step": step,
            "error": error.map(ToString::to_string),
        });
        self.write(RUN_FILE, &format!("{:#}\n", self.description))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        files::replace_in(
            &self.storage,
            FileKind::Other,
            &self.path.join(name),
            text.as_bytes(),
            Durability::Synced,
        )?;
        Ok(())
    }
}

/// Removes what a save that was killed has left: the folder is locked, so that nobody is writing it. Gives what to say about it.
fn remove_temporaries(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<String>, Error> {
    let names = storage.list(path).map_err(|e| failed(path, "list it", e))?;
    let mut count = 0_u64;
    for name in names.iter().filter(|name| files::is_temporary(name)) {
        let file = path.join(name);
        storage
            .remove_file(&file)
            .map_err(|e| failed(&file, "remove it", e))?;
        count += 1;
    }
    Ok(match count {
        0 => None,
        1 => Some("removed a file that an interrupted save had begun".to_owned()),
        _ => Some(format!(
            "removed {count} files that interrupted saves had begun"
        )),
    })
}

/// Whether a run has written nothing to its folder but what it is.
fn is_untouched(storage: &Arc<dyn Storage>, path: &Path) -> Result<bool, Error> {
    let names = storage.list(path).map_err(|e| failed(path, "list it", e))?;
    let own = [RUN_FILE, SPEC_FILE, LOCK_FILE];
    Ok(names.iter().all(|name| own.iter().any(|own| name == own)))
}

/// Locks a folder, with the id of this process in the lock; fails where another one has it.
fn lock(env: &Env, path: &Path) -> Result<Box<dyn Lock>, Error> {
    let (storage, file) = (&env.storage, path.join(LOCK_FILE));
    let try_lock = || {
        let lock = storage.try_lock(&file);
        lock.map_err(|e| failed(&file, "lock it", e))
    };
    let mut lock = try_lock()?;
    // A process that has just ended may have left the lock to a child that is not started yet.
    for _ in 0..LOCK_RETRIES {
        if lock.is_none() {
            env.clock.sleep(LOCK_PAUSE);
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

/// Compares the run that a folder holds, if there is one, with another; gives what is worth saying, and fails where it is another training.
fn compare_with(
    storage: &Arc<dyn Storage>,
    path: &Path,
    run: &RunDescription,
    fingerprints: &Map<String, Value>,
    evaluated: &Map<String, Value>,
) -> Result<Vec<String>, Error> {
    let file = path.join(RUN_FILE);
    let bytes = match storage.read(&file) {
        // A run that ended before its first step has nothing to lose, and its spec is the one that was mended since.
        Ok(_) if is_untouched(storage, path)? => return Ok(Vec::new()),
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(&file, "read it", e)),
    };
    let known = serde_json::from_slice(&bytes).map_err(|e| {
        let message = format!("{}: it is damaged: {e}", file.display());
        Error::new(Code::DataLoss, message).help("`--fresh` moves the folder aside and starts over")
    })?;
    let spec = storage.read(&path.join(SPEC_FILE)).unwrap_or_default();
    let spec = String::from_utf8_lossy(&spec);
    let mut notes = compare(path, &known, &spec, run, fingerprints)?;
    notes.extend(compare_evaluated(&known, evaluated));
    Ok(notes)
}

/// Compares what `run.json` says with the run; gives what is worth saying, and fails where it is another training.
fn compare(
    path: &Path,
    known: &Value,
    spec_before: &str,
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
    let now = SpecNow {
        identity: &run.identity,
        text: &run.text,
        constants: &run.constants,
    };
    if let Some(what) = identity_difference(known, spec_before, &now) {
        return refused(what);
    }
    if known["seed"] != json!(run.seed) {
        return refused(format!(
            "its seed is {}, and not {}",
            known["seed"], run.seed
        ));
    }
    let empty = Map::new();
    let before = known["data"].as_object().unwrap_or(&empty);
    let mut notes = Vec::new();
    for (file, now) in fingerprints {
        match before.get(file) {
            Some(then) if has_same_content(then, now) => {
                if then["modified"] != now["modified"] {
                    notes.push(format!(
                        "{file} was written since the run began: its length and its sampled blocks are the same"
                    ));
                }
            }
            Some(_) => return refused(format!("the data file {file} has changed")),
            None => return refused(format!("it was not trained on {file}")),
        }
    }
    if let Some(file) = before.keys().find(|file| !fingerprints.contains_key(*file)) {
        return refused(format!("it was also trained on {file}"));
    }
    Ok(notes)
}

/// What is worth saying of the files of evaluations that decide nothing: their metrics before and after a change are of different records.
fn compare_evaluated(known: &Value, fingerprints: &Map<String, Value>) -> Option<String> {
    let before = known["evaluation_data"].as_object()?;
    let changed = fingerprints.iter().filter(|(file, now)| {
        let then = before.get(*file);
        then.is_some_and(|then| !has_same_content(then, now))
    });
    let changed: Vec<&str> = changed.map(|(file, _)| file.as_str()).collect();
    (!changed.is_empty()).then(|| {
        format!(
            "data files of evaluations have changed since the run began, so metrics before and after cannot be compared: {}",
            changed.join(", ")
        )
    })
}

/// A spec as it is now.
struct SpecNow<'a> {
    identity: &'a Identity,
    text: &'a str,
    constants: &'a [(String, String)],
}

/// The constants that have other values than in a `run.json`: what a person changed, while a difference of the typed spec is what follows.
fn changed_constants(known: &Value, constants: &[(String, String)]) -> Option<String> {
    let changed = constants.iter().filter_map(|(name, now)| {
        let before = known["constants"][name].as_str()?;
        (before != now).then(|| format!("`{name}` is {now}, and was {before}"))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| changed.join("; "))
}

/// What of a spec makes it another training than that of a `run.json`; `None` where it is the same one.
fn identity_difference(known: &Value, spec_before: &str, now: &SpecNow<'_>) -> Option<String> {
    if known["identity"] == json!(now.identity.hash) {
        return None;
    }
    if let Some(changed) = changed_constants(known, now.constants) {
        return Some(changed);
    }
    let before = known["canonical"].as_str().unwrap_or_default();
    Some(match now.identity.difference(before) {
        // A line of the graph, which nobody has written.
        Some(lines) if lines.starts_with("`%") => {
            let lines = changed_line(spec_before, now.text).unwrap_or(lines);
            format!("its model now has {lines}")
        }
        Some(lines) => format!("the spec now has {lines}"),
        None => "the spec is another one".to_owned(),
    })
}

/// What is worth saying where a spec is not the one that a checkpoint was trained with; `None` where it is, or where no run is known.
pub(crate) fn other_spec(storage: &dyn Storage, checkpoint: &Path, spec: &Spec) -> Option<String> {
    // The best one has a folder of its own, in that of the run.
    let mut folders = checkpoint.ancestors().skip(1).take(2);
    let folder = folders.find(|folder| storage.is_file(&folder.join(RUN_FILE)))?;
    let known: Value = serde_json::from_slice(&storage.read(&folder.join(RUN_FILE)).ok()?).ok()?;
    let before = storage.read(&folder.join(SPEC_FILE)).unwrap_or_default();
    let before = String::from_utf8_lossy(&before);
    let identity = Identity::of(spec).ok()?;
    let now = SpecNow {
        identity: &identity,
        text: &spec.text,
        constants: &spec.constants,
    };
    let what = identity_difference(&known, &before, &now)?;
    Some(format!("the checkpoint is of another training: {what}"))
}

/// The line of a text that has changed, now and before; `None` where it is not one alone.
fn changed_line(before: &str, now: &str) -> Option<String> {
    let only_in = |text: &str, other: &str| {
        let known: HashSet<String> = other.lines().map(|line| line.trim().to_owned()).collect();
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !known.contains(*line));
        lines
            .next()
            .filter(|_| lines.next().is_none())
            .map(str::to_owned)
    };
    let (before, now) = (only_in(before, now)?, only_in(now, before)?);
    Some(format!("`{now}`, and before `{before}`"))
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

pub(crate) fn failed(path: &Path, doing: &str, error: std::io::Error) -> Error {
    trainspec_formats::FormatError::io(FileKind::Other, doing, error)
        .in_file(path)
        .into()
}
