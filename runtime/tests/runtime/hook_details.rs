//! What hooks of `tf.train` do at the edges: after a recovery, at the end, where there is nothing to write, where nothing moves.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;
use trainspec::InputView;
use trainspec::env::Env;
use trainspec::hooks::{
    CheckpointSaverHook, CheckpointSaverListener, Every, LoggingTensorHook, NanTensorHook,
    ProfilerHook, SessionRunArgs, SessionRunContext, SessionRunHook, StepCounterHook,
    SummarySaverHook,
};
use trainspec::monitored::{
    ChiefSessionCreator, InitialSession, MonitoredSession, Scaffold, SessionCreator,
};
use trainspec::saver::{Saver, SaverOptions};
use trainspec::session::{Session, Timeline};
use trainspec::summary::{SummaryWriter, scalar_summary};
use trainspec::supervisor::CheckpointSource;
use trainspec::{Code, Error, Graph};
use trainspec_formats::events::summary_iterator;
use trainspec_formats::proto::event::What;

use crate::hooks::{Folder, ManualClock, events};
use crate::monitored::line;
use crate::support::spec;

type Lines = Arc<Mutex<Vec<String>>>;

fn sink(lines: &Lines) -> impl FnMut(&str) + Send + 'static {
    let own = lines.clone();
    move |line: &str| own.lock().unwrap().push(line.to_owned())
}

/// Two examples of `line`.
const VALUES: [f32; 2] = [1.0, 2.0];

fn session(graph: Graph, hooks: Vec<Box<dyn SessionRunHook>>) -> MonitoredSession {
    MonitoredSession::new(graph, Box::<InitialSession>::default(), hooks).unwrap()
}

fn run(session: &mut MonitoredSession, runs: usize) {
    let view = InputView::new(&[2], &VALUES);
    for _ in 0..runs {
        let feeds = [("x", view), ("y", view)];
        session.run("train_op", &feeds).unwrap();
    }
}

/// Is preempted once, before a run.
struct Preempted {
    before: u32,
    runs: u32,
}

impl Preempted {
    fn before(run: u32) -> Preempted {
        Preempted {
            before: run,
            runs: 0,
        }
    }
}

impl SessionRunHook for Preempted {
    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        self.runs += 1;
        match self.runs == self.before {
            true => Err(Error::new(Code::Aborted, "preempted")),
            false => Ok(None),
        }
    }
}

#[test]
fn logged_runs_are_those_of_this_process_and_a_recovery_does_not_count_them_again() {
    /// A session that has made some steps already.
    struct Later(u64);
    impl SessionCreator for Later {
        fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error> {
            graph.finalize();
            let mut session = Session::new(graph.spec(), &Default::default())?;
            let view = InputView::new(&[2], &VALUES);
            for _ in 0..self.0 {
                session.step(&[("x", view), ("y", view)])?;
            }
            Ok(session)
        }
    }
    let lines = Lines::default();
    // In the order in which they are given.
    let logging = LoggingTensorHook::new(["global_step", "a"], sink(&lines));
    let logging = logging.every_n_iter(3).unwrap();
    let hooks: Vec<Box<dyn SessionRunHook>> =
        vec![Box::new(logging), Box::new(Preempted::before(3))];
    let mut session =
        MonitoredSession::new(Graph::new(&line()), Box::new(Later(7)), hooks).unwrap();
    // The third run is preempted, and repeated from step 7.
    run(&mut session, 7);
    let lines = lines.lock().unwrap();
    let steps: Vec<&str> = lines
        .iter()
        .map(|line| line.split(',').next().unwrap())
        .collect();
    // Runs 0, 3 and 6 of the process; the steps after the recovery are 8, 9 and so on.
    assert_eq!(
        steps,
        ["global_step = 8", "global_step = 9", "global_step = 12"]
    );
    assert!(lines[0].contains(", a = "), "{lines:?}");
}

