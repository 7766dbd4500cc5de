//! Threads around queues: what waits is finished or cancelled, the first error is reported, and nothing is left running.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trainspec::hooks::{FeedFnHook, SessionRunHook};
use trainspec::monitored::{InitialSession, MonitoredSession};
use trainspec::queue::{
    BatchOptions, Cancellation, EnqueueOp, FifoQueue, Output, ProducerOptions, Queue, QueueOptions,
    QueueRunner, QueueRunnerOptions, RandomShuffleQueue, ShuffleBatchOptions, TensorSpec,
};
use trainspec::supervisor::{Supervisor, SupervisorOptions};
use trainspec::train::{
    add_queue_runner, batch, batch_join, range_input_producer, shuffle_batch, slice_input_producer,
    start_queue_runners,
};
use trainspec::{Code, Coordinator, DType, Error, Graph, InputView, Session, Tensor};
use trainspec_testing::folders::Folder;
use trainspec_testing::xorshift::XorShift;

use crate::queues::{RUNNERS, graph};
use crate::support::{eventually, threads};

fn numbers(capacity: usize) -> Queue {
    let components = vec![TensorSpec::new(DType::I64, &[])];
    let options = QueueOptions::new(Some(capacity), components);
    FifoQueue::new(options).unwrap().into()
}

fn vector(values: &[i64]) -> Tensor {
    Tensor::new(&[values.len()], values.to_vec())
}

fn next(queue: &Queue) -> Result<i64, Error> {
    queue
        .dequeue()
        .map(|values| values[0].tensor().unwrap().to_i64s()[0])
}

#[test]
fn a_close_comes_after_the_enqueues_that_wait() {
    let queue = numbers(1);
    let own = queue.clone();
    let producer = std::thread::spawn(move || own.enqueue_many([vector(&[1, 2, 3])]));
    eventually("the first is in the queue", || queue.size() == 1);
    let own = queue.clone();
    let closer = std::thread::spawn(move || own.close(false));
    assert_eq!([1, 2, 3], [(); 3].map(|()| next(&queue).unwrap()));
    producer.join().unwrap().unwrap();
    closer.join().unwrap().unwrap();
    assert_eq!(next(&queue).unwrap_err().code(), Code::OutOfRange);
    // Nothing is put in, so nothing fails.
    queue.enqueue_many([vector(&[])]).unwrap();
}

#[test]
fn a_close_may_cancel_the_enqueues_that_wait() {
    let queue = numbers(1);
    let own = queue.clone();
    let producer = std::thread::spawn(move || own.enqueue_many([vector(&[1, 2])]));
    eventually("the first is in the queue", || queue.size() == 1);
    queue.close(true).unwrap();
    queue.close(true).unwrap();
    let error = producer.join().unwrap().unwrap_err();
    let stated = (error.code(), error.to_string());
    let expected = "Enqueue operation was cancelled".to_owned();
    assert_eq!(stated, (Code::Cancelled, expected));
    assert_eq!(next(&queue).unwrap(), 1);
}

#[test]
fn a_batch_may_be_larger_than_the_queue() {
    let queue = numbers(2);
    let own = queue.clone();
    let producer = std::thread::spawn(move || own.enqueue_many([vector(&[1, 2, 3, 4, 5])]));
    let all = queue.dequeue_many(5).unwrap();
    assert_eq!(all[0].tensor(), Some(&vector(&[1, 2, 3, 4, 5])));
    producer.join().unwrap().unwrap();
}

#[test]
fn a_cancelled_dequeue_puts_back_what_it_has_taken() {
    let queue = numbers(9);
    let cancellation = Cancellation::new();
    let consumer = queue.cancelled_by(&cancellation);
    queue.enqueue_many([vector(&[1, 2])]).unwrap();
    let waiting = std::thread::spawn(move || consumer.dequeue_many(3));
    eventually("both are taken", || queue.size() == 0);
    cancellation.cancel();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "Dequeue operation was cancelled");
    assert_eq!((queue.size(), next(&queue).unwrap()), (2, 1));
    // Later operations fail at once, and only those of this handle.
    let own = queue.cancelled_by(&cancellation);
    assert_eq!(next(&own).unwrap_err().code(), Code::Cancelled);
    let more = own.enqueue([Tensor::scalar(3_i64)]).unwrap_err();
    assert_eq!(more.to_string(), "Enqueue operation was cancelled");
    assert_eq!(next(&queue).unwrap(), 2);
}

