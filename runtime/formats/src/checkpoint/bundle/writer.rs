//! The writer of tensor bundles (`BundleWriter`): tensors stream into temporary data files, which are renamed when all is written.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::checkpoint::bundle::data::CHUNK_BYTES;
use crate::checkpoint::bundle::index::{Index, VERSION};
use crate::checkpoint::bundle::{Entry, Header, data_path, index_path, strings};
use crate::checkpoint::slice::Slice;
use crate::checkpoint::{DType, key};
use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::{Durability, Replacement, create_dir_in, sync_name};
use crate::storage::{self, Storage};
use crate::table::TableBuilder;
use crate::tensor::{ElementsView, TensorView};

/// Below this a second thread costs more than it saves.
const MIN_PARALLEL_BYTES: usize = 1024 * 1024;
/// The bytes of one write where the checksum is computed by another thread.
const WRITE_CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// How a bundle is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The number of data files (shards). At least 1.
    pub shards: u32,
    /// The alignment of tensors in bytes. TensorFlow uses 1.
    pub alignment: usize,
    /// Whether files are synced to the disk (`fsync`).
    pub durability: Durability,
    /// What happens to a checkpoint that is there already.
    pub replace: Replace,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            shards: 1,
            alignment: 1,
            durability: Durability::Synced,
            replace: Replace::Atomic,
        }
    }
}

/// What happens to a checkpoint with the same prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replace {
    /// It stays readable until the new one is complete, whatever happens in between.
    ///
    /// Index and data files cannot be renamed atomically together, so the new data files have other names than the old ones: one more
    /// file, which is empty, changes the shard count in the names. The old data files are removed in the end.
    #[default]
    Atomic,
    /// Its files are overwritten one after the other, as TensorFlow does: a crash in between leaves an index that does not fit the data.
    SameNames,
}

/// Writes a bundle.
///
/// Nothing of it is visible before [`finish`](BundleWriter::finish); dropping the writer instead removes what was written. Beyond the
/// tensors themselves it needs little memory.
///
/// ```
/// use trainspec_formats::checkpoint::{Bundle, BundleWriter, Tensor};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-bundle-{}", std::process::id()));
/// # let prefix = &folder.join("model.ckpt-1");
/// let mut writer = BundleWriter::create(prefix, Default::default())?;
/// let kernel = Tensor::from_values(&[2, 1], &[0.5_f32, -0.5])?;
/// writer.add("dense/kernel", &kernel)?;
/// writer.finish()?;
/// assert_eq!(Bundle::open(prefix)?.tensor("dense/kernel")?, kernel);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct BundleWriter {
    storage: Arc<dyn Storage>,
    prefix: PathBuf,
    options: Options,
    /// The shard count in the names of data files.
    count: u32,
    shards: Vec<Shard>,
    entries: BTreeMap<Vec<u8>, Entry>,
    /// A write failed, so that offsets no longer hold.
    failed: bool,
}

/// A data file that is being written.
#[derive(Debug)]
struct Shard {
    file: Replacement,
    /// Small tensors are buffered here.
    buffer: Vec<u8>,
    size: u64,
}

impl BundleWriter {
    /// Starts a checkpoint. The folder of the prefix is made if it is not there.
    pub fn create(prefix: &Path, options: Options) -> Result<BundleWriter> {
        BundleWriter::create_in(&storage::local(), prefix, options)
    }

    /// [`create`](BundleWriter::create) in any storage.
    pub fn create_in(
        storage: &Arc<dyn Storage>,
        prefix: &Path,
        options: Options,
    ) -> Result<BundleWriter> {
        if options.shards == 0 || options.alignment == 0 {
            let cause = "a checkpoint needs a data file and an alignment";
            return Err(invalid(cause).in_file(prefix));
        }
        make_folder(storage, prefix, options.durability)?;
        let count = count_for(storage, prefix, options.shards, options.replace)?;
        let shards = (0..count)
            .map(|shard| {
                let path = data_path(prefix, shard, count);
                Ok(Shard {
                    file: Replacement::create_in(storage, FileKind::CheckpointData, &path)?,
                    buffer: Vec::new(),
                    size: 0,
                })
            })
            .collect::<Result<_>>()?;
        Ok(BundleWriter {
            storage: Arc::clone(storage),
            prefix: prefix.to_owned(),
            options,
            count,
            shards,
            entries: BTreeMap::new(),
            failed: false,
        })
    }

