//! Batching (`tf.train.batch` and its relatives): a queue between an output of single examples and one of batches of them.
//!
//! In: one output, or several that are joined. Out: an output whose evaluations are batches. The runner of the queue and a summary of how
//! full it is are added to the collections of the graph. The order of examples is that of threads.

use crate::graph::Graph;
use crate::queue::fraction_full::summarize_size;
use crate::queue::items::Kind;
use crate::queue::shared_queues::open;
use crate::queue::{
    EnqueueOp, KeepInput, Output, PartialShape, QueueOptions, QueueRunner, TensorSpec,
    add_queue_runner,
};
use crate::{Code, Error};

/// The arguments of [`batch`], [`batch_join`] and their `maybe_` forms, with TensorFlow's defaults.
///
/// ```
/// use trainspec::queue::BatchOptions;
///
/// let options = BatchOptions { allow_smaller_final_batch: true, ..BatchOptions::new(16) };
/// assert_eq!((options.num_threads, options.capacity), (1, 32));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchOptions {
    /// How many examples a batch has.
    pub batch_size: usize,
    /// How many threads evaluate the output; a join has one for each output instead.
    pub num_threads: usize,
    /// How many examples the queue holds.
    pub capacity: usize,
    /// Whether an evaluation gives many examples, along the first dimension.
    pub enqueue_many: bool,
    /// The shapes of the values of an example, where the output does not know them.
    pub shapes: Option<Vec<PartialShape>>,
    /// Whether examples may differ in shape, and are padded with zeros to that of the largest of their batch.
    pub dynamic_pad: bool,
    /// Whether the last batch may be smaller; otherwise examples that are left over are not used.
    pub allow_smaller_final_batch: bool,
    /// Queues of a graph with one shared name are one queue.
    pub shared_name: Option<String>,
    /// The name of the scope of the queue; `None` for that of the function.
    pub name: Option<String>,
}

impl BatchOptions {
    /// Batches of a size.
    pub fn new(batch_size: usize) -> BatchOptions {
        BatchOptions {
            batch_size,
            num_threads: 1,
            capacity: 32,
            enqueue_many: false,
            shapes: None,
            dynamic_pad: false,
            allow_smaller_final_batch: false,
            shared_name: None,
            name: None,
        }
    }
}

/// The arguments of [`shuffle_batch`], [`shuffle_batch_join`] and their `maybe_` forms.
///
/// ```
/// use trainspec::queue::{BatchOptions, ShuffleBatchOptions};
///
/// let options = ShuffleBatchOptions { seed: 7, ..ShuffleBatchOptions::new(16, 1000, 500) };
/// assert_eq!(options.batch.num_threads, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShuffleBatchOptions {
    /// What it has in common with [`batch`]; examples are never padded.
    pub batch: BatchOptions,
    /// How many examples stay in the queue until the end, to be mixed with others; less than the capacity.
    pub min_after_dequeue: usize,
    /// The seed of the order.
    pub seed: i64,
}

impl ShuffleBatchOptions {
    /// Shuffled batches of a size: TensorFlow has no default for the others.
    pub fn new(batch_size: usize, capacity: usize, min_after_dequeue: usize) -> Self {
        ShuffleBatchOptions {
            batch: BatchOptions {
                capacity,
                ..BatchOptions::new(batch_size)
            },
            min_after_dequeue,
            seed: 0,
        }
    }
}

/// Batches of the examples of an output.
///
/// ```
/// use trainspec::queue::{BatchOptions, Output, ProducerOptions, batch, range_input_producer, start_queue_runners};
/// use trainspec::{Coordinator, Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let once = ProducerOptions { num_epochs: Some(1), shuffle: false, ..ProducerOptions::default() };
/// let numbers = range_input_producer(&mut graph, 5, once)?;
/// let options = BatchOptions { allow_smaller_final_batch: true, ..BatchOptions::new(3) };
/// let batches = batch(&mut graph, &Output::dequeue(&numbers), options)?;
/// let coordinator = Coordinator::new();
/// start_queue_runners(&graph, Some(&coordinator), None)?;
/// assert_eq!(batches.evaluate()?[0].tensor(), Some(&Tensor::new(&[3], vec![0_i32, 1, 2])));
/// assert_eq!(batches.evaluate()?[0].tensor(), Some(&Tensor::new(&[2], vec![3_i32, 4])));
/// assert!(batches.evaluate().unwrap_err().is_end_of_input());
/// coordinator.request_stop(None)?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn batch(graph: &mut Graph, tensors: &Output, options: BatchOptions) -> Result<Output, Error> {
    maybe_batch(graph, tensors, &true.into(), options)
}

