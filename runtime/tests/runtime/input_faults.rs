//! The input beside faults of its files: every stage with every fault, on its thread and without one. Nothing hangs, the first error is
//! reported and stays, the batches before it are right, and the input goes on from them once the fault is over.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trainspec::env::ReadAt;
use trainspec::internals::data::{Batch, DataContext, Input, Pipeline};
use trainspec::registry::Registry;
use trainspec::{Code, Error};
use trainspec_compiler::ir::Tensor as IrTensor;
use trainspec_compiler::typed::Spec;
use trainspec_formats::records::Compression;
use trainspec_formats::tensor::Tensor;

use crate::arrays::{gzip, idx, npy, npz};
use crate::image_files::png;
use crate::positions::{Draws, pipeline, run};
use crate::support::{MemoryEnv, context, context_with, eventually, numbers, spec, threads};
use crate::tfrecord::{file, int64s};

/// What happens to the reads of the data from some read on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The disk fails.
    Error,
    /// The reader panics.
    Panic,
    /// Reads take long.
    Slow,
    /// The files end before their lengths.
    End,
}

const FAULTS: [Fault; 4] = [Fault::Error, Fault::Panic, Fault::Slow, Fault::End];

/// How long a slow read takes.
const PAUSE: Duration = Duration::from_micros(200);

/// The reads that are slow.
const SLOW_READS: u64 = 20;

/// What disturbs the files, shared by all that are open.
#[derive(Debug)]
struct Disturbance {
    fault: Fault,
    /// The first read that is disturbed.
    from: u64,
    reads: AtomicU64,
    is_over: AtomicBool,
}

struct DisturbedFile {
    file: Box<dyn ReadAt>,
    disturbance: Arc<Disturbance>,
}

impl ReadAt for DisturbedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Disturbance { fault, from, .. } = *self.disturbance;
        let read = self.disturbance.reads.fetch_add(1, Ordering::Relaxed);
        if read < from || self.disturbance.is_over.load(Ordering::Relaxed) {
            return self.file.read_at(offset, buffer);
        }
        match fault {
            Fault::Error => return Err(io::Error::other("the disk fails")),
            Fault::Panic => panic!("the reader panics"),
            Fault::Slow if read < from + SLOW_READS => std::thread::sleep(PAUSE),
            Fault::Slow => {}
            Fault::End => return Ok(0),
        }
        self.file.read_at(offset, buffer)
    }
}

