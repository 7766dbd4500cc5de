//! The reader of tensor bundles (`BundleReader`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::checkpoint::bundle::data::{CHUNK_BYTES, ReadJob, read, read_exact};
use crate::checkpoint::bundle::index::Index;
use crate::checkpoint::bundle::{Endianness, Entry, Header, data_path, index_path, strings};
use crate::checkpoint::slice::{CoverError, Region, Run, Slice, cover, join_strings, runs};
use crate::checkpoint::{DType, Elements, Tensor, key};
use crate::crc;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::files;
use crate::files::ReadAt;
use crate::memory::zeros;
use crate::storage::{self, Storage};
use crate::tensor::swap_bytes;

/// An open V2 checkpoint.
///
/// The index is read when it is opened, data files on demand. Everything that is read is checked against its CRC-32C.
///
/// ```no_run
/// use trainspec_formats::checkpoint::Bundle;
///
/// let bundle = Bundle::open("run/model.ckpt-100".as_ref())?;
/// let mut kernel = vec![0.0_f32; 784 * 128];
/// bundle.read_into("dense/kernel", bytemuck::cast_slice_mut(&mut kernel))?;
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct Bundle {
    pub(super) storage: Arc<dyn Storage>,
    prefix: PathBuf,
    pub(super) index: Index,
    threads: usize,
    open: Mutex<BTreeMap<u32, Arc<dyn ReadAt>>>,
}

impl Bundle {
    /// Opens the checkpoint with this prefix: reads and checks the index. Fails where that is missing or damaged.
    pub fn open(prefix: &Path) -> Result<Bundle> {
        Bundle::open_in(&storage::local(), prefix)
    }