    /// Writes a tensor to the first data file.
    pub fn add<'a>(&mut self, name: &str, tensor: impl Into<TensorView<'a>>) -> Result<()> {
        self.add_to(0, name, tensor)
    }

    /// Writes a tensor to one of the data files.
    pub fn add_to<'a>(
        &mut self,
        shard: u32,
        name: &str,
        tensor: impl Into<TensorView<'a>>,
    ) -> Result<()> {
        let added = check_name(name)
            .and_then(|()| self.put(shard, name.as_bytes().to_vec(), tensor.into()));
        added.map_err(|e| e.in_file(&self.prefix))
    }

    /// Writes a slice of a partitioned tensor of some shape to one of the data files. A slice that is all of it makes an ordinary tensor.
    pub fn add_slice<'a>(
        &mut self,
        shard: u32,
        name: &str,
        whole: &[usize],
        slice: &Slice,
        tensor: impl Into<TensorView<'a>>,
    ) -> Result<()> {
        self.put_slice(shard, name, whole, slice, tensor.into())
            .map_err(|e| e.in_file(&self.prefix))
    }

    fn put_slice(
        &mut self,
        shard: u32,
        name: &str,
        whole: &[usize],
        slice: &Slice,
        tensor: TensorView<'_>,
    ) -> Result<()> {
        check_name(name)?;
        let shape = slice.shape(whole)?;
        if shape != tensor.shape() {
            return Err(invalid(format!(
                "the slice {slice} of `{name}` has shape {shape:?} and the tensor {:?}",
                tensor.shape()
            )));
        }
        if shape == whole {
            return self.put(shard, name.as_bytes().to_vec(), tensor);
        }
        let old = self.entries.get(name.as_bytes());
        if let Some(old) = old
            && (old.slices.is_empty() || old.dtype != tensor.dtype() || old.shape != whole)
        {
            return Err(invalid(format!(
                "`{name}` is there already as {} of shape {:?}",
                old.dtype, old.shape
            )));
        }
        self.put(shard, key::of_slice(name, slice), tensor)?;
        let entry = self.entries.entry(name.as_bytes().to_vec());
        let entry = entry.or_insert_with(|| Entry {
            dtype: tensor.dtype(),
            shape: whole.to_vec(),
            shard: 0,
            offset: 0,
            size: 0,
            crc: 0,
            slices: Vec::new(),
        });
        entry.slices.push(slice.clone());
        Ok(())
    }

    /// Renames the files to their final names: data files first, the index last.
    pub fn finish(mut self) -> Result<()> {
        self.usable()?;
        let durability = self.options.durability;
        for shard in &mut self.shards {
            shard.flush()?;
        }
        let (storage, header) = (&self.storage, Header::new(self.count));
        let index = write_index(storage, &self.prefix, &header, &self.entries)?;
        let mut unlisted = UnlistedFiles {
            storage,
            paths: Vec::new(),
        };
        for (shard, file) in self.shards.drain(..).enumerate() {
            file.file.rename(durability)?;
            // Files that were overwritten are not there any more, whatever happens.
            if self.options.replace == Replace::Atomic {
                let path = data_path(&self.prefix, shard as u32, self.count);
                unlisted.paths.push(path);
            }
        }
        // An index that is durable lists data files that are.
        let data = data_path(&self.prefix, 0, self.count);
        sync_name(storage, FileKind::CheckpointData, &data, durability)?;
        index.rename(durability)?;
        unlisted.paths.clear();
        let index = index_path(&self.prefix);
        sync_name(storage, FileKind::Table, &index, durability)?;
        if self.options.replace == Replace::Atomic {
            remove_others(storage, &self.prefix, self.count);
        }
        Ok(())
    }

    fn usable(&self) -> Result<()> {
        match self.failed {
            false => Ok(()),
            true => Err(FormatError::new(
                Code::FailedPrecondition,
                FileKind::CheckpointData,
                "writing the checkpoint failed before",
            )
            .in_file(&self.prefix)),
        }
    }

    fn put(&mut self, shard: u32, key: Vec<u8>, tensor: TensorView<'_>) -> Result<()> {
        self.usable()?;
        if self.entries.contains_key(&key) {
            return Err(invalid(format!(
                "`{}` is there already",
                key.escape_ascii()
            )));
        }
        if shard >= self.options.shards {
            return Err(invalid(format!(
                "data file {shard} of {}",
                self.options.shards
            )));
        }
        if tensor.dtype() == DType::Resource {
            return Err(invalid("a resource has no value that could be stored"));
        }
        let out = &mut self.shards[shard as usize];
        let offset = out.size;
        let written = out.tensor(tensor, self.options.alignment);
        let (size, sum) = written.inspect_err(|_| self.failed = true)?;
        self.entries.insert(
            key,
            Entry {
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                shard: shard as i32,
                offset: offset as i64,
                size: size as i64,
                crc: crc::mask(sum),
                slices: Vec::new(),
            },
        );
        Ok(())
    }
}

