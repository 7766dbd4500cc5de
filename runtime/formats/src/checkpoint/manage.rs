//! Checkpoint management, the helpers of `tf.train`: `latest_checkpoint`, `list_variables`, the `checkpoint` state file.
//!
//! In: folders and prefixes. Out: paths, lists of variables, the `checkpoint` file. They do what TensorFlow's functions of the same
//! names do, except that a `checkpoint` file cannot lead out of its folder by a relative path: such paths are written as absolute ones, and
//! are not followed where others wrote them (path traversal).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::checkpoint::bundle::{data_files_in, index_path, with_suffix};
use crate::checkpoint::paths::{matching, relative_to};
use crate::checkpoint::{CheckpointReader, CheckpointState, Tensor};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{self, Durability};
use crate::storage::{self, Storage};

/// The name of the file that lists the checkpoints of a folder, where no other is given.
pub const STATE_FILE: &str = "checkpoint";

/// The checkpoints that a `checkpoint` file lists.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CheckpointList<'a> {
    /// The newest.
    pub newest: &'a str,
    /// All, the oldest first. The newest is added at the end if it is not there.
    pub all: &'a [&'a str],
    /// When each was written, in seconds since the Unix epoch; none, or one for each of all.
    pub timestamps: &'a [f64],
    /// When the last preserved checkpoint was written (`last_preserved_timestamp`).
    pub last_preserved: Option<f64>,
}

/// How paths are written into a `checkpoint` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathStyle {
    /// Absolute ones as they are; where the folder is relative, relative ones as seen from it.
    #[default]
    AsGiven,
    /// Absolute ones as seen from the folder too, so that the folder can be moved.
    Relative,
}

/// The `CheckpointState` of a folder (`tf.compat.v1.train.generate_checkpoint_state_proto`).
///
/// ```
/// use trainspec_formats::checkpoint::{CheckpointList, generate_checkpoint_state_proto};
///
/// let listed = CheckpointList { newest: "run/model.ckpt-7", ..CheckpointList::default() };
/// let state = generate_checkpoint_state_proto("run".as_ref(), &listed)?;
/// assert_eq!(state.model_checkpoint_path, "model.ckpt-7");
/// assert_eq!(state.all_model_checkpoint_paths, ["model.ckpt-7"]);
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn generate_checkpoint_state_proto(
    folder: &Path,
    listed: &CheckpointList<'_>,
) -> Result<CheckpointState> {
    let seen = |path: &str| match folder.is_absolute() || Path::new(path).is_absolute() {
        true => Ok(path.to_owned()),
        false => utf8_path(relative_to(Path::new(path), folder)),
    };
    state_of(listed, seen)
}

/// The `CheckpointState` of some checkpoints, with each path mapped by `seen`.
fn state_of(
    listed: &CheckpointList<'_>,
    seen: impl Fn(&str) -> Result<String>,
) -> Result<CheckpointState> {
    let mut all = listed.all.to_vec();
    if all.last() != Some(&listed.newest) {
        all.push(listed.newest);
    }
    if !listed.timestamps.is_empty() && listed.timestamps.len() != all.len() {
        return Err(FormatError::invalid(
            FileKind::CheckpointState,
            format!(
                "{} timestamps for {} checkpoints",
                listed.timestamps.len(),
                all.len()
            ),
        ));
    }
    Ok(CheckpointState {
        model_checkpoint_path: seen(listed.newest)?,
        all_model_checkpoint_paths: all.into_iter().map(seen).collect::<Result<_>>()?,
        all_model_checkpoint_timestamps: listed.timestamps.to_vec(),
        last_preserved_timestamp: listed.last_preserved.unwrap_or(0.0),
    })
}

/// Writes the `checkpoint` file of a folder atomically (`tf.compat.v1.train.update_checkpoint_state`).
///
/// A path that would lead out of the folder is written as an absolute one, whatever the style; TensorFlow begins it with `..`.
pub fn update_checkpoint_state(
    folder: &Path,
    listed: &CheckpointList<'_>,
    file: Option<&str>,
    style: PathStyle,
    durability: Durability,
) -> Result<()> {
    update_checkpoint_state_in(&storage::local(), folder, listed, file, style, durability)
}

