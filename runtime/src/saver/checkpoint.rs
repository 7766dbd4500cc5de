//! Object-based checkpoints (`tf.train.Checkpoint`) of a state.
//!
//! In: a state and records. Out: a bundle with an object graph, in which the object of a variable is its name split at `/`; and the
//! reverse. Leaves alone: retention, which is the manager's.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use trainspec_formats::checkpoint::object::{VARIABLE_VALUE, value_key};
use trainspec_formats::checkpoint::{CheckpointReader, PathStyle};
use trainspec_formats::storage::{self, Storage};

use crate::saver::files::{self, Files, Named, StateTimes, folder_of, suffixed};
use crate::saver::tensors::Stored;
use crate::saver::{Records, RestoreOptions, RestorePlan, VarList};
use crate::{Code, Error, State};

/// The only device that does input and output.
const LOCAL_DEVICE: &str = "/job:localhost";

/// How a checkpoint is written and read (`tf.train.CheckpointOptions`).
///
/// ```
/// use trainspec::saver::{Checkpoint, CheckpointOptions};
///
/// let options = CheckpointOptions { enable_async: true, ..CheckpointOptions::default() };
/// assert!(Checkpoint::new(options)?.save_counter() == 0);
/// let elsewhere = CheckpointOptions { experimental_io_device: Some("/job:ps".into()), ..CheckpointOptions::default() };
/// assert!(Checkpoint::new(elsewhere).is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// The device that accesses the file system: `None` or `/job:localhost`, as every device here is of this process.
    pub experimental_io_device: Option<String>,
    /// Whether files are written by another thread, from a copy of the state. An error is returned by the next save, or by `sync`.
    pub enable_async: bool,
}

impl CheckpointOptions {
    fn check(&self) -> Result<(), Error> {
        match self.experimental_io_device.as_deref() {
            None | Some(LOCAL_DEVICE) => Ok(()),
            Some(other) => Err(Error::new(
                Code::Unimplemented,
                format!(
                    "`experimental_io_device` is `{other}`, and files are accessed from `{LOCAL_DEVICE}`"
                ),
            )),
        }
    }
}

/// Saves and restores a state as objects (`tf.train.Checkpoint`), and counts its saves.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Checkpoint, CheckpointOptions, Records};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-checkpoint-{}", std::process::id()));
/// let mut state: State = [("dense/kernel".to_owned(), Tensor::scalar(2.0_f32))].into_iter().collect();
/// let mut checkpoint = Checkpoint::new(CheckpointOptions::default())?;
/// let path = checkpoint.save(&state, &Records::default(), &folder.join("ckpt"))?;
/// assert!(path.ends_with("ckpt-1"));
/// let mut other = Checkpoint::new(CheckpointOptions::default())?;
/// other.restore(&mut state, &path)?.assert_consumed()?;
/// assert_eq!(other.save_counter(), 1);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    storage: Arc<dyn Storage>,
    options: CheckpointOptions,
    save_counter: u64,
    /// The save that another thread is doing.
    pending: Option<JoinHandle<Result<(), Error>>>,
}

impl Checkpoint {
    /// A checkpoint that was never saved.
    pub fn new(options: CheckpointOptions) -> Result<Checkpoint, Error> {
        Checkpoint::new_in(&storage::local(), options)
    }

    /// A checkpoint in another storage.
    pub fn new_in(
        storage: &Arc<dyn Storage>,
        options: CheckpointOptions,
    ) -> Result<Checkpoint, Error> {
        options.check()?;
        Ok(Checkpoint {
            storage: storage.clone(),
            options,
            save_counter: 0,
            pending: None,
        })
    }

    /// How often it was saved, in this process and those it was restored from.
    pub fn save_counter(&self) -> u64 {
        self.save_counter
    }

    /// Writes `prefix` without counting it or listing it in a state file. The folder is made if it is not there.
    pub fn write(
        &mut self,
        state: &State,
        records: &Records,
        prefix: &Path,
    ) -> Result<PathBuf, Error> {
        self.write_then(state, records, prefix, || Ok(()))?;
        Ok(prefix.to_owned())
    }

