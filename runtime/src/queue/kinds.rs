//! The kinds of queues: first in, first out; padded; shuffled; by priority.

use std::ops::Deref;

use crate::queue::items::Kind;
use crate::queue::{Queue, QueueOptions, TensorSpec};
use crate::{Code, DType, Error};

/// A queue that gives elements back in the order in which they came (`tf.FIFOQueue`).
///
/// ```
/// use trainspec::queue::{FifoQueue, QueueOptions, TensorSpec};
/// use trainspec::{DType, Tensor};
///
/// let queue = FifoQueue::new(QueueOptions::new(Some(2), vec![TensorSpec::new(DType::I32, &[])]))?;
/// queue.enqueue([Tensor::scalar(1_i32)])?;
/// queue.enqueue([Tensor::scalar(2_i32)])?;
/// let both = queue.dequeue_many(2)?;
/// assert_eq!(both[0].tensor(), Some(&Tensor::new(&[2], vec![1_i32, 2])));
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FifoQueue(Queue);

impl FifoQueue {
    /// A queue whose components have a known shape each, or none (then only single elements can be taken).
    pub fn new(options: QueueOptions) -> Result<FifoQueue, Error> {
        check_shapes(&options.components)?;
        Queue::of_kind(Kind::Fifo, options).map(FifoQueue)
    }
}

/// A queue whose elements may differ in shape: batches are padded with zeros (`tf.PaddingFIFOQueue`).
///
/// ```
/// use trainspec::queue::{PaddingFifoQueue, QueueOptions, TensorSpec};
/// use trainspec::{DType, Tensor};
///
/// let queue = PaddingFifoQueue::new(QueueOptions::new(Some(9), vec![TensorSpec::partial(DType::I32, &[None])]))?;
/// queue.enqueue([Tensor::new(&[1], vec![7_i32])])?;
/// queue.enqueue([Tensor::new(&[2], vec![8_i32, 9])])?;
/// let batch = queue.dequeue_many(2)?;
/// assert_eq!(batch[0].tensor(), Some(&Tensor::new(&[2, 2], vec![7_i32, 0, 8, 9])));
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PaddingFifoQueue(Queue);

impl PaddingFifoQueue {
    /// A queue whose components have a known rank each.
    pub fn new(options: QueueOptions) -> Result<PaddingFifoQueue, Error> {
        let all = options.components.len();
        let known = options.components.iter();
        let known = known
            .filter(|component| component.shape.0.is_some())
            .count();
        if known != all {
            let message = format!(
                "Shapes must be provided for all components, but received {all} dtypes and {known} shapes."
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Queue::of_kind(Kind::PaddingFifo, options).map(PaddingFifoQueue)
    }
}

/// A queue that gives elements back in a random order (`tf.RandomShuffleQueue`). The order depends on the seed, on the name, and on what is
/// in the queue when an element is taken.
///
/// ```
/// use trainspec::queue::{QueueOptions, RandomShuffleQueue, TensorSpec};
/// use trainspec::{DType, Tensor};
///
/// let options = QueueOptions::new(Some(100), vec![TensorSpec::new(DType::I32, &[])]);
/// let queue = RandomShuffleQueue::new(2, 7, options)?;
/// queue.enqueue_many([Tensor::new(&[5], vec![0_i32, 1, 2, 3, 4])])?;
/// queue.close(false)?;
/// let mut all = queue.dequeue_many(5)?[0].tensor().unwrap().to_i64s();
/// all.sort();
/// assert_eq!(all, [0, 1, 2, 3, 4]);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RandomShuffleQueue(Queue);

impl RandomShuffleQueue {
    /// A queue in which at least `min_after_dequeue` elements stay until it is closed.
    pub fn new(
        min_after_dequeue: usize,
        seed: i64,
        options: QueueOptions,
    ) -> Result<RandomShuffleQueue, Error> {
        check_shapes(&options.components)?;
        if let Some(capacity) = options.capacity
            && min_after_dequeue >= capacity
        {
            let message =
                format!("min_after_dequeue {min_after_dequeue} must be < capacity {capacity}");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let kind = Kind::RandomShuffle {
            min_after_dequeue,
            seed,
        };
        Queue::of_kind(kind, options).map(RandomShuffleQueue)
    }
}

/// A queue that gives the element with the lowest priority back first (`tf.PriorityQueue`); those of one priority in the order in which they
/// came.
///
/// ```
/// use trainspec::queue::{PriorityQueue, QueueOptions, TensorSpec};
/// use trainspec::{DType, Tensor};
///
/// let queue = PriorityQueue::new(QueueOptions::new(Some(9), vec![TensorSpec::new(DType::F32, &[])]))?;
/// queue.enqueue([Tensor::scalar(5_i64), Tensor::scalar(0.5_f32)])?;
/// queue.enqueue([Tensor::scalar(1_i64), Tensor::scalar(0.1_f32)])?;
/// assert_eq!(queue.dequeue()?[1].tensor(), Some(&Tensor::scalar(0.1_f32)));
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PriorityQueue(Queue);

impl PriorityQueue {
    /// A queue whose elements have an `i64` before the components of the options: the priority. Where components have names, it has none in
    /// the options, and is called `priority`.
    pub fn new(mut options: QueueOptions) -> Result<PriorityQueue, Error> {
        check_shapes(&options.components)?;
        let priority = TensorSpec::new(DType::I64, &[]);
        options.components.insert(0, priority);
        if !options.names.is_empty() {
            options.names.insert(0, "priority".to_owned());
        }
        Queue::of_kind(Kind::Priority, options).map(PriorityQueue)
    }
}

/// A shape is known in full or not at all, where nothing is padded. Sparse components are never padded.
fn check_shapes(components: &[TensorSpec]) -> Result<(), Error> {
    let is_partial = |component: &&TensorSpec| {
        let shape = &component.shape;
        !component.is_sparse && shape.0.is_some() && shape.fully_defined().is_none()
    };
    match components.iter().find(is_partial) {
        None => Ok(()),
        Some(_) => {
            let shapes = components.iter().map(|one| one.shape.to_string());
            let shapes: Vec<String> = shapes.collect();
            let message = format!("All shapes must be fully defined: [{}]", shapes.join(", "));
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}

macro_rules! is_a_queue {
    ($($kind:ident)*) => {
        $(
            impl Deref for $kind {
                type Target = Queue;
                fn deref(&self) -> &Queue {
                    &self.0
                }
            }

            impl From<$kind> for Queue {
                fn from(queue: $kind) -> Queue {
                    queue.0
                }
            }
        )*
    };
}

is_a_queue!(FifoQueue PaddingFifoQueue RandomShuffleQueue PriorityQueue);
