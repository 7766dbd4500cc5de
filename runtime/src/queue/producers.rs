//! Input producers (`tf.train.input_producer` and its relatives): queues that a runner fills with the rows of a tensor, epoch after epoch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use trainspec_compiler::ir::philox::Key;

use crate::data::draw;
use crate::graph::Graph;
use crate::queue::fraction_full::summarize_size;
use crate::queue::items::Kind;
use crate::queue::shared_queues::open;
use crate::queue::value::{pick, row};
use crate::queue::{
    EnqueueOp, LocalVariable, Output, PartialShape, Queue, QueueOptions, QueueRunner, TensorSpec,
    Value, add_queue_runner, limit_epochs,
};
use crate::{Code, DType, Error, Tensor};

/// The arguments of input producers, with TensorFlow's defaults.
///
/// ```
/// use trainspec::queue::ProducerOptions;
///
/// let options = ProducerOptions { num_epochs: Some(1), shuffle: false, ..ProducerOptions::default() };
/// assert_eq!(options.capacity, 32);
/// assert!(ProducerOptions::default().shuffle);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerOptions {
    /// How often all rows are produced; `None` for no end.
    pub num_epochs: Option<u64>,
    /// Whether the rows of each epoch are shuffled.
    pub shuffle: bool,
    /// The seed of the shuffles.
    pub seed: i64,
    /// How many rows the queue holds.
    pub capacity: usize,
    /// Queues of a graph with one shared name are one queue.
    pub shared_name: Option<String>,
    /// The name of the scope of the queue; `None` for `input_producer`.
    pub name: Option<String>,
    /// The shape of a row, where the input does not know it.
    pub element_shape: PartialShape,
    /// The name of a summary of how full the queue is. Without it [`input_producer`] makes none, and the others `fraction_of_32_full`.
    pub summary_name: Option<String>,
}

impl Default for ProducerOptions {
    fn default() -> ProducerOptions {
        ProducerOptions {
            num_epochs: None,
            shuffle: true,
            seed: 0,
            capacity: 32,
            shared_name: None,
            name: None,
            element_shape: PartialShape(None),
            summary_name: None,
        }
    }
}

/// A queue of the rows of a tensor, in the order of the tensor or shuffled in each epoch. Its runner and, where it has a name, a summary are
/// added to the collections of the graph.
///
/// ```
/// use trainspec::queue::{ProducerOptions, input_producer, start_queue_runners};
/// use trainspec::{Coordinator, Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let rows = Tensor::new(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
/// let options = ProducerOptions { num_epochs: Some(1), shuffle: false, ..ProducerOptions::default() };
/// let queue = input_producer(&mut graph, &rows.into(), options)?;
/// let coordinator = Coordinator::new();
/// start_queue_runners(&graph, Some(&coordinator), None)?;
/// assert_eq!(queue.dequeue()?[0].tensor(), Some(&Tensor::new(&[2], vec![1.0_f32, 2.0])));
/// assert_eq!(queue.dequeue()?[0].tensor(), Some(&Tensor::new(&[2], vec![3.0_f32, 4.0])));
/// assert!(queue.dequeue().unwrap_err().is_end_of_input());
/// coordinator.request_stop(None)?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn input_producer(
    graph: &mut Graph,
    input_tensor: &Output,
    options: ProducerOptions,
) -> Result<Queue, Error> {
    let scope = graph.unique_name(options.name.as_deref().unwrap_or("input_producer"))?;
    // TensorFlow names the queue after the operation where the caller names nothing.
    let queue_name = match &options.name {
        None => format!("{scope}/FIFOQueueV2"),
        Some(name) => format!("{scope}/{name}"),
    };
    produce(graph, input_tensor, options, &scope, queue_name)
}

