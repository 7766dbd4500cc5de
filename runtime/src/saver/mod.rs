//! Saving and restoring: `Saver`, `Checkpoint`, `CheckpointManager`, retention, the newest complete checkpoint, warm starts.
//!
//! In: a [`State`] and [`Records`], prefixes and folders. Out: checkpoints that TensorFlow reads, and states restored from those it
//! wrote. Values whose names begin with `#` are scratch and never reach a file. Leaves alone: sessions; when a checkpoint is due.
//!
//! The order on disk: data files, index, each synced and renamed; the folder is synced; then the `checkpoint` state file; then what
//! retention drops is deleted. The index commits a checkpoint: before its rename there is none, after it there is all of it.

mod background;
mod checkpoint;
mod files;
mod init_from_checkpoint;
mod latest;
mod manager;
mod options;
mod records;
mod restore;
mod resume;
mod retention;
mod tensors;
mod var_list;
mod vocabulary;
mod warm_start;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_formats::checkpoint::PathStyle;
use trainspec_formats::clock::{Clock, SystemClock};
use trainspec_formats::storage::{self, Storage};

pub(crate) use background::BackgroundSaver;
pub use checkpoint::{Checkpoint, CheckpointOptions, RestoreStatus};
pub use init_from_checkpoint::{init_from_checkpoint, init_from_checkpoint_in};
pub(crate) use latest::step_of;
pub use latest::{NewestCheckpoint, Skipped};
pub use manager::{CheckpointManager, ManagerOptions, ManagerRestored};
pub use options::{Format, SaverOptions};
pub use records::{RECORDS_KEY, Records};
pub use restore::{
    Assignment, ChangedType, MissingKey, RestoreOptions, RestorePlan, Restored, Strictness,
    restore, restore_in,
};
pub(crate) use resume::{HELD_RECORD, OTHER_MODEL, records_in, restore_run_in};
pub use retention::{ManagerRetention, Retained, SaverRetention};
pub use var_list::VarList;
pub(crate) use var_list::is_scratch;
pub use vocabulary::{Backup, VocabInfo, Vocabulary};
pub use warm_start::{WarmStart, WarmStartNames, warm_start, warm_start_in};

use crate::{Code, Error, State};
use files::{Files, Named, StateTimes, folder_of};
use tensors::Stored;
pub(crate) use tensors::file_type;

/// A clock that a saver may take to another thread.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::saver::{Saver, SaverOptions, SharedClock};
/// use trainspec_formats::clock::FixedClock;
///
/// let clock: SharedClock = Arc::new(FixedClock { unix_seconds: 1.5e9 });
/// assert!(Saver::with_clock(SaverOptions::default(), clock).is_ok());
/// ```
pub type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Saves and restores a state by names (`tf.compat.v1.train.Saver`).
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Records, Saver, SaverOptions};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-saver-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let mut state: State = [
///     ("w".to_owned(), Tensor::new(&[2], vec![1.0_f32, 2.0])),
///     ("global_step".to_owned(), Tensor::scalar(7_i64)),
/// ].into_iter().collect();
/// let mut saver = Saver::new(SaverOptions { max_to_keep: Some(2), ..SaverOptions::default() })?;
/// let path = saver.save(&state, &Records::default(), &folder.join("model.ckpt"), Some(7))?;
/// assert!(path.ends_with("model.ckpt-7"));
/// state.set(0, Tensor::new(&[2], vec![0.0_f32, 0.0]));
/// saver.restore(&mut state, &path)?;
/// assert_eq!(state.get("w").unwrap().values::<f32>(), Some(&[1.0, 2.0][..]));
/// assert_eq!(saver.last_checkpoints(), [path]);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct Saver {
    storage: Arc<dyn Storage>,
    options: SaverOptions,
    retention: SaverRetention,
    clock: SharedClock,
    /// Deletions that failed are tried again with the next ones.
    undeleted: Vec<PathBuf>,
    failed_deletions: Vec<Skipped>,
}