#[test]
fn a_shuffled_queue_depends_on_its_seed_alone() {
    let order = |seed| {
        let components = vec![TensorSpec::new(DType::I64, &[])];
        let options = QueueOptions::new(Some(50), components);
        let queue = RandomShuffleQueue::new(10, seed, options).unwrap();
        queue
            .enqueue_many([vector(&(0..50).collect::<Vec<_>>())])
            .unwrap();
        let most = queue.dequeue_many(40).unwrap();
        assert_eq!(queue.size(), 10);
        queue.close(false).unwrap();
        let mut all = most[0].tensor().unwrap().to_i64s();
        all.extend(
            queue.dequeue_many(10).unwrap()[0]
                .tensor()
                .unwrap()
                .to_i64s(),
        );
        all
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
    let mut sorted = order(7);
    assert!(!sorted.is_sorted());
    sorted.sort();
    assert_eq!(sorted, (0..50).collect::<Vec<_>>());
}

/// An operation that puts in numbers from `first` on, and ends after `count` of them with a result.
fn counting(queue: &Queue, first: i64, count: i64, end: Result<(), Error>) -> EnqueueOp {
    let (queue, mut n) = (queue.clone(), 0);
    EnqueueOp::new(move || {
        n += 1;
        match n <= count {
            true => queue.enqueue([Tensor::scalar(first + n - 1)]),
            false => end.clone(),
        }
    })
}

fn out_of_range() -> Result<(), Error> {
    Err(Error::new(Code::OutOfRange, "there are no more"))
}

#[test]
fn the_last_runner_closes_the_queue() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let queue = numbers(9);
    let (gate, opened) = std::sync::mpsc::channel::<()>();
    let own = queue.clone();
    let waits = EnqueueOp::new(move || match opened.recv() {
        Ok(()) => own.enqueue([Tensor::scalar(7_i64)]),
        Err(_) => out_of_range(),
    });
    let ends = counting(&queue, 1, 1, out_of_range());
    let runner = QueueRunner::new(&queue, vec![ends, waits]).unwrap();
    let coordinator = Coordinator::new();
    let threads = runner.create_threads(Some(&coordinator)).unwrap();
    assert_eq!(threads.len(), 3);
    // Its threads still run.
    assert!(
        runner
            .create_threads(Some(&coordinator))
            .unwrap()
            .is_empty()
    );
    assert_eq!(next(&queue).unwrap(), 1);
    assert!(threads[1].join(Some(Duration::from_secs(20))));
    assert!(!queue.is_closed());
    gate.send(()).unwrap();
    assert_eq!(next(&queue).unwrap(), 7);
    drop(gate);
    assert_eq!(next(&queue).unwrap_err().code(), Code::OutOfRange);
    assert!(!coordinator.should_stop() && threads[0].is_alive());
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
    assert!(threads.iter().all(|thread| !thread.is_alive()));
}

