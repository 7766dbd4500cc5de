//! Sources that a program registers: iterators over records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use trainspec::internals::data::Pipeline;
use trainspec::registry::{Parameter, Record, Registry};
use trainspec::session::Options;
use trainspec::{Error, SessionBuilder, Tensor};

use crate::support::{MemoryEnv, RunDir, context_with, ints, spec};

fn record(i: i64) -> Record {
    vec![
        ("y".to_owned(), Tensor::scalar(i)),
        ("x".to_owned(), Tensor::new(&[2], vec![i as f32, 0.5])),
    ]
}

/// `source "counted" (to: 5);`, and how often it was made.
fn counted() -> (Registry, Arc<AtomicU64>) {
    let made = Arc::<AtomicU64>::default();
    let count = made.clone();
    let parameters = [Parameter::required::<i64>("to")];
    let registry = Registry::default().source("counted", &parameters, move |arguments| {
        count.fetch_add(1, Ordering::Relaxed);
        let to = arguments.get::<i64>("to")?;
        Ok(Box::new((0..to).map(|i| Ok(record(i)))))
    });
    (registry, made)
}

fn open(settings: &str, registry: Registry) -> Result<Pipeline, Error> {
    let spec = spec(&format!("spec test; data d {{ {settings} }}"));
    let cx = context_with(&MemoryEnv::new(&[]), &spec, 3, registry);
    Pipeline::open(&cx, &spec.data[0])
}

fn all(pipeline: &mut Pipeline) -> Result<Vec<i64>, Error> {
    let mut elements = Vec::new();
    while let Some(element) = pipeline.next()? {
        elements.push(element);
    }
    Ok(ints(&elements, "y"))
}

const COUNTED: &str = "source \"counted\" (to: 5); feature y: i64; feature x: f32[2];";

#[test]
fn an_iterator_is_made_for_each_epoch() {
    let (registry, made) = counted();
    let mut pipeline = open(&format!("{COUNTED} epochs 2;"), registry).unwrap();
    assert_eq!(all(&mut pipeline).unwrap(), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

#[test]
fn a_resumed_source_reads_its_records_again() {
    let settings = format!(
        "{COUNTED} map r = random_uniform([]); shuffle (buffer: 3, seed: 1); epochs 3; batch (size: 4, remainder: keep);"
    );
    let mut pipeline = open(&settings, counted().0).unwrap();
    let mut positions = vec![pipeline.position()];
    let mut elements = Vec::new();
    while let Some(element) = pipeline.next().unwrap() {
        elements.push(element);
        positions.push(pipeline.position());
    }
    assert_eq!(elements.len(), 4);
    for (k, position) in positions.iter().enumerate().rev() {
        for pipeline in [&mut open(&settings, counted().0).unwrap(), &mut pipeline] {
            pipeline.seek(position).unwrap();
            assert_eq!(pipeline.position(), *position);
            for element in &elements[k..] {
                assert_eq!(pipeline.next().unwrap().as_ref(), Some(element));
            }
            assert_eq!(pipeline.next().unwrap(), None);
        }
    }
    let changed = settings.replace("to: 5", "to: 2");
    let error = open(&changed, counted().0)
        .unwrap()
        .seek(&positions[1])
        .unwrap_err();
    let message = error.to_string();
    assert!(message.contains("and there are"), "{message}");
}

#[test]
fn what_a_record_lacks_or_has_otherwise_names_its_number() {
    let with = |make: fn(i64) -> Result<Record, Error>| {
        let registry =
            Registry::default().source("counted", &[Parameter::required::<i64>("to")], move |_| {
                Ok(Box::new((0..3).map(make)))
            });
        let mut pipeline = open(COUNTED, registry).unwrap();
        all(&mut pipeline).unwrap_err().to_string()
    };
    let lacking = with(|i| Ok(if i == 1 { Vec::new() } else { record(i) }));
    assert_eq!(
        lacking,
        "source \"counted\", record 2: there is no feature `y`"
    );
    let wrong = with(|i| {
        let mut record = record(i);
        if i == 2 {
            record[1].1 = Tensor::scalar(1.0_f32);
        }
        Ok(record)
    });
    assert_eq!(
        wrong,
        "source \"counted\", record 3: `x` is `f32`, and the feature is `f32[2]`"
    );
    let failed = with(|_| {
        Err(Error::new(
            trainspec::Code::Unavailable,
            "the sensor is off",
        ))
    });
    assert!(failed.contains("the sensor is off"), "{failed}");
    let panicked = with(|_| panic!("boom"));
    assert!(
        panicked.contains("the source `counted` panicked in `its iterator`: boom"),
        "{panicked}"
    );
}

const SPEC: &str = "spec line;
    data train_set { source memory(\"points\"); feature x: f32; feature y: f32; repeat; batch 2; }
    data test_set { source \"line\" (to: 3); feature x: f32; feature y: f32; batch 1; }
    model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
    train { data train_set; optimizer gradient_descent(0.1); steps 40; }
    eval { data test_set; }";

#[test]
fn a_program_trains_and_evaluates_on_its_own_data() {
    let dir = RunDir::new();
    let builder = SessionBuilder::from_text("line", SPEC)
        .dir(&dir.0)
        .memory(
            "points",
            [
                ("x", Tensor::new(&[3], vec![1.0_f32, 2.0, 3.0])),
                ("y", Tensor::new(&[3], vec![2.0_f32, 4.0, 6.0])),
            ],
        )
        .source("line", &[Parameter::required::<i64>("to")], |arguments| {
            let to = arguments.get::<i64>("to")?;
            let record = |i: i64| {
                let x = i as f32;
                let scalar = |x: f32| Tensor::scalar(x);
                Ok(vec![
                    ("x".to_owned(), scalar(x)),
                    ("y".to_owned(), scalar(2.0 * x)),
                ])
            };
            Ok(Box::new((0..to).map(record)))
        });
    let session = builder.run(&mut |_: &_| {}).unwrap();
    let a = session.state().get("a").unwrap().to_f64s()[0];
    assert!((a - 2.0).abs() < 1e-2, "{a}");
}

#[test]
fn data_that_is_missing_or_superfluous_is_one_error() {
    let x = Tensor::new(&[1], vec![1.0_f32]);
    let builder = || SessionBuilder::from_text("line", SPEC).memory("point", [("x", x.clone())]);
    let error = builder().run(&mut |_: &_| {}).unwrap_err().to_string();
    assert_eq!(
        error,
        "the program registers other data than the spec has: `memory(\"points\")` is not registered; `source \"line\"` is not registered; `memory(\"point\")` is registered, and the spec has none"
    );
    let spec = trainspec::check("line", SPEC).unwrap();
    let error = trainspec::train(&spec, &Options::default(), &mut |_: &_| {}).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`memory(\"points\")` is not registered"),
        "{error}"
    );
    // A session that is fed by the program needs no data.
    SessionBuilder::from_text("line", SPEC).build().unwrap();
    let superfluous = builder().build().unwrap_err().to_string();
    assert_eq!(
        superfluous,
        "the program registers other data than the spec has: `memory(\"point\")` is registered, and the spec has none"
    );
}
