//! The files of a saver: every access to the file system of this module is here.
//!
//! In: prefixes, tensors and records. Out: checkpoints on disk, readers, the `checkpoint` state file. Leaves alone: which checkpoints
//! are kept, and what their tensors mean.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::UNIX_EPOCH;

use trainspec_formats::checkpoint::{
    self, BundleWriter, CheckpointList, CheckpointLocation, CheckpointReader, CheckpointState,
    ObjectWriter, PathStyle, STATE_FILE, TableCheckpointWriter, TensorView, Version, bundle,
    safetensors, v1,
};
use trainspec_formats::files::{Durability, create_dir_in};
use trainspec_formats::storage::{self, Storage};
use trainspec_formats::tensor::Tensor as FileTensor;
use trainspec_formats::{FileKind, FormatError};

use crate::saver::records::{RECORDS_KEY, Records};
use crate::saver::{Format, Retained};
use crate::{Code, Error};

/// The suffix of the meta graph that is deleted with its checkpoint.
const GRAPH_SUFFIX: &str = "meta";

/// The file system that checkpoints are in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a>(pub(super) &'a Arc<dyn Storage>);

impl Files<'static> {
    /// The file system of this machine.
    pub(super) fn local() -> Files<'static> {
        static LOCAL: LazyLock<Arc<dyn Storage>> = LazyLock::new(storage::local);
        Files(&LOCAL)
    }
}

/// A named tensor of a checkpoint.
pub(super) type Named<'a> = (&'a str, TensorView<'a>);