#[test]
fn values_are_logged_every_number_of_seconds() {
    let lines = Lines::default();
    let clock = Arc::new(ManualClock::default());
    let env = Env {
        clock: clock.clone(),
        ..Env::default()
    };
    let logging = LoggingTensorHook::new(["global_step"], sink(&lines));
    let logging = logging.every_n_secs(2.0).unwrap();
    let mut session = session(Graph::new_in(&line(), env), vec![Box::new(logging)]);
    for _ in 0..5 {
        run(&mut session, 1);
        clock.0.fetch_add(1_000, Ordering::Relaxed);
    }
    let expected = [
        "global_step = 1",
        "global_step = 3 (2.000 sec)",
        "global_step = 5 (2.000 sec)",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
    let both = LoggingTensorHook::new(["a"], |_: &str| {}).every_n_iter(1);
    assert!(both.unwrap().every_n_secs(1.0).is_err());
}

#[test]
fn infinities_pass_the_nan_hook() {
    let text = "spec large; model (x: f32[batch]) { param a: f32 = ones(); loss a + mean(x); } \
                train { optimizer gradient_descent(0.0); }";
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(NanTensorHook::new("loss"))];
    let mut session = session(Graph::new(&spec(text)), hooks);
    for value in [f32::INFINITY, f32::NEG_INFINITY] {
        let values = [value];
        let feeds = [("x", InputView::new(&[1], &values))];
        session.run("train_op", &feeds).unwrap();
    }
    assert!(!session.should_stop());
    let values = [f32::NAN];
    let feeds = [("x", InputView::new(&[1], &values))];
    let error = session.run("train_op", &feeds).unwrap_err();
    assert_eq!(error.to_string(), "NaN loss during training.");
}

#[test]
fn runs_without_progress_are_warned_of_every_twenty() {
    let lines = Lines::default();
    let counter = StepCounterHook::without_output().on_warning(sink(&lines));
    let mut session = session(Graph::new(&line()), vec![Box::new(counter)]);
    let view = InputView::new(&[2], &VALUES);
    let mut warned_at = Vec::new();
    run(&mut session, 2);
    for i in 1..=45 {
        session.run("loss", &[("x", view), ("y", view)]).unwrap();
        if std::mem::take(&mut *lines.lock().unwrap()).len() == 1 {
            warned_at.push(i);
        }
    }
    assert_eq!(warned_at, [20, 40]);
    // A step starts the count again.
    run(&mut session, 1);
    for _ in 0..19 {
        session.run("loss", &[("x", view), ("y", view)]).unwrap();
    }
    assert!(lines.lock().unwrap().is_empty());
}

/// Remembers the steps of saves.
struct Steps(Arc<Mutex<Vec<u64>>>);

impl CheckpointSaverListener for Steps {
    fn before_save(&mut self, _: &mut Session, step: u64) -> Result<(), Error> {
        self.0.lock().unwrap().push(step);
        Ok(())
    }
}

#[test]
fn checkpoints_are_saved_after_a_recovery_and_at_the_end_where_the_step_moved() {
    let saves = |runs: usize, preempted: u32| {
        let folder = Folder::new(&format!("saves-{runs}-{preempted}"));
        let steps = Arc::default();
        let scaffold = Scaffold::new();
        let hook = CheckpointSaverHook::new(&folder.0, Every::Steps(2))
            .scaffold(scaffold.clone())
            .unwrap()
            .listener(Box::new(Steps(Arc::clone(&steps))));
        let hooks: Vec<Box<dyn SessionRunHook>> =
            vec![Box::new(Preempted::before(preempted)), Box::new(hook)];
        let creator = ChiefSessionCreator {
            scaffold,
            checkpoint: Some(CheckpointSource::Folder(folder.0.clone())),
            ..ChiefSessionCreator::default()
        };
        let creator = Box::new(creator);
        let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
        run(&mut session, runs);
        session.close().unwrap();
        steps.lock().unwrap().clone()
    };
    assert_eq!(saves(4, 0), [0, 2, 4]);
    assert_eq!(saves(5, 0), [0, 2, 4, 5]);
    // Before its fourth run it goes back to step 2, saves there, and repeats the run.
    assert_eq!(saves(4, 4), [0, 2, 2, 3]);
}