/// [`update_checkpoint_state`] in any storage.
pub fn update_checkpoint_state_in(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    listed: &CheckpointList<'_>,
    file: Option<&str>,
    style: PathStyle,
    durability: Durability,
) -> Result<()> {
    let path = folder.join(file.unwrap_or(STATE_FILE));
    let state = state_of(listed, |path| stored_path(storage, folder, path, style))?;
    if path == Path::new(&state.model_checkpoint_path) {
        return Err(FormatError::invalid(
            FileKind::CheckpointState,
            "the checkpoint and the file that lists checkpoints have the same path",
        )
        .in_file(path));
    }
    let text = state.to_text();
    files::replace_in(
        storage,
        FileKind::CheckpointState,
        &path,
        text.as_bytes(),
        durability,
    )
}

/// A path as the `checkpoint` file of a folder has it.
fn stored_path(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    path: &str,
    style: PathStyle,
) -> Result<String> {
    let given = Path::new(path);
    let seen = match (given.is_absolute(), folder.is_absolute()) {
        (true, _) if style == PathStyle::AsGiven => return Ok(path.to_owned()),
        (false, true) => given.to_owned(),
        (true, _) | (false, false) => relative_to(given, folder),
    };
    if files::stays_inside_in(storage, folder, &seen) {
        return utf8_path(seen);
    }
    // As it was given, and not normalized: a symbolic link may lead elsewhere.
    match (given.is_absolute(), folder.is_absolute()) {
        (true, _) => Ok(path.to_owned()),
        (false, true) => utf8_path(folder.join(given)),
        (false, false) => {
            let here = std::env::current_dir().map_err(|e| {
                FormatError::io(FileKind::CheckpointState, "find the working folder", e)
            })?;
            utf8_path(here.join(given))
        }
    }
}

/// The `CheckpointState` of a folder, with paths joined to the folder (`tf.train.get_checkpoint_state`).
///
/// `None` if there is no such file or it cannot be read; [`CheckpointState::read`] says why. A file that names no checkpoint, or as the
/// newest a relative path that leads out of the folder, is an error; others that lead out are dropped, with their timestamps. Paths are
/// UTF-8 strings here: where the name of the folder is not, [`latest_checkpoint`] still finds the newest.
pub fn get_checkpoint_state(folder: &Path, file: Option<&str>) -> Result<Option<CheckpointState>> {
    get_checkpoint_state_in(&storage::local(), folder, file)
}

/// [`get_checkpoint_state`] in any storage.
pub fn get_checkpoint_state_in(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    file: Option<&str>,
) -> Result<Option<CheckpointState>> {
    let Some(mut state) = read_state(storage, folder, file)? else {
        return Ok(None);
    };
    let whole = |path: &str| folder.join(path).to_string_lossy().into_owned();
    state.model_checkpoint_path = whole(&state.model_checkpoint_path);
    let inside: Vec<bool> = state
        .all_model_checkpoint_paths
        .iter()
        .map(|path| is_followed(storage, folder, path))
        .collect();
    if state.all_model_checkpoint_timestamps.len() == inside.len() {
        let mut kept = inside.iter();
        let times = &mut state.all_model_checkpoint_timestamps;
        times.retain(|_| kept.next() == Some(&true));
    }
    let paths = std::mem::take(&mut state.all_model_checkpoint_paths);
    let kept = paths.iter().zip(&inside).filter(|(_, inside)| **inside);
    state.all_model_checkpoint_paths = kept.map(|(path, _)| whole(path)).collect();
    Ok(Some(state))
}

/// The prefix of the newest checkpoint in a folder, if its files are there (`tf.train.latest_checkpoint`).
pub fn latest_checkpoint(folder: &Path, file: Option<&str>) -> Result<Option<PathBuf>> {
    latest_checkpoint_in(&storage::local(), folder, file)
}

/// [`latest_checkpoint`] in any storage.
pub fn latest_checkpoint_in(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    file: Option<&str>,
) -> Result<Option<PathBuf>> {
    let state = read_state(storage, folder, file)?;
    let newest = state.map(|state| folder.join(state.model_checkpoint_path));
    Ok(newest.filter(|prefix| checkpoint_exists_in(storage, prefix)))
}

/// What the `checkpoint` file of a folder says about its newest checkpoint.
#[derive(Debug)]
pub enum Latest {
    /// It names one that is there.
    Listed(PathBuf),
    /// It names one that is not there.
    Missing {
        /// The path as the file has it.
        listed: String,
        /// The checkpoint of this name beside the file, if there is one: paths are absolute, and the folder was moved.
        beside: Option<PathBuf>,
    },
    /// It cannot be read, names no checkpoint, or one outside of the folder.
    Broken(FormatError),
    /// There is no such file.
    Unlisted,
}

