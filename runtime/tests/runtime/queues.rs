//! Queues, queue runners, producers and batches: every case of `queues.json` gives what TensorFlow computed, and no thread outlives its
//! coordinator whatever happens.

use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use serde_json::Value as Json;
use trainspec::queue::{
    BatchOptions, FifoQueue, KeepInput, Output, PaddingFifoQueue, PriorityQueue, ProducerOptions,
    Queue, QueueOptions, ShuffleBatchOptions, SparseTensor, TensorSpec, Value, strings,
};
use trainspec::train::{
    batch, batch_join, input_producer, limit_epochs, match_filenames_once, maybe_batch,
    range_input_producer, shuffle_batch, slice_input_producer, start_queue_runners,
    string_input_producer,
};
use trainspec::{Code, Coordinator, DType, Error, Graph, Tensor};
use trainspec_testing::folders::{Folder, oracle};

/// Tests with threads of runners read, the one that counts such threads writes.
pub(crate) static RUNNERS: RwLock<()> = RwLock::new(());

pub(crate) fn graph() -> Graph {
    let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
    Graph::new(&trainspec::check("s", text).unwrap())
}

fn cases(kinds: &[&str]) -> Vec<Json> {
    let path = oracle().join("queues.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let json: Json = serde_json::from_str(&text).unwrap();
    let all = json["cases"].as_array().unwrap().iter();
    let is_of = |case: &&Json| kinds.iter().any(|kind| case["kind"] == *kind);
    let found: Vec<Json> = all.filter(is_of).cloned().collect();
    assert!(!found.is_empty(), "no case of {kinds:?}");
    found
}

fn numbers<T>(data: &Json, number: impl Fn(&Json) -> T) -> Vec<T> {
    data.as_array().unwrap().iter().map(number).collect()
}

fn tensor(json: &Json) -> Tensor {
    let shape = numbers(&json["shape"], |n| n.as_u64().unwrap() as usize);
    let data = &json["data"];
    match json["dtype"].as_str().unwrap() {
        "float32" => Tensor::new(&shape, numbers(data, |x| x.as_f64().unwrap() as f32)),
        "int32" => Tensor::new(&shape, numbers(data, |x| x.as_i64().unwrap() as i32)),
        "int64" => Tensor::new(&shape, numbers(data, |x| x.as_i64().unwrap())),
        "bool" => Tensor::new(&shape, numbers(data, |x| x.as_bool().unwrap())),
        "string" => {
            let bytes = |text: &Json| -> Vec<u8> {
                let digits = text.as_str().unwrap().as_bytes().chunks(2);
                let byte = |two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16);
                digits.map(|two| byte(two).unwrap()).collect()
            };
            Tensor::new(&shape, numbers(&json["data_hex"], bytes))
        }
        other => panic!("{other} is new"),
    }
}

fn value(json: &Json) -> Value {
    match json.get("indices") {
        None => tensor(json).into(),
        Some(indices) => {
            let (values, shape) = (tensor(&json["values"]), tensor(&json["dense_shape"]));
            SparseTensor::new(tensor(indices), values, shape)
                .unwrap()
                .into()
        }
    }
}

fn values(list: &Json) -> Vec<Value> {
    list.as_array().unwrap().iter().map(value).collect()
}

fn dtype(name: &Json) -> DType {
    match name.as_str().unwrap() {
        "float32" => DType::F32,
        "int64" => DType::I64,
        "string" => DType::String,
        other => panic!("{other} is new"),
    }
}

#[track_caller]
fn assert_error(error: &Error, expected: &Json, name: &str) {
    let code = match expected["type"].as_str().unwrap() {
        "OutOfRangeError" => Code::OutOfRange,
        "CancelledError" => Code::Cancelled,
        "ValueError" => Code::InvalidArgument,
        other => panic!("{other} is new"),
    };
    assert_eq!(error.code(), code, "{name}: {error}");
    assert_eq!(
        Some(&*error.to_string()),
        expected["message"].as_str(),
        "{name}"
    );
}