#[test]
fn errors_of_a_runner_are_reported_or_collected() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let damaged = || Err(Error::new(Code::DataLoss, "the file is damaged"));
    let queue = numbers(9);
    let runner = QueueRunner::new(&queue, vec![counting(&queue, 1, 2, damaged())]).unwrap();
    let threads = runner.create_threads(None).unwrap();
    assert_eq!(threads.len(), 1);
    assert!(threads[0].join(Some(Duration::from_secs(20))));
    let codes: Vec<Code> = runner.exceptions_raised().iter().map(Error::code).collect();
    assert_eq!(codes, [Code::DataLoss]);

    let coordinator = Coordinator::new();
    runner.create_threads(Some(&coordinator)).unwrap();
    let error = coordinator.join(Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "the file is damaged");
    assert!(runner.exceptions_raised().is_empty() && queue.is_closed());

    // Another class is the end, and something else closes the queue.
    let queue = numbers(9);
    let closed = Arc::new(AtomicU64::new(0));
    let own = closed.clone();
    let options = QueueRunnerOptions {
        close_op: Some(Arc::new(move || {
            own.fetch_add(1, Ordering::SeqCst);
            Err(Error::new(Code::Unknown, "which nobody hears"))
        })),
        queue_closed_exception_types: vec![Code::DataLoss],
        ..QueueRunnerOptions::default()
    };
    let ops = vec![counting(&queue, 1, 2, damaged())];
    let runner = QueueRunner::with_options(&queue, ops, options).unwrap();
    let threads = runner.create_threads(None).unwrap();
    assert!(threads[0].join(Some(Duration::from_secs(20))));
    assert!(runner.exceptions_raised().is_empty());
    assert_eq!(
        (closed.load(Ordering::SeqCst), queue.is_closed()),
        (1, false)
    );
}

#[test]
fn a_panic_of_an_enqueue_operation_is_an_error_that_names_it() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let queue = numbers(9);
    let op = EnqueueOp::new(|| std::panic::resume_unwind(Box::new("the lamp is broken")));
    let runner = QueueRunner::new(&queue, vec![op.with_name("read_lamp")]).unwrap();
    let coordinator = Coordinator::new();
    runner.create_threads(Some(&coordinator)).unwrap();
    let error = coordinator.join(Vec::new()).unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    let text = error.to_string();
    assert!(
        text.contains("`read_lamp` panicked") && text.contains("the lamp is broken"),
        "{text}"
    );
}

/// A runner that is preempted once, after two numbers.
fn preempted_once(graph: &mut Graph) -> Queue {
    let queue = numbers(4);
    let (own, calls) = (queue.clone(), AtomicI64::new(0));
    let op = EnqueueOp::new(move || match calls.fetch_add(1, Ordering::SeqCst) {
        2 => Err(Error::new(Code::Aborted, "the worker was preempted")),
        n => own.enqueue([Tensor::scalar(n)]),
    });
    let runner = QueueRunner::new(&queue, vec![op]).unwrap();
    add_queue_runner(graph, &runner, None).unwrap();
    queue
}

/// Remembers that it was called, and whether the runners had been started.
struct Remembers(Queue, Arc<Mutex<Vec<bool>>>);

impl SessionRunHook for Remembers {
    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        eventually("runners start before the hooks hear", || {
            self.0.size() > 0 || self.0.is_closed()
        });
        self.1.lock().unwrap().push(!self.0.is_closed());
        Ok(())
    }
}

#[test]
fn a_monitored_session_starts_the_runners_and_starts_them_again_when_it_recovers() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let mut graph = graph();
    let queue = preempted_once(&mut graph);
    let created = Arc::<Mutex<Vec<bool>>>::default();
    let hook = Remembers(queue.clone(), created.clone());
    let creator = Box::new(InitialSession::default());
    let mut session = MonitoredSession::new(graph, creator, vec![Box::new(hook)]).unwrap();
    eventually("the runner is preempted", || {
        session.coordinator().should_stop()
    });
    assert!(!session.should_stop());
    let feeds = [("x", InputView::new(&[1], &[1.0_f32]))];
    session.run("loss", &feeds).unwrap();
    assert_eq!(created.lock().unwrap().len(), 2);
    // The queue is a new one: what was left in the old one is gone.
    assert_eq!([3, 4, 5], [(); 3].map(|()| next(&queue).unwrap()));
    session.close().unwrap();
    assert!(queue.is_closed());
}