/// Batches of those examples of an output that are kept.
///
/// ```
/// use trainspec::queue::{BatchOptions, KeepInput, Output, ProducerOptions, maybe_batch, range_input_producer, start_queue_runners};
/// use trainspec::{Coordinator, Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let once = ProducerOptions { num_epochs: Some(1), shuffle: false, ..ProducerOptions::default() };
/// let numbers = range_input_producer(&mut graph, 4, once)?;
/// let odd = KeepInput::scalar(|values| Ok(values[0].tensor().unwrap().to_i64s()[0] % 2 == 1));
/// let batches = maybe_batch(&mut graph, &Output::dequeue(&numbers), &odd, BatchOptions::new(2))?;
/// let coordinator = Coordinator::new();
/// start_queue_runners(&graph, Some(&coordinator), None)?;
/// assert_eq!(batches.evaluate()?[0].tensor(), Some(&Tensor::new(&[2], vec![1_i32, 3])));
/// coordinator.request_stop(None)?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn maybe_batch(
    graph: &mut Graph,
    tensors: &Output,
    keep_input: &KeepInput,
    options: BatchOptions,
) -> Result<Output, Error> {
    let threads = threads(tensors, options.num_threads)?;
    assemble(
        graph,
        "batch",
        &threads,
        keep_input,
        Buffer::Ordered,
        options,
    )
}

/// Batches of the examples of several outputs, each of which has a thread. Fails where they differ in their types.
pub fn batch_join(
    graph: &mut Graph,
    tensors_list: &[Output],
    options: BatchOptions,
) -> Result<Output, Error> {
    maybe_batch_join(graph, tensors_list, &true.into(), options)
}

/// Batches of those examples of several outputs that are kept.
pub fn maybe_batch_join(
    graph: &mut Graph,
    tensors_list: &[Output],
    keep_input: &KeepInput,
    options: BatchOptions,
) -> Result<Output, Error> {
    let ordered = Buffer::Ordered;
    assemble(
        graph,
        "batch_join",
        tensors_list,
        keep_input,
        ordered,
        options,
    )
}

/// Batches of examples in a random order.
///
/// ```
/// use trainspec::queue::{Output, ProducerOptions, ShuffleBatchOptions, range_input_producer, shuffle_batch, start_queue_runners};
/// use trainspec::{Coordinator, Graph};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let once = ProducerOptions { num_epochs: Some(1), ..ProducerOptions::default() };
/// let numbers = range_input_producer(&mut graph, 10, once)?;
/// let options = ShuffleBatchOptions::new(5, 8, 4);
/// let batches = shuffle_batch(&mut graph, &Output::dequeue(&numbers), options)?;
/// let coordinator = Coordinator::new();
/// start_queue_runners(&graph, Some(&coordinator), None)?;
/// let mut all = batches.evaluate()?[0].tensor().unwrap().to_i64s();
/// all.extend(batches.evaluate()?[0].tensor().unwrap().to_i64s());
/// all.sort();
/// assert_eq!(all, (0..10).collect::<Vec<i64>>());
/// coordinator.request_stop(None)?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn shuffle_batch(
    graph: &mut Graph,
    tensors: &Output,
    options: ShuffleBatchOptions,
) -> Result<Output, Error> {
    maybe_shuffle_batch(graph, tensors, &true.into(), options)
}

