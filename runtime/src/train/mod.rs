//! The `tf.train` API for graphs built in Rust, under TensorFlow's names: optimizers, exponential moving averages, checkpoints, queues.

mod averages;
mod global_step;
mod optimizer;

pub use averages::ExponentialMovingAverage;
pub use global_step::{
    assert_global_step, create_global_step, get_global_step, get_or_create_global_step, global_step,
};
pub use optimizer::{GradientAndVariable, Minimize, Optimizer, Variable};

pub use trainspec_compiler::ir::autodiff::Cotangent;
pub use trainspec_compiler::ir::build::Builder;
pub use trainspec_compiler::ir::graph::Type;

pub use crate::queue::{
    QueueRunner, add_queue_runner, batch, batch_join, input_producer, limit_epochs,
    match_filenames_once, maybe_batch, maybe_batch_join, maybe_shuffle_batch,
    maybe_shuffle_batch_join, range_input_producer, shuffle_batch, shuffle_batch_join,
    slice_input_producer, start_queue_runners, string_input_producer,
};
pub use crate::saver::{
    Checkpoint, CheckpointManager, CheckpointOptions, Saver, VocabInfo, init_from_checkpoint,
    warm_start,
};