/// A queue of strings, such as the names of files. Fails where there are none.
///
/// ```
/// use trainspec::queue::{ProducerOptions, string_input_producer, strings};
/// use trainspec::Graph;
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let files = strings(&["a.csv", "b.csv"]).into();
/// let queue = string_input_producer(&mut graph, &files, ProducerOptions::default())?;
/// assert_eq!(queue.name(), "input_producer");
/// let none = strings(&[]).into();
/// assert!(string_input_producer(&mut graph, &none, ProducerOptions::default()).is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn string_input_producer(
    graph: &mut Graph,
    string_tensor: &Output,
    mut options: ProducerOptions,
) -> Result<Queue, Error> {
    let spec = only(string_tensor)?;
    if spec.dtype != DType::String {
        let message = format!(
            "string_input_producer takes strings, and not {}",
            spec.dtype
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let none = || {
        let message = "string_input_producer requires a non-null input tensor";
        Error::new(Code::InvalidArgument, message)
    };
    if spec.shape == PartialShape::known(&[0]) {
        return Err(none());
    }
    let specs = string_tensor.specs().to_vec();
    let not_empty = string_tensor.map(specs, move |values| {
        match values[0]
            .tensor()
            .is_some_and(|names| !names.data().is_empty())
        {
            true => Ok(values),
            false => Err(none()),
        }
    });
    let scope = graph.unique_name(options.name.as_deref().unwrap_or("input_producer"))?;
    options.element_shape = PartialShape::known(&[]);
    produce_summarized(graph, &not_empty, options, &scope)
}

/// A queue of the numbers from 0 to `limit` - 1, as `i32`.
///
/// ```
/// use trainspec::queue::{Output, ProducerOptions, range_input_producer};
/// use trainspec::Graph;
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let first = range_input_producer(&mut graph, 10, ProducerOptions::default())?;
/// let second = range_input_producer(&mut graph, 10, ProducerOptions::default())?;
/// assert_eq!((first.name(), second.name()), ("input_producer", "input_producer_1"));
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn range_input_producer(
    graph: &mut Graph,
    limit: i32,
    options: ProducerOptions,
) -> Result<Queue, Error> {
    let scope = graph.unique_name(options.name.as_deref().unwrap_or("input_producer"))?;
    produce_range(graph, limit, options, &scope)
}

/// Single rows of tensors that have as many rows, together: of a matrix of inputs and a vector of labels, an input with its label.
///
/// ```
/// use trainspec::queue::{ProducerOptions, slice_input_producer, start_queue_runners};
/// use trainspec::{Coordinator, Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let inputs = Tensor::new(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
/// let labels = Tensor::new(&[2], vec![7_i64, 8]);
/// let options = ProducerOptions { shuffle: false, ..ProducerOptions::default() };
/// let example = slice_input_producer(&mut graph, vec![inputs, labels], options)?;
/// let coordinator = Coordinator::new();
/// start_queue_runners(&graph, Some(&coordinator), None)?;
/// let values = example.evaluate()?;
/// assert_eq!(values[0].tensor(), Some(&Tensor::new(&[2], vec![1.0_f32, 2.0])));
/// assert_eq!(values[1].tensor(), Some(&Tensor::scalar(7_i64)));
/// coordinator.request_stop(None)?;
/// coordinator.join(Vec::new())?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn slice_input_producer(
    graph: &mut Graph,
    tensor_list: Vec<Tensor>,
    options: ProducerOptions,
) -> Result<Output, Error> {
    let Some(first) = tensor_list.first() else {
        let message = "Expected at least one tensor in slice_input_producer().";
        return Err(Error::new(Code::InvalidArgument, message));
    };
    let rows_of = |tensor: &Tensor| tensor.shape().first().copied();
    let rows = rows_of(first);
    let specs = tensor_list.iter().map(|tensor| {
        let own = TensorSpec::from(tensor);
        let shape = own.shape.row()?;
        if rows_of(tensor) != rows {
            let message = format!(
                "tensors that are sliced together have as many rows: {} and {}",
                first.ty(),
                tensor.ty()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(TensorSpec { shape, ..own })
    });
    let specs = specs.collect::<Result<Vec<_>, Error>>()?;
    let rows = i32::try_from(rows.unwrap_or(0)).map_err(|_| {
        let message = format!("{} has too many rows for a producer", first.ty());
        Error::new(Code::InvalidArgument, message)
    })?;
    let scope = graph.unique_name(options.name.as_deref().unwrap_or("input_producer"))?;
    let inner = graph.unique_name(&format!("{scope}/input_producer"))?;
    let queue = produce_range(graph, rows, options, &inner)?;
    let tensors: Arc<[Tensor]> = tensor_list.into();
    Ok(Output::dequeue(&queue).map(specs, move |index| {
        let index = index[0].tensor().expect("a number").to_i64s()[0] as usize;
        let rows = tensors.iter().map(|tensor| row(tensor, index).into());
        Ok(rows.collect())
    }))
}

/// A vector of strings.
///
/// ```
/// use trainspec::queue::strings;
///
/// assert_eq!(strings(&["a.csv"]).shape(), [1]);
/// ```
pub fn strings(texts: &[&str]) -> Tensor {
    let bytes = texts.iter().map(|text| text.as_bytes().to_vec());
    Tensor::new(&[texts.len()], bytes.collect())
}

/// The one value of an output.
fn only(output: &Output) -> Result<&TensorSpec, Error> {
    match output.specs() {
        [one] if !one.is_sparse => Ok(one),
        specs => {
            let message = format!(
                "a producer takes one dense tensor, and not {} values",
                specs.len()
            );
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}

/// The numbers from 0 on, in a queue that is called like its scope.
fn produce_range(
    graph: &mut Graph,
    limit: i32,
    options: ProducerOptions,
    scope: &str,
) -> Result<Queue, Error> {
    let numbers: Vec<i32> = (0..limit).collect();
    let range = Tensor::new(&[numbers.len()], numbers);
    produce_summarized(graph, &range.into(), options, scope)
}

/// A queue that is called like its scope, with a summary.
fn produce_summarized(
    graph: &mut Graph,
    input: &Output,
    mut options: ProducerOptions,
    scope: &str,
) -> Result<Queue, Error> {
    let name = format!("fraction_of_{}_full", options.capacity);
    options.summary_name.get_or_insert(name);
    produce(graph, input, options, scope, scope.to_owned())
}

/// Makes the queue, its runner and its summary.
fn produce(
    graph: &mut Graph,
    input: &Output,
    options: ProducerOptions,
    scope: &str,
    queue_name: String,
) -> Result<Queue, Error> {
    let spec = only(input)?;
    let row_shape = spec.shape.row()?;
    let Some(element_shape) = row_shape.merge(&options.element_shape) else {
        let message = format!(
            "Shapes {row_shape} and {} are not compatible",
            options.element_shape
        );
        return Err(Error::new(Code::InvalidArgument, message));
    };
    if element_shape.fully_defined().is_none() {
        let message = "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified";
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let component = TensorSpec {
        shape: element_shape,
        ..spec.clone()
    };
    let shuffled = match options.shuffle {
        true => shuffle(graph, input, options.seed, scope)?,
        false => input.clone(),
    };
    let epochs = format!("{scope}/limit_epochs");
    let epoch = limit_epochs(graph, &shuffled, options.num_epochs, Some(&epochs))?;
    let queue = open(
        graph,
        Kind::Fifo,
        options.shared_name.as_deref(),
        QueueOptions {
            name: Some(queue_name),
            ..QueueOptions::new(Some(options.capacity), vec![component])
        },
    )?;
    let own = queue.clone();
    let enqueue = EnqueueOp::cancellable(move |cancellation| {
        let rows = epoch.evaluate_with(cancellation)?;
        own.cancelled_by(cancellation).enqueue_many(rows)
    });
    let last = queue.name().rsplit('/').next().unwrap_or_default();
    let enqueue = enqueue.with_name(&format!("{scope}/{last}_EnqueueMany"));
    let runner = QueueRunner::new(&queue, vec![enqueue])?;
    add_queue_runner(graph, &runner, None)?;
    if let Some(name) = &options.summary_name {
        summarize_size(
            graph,
            &format!("{scope}/{name}"),
            &queue,
            0,
            options.capacity,
        )?;
    }
    Ok(queue)
}

/// The rows of an output in another order at each evaluation (`tf.random_shuffle`). The order depends on the seed, the scope, and how often
/// it was evaluated since the start.
fn shuffle(graph: &mut Graph, input: &Output, seed: i64, scope: &str) -> Result<Output, Error> {
    let key = Key::new(seed, &format!("{scope}/random_shuffle"));
    let pass = Arc::new(AtomicU64::new(0));
    let own = pass.clone();
    let initialize = move || own.store(0, Ordering::SeqCst);
    let variable = LocalVariable::new(format!("{scope}/random_shuffle"), initialize);
    graph.collections_mut()?.local_variables.push(variable);
    Ok(input.map(input.specs().to_vec(), move |values| {
        let key = key.fold(pass.fetch_add(1, Ordering::SeqCst) as i64);
        let tensor = values[0].tensor().expect("a dense tensor");
        let rows = tensor.shape().first().copied().unwrap_or(0);
        let mut order: Vec<usize> = (0..rows).collect();
        // Fisher-Yates.
        for i in (1..rows).rev() {
            order.swap(i, draw(key, i as u64, i + 1));
        }
        Ok(vec![Value::Dense(pick(tensor, &order))])
    }))
}
