//! The folder of a sweep: its lock, and `sweep.json`, which says what it searches and how its trials ended.
//!
//! In: a folder, and the sweep that is about to run there. Out: the outcomes of the trials that have ended. A folder of another sweep is
//! refused with what differs. Leaves alone: the folders of the trials, which are runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trainspec_compiler::Identity;
use trainspec_formats::FileKind;
use trainspec_formats::files::{Durability, is_temporary, replace_in};
use trainspec_formats::storage::{self, Lock, Storage};

use super::metric::{Measured, real};
use super::trial::{Outcome, Plan, Trial, TrialEnd};
use crate::failure::Failure;
use crate::tensors::{Number, json_of};

/// The file that says what a sweep is.
pub(crate) const SWEEP_FILE: &str = "sweep.json";
/// The file that is locked while a sweep uses the folder.
const LOCK_FILE: &str = "sweep.lock";
/// The version of [`SWEEP_FILE`].
const FORMAT: u64 = 1;

/// How often a lock that is held is tried again, and the pause before each try: a process that has just ended may hold it for a moment.
const LOCK_RETRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What must be equal where a sweep goes on.
#[derive(Debug, Clone)]
pub(super) struct Description {
    pub(super) spec: String,
    /// The space, as [`Space::to_json`](super::space::Space::to_json) has it.
    pub(super) space: Value,
    /// The options that runs are given, by name.
    pub(super) options: Value,
    /// What decides the results of the first trial.
    pub(super) canonical: String,
}

/// The folder of a sweep, locked until it is dropped.
#[derive(Debug)]
pub(super) struct SweepFolder {
    pub(super) path: PathBuf,
    /// What to say about it.
    pub(super) note: Option<String>,
    description: Description,
    /// The outcomes of the trials that have ended, by ordinal; a sweep of fewer trials keeps those beyond.
    outcomes: Vec<Option<Recorded>>,
    storage: Arc<dyn Storage>,
    _lock: Box<dyn Lock>,
}

/// An outcome, and what decided it.
#[derive(Debug, Clone)]
struct Recorded {
    results: String,
    values: Value,
    outcome: Outcome,
}

impl SweepFolder {
    /// Takes a folder for a sweep; with `fresh` what is there is moved aside.
    pub(super) fn open(
        path: &Path,
        description: Description,
        plan: &Plan,
        fresh: bool,
    ) -> Result<SweepFolder, Failure> {
        let storage = storage::local();
        let mut note = None;
        if fresh && storage.exists(&path.join(SWEEP_FILE)) {
            // Whoever uses it is asked first.
            drop(lock(&storage, path)?);
            let aside = move_aside(path)?;
            note = Some(format!(
                "the sweep that was in {} is in {} now",
                path.display(),
                aside.display()
            ));
        }
        if storage.exists(&path.join("run.json")) {
            let message = format!("{} is the folder of a run", path.display());
            return Err(Failure::input(message).help("give another one: `--dir FOLDER`"));
        }
        storage
            .create_dir_all(path)
            .map_err(|e| failed("create the folder", path, &e))?;
        let lock = lock(&storage, path)?;
        remove_temporaries(&storage, path)?;
        let outcomes = match read(&storage, path)? {
            Some(known) => compare(path, &known, &description, plan)?,
            None => Vec::new(),
        };
        let folder = SweepFolder {
            path: path.to_owned(),
            note,
            description,
            outcomes,
            storage,
            _lock: lock,
        };
        folder.write()?;
        Ok(folder)
    }

    /// How a trial ended, if it has.
    pub(super) fn outcome(&self, trial: &Trial) -> Option<&Outcome> {
        let recorded = self.outcomes.get(trial.ordinal)?.as_ref()?;
        Some(&recorded.outcome)
    }

    /// Records how a trial ended.
    pub(super) fn keep(&mut self, trial: &Trial, outcome: Outcome) -> Result<(), Failure> {
        if self.outcomes.len() <= trial.ordinal {
            self.outcomes.resize(trial.ordinal + 1, None);
        }
        self.outcomes[trial.ordinal] = Some(Recorded {
            results: trial.results.clone(),
            values: trial.values_json(),
            outcome,
        });
        self.write()
    }