/// The data set of a spec, over files that are disturbed.
fn disturbed(
    env: &MemoryEnv,
    spec: &Arc<Spec>,
    fault: Fault,
    from: u64,
) -> (DataContext, Arc<Disturbance>) {
    let disturbance = Arc::new(Disturbance {
        fault,
        from,
        reads: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let shared = disturbance.clone();
    let opening = move |file| -> Box<dyn ReadAt> {
        Box::new(DisturbedFile {
            file,
            disturbance: shared.clone(),
        })
    };
    let mut cx = context(env, spec, 5);
    cx.storage = env.env_opening(opening).storage;
    (cx, disturbance)
}

/// How many batches are compared, of pipelines that do not end.
const LIMIT: usize = 30;

/// Ends the process where a test takes this long: a hang would never end.
const HANG: Duration = Duration::from_secs(120);

/// Watches over a test, until it is dropped.
struct Watchdog {
    done: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watchdog {
    fn new(what: String) -> Watchdog {
        let done = Arc::new(AtomicBool::new(false));
        let own = done.clone();
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            while !own.load(Ordering::SeqCst) {
                if start.elapsed() > HANG {
                    // Past the capture of what a test prints.
                    let _ = writeln!(io::stderr(), "the input hangs: {what}");
                    std::process::exit(101);
                }
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        Watchdog {
            done,
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Runs a pipeline beside every fault, from a read on that depends on `draws`.
fn check(env: &MemoryEnv, settings: &str, name: &str, draws: &mut Draws) {
    let _watchdog = Watchdog::new(settings.to_owned());
    let spec = spec(&format!("spec test; data {name} {{ {settings} }}"));
    let (cx, counted) = disturbed(env, &spec, Fault::Slow, u64::MAX);
    let open = |cx: &DataContext| Pipeline::open(cx, &spec.data[0]).map(Input::new);
    let mut undisturbed = open(&cx).unwrap();
    let (expected, failure) = run(&mut undisturbed, LIMIT);
    let all = counted.reads.load(Ordering::Relaxed);
    for fault in FAULTS {
        // The first read, the last one, and any between.
        for from in [0, all.saturating_sub(1), draws.int(0, all.max(1))] {
            for is_ahead in [false, true] {
                let what = format!("{settings}\n{fault:?} from read {from} of {all}, {is_ahead}");
                let (cx, disturbance) = disturbed(env, &spec, fault, from);
                let opened = catch_unwind(AssertUnwindSafe(|| open(&cx)));
                let Ok(Ok(input)) = opened else {
                    // Some sources look into their files first.
                    assert_ne!(fault, Fault::Slow, "{what}");
                    continue;
                };
                let mut input = if is_ahead { input.ahead() } else { input };
                let (found, error) = run(&mut input, LIMIT);
                let error = error.unwrap_or_default();
                assert!(
                    is_prefix(&found, &expected),
                    "{what}: {} batches, {error}",
                    found.len()
                );
                match fault {
                    Fault::Slow => {
                        assert_eq!(found.len(), expected.len(), "{what}");
                        assert_eq!(error, failure.clone().unwrap_or_default(), "{what}");
                    }
                    _ if found.len() < expected.len() => {
                        let text = match fault {
                            Fault::Error => "the disk fails",
                            Fault::Panic => "the reader panics",
                            Fault::Slow | Fault::End => "",
                        };
                        assert!(error.contains(text), "{what}: {error}");
                        let again = input.next().map(|batch| batch.is_some());
                        let again = again.map_err(|e| e.to_string());
                        assert_eq!(again, Err(error), "{what}");
                    }
                    Fault::Error | Fault::Panic | Fault::End => {}
                }
                disturbance.is_over.store(true, Ordering::Relaxed);
                goes_on(&mut input, &expected, found.len(), &what);
            }
        }
    }
    eventually("no thread is left", || {
        threads(&format!("data {name}")) == 0
    });
}

/// Whether those are the first batches. What comes after the last one is not known where the reading of it failed.
fn is_prefix(found: &[Batch], expected: &[Batch]) -> bool {
    let same = |(a, b): (&Batch, &Batch)| a.element == b.element && a.position == b.position;
    found.len() <= expected.len() && found.iter().zip(expected).all(same)
}

/// The batches after a fault that is over.
fn goes_on(input: &mut Input, expected: &[Batch], read: usize, what: &str) {
    let Some(last) = read.checked_sub(1) else {
        return;
    };
    let sought = input.seek(&expected[last].position);
    sought.unwrap_or_else(|e| panic!("{what}: {e}"));
    let (rest, _) = run(input, expected.len() - read);
    assert!(rest == expected[read..], "{what}: after {read} batches");
}

#[test]
fn every_stage_stands_every_fault() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(60))]);
    let stages = [
        "map y = cast(x, f32) / 3.0;",
        "map r = random_uniform([]);",
        "filter x % 3 != 1;",
        "shuffle (buffer: 20, seed: 4);",
        "epochs 2;",
        "repeat;",
        "take 40;",
        "skip 13;",
        "shard (index: 1, count: 3);",
        "split (part: train, holdout: 0.3, seed: 1);",
        "split (part: holdout, holdout: 0.3, by: x, seed: 1);",
        "cache;",
        "window (size: 5, shift: 3);",
        "prefetch 2;",
        "shuffle (buffer: 9); map y = random_uniform([]) + cast(x, f32); filter x > 4; cache; epochs 2; prefetch 3;",
    ];
    for (i, stage) in stages.iter().enumerate() {
        let settings = format!("source csv(\"n.csv\"); feature x: i64; {stage} batch 4;");
        check(&env, &settings, "one_stage", &mut Draws::new(i as i64));
    }
}

#[test]
fn every_source_of_several_files_or_data_sets_stands_every_fault() {
    let record = |n: i64| {
        let list: Vec<i64> = (0..n % 4).collect();
        vec![("x", int64s(&[n])), ("list", int64s(&list))]
    };
    let records: Vec<_> = (0..30).map(record).collect();
    let env = MemoryEnv::new(&[
        ("n.csv", &numbers(30)),
        ("m.csv", b"1\n2\nred\n3\nblue\n4\n5\n"),
        ("r", &file(Compression::None, &records)),
        ("g", &file(Compression::Gzip, &records)),
    ]);
    let parts = "} data a { source csv(\"n.csv\"); feature x: i64; shuffle (buffer: 5); }
        data b { source csv(\"m.csv\", on_error: skip(max: 2)); feature x: i64; }
        data c { source b; map y = 2 * x; drop x;";
    for (i, settings) in [
        "source csv(\"m.csv\", on_error: skip(max: 2)); feature x: i64; batch 2;".to_owned(),
        "source csv([\"n.csv\", \"m.csv\", \"n.csv\"], on_error: skip(max: 2)); feature x: i64;
            interleave (cycle: 2, block: 3); batch 4; repeat;"
            .to_owned(),
        "source tfrecord([\"r\", \"g\"]); feature x: i64; feature list: i64[<=3];
            interleave (cycle: 2); bucket_by_length (list, boundaries: [1, 2], size: 3, remainder: keep); epochs 2;"
            .to_owned(),
        format!("source mix(a: 0.7, b: 0.3, seed: 1); epochs 2; batch 4; {parts}"),
        format!("source zip(a, c); map z = x + y; epochs 3; batch 2; {parts}"),
    ]
    .iter()
    .enumerate()
    {
        println!("seed {i}: {settings}");
        check(&env, settings, "several", &mut Draws::new(i as i64));
    }
}

#[test]
fn a_thousand_inputs_of_several_files_start_and_stop() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(40)), ("m.csv", b"1\nred\n2\n3\n")]);
    let text = "spec test; data cycles {
            source mix(a: 3, b: 1); window (size: 2, shift: 1); shuffle (buffer: 9); repeat; batch 3;
        }
        data a { source csv([\"n.csv\", \"n.csv\"]); feature x: i64; interleave (cycle: 2); }
        data b { source csv(\"m.csv\", on_error: skip(max: 1)); feature x: i64; repeat; take 30; }";
    let spec = spec(text);
    let cx = context(&env, &spec, 1);
    let _watchdog = Watchdog::new(text.to_owned());
    for round in 0..1000_usize {
        let pipeline = Pipeline::open(&cx, &spec.data[0]).unwrap();
        let mut input = Input::new(pipeline).ahead();
        for _ in 0..round % 5 {
            input.next().unwrap().unwrap();
        }
        if round % 4 == 0 {
            input.seek(&input.position().clone()).unwrap();
            input.next().unwrap().unwrap();
        }
    }
    eventually("no thread is left", || threads("data cycles") == 0);
}

#[test]
fn random_pipelines_stand_faults() {
    for seed in 0..60 {
        let mut draws = Draws::new(1_000 + seed);
        let (env, settings) = pipeline(&mut draws);
        println!("seed {seed}: {settings}");
        check(&env, &settings, "random", &mut draws);
    }
}

#[test]
fn every_kind_of_file_stands_every_fault() {
    let values: Vec<u8> = (0..40).collect();
    let tensor = Tensor::from_values(&[40], &values).unwrap();
    let text = b"one two three\n".repeat(9);
    let mut files: Vec<(String, Vec<u8>)> = (0..9_u8)
        .map(|i| {
            let pixels = [i, 2 * i];
            (
                format!("p/{i}.png"),
                png(2, 1, ::png::ColorType::Grayscale, &pixels),
            )
        })
        .collect();
    files.extend([
        ("a.idx".to_owned(), idx(8, &[40], &values)),
        ("a.npy".to_owned(), npy(&tensor)),
        ("a.npz".to_owned(), npz(&[("x", &tensor)])),
        ("a.txt".to_owned(), text.clone()),
        ("a.txt.gz".to_owned(), gzip(&text)),
        ("n.csv.gz".to_owned(), gzip(&numbers(40))),
    ]);
    let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
    let env = MemoryEnv::new(&files);
    for (i, settings) in [
        "source idx(x: \"a.idx\"); feature x: u8; shuffle; batch 3;",
        "source npy(x: \"a.npy\"); feature x: u8; batch 3; epochs 2;",
        "source npz(\"a.npz\"); feature x: u8; shuffle; repeat; batch 3;",
        "source text(\"a.txt\"); feature line: string; shuffle; batch 2;",
        "source text(\"a.txt\", unit: word); feature word: string; batch 4;",
        "source text(\"a.txt.gz\", unit: byte); feature x: u8; window (size: 5, shift: 1); batch 4;",
        "source csv(\"n.csv.gz\"); feature x: i64; shuffle (buffer: 5); batch 3; epochs 2;",
        "source files(\"p/*.png\"); feature image: u8[1, 2, 1]; feature path: string; shuffle; batch 2;",
    ]
    .iter()
    .enumerate()
    {
        println!("{settings}");
        check(&env, settings, "kinds", &mut Draws::new(50 + i as i64));
    }
}

/// An iterator of a program that fails, or panics, on the thread that prepares batches.
#[test]
fn an_iterator_that_fails_ahead_is_reported_in_its_turn() {
    let _watchdog = Watchdog::new("a registered source".to_owned());
    for panics in [false, true] {
        let registry = Registry::default().source("failing", &[], move |_| {
            let record = move |i: i64| match i {
                20 if panics => panic!("the sensor is gone"),
                20 => Err(Error::new(Code::Unavailable, "the sensor is gone")),
                _ => Ok(vec![("x".to_owned(), IrTensor::scalar(i))]),
            };
            Ok(Box::new((0..40).map(record)))
        });
        let text =
            "spec test; data failing { source \"failing\"; feature x: i64; batch 3; prefetch 4; }";
        let spec = spec(text);
        let cx = context_with(&MemoryEnv::new(&[]), &spec, 0, registry);
        let open = || Input::new(Pipeline::open(&cx, &spec.data[0]).unwrap());
        let (expected, failure) = run(&mut open(), LIMIT);
        let (found, error) = run(&mut open().ahead(), LIMIT);
        assert!(
            is_prefix(&found, &expected) && found.len() >= 5,
            "{}",
            found.len()
        );
        assert_eq!(error, failure);
        assert!(error.unwrap().contains("the sensor is gone"));
        let mut input = open().ahead();
        input.next().unwrap().unwrap();
        let position = input.position().clone();
        let _ = run(&mut input, LIMIT);
        // It goes on from before the failure.
        input.seek(&position).unwrap();
        let again = input.next().unwrap().unwrap();
        assert_eq!(again.element, expected[1].element);
    }
    eventually("no thread is left", || threads("data failing") == 0);
}