/// The newest checkpoint of a folder by its `checkpoint` file, or why that names none that is there. [`latest_checkpoint`] is TensorFlow's
/// form of it, which does not say why.
pub fn find_latest(folder: &Path) -> Latest {
    find_latest_in(&storage::local(), folder)
}

/// [`find_latest`] in any storage.
pub fn find_latest_in(storage: &Arc<dyn Storage>, folder: &Path) -> Latest {
    let path = folder.join(STATE_FILE);
    let state = match CheckpointState::read_in(storage, &path) {
        Ok(state) => state,
        Err(e) if e.code == Code::NotFound => return Latest::Unlisted,
        Err(e) => return Latest::Broken(e),
    };
    let state = match followed(storage, folder, &path, state) {
        Ok(state) => state,
        Err(e) => return Latest::Broken(e),
    };
    let listed = state.model_checkpoint_path;
    let prefix = folder.join(&listed);
    if checkpoint_exists_in(storage, &prefix) {
        return Latest::Listed(prefix);
    }
    let beside = prefix.file_name().map(|name| folder.join(name));
    Latest::Missing {
        listed,
        beside: beside.filter(|prefix| checkpoint_exists_in(storage, prefix)),
    }
}

/// The `CheckpointState` of a folder, with paths as they are written; it has a newest one, which does not lead out of the folder.
fn read_state(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    file: Option<&str>,
) -> Result<Option<CheckpointState>> {
    let path = folder.join(file.unwrap_or(STATE_FILE));
    match CheckpointState::read_in(storage, &path) {
        Ok(state) => followed(storage, folder, &path, state).map(Some),
        Err(_) => Ok(None),
    }
}

/// A `CheckpointState` whose newest checkpoint may be followed; else why not.
fn followed(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    path: &Path,
    state: CheckpointState,
) -> Result<CheckpointState> {
    let newest = &state.model_checkpoint_path;
    let cause = match newest.is_empty() {
        true => "it does not say which checkpoint is the newest".to_owned(),
        false if is_followed(storage, folder, newest) => return Ok(state),
        false => format!("the path `{newest}` leads out of the folder"),
    };
    Err(FormatError::invalid(FileKind::CheckpointState, cause).in_file(path))
}

/// Whether a path in a `checkpoint` file is followed: it is absolute, or stays in the folder.
fn is_followed(storage: &Arc<dyn Storage>, folder: &Path, path: &str) -> bool {
    let path = Path::new(path);
    path.is_absolute() || files::stays_inside_in(storage, folder, path)
}

/// Where a checkpoint named by a `checkpoint` file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointLocation {
    /// Where the path says: in the folder or below it, or wherever an absolute path leads.
    Present,
    /// Not where the path says.
    Missing,
    /// Outside of the folder, to which a relative path leads: nothing is looked for there.
    Outside,
}

/// Locates a checkpoint named by the `checkpoint` file of a folder.
pub fn locate_checkpoint(folder: &Path, prefix: &str) -> CheckpointLocation {
    locate_checkpoint_in(&storage::local(), folder, prefix)
}

/// [`locate_checkpoint`] in any storage.
pub fn locate_checkpoint_in(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    prefix: &str,
) -> CheckpointLocation {
    match is_followed(storage, folder, prefix) {
        false => CheckpointLocation::Outside,
        true if checkpoint_exists_in(storage, &folder.join(prefix)) => CheckpointLocation::Present,
        true => CheckpointLocation::Missing,
    }
}

/// Whether there is a checkpoint with this prefix, of either version (`tf.compat.v1.train.checkpoint_exists`).
pub fn checkpoint_exists(prefix: &Path) -> bool {
    checkpoint_exists_in(&storage::local(), prefix)
}

/// [`checkpoint_exists`] in any storage.
pub fn checkpoint_exists_in(storage: &Arc<dyn Storage>, prefix: &Path) -> bool {
    file_of(&**storage, prefix).is_some()
}

/// When each checkpoint was written, of those that exist (`tf.compat.v1.train.get_checkpoint_mtimes`).
pub fn get_checkpoint_mtimes<P: AsRef<Path>>(prefixes: &[P]) -> Result<Vec<SystemTime>> {
    get_checkpoint_mtimes_in(&storage::local(), prefixes)
}

/// [`get_checkpoint_mtimes`] in any storage.
pub fn get_checkpoint_mtimes_in<P: AsRef<Path>>(
    storage: &Arc<dyn Storage>,
    prefixes: &[P],
) -> Result<Vec<SystemTime>> {
    let found = prefixes
        .iter()
        .filter_map(|prefix| file_of(&**storage, prefix.as_ref()));
    found
        .map(|path| {
            let found = storage.metadata(&path);
            found
                .and_then(|found| found.modified.ok_or(io::ErrorKind::Unsupported.into()))
                .map_err(|e| FormatError::io(FileKind::Other, "find its time", e).in_file(&path))
        })
        .collect()
}