#[test]
fn a_model_is_trained_from_queues_until_their_end() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let text = "spec line;
        model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
        train { optimizer gradient_descent(0.05); }";
    let mut graph = Graph::new(&trainspec::check("line", text).unwrap());
    let inputs: Vec<f32> = (0..8).map(|i| i as f32 / 4.0).collect();
    let targets: Vec<f32> = inputs.iter().map(|x| 2.0 * x).collect();
    let rows = vec![Tensor::new(&[8], inputs), Tensor::new(&[8], targets)];
    let epochs = ProducerOptions {
        num_epochs: Some(50),
        ..ProducerOptions::default()
    };
    let example = slice_input_producer(&mut graph, rows, epochs).unwrap();
    let options = ShuffleBatchOptions::new(4, 16, 4);
    let batches = shuffle_batch(&mut graph, &example, options).unwrap();
    let feed = FeedFnHook::new(move || {
        let values = batches.evaluate()?;
        let tensors = values.iter().filter_map(|value| value.tensor().cloned());
        Ok(["x", "y"]
            .map(str::to_owned)
            .into_iter()
            .zip(tensors)
            .collect())
    });
    let creator = Box::new(InitialSession::default());
    let mut session = MonitoredSession::new(graph, creator, vec![Box::new(feed)]).unwrap();
    let none: [(&str, InputView<'_>); 0] = [];
    let end = loop {
        if let Err(error) = session.run("train_op", &none) {
            break error;
        }
    };
    assert!(end.is_end_of_input() && session.should_stop());
    let raw = session.raw_session().unwrap();
    assert_eq!(raw.global_step(), 100);
    let a = raw.state().get("a").unwrap().to_f64s()[0];
    assert!((a - 2.0).abs() < 1e-3, "{a}");
    session.close_after(Some(end)).unwrap();
}

#[test]
fn a_session_that_is_dropped_stops_its_runners() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let mut graph = graph();
    let numbers = range_input_producer(&mut graph, 3, ProducerOptions::default()).unwrap();
    let creator = Box::new(InitialSession::default());
    let session = MonitoredSession::new(graph, creator, Vec::new()).unwrap();
    numbers.dequeue().unwrap();
    let coordinator = session.coordinator().clone();
    drop(session);
    coordinator.join(Vec::new()).unwrap();
    assert!(numbers.is_closed());
}

#[test]
fn a_supervisor_starts_the_runners_and_can_be_used_again() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let (mut graph, folder) = (graph(), Folder::new());
    let once = ProducerOptions {
        num_epochs: Some(1),
        shuffle: false,
        ..ProducerOptions::default()
    };
    let numbers = range_input_producer(&mut graph, 3, once).unwrap();
    let options = SupervisorOptions {
        logdir: Some(folder.0.clone()),
        ..SupervisorOptions::default()
    };
    let mut supervisor = Supervisor::new(graph, options).unwrap();
    for _ in 0..2 {
        // Each session counts its epochs.
        let mut seen = Vec::new();
        let ran = supervisor.managed_session(|supervisor, _| {
            while !supervisor.should_stop() {
                seen.extend(numbers.dequeue()?[0].tensor().unwrap().to_i64s());
            }
            Ok(())
        });
        ran.unwrap();
        assert_eq!(seen, [0, 1, 2]);
    }
}

