//! Tensor bundles (`tensor_bundle`), checkpoints of the second version (V2): an index, which is a sorted string table, and data files
//! with the bytes of tensors.
//!
//! In: the prefix of a checkpoint, such as `run/model.ckpt-100`, and tensors. Out: `run/model.ckpt-100.index` and
//! `run/model.ckpt-100.data-00000-of-00001`; and the reverse. Leaves alone: the graph beside them, `run/model.ckpt-100.meta`.

mod data;
mod index;
mod merge;
mod reader;
mod strings;
mod verify;
mod writer;

use std::path::{Path, PathBuf};

pub use index::{Endianness, Entry, Header};
pub(crate) use index::{check_version, dtype_from_number, shape_from_proto, shape_to_proto};
pub use merge::{merge, merge_in};
pub use reader::Bundle;
pub(crate) use verify::index_damage;
pub use writer::{BundleWriter, Options, Replace, data_files, data_files_in};

/// The file that lists the tensors of a checkpoint.
pub fn index_path(prefix: &Path) -> PathBuf {
    with_suffix(prefix, ".index")
}

/// A file with the bytes of tensors.
///
/// ```
/// use trainspec_formats::checkpoint::bundle::data_path;
///
/// let path = data_path("run/model.ckpt".as_ref(), 1, 4);
/// assert_eq!(path, std::path::Path::new("run/model.ckpt.data-00001-of-00004"));
/// ```
pub fn data_path(prefix: &Path, shard: u32, shards: u32) -> PathBuf {
    with_suffix(prefix, &format!(".data-{shard:05}-of-{shards:05}"))
}

pub(crate) fn with_suffix(prefix: &Path, suffix: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}
