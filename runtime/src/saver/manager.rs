//! `CheckpointManager`: numbered checkpoints of a folder, of which the newest are kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainspec_compiler::lower::GLOBAL_STEP;
use trainspec_formats::checkpoint::PathStyle;
use trainspec_formats::clock::SystemClock;
use trainspec_formats::storage::{self, Storage};

use crate::saver::files::{Files, StateTimes};
use crate::saver::{
    Checkpoint, CheckpointOptions, ManagerRetention, NewestCheckpoint, Records, RestoreStatus,
    Retained, SharedClock, Skipped, delete_all,
};
use crate::{Code, Error, State};

/// The arguments of `tf.train.CheckpointManager`.
///
/// ```
/// use trainspec::saver::ManagerOptions;
///
/// let options = ManagerOptions { max_to_keep: Some(3), ..ManagerOptions::default() };
/// assert_eq!(options.checkpoint_name, "ckpt");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ManagerOptions {
    /// How many of the newest checkpoints are kept; `None` keeps and lists all. TensorFlow has no default.
    pub max_to_keep: Option<u32>,
    /// Of the older ones, each is kept for good that is this many hours younger than the last one kept.
    pub keep_checkpoint_every_n_hours: Option<f64>,
    /// The name before the number.
    pub checkpoint_name: String,
    /// The variable that counts steps, for `checkpoint_interval`.
    pub step_counter: Option<String>,
    /// The minimum number of steps between two checkpoints; `None` saves whenever asked.
    pub checkpoint_interval: Option<u64>,
    /// How each is written.
    pub checkpoint: CheckpointOptions,
}

impl Default for ManagerOptions {
    fn default() -> ManagerOptions {
        ManagerOptions {
            max_to_keep: Some(5),
            keep_checkpoint_every_n_hours: None,
            checkpoint_name: "ckpt".to_owned(),
            step_counter: Some(GLOBAL_STEP.to_owned()),
            checkpoint_interval: None,
            checkpoint: CheckpointOptions::default(),
        }
    }
}

/// Keeps the newest checkpoints of a folder (`tf.train.CheckpointManager`).
///
/// The state file holds the time of each checkpoint, so that a manager that is made again goes on where the last one ended.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{CheckpointManager, ManagerOptions, Records};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-manager-{}", std::process::id()));
/// let mut state: State = [("w".to_owned(), Tensor::scalar(2.0_f32))].into_iter().collect();
/// let options = ManagerOptions { max_to_keep: Some(2), ..ManagerOptions::default() };
/// let mut manager = CheckpointManager::new(&folder, options.clone())?;
/// assert!(manager.restore_or_initialize(&mut state, |_| Ok(()))?.is_none());
/// for _ in 0..3 {
///     manager.save(&state, &Records::default(), None)?;
/// }
/// assert_eq!(manager.checkpoints(), [folder.join("ckpt-2"), folder.join("ckpt-3")]);
/// let mut again = CheckpointManager::new(&folder, options)?;
/// let restored = again.restore_or_initialize(&mut state, |_| Ok(()))?.unwrap();
/// assert_eq!(restored.path, folder.join("ckpt-3"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct CheckpointManager {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    options: ManagerOptions,
    checkpoint: Checkpoint,
    clock: SharedClock,
    last_checkpoint_step: Option<i64>,
    /// Shared with the thread that writes.
    list: Arc<Mutex<List>>,
}

/// The checkpoints of the folder.
#[derive(Debug)]
struct List {
    retention: ManagerRetention,
    latest: Option<PathBuf>,
    undeleted: Vec<PathBuf>,
    failed_deletions: Vec<Skipped>,
}

/// What a manager restored.
///
/// ```
/// use trainspec::saver::ManagerRestored;
///
/// fn report(restored: &ManagerRestored) {
///     for one in &restored.skipped {
///         eprintln!("warning: skipped {one}");
///     }
///     println!("{}", restored.status);
/// }
/// # let _ = report;
/// ```
#[derive(Debug, Clone)]
pub struct ManagerRestored {
    /// The checkpoint.
    pub path: PathBuf,
    /// What was matched, and the records.
    pub status: RestoreStatus,
    /// Newer checkpoints that are damaged, to be reported.
    pub skipped: Vec<Skipped>,
}

impl CheckpointManager {
    /// A manager with the clock of the system.
    pub fn new(folder: &Path, options: ManagerOptions) -> Result<CheckpointManager, Error> {
        CheckpointManager::new_in(&storage::local(), folder, options)
    }