#[test]
fn elements_are_neither_lost_nor_doubled_whatever_is_cancelled() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = XorShift::new(seed);
        let queue = match seed % 2 {
            0 => numbers(1 + random.index(6)),
            _ => {
                let components = vec![TensorSpec::new(DType::I64, &[])];
                let options = QueueOptions::new(Some(8), components);
                RandomShuffleQueue::new(3, seed as i64, options)
                    .unwrap()
                    .into()
            }
        };
        let producers: Vec<_> = (0..3_i64)
            .map(|producer| {
                let (queue, mut random) =
                    (queue.clone(), XorShift::new(seed * 10 + producer as u64));
                std::thread::spawn(move || {
                    let mut sent = 0;
                    while sent < 60 {
                        let n = (1 + random.index(5) as i64).min(60 - sent);
                        let rows: Vec<i64> = (0..n).map(|i| producer * 1000 + sent + i).collect();
                        queue.enqueue_many([vector(&rows)]).unwrap();
                        sent += n;
                    }
                })
            })
            .collect();
        let received = Arc::<Mutex<Vec<i64>>>::default();
        let cancelled = Arc::<Mutex<Cancellation>>::default();
        let consumers: Vec<_> = (0..3_u64)
            .map(|consumer| {
                let (queue, received) = (queue.clone(), received.clone());
                let (cancelled, mut random) =
                    (cancelled.clone(), XorShift::new(seed * 10 + 5 + consumer));
                std::thread::spawn(move || {
                    loop {
                        let cancellation = cancelled.lock().unwrap().clone();
                        let own = queue.cancelled_by(&cancellation);
                        match own.dequeue_up_to(1 + random.index(4)) {
                            Ok(values) => {
                                let got = values[0].tensor().unwrap().to_i64s();
                                received.lock().unwrap().extend(got);
                            }
                            Err(error) if error.code() == Code::Cancelled => {}
                            Err(error) => {
                                assert_eq!(error.code(), Code::OutOfRange);
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        while producers.iter().any(|producer| !producer.is_finished()) {
            let last = std::mem::take(&mut *cancelled.lock().unwrap());
            last.cancel();
            std::thread::yield_now();
        }
        queue.close(false).unwrap();
        consumers
            .into_iter()
            .for_each(|consumer| consumer.join().unwrap());
        let mut all = received.lock().unwrap().clone();
        all.sort();
        let sent = (0..3).flat_map(|producer| (0..60).map(move |i| producer * 1000 + i));
        assert_eq!(all, sent.collect::<Vec<i64>>(), "seed {seed}");
    }
}

/// How a source of the stress test ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Range,
    Error,
    Panic,
    Never,
}

/// A source that several threads evaluate: numbers until its end, some of them late.
fn source(seed: u64, count: u64, ending: Ending, is_slow: bool) -> Output {
    let calls = AtomicU64::new(0);
    Output::new(vec![TensorSpec::new(DType::I64, &[])], move || {
        let n = calls.fetch_add(1, Ordering::SeqCst);
        if is_slow && XorShift::new(seed + n).below(4) == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
        match ending {
            _ if n < count => Ok(vec![Tensor::scalar(n as i64).into()]),
            Ending::Never => Ok(vec![Tensor::scalar(n as i64).into()]),
            Ending::Range => Err(Error::new(Code::OutOfRange, "there are no more")),
            Ending::Error => Err(Error::new(Code::DataLoss, "the file is damaged")),
            Ending::Panic => std::panic::resume_unwind(Box::new("the lamp is broken")),
        }
    })
}

/// The name of the threads of runners.
const RUNNER: &str = "QueueRunnerThread";

/// One start and stop of a pipeline.
fn cycle(seed: u64) {
    let mut random = XorShift::new(seed);
    let endings = [Ending::Range, Ending::Error, Ending::Panic, Ending::Never];
    let ending = endings[seed as usize % endings.len()];
    let count = random.below(40);
    let mut graph = graph();
    let inner = source(seed, count, ending, random.below(2) == 0);
    // A queue before the queue of the batches, with one thread or several.
    let first = BatchOptions {
        num_threads: 1 + random.index(3),
        capacity: 1 + random.index(4),
        allow_smaller_final_batch: true,
        ..BatchOptions::new(1 + random.index(3))
    };
    let examples = batch(&mut graph, &inner, first).unwrap();
    let second = BatchOptions {
        enqueue_many: true,
        capacity: 5 + random.index(5),
        num_threads: 1 + random.index(2),
        allow_smaller_final_batch: true,
        ..BatchOptions::new(1 + random.index(4))
    };
    // A smaller final batch has no shape that is known, but its rows have.
    let output = match random.below(3) {
        0 => batch(&mut graph, &examples, second),
        1 => batch_join(&mut graph, &[examples.clone(), examples], second),
        _ => {
            let options = ShuffleBatchOptions {
                batch: second,
                min_after_dequeue: random.index(4),
                seed: seed as i64,
            };
            shuffle_batch(&mut graph, &examples, options)
        }
    };
    let output = output.unwrap();
    let coordinator = Coordinator::new();
    let threads = start_queue_runners(&graph, Some(&coordinator), None).unwrap();
    // Some stop early, some go on until the pipeline ends.
    let limit = match (ending, random.below(3)) {
        (Ending::Never, _) => random.below(30),
        (_, 0) => random.below(10),
        _ => u64::MAX,
    };
    let mut received = Vec::new();
    let mut end = None;
    let mut runs = 0;
    while end.is_none() && runs < limit {
        runs += 1;
        match output.evaluate() {
            Ok(values) => received.extend(values[0].tensor().unwrap().to_i64s()),
            Err(error) => end = Some(error),
        }
    }
    let went_on = end.is_some();
    // The error of a thread was there before this one.
    coordinator.request_stop(end).unwrap();
    let joined = coordinator.join_with(Vec::new(), Duration::from_secs(20), false);
    assert!(
        threads.iter().all(|thread| !thread.is_alive()),
        "seed {seed}"
    );
    let joined = joined.map_err(|error| error.code());
    match (ending, went_on) {
        (Ending::Error, true) => assert_eq!(joined, Err(Code::DataLoss), "seed {seed}"),
        (Ending::Panic, true) => assert_eq!(joined, Err(Code::Internal), "seed {seed}"),
        (Ending::Error, false) => assert!(matches!(joined, Ok(()) | Err(Code::DataLoss))),
        (Ending::Panic, false) => assert!(matches!(joined, Ok(()) | Err(Code::Internal))),
        (Ending::Range | Ending::Never, _) => assert_eq!(joined, Ok(()), "seed {seed}"),
    }
    received.sort();
    match (ending, went_on) {
        (Ending::Range, true) => {
            let all: Vec<i64> = (0..count as i64).collect();
            assert_eq!(received, all, "seed {seed}");
        }
        _ => {
            received.dedup();
            assert!(received.len() <= runs as usize * 4, "seed {seed}");
        }
    }
}

#[test]
fn a_thousand_pipelines_start_and_stop_without_a_trace() {
    let _turn = RUNNERS.write().unwrap_or_else(PoisonError::into_inner);
    let seed = Arc::new(AtomicU64::new(0));
    let own = seed.clone();
    // A hang would never end: it ends the process instead, with the seed.
    let done = Arc::new(AtomicU64::new(0));
    let is_done = done.clone();
    let watchdog = std::thread::spawn(move || {
        let mut last = (u64::MAX, Instant::now());
        while is_done.load(Ordering::SeqCst) == 0 {
            let current = own.load(Ordering::SeqCst);
            if current != last.0 {
                last = (current, Instant::now());
            }
            if last.1.elapsed() > Duration::from_secs(60) {
                // Past the capture of what a test prints.
                let _ = writeln!(std::io::stderr(), "the pipeline of seed {current} hangs");
                std::process::exit(101);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    eventually("runners of other tests have ended", || threads(RUNNER) == 0);
    for current in 0..1000 {
        println!("seed {current}");
        seed.store(current, Ordering::SeqCst);
        cycle(current);
    }
    eventually("no runner is left", || threads(RUNNER) == 0);
    done.store(1, Ordering::SeqCst);
    watchdog.join().unwrap();
}

#[test]
fn values_by_name_stay_under_their_names() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let mut graph = graph();
    let pair = Output::constant(vec![Tensor::scalar(2_i64), Tensor::scalar(1.0_f32)]);
    let named = pair.with_names(&["label", "image"]).unwrap();
    let batches = batch(&mut graph, &named, BatchOptions::new(2)).unwrap();
    assert_eq!(batches.names(), ["image", "label"]);
    let coordinator = Coordinator::new();
    start_queue_runners(&graph, Some(&coordinator), None).unwrap();
    let got = batches.evaluate_map().unwrap();
    let expected = BTreeMap::from([
        (
            "image".to_owned(),
            Tensor::new(&[2], vec![1.0_f32, 1.0]).into(),
        ),
        ("label".to_owned(), vector(&[2, 2]).into()),
    ]);
    assert_eq!(got, expected);
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
    // All that are joined have the same names.
    let other = pair.with_names(&["label", "picture"]).unwrap();
    assert!(batch_join(&mut graph, &[named, other], BatchOptions::new(2)).is_err());
}
