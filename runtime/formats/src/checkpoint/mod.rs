//! Checkpoints: tensor bundles (V2), tables of the first version (V1), object graphs, safetensors, npz, and the `checkpoint` state file.
//!
//! In: prefixes, files and folders. Out: tensors by name; and the reverse. Every checksum is compared. [`CheckpointReader`]
//! opens any of them, [`BundleWriter`] and [`ObjectWriter`] write what TensorFlow restores. Leaves alone: what a tensor is to a model, and
//! which checkpoints are kept.

pub mod bundle;
mod follow;
mod key;
mod manage;
pub mod numpy;
pub mod object;
mod paths;
mod reader;
pub mod safetensors;
mod slice;
mod state;
mod text_format;
pub mod v1;

pub use bundle::{Bundle, BundleWriter};
pub use follow::{Checkpoints, checkpoints_iterator};
pub use manage::{
    CheckpointList, CheckpointLocation, Latest, PathStyle, STATE_FILE, Version, checkpoint_exists,
    find_latest, generate_checkpoint_state_proto, get_checkpoint_mtimes, get_checkpoint_state,
    latest_checkpoint, list_variables, load_checkpoint, load_variable, locate_checkpoint,
    new_checkpoint_reader, remove_checkpoint, update_checkpoint_state,
};
pub use numpy::Npz;
pub use object::{ObjectGraph, ObjectWriter};
pub use reader::{CheckpointReader, verify};
pub use safetensors::Safetensors;
pub use slice::{Extent, Slice};
pub use state::CheckpointState;
pub use v1::{TableCheckpoint, TableCheckpointWriter};

pub use crate::tensor::{BytesColumn, DType, Element, Elements, ElementsView, Tensor, TensorView};
