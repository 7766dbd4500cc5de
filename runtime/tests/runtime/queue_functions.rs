//! What producers and batch functions make: names, collections, summaries, messages, and errors of their arguments.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use trainspec::graph::{QUEUE_RUNNERS, SUMMARIES};
use trainspec::queue::{
    BatchOptions, EnqueueOp, FifoQueue, KeepInput, Output, PaddingFifoQueue, PartialShape,
    ProducerOptions, QueueOptions, QueueRunnerOptions, RandomShuffleQueue, ShuffleBatchOptions,
    SparseTensor, TensorSpec, Value, strings,
};
use trainspec::session::Target;
use trainspec::summary::merge_all_summaries;
use trainspec::supervisor::{Supervisor, SupervisorOptions};
use trainspec::train::{
    QueueRunner, add_queue_runner, batch, batch_join, input_producer, limit_epochs, maybe_batch,
    maybe_batch_join, maybe_shuffle_batch, maybe_shuffle_batch_join, range_input_producer,
    shuffle_batch, shuffle_batch_join, slice_input_producer, start_queue_runners,
    string_input_producer,
};
use trainspec::{Code, Coordinator, DType, Error, Graph, Tensor};
use trainspec_formats::proto::summary::value::Value as SummaryValue;
use trainspec_testing::folders::Folder;

use crate::queues::{RUNNERS, graph};

fn once() -> ProducerOptions {
    ProducerOptions {
        num_epochs: Some(1),
        shuffle: false,
        ..ProducerOptions::default()
    }
}

fn range(graph: &mut Graph, limit: i32) -> Output {
    Output::dequeue(&range_input_producer(graph, limit, once()).unwrap())
}

/// The names of the queues of all runners.
fn queue_names(graph: &Graph) -> Vec<String> {
    let runners = &graph.collections().queue_runners[QUEUE_RUNNERS];
    runners
        .iter()
        .map(|runner| runner.name().to_owned())
        .collect()
}

/// The scalars of all summaries, by tag.
fn scalars(graph: &Graph) -> Vec<(String, f32)> {
    let all = merge_all_summaries(graph, SUMMARIES).unwrap();
    let summary = all.evaluate(&[]).unwrap();
    let scalar = |value: Option<SummaryValue>| match value {
        Some(SummaryValue::SimpleValue(number)) => number,
        other => panic!("{other:?} is no number"),
    };
    let values = summary.value.into_iter();
    values.map(|one| (one.tag, scalar(one.value))).collect()
}

/// All batches of an output of numbers until its end, sorted.
fn drain(graph: &Graph, output: &Output) -> Vec<i64> {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let coordinator = Coordinator::new();
    start_queue_runners(graph, Some(&coordinator), None).unwrap();
    let mut all = Vec::new();
    let end = loop {
        match output.evaluate() {
            Ok(values) => all.extend(values[0].tensor().unwrap().to_i64s()),
            Err(error) => break error,
        }
    };
    assert_eq!(end.code(), Code::OutOfRange, "{end}");
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
    all.sort();
    all
}

#[test]
fn queues_runners_and_summaries_have_the_names_of_tensorflow() {
    let mut graph = graph();
    let g = &mut graph;
    let rows = Tensor::new(&[2, 1], vec![1.0_f32, 2.0]);
    string_input_producer(g, &strings(&["a"]).into(), once()).unwrap();
    input_producer(g, &rows.clone().into(), once()).unwrap();
    slice_input_producer(g, vec![rows.clone()], once()).unwrap();
    let named = ProducerOptions {
        name: Some("rows".to_owned()),
        summary_name: Some("full".to_owned()),
        ..once()
    };
    input_producer(g, &rows.into(), named).unwrap();
    let numbers = range(g, 3);
    batch(g, &numbers, BatchOptions::new(2)).unwrap();
    batch(g, &numbers, BatchOptions::new(2)).unwrap();
    let options = ShuffleBatchOptions::new(2, 10, 4);
    shuffle_batch_join(g, &[numbers], options).unwrap();
    let expected = [
        "input_producer",
        "input_producer_1/FIFOQueueV2",
        "input_producer_2/input_producer",
        "rows/rows",
        "input_producer_3",
        "batch/fifo_queue",
        "batch_1/fifo_queue",
        "shuffle_batch_join/random_shuffle_queue",
    ];
    assert_eq!(queue_names(&graph), expected);
    let tags = [
        "input_producer/fraction_of_32_full",
        "input_producer_2/input_producer/fraction_of_32_full",
        "rows/full",
        "input_producer_3/fraction_of_32_full",
        "batch/fraction_of_32_full",
        "batch_1/fraction_of_32_full",
        "shuffle_batch_join/fraction_over_4_of_6_full",
    ];
    assert_eq!(scalars(&graph), tags.map(|tag| (tag.to_owned(), 0.0)));
    let variables = graph.collections().local_variables.iter();
    let variables: Vec<&str> = variables.map(|one| one.name()).collect();
    assert_eq!(variables[0], "input_producer/limit_epochs/epochs");
    assert_eq!(
        variables[2],
        "input_producer_2/input_producer/limit_epochs/epochs"
    );
}