    /// [`open`](Bundle::open) in any storage.
    pub fn open_in(storage: &Arc<dyn Storage>, prefix: &Path) -> Result<Bundle> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Bundle {
            storage: Arc::clone(storage),
            prefix: prefix.to_owned(),
            index: Index::open(storage, prefix)?,
            threads: cores.min(4),
            open: Mutex::new(BTreeMap::new()),
        })
    }

    /// Sets the maximum number of threads for reading. Results do not depend on it.
    pub fn with_threads(mut self, threads: usize) -> Bundle {
        self.threads = threads.max(1);
        self
    }

    /// The checkpoint's prefix.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The header in the index.
    pub fn header(&self) -> &Header {
        &self.index.header
    }

    /// The tensors, in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.index.names()
    }

    /// The tensors of unsupported types, sorted by name, and the reason for each.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, &FormatError)> {
        let others = self.index.others.iter();
        others.map(|(name, why)| (name.as_str(), why))
    }

    /// The index entry of a tensor.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        match name.is_empty() || key::is_slice(name.as_bytes()) {
            true => None,
            false => self.index.get(name.as_bytes()),
        }
    }

    /// The index entry of a slice of a partitioned tensor, by the slice that the tensor's entry lists.
    pub fn slice_entry(&self, name: &str, slice: &Slice) -> Option<&Entry> {
        self.index.get(&key::of_slice(name, slice))
    }

    /// Reads a tensor; a partitioned one is assembled from its slices. Fails where it is missing, damaged or of an unsupported type.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let entry = self.find(name)?;
        if !entry.slices.is_empty() {
            return self.assemble(name, entry, &Slice::full(entry.shape.len()));
        }
        self.named(name, || self.read_entry(entry))
    }

    /// Reads the numbers of a tensor straight into a buffer, in little-endian order.
    ///
    /// The destination must be exactly as long as the tensor. After an error its content is not defined.
    pub fn read_into(&self, name: &str, into: &mut [u8]) -> Result<()> {
        self.read_all_into(vec![(name, into)])
    }

    /// Reads several tensors into buffers at once, in parallel; faster than [`read_into`](Bundle::read_into) for each.
    ///
    /// Fails where a tensor is missing or damaged, has strings, or has another size than its buffer.
    pub fn read_all_into(&self, requests: Vec<(&str, &mut [u8])>) -> Result<()> {
        let mut files = Vec::new();
        let mut unpartitioned: Vec<(&str, &Entry, &mut [u8])> = Vec::new();
        for (name, into) in requests {
            let entry = self.find(name)?;
            let bytes = self.named(name, || entry.bytes())?;
            let size = entry.dtype.size().and(Some(bytes));
            if size != Some(into.len()) {
                return Err(FormatError::invalid(
                    FileKind::CheckpointData,
                    format!(
                        "`{name}` is {} of shape {:?} and does not fill {} bytes",
                        entry.dtype,
                        entry.shape,
                        into.len()
                    ),
                )
                .in_file(index_path(&self.prefix)));
            }
            match entry.slices.is_empty() {
                true => {
                    files.push(self.named(name, || self.checked_data_file(entry))?);
                    unpartitioned.push((name, entry, into));
                }
                false => {
                    let full = Slice::full(entry.shape.len()).region(&entry.shape)?;
                    self.named(name, || {
                        let plan = self.plan(name, entry, &full)?;
                        self.fill(entry.dtype, plan, &full, into)
                    })?;
                }
            }
        }
        let jobs = unpartitioned
            .iter_mut()
            .zip(&files)
            .map(|((_, entry, into), (file, _))| ReadJob {
                file: &**file,
                offset: entry.offset as u64,
                into,
            });
        let sums = read(jobs.collect(), self.threads);
        for ((name, entry, into), sum) in unpartitioned.into_iter().zip(sums) {
            let path = || data_path(&self.prefix, entry.shard as u32, self.index.header.shards);
            self.named(name, || {
                let sum = sum.map_err(|e| e.in_file(path()))?;
                self.check_crc(entry, sum)
            })?;
            self.to_little_endian(entry.dtype, into);
        }
        Ok(())
    }

    /// Reads a slice of a tensor, partitioned or not. Fails where the slice is outside the tensor, or as [`tensor`](Bundle::tensor) does.
    pub fn slice(&self, name: &str, slice: &Slice) -> Result<Tensor> {
        let entry = self.find(name)?;
        self.named(name, || slice.region(&entry.shape))?;
        self.assemble(name, entry, slice)
    }

    /// The index entry of a tensor, or the error why there is none.
    fn find(&self, name: &str) -> Result<&Entry> {
        self.entry(name).ok_or_else(|| {
            let error = match self.unsupported().find(|(other, _)| *other == name) {
                Some((_, why)) => FormatError::new(why.code, why.kind, why.cause.clone()),
                None => FormatError::not_found(
                    FileKind::Table,
                    format!("there is no tensor `{name}` in the checkpoint"),
                ),
            };
            error.in_file(index_path(&self.prefix))
        })
    }

    /// Adds the tensor's name to an error.
    pub(super) fn named<T>(&self, name: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
        read().map_err(|mut e| {
            e.cause = format!("tensor `{name}`: {}", e.cause);
            e.in_file(index_path(&self.prefix))
        })
    }

    /// The data file that holds all of an entry's bytes, and its shard index.
    pub(super) fn checked_data_file(&self, entry: &Entry) -> Result<(Arc<dyn ReadAt>, u32)> {
        let wrong = |cause: String| FormatError::data_loss(FileKind::Table, cause);
        let shards = self.index.header.shards;
        let shard = u32::try_from(entry.shard)
            .ok()
            .filter(|&shard| shard < shards)
            .ok_or_else(|| wrong(format!("data file {} of {shards}", entry.shard)))?;
        let extent = u64::try_from(entry.offset)
            .ok()
            .zip(u64::try_from(entry.size).ok());
        let Some((offset, size)) = extent else {
            return Err(wrong(format!(
                "{} bytes at byte {} of a data file",
                entry.size, entry.offset
            )));
        };
        if entry.dtype.size().is_some() && size != entry.bytes()? as u64 {
            return Err(wrong(format!(
                "{size} bytes for {} of shape {:?}",
                entry.dtype, entry.shape
            )));
        }
        let file = self.data_file(shard)?;
        let path = data_path(&self.prefix, shard, shards);
        let length = file.length().map_err(|e| {
            FormatError::io(FileKind::CheckpointData, "find its length", e).in_file(&path)
        })?;
        match offset.checked_add(size).is_some_and(|end| end <= length) {
            true => Ok((file, shard)),
            false => Err(FormatError::new(
                Code::OutOfRange,
                FileKind::CheckpointData,
                format!("{size} bytes are needed and the file has {length} bytes"),
            )
            .at(offset)
            .in_file(path)),
        }
    }

    /// The data file of a shard, opened once.
    pub(super) fn data_file(&self, shard: u32) -> Result<Arc<dyn ReadAt>> {
        // A thread that panicked left the list as it was.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&shard) {
            return Ok(file.clone());
        }
        let path = data_path(&self.prefix, shard, self.index.header.shards);
        let file = files::open_in(&self.storage, FileKind::CheckpointData, &path)?;
        let file: Arc<dyn ReadAt> = Arc::from(file);
        open.insert(shard, file.clone());
        Ok(file)
    }

    /// Compares a checksum with the one in the index.
    pub(super) fn check_crc(&self, entry: &Entry, found: u32) -> Result<()> {
        let stored = crc::unmask(entry.crc);
        match found == stored {
            true => Ok(()),
            false => Err(FormatError::data_loss(
                FileKind::CheckpointData,
                format!(
                    "the checksum of {} bytes is {found:#010x} instead of {stored:#010x}",
                    entry.size
                ),
            )
            .at(entry.offset as u64)
            .in_file(data_path(
                &self.prefix,
                entry.shard as u32,
                self.index.header.shards,
            ))),
        }
    }

    /// Swaps the bytes of elements that were read from a big-endian checkpoint.
    fn to_little_endian(&self, dtype: DType, bytes: &mut [u8]) {
        if self.index.header.endianness == Endianness::Big {
            swap_bytes(dtype, bytes);
        }
    }

    /// Reads the bytes of one entry that is not partitioned.
    pub(super) fn read_entry(&self, entry: &Entry) -> Result<Tensor> {
        if entry.dtype.size().is_none() {
            let strings = self.strings(entry, |bytes, count, order| match entry.dtype {
                DType::Variant => strings::decode_variants(bytes, count),
                _ => strings::decode(bytes, count, order),
            })?;
            return Tensor::of_strings(entry.dtype, &entry.shape, strings);
        }
        let (mut bytes, sum) = self.raw(entry)?;
        self.check_crc(entry, sum)?;
        self.to_little_endian(entry.dtype, &mut bytes);
        Tensor::new(entry.dtype, &entry.shape, bytes)
    }

    /// Reads an entry of strings or variants: `decode` gets its bytes and returns the elements and their checksum.
    pub(super) fn strings<T>(
        &self,
        entry: &Entry,
        decode: impl FnOnce(&[u8], usize, Endianness) -> Result<(T, u32)>,
    ) -> Result<T> {
        if entry.dtype == DType::Resource {
            return Err(FormatError::new(
                Code::Unimplemented,
                FileKind::Table,
                "a resource has no value that could be stored",
            ));
        }
        let order = self.index.header.endianness;
        let (bytes, _) = self.raw(entry)?;
        if entry.dtype == DType::Variant && order == Endianness::Big {
            return Err(FormatError::new(
                Code::Unimplemented,
                FileKind::CheckpointData,
                "variants that were written in big-endian order",
            ));
        }
        let offset = entry.offset as u64;
        let (elements, sum) = decode(&bytes, entry.count()?, order).map_err(|e| {
            let path = data_path(&self.prefix, entry.shard as u32, self.index.header.shards);
            e.shifted(offset).at(offset).in_file(path)
        })?;
        self.check_crc(entry, sum)?;
        Ok(elements)
    }

    /// The bytes of an entry, and their checksum.
    fn raw(&self, entry: &Entry) -> Result<(Vec<u8>, u32)> {
        let (file, shard) = self.checked_data_file(entry)?;
        let in_file =
            |e: FormatError| e.in_file(data_path(&self.prefix, shard, self.index.header.shards));
        let offset = entry.offset as u64;
        let bytes = zeros(FileKind::CheckpointData, entry.size as usize);
        let mut bytes = bytes.map_err(|e| in_file(e.at(offset)))?;
        let job = ReadJob {
            file: &*file,
            offset,
            into: &mut bytes,
        };
        let sum = read(vec![job], self.threads).remove(0).map_err(in_file)?;
        Ok((bytes, sum))
    }

    /// Reads a slice of a tensor that may be partitioned.
    fn assemble(&self, name: &str, entry: &Entry, slice: &Slice) -> Result<Tensor> {
        let requested = slice.region(&entry.shape)?;
        let shape: Vec<usize> = requested.0.iter().map(|side| side.1).collect();
        self.named(name, || {
            let plan = self.plan(name, entry, &requested)?;
            if let Some(size) = entry.dtype.size() {
                // What the plan covers is in the files, so its size is plausible.
                let volume = requested.volume().unwrap_or(0);
                let mut bytes = zeros(FileKind::CheckpointData, volume * size)?;
                self.fill(entry.dtype, plan, &requested, &mut bytes)?;
                return Tensor::new(entry.dtype, &shape, bytes);
            }
            let mut stored = Vec::new();
            for (entry, region) in plan {
                if let Elements::Strings(from) = self.read_entry(entry)?.into_elements() {
                    stored.push((region, from));
                }
            }
            let strings = join_strings(FileKind::CheckpointData, &stored, &requested)?;
            Tensor::of_strings(entry.dtype, &shape, strings)
        })
    }

    /// Reads the requested region of a tensor of numbers from the entries of a plan.
    fn fill(
        &self,
        dtype: DType,
        plan: Vec<(&Entry, Region)>,
        requested: &Region,
        into: &mut [u8],
    ) -> Result<()> {
        for (entry, region) in plan {
            self.intersection_into(entry, &region, requested, into)?;
        }
        self.to_little_endian(dtype, into);
        Ok(())
    }

    /// Fails where a slice of a tensor cannot be read, by the index and the lengths of the files alone.
    pub(super) fn plan_of(&self, name: &str, entry: &Entry, slice: &Slice) -> Result<()> {
        let requested = slice.region(&entry.shape)?;
        self.named(name, || self.plan(name, entry, &requested).map(drop))
    }

    /// The entries that together cover the requested region of a tensor, each with its own region.
    ///
    /// They are inside their files, agree with their slices, and nothing is missing or there twice: so the requested region is no larger
    /// than what the files hold.
    fn plan<'a>(
        &'a self,
        name: &str,
        entry: &'a Entry,
        requested: &Region,
    ) -> Result<Vec<(&'a Entry, Region)>> {
        let wrong = |cause: String| FormatError::data_loss(FileKind::Table, cause);
        if entry.slices.is_empty() {
            self.checked_data_file(entry)?;
            if !holds_elements(entry)? {
                return Err(wrong("it is too short for its elements".into()));
            }
            return Ok(vec![(
                entry,
                Slice::full(entry.shape.len()).region(&entry.shape)?,
            )]);
        }
        let mut regions = Vec::with_capacity(entry.slices.len());
        for slice in &entry.slices {
            let region = slice.region(&entry.shape).map_err(|e| wrong(e.cause))?;
            regions.push(region);
        }
        let intersecting: Vec<usize> = (0..regions.len())
            .filter(|&i| regions[i].intersect(requested).is_some())
            .collect();
        // Slices do not share bytes of a file, so they are not more than the file has.
        let mut used: BTreeMap<u32, u64> = BTreeMap::new();
        let mut plan = Vec::with_capacity(intersecting.len());
        for &i in &intersecting {
            let slice = &entry.slices[i];
            let stored = self
                .slice_entry(name, slice)
                .ok_or_else(|| wrong(format!("the slice {slice} is missing")))?;
            let shape: Vec<usize> = regions[i].0.iter().map(|side| side.1).collect();
            if stored.dtype != entry.dtype || stored.shape != shape || !stored.slices.is_empty() {
                return Err(wrong(format!(
                    "the slice {slice} is {} of shape {:?}",
                    stored.dtype, stored.shape
                )));
            }
            let (file, shard) = self.checked_data_file(stored)?;
            let used = used.entry(shard).or_default();
            *used = used.saturating_add(stored.size as u64);
            if *used > file.length().unwrap_or(0) {
                return Err(wrong(
                    "its slices are larger than the file they are in".into(),
                ));
            }
            if !holds_elements(stored)? {
                return Err(wrong(format!(
                    "the slice {slice} is too short for its elements"
                )));
            }
            plan.push((stored, regions[i].clone()));
        }
        let planned: Vec<Region> = plan.iter().map(|(_, region)| region.clone()).collect();
        match cover(&planned, requested) {
            Ok(_) => Ok(plan),
            Err(CoverError::Missing) => Err(FormatError::invalid(
                FileKind::Table,
                "the stored slices do not cover the requested one",
            )),
            Err(CoverError::Overlap) => Err(wrong("its slices overlap".into())),
            Err(CoverError::Memory(e)) => Err(e),
        }
    }

    /// Reads the intersection of a stored slice and the requested region.
    fn intersection_into(
        &self,
        entry: &Entry,
        region: &Region,
        requested: &Region,
        into: &mut [u8],
    ) -> Result<()> {
        let (file, shard) = self.checked_data_file(entry)?;
        let in_file =
            |e: FormatError| e.in_file(data_path(&self.prefix, shard, self.index.header.shards));
        let size = entry.dtype.size().unwrap_or(1);
        let bytes = |run: Run| Run {
            from: run.from * size,
            to: run.to * size,
            length: run.length * size,
        };
        let mut runs = runs(region, requested).map(bytes).peekable();
        let total = entry.size as usize;
        if let Some(&run) = runs.peek()
            && run.length == total
        {
            let job = ReadJob {
                file: &*file,
                offset: entry.offset as u64,
                into: &mut into[run.to..run.to + run.length],
            };
            let sum = read(vec![job], self.threads).remove(0).map_err(in_file)?;
            return self.check_crc(entry, sum);
        }
        let mut buffer = vec![0; total.min(CHUNK_BYTES)];
        let (mut start, mut sum) = (0, 0);
        while start < total {
            let chunk = &mut buffer[..(total - start).min(CHUNK_BYTES)];
            read_exact(&*file, entry.offset as u64 + start as u64, chunk).map_err(in_file)?;
            sum = crc::append(sum, chunk);
            let end = start + chunk.len();
            // Runs come in the order of the bytes; one that crosses the end of the chunk continues in the next.
            while let Some(run) = runs.peek_mut().filter(|run| run.from < end) {
                let length = run.length.min(end - run.from);
                into[run.to..run.to + length]
                    .copy_from_slice(&chunk[run.from - start..run.from - start + length]);
                (run.from, run.to, run.length) =
                    (run.from + length, run.to + length, run.length - length);
                if run.length > 0 {
                    break;
                }
                runs.next();
            }
            start = end;
        }
        self.check_crc(entry, sum)
    }
}

/// Whether a checked entry has enough bytes for its elements: strings take at least one each.
fn holds_elements(entry: &Entry) -> Result<bool> {
    Ok(entry.dtype.size().is_some() || entry.count()? as u64 <= entry.size as u64)
}