#[test]
fn hooks_of_one_folder_share_a_writer_which_the_end_flushes_and_leaves_open() {
    let folder = Folder::new("one-writer");
    let mut graph = Graph::new(&line());
    let op = scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let summary = SummarySaverHook::new(Every::Steps(1), &folder.0, Some(op), None).unwrap();
    let counter = StepCounterHook::new(&folder.0).every(Every::Steps(1));
    let mut session = session(graph, vec![Box::new(summary), Box::new(counter)]);
    run(&mut session, 2);
    session.close().unwrap();
    let files = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(files, 1, "one event file");
    // Flushed by the end, and still open.
    let flushed = events(&folder.0);
    assert!(
        flushed
            .iter()
            .any(|(step, text)| *step == 2 && text.starts_with("loss"))
    );
    let writer = session.graph().summary_writers().get(&folder.0).unwrap();
    let later = trainspec_formats::events::summary::scalar("later", 1.0);
    writer.add_summary(later, 3).unwrap();
    writer.flush().unwrap();
    assert_eq!(events(&folder.0).len(), flushed.len() + 1);
}

#[test]
fn a_graph_without_summaries_writes_none() {
    let folder = Folder::new("no-summaries");
    let writer = Arc::new(SummaryWriter::open(&folder.0, Default::default()).unwrap());
    let scaffold = Scaffold::new();
    let every = Every::Steps(1);
    let hook = SummarySaverHook::with_writer(every, writer, None, Some(scaffold.clone())).unwrap();
    let creator = ChiefSessionCreator {
        scaffold,
        ..ChiefSessionCreator::default()
    };
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(hook)];
    let mut session = MonitoredSession::new(Graph::new(&line()), Box::new(creator), hooks).unwrap();
    run(&mut session, 3);
    session.close().unwrap();
    assert_eq!(events(&folder.0), [(1, "Start".to_owned())]);
}

/// The metadata of runs in the event files of a folder: step, tag, message.
fn metadata(folder: &Folder) -> Vec<(i64, String, Vec<u8>)> {
    let entries = std::fs::read_dir(&folder.0).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().contains("tfevents"));
    let events = paths
        .iter()
        .flat_map(|path| summary_iterator(path).unwrap());
    let tagged = events.filter_map(|event| {
        let event = event.unwrap();
        match event.what {
            Some(What::TaggedRunMetadata(tagged)) => {
                Some((event.step, tagged.tag, tagged.run_metadata))
            }
            _ => None,
        }
    });
    tagged.collect()
}

#[test]
fn traced_runs_have_metadata_under_their_step() {
    let folder = Folder::new("run-metadata");
    let profiler = ProfilerHook::new(Every::Steps(2), &folder.0);
    let mut session = session(Graph::new(&line()), vec![Box::new(profiler)]);
    run(&mut session, 4);
    session.close().unwrap();
    session.graph().summary_writers().clear().unwrap();
    let found = metadata(&folder);
    let tags: Vec<(i64, &str)> = found
        .iter()
        .map(|(step, tag, _)| (*step, tag.as_str()))
        .collect();
    assert_eq!(tags, [(2, "step_2"), (4, "step_4")]);
    assert!(found.iter().all(|(.., message)| !message.is_empty()));
}

/// Two layers: kernels of which some consume what others produce.
fn layers() -> Graph {
    let text = "spec layers;
        model (x: f32[batch], y: f32[batch]) {
            let h = expand_dims(x, axis: 1) |> dense(8) |> tanh |> dense(8) |> tanh;
            loss mean(square(dense(h, 1)[_, 0] - y));
        }
        train { optimizer gradient_descent(0.1); }";
    Graph::new(&spec(text))
}