    fn write(&self) -> Result<(), Failure> {
        let ended = self.outcomes.iter().enumerate();
        let ended = ended.filter_map(|(i, one)| Some(recorded_json(i, one.as_ref()?)));
        let object = json!({
            "format": FORMAT,
            "spec": self.description.spec,
            "space": self.description.space,
            "options": self.description.options,
            "canonical": self.description.canonical,
            "trials": ended.collect::<Vec<_>>(),
        });
        let (path, text) = (self.path.join(SWEEP_FILE), format!("{object:#}\n"));
        let (kind, bytes) = (FileKind::Other, text.as_bytes());
        replace_in(&self.storage, kind, &path, bytes, Durability::Synced).map_err(Failure::output)
    }
}

/// The outcomes that a sweep which is not run has in its folder: what `--dry-run` shows.
pub(super) fn known_outcomes(
    path: &Path,
    description: &Description,
    plan: &Plan,
) -> Result<Vec<Option<Outcome>>, Failure> {
    let Some(known) = read(&storage::local(), path)? else {
        return Ok(Vec::new());
    };
    let outcomes = compare(path, &known, description, plan)?.into_iter();
    Ok(outcomes.map(|one| Some(one?.outcome)).collect())
}

/// The names of the constants that vary in the sweep of a folder; `None` where there is none.
pub(crate) fn varied_constants(folder: &Path) -> Option<Vec<String>> {
    let known = read(&storage::local(), folder).ok()??;
    let names = known["space"]["order"].as_array()?.iter();
    Some(
        names
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect(),
    )
}

fn recorded_json(ordinal: usize, recorded: &Recorded) -> Value {
    let outcome = &recorded.outcome;
    json!({
        "trial": ordinal,
        "results": recorded.results,
        "constants": recorded.values,
        "state": outcome.end.name(),
        "why": outcome.end.why(),
        "step": outcome.step,
        "values": outcome.values.iter().map(Measured::to_json).collect::<Vec<_>>(),
        "seconds": json_of(Number::Real(outcome.seconds)),
    })
}

/// The ordinal of a trial and how it ended; `None` for what has another form.
fn recorded_of(object: &Value) -> Option<(usize, Recorded)> {
    let why = || Some(object["why"].as_str()?.to_owned());
    let end = match object["state"].as_str()? {
        "finished" => TrialEnd::Finished(why()?),
        "failed" => TrialEnd::Failed(why()?),
        "interrupted" => TrialEnd::Interrupted,
        _ => return None,
    };
    let values = object["values"].as_array()?.iter();
    let outcome = Outcome {
        end,
        step: object["step"].as_u64(),
        values: values.map(Measured::from_json).collect::<Option<_>>()?,
        seconds: real(&object["seconds"])?,
    };
    let recorded = Recorded {
        results: object["results"].as_str()?.to_owned(),
        values: object["constants"].clone(),
        outcome,
    };
    let ordinal = object["trial"].as_u64()?;
    Some((usize::try_from(ordinal).ok()?, recorded))
}

