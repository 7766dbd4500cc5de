//! The `tf.train` API for graphs built in Rust, under TensorFlow's names: optimizers, exponential moving averages, checkpoints.

mod averages;
mod global_step;
mod optimizer;

pub use averages::ExponentialMovingAverage;
pub use global_step::{
    assert_global_step, create_global_step, get_global_step, get_or_create_global_step, global_step,
};
pub use optimizer::{GradientAndVariable, Minimize, Optimizer, Variable};

pub use crate::saver::{
    Checkpoint, CheckpointManager, CheckpointOptions, Saver, VocabInfo, init_from_checkpoint,
    warm_start,
};