    /// Writes `prefix-COUNTER` and makes it the newest in the state file of its folder, which then lists it alone.
    pub fn save(
        &mut self,
        state: &State,
        records: &Records,
        prefix: &Path,
    ) -> Result<PathBuf, Error> {
        self.count();
        let path = suffixed(prefix, &format!("-{}", self.save_counter));
        let (storage, listed) = (self.storage.clone(), path.clone());
        self.write_then(state, records, &path, move || {
            let (times, style) = (StateTimes::None, PathStyle::Relative);
            let folder = folder_of(&listed);
            Files(&storage).write_state(folder, None, &listed, &[], times, style)
        })?;
        Ok(path)
    }

    /// Restores a state from a checkpoint of any format. Variables that are missing in it keep their values; the status says which. A
    /// variable of another type is an error, and the state is as it was.
    pub fn read(&self, state: &mut State, path: &Path) -> Result<RestoreStatus, Error> {
        let reader = Files(&self.storage).open(path)?;
        self.read_from(state, path, &reader)
    }

    /// [`read`](Checkpoint::read), and takes the counter of saves.
    pub fn restore(&mut self, state: &mut State, path: &Path) -> Result<RestoreStatus, Error> {
        let reader = Files(&self.storage).open(path)?;
        let counter = counter_of(&reader)?;
        let status = self.read_from(state, path, &reader)?;
        self.save_counter = counter.unwrap_or(self.save_counter);
        Ok(status)
    }

    /// Waits for a save that another thread is doing; returns its error.
    pub fn sync(&mut self) -> Result<(), Error> {
        match self.pending.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(done)) => done,
            Some(Err(_)) => Err(Error::new(
                Code::Internal,
                "the thread that wrote the checkpoint panicked",
            )),
        }
    }

    /// Counts a save.
    pub(super) fn count(&mut self) {
        self.save_counter += 1;
    }

    /// Writes a checkpoint and then does something with it, here or in another thread.
    pub(super) fn write_then(
        &mut self,
        state: &State,
        records: &Records,
        prefix: &Path,
        then: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        self.sync()?;
        let counter = self.save_counter as i64;
        if !self.options.enable_async {
            write(&self.storage, state, records, prefix, counter)?;
            return then();
        }
        // Mistakes of the caller are reported at once.
        VarList::All.resolve(state)?;
        let (state, records, prefix) = (state.clone(), records.clone(), prefix.to_owned());
        let storage = self.storage.clone();
        let thread = std::thread::Builder::new().name("checkpoint".to_owned());
        let started = thread.spawn(move || {
            write(&storage, &state, &records, &prefix, counter)?;
            then()
        });
        self.pending = Some(started.map_err(Error::other)?);
        Ok(())
    }

    fn read_from(
        &self,
        state: &mut State,
        path: &Path,
        reader: &CheckpointReader,
    ) -> Result<RestoreStatus, Error> {
        let mut plan = RestorePlan::of(state, path, reader, &RestoreOptions::default())?;
        if !plan.changed.is_empty() {
            // What is missing is no error here.
            plan.missing.clear();
            plan.require_complete()?;
        }
        let records = files::records(reader)?;
        plan.run(state, reader)?;
        Ok(RestoreStatus {
            plan,
            records,
            partial: false,
        })
    }
}

impl Drop for Checkpoint {
    /// Waits for a save that another thread is doing. Its error is lost: call [`Checkpoint::sync`] before.
    fn drop(&mut self) {
        let _ = self.sync();
    }
}