/// Data files that no index lists yet; they are removed where writing fails before one does.
struct UnlistedFiles<'a> {
    storage: &'a Arc<dyn Storage>,
    paths: Vec<PathBuf>,
}

impl Drop for UnlistedFiles<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = self.storage.remove_file(path);
        }
    }
}

impl Shard {
    /// Writes a tensor; returns its size in bytes and their checksum.
    fn tensor(&mut self, tensor: TensorView<'_>, alignment: usize) -> Result<(u64, u32)> {
        let start = self.size;
        let sum = match tensor.elements() {
            ElementsView::Bytes(bytes) => self.write_with_crc(bytes)?,
            ElementsView::Strings(variants) if tensor.dtype() == DType::Variant => {
                let coded = strings::encode_variants(variants);
                self.write(&coded.head)?;
                coded.crc
            }
            ElementsView::Strings(strings) => {
                let coded = strings::encode(strings);
                self.write(&coded.head)?;
                for string in strings {
                    self.write(string)?;
                }
                coded.crc
            }
        };
        let size = self.size - start;
        let over = self.size % alignment as u64;
        if over > 0 {
            let mut gap = alignment as u64 - over;
            while gap > 0 {
                let zeros = [0; 64];
                let now = gap.min(64);
                self.write(&zeros[..now as usize])?;
                gap -= now;
            }
        }
        Ok((size, sum))
    }

    /// Writes bytes and computes their CRC-32C, chunk by chunk while each is in the cache; for large tensors in a second thread.
    fn write_with_crc(&mut self, bytes: &[u8]) -> Result<u32> {
        if bytes.len() >= MIN_PARALLEL_BYTES
            && thread::available_parallelism().is_ok_and(|n| n.get() > 1)
        {
            return thread::scope(|scope| {
                let sum = scope.spawn(|| crc::of(bytes));
                let written = bytes
                    .chunks(WRITE_CHUNK_BYTES)
                    .try_for_each(|chunk| self.write(chunk));
                let sum = sum.join().expect("a checksum does not panic");
                written.map(|()| sum)
            });
        }
        let mut sum = 0;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            sum = crc::append(sum, chunk);
            self.write(chunk)?;
        }
        Ok(sum)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.flush()?;
        }
        match bytes.len() < CHUNK_BYTES {
            true => self.buffer.extend_from_slice(bytes),
            false => self.write_through(bytes)?,
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write_through(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write_through(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| {
            FormatError::io(FileKind::CheckpointData, "write it", e).in_file(self.file.temporary())
        })
    }
}

