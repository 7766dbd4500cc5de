//! Runs in a folder: what `run.json`, the lock, checkpoints and event files say about each.
//!
//! In: a folder. Out: a description of each run below it, and its removal. Leaves alone: folders that are no runs, and everything in a run
//! but the files that it is removed with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
pub use trainspec_compiler::typed::is_minimized;
use trainspec_formats::storage::{self, FileType};
use trainspec_formats::{FileKind, FormatError};

use crate::curves::{Curve, Curves};
use crate::env::Storage;
use crate::run_folder::{LOCK_FILE, RUN_FILE, SPEC_FILE};
use crate::{Code, Error};

/// A run, as its folder describes it.
///
/// ```
/// use trainspec::runs::RunSummary;
///
/// // A folder without a `run.json` is no run.
/// assert!(RunSummary::of(&std::env::temp_dir().join("no-such-run")).is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// The folder.
    pub path: PathBuf,
    /// The name of the spec.
    pub spec: String,
    /// What it is doing, or how it ended.
    pub state: RunState,
    /// The step of the newest checkpoint, or at which it ended.
    pub step: Option<u64>,
    /// When anything in the folder was last written.
    pub modified: Option<SystemTime>,
    /// The bytes of all files in the folder.
    pub bytes: u64,
    /// What its `checkpoint` hook calls the best.
    chosen: Option<Chosen>,
    /// The settings that `run.json` holds: seed, constants, threads, version, machine.
    pub settings: Vec<(String, String)>,
    /// The text of the spec.
    pub text: String,
    /// The scalars of its event files.
    pub curves: Vec<Curve>,
}

/// What a run is doing, or how it ended.
///
/// ```
/// use trainspec::runs::RunState;
///
/// assert_eq!(RunState::Finished("steps".to_owned()).name(), "finished");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// A process is training.
    Running {
        /// Its id, where the lock says it.
        process: Option<u32>,
    },
    /// It ended by itself: by the name of the reason, as `--format json` has it.
    Finished(String),
    /// It was stopped or killed, and can be resumed.
    Interrupted,
    /// It ended with an error.
    Failed(String),
}

impl RunState {
    /// The name in JSON output.
    pub fn name(&self) -> &'static str {
        match self {
            RunState::Running { .. } => "running",
            RunState::Finished(_) => "finished",
            RunState::Interrupted => "interrupted",
            RunState::Failed(_) => "failed",
        }
    }
}

/// A metric of an evaluation by which a run keeps its best checkpoint.
#[derive(Debug, Clone, PartialEq)]
struct Chosen {
    metric: String,
    /// As [`Curve::evaluation`].
    evaluation: String,
    is_minimum: bool,
}

impl Chosen {
    fn of(known: &Value) -> Option<Chosen> {
        let best = &known["best"];
        Some(Chosen {
            metric: best["metric"].as_str()?.to_owned(),
            evaluation: best["eval"].as_str().unwrap_or("eval").to_owned(),
            is_minimum: best["mode"] == "min",
        })
    }
}

/// The best value of a metric over the steps of a run.
///
/// ```
/// use trainspec::runs::BestValue;
///
/// let best = BestValue { metric: "loss".to_owned(), evaluation: None, value: 0.25, step: 20, is_minimum: true };
/// assert!(best.is_minimum && best.value < 0.5);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BestValue {
    /// The metric.
    pub metric: String,
    /// The evaluation that measured it; `None` for values of training steps.
    pub evaluation: Option<String>,
    /// The value.
    pub value: f64,
    /// The step.
    pub step: i64,
    /// Whether smaller values are better.
    pub is_minimum: bool,
}

/// The depth to which runs are looked for.
const MAX_DEPTH: usize = 8;