/// Writes the files of a checkpoint.
fn write(
    storage: &Arc<dyn Storage>,
    state: &State,
    records: &Records,
    prefix: &Path,
    counter: i64,
) -> Result<(), Error> {
    let pairs = VarList::All.resolve(state)?;
    if state.index_of("save_counter").is_some() {
        return Err(Error::new(
            Code::InvalidArgument,
            "a variable is called `save_counter`, as the counter of a checkpoint is",
        ));
    }
    let stored: Vec<(&str, Stored<'_>)> = pairs
        .iter()
        .map(|(key, variable)| {
            let value = state.get(variable).expect("the list names variables");
            Ok((key.as_str(), Stored::new(value)?))
        })
        .collect::<Result<_, Error>>()?;
    let tensors: Vec<Named<'_>> = stored.iter().map(|(key, one)| (*key, one.view())).collect();
    Files(storage).make_folder(folder_of(prefix))?;
    Files(storage).write_objects(prefix, &tensors, records, counter)
}

/// The counter of saves in a checkpoint, where it has one.
fn counter_of(reader: &CheckpointReader) -> Result<Option<u64>, Error> {
    let key = value_key("save_counter", VARIABLE_VALUE);
    if !reader.has_tensor(&key) {
        return Ok(None);
    }
    let value = reader.get_tensor(&key)?.to_vec::<i64>()?;
    match value[..] {
        [count] if count >= 0 => Ok(Some(count as u64)),
        _ => Err(Error::new(
            Code::DataLoss,
            "the `save_counter` of the checkpoint is no number of saves",
        )),
    }
}

/// What a restore of objects matched.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Checkpoint, CheckpointOptions, Records};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-status-{}", std::process::id()));
/// let one = |name: &str| (name.to_owned(), Tensor::scalar(2.0_f32));
/// let both: State = [one("a"), one("b")].into_iter().collect();
/// let mut checkpoint = Checkpoint::new(CheckpointOptions::default())?;
/// let path = checkpoint.write(&both, &Records::default(), &folder.join("ckpt"))?;
/// let mut state: State = [one("a")].into_iter().collect();
/// let status = checkpoint.read(&mut state, &path)?;
/// status.assert_existing_objects_matched()?;
/// assert!(status.assert_consumed().unwrap_err().to_string().contains("`b"));
/// assert!(status.expect_partial().warning().is_none());
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreStatus {
    /// What was done with every variable.
    pub plan: RestorePlan,
    /// The records of the checkpoint.
    pub records: Records,
    partial: bool,
}

impl RestoreStatus {
    /// Every variable was restored, and every value of the checkpoint was used.
    pub fn assert_consumed(&self) -> Result<&RestoreStatus, Error> {
        self.assert_existing_objects_matched()?;
        match self.plan.left_over.is_empty() {
            true => Ok(self),
            false => Err(Error::new(
                Code::FailedPrecondition,
                format!(
                    "{} has values that no variable takes: {}",
                    self.plan.path.display(),
                    quoted(self.plan.left_over.iter())
                ),
            )),
        }
    }

    /// Every variable was restored; values of the checkpoint may be left over.
    pub fn assert_existing_objects_matched(&self) -> Result<&RestoreStatus, Error> {
        match self.plan.missing.is_empty() {
            true => Ok(self),
            false => self.plan.require_complete().map(|()| self),
        }
    }

    /// What is left over is expected: there is no [`warning`](RestoreStatus::warning).
    pub fn expect_partial(mut self) -> RestoreStatus {
        self.partial = true;
        self
    }

    /// What a program should say about a restore that nobody asserted: what is missing or left over.
    pub fn warning(&self) -> Option<String> {
        let missing = self.plan.missing.iter().map(|one| &one.variable);
        let unused = self.plan.left_over.iter();
        match (missing.len(), unused.len()) {
            _ if self.partial => None,
            (0, 0) => None,
            (0, _) => Some(format!("values were not used: {}", quoted(unused))),
            (_, 0) => Some(format!("variables were not restored: {}", quoted(missing))),
            _ => Some(format!(
                "variables were not restored: {}; values were not used: {}",
                quoted(missing),
                quoted(unused)
            )),
        }
    }
}

impl fmt::Display for RestoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
