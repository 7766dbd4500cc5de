//! Checkpoints of the first version (V1): one sorted string table, or several, that hold tensor slices as `SavedTensorSlices` messages.
//!
//! In: a file, or a pattern that several match (`model.ckpt-?????-of-00002`). Out: tensors; and the reverse. Leaves alone: types that
//! the format cannot hold, such as bfloat16.

mod lists;
mod reader;
mod writer;

pub use reader::TableCheckpoint;
pub use writer::{TableCheckpointWriter, holds, shard_path, write_each};
