//! The input beside faults of its files: every stage with every fault, on its thread and without one. Nothing hangs, the first error is
//! reported and stays, the batches before it are right, and the input goes on from them once the fault is over.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use trainspec::env::ReadAt;
use trainspec::internals::data::{Batch, DataContext, Input, Pipeline};
use trainspec_compiler::typed::Spec;
use trainspec_formats::records::Compression;

use crate::positions::{Draws, pipeline, run};
use crate::support::{MemoryEnv, context, eventually, numbers, spec, threads};
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

/// Runs a pipeline beside every fault, from a read on that depends on `draws`.
fn check(env: &MemoryEnv, settings: &str, name: &str, draws: &mut Draws) {
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
