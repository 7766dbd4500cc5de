//! The `tf.train` API for graphs built in Rust, under TensorFlow's names: optimizers, exponential moving averages, checkpoints.

mod averages;
mod optimizer;

pub use averages::ExponentialMovingAverage;
pub use optimizer::{GradientAndVariable, Minimize, Optimizer, Variable};

pub use crate::saver::{
    Checkpoint, CheckpointManager, CheckpointOptions, Saver, VocabInfo, init_from_checkpoint,
    warm_start,
};
