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
    checkpoint_exists_in, find_latest, find_latest_in, generate_checkpoint_state_proto,
    get_checkpoint_mtimes, get_checkpoint_mtimes_in, get_checkpoint_state, get_checkpoint_state_in,
    latest_checkpoint, latest_checkpoint_in, list_variables, load_checkpoint, load_variable,
    locate_checkpoint, locate_checkpoint_in, new_checkpoint_reader, remove_checkpoint,
    remove_checkpoint_in, update_checkpoint_state, update_checkpoint_state_in,
};
pub use numpy::Npz;
pub use object::{ObjectGraph, ObjectWriter};
pub use reader::{CheckpointReader, verify, verify_in};
pub use safetensors::Safetensors;
pub use slice::{Extent, Slice};
pub use state::CheckpointState;
pub use v1::{TableCheckpoint, TableCheckpointWriter};

pub use crate::tensor::{BytesColumn, DType, Element, Elements, ElementsView, Tensor, TensorView};