#[test]
fn summaries_say_how_full_a_queue_is() {
    let mut graph = graph();
    let constant: Output = Tensor::scalar(1_i64).into();
    let options = ShuffleBatchOptions::new(2, 10, 4);
    shuffle_batch(&mut graph, &constant, options).unwrap();
    batch(&mut graph, &constant, BatchOptions::new(1)).unwrap();
    let runners = graph.collections().queue_runners[QUEUE_RUNNERS].clone();
    for (runner, count) in runners.iter().zip([7, 8]) {
        let rows = Tensor::new(&[count], vec![1_i64; count]);
        runner.queue().enqueue_many([rows]).unwrap();
    }
    let values: Vec<f32> = scalars(&graph).into_iter().map(|(_, x)| x).collect();
    assert_eq!(values, [3.0 * (1.0 / 6.0_f64) as f32, 0.25]);
    // Fewer than stay after a dequeue are none.
    runners[0].queue().dequeue_many(3).unwrap();
    assert_eq!(scalars(&graph)[0].1, 0.0);
}

#[test]
fn a_supervisor_writes_summaries_of_queues_alone() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let (mut graph, folder) = (graph(), Folder::new());
    range(&mut graph, 3);
    let options = SupervisorOptions {
        logdir: Some(folder.0.clone()),
        save_summaries_secs: 0.01,
        ..SupervisorOptions::default()
    };
    let mut supervisor = Supervisor::new(graph, options).unwrap();
    let ran = supervisor.managed_session(|_, session| {
        let none: Vec<Target> = Vec::new();
        let feeds: [(&str, trainspec::InputView<'_>); 0] = [];
        session.lock().run(none, &feeds)?;
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    });
    ran.unwrap();
    let files = folder.files();
    let events = files.iter().find(|name| name.contains("tfevents")).unwrap();
    let bytes = std::fs::read(folder.file(events)).unwrap();
    let tag = b"input_producer/fraction_of_32_full";
    assert!(bytes.windows(tag.len()).any(|part| part == tag));
}

#[test]
fn all_eight_batch_functions_give_every_example_that_is_kept() {
    let odd = || KeepInput::scalar(|values| Ok(values[0].tensor().unwrap().to_i64s()[0] % 2 == 1));
    let plain = || BatchOptions {
        allow_smaller_final_batch: true,
        num_threads: 3,
        ..BatchOptions::new(4)
    };
    let shuffled = move || ShuffleBatchOptions {
        batch: BatchOptions {
            capacity: 8,
            ..plain()
        },
        ..ShuffleBatchOptions::new(4, 8, 3)
    };
    let all: Vec<i64> = (0..20).collect();
    let kept: Vec<i64> = (0..20).filter(|n| n % 2 == 1).collect();
    type Make = Box<dyn Fn(&mut Graph, &[Output]) -> Result<Output, Error>>;
    let functions: [(Make, &[i64]); 8] = [
        (Box::new(move |g, o| batch(g, &o[0], plain())), &all),
        (Box::new(move |g, o| batch_join(g, o, plain())), &all),
        (
            Box::new(move |g, o| shuffle_batch(g, &o[0], shuffled())),
            &all,
        ),
        (
            Box::new(move |g, o| shuffle_batch_join(g, o, shuffled())),
            &all,
        ),
        (
            Box::new(move |g, o| maybe_batch(g, &o[0], &odd(), plain())),
            &kept,
        ),
        (
            Box::new(move |g, o| maybe_batch_join(g, o, &odd(), plain())),
            &kept,
        ),
        (
            Box::new(move |g, o| maybe_shuffle_batch(g, &o[0], &odd(), shuffled())),
            &kept,
        ),
        (
            Box::new(move |g, o| maybe_shuffle_batch_join(g, o, &odd(), shuffled())),
            &kept,
        ),
    ];
    for (i, (make, expected)) in functions.iter().enumerate() {
        let mut graph = graph();
        // Joined outputs share one source.
        let source = range(&mut graph, 20);
        let output = make(&mut graph, &[source.clone(), source]).unwrap();
        assert_eq!(drain(&graph, &output), *expected, "function {i}");
    }
}

#[test]
fn sparse_examples_are_split_kept_and_batched() {
    let mut graph = graph();
    // Rows: [1, 0], [0, 0], [0, 2].
    let sparse = SparseTensor::new(
        Tensor::new(&[2, 2], vec![0_i64, 0, 2, 1]),
        Tensor::new(&[2], vec![1.0_f32, 2.0]),
        Tensor::new(&[2], vec![3_i64, 2]),
    );
    let sparse = sparse.unwrap();
    let specs = vec![TensorSpec::sparse(DType::F32, &[None, Some(2)])];
    let rows = Output::new(specs, move || Ok(vec![sparse.clone().into()]));
    let rows = limit_epochs(&mut graph, &rows, Some(1), None).unwrap();
    let keep = KeepInput::from(vec![false, true, true]);
    let options = BatchOptions {
        enqueue_many: true,
        ..BatchOptions::new(2)
    };
    let output = maybe_batch(&mut graph, &rows, &keep, options).unwrap();
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let coordinator = Coordinator::new();
    start_queue_runners(&graph, Some(&coordinator), None).unwrap();
    let got = output.evaluate().unwrap();
    let expected = SparseTensor::new(
        Tensor::new(&[1, 2], vec![1_i64, 1]),
        Tensor::new(&[1], vec![2.0_f32]),
        Tensor::new(&[2], vec![2_i64, 2]),
    );
    assert_eq!(got, [Value::Sparse(expected.unwrap())]);
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
}

#[test]
fn queues_with_one_shared_name_are_one_queue() {
    let mut graph = graph();
    let shared = || BatchOptions {
        shared_name: Some("examples".to_owned()),
        ..BatchOptions::new(2)
    };
    let constant: Output = Tensor::scalar(1_i64).into();
    batch(&mut graph, &constant, shared()).unwrap();
    batch(&mut graph, &constant, shared()).unwrap();
    let runners = &graph.collections().queue_runners[QUEUE_RUNNERS];
    assert_eq!(queue_names(&graph), ["examples", "examples"]);
    assert!(runners[0].queue().is(runners[1].queue()));
    let other: Output = Tensor::scalar(1.0_f32).into();
    let error = batch(&mut graph, &other, shared()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn a_queue_runner_survives_a_round_trip_as_a_message() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let mut graph = graph();
    let queue = range_input_producer(&mut graph, 2, once()).unwrap();
    let two = BatchOptions {
        num_threads: 2,
        ..BatchOptions::new(2)
    };
    batch(&mut graph, &Output::dequeue(&queue), two).unwrap();
    let runners = graph.collections().queue_runners[QUEUE_RUNNERS].clone();
    let def = runners[1].to_proto(None).unwrap();
    assert_eq!(def.queue_name, "batch/fifo_queue");
    assert_eq!(def.enqueue_op_name, ["batch/fifo_queue_enqueue"; 2]);
    assert_eq!(def.close_op_name, "batch/fifo_queue_Close");
    assert_eq!(def.cancel_op_name, "batch/fifo_queue_Close_1");
    assert_eq!(def.queue_closed_exception_types, [11]);
    assert!(runners[1].to_proto(Some("input_producer")).is_none());
    let inside = runners[1].to_proto(Some("batch")).unwrap();
    assert_eq!(inside.queue_name, "fifo_queue");
    let again = QueueRunner::from_proto(&graph, &inside, Some("batch")).unwrap();
    assert_eq!(again.to_proto(None).unwrap(), def);

    // The runner that is read fills the queue of the graph.
    let mut def = runners[0].to_proto(None).unwrap();
    assert_eq!(
        def.enqueue_op_name,
        ["input_producer/input_producer_EnqueueMany"]
    );
    def.queue_closed_exception_types.clear();
    let again = QueueRunner::from_proto(&graph, &def, None).unwrap();
    assert_eq!(again.queue_closed_exception_types(), [Code::OutOfRange]);
    let threads = again.create_threads(None).unwrap();
    assert!(threads[0].join(Some(Duration::from_secs(20))));
    assert!(queue.is_closed() && queue.size() == 2);

    def.queue_name = "lost".to_owned();
    let error = QueueRunner::from_proto(&graph, &def, None).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}

#[test]
fn wrong_arguments_are_refused_with_the_words_of_tensorflow() {
    let mut graph = graph();
    let g = &mut graph;
    let scalar: Output = Tensor::scalar(1_i64).into();
    let unknown = |shape: TensorSpec| Output::new(vec![shape], || panic!("it is not evaluated"));
    let row = unknown(TensorSpec::partial(DType::F32, &[None]));
    let any = unknown(TensorSpec::unknown(DType::F32));
    let text: Output = strings(&["a"]).into();
    let many = || BatchOptions {
        enqueue_many: true,
        ..BatchOptions::new(2)
    };
    let mask = KeepInput::from(vec![true]);
    let empty = Output::constant(Vec::new());
    let one = || BatchOptions::new(2);
    let cases: Vec<(&str, Result<Output, Error>)> = vec![
        (
            "num_epochs must be > 0 not 0.",
            limit_epochs(g, &scalar, Some(0), None),
        ),
        (
            "Expected at least one tensor in slice_input_producer().",
            slice_input_producer(g, Vec::new(), once()),
        ),
        (
            "a batch has at least one example",
            batch(g, &scalar, BatchOptions::new(0)),
        ),
        (
            "Expected at least one set of tensors",
            batch_join(g, &[], one()),
        ),
        (
            "Expected at least one tensor in batch().",
            batch(g, &empty, one()),
        ),
        (
            "All shapes must be fully defined: [(None,)]",
            batch(g, &row, one()),
        ),
        (
            "Cannot infer Tensor's rank: tensor 0",
            batch(g, &any, one()),
        ),
        (
            "Shape () must have rank at least 1",
            batch(g, &scalar, many()),
        ),
        (
            "`keep_input` cannot be a vector when `enqueue_many=False`.",
            maybe_batch(g, &scalar, &mask, one()),
        ),
        (
            "Expected types to be consistent: i64 vs. string.",
            batch_join(g, &[scalar.clone(), text.clone()], one()),
        ),
        (
            "capacity 4 must be bigger than min_after_dequeue 4.",
            shuffle_batch(g, &scalar, ShuffleBatchOptions::new(2, 4, 4)),
        ),
        (
            "string_input_producer requires a non-null input tensor",
            string_input_producer(g, &strings(&[]).into(), once()).map(|q| Output::dequeue(&q)),
        ),
        (
            "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified",
            input_producer(g, &any, once()).map(|q| Output::dequeue(&q)),
        ),
    ];
    for (expected, result) in cases {
        let error = result.unwrap_err();
        assert_eq!(
            (error.code(), &*error.to_string()),
            (Code::InvalidArgument, expected)
        );
    }
    // A shape that is given is enough.
    let shapes = BatchOptions {
        shapes: Some(vec![PartialShape::known(&[3])]),
        ..one()
    };
    assert_eq!(
        batch(g, &any, shapes).unwrap().specs()[0].shape.to_string(),
        "(2, 3)"
    );
    // Nothing is limited without a number, and nothing is added.
    let count = g.collections().local_variables.len();
    limit_epochs(g, &text, None, None).unwrap();
    assert_eq!(g.collections().local_variables.len(), count);
    // What is finalized is not added to.
    g.finalize();
    assert_eq!(
        batch(g, &scalar, one()).unwrap_err().code(),
        Code::FailedPrecondition
    );
}

#[test]
fn wrong_queues_elements_and_runners_are_refused() {
    let pair = || {
        vec![
            TensorSpec::new(DType::I64, &[]),
            TensorSpec::unknown(DType::F32),
        ]
    };
    let queue = FifoQueue::new(QueueOptions::new(Some(2), pair())).unwrap();
    let (one, half) = (Tensor::scalar(1_i64), Tensor::scalar(0.5_f32));
    let runner = |ops: Vec<EnqueueOp>, codes: Vec<Code>| {
        let options = QueueRunnerOptions {
            queue_closed_exception_types: codes,
            ..QueueRunnerOptions::default()
        };
        QueueRunner::with_options(&queue, ops, options).map(drop)
    };
    let padded = QueueOptions::new(None, pair());
    let names = QueueOptions {
        names: vec!["a".to_owned()],
        ..padded.clone()
    };
    let shapes = QueueOptions::new(None, vec![TensorSpec::partial(DType::I64, &[None])]);
    let rows = [
        Tensor::new(&[2], vec![1_i64, 2]).into(),
        Tensor::new(&[1], vec![0.5_f32]).into(),
    ];
    let cases: Vec<(&str, Result<(), Error>)> = vec![
        (
            "Wrong number of components in tuple. Expected 2, got 1",
            queue.enqueue([one.clone()]),
        ),
        (
            "Type mismatch in tuple component 1. Expected f32, got i64",
            queue.enqueue([one.clone(), one.clone()]),
        ),
        (
            "Shape () must have rank at least 1",
            queue.enqueue_many([one.clone(), half]),
        ),
        (
            "All input tensors must have the same size in the 0th dimension. Component 1 has 1, and should have 2",
            queue.enqueue_many::<Value>(rows),
        ),
        (
            "FIFOQueue's DequeueMany and DequeueUpTo require the components to have specified shapes.",
            queue.dequeue_many(1).map(drop),
        ),
        (
            "Queue must have names to enqueue a dictionary",
            queue.enqueue_map([("a".to_owned(), one)].into()),
        ),
        (
            "Shapes must be provided for all components, but received 2 dtypes and 1 shapes.",
            PaddingFifoQueue::new(padded.clone()).map(drop),
        ),
        (
            "Queue names must have the same length as dtypes, received len(names)=1, len(dtypes)=2",
            FifoQueue::new(names).map(drop),
        ),
        (
            "a queue has a capacity of at least one element",
            FifoQueue::new(QueueOptions::new(Some(0), pair())).map(drop),
        ),
        (
            "All shapes must be fully defined: [(None,)]",
            FifoQueue::new(shapes).map(drop),
        ),
        (
            "min_after_dequeue 3 must be < capacity 3",
            RandomShuffleQueue::new(
                3,
                0,
                QueueOptions {
                    capacity: Some(3),
                    ..padded
                },
            )
            .map(drop),
        ),
        (
            "Must provide queue and enqueue_ops.",
            runner(Vec::new(), vec![Code::OutOfRange]),
        ),
        (
            "queue_closed_exception_types, when provided, must not be empty",
            runner(vec![EnqueueOp::new(|| Ok(()))], Vec::new()),
        ),
    ];
    for (expected, result) in cases {
        let error = result.unwrap_err();
        assert_eq!(
            (error.code(), &*error.to_string()),
            (Code::InvalidArgument, expected)
        );
    }
}

#[test]
fn runners_of_another_collection_are_started_by_its_name() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let mut graph = graph();
    let components = vec![TensorSpec::new(DType::I64, &[])];
    let queue = FifoQueue::new(QueueOptions::new(Some(2), components)).unwrap();
    let own = queue.clone();
    let op = EnqueueOp::new(move || own.enqueue([Tensor::scalar(1_i64)]));
    let runner = QueueRunner::new(&queue, vec![op]).unwrap();
    add_queue_runner(&mut graph, &runner, Some("evaluation")).unwrap();
    let coordinator = Coordinator::new();
    assert!(
        start_queue_runners(&graph, Some(&coordinator), None)
            .unwrap()
            .is_empty()
    );
    let threads = start_queue_runners(&graph, Some(&coordinator), Some("evaluation")).unwrap();
    let names: Vec<&str> = threads.iter().map(|thread| thread.name()).collect();
    let expected = [
        "QueueRunnerThread-fifo_queue-close_on_stop",
        "QueueRunnerThread-fifo_queue-fifo_queue_enqueue",
    ];
    assert_eq!(names, expected);
    queue.dequeue().unwrap();
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
}

#[test]
fn components_of_a_queue_have_names() {
    let options = QueueOptions {
        names: vec!["label".to_owned(), "image".to_owned()],
        ..QueueOptions::new(
            Some(4),
            vec![
                TensorSpec::new(DType::I64, &[]),
                TensorSpec::new(DType::F32, &[]),
            ],
        )
    };
    let queue = FifoQueue::new(options).unwrap();
    let element = |label: i64| {
        let label: Value = Tensor::scalar(label).into();
        let image: Value = Tensor::scalar(0.5_f32).into();
        BTreeMap::from([("image".to_owned(), image), ("label".to_owned(), label)])
    };
    queue.enqueue_map(element(1)).unwrap();
    queue.enqueue_map(element(2)).unwrap();
    assert_eq!(queue.dequeue_map().unwrap(), element(1));
    let output = Output::dequeue(&queue);
    assert_eq!(output.evaluate_map().unwrap(), element(2));
    assert_eq!(output.names(), ["image", "label"]);
    let mut wrong = element(3);
    wrong.remove("image");
    let error = queue.enqueue_map(wrong).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}