impl RunSummary {
    /// The runs in a folder and below it, by path.
    ///
    /// ```
    /// use trainspec::runs::{RunState, RunSummary};
    /// use trainspec::{Event, Options, check, train};
    ///
    /// let folder = std::env::temp_dir().join(format!("trainspec-runs-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).map_err(trainspec::Error::other)?;
    /// std::fs::write(folder.join("points.csv"), "1,2\n2,4\n").map_err(trainspec::Error::other)?;
    /// let spec = check("line", r#"
    ///     spec line;
    ///     data points { source csv("points.csv"); feature x: f32; feature y: f32; repeat; batch 2; }
    ///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
    ///     train { data points; optimizer gradient_descent(0.1); steps 4; }
    /// "#)?;
    /// let options = Options { folder: folder.clone(), dir: Some(folder.join("run")), ..Options::default() };
    /// train(&spec, &options, &mut |_: &Event| {})?;
    ///
    /// let runs = RunSummary::below(&folder)?;
    /// assert_eq!((runs[0].spec.as_str(), runs[0].step), ("line", Some(4)));
    /// assert_eq!(runs[0].state, RunState::Finished("steps".to_owned()));
    /// # std::fs::remove_dir_all(folder).map_err(trainspec::Error::other)?;
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn below(folder: &Path) -> Result<Vec<RunSummary>, Error> {
        let storage = storage::local();
        let failed = |e| FormatError::io(FileKind::Other, "list it", e).in_file(folder);
        storage.list(folder).map_err(failed)?;
        let mut runs = Vec::new();
        collect(&storage, folder, MAX_DEPTH, &mut runs);
        Ok(runs)
    }

    /// The run in a folder; an error where it is none.
    pub fn of(path: &Path) -> Result<RunSummary, Error> {
        RunSummary::read(&storage::local(), path)
    }

    fn read(storage: &Arc<dyn Storage>, path: &Path) -> Result<RunSummary, Error> {
        let file = path.join(RUN_FILE);
        let bytes = storage.read(&file).map_err(|e| {
            let message = format!(
                "{} is no folder of a run: it has no `{RUN_FILE}` ({e})",
                path.display()
            );
            Error::new(Code::NotFound, message).help("`trainspec runs` lists the runs in a folder")
        })?;
        // A damaged description is still a run that can be listed and removed.
        let known: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let curves = Curves::read_in(storage, path).unwrap_or_default();
        let (bytes, modified) = size(storage, path, MAX_DEPTH);
        let text = storage.read(&path.join(SPEC_FILE)).unwrap_or_default();
        let saved = curves.checkpoints.last().copied();
        let saved = saved.and_then(|step| u64::try_from(step).ok());
        let ended = known["end"]["step"].as_u64();
        Ok(RunSummary {
            path: path.to_owned(),
            spec: known["spec"].as_str().unwrap_or_default().to_owned(),
            state: state(storage, path, &known),
            step: saved.max(ended),
            modified,
            bytes,
            settings: settings(&known),
            chosen: Chosen::of(&known),
            text: String::from_utf8_lossy(&text).into_owned(),
            curves: curves.curves,
        })
    }

    /// The best value of a metric, or where none is given of the one that is most telling: the `best` of its `checkpoint` hook, else a
    /// metric of an evaluation, else a loss. Losses and errors are minimized. Evaluations come before training steps.
    pub fn best(&self, metric: Option<&str>) -> Option<BestValue> {
        let chosen = self.chosen.as_ref();
        let chosen = chosen.filter(|chosen| metric.is_none_or(|metric| metric == chosen.metric));
        let metric = metric.or(chosen.map(|chosen| chosen.metric.as_str()));
        let named = |curve: &&Curve| metric.is_none_or(|name| curve.tag == name);
        let candidates = self.curves.iter().filter(named);
        let candidates = candidates.filter(|curve| is_telling(curve) || metric.is_some());
        let order = |curve: &&Curve| {
            let is_evaluated = curve.evaluation.is_some();
            let is_other = chosen
                .is_some_and(|chosen| curve.evaluation.as_deref() != Some(&chosen.evaluation));
            (
                !is_evaluated,
                is_other,
                is_evaluated && is_minimized(&curve.tag),
            )
        };
        let curve = candidates.min_by_key(order)?;
        let is_minimum =
            chosen.map_or_else(|| is_minimized(&curve.tag), |chosen| chosen.is_minimum);
        let finite = curve.points.iter().filter(|(_, value)| value.is_finite());
        let (step, value) = *match is_minimum {
            true => finite.min_by(|a, b| a.1.total_cmp(&b.1))?,
            // The first of equal ones.
            false => finite.rev().max_by(|a, b| a.1.total_cmp(&b.1))?,
        };
        Some(BestValue {
            metric: curve.tag.clone(),
            evaluation: curve.evaluation.clone(),
            value,
            step,
            is_minimum,
        })
    }

