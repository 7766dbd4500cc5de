//! What sessions add to a step: `linreg`, whose step is all overhead, bare, fetched by name, through the module of `train!`, and monitored
//! with hooks of which none is due.
//!
//!     cargo run --release --example monitored_overhead             nanoseconds per step, interleaved, best of several
//!     cargo run --release --example monitored_overhead bare 10000  that number of steps of one kind, to be counted by callgrind

use std::time::Instant;

use ndarray::ArrayView2;
use trainspec::hooks::{
    CheckpointSaverHook, Every, LoggingTensorHook, NanTensorHook, SessionRunHook, StepCounterHook,
    StopAtStepHook, SummarySaverHook,
};
use trainspec::monitored::{ChiefSessionCreator, MonitoredSession, Scaffold};
use trainspec::session::{Options, RunOptions, Session};
use trainspec::summary::scalar_summary;
use trainspec::{Engine, InputView};
use trainspec::{Error, Graph};

trainspec::train!(file: "../../examples/bench/linreg.trainspec");

/// Steps of one measurement.
const WINDOW: usize = 20_000;
/// Measurements of each kind.
const WINDOWS: usize = 20;
/// An interval that never comes.
const NEVER: Every = Every::Steps(u64::MAX);

/// One step of a kind.
type Step<'a> = Box<dyn FnMut() -> Result<(), Error> + 'a>;

fn main() -> Result<(), Error> {
    let spec = linreg::spec()?;
    let options = Options {
        engine: Engine::compiled(1),
        ..Options::default()
    };
    let folder = std::env::temp_dir().join(format!("trainspec-overhead-{}", std::process::id()));
    let (x, y) = (vec![0.5_f32; 320], vec![1.0_f32; 32]);
    let feeds = [
        ("x", InputView::new(&[32, 10], &x)),
        ("y", InputView::new(&[32, 1], &y)),
    ];

    let mut bare = Session::new(&spec, &options)?;
    let mut by_name = Session::new(&spec, &options)?;
    let mut typed = linreg::Session::builder().threads(1).build()?;
    let shape =
        |values, shape| ArrayView2::from_shape(shape, values).expect("the shape of the values");
    let typed_feeds = linreg::Feeds {
        x: shape(&x, (32, 10)),
        y: shape(&y, (32, 1)),
    };
    let monitored = |hooks: Vec<Box<dyn SessionRunHook>>, scaffold: Scaffold, graph: Graph| {
        let creator = ChiefSessionCreator {
            scaffold,
            options: options.clone(),
            checkpoint: None,
        };
        MonitoredSession::new(graph, Box::new(creator), hooks)
    };
    let mut without = monitored(Vec::new(), Scaffold::new(), Graph::new(&spec))?;
    let mut graph = Graph::new(&spec);
    let op = scalar_summary(&mut graph, &["loss"], "loss", None)?;
    let scaffold = Scaffold::new();
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![
        Box::new(StopAtStepHook::last_step(u64::MAX)),
        Box::new(StepCounterHook::new(&folder).every(NEVER)),
        Box::new(SummarySaverHook::new(NEVER, &folder, Some(op), None)?),
        Box::new(CheckpointSaverHook::new(&folder, NEVER).scaffold(scaffold.clone())?),
        Box::new(LoggingTensorHook::new(["loss"], |_: &str| {}).every_n_iter(u64::MAX)?),
    ];
    let mut with = monitored(hooks, scaffold, graph)?;
    let nan: Vec<Box<dyn SessionRunHook>> = vec![Box::new(NanTensorHook::new("loss"))];
    let mut watched = monitored(nan, Scaffold::new(), Graph::new(&spec))?;

    let batches: [&dyn trainspec::FeedDict; 1] = [&feeds];
    let none = RunOptions::default();
    let mut kinds: Vec<(&str, Step<'_>)> = vec![
        ("bare", Box::new(|| bare.step(&feeds).map(drop))),
        (
            "run, train_op and loss by name",
            Box::new(|| by_name.run(("train_op", "loss"), &feeds).map(drop)),
        ),
        (
            "the module of train!",
            Box::new(|| typed.step(&typed_feeds).map(|out| assert!(out.loss >= 0.0))),
        ),
        (
            "monitored",
            Box::new(|| without.run_batches("train_op", &batches, &none).map(drop)),
        ),
        (
            "monitored, five hooks",
            Box::new(|| with.run_batches("train_op", &batches, &none).map(drop)),
        ),
        (
            "monitored, a NaN hook that fetches",
            Box::new(|| watched.run_batches("train_op", &batches, &none).map(drop)),
        ),
    ];
    let mut arguments = std::env::args().skip(1);
    if let Some(kind) = arguments.next() {
        let steps: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        for (name, step) in &mut kinds {
            if *name == kind {
                (0..steps).try_for_each(|_| step())?;
            }
        }
    } else {
        let mut best = vec![f64::INFINITY; kinds.len()];
        for _ in 0..WINDOWS {
            for (best, (_, step)) in best.iter_mut().zip(&mut kinds) {
                let start = Instant::now();
                (0..WINDOW).try_for_each(|_| step())?;
                *best = best.min(start.elapsed().as_secs_f64() / WINDOW as f64);
            }
        }
        for ((name, _), seconds) in kinds.iter().zip(&best) {
            let nanoseconds = seconds * 1e9;
            let more = (seconds - best[0]) * 1e9;
            println!("{name:<36} {nanoseconds:>8.0} ns/step  {more:>+8.0} ns");
        }
    }
    drop(kinds);
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}