/// The version of a checkpoint's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// One table, or several (`SaverDef.V1`).
    V1,
    /// An index and data files, a tensor bundle (`SaverDef.V2`).
    #[default]
    V2,
}

/// Removes the files of a checkpoint, and its meta graph, whose suffix is usually `.meta`
/// (`tf.compat.v1.train.remove_checkpoint`). Files that do not exist are no error.
pub fn remove_checkpoint(prefix: &Path, version: Version, graph_suffix: &str) -> Result<()> {
    remove_checkpoint_in(&storage::local(), prefix, version, graph_suffix)
}

/// [`remove_checkpoint`] in any storage.
pub fn remove_checkpoint_in(
    storage: &Arc<dyn Storage>,
    prefix: &Path,
    version: Version,
    graph_suffix: &str,
) -> Result<()> {
    let graph = match prefix.file_name().and_then(|name| name.to_str()) {
        Some(name) => prefix.with_file_name(without_shards(name)),
        None => prefix.to_owned(),
    };
    let graph = with_suffix(&graph, &format!(".{graph_suffix}"));
    let mut paths = match version {
        // The index goes first: without it, the rest is no checkpoint. Names are compared literally, so that nothing else is removed.
        Version::V2 => {
            let mut paths = vec![index_path(prefix)];
            paths.extend(
                data_files_in(storage, prefix)
                    .into_iter()
                    .map(|(path, _)| path),
            );
            paths
        }
        Version::V1 => matching(&**storage, prefix),
    };
    paths.push(graph);
    for path in paths {
        match storage.remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(FormatError::io(FileKind::Other, "remove it", e).in_file(path));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens a checkpoint, or the newest of a folder (`tf.train.load_checkpoint`).
pub fn load_checkpoint(path: &Path) -> Result<CheckpointReader> {
    CheckpointReader::open(path)
}

/// Opens the checkpoint with a prefix (`tf.compat.v1.train.NewCheckpointReader`).
pub fn new_checkpoint_reader(prefix: &Path) -> Result<CheckpointReader> {
    CheckpointReader::open_prefix(prefix)
}

/// The value of a variable (`tf.train.load_variable`). A suffix `:0` of its name is ignored.
pub fn load_variable(path: &Path, name: &str) -> Result<Tensor> {
    let name = name.strip_suffix(":0").unwrap_or(name);
    load_checkpoint(path)?.get_tensor(name)
}

/// The names and shapes of all variables, by name (`tf.train.list_variables`).
pub fn list_variables(path: &Path) -> Result<Vec<(String, Vec<usize>)>> {
    let reader = load_checkpoint(path)?;
    let listed = reader.entries();
    Ok(listed
        .map(|(name, _, shape)| (name.to_owned(), shape.to_vec()))
        .collect())
}

/// The file whose existence shows that a checkpoint exists.
fn file_of(storage: &dyn Storage, prefix: &Path) -> Option<PathBuf> {
    let index = matching(storage, &index_path(prefix));
    let mut found = match index.is_empty() {
        true => matching(storage, prefix),
        false => index,
    };
    (!found.is_empty()).then(|| found.swap_remove(0))
}

/// A prefix without `-00001-of-00002` or `-?????-of-00002` at its end.
fn without_shards(prefix: &str) -> &str {
    let digits = |text: &str, also: char| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == also)
    };
    let cut = prefix.rsplit_once("-of-").and_then(|(front, count)| {
        let (name, shard) = front.rsplit_once('-')?;
        (digits(count, '0') && digits(shard, '?')).then_some(name)
    });
    cut.unwrap_or(prefix)
}

/// Paths in a `checkpoint` file are UTF-8 strings.
fn utf8_path(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().map_err(|path| {
        let cause = "its path is not UTF-8, as a list of checkpoints requires";
        FormatError::invalid(FileKind::CheckpointState, cause).in_file(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_of_a_sharded_checkpoint_has_no_shard_in_its_name() {
        for (prefix, expected) in [
            ("model.ckpt-5-?????-of-00002", "model.ckpt-5"),
            ("model.ckpt-5-00001-of-00002", "model.ckpt-5"),
            ("model.ckpt-5", "model.ckpt-5"),
            ("a-of-b", "a-of-b"),
        ] {
            assert_eq!(without_shards(prefix), expected);
        }
    }
}