/// Batches of those examples that are kept, in a random order.
pub fn maybe_shuffle_batch(
    graph: &mut Graph,
    tensors: &Output,
    keep_input: &KeepInput,
    options: ShuffleBatchOptions,
) -> Result<Output, Error> {
    let threads = threads(tensors, options.batch.num_threads)?;
    let buffer = Buffer::shuffled(&options)?;
    assemble(
        graph,
        "shuffle_batch",
        &threads,
        keep_input,
        buffer,
        options.batch,
    )
}

/// Batches of the examples of several outputs in a random order; each output has a thread.
pub fn shuffle_batch_join(
    graph: &mut Graph,
    tensors_list: &[Output],
    options: ShuffleBatchOptions,
) -> Result<Output, Error> {
    maybe_shuffle_batch_join(graph, tensors_list, &true.into(), options)
}

/// Batches of those examples of several outputs that are kept, in a random order.
pub fn maybe_shuffle_batch_join(
    graph: &mut Graph,
    tensors_list: &[Output],
    keep_input: &KeepInput,
    options: ShuffleBatchOptions,
) -> Result<Output, Error> {
    let buffer = Buffer::shuffled(&options)?;
    let name = "shuffle_batch_join";
    assemble(graph, name, tensors_list, keep_input, buffer, options.batch)
}

/// The queue of a batch function.
#[derive(Clone, Copy)]
enum Buffer {
    Ordered,
    Shuffled { min_after_dequeue: usize, seed: i64 },
}