/// Writes an index to a temporary file.
pub(super) fn write_index(
    storage: &Arc<dyn Storage>,
    prefix: &Path,
    header: &Header,
    entries: &BTreeMap<Vec<u8>, Entry>,
) -> Result<Replacement> {
    debug_assert_eq!(header.producer, VERSION);
    let path = index_path(prefix);
    let file = Replacement::create_in(storage, FileKind::Table, &path)?;
    let mut table = TableBuilder::new(std::io::BufWriter::new(file));
    let written = (|| {
        table.add(b"", &header.encode())?;
        for (key, entry) in entries {
            table.add(key, &entry.encode())?;
        }
        let out = table.finish()?;
        out.into_inner()
            .map_err(|e| FormatError::io(FileKind::Table, "write it", e.into_error()))
    })();
    written.map_err(|e| e.in_file(&path))
}

/// The shard count of a checkpoint, so that no data file has the name of one that is in use.
pub(super) fn count_for(
    storage: &Arc<dyn Storage>,
    prefix: &Path,
    requested: u32,
    replace: Replace,
) -> Result<u32> {
    if replace == Replace::SameNames {
        return Ok(requested);
    }
    match Index::open(storage, prefix) {
        Ok(old) if old.header.shards == requested => Ok(requested + 1),
        Ok(_) => Ok(requested),
        // Another attempt may read it.
        Err(e) if e.code == Code::Internal => Err(e),
        // An unreadable checkpoint needs no protection.
        Err(_) => Ok(requested),
    }
}

/// Removes the data files of earlier checkpoints with this prefix. Files that cannot be removed stay: nothing refers to them.
pub(super) fn remove_others(storage: &Arc<dyn Storage>, prefix: &Path, count: u32) {
    for (path, shards) in data_files_in(storage, prefix) {
        if shards != count {
            let _ = storage.remove_file(&path);
        }
    }
}

/// The data files with a prefix, each with the shard count in its name; whether or not there is an index.
pub fn data_files(prefix: &Path) -> Vec<(PathBuf, u32)> {
    data_files_in(&storage::local(), prefix)
}

/// [`data_files`] in any storage.
pub fn data_files_in(storage: &Arc<dyn Storage>, prefix: &Path) -> Vec<(PathBuf, u32)> {
    let name = prefix.file_name().and_then(|name| name.to_str());
    let Some((name, names)) = name.zip(storage.list(&folder_of(prefix)).ok()) else {
        return Vec::new();
    };
    let found = names.into_iter().filter_map(|file| {
        let shards = shards_of(file.to_str()?.strip_prefix(name)?)?;
        Some((prefix.with_file_name(file), shards))
    });
    found.collect()
}

/// The shard count in the suffix of a data file's name.
fn shards_of(ending: &str) -> Option<u32> {
    let (shard, count) = ending.strip_prefix(".data-")?.split_once("-of-")?;
    let number = |text: &str| match text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u32>().ok(),
        false => None,
    };
    number(shard)?;
    number(count)
}

pub(super) fn make_folder(
    storage: &Arc<dyn Storage>,
    prefix: &Path,
    durability: Durability,
) -> Result<()> {
    let folder = folder_of(prefix);
    create_dir_in(storage, &folder, durability)
        .map_err(|e| FormatError::io(FileKind::Other, "make the folder", e).in_file(&folder))
}

pub(super) fn folder_of(prefix: &Path) -> PathBuf {
    match prefix.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn check_name(name: &str) -> Result<()> {
    match name.as_bytes().first() {
        None => Err(invalid("a tensor needs a name")),
        Some(0) => Err(invalid("a name cannot begin with a zero byte")),
        Some(_) => Ok(()),
    }
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::CheckpointData, cause)
}
