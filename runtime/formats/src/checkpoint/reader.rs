//! `CheckpointReader`: one reader for all file formats of named tensors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::bundle::{data_files_in, index_damage, index_path};
use crate::checkpoint::manage::{Latest, STATE_FILE, find_latest_in};
use crate::checkpoint::object::{OBJECT_GRAPH_KEY, ObjectGraph};
use crate::checkpoint::{
    Bundle, DType, Elements, Npz, Safetensors, Slice, TableCheckpoint, Tensor,
};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files;
use crate::storage::{self, Storage};
use crate::table;

/// An open file of named tensors: a checkpoint of either version, or an archive of another program.
///
/// ```
/// use trainspec_formats::checkpoint::{BundleWriter, CheckpointReader, Tensor};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-reader-{}", std::process::id()));
/// # let prefix = &folder.join("model.ckpt-1");
/// # let mut writer = BundleWriter::create(prefix, Default::default())?;
/// # writer.add("global_step", &Tensor::scalar(7_i64))?;
/// # writer.finish()?;
/// let reader = CheckpointReader::open(prefix)?;
/// assert!(reader.has_tensor("global_step"));
/// assert_eq!(reader.get_tensor("global_step")?.to_vec::<i64>()?, [7]);
/// assert!(reader.verify().is_empty());
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub enum CheckpointReader {
    /// A checkpoint of the second version.
    Bundle(Bundle),
    /// A checkpoint of the first version.
    Table(TableCheckpoint),
    /// A file of Hugging Face's library.
    Safetensors(Safetensors),
    /// A NumPy archive.
    Npz(Npz),
}

impl CheckpointReader {
    /// Opens a checkpoint by its prefix, a file by its path, or the newest checkpoint of a folder.
    pub fn open(path: &Path) -> Result<CheckpointReader> {
        CheckpointReader::open_in(&storage::local(), path)
    }

    /// [`open`](CheckpointReader::open) in any storage.
    pub fn open_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<CheckpointReader> {
        if !storage.is_dir(path) || storage.is_file(&index_path(path)) {
            return CheckpointReader::open_prefix_in(storage, path);
        }
        let not_found = |cause: String| {
            let error = FormatError::not_found(FileKind::CheckpointState, cause);
            Err(error.in_file(path.join(STATE_FILE)))
        };
        match find_latest_in(storage, path) {
            Latest::Listed(prefix) => CheckpointReader::open_prefix_in(storage, &prefix),
            Latest::Missing {
                listed,
                beside: Some(prefix),
            } => not_found(format!(
                "the newest checkpoint is listed as `{listed}`, which is not there; the folder may have been moved: open `{}`",
                prefix.display()
            )),
            Latest::Missing {
                listed,
                beside: None,
            } => not_found(format!(
                "the newest checkpoint is listed as `{listed}`, which is not there"
            )),
            Latest::Broken(e) => Err(e),
            Latest::Unlisted => not_found(
                "there is no such file that says which checkpoint is the newest; open one by its prefix".to_owned(),
            ),
        }
    }

    /// Opens a checkpoint by its prefix, or a file by its path.
    pub fn open_prefix(path: &Path) -> Result<CheckpointReader> {
        CheckpointReader::open_prefix_in(&storage::local(), path)
    }