/// Runs a pipeline until its end, or for a number of runs.
fn run(graph: &Graph, output: &Output, runs: Option<u64>) -> (Vec<Vec<Value>>, Option<Error>) {
    let _turn = RUNNERS.read().unwrap_or_else(|e| e.into_inner());
    let coordinator = Coordinator::new();
    start_queue_runners(graph, Some(&coordinator), None).unwrap();
    let mut all = Vec::new();
    let mut end = None;
    while end.is_none() && runs.is_none_or(|runs| (all.len() as u64) < runs) {
        match output.evaluate() {
            Ok(values) => all.push(values),
            Err(error) => end = Some(error),
        }
    }
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
    (all, end)
}

/// Runs a pipeline and compares all runs and the end.
fn compare(graph: &Graph, output: &Output, case: &Json) {
    let name = case["name"].as_str().unwrap();
    let (runs, end) = run(graph, output, case["args"]["runs"].as_u64());
    let expected: Vec<Vec<Value>> = numbers(&case["expected"]["runs"], values);
    assert_eq!(runs, expected, "{name}");
    match (&case["expected"]["end"], end) {
        (Json::Null, None) => {}
        (expected, Some(error)) => assert_error(&error, expected, name),
        (expected, None) => panic!("{name} has not ended with {expected}"),
    }
}

fn producer_options(args: &Json) -> ProducerOptions {
    let defaults = ProducerOptions::default();
    ProducerOptions {
        num_epochs: args["num_epochs"].as_u64(),
        shuffle: args["shuffle"].as_bool().unwrap_or(defaults.shuffle),
        capacity: args["capacity"]
            .as_u64()
            .map_or(defaults.capacity, |n| n as usize),
        ..defaults
    }
}

fn once() -> ProducerOptions {
    ProducerOptions {
        num_epochs: Some(1),
        shuffle: false,
        ..ProducerOptions::default()
    }
}

