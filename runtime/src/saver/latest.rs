//! The newest complete checkpoint of a folder.
//!
//! In: a folder. Out: the prefix of the newest checkpoint whose files are all there and pass their checksums, and what was skipped on
//! the way, with the reason. Leaves alone: the files; nothing is repaired or deleted.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_formats::checkpoint::CheckpointLocation;
use trainspec_formats::files::is_temporary;

use trainspec_formats::storage::Storage;

use crate::saver::files::{Files, state_file};
use crate::{Code, Error};

/// The newest complete checkpoint of a folder, and what was skipped.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{NewestCheckpoint, Records, Saver, SaverOptions};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-latest-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let state: State = [("w".to_owned(), Tensor::scalar(2.0_f32))].into_iter().collect();
/// let mut saver = Saver::new(SaverOptions::default())?;
/// let first = saver.save(&state, &Records::default(), &folder.join("model"), Some(1))?;
/// saver.save(&state, &Records::default(), &folder.join("model"), Some(2))?;
/// std::fs::write(folder.join("model-2.data-00000-of-00001"), "damage").unwrap();
/// let newest = NewestCheckpoint::find(&folder, None)?;
/// assert_eq!(newest.path, Some(first));
/// assert!(newest.skipped[0].path.ends_with("model-2"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct NewestCheckpoint {
    /// Its prefix; `None` where the folder has no complete checkpoint.
    pub path: Option<PathBuf>,
    /// Newer ones that cannot be used, and a state file that cannot be read.
    pub skipped: Vec<Skipped>,
}

/// A checkpoint or a state file that was passed over, or that could not be deleted.
///
/// ```
/// use trainspec::saver::Skipped;
/// use trainspec::{Code, Error};
///
/// let one = Skipped { path: "run/model-7".into(), reason: Error::new(Code::DataLoss, "a checksum is wrong") };
/// assert_eq!(one.to_string(), "run/model-7: a checksum is wrong");
/// ```
#[derive(Debug, Clone)]
pub struct Skipped {
    /// Its prefix, or the path of the file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: Error,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason) = (self.path.display().to_string(), self.reason.to_string());
        match reason.starts_with(&path) {
            true => f.write_str(&reason),
            false => write!(f, "{path}: {reason}"),
        }
    }
}

impl NewestCheckpoint {
    /// Looks for it: first by the state file (`checkpoint`, or another name), from the newest backwards; then, if none of those is
    /// complete or there is no list, among the files of the folder, from the highest step downwards.
    ///
    /// All of a candidate is read once to compare its checksums. A folder that is not there has no checkpoint.
    pub fn find(folder: &Path, file: Option<&str>) -> Result<NewestCheckpoint, Error> {
        NewestCheckpoint::find_in(Files::local().0, folder, file)
    }

    /// As [`NewestCheckpoint::find`], in another storage.
    pub fn find_in(
        storage: &Arc<dyn Storage>,
        folder: &Path,
        file: Option<&str>,
    ) -> Result<NewestCheckpoint, Error> {
        let files = Files(storage);
        let mut newest = NewestCheckpoint::default();
        for listed in newest.listed(files, folder, state_file(file)) {
            if let Some(path) = newest.locate(files, folder, &listed)
                && newest.accept(files, path)
            {
                return Ok(newest);
            }
        }
        for path in in_folder(files, folder)? {
            let tried = newest.skipped.iter().any(|one| one.path == path);
            if !tried && newest.accept(files, path) {
                break;
            }
        }
        Ok(newest)
    }

    /// Itself, unless all that was found is damaged: that must not be taken for a folder without a checkpoint, or a run would begin again
    /// in the place of the one that is there.
    pub(crate) fn unless_all_damaged(self) -> Result<NewestCheckpoint, Error> {
        match (&self.path, self.skipped.first()) {
            (None, Some(first)) => {
                let message = format!("no checkpoint can be used: {first}");
                Err(Error::new(Code::DataLoss, message))
            }
            _ => Ok(self),
        }
    }