/// The trace events of the second step.
fn traced(timeline: Timeline) -> Vec<Json> {
    let folder = Folder::new(&format!("arrows-{timeline:?}"));
    let profiler = ProfilerHook::new(Every::Steps(2), &folder.0).with_timeline(timeline);
    let mut session = session(layers(), vec![Box::new(profiler)]);
    run(&mut session, 2);
    session.close().unwrap();
    let text = std::fs::read_to_string(folder.0.join("timeline-2.json")).unwrap();
    let trace: Json = serde_json::from_str(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn arrows_lead_from_each_kernel_to_those_that_consume_its_result() {
    let of = |events: &[Json], phase: &str| -> Vec<Json> {
        let chosen = events.iter().filter(|event| event["ph"] == phase);
        chosen.cloned().collect()
    };
    let number = |event: &Json, key: &str| event[key].as_f64().unwrap();
    let events = traced(Timeline::default());
    // With arrows, without memory.
    assert!(of(&events, "C").is_empty());
    let kernels = of(&events, "X");
    let (from, to) = (of(&events, "s"), of(&events, "f"));
    // One for each input that another kernel has produced.
    let inputs = kernels
        .iter()
        .map(|k| k["args"]["inputs"].as_array().unwrap().len());
    let inputs: usize = inputs.sum();
    assert!(kernels.len() > 4 && inputs > 4, "{kernels:?}");
    assert_eq!((from.len(), to.len()), (inputs, inputs));
    let kernel_of = |index: &Json| {
        let mut found = kernels.iter().filter(|k| k["args"]["kernel"] == *index);
        found.next().unwrap()
    };
    let mut arrows = from.iter().zip(&to);
    for consumer in &kernels {
        for producer in consumer["args"]["inputs"].as_array().unwrap() {
            let producer = kernel_of(producer);
            let is_this = |(from, to): &(&Json, &Json)| {
                let end = number(producer, "ts") + number(producer, "dur");
                from["id"] == to["id"]
                    && from["name"] == producer["name"]
                    && (number(from, "ts") - end).abs() < 0.01
                    && to["ts"] == consumer["ts"]
                    && from["tid"] == producer["tid"]
                    && to["tid"] == consumer["tid"]
            };
            // A result is there before it is consumed.
            let arrow = arrows.clone().find(is_this);
            let (from, to) = arrow.unwrap_or_else(|| panic!("{producer} {consumer}"));
            assert!(number(from, "ts") <= number(to, "ts"), "{from} {to}");
        }
    }
    assert!(arrows.all(|(from, to)| from["cat"] == "DataFlow" && to["bp"] == "e"));

    let events = traced(Timeline {
        show_dataflow: false,
        show_memory: true,
    });
    assert!(of(&events, "s").is_empty() && of(&events, "f").is_empty());
    // The bytes that hold values, from each kernel on; none after the last.
    let memory = of(&events, "C");
    assert_eq!(memory.len(), of(&events, "X").len() + 1);
    let live = |event: &Json| event["args"]["live bytes"].as_u64().unwrap();
    assert!(memory.iter().any(|event| live(event) > 0), "{memory:?}");
    assert_eq!(live(memory.last().unwrap()), 0);
}

#[test]
fn two_savers_in_the_collection_and_two_sources_of_summaries_are_refused() {
    let folder = Folder::new("two-savers");
    let saver = || Arc::new(Mutex::new(Saver::new(SaverOptions::default()).unwrap()));
    let with_savers = |count: usize| {
        let mut graph = Graph::new(&line());
        let savers = (0..count).map(|_| saver());
        graph.collections_mut().unwrap().savers.extend(savers);
        let hook = CheckpointSaverHook::new(&folder.0, Every::Steps(1));
        let creator = Box::<InitialSession>::default();
        MonitoredSession::new(graph, creator, vec![Box::new(hook)])
    };
    let error = with_savers(2).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert!(
        error.to_string().to_lowercase().contains("saver"),
        "{error}"
    );
    assert!(with_savers(1).is_ok());

    let mut graph = Graph::new(&line());
    let op = scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let (op, scaffold) = (Some(op), Some(Scaffold::new()));
    let both = SummarySaverHook::new(Every::Steps(1), &folder.0, op, scaffold);
    let error = both.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let expected = "exactly one of scaffold or summary_op must be provided";
    assert_eq!(error.to_string(), expected);
}