impl Files<'_> {
    /// Opens a checkpoint by its prefix, or the newest of a folder.
    pub(super) fn open(self, path: &Path) -> Result<CheckpointReader, Error> {
        Ok(CheckpointReader::open_in(self.0, path)?)
    }

    /// Opens a checkpoint by its prefix.
    pub(super) fn open_prefix(self, prefix: &Path) -> Result<CheckpointReader, Error> {
        Ok(CheckpointReader::open_prefix_in(self.0, prefix)?)
    }

    /// Whether there is a checkpoint with this prefix.
    pub(super) fn exists(self, prefix: &Path) -> bool {
        checkpoint::checkpoint_exists_in(self.0, prefix)
    }

    /// Where a checkpoint is that the state file of a folder names.
    pub(super) fn locate(self, folder: &Path, listed: &str) -> CheckpointLocation {
        checkpoint::locate_checkpoint_in(self.0, folder, listed)
    }

    /// Reads all of a checkpoint and compares its checksums; the first damage is the error.
    pub(super) fn verify(self, prefix: &Path) -> Result<(), Error> {
        let damage = CheckpointReader::open_prefix_in(self.0, prefix)?.verify();
        match damage.into_iter().next() {
            Some(first) => Err(first.into()),
            None => Ok(()),
        }
    }

    /// Writes tensors and records atomically; returns the path by which the checkpoint is opened. Tensors are spread over the data files
    /// by size.
    pub(super) fn write(
        self,
        prefix: &Path,
        format: Format,
        shards: Option<u32>,
        tensors: &[Named<'_>],
        records: &Records,
    ) -> Result<PathBuf, Error> {
        let text = record_tensor(records)?;
        match format {
            Format::V2 => {
                let options = bundle::Options {
                    shards: shards.unwrap_or(1),
                    ..bundle::Options::default()
                };
                let mut writer = BundleWriter::create_in(self.0, prefix, options)?;
                for ((name, tensor), shard) in tensors.iter().zip(spread(tensors, shards)) {
                    writer.add_to(shard, name, tensor)?;
                }
                if let Some(text) = &text {
                    writer.add(RECORDS_KEY, text)?;
                }
                writer.finish()?;
                Ok(prefix.to_owned())
            }
            Format::V1 => {
                let count = shards.unwrap_or(1);
                let place = spread(tensors, shards);
                for shard in 0..count {
                    let mut writer = TableCheckpointWriter::new();
                    for ((name, tensor), _) in
                        tensors.iter().zip(&place).filter(|(_, at)| **at == shard)
                    {
                        writer.add(name, *tensor)?;
                    }
                    if let (Some(text), 0) = (&text, shard) {
                        writer.add(RECORDS_KEY, text)?;
                    }
                    let path = match shards {
                        Some(count) => v1::shard_path(prefix, shard, count),
                        None => prefix.to_owned(),
                    };
                    writer.write_in(self.0, &path, Durability::Synced)?;
                }
                Ok(match shards {
                    Some(count) => suffixed(prefix, &format!("-?????-of-{count:05}")),
                    None => prefix.to_owned(),
                })
            }
            Format::Safetensors => {
                let path = suffixed(prefix, ".safetensors");
                let mut metadata = BTreeMap::new();
                if !records.is_empty() {
                    metadata.insert(RECORDS_KEY.to_owned(), records.to_text());
                }
                let sum = safetensors::checksum(tensors, &metadata);
                metadata.insert(safetensors::CHECKSUM_KEY.to_owned(), sum);
                safetensors::write_in(self.0, &path, tensors, &metadata, Durability::Synced)?;
                Ok(path)
            }
        }
    }

    /// Writes an object-based checkpoint: the object of a variable is its name, split at `/`.
    pub(super) fn write_objects(
        self,
        prefix: &Path,
        tensors: &[Named<'_>],
        records: &Records,
        save_counter: i64,
    ) -> Result<(), Error> {
        let mut writer = ObjectWriter::create_in(self.0, prefix, bundle::Options::default())?;
        for (name, tensor) in tensors {
            let path: Vec<&str> = name.split('/').collect();
            writer.variable(&path, name, *tensor)?;
        }
        writer.save_counter(save_counter)?;
        if let Some(text) = record_tensor(records)? {
            writer.bundle().add(RECORDS_KEY, &text)?;
        }
        Ok(writer.finish()?)
    }

    /// Deletes a checkpoint of any format, and its meta graph.
    pub(super) fn remove(self, prefix: &Path) -> Result<(), Error> {
        let is_bundle = self.0.exists(&bundle::index_path(prefix))
            || !bundle::data_files_in(self.0, prefix).is_empty();
        let version = match is_bundle {
            true => Version::V2,
            false => Version::V1,
        };
        Ok(checkpoint::remove_checkpoint_in(
            self.0,
            prefix,
            version,
            GRAPH_SUFFIX,
        )?)
    }

    /// The `checkpoint` state file as it is written; paths are not joined to the folder.
    pub(super) fn read_state(self, folder: &Path, file: &str) -> Result<CheckpointState, Error> {
        Ok(CheckpointState::read_in(self.0, &folder.join(file))?)
    }

    /// The `checkpoint` state file of a manager with paths joined to the folder; `None` if there is none, or it cannot be read.
    pub(super) fn state(self, folder: &Path) -> Result<Option<CheckpointState>, Error> {
        Ok(checkpoint::get_checkpoint_state_in(self.0, folder, None)?)
    }

    /// Writes the `checkpoint` state file atomically.
    pub(super) fn write_state(
        self,
        folder: &Path,
        file: Option<&str>,
        newest: &Path,
        listed: &[Retained],
        times: StateTimes,
        style: PathStyle,
    ) -> Result<(), Error> {
        let all: Vec<&str> = listed
            .iter()
            .map(|one| utf8(&one.path))
            .collect::<Result<_, Error>>()?;
        let timestamps: Vec<f64> = match times {
            StateTimes::None => Vec::new(),
            StateTimes::All { .. } => listed.iter().map(|one| one.time).collect(),
        };
        let list = CheckpointList {
            newest: utf8(newest)?,
            all: &all,
            timestamps: &timestamps,
            last_preserved: match times {
                StateTimes::None => None,
                StateTimes::All { last_preserved } => Some(last_preserved),
            },
        };
        checkpoint::update_checkpoint_state_in(
            self.0,
            folder,
            &list,
            file,
            style,
            Durability::Synced,
        )?;
        Ok(())
    }

    /// When checkpoints were written, in seconds since the Unix epoch; those that are not there are left out.
    pub(super) fn modified(self, prefixes: &[PathBuf]) -> Result<Vec<Retained>, Error> {
        let there = prefixes.iter().filter(|prefix| self.exists(prefix));
        let mut listed = Vec::new();
        for prefix in there {
            let times = checkpoint::get_checkpoint_mtimes_in(self.0, std::slice::from_ref(prefix))?;
            let since = times.first().map(|time| time.duration_since(UNIX_EPOCH));
            if let Some(since) = since {
                listed.push(Retained {
                    path: prefix.clone(),
                    time: since.map_or(0.0, |since| since.as_secs_f64()),
                });
            }
        }
        Ok(listed)
    }

    /// Whether a folder is there; the empty path is the working directory.
    pub(super) fn is_folder(self, folder: &Path) -> bool {
        folder.as_os_str().is_empty() || self.0.is_dir(folder)
    }

    /// Makes a folder and those above it.
    pub(super) fn make_folder(self, folder: &Path) -> Result<(), Error> {
        if self.is_folder(folder) {
            return Ok(());
        }
        create_dir_in(self.0, folder, Durability::Synced).map_err(|e| {
            FormatError::io(FileKind::Other, "make the folder", e)
                .in_file(folder)
                .into()
        })
    }

    /// The names in a folder, sorted; none where it is not there.
    pub(super) fn list(self, folder: &Path) -> Result<Vec<OsString>, Error> {
        match self.0.list(folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|e| {
                FormatError::io(FileKind::Other, "list it", e)
                    .in_file(folder)
                    .into()
            }),
        }
    }

    /// The bytes of a file.
    pub(super) fn read(self, path: &Path) -> Result<Vec<u8>, Error> {
        self.0.read(path).map_err(|e| {
            FormatError::io(FileKind::Other, "read it", e)
                .in_file(path)
                .into()
        })
    }
}