    /// The paths in a state file, the newest first.
    fn listed(&mut self, files: Files<'_>, folder: &Path, file: &str) -> Vec<String> {
        let state = match files.read_state(folder, file) {
            Ok(state) => state,
            Err(e) => {
                if e.code() != Code::NotFound {
                    self.skip(folder.join(file), e);
                }
                return Vec::new();
            }
        };
        let first = state.model_checkpoint_path;
        if first.is_empty() {
            let cause = "it does not say which checkpoint is the newest";
            self.skip(folder.join(file), Error::new(Code::DataLoss, cause));
        }
        let others = state.all_model_checkpoint_paths.into_iter().rev();
        let others = others.filter(|path| *path != first && !path.is_empty());
        let mut all: Vec<String> = others.collect();
        if !first.is_empty() {
            all.insert(0, first);
        }
        all
    }

    /// Where a listed checkpoint is: where its path says, or beside the state file if the folder was moved.
    fn locate(&mut self, files: Files<'_>, folder: &Path, listed: &str) -> Option<PathBuf> {
        let path = folder.join(listed);
        match files.locate(folder, listed) {
            CheckpointLocation::Present => return Some(path),
            CheckpointLocation::Outside => {
                let cause = format!("the path `{listed}` leads out of the folder");
                self.skip(path, Error::new(Code::InvalidArgument, cause));
                return None;
            }
            CheckpointLocation::Missing => {}
        }
        let beside = folder.join(path.file_name()?);
        if beside != path && files.exists(&beside) {
            return Some(beside);
        }
        // The data files of a bundle may be there without their index: opening it names the missing file.
        let reason = match files.open_prefix(&path) {
            Err(e) => e,
            Ok(_) => return Some(path),
        };
        self.skip(path, reason);
        None
    }

    /// Whether a checkpoint is complete; if not, it is skipped.
    fn accept(&mut self, files: Files<'_>, path: PathBuf) -> bool {
        match files.verify(&path) {
            Ok(()) => {
                self.path = Some(path);
                true
            }
            Err(e) => {
                self.skip(path, e);
                false
            }
        }
    }

    fn skip(&mut self, path: PathBuf, reason: Error) {
        self.skipped.push(Skipped { path, reason });
    }
}

/// The prefixes of all checkpoints in a folder by the names of its files: the highest step first, of one step the last written first.
fn in_folder(files: Files<'_>, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let names = files.list(folder)?;
    let names = names.iter().filter(|name| !is_temporary(name));
    let names: Vec<&str> = names.filter_map(|name| name.to_str()).collect();
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for name in &names {
        let prefix = match name.strip_suffix(".index") {
            Some(prefix) => prefix.to_owned(),
            None if name.ends_with(".safetensors") => (*name).to_owned(),
            // The data of a bundle. An interrupted save leaves it without its index, which is written last: that is no checkpoint.
            None if name.contains(".data-") => continue,
            // One table of the first version, or a set of them; only names with a step, so that no other file is opened.
            None => match name.rsplit_once("-of-") {
                Some((front, count)) if is_number(count) => match front.rsplit_once('-') {
                    Some((prefix, shard)) if is_number(shard) => {
                        format!("{prefix}-?????-of-{count}")
                    }
                    _ => continue,
                },
                _ if step_of(name).is_some() => (*name).to_owned(),
                _ => continue,
            },
        };
        let prefix = folder.join(prefix);
        if !prefixes.contains(&prefix) && !files.is_folder(&prefix) {
            prefixes.push(prefix);
        }
    }
    let mut found = files.modified(&prefixes)?;
    found.sort_by(|a, b| {
        let step = |path: &Path| step_of(&path.to_string_lossy());
        let steps = step(&b.path).cmp(&step(&a.path));
        steps
            .then(b.time.total_cmp(&a.time))
            .then(b.path.cmp(&a.path))
    });
    Ok(found.into_iter().map(|one| one.path).collect())
}

/// The step at the end of a prefix: `model.ckpt-100` has 100.
pub(crate) fn step_of(prefix: &str) -> Option<u64> {
    let prefix = prefix.strip_suffix(".safetensors").unwrap_or(prefix);
    let prefix = match prefix.split_once("-?????-of-") {
        Some((front, _)) => front,
        None => prefix,
    };
    let (_, step) = prefix.rsplit_once('-')?;
    is_number(step).then(|| step.parse().ok()).flatten()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