    /// A manager of a folder in another storage.
    pub fn new_in(
        storage: &Arc<dyn Storage>,
        folder: &Path,
        options: ManagerOptions,
    ) -> Result<CheckpointManager, Error> {
        let clock = Arc::new(SystemClock::default());
        CheckpointManager::with_clock_in(storage, folder, options, clock)
    }

    /// A manager with another clock. It reads the state file of the folder, if there is one.
    pub fn with_clock(
        folder: &Path,
        options: ManagerOptions,
        clock: SharedClock,
    ) -> Result<CheckpointManager, Error> {
        CheckpointManager::with_clock_in(&storage::local(), folder, options, clock)
    }

    /// A manager of a folder in another storage, with another clock.
    pub fn with_clock_in(
        storage: &Arc<dyn Storage>,
        folder: &Path,
        options: ManagerOptions,
        clock: SharedClock,
    ) -> Result<CheckpointManager, Error> {
        let invalid = |cause: String| Err(Error::new(Code::InvalidArgument, cause));
        if options.max_to_keep == Some(0) {
            return invalid("`max_to_keep` is 0, and must be positive or `None`".to_owned());
        }
        if options.checkpoint_interval.is_some() && options.step_counter.is_none() {
            return invalid(
                "`checkpoint_interval` is set, and there is no `step_counter`".to_owned(),
            );
        }
        let name = &options.checkpoint_name;
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return invalid(format!(
                "`checkpoint_name` is `{name}`, and must be the name of a file"
            ));
        }
        let hours = options.keep_checkpoint_every_n_hours;
        if hours.is_some_and(|hours| !(hours >= 0.0 && hours.is_finite())) {
            return invalid(format!(
                "`keep_checkpoint_every_n_hours` is {}, and must be a number of hours",
                hours.unwrap_or_default()
            ));
        }
        let now = clock.unix_seconds();
        let mut retention = ManagerRetention::new(options.max_to_keep, hours, now);
        let mut latest = None;
        if let Some(state) = Files(storage).state(folder)? {
            let preserved = state.last_preserved_timestamp;
            let times = state.all_model_checkpoint_timestamps;
            let paths = state.all_model_checkpoint_paths.into_iter();
            let listed = paths.enumerate().filter_map(|(i, path)| {
                let time = match times.is_empty() {
                    true => preserved,
                    false => *times.get(i)?,
                };
                let path = PathBuf::from(path);
                Some(Retained { path, time })
            });
            retention.recover(listed.collect(), preserved, now);
            latest = Some(PathBuf::from(state.model_checkpoint_path));
        }
        Ok(CheckpointManager {
            storage: storage.clone(),
            folder: folder.to_owned(),
            checkpoint: Checkpoint::new_in(storage, options.checkpoint.clone())?,
            options,
            clock,
            last_checkpoint_step: None,
            list: Arc::new(Mutex::new(List {
                retention,
                latest,
                undeleted: Vec::new(),
                failed_deletions: Vec::new(),
            })),
        })
    }

    /// Saves a checkpoint called after the number, or after the counter of saves, and deletes what is too much. `None` if the last one is
    /// less than `checkpoint_interval` steps old.
    pub fn save(
        &mut self,
        state: &State,
        records: &Records,
        checkpoint_number: Option<u64>,
    ) -> Result<Option<PathBuf>, Error> {
        let Some(interval) = self.options.checkpoint_interval else {
            return self.save_now(state, records, checkpoint_number).map(Some);
        };
        let step = self.step(state)?;
        let last = self.last_checkpoint_step;
        if last.is_some_and(|last| step.saturating_sub(last) < interval as i64) {
            return Ok(None);
        }
        self.save_now(state, records, checkpoint_number).map(Some)
    }

    /// Saves a checkpoint, whatever the `checkpoint_interval` is (`check_interval=False`).
    pub fn save_now(
        &mut self,
        state: &State,
        records: &Records,
        checkpoint_number: Option<u64>,
    ) -> Result<PathBuf, Error> {
        let step = match self.options.checkpoint_interval {
            Some(_) => Some(self.step(state)?),
            None => None,
        };
        self.checkpoint.count();
        let number = checkpoint_number.unwrap_or(self.checkpoint.save_counter());
        let name = format!("{}-{number}", self.options.checkpoint_name);
        let path = self.folder.join(name);
        let (list, folder) = (self.list.clone(), self.folder.clone());
        let (clock, saved) = (self.clock.clone(), path.clone());
        let storage = self.storage.clone();
        self.checkpoint.write_then(state, records, &path, move || {
            lock(&list).record(Files(&storage), &folder, &saved, clock.unix_seconds())
        })?;
        self.last_checkpoint_step = step;
        Ok(path)
    }

    /// Restores the newest complete checkpoint; without one, calls `init` and returns `None`.
    pub fn restore_or_initialize(
        &mut self,
        state: &mut State,
        init: impl FnOnce(&mut State) -> Result<(), Error>,
    ) -> Result<Option<ManagerRestored>, Error> {
        self.checkpoint.sync()?;
        let newest = NewestCheckpoint::find_in(&self.storage, &self.folder, None)?;
        let newest = newest.unless_all_damaged()?;
        let Some(path) = newest.path else {
            init(state)?;
            return Ok(None);
        };
        let status = self.checkpoint.restore(state, &path)?;
        if self.options.checkpoint_interval.is_some() {
            self.last_checkpoint_step = Some(self.step(state)?);
        }
        Ok(Some(ManagerRestored {
            path,
            status,
            skipped: newest.skipped,
        }))
    }

    /// The checkpoint that was saved last, here or by an earlier process.
    pub fn latest_checkpoint(&self) -> Option<PathBuf> {
        lock(&self.list).latest.clone()
    }

    /// The checkpoints that are managed, the oldest first. Those kept for good are not listed.
    pub fn checkpoints(&self) -> Vec<PathBuf> {
        let list = lock(&self.list);
        let listed = list.retention.listed().iter();
        listed.map(|one| one.path.clone()).collect()
    }

    /// The folder.
    pub fn directory(&self) -> &Path {
        &self.folder
    }

    /// The options.
    pub fn options(&self) -> &ManagerOptions {
        &self.options
    }

    /// The checkpoint that counts the saves.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Waits for a save that another thread is doing; returns its error.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.checkpoint.sync()
    }

    /// The deletions that failed since this was last asked, with their reasons. Each is tried again after the next save.
    pub fn take_failed_deletions(&mut self) -> Vec<Skipped> {
        std::mem::take(&mut lock(&self.list).failed_deletions)
    }

    /// The value of the step counter.
    fn step(&self, state: &State) -> Result<i64, Error> {
        let name = self.options.step_counter.as_deref().unwrap_or(GLOBAL_STEP);
        let value = state.get(name);
        let step = value.filter(|v| v.shape().is_empty());
        match step.and_then(|v| v.values::<i64>()) {
            Some(step) => Ok(step[0]),
            None => Err(Error::new(
                Code::InvalidArgument,
                match value {
                    Some(v) => format!("the step counter `{name}` is {}, and must be i64", v.ty()),
                    None => format!("the state has no step counter `{name}`"),
                },
            )),
        }
    }
}