impl Saver {
    /// A saver with the clock of the system.
    pub fn new(options: SaverOptions) -> Result<Saver, Error> {
        Saver::with_clock(options, Arc::new(SystemClock::default()))
    }

    /// A saver into another storage.
    pub fn new_in(storage: &Arc<dyn Storage>, options: SaverOptions) -> Result<Saver, Error> {
        let mut saver = Saver::new(options)?;
        saver.storage = storage.clone();
        Ok(saver)
    }

    /// A saver into another storage, with another clock.
    pub fn with_clock_in(
        storage: &Arc<dyn Storage>,
        options: SaverOptions,
        clock: SharedClock,
    ) -> Result<Saver, Error> {
        let mut saver = Saver::with_clock(options, clock)?;
        saver.storage = storage.clone();
        Ok(saver)
    }

    /// A saver with another clock. The intervals of `keep_checkpoint_every_n_hours` begin now.
    pub fn with_clock(options: SaverOptions, clock: SharedClock) -> Result<Saver, Error> {
        options.check()?;
        let hours = options.keep_checkpoint_every_n_hours;
        Ok(Saver {
            storage: storage::local(),
            retention: SaverRetention::new(options.max_to_keep, hours, clock.unix_seconds()),
            options,
            clock,
            undeleted: Vec::new(),
            failed_deletions: Vec::new(),
        })
    }

    /// The options.
    pub fn options(&self) -> &SaverOptions {
        &self.options
    }