impl Buffer {
    fn shuffled(options: &ShuffleBatchOptions) -> Result<Buffer, Error> {
        let (capacity, least) = (options.batch.capacity, options.min_after_dequeue);
        if capacity <= least {
            let message =
                format!("capacity {capacity} must be bigger than min_after_dequeue {least}.");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if options.batch.dynamic_pad {
            let message = "examples that are shuffled are not padded: `dynamic_pad` is for `batch`";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(Buffer::Shuffled {
            min_after_dequeue: least,
            seed: options.seed,
        })
    }

    fn kind(self, dynamic_pad: bool) -> Kind {
        match self {
            Buffer::Ordered if dynamic_pad => Kind::PaddingFifo,
            Buffer::Ordered => Kind::Fifo,
            Buffer::Shuffled {
                min_after_dequeue,
                seed,
            } => Kind::RandomShuffle {
                min_after_dequeue,
                seed,
            },
        }
    }
}

/// One output for each thread.
fn threads(tensors: &Output, num_threads: usize) -> Result<Vec<Output>, Error> {
    match num_threads {
        0 => {
            let message = "a batch function has at least one thread";
            Err(Error::new(Code::InvalidArgument, message))
        }
        n => Ok(vec![tensors.clone(); n]),
    }
}

/// Makes the queue with its runner, which has a thread for each output, and the output of batches.
fn assemble(
    graph: &mut Graph,
    function: &str,
    outputs: &[Output],
    keep_input: &KeepInput,
    buffer: Buffer,
    options: BatchOptions,
) -> Result<Output, Error> {
    if options.batch_size == 0 {
        let message = "a batch has at least one example";
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let names = check_names(outputs)?;
    let components = components(outputs, &options)?;
    keep_input.check(options.enqueue_many)?;
    let scope = graph.unique_name(options.name.as_deref().unwrap_or(function))?;
    let kind = buffer.kind(options.dynamic_pad);
    let queue = open(
        graph,
        kind,
        options.shared_name.as_deref(),
        QueueOptions {
            name: Some(format!("{scope}/{}", kind.default_name())),
            ..QueueOptions::new(Some(options.capacity), components.clone())
        },
    )?;
    let suffix = match options.enqueue_many {
        true => "EnqueueMany",
        false => "enqueue",
    };
    let op_name = format!("{scope}/{}_{suffix}", kind.default_name());
    let enqueue_ops = outputs.iter().map(|output| {
        let (output, queue, keep) = (output.clone(), queue.clone(), keep_input.clone());
        let many = options.enqueue_many;
        let op = EnqueueOp::cancellable(move |cancellation| {
            let values = output.evaluate_with(cancellation)?;
            keep.enqueue(&queue, values, many, cancellation)
        });
        op.with_name(&op_name)
    });
    let runner = QueueRunner::new(&queue, enqueue_ops.collect())?;
    add_queue_runner(graph, &runner, None)?;
    let (least, tag) = match buffer {
        Buffer::Ordered => (0, format!("fraction_of_{}_full", options.capacity)),
        Buffer::Shuffled {
            min_after_dequeue: least,
            ..
        } => {
            let free_capacity = options.capacity - least;
            (
                least,
                format!("fraction_over_{least}_of_{free_capacity}_full"),
            )
        }
    };
    let tag = format!("{scope}/{tag}");
    summarize_size(graph, &tag, &queue, least, options.capacity - least)?;
    let (n, allow_fewer) = (options.batch_size, options.allow_smaller_final_batch);
    let rows = (!allow_fewer).then_some(n);
    let specs = components.into_iter().map(|component| TensorSpec {
        shape: component.shape.batched(rows),
        ..component
    });
    let batches = Output::cancellable(specs.collect(), move |cancellation| {
        let queue = queue.cancelled_by(cancellation);
        match allow_fewer {
            true => queue.dequeue_up_to(n),
            false => queue.dequeue_many(n),
        }
    });
    Ok(match names.is_empty() {
        true => batches,
        false => batches.under(names),
    })
}

/// The names of the values, which all outputs have in common.
fn check_names(outputs: &[Output]) -> Result<Vec<String>, Error> {
    let Some(first) = outputs.first() else {
        let message = "Expected at least one set of tensors";
        return Err(Error::new(Code::InvalidArgument, message));
    };
    if first.specs().is_empty() {
        let message = "Expected at least one tensor in batch().";
        return Err(Error::new(Code::InvalidArgument, message));
    }
    match outputs.iter().find(|one| one.names() != first.names()) {
        None => Ok(first.names().to_vec()),
        Some(other) => {
            let message = format!(
                "outputs that are joined have one set of names: {:?} and {:?}",
                first.names(),
                other.names()
            );
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}

/// The components of the queue: the dtypes that all outputs have, and what is known of the shapes of single examples.
fn components(outputs: &[Output], options: &BatchOptions) -> Result<Vec<TensorSpec>, Error> {
    let invalid = |message: String| Error::new(Code::InvalidArgument, message);
    let types = |output: &Output| -> Vec<String> {
        output.specs().iter().map(TensorSpec::type_name).collect()
    };
    let first = &outputs[0];
    if let Some(other) = outputs.iter().find(|one| types(one) != types(first)) {
        return Err(invalid(format!(
            "Expected types to be consistent: {} vs. {}.",
            types(first).join(", "),
            types(other).join(", ")
        )));
    }
    if let Some(shapes) = &options.shapes
        && shapes.len() != first.specs().len()
    {
        return Err(invalid(format!(
            "{} shapes are given for {} tensors",
            shapes.len(),
            first.specs().len()
        )));
    }
    let mut components = Vec::new();
    for (i, spec) in first.specs().iter().enumerate() {
        let mut shape = PartialShape(None);
        for output in outputs {
            let own = &output.specs()[i].shape;
            let own = match options.enqueue_many {
                true => own.row()?,
                false => own.clone(),
            };
            let merged = shape.merge(&own);
            let conflict = || invalid(format!("Shapes {shape} and {own} are not compatible"));
            shape = merged.ok_or_else(conflict)?;
        }
        if let Some(shapes) = &options.shapes {
            shape = shapes[i].clone();
        }
        if !spec.is_sparse {
            if shape.0.is_none() {
                return Err(invalid(format!("Cannot infer Tensor's rank: tensor {i}")));
            }
            if !options.dynamic_pad && shape.fully_defined().is_none() {
                return Err(invalid(format!(
                    "All shapes must be fully defined: [{shape}]"
                )));
            }
        }
        components.push(TensorSpec {
            shape,
            ..spec.clone()
        });
    }
    Ok(components)
}