    /// Removes the folder with all that is in it. Fails where a process trains there.
    pub fn remove(&self) -> Result<(), Error> {
        let storage = storage::local();
        let failed = |e| FormatError::io(FileKind::Other, "remove it", e).in_file(&self.path);
        let lock = storage
            .try_lock(&self.path.join(LOCK_FILE))
            .map_err(failed)?;
        if lock.is_none() {
            let message = format!("{} is in use by a run", self.path.display());
            return Err(Error::new(Code::FailedPrecondition, message).help("stop it first"));
        }
        std::fs::remove_dir_all(&self.path).map_err(failed)?;
        Ok(())
    }
}

/// Whether a process has the lock of a folder: it trains there.
///
/// ```
/// use trainspec::runs::is_running;
///
/// assert!(!is_running(&std::env::temp_dir().join("no-such-run")));
/// ```
pub fn is_running(folder: &Path) -> bool {
    storage::local().is_locked(&folder.join(LOCK_FILE))
}

/// Whether a curve says how good a model is: measured by an evaluation, or a loss.
fn is_telling(curve: &Curve) -> bool {
    curve.evaluation.is_some() || curve.tag.contains("loss")
}

fn collect(storage: &Arc<dyn Storage>, path: &Path, depth: usize, runs: &mut Vec<RunSummary>) {
    if storage.is_file(&path.join(RUN_FILE)) {
        runs.extend(RunSummary::read(storage, path));
        return;
    }
    for name in storage.list(path).unwrap_or_default() {
        let folder = path.join(&name);
        if depth > 0 && storage.is_dir(&folder) {
            collect(storage, &folder, depth - 1, runs);
        }
    }
}

fn state(storage: &Arc<dyn Storage>, path: &Path, known: &Value) -> RunState {
    let lock = path.join(LOCK_FILE);
    if storage.is_locked(&lock) {
        let owner = storage.read(&lock).unwrap_or_default();
        let owner = String::from_utf8_lossy(&owner).trim().parse().ok();
        return RunState::Running { process: owner };
    }
    match known["end"]["why"].as_str() {
        None | Some("stopped") => RunState::Interrupted,
        Some("failed") => {
            let error = known["end"]["error"].as_str().unwrap_or_default();
            RunState::Failed(error.to_owned())
        }
        Some(why) => RunState::Finished(why.to_owned()),
    }
}

/// The settings of a description, by name.
fn settings(known: &Value) -> Vec<(String, String)> {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut settings: Vec<(String, String)> = Vec::new();
    let constants = known["constants"].as_object();
    for (name, value) in constants.into_iter().flatten() {
        settings.push((format!("const {name}"), shown(value)));
    }
    for name in ["seed", "until", "threads", "trainspec", "machine"] {
        if !known[name].is_null() {
            settings.push((name.to_owned(), shown(&known[name])));
        }
    }
    let data = known["data"].as_object();
    for (file, about) in data.into_iter().flatten() {
        let value = format!(
            "{} bytes, crc32c {}",
            shown(&about["bytes"]),
            shown(&about["crc32c"])
        );
        settings.push((format!("data {file}"), value));
    }
    settings
}

/// The bytes of all files below a folder, and when the last was written. Links are not followed into folders.
fn size(storage: &Arc<dyn Storage>, path: &Path, depth: usize) -> (u64, Option<SystemTime>) {
    let (mut bytes, mut modified) = (0_u64, None);
    for name in storage.list(path).unwrap_or_default() {
        let inner = path.join(&name);
        let Ok(about) = storage.metadata(&inner) else {
            continue;
        };
        match about.file_type {
            FileType::File => {
                bytes = bytes.saturating_add(about.length);
                // A lock is touched by whoever looks at it.
                if name != LOCK_FILE {
                    modified = modified.max(about.modified);
                }
            }
            FileType::Dir if depth > 0 => {
                let (inside, last) = size(storage, &inner, depth - 1);
                bytes = bytes.saturating_add(inside);
                modified = modified.max(last);
            }
            _ => {}
        }
    }
    (bytes, modified)
}