/// What a folder says about its sweep; `None` where there is none.
fn read(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<Value>, Failure> {
    let file = path.join(SWEEP_FILE);
    let bytes = match storage.read(&file) {
        Ok(bytes) => bytes,
        Err(_) if !storage.exists(&file) => return Ok(None),
        Err(e) => return Err(failed("read it", &file, &e)),
    };
    let known: Value =
        serde_json::from_slice(&bytes).map_err(|e| damaged(&file, &e.to_string()))?;
    Ok(Some(known))
}

fn damaged(file: &Path, why: &str) -> Failure {
    Failure::input(format!("{}: it is damaged: {why}", file.display()))
        .help("`--fresh` moves the folder aside and starts over")
}

/// Compares a sweep with the one that is in its folder; gives the outcomes of that.
fn compare(
    path: &Path,
    known: &Value,
    description: &Description,
    plan: &Plan,
) -> Result<Vec<Option<Recorded>>, Failure> {
    let refused = |what: String| {
        let message = format!("{} belongs to another sweep: {what}", path.display());
        Failure::input(message)
            .help("`--fresh` moves that sweep aside and starts over; another `--dir` keeps both")
    };
    if known["format"] != json!(FORMAT) {
        return Err(refused(format!(
            "its {SWEEP_FILE} has the format {}, and this program reads {FORMAT}",
            known["format"]
        )));
    }
    for (section, now) in [
        ("space", &description.space),
        ("options", &description.options),
    ] {
        if let Some(what) = difference(&known[section], now) {
            return Err(refused(what));
        }
    }
    let now = Identity {
        canonical: description.canonical.clone(),
        hash: String::new(),
    };
    if let Some(lines) = now.difference(known["canonical"].as_str().unwrap_or_default()) {
        return Err(refused(format!("the spec now has {lines}")));
    }
    let mut outcomes: Vec<Option<Recorded>> = Vec::new();
    for object in known["trials"].as_array().into_iter().flatten() {
        let file = path.join(SWEEP_FILE);
        let (ordinal, recorded) =
            recorded_of(object).ok_or_else(|| damaged(&file, "a trial has another form"))?;
        if ordinal as u64 >= super::space::MAX_TRIALS {
            return Err(damaged(&file, "there are too many trials"));
        }
        if plan
            .trials
            .get(ordinal)
            .is_some_and(|now| now.results != recorded.results)
        {
            return Err(refused(format!("trial {ordinal:03} was of another spec")));
        }
        if outcomes.len() <= ordinal {
            outcomes.resize(ordinal + 1, None);
        }
        outcomes[ordinal] = Some(recorded);
    }
    Ok(outcomes)
}

/// What differs between two descriptions, at the first place by name.
fn difference(before: &Value, now: &Value) -> Option<String> {
    if before == now {
        return None;
    }
    let (Some(a), Some(b)) = (before.as_object(), now.as_object()) else {
        return Some("its description is another one".to_owned());
    };
    let names = b
        .keys()
        .chain(a.keys().filter(|name| !b.contains_key(*name)));
    for name in names {
        let (before, now) = (a.get(name), b.get(name));
        if before == now {
            continue;
        }
        if let (Some(before @ Value::Object(_)), Some(now @ Value::Object(_))) = (before, now) {
            return difference(before, now);
        }
        let shown = |value: Option<&Value>| match value {
            None | Some(Value::Null) => "not given".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        return Some(format!(
            "`{name}` is {}, and was {}",
            shown(now),
            shown(before)
        ));
    }
    None
}

/// Locks a folder, with the id of this process in the lock; fails where another one has it.
fn lock(storage: &Arc<dyn Storage>, path: &Path) -> Result<Box<dyn Lock>, Failure> {
    let file = path.join(LOCK_FILE);
    for i in 0..=LOCK_RETRIES {
        if i > 0 {
            std::thread::sleep(LOCK_PAUSE);
        }
        let lock = storage.try_lock(&file);
        if let Some(mut lock) = lock.map_err(|e| failed("lock it", &file, &e))? {
            let id = std::process::id().to_string();
            lock.write(&id).map_err(|e| failed("write it", &file, &e))?;
            return Ok(lock);
        }
    }
    let owner = storage.read(&file).unwrap_or_default();
    let message = format!(
        "{} is in use by another sweep (process {})",
        path.display(),
        String::from_utf8_lossy(&owner).trim()
    );
    Err(Failure::input(message)
        .help("wait for it, stop it, or give another folder: `--dir FOLDER`"))
}

/// Removes what a sweep that was killed while it wrote has left.
fn remove_temporaries(storage: &Arc<dyn Storage>, path: &Path) -> Result<(), Failure> {
    let names = storage
        .list(path)
        .map_err(|e| failed("list it", path, &e))?;
    for name in names.iter().filter(|name| is_temporary(name)) {
        let file = path.join(name);
        storage
            .remove_file(&file)
            .map_err(|e| failed("remove it", &file, &e))?;
    }
    Ok(())
}

/// Gives a folder another name, and says which.
pub(super) fn move_aside(path: &Path) -> Result<PathBuf, Failure> {
    let storage = storage::local();
    let aside = free_name(&storage, path);
    let moved = storage.rename(path, &aside);
    moved.map_err(|e| failed("move it aside", path, &e))?;
    Ok(aside)
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
        .unwrap_or_else(|| path.to_owned())
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::output(format!("{}: cannot {doing}: {error}", path.display()))
}