    /// Writes a checkpoint called `prefix`, or `prefix-STEP` with a step, and then the state file of its folder; returns the path by which
    /// it is restored. Checkpoints that retention drops are deleted when all of that is safe.
    ///
    /// An error before the checkpoint is complete leaves all files as they were. If the state file cannot be written, the new checkpoint
    /// stays, and nothing is deleted. A deletion that fails is no error: [`take_failed_deletions`](Saver::take_failed_deletions).
    pub fn save(
        &mut self,
        state: &State,
        records: &Records,
        prefix: &Path,
        global_step: Option<u64>,
    ) -> Result<PathBuf, Error> {
        let prefix = match (prefix.as_os_str().is_empty(), &self.options.filename) {
            (false, _) => prefix.to_owned(),
            (true, Some(filename)) => filename.clone(),
            (true, None) => {
                let cause = "there is neither a prefix nor a `filename` to save to";
                return Err(Error::new(Code::InvalidArgument, cause));
            }
        };
        let path = self.options.checkpoint_path(&prefix, global_step)?;
        let pairs = self.options.var_list.resolve(state)?;
        if pairs.is_empty() && !self.options.allow_empty {
            return Err(Error::new(Code::InvalidArgument, "no variables to save")
                .help("set `allow_empty` if a checkpoint without variables is meant"));
        }
        let folder = folder_of(&prefix);
        if self.options.create_folder {
            Files(&self.storage).make_folder(folder)?;
        } else if !Files(&self.storage).is_folder(folder) {
            return Err(Error::new(
                Code::InvalidArgument,
                format!(
                    "the parent folder of {} does not exist, so it cannot be saved",
                    prefix.display()
                ),
            )
            .help("make the folder, or set `create_folder`"));
        }
        let stored: Vec<(&str, Stored<'_>)> = pairs
            .iter()
            .map(|(key, variable)| {
                let value = state.get(variable).expect("the list names variables");
                Ok((key.as_str(), Stored::new(value)?))
            })
            .collect::<Result<_, Error>>()?;
        let tensors: Vec<Named<'_>> = stored.iter().map(|(key, one)| (*key, one.view())).collect();
        let options = &self.options;
        let path = Files(&self.storage).write(
            &path,
            options.format,
            options.sharded,
            &tensors,
            records,
        )?;
        if self.options.write_state {
            self.record(folder, &path)?;
        }
        Ok(path)
    }

    /// Lists a new checkpoint in the state file, and then deletes what retention drops.
    fn record(&mut self, folder: &Path, path: &Path) -> Result<(), Error> {
        let mut retention = self.retention.clone();
        let dropped = retention.record(path, self.clock.unix_seconds());
        let style = match self.options.save_relative_paths {
            true => PathStyle::Relative,
            false => PathStyle::AsGiven,
        };
        let file = self.options.latest_filename.as_deref();
        let listed = retention.listed();
        Files(&self.storage).write_state(folder, file, path, listed, StateTimes::None, style)?;
        self.retention = retention;
        self.undeleted.retain(|old| old != path);
        self.undeleted.extend(dropped);
        let failed = delete_all(Files(&self.storage), &mut self.undeleted);
        self.failed_deletions.extend(failed);
        Ok(())
    }

    /// Restores the variables of the saver from a checkpoint: all or none. Keys of the checkpoint may be left over.
    pub fn restore(&self, state: &mut State, path: &Path) -> Result<Restored, Error> {
        let options = RestoreOptions {
            var_list: self.options.var_list.clone(),
            reshape: self.options.reshape,
            ..RestoreOptions::default()
        };
        restore_in(&self.storage, state, path, &options)
    }

    /// The checkpoints that retention may still drop, the oldest first. Those that stay for good are not listed; with `max_to_keep` of 0
    /// none is.
    pub fn last_checkpoints(&self) -> Vec<PathBuf> {
        let listed = self.retention.listed().iter();
        listed.map(|one| one.path.clone()).collect()
    }

    /// Replaces the list of checkpoints by some of unknown age: they are never deleted.
    pub fn set_last_checkpoints(&mut self, paths: &[PathBuf]) {
        let listed = paths.iter().map(|path| Retained {
            path: path.clone(),
            time: f64::INFINITY,
        });
        self.retention.set_listed(listed.collect());
    }

    /// Replaces the list of checkpoints, with the time of each: they are deleted as if this saver had written them.
    pub fn set_last_checkpoints_with_time(&mut self, listed: Vec<Retained>) {
        self.retention.set_listed(listed);
    }

    /// Replaces the list of checkpoints, usually by that of the state file after a restart, with the times of their files. Those that are
    /// not there are left out.
    pub fn recover_last_checkpoints(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        self.retention
            .set_listed(Files(&self.storage).modified(paths)?);
        Ok(())
    }

    /// Goes on with the list of the folder's state file after a restart, without the checkpoints that were skipped.
    pub(crate) fn recover_folder(
        &mut self,
        folder: &Path,
        newest: &NewestCheckpoint,
    ) -> Result<(), Error> {
        let Ok(Some(state)) = Files(&self.storage).state(folder) else {
            return Ok(());
        };
        let listed = state.all_model_checkpoint_paths.into_iter();
        let listed = listed.map(PathBuf::from);
        let usable = listed.filter(|path| !newest.skipped.iter().any(|one| one.path == *path));
        let usable: Vec<PathBuf> = usable.collect();
        self.recover_last_checkpoints(&usable)
    }

    /// The deletions that failed since this was last asked, with their reasons. Each is tried again after the next save.
    pub fn take_failed_deletions(&mut self) -> Vec<Skipped> {
        std::mem::take(&mut self.failed_deletions)
    }
}

impl fmt::Debug for Saver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saver")
            .field("options", &self.options)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

/// Deletes checkpoints; those that cannot be deleted stay in the list, and are returned with the reason.
fn delete_all(files: Files<'_>, paths: &mut Vec<PathBuf>) -> Vec<Skipped> {
    let mut failed = Vec::new();
    paths.retain(|path| match files.remove(path) {
        Ok(()) => false,
        Err(reason) => {
            failed.push(Skipped {
                path: path.clone(),
                reason,
            });
            true
        }
    });
    failed
}