    /// [`open_prefix`](CheckpointReader::open_prefix) in any storage.
    pub fn open_prefix_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<CheckpointReader> {
        if let Some(prefix) = prefix_of(&**storage, path) {
            let bundle = Bundle::open_in(storage, &prefix)?;
            return Ok(CheckpointReader::Bundle(bundle));
        }
        let as_table = || TableCheckpoint::open_in(storage, path).map(CheckpointReader::Table);
        if !storage.is_file(path) {
            if !storage.exists(path) && !data_files_in(storage, path).is_empty() {
                let cause = "it is missing, though data files of this checkpoint are there";
                let error = FormatError::not_found(FileKind::Table, cause);
                return Err(error.in_file(index_path(path)));
            }
            // A pattern of several tables, or nothing.
            return as_table();
        }
        let file = files::open_in(storage, FileKind::Other, path)?;
        let failed = |e| FormatError::io(FileKind::Other, "read it", e).in_file(path);
        if table::is_table(&file).map_err(failed)? {
            return as_table();
        }
        let length = file.length().map_err(failed)?;
        let mut head = [0; 9];
        let known = head
            .len()
            .min(usize::try_from(length).unwrap_or(usize::MAX));
        file.read_exact_at(0, &mut head[..known]).map_err(failed)?;
        let as_safetensors =
            || Safetensors::open_in(storage, path).map(CheckpointReader::Safetensors);
        let as_npz = || Npz::open_in(storage, path).map(CheckpointReader::Npz);
        let ending = path.extension().and_then(|ending| ending.to_str());
        match head {
            _ if ending == Some("safetensors") => as_safetensors(),
            _ if ending == Some("npz") => as_npz(),
            [b'P', b'K', ..] => as_npz(),
            [.., b'{'] => as_safetensors(),
            // Anything else is taken for a truncated table.
            _ => as_table(),
        }
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.entries().map(|(name, _, _)| name).collect()
    }