fn file_names(args: &Json) -> Tensor {
    let names = numbers(&args["string_tensor"], |name| {
        name.as_str().unwrap().to_owned()
    });
    strings(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn oracle_string_input_producers_give_what_tensorflow_s_do() {
    for case in cases(&["string_input_producer"]) {
        let (mut graph, args) = (graph(), &case["args"]);
        let names = file_names(args).into();
        let queue = string_input_producer(&mut graph, &names, producer_options(args)).unwrap();
        compare(&graph, &Output::dequeue(&queue), &case);
    }
}

#[test]
fn oracle_input_producers_give_what_tensorflow_s_do() {
    let kinds = [
        "range_input_producer",
        "input_producer",
        "slice_input_producer",
    ];
    for case in cases(&kinds) {
        let (mut graph, args) = (graph(), &case["args"]);
        let options = producer_options(args);
        let output = match case["kind"].as_str().unwrap() {
            "range_input_producer" => {
                let limit = args["limit"].as_i64().unwrap() as i32;
                Output::dequeue(&range_input_producer(&mut graph, limit, options).unwrap())
            }
            "input_producer" => {
                let rows = tensor(&args["input_tensor"]).into();
                Output::dequeue(&input_producer(&mut graph, &rows, options).unwrap())
            }
            "slice_input_producer" => {
                let list = numbers(&args["tensor_list"], tensor);
                slice_input_producer(&mut graph, list, options).unwrap()
            }
            other => panic!("{other} is new"),
        };
        compare(&graph, &output, &case);
    }
}

#[test]
fn oracle_limit_epochs_ends_as_tensorflow_s_does() {
    for case in cases(&["limit_epochs"]) {
        let (mut graph, args) = (graph(), &case["args"]);
        let constant = tensor(&args["tensor"]).into();
        let limited =
            limit_epochs(&mut graph, &constant, args["num_epochs"].as_u64(), None).unwrap();
        compare(&graph, &limited, &case);
    }
}

/// The value of an `i` of `range_input_producer`.
fn number(values: &[Value]) -> i32 {
    values[0].tensor().unwrap().values::<i32>().unwrap()[0]
}

/// The numbers below a limit, once.
fn range(graph: &mut Graph, limit: i64) -> Output {
    Output::dequeue(&range_input_producer(graph, limit as i32, once()).unwrap())
}

fn batch_options(args: &Json) -> BatchOptions {
    let flag = |name: &str| args[name].as_bool().unwrap_or(false);
    BatchOptions {
        enqueue_many: flag("enqueue_many"),
        dynamic_pad: flag("dynamic_pad"),
        allow_smaller_final_batch: flag("allow_smaller_final_batch"),
        ..BatchOptions::new(args["batch_size"].as_u64().unwrap() as usize)
    }
}

/// The queue of the runner that was added last.
fn last_queue(graph: &Graph) -> Queue {
    let runners = &graph.collections().queue_runners[trainspec::graph::QUEUE_RUNNERS];
    runners.last().unwrap().queue().clone()
}

/// The source of a batch case, and whether examples are kept.
fn source(graph: &mut Graph, case: &Json) -> (Output, KeepInput) {
    let i = TensorSpec::new(DType::I32, &[]);
    let limit = case["args"]["limit"].as_i64();
    let with = |second: TensorSpec| vec![i.clone(), second];
    let always = KeepInput::from(true);
    match case["name"].as_str().unwrap() {
        "batch_smaller_final_false" | "batch_smaller_final_true" => {
            let specs = with(TensorSpec::new(DType::F32, &[]));
            let pairs = range(graph, limit.unwrap()).map(specs, |values| {
                Ok(vec![values[0].clone(), Tensor::scalar(7.5_f32).into()])
            });
            (pairs, always)
        }
        "batch_dynamic_pad_false" | "batch_dynamic_pad_true" => {
            let specs = with(TensorSpec::partial(DType::I32, &[None]));
            let filled = range(graph, 5).map(specs, |values| {
                let n = number(&values);
                let row = Tensor::new(&[n as usize + 1], vec![n; n as usize + 1]);
                Ok(vec![values[0].clone(), row.into()])
            });
            (filled, always)
        }
        "batch_enqueue_many" | "maybe_batch_enqueue_many" => {
            let rows = tensor(&case["args"]["tensors"][0]).into();
            let twice = limit_epochs(graph, &rows, Some(2), None).unwrap();
            let keep = match case["args"].get("keep_input") {
                Some(mask) => KeepInput::from(tensor(mask).to_bools()),
                None => always,
            };
            (twice, keep)
        }
        "batch_sparse" => {
            let specs = with(TensorSpec::sparse(DType::F32, &[Some(5)]));
            let sparse = range(graph, 4).map(specs, |values| {
                let n = number(&values);
                let own = SparseTensor::new(
                    Tensor::new(&[1, 1], vec![i64::from(n)]),
                    Tensor::new(&[1], vec![10.0 * n as f32]),
                    Tensor::new(&[1], vec![5_i64]),
                )?;
                Ok(vec![values[0].clone(), own.into()])
            });
            (sparse, always)
        }
        "maybe_batch_keep_even" => {
            let even = KeepInput::scalar(|values| Ok(number(values) % 2 == 0));
            (range(graph, limit.unwrap()), even)
        }
        "batch_join_one" => (range(graph, limit.unwrap()), always),
        other => panic!("{other} is new"),
    }
}

#[test]
fn oracle_batches_are_those_of_tensorflow() {
    for case in cases(&["batch", "maybe_batch", "batch_join"]) {
        let (mut graph, args) = (graph(), &case["args"]);
        let (inner, keep) = source(&mut graph, &case);
        // What is left over is not enough, which TensorFlow says of a dequeue that waits already: the input ends once it has taken all.
        let waiting = OnceLock::<Queue>::new();
        let waiting = Arc::new(waiting);
        let own = waiting.clone();
        let specs = inner.specs().to_vec();
        let source = Output::cancellable(specs, move |cancellation| {
            let values = inner.evaluate_with(cancellation);
            if values.is_err()
                && let Some(queue) = own.get()
            {
                while queue.size() > 0 && !cancellation.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            values
        });
        let options = batch_options(args);
        let allow_smaller = options.allow_smaller_final_batch;
        let output = match case["kind"].as_str().unwrap() {
            "batch" => batch(&mut graph, &source, options),
            "maybe_batch" => maybe_batch(&mut graph, &source, &keep, options),
            "batch_join" => batch_join(&mut graph, &[source], options),
            other => panic!("{other} is new"),
        };
        if !allow_smaller {
            waiting.set(last_queue(&graph)).unwrap();
        }
        compare(&graph, &output.unwrap(), &case);
    }
}

fn flat(runs: &[Vec<Value>]) -> Vec<i64> {
    let tensors = runs.iter().map(|values| values[0].tensor().unwrap());
    tensors.flat_map(Tensor::to_i64s).collect()
}

#[test]
fn oracle_properties_hold_in_every_run() {
    for case in cases(&["property"]) {
        let (args, expected) = (&case["args"], &case["expected"]);
        let name = case["name"].as_str().unwrap();
        for seed in 0..20 {
            let mut graph = graph();
            let output = match args["function"].as_str().unwrap() {
                "batch_join" => {
                    let first = range(&mut graph, 11);
                    let second = range(&mut graph, 11);
                    let second = second.map(second.specs().to_vec(), |values| {
                        Ok(vec![Tensor::scalar(number(&values) + 100).into()])
                    });
                    batch_join(&mut graph, &[first, second], batch_options(args)).unwrap()
                }
                "shuffle_batch" => {
                    let epochs = if name == "shuffle_batch_1" { 1 } else { 2 };
                    let numbers = ProducerOptions {
                        num_epochs: Some(epochs),
                        ..once()
                    };
                    let numbers = range_input_producer(&mut graph, 11, numbers).unwrap();
                    let options = ShuffleBatchOptions {
                        seed,
                        batch: BatchOptions {
                            capacity: args["capacity"].as_u64().unwrap() as usize,
                            ..batch_options(args)
                        },
                        min_after_dequeue: args["min_after_dequeue"].as_u64().unwrap() as usize,
                    };
                    shuffle_batch(&mut graph, &Output::dequeue(&numbers), options).unwrap()
                }
                "string_input_producer" => {
                    let options = ProducerOptions {
                        seed,
                        ..producer_options(args)
                    };
                    let names = file_names(args).into();
                    let queue = string_input_producer(&mut graph, &names, options).unwrap();
                    Output::dequeue(&queue)
                }
                other => panic!("{other} is new"),
            };
            let (runs, end) = run(&graph, &output, None);
            assert_error(&end.unwrap(), &expected["end"], name);
            assert_eq!(
                Some(runs.len() as u64),
                expected["batches"].as_u64(),
                "{name}"
            );
            if args["function"] == "string_input_producer" {
                let names = file_names(args);
                let sorted = |tensors: &[Vec<Value>]| {
                    let texts = tensors.iter().map(|values| values[0].tensor().unwrap());
                    let mut texts: Vec<Vec<u8>> = texts
                        .map(|text| text.values::<Vec<u8>>().unwrap()[0].clone())
                        .collect();
                    texts.sort();
                    texts
                };
                let mut all = names.values::<Vec<u8>>().unwrap().to_vec();
                all.sort();
                assert!(
                    runs.chunks(all.len()).all(|epoch| sorted(epoch) == all),
                    "{name}"
                );
                continue;
            }
            let sizes = runs
                .iter()
                .map(|values| values[0].tensor().unwrap().shape()[0]);
            let expected_sizes =
                numbers(&expected["batch_sizes"], |n| n.as_u64().unwrap() as usize);
            assert_eq!(sizes.collect::<Vec<_>>(), expected_sizes, "{name}");
            let outputs = flat(&runs);
            let mut sorted = outputs.clone();
            sorted.sort_unstable();
            assert_eq!(
                sorted,
                numbers(&expected["multiset"], |n| n.as_i64().unwrap()),
                "{name}"
            );
            match args["capacity"].as_u64() {
                None => {
                    // Each source keeps its order.
                    let of = |own: fn(&i64) -> bool| -> Vec<i64> {
                        outputs.iter().copied().filter(own).collect()
                    };
                    assert!(of(|n| *n < 100).is_sorted() && of(|n| *n >= 100).is_sorted());
                }
                Some(capacity) if name == "shuffle_batch_1" => {
                    // The k-th output is not further ahead than the queue reaches.
                    let reach = |(k, n): (usize, &i64)| (*n as u64) < k as u64 + capacity + 1;
                    assert!(outputs.iter().enumerate().all(reach), "{name}: {outputs:?}");
                }
                Some(_) => {}
            }
        }
    }
}

/// The queue of a case.
fn queue(args: &Json) -> Queue {
    let dtypes = args.get("dtypes").or(args.get("types")).unwrap();
    let components = dtypes
        .as_array()
        .unwrap()
        .iter()
        .zip(args["shapes"].as_array().unwrap());
    let components = components.map(|(name, shape)| {
        let shape = numbers(shape, |dim| dim.as_u64().map(|n| n as usize));
        TensorSpec::partial(dtype(name), &shape)
    });
    let capacity = args["capacity"].as_u64().map(|n| n as usize);
    let options = QueueOptions::new(capacity, components.collect());
    match args["queue"].as_str().unwrap() {
        "FIFOQueue" => FifoQueue::new(options).unwrap().into(),
        "PaddingFIFOQueue" => PaddingFifoQueue::new(options).unwrap().into(),
        "PriorityQueue" => PriorityQueue::new(options).unwrap().into(),
        other => panic!("{other} is new"),
    }
}

#[test]
fn oracle_queues_do_what_tensorflow_s_do() {
    for case in cases(&["queue"]) {
        let name = case["name"].as_str().unwrap();
        let queue = queue(&case["args"]);
        for (i, step) in case["program"].as_array().unwrap().iter().enumerate() {
            let (arg, name) = (&step["arg"], format!("{name}, operation {i}"));
            let count = || arg.as_u64().unwrap() as usize;
            let none = |done: Result<(), Error>| done.map(|()| Vec::new());
            let result: Result<Vec<Value>, Error> = match step["op"].as_str().unwrap() {
                "size" => Ok(vec![Tensor::scalar(queue.size() as i32).into()]),
                "is_closed" => Ok(vec![Tensor::scalar(queue.is_closed()).into()]),
                "enqueue" => none(queue.enqueue(values(arg))),
                "enqueue_many" => none(queue.enqueue_many(values(arg))),
                "dequeue" => queue.dequeue(),
                "dequeue_many" => queue.dequeue_many(count()),
                "dequeue_up_to" => queue.dequeue_up_to(count()),
                "close" => none(queue.close(false)),
                "close_cancel" => none(queue.close(true)),
                other => panic!("{other} is new"),
            };
            match (step.get("error"), result) {
                (Some(expected), Err(error)) => assert_error(&error, expected, &name),
                (None, Ok(got)) => {
                    let expected = match &step["result"] {
                        Json::Null => Vec::new(),
                        list => values(list),
                    };
                    assert_eq!(got, expected, "{name}");
                }
                (_, result) => panic!("{name}: {result:?}"),
            }
        }
    }
}

#[test]
fn oracle_match_filenames_once_finds_what_tensorflow_finds() {
    for case in cases(&["match_filenames_once"]) {
        let (mut graph, args, folder) = (graph(), &case["args"], Folder::new());
        let texts = |list: &Json| numbers(list, |text| text.as_str().unwrap().to_owned());
        for file in texts(&args["files"]) {
            folder.write(&file, "");
        }
        let patterns = match &args["pattern"] {
            Json::String(one) => vec![one.clone()],
            many => texts(many),
        };
        let patterns: Vec<String> = patterns.iter().map(|one| folder.path(one)).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let files = match_filenames_once(&mut graph, &patterns, None).unwrap();
        let found = || {
            let values = files.evaluate().unwrap();
            let names = values[0].tensor().unwrap().values::<Vec<u8>>().unwrap();
            let names = names
                .iter()
                .map(|name| String::from_utf8(name.clone()).unwrap());
            let prefix = folder.path("");
            let names = names.map(|name| format!("./{}", name.strip_prefix(&prefix).unwrap()));
            names.collect::<Vec<_>>()
        };
        assert_eq!(found(), texts(&case["expected"]), "{}", case["name"]);
        // What appears later is not seen.
        folder.write("part-later.txt", "");
        assert_eq!(found(), texts(&case["expected"]), "{}", case["name"]);
    }
}

/// The kinds that the tests above go through, each of which fails for a case that it does not know.
const COMPARED: [&str; 11] = [
    "string_input_producer",
    "range_input_producer",
    "input_producer",
    "slice_input_producer",
    "limit_epochs",
    "batch",
    "maybe_batch",
    "batch_join",
    "property",
    "queue",
    "match_filenames_once",
];

#[test]
fn oracle_queues_has_no_case_without_a_test() {
    let path = oracle().join("queues.json");
    let json: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let all = json["cases"].as_array().unwrap();
    assert_eq!(cases(&COMPARED).len(), all.len());
}