/// Which times a `checkpoint` state file holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum StateTimes {
    /// None, as `Saver` writes it.
    None,
    /// That of each checkpoint, and of the last that stayed for good.
    All {
        /// Seconds since the Unix epoch.
        last_preserved: f64,
    },
}

/// The records of an open checkpoint; none where it has none.
pub(super) fn records(reader: &CheckpointReader) -> Result<Records, Error> {
    let text = match reader {
        CheckpointReader::Safetensors(file) => file.metadata().get(RECORDS_KEY).cloned(),
        CheckpointReader::Bundle(_) | CheckpointReader::Table(_)
            if reader.has_tensor(RECORDS_KEY) =>
        {
            let tensor = reader.get_tensor(RECORDS_KEY)?;
            let text = match tensor.elements() {
                checkpoint::Elements::Strings(strings) if tensor.shape().is_empty() => {
                    strings.first().and_then(|one| str::from_utf8(one).ok())
                }
                _ => None,
            };
            let cause = "the records of the checkpoint are damaged: they are not one text";
            Some(
                text.ok_or_else(|| Error::new(Code::DataLoss, cause))?
                    .to_owned(),
            )
        }
        CheckpointReader::Bundle(_) | CheckpointReader::Table(_) | CheckpointReader::Npz(_) => None,
    };
    text.map_or(Ok(Records::default()), |text| Records::parse(&text))
}

/// The folder of a prefix, and the name of the state file in it.
pub(super) fn folder_of(prefix: &Path) -> &Path {
    prefix.parent().unwrap_or(Path::new(""))
}

/// The default name of the state file.
pub(super) fn state_file(file: Option<&str>) -> &str {
    file.unwrap_or(STATE_FILE)
}

/// A path with more at the end of its name.
pub(super) fn suffixed(prefix: &Path, suffix: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

/// The tensor that holds records, where there are any.
fn record_tensor(records: &Records) -> Result<Option<FileTensor>, Error> {
    match records.is_empty() {
        true => Ok(None),
        false => {
            let text = records.to_text().into_bytes();
            Ok(Some(FileTensor::strings(&[], vec![text])?))
        }
    }
}

/// The data file of each tensor: the largest first, each to the one with the fewest bytes.
fn spread(tensors: &[Named<'_>], shards: Option<u32>) -> Vec<u32> {
    let mut place = vec![0; tensors.len()];
    let Some(count) = shards.filter(|&count| count > 1) else {
        return place;
    };
    let size = |i: usize| {
        let view = &tensors[i].1;
        view.shape().iter().product::<usize>() * view.dtype().size().unwrap_or(16)
    };
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(size(i)), i));
    let mut filled = vec![0_usize; count as usize];
    for i in order {
        let least = (0..filled.len()).min_by_key(|&shard| filled[shard]);
        let shard = least.expect("there is a data file");
        filled[shard] += size(i);
        place[i] = shard as u32;
    }
    place
}

/// Paths in a state file are UTF-8.
fn utf8(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| {
        Error::new(
            Code::InvalidArgument,
            format!(
                "the path {} is not UTF-8, as a list of checkpoints requires",
                path.display()
            ),
        )
    })
}