    /// The names, types and shapes of all tensors, by name.
    pub fn entries(&self) -> Box<dyn Iterator<Item = (&str, DType, &[usize])> + '_> {
        match self {
            CheckpointReader::Bundle(bundle) => Box::new(
                bundle
                    .entries()
                    .map(|(name, entry)| (name, entry.dtype, entry.shape.as_slice())),
            ),
            CheckpointReader::Table(table) => Box::new(table.entries()),
            CheckpointReader::Safetensors(file) => Box::new(file.entries()),
            CheckpointReader::Npz(archive) => Box::new(archive.entries()),
        }
    }

    /// The tensors of unsupported types, sorted by name, and the reason for each.
    pub fn unsupported(&self) -> Vec<(&str, &FormatError)> {
        match self {
            CheckpointReader::Safetensors(file) => file.unsupported().collect(),
            CheckpointReader::Npz(archive) => archive.unsupported().collect(),
            CheckpointReader::Bundle(bundle) => bundle.unsupported().collect(),
            CheckpointReader::Table(_) => Vec::new(),
        }
    }

    /// The type and the shape of a tensor.
    pub fn entry(&self, name: &str) -> Option<(DType, &[usize])> {
        match self {
            CheckpointReader::Bundle(bundle) => {
                let entry = bundle.entry(name)?;
                Some((entry.dtype, &entry.shape))
            }
            CheckpointReader::Table(table) => table.entry(name),
            CheckpointReader::Safetensors(file) => file.entry(name),
            CheckpointReader::Npz(archive) => archive.entry(name),
        }
    }

    /// Whether there is such a tensor.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Reads a tensor.
    pub fn get_tensor(&self, name: &str) -> Result<Tensor> {
        match self {
            CheckpointReader::Bundle(bundle) => bundle.tensor(name),
            CheckpointReader::Table(table) => table.tensor(name),
            CheckpointReader::Safetensors(file) => file.tensor(name),
            CheckpointReader::Npz(archive) => archive.tensor(name),
        }
    }

    /// Reads a slice of a tensor.
    pub fn get_slice(&self, name: &str, slice: &Slice) -> Result<Tensor> {
        match self {
            CheckpointReader::Bundle(bundle) => bundle.slice(name, slice),
            CheckpointReader::Table(table) => table.slice(name, slice),
            CheckpointReader::Safetensors(_) | CheckpointReader::Npz(_) => {
                let tensor = self.get_tensor(name)?;
                crate::checkpoint::slice::extract(&tensor, slice)
                    .map_err(|e| self.located(e.about(format_args!("tensor `{name}`"))))
            }
        }
    }

    /// Adds the file to an error that has none.
    fn located(&self, error: FormatError) -> FormatError {
        match self {
            CheckpointReader::Bundle(bundle) => error.in_file(index_path(bundle.prefix())),
            CheckpointReader::Table(table) => error.in_file(table.path()),
            CheckpointReader::Safetensors(file) => error.in_file(file.path()),
            CheckpointReader::Npz(archive) => error.in_file(archive.path()),
        }
    }

    /// Reads the numbers of a tensor into a buffer of exactly its size, in little-endian order.
    pub fn read_into(&self, name: &str, into: &mut [u8]) -> Result<()> {
        match self {
            CheckpointReader::Bundle(bundle) => return bundle.read_into(name, into),
            CheckpointReader::Safetensors(file) => return file.read_into(name, into),
            CheckpointReader::Npz(archive) if archive.read_into(name, into)? => return Ok(()),
            CheckpointReader::Table(_) | CheckpointReader::Npz(_) => {}
        }
        let tensor = self.get_tensor(name)?;
        match tensor.elements() {
            Elements::Bytes(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(self.located(FormatError::invalid(
                FileKind::Other,
                format!(
                    "`{name}` is {} of shape {:?} and does not fill {} bytes",
                    tensor.dtype(),
                    tensor.shape(),
                    into.len()
                ),
            ))),
        }
    }

    /// The object graph, if the checkpoint is object-based.
    pub fn object_graph(&self) -> Result<Option<ObjectGraph>> {
        if !self.has_tensor(OBJECT_GRAPH_KEY) {
            return Ok(None);
        }
        match self.get_tensor(OBJECT_GRAPH_KEY)?.into_elements() {
            Elements::Strings(strings) if strings.len() == 1 => {
                let graph = ObjectGraph::decode(&strings[0]);
                graph.map(Some).map_err(|e| self.located(e))
            }
            _ => Err(self.located(FormatError::data_loss(
                FileKind::CheckpointData,
                "the graph of objects is not one string",
            ))),
        }
    }

    /// Reads a variable by any of its names: a tensor's key, or in an object-based checkpoint its path (`model/dense/kernel`) or its name
    /// in a graph (`dense/kernel`).
    pub fn get_variable(&self, name: &str) -> Result<Tensor> {
        if self.has_tensor(name) {
            return self.get_tensor(name);
        }
        let Some(graph) = self.object_graph()? else {
            return self.get_tensor(name);
        };
        if let Some(value) = graph.value_at(name) {
            return self.get_tensor(&value.key);
        }
        match graph.named(name)[..] {
            [value] => self.get_tensor(&value.key),
            [] => self.get_tensor(name),
            ref several => Err(self.located(FormatError::new(
                Code::InvalidArgument,
                FileKind::CheckpointData,
                format!("{} variables are called `{name}`", several.len()),
            ))),
        }
    }

    /// Reads everything and returns all damage, each with file, offset and cause; the list is empty if there is none.
    pub fn verify(&self) -> Vec<FormatError> {
        match self {
            CheckpointReader::Bundle(bundle) => bundle.verify(),
            CheckpointReader::Table(table) => table.verify(),
            CheckpointReader::Safetensors(file) => file.verify(),
            CheckpointReader::Npz(archive) => archive.verify(),
        }
    }
}

/// Returns all damage of a checkpoint, even where it cannot be opened.
pub fn verify(path: &Path) -> Vec<FormatError> {
    verify_in(&storage::local(), path)
}

/// [`verify`] in any storage.
pub fn verify_in(storage: &Arc<dyn Storage>, path: &Path) -> Vec<FormatError> {
    match CheckpointReader::open_in(storage, path) {
        Ok(reader) => reader.verify(),
        Err(e) => {
            // The index may be wrong in more than one place.
            let damage = prefix_of(&**storage, path).map(|prefix| index_damage(storage, &prefix));
            match damage.filter(|damage| !damage.is_empty()) {
                Some(damage) => damage,
                None => vec![e],
            }
        }
    }
}

/// The prefix of the bundle that a path means, if it means one.
fn prefix_of(storage: &dyn Storage, path: &Path) -> Option<PathBuf> {
    if storage.is_file(&index_path(path)) {
        return Some(path.to_owned());
    }
    let is_index = path.extension().is_some_and(|ending| ending == "index");
    (is_index && storage.is_file(path)).then(|| path.with_extension(""))
}
