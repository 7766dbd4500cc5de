//! Queues and the input of `tf.train` that is built on them: queue runners, input producers, batching.
//!
//! In: tensors, files, or closures that give values ([`Output`]). Out: batches, one with each evaluation, which threads have prepared in
//! queues. Threads belong to a [`Coordinator`](crate::Coordinator) and end with it. Leaves alone: the `data` of a spec, whose order does not
//! depend on threads and which resumes where it stopped; here the order is that of threads, as in TensorFlow.

mod attempts;
mod batch;
mod cancellation;
mod epochs;
mod files;
mod fraction_full;
mod handle;
mod items;
mod keep_input;
mod kinds;
mod local_variable;
mod output;
mod producers;
mod runner;
mod shared_queues;
mod tensor_spec;
mod value;

pub use batch::{
    BatchOptions, ShuffleBatchOptions, batch, batch_join, maybe_batch, maybe_batch_join,
    maybe_shuffle_batch, maybe_shuffle_batch_join, shuffle_batch, shuffle_batch_join,
};
pub use cancellation::Cancellation;
pub use epochs::limit_epochs;
pub use files::match_filenames_once;
pub use handle::{Queue, QueueOptions};
pub use keep_input::KeepInput;
pub use kinds::{FifoQueue, PaddingFifoQueue, PriorityQueue, RandomShuffleQueue};
pub use local_variable::LocalVariable;
pub(crate) use local_variable::restart_input;
pub use output::Output;
pub use producers::{
    ProducerOptions, input_producer, range_input_producer, slice_input_producer,
    string_input_producer, strings,
};
pub use runner::{
    CloseOp, EnqueueOp, QueueRunner, QueueRunnerOptions, RunnerThread, add_queue_runner,
    start_queue_runners,
};
pub use tensor_spec::{PartialShape, TensorSpec};
pub use value::{SparseTensor, Value};