impl List {
    /// Lists a new checkpoint, and then deletes what is too much.
    fn record(
        &mut self,
        files: Files<'_>,
        folder: &Path,
        path: &Path,
        now: f64,
    ) -> Result<(), Error> {
        let mut retention = self.retention.clone();
        retention.record(path, now);
        write_state(files, folder, path, &retention)?;
        self.latest = Some(path.to_owned());
        self.retention = retention.clone();
        // Deleted ones stay listed until they are deleted, so that a crash in between forgets none.
        let dropped = retention.sweep();
        self.undeleted.retain(|old| old != path);
        self.undeleted.extend(dropped);
        self.failed_deletions
            .extend(delete_all(files, &mut self.undeleted));
        if retention != self.retention {
            write_state(files, folder, path, &retention)?;
            self.retention = retention;
        }
        Ok(())
    }
}

fn write_state(
    files: Files<'_>,
    folder: &Path,
    newest: &Path,
    retention: &ManagerRetention,
) -> Result<(), Error> {
    let times = StateTimes::All {
        last_preserved: retention.last_preserved(),
    };
    let style = PathStyle::Relative;
    files.write_state(folder, None, newest, retention.listed(), times, style)
}

/// The list; a thread that panicked left it as it was.
fn lock(list: &Mutex<List>) -> MutexGuard<'_, List> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for CheckpointManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointManager")
            .field("folder", &self.folder)
            .field("options", &self.options)
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}
