//! The hooks of `tf.train`, as TensorFlow's: when they act, what they write, and their errors.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value as Json;
use trainspec::InputView;
use trainspec::env::Env;
use trainspec::hooks::{
    CheckpointSaverHook, CheckpointSaverListener, Every, FeedFnHook, FinalOpsHook,
    GlobalStepWaiterHook, LoggingTensorHook, NanTensorHook, ProfilerHook, SecondOrStepTimer,
    SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues, StepCounterHook,
    StopAtStepHook, SummarySaverHook,
};
use trainspec::monitored::{
    ChiefSessionCreator, InitialSession, MonitoredSession, Scaffold, Setting,
    TrainingSessionOptions, monitored_training_session,
};
use trainspec::session::{RunOptions, Session, Target};
use trainspec::summary::scalar_summary;
use trainspec::{Code, Coordinator, Error, Graph, StopToken, Tensor};
use trainspec_formats::clock::Clock;
use trainspec_formats::events::summary_iterator;
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::summary::value::Value;

use crate::monitored::{Act, Call, Scenario, Trace, class, line, texts};
use crate::saver::cases;
use crate::support::spec;

/// The cases of the oracle that have a test of their own.
pub(crate) const OWN_TESTS: [(&str, fn()); 8] = {
    let saves = oracle_checkpoints_are_saved_when_tensorflow_saves_them_and_listeners_hear_of_it;
    let nan = oracle_a_nan_loss_fails_or_stops;
    [
        ("checkpoint_saver_hook_2", saves),
        ("checkpoint_saver_hook_3", saves),
        ("resume_from_checkpoint", saves),
        (
            "recovery_from_checkpoint",
            oracle_an_aborted_run_goes_on_from_the_last_checkpoint,
        ),
        ("nan_tensor_hook_fail", nan),
        ("nan_tensor_hook_stop", nan),
        (
            "hooks_out_of_range",
            oracle_the_end_of_the_input_ends_the_session_cleanly,
        ),
        (
            "hooks_run_after_close",
            oracle_a_second_close_calls_end_again_and_is_an_error,
        ),
    ]
};

/// A folder of a test, removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = format!("trainspec-hooks-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A clock that is set, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct ManualClock(pub(crate) AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn unix_seconds(&self) -> f64 {
        self.now().as_secs_f64()
    }

    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

/// A summary, or a log entry, of an event file: its step and what it says.
pub(crate) fn events(folder: &Path) -> Vec<(i64, String)> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("tfevents"))
        .collect();
    names.sort();
    let mut found = Vec::new();
    for path in names {
        for event in summary_iterator(&path).unwrap() {
            let event = event.unwrap();
            match event.what {
                Some(What::Summary(summary)) => {
                    for value in summary.value {
                        let text = match value.value {
                            Some(Value::SimpleValue(x)) => format!("{} {x}", value.tag),
                            _ => value.tag,
                        };
                        found.push((event.step, text));
                    }
                }
                Some(What::SessionLog(log)) => {
                    let text = format!("{:?} {}", log.status(), log.checkpoint_path);
                    found.push((event.step, text.trim().to_owned()));
                }
                _ => {}
            }
        }
    }
    found
}

/// Runs a training of `line` N times.
fn run(session: &mut MonitoredSession, runs: usize) {
    let values = [1.0_f32, 2.0];
    let view = InputView::new(&[2], &values);
    for _ in 0..runs {
        session
            .run("train_op", &[("x", view), ("y", view)])
            .unwrap();
    }
}

#[test]
fn oracle_timers_trigger_as_those_of_tensorflow() {
    for case in cases("timer") {
        let name = case["name"].as_str().unwrap();
        let args = &case["args"];
        let every = Every::steps_or_secs(args["every_steps"].as_u64(), args["every_secs"].as_f64());
        if let Some(expected) = case.get("expected_error") {
            let error = every.unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{name}");
            assert_like(&error, expected);
            continue;
        }
        let clock = Arc::new(ManualClock::default());
        let mut timer = SecondOrStepTimer::new(every.unwrap(), clock.clone());
        for row in case["table"].as_array().unwrap() {
            let millis = (row["time"].as_f64().unwrap() * 1000.0).round() as u64;
            clock.0.store(millis, Ordering::Relaxed);
            if row["reset"] == true {
                timer.reset();
            }
            let step = row["step"].as_u64().unwrap();
            let triggers = timer.should_trigger_for_step(step);
            assert_eq!(triggers, row["should_trigger"] == true, "{name} {row}");
            if triggers {
                let elapsed = timer.update_last_triggered_step(step);
                let expected = &row["elapsed"];
                match elapsed {
                    None => assert_eq!(expected, &serde_json::json!([null, null]), "{name}"),
                    Some((time, steps)) => {
                        let seconds = expected[0].as_f64().unwrap();
                        assert!((time.as_secs_f64() - seconds).abs() < 1e-6, "{name} {row}");
                        assert_eq!(Some(steps), expected[1].as_u64(), "{name} {row}");
                    }
                }
                let last = row["last_triggered_step"].as_u64();
                assert_eq!(timer.last_triggered_step(), last, "{name} {row}");
            }
        }
    }
}

/// Whether an error says what TensorFlow's does, but for the first letter and the full stop.
fn assert_like(error: &Error, expected: &Json) {
    let ours = error.to_string().to_lowercase();
    let theirs = expected["message"].as_str().unwrap().to_lowercase();
    assert_eq!(ours, theirs.trim_end_matches('.'));
}

#[test]
fn oracle_hooks_refuse_the_arguments_that_tensorflow_refuses() {
    for case in cases("hook_error") {
        let name = case["name"].as_str().unwrap();
        let error = match name {
            "hook_error_stop_at_step_both" => {
                StopAtStepHook::try_new(Some(1), Some(1)).unwrap_err()
            }
            "hook_error_stop_at_step_none" => StopAtStepHook::try_new(None, None).unwrap_err(),
            "hook_error_logging_none" => {
                let hook = LoggingTensorHook::new(["loss"], |_: &str| {});
                let creator = Box::<InitialSession>::default();
                MonitoredSession::new(Graph::new(&line()), creator, vec![Box::new(hook)])
                    .unwrap_err()
            }
            "hook_error_checkpoint_saver_both" => {
                Every::steps_or_secs(Some(1), Some(1.0)).unwrap_err()
            }
            "hook_error_summary_saver_none" => {
                SummarySaverHook::new(Every::Steps(1), "unused", None, None).unwrap_err()
            }
            other => panic!("{other} is new"),
        };
        assert_eq!(error.code(), Code::InvalidArgument, "{name}");
        assert_like(&error, &case["expected_error"]);
    }
}

#[test]
fn oracle_hooks_act_at_the_runs_at_which_tensorflow_s_do() {
    for case in cases("hook_schedule") {
        let name = case["name"].as_str().unwrap();
        let expected = &case["expected"];
        let runs = case["runs"].as_u64().unwrap() as usize;
        match case["hook"].as_str().unwrap() {
            "SummarySaverHook" => {
                let folder = Folder::new(name);
                let mut graph = Graph::new(&line());
                let op = scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
                let every = Every::Steps(case["args"]["save_steps"].as_u64().unwrap());
                let hook = SummarySaverHook::new(every, &folder.0, Some(op), None).unwrap();
                let creator = Box::<InitialSession>::default();
                let mut session =
                    MonitoredSession::new(graph, creator, vec![Box::new(hook)]).unwrap();
                run(&mut session, runs);
                session.close().unwrap();
                let events = events(&folder.0);
                assert_eq!(events[0], (1, "Start".to_owned()), "{name}");
                let steps: Vec<i64> = events[1..].iter().map(|(step, _)| *step).collect();
                assert_eq!(
                    Json::from(steps),
                    expected["summary_written_with_global_step"],
                    "{name}"
                );
            }
            "LoggingTensorHook" => {
                let lines: Arc<Mutex<Vec<String>>> = Arc::default();
                let own = lines.clone();
                let sink = move |line: &str| own.lock().unwrap().push(line.to_owned());
                let mut hook = LoggingTensorHook::new(["global_step"], sink);
                if let Some(n) = case["args"]["every_n_iter"].as_u64() {
                    hook = hook.every_n_iter(n).unwrap();
                }
                if case["args"]["at_end"] == true {
                    hook = hook.at_end();
                }
                let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(hook)];
                let creator = Box::<InitialSession>::default();
                let mut session =
                    MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
                let mut logged = Vec::new();
                for i in 0..runs {
                    let before = lines.lock().unwrap().len();
                    run(&mut session, 1);
                    if lines.lock().unwrap().len() > before {
                        logged.push(i);
                    }
                }
                let before = lines.lock().unwrap().len();
                session.close().unwrap();
                let at_end = lines.lock().unwrap().len() > before;
                assert_eq!(Json::from(logged), expected["runs_that_logged"], "{name}");
                assert_eq!(at_end, expected["logged_at_end"] == true, "{name}");
            }
            "StepCounterHook" => {
                let folder = Folder::new(name);
                let clock = Arc::new(ManualClock::default());
                let storage = trainspec_formats::storage::local();
                let graph = Graph::new_in(
                    &line(),
                    Env {
                        storage,
                        clock: clock.clone(),
                    },
                );
                let every = Every::Steps(case["args"]["every_n_steps"].as_u64().unwrap());
                let hook = StepCounterHook::new(&folder.0).every(every);
                let creator = Box::<InitialSession>::default();
                let mut session =
                    MonitoredSession::new(graph, creator, vec![Box::new(hook)]).unwrap();
                let millis = (case["seconds_per_run"].as_f64().unwrap() * 1000.0) as u64;
                for _ in 0..runs {
                    clock.0.fetch_add(millis, Ordering::Relaxed);
                    run(&mut session, 1);
                }
                session.graph().summary_writers().clear().unwrap();
                let found: Vec<Json> = events(&folder.0)
                    .into_iter()
                    .map(|(step, text)| {
                        let (tag, value) = text.split_once(' ').unwrap();
                        let value: f64 = value.parse().unwrap();
                        serde_json::json!({"global_step": step, "tag": tag, "value": value})
                    })
                    .collect();
                assert_eq!(Json::from(found), expected["summaries"], "{name}");
            }
            "FeedFnHook, FinalOpsHook" => {
                let mut next = -1.0_f32;
                let feed = FeedFnHook::new(move || {
                    next += 1.0;
                    Ok(vec![("fed".to_owned(), Tensor::scalar(next))])
                });
                let last = FinalOpsHook::new([("g", "global_step")]);
                let values = last.values();
                let graph = Graph::new(&spec(
                    "spec fed; model (fed: f32) { param a: f32 = ones(); output given = fed * 1.0; loss a * fed; } \
                     train { optimizer gradient_descent(0.0); }",
                ));
                let creator = Box::<InitialSession>::default();
                let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(feed), Box::new(last)];
                let mut session = MonitoredSession::new(graph, creator, hooks).unwrap();
                let none: [(&str, InputView<'_>); 0] = [];
                let mut fed = Vec::new();
                for _ in 0..runs {
                    let (_, given) = session.run(("train_op", "given"), &none).unwrap();
                    fed.push(given.unwrap().to_f64s()[0]);
                }
                assert!(values.get("g").is_none(), "{name}");
                session.close().unwrap();
                assert_eq!(Json::from(fed), expected["fed_values"], "{name}");
                let last = values.get("g").unwrap().to_i64s();
                assert_eq!(
                    Json::from(last[0]),
                    expected["final_ops_values"]["g"],
                    "{name}"
                );
            }
            other => panic!("{other} is new"),
        }
    }
}

/// Writes the calls of a listener into a trace.
struct Listener(Trace);

impl Listener {
    fn say(&self, text: String) {
        self.0.lock().unwrap().push(format!("listener.{text}"));
    }
}

impl CheckpointSaverListener for Listener {
    fn begin(&mut self) -> Result<(), Error> {
        self.say("begin".to_owned());
        Ok(())
    }

    fn before_save(&mut self, _: &mut Session, step: u64) -> Result<(), Error> {
        self.say(format!("before_save {step}"));
        Ok(())
    }

    fn after_save(&mut self, _: &mut Session, step: u64) -> Result<bool, Error> {
        self.say(format!("after_save {step}"));
        Ok(false)
    }

    fn end(&mut self, _: &mut Session, step: u64) -> Result<(), Error> {
        self.say(format!("end {step}"));
        Ok(())
    }
}

fn case(name: &str) -> Json {
    assert!(OWN_TESTS.iter().any(|(own, _)| *own == name), "{name}");
    let found = cases("hooks").into_iter().find(|case| case["name"] == name);
    found.unwrap_or_else(|| panic!("there is no case {name}"))
}

/// The index files of a folder.
fn indices(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".index")).collect();
    names.sort();
    names
}

#[test]
fn oracle_checkpoints_are_saved_when_tensorflow_saves_them_and_listeners_hear_of_it() {
    let saves = |name: &str, every: u64, folder: &Path| {
        let case = case(name);
        let mut scenario = Scenario::new(5).hook("A");
        let scaffold = Scaffold::new();
        let hook = CheckpointSaverHook::new(folder, Every::Steps(every))
            .scaffold(scaffold.clone())
            .unwrap()
            .listener(Box::new(Listener(scenario.trace.clone())));
        scenario = scenario.with(hook).stepping("B");
        let hooks = std::mem::take(&mut scenario.hooks);
        let creator = ChiefSessionCreator {
            scaffold,
            ..ChiefSessionCreator::default()
        };
        let session = MonitoredSession::new(Graph::new(&line()), Box::new(creator), hooks);
        scenario.run_in(session.unwrap()).unwrap();
        let trace = scenario.trace.lock().unwrap().clone();
        assert_eq!(trace, texts(&case["trace"]), "{name}");
        assert_eq!(indices(folder), texts(&case["files_saved"]), "{name}");
        let state = trainspec_formats::checkpoint::get_checkpoint_state(folder, None);
        let listed = state.unwrap().unwrap().all_model_checkpoint_paths;
        let listed: Vec<String> = listed
            .iter()
            .map(|path| {
                let name = Path::new(path).file_name().unwrap();
                name.to_string_lossy().into_owned()
            })
            .collect();
        assert_eq!(listed, texts(&case["state_paths"]), "{name}");
        let logs = events(folder);
        let path = folder.join("model.ckpt");
        assert!(
            logs.iter()
                .all(|(_, text)| *text == format!("Checkpoint {}", path.display())),
            "{logs:?}"
        );
    };
    let folder = Folder::new("saver-2");
    saves("checkpoint_saver_hook_2", 2, &folder.0);
    let folder = Folder::new("saver-3");
    saves("checkpoint_saver_hook_3", 3, &folder.0);

    // A second session goes on in the folder of the first.
    let case = case("resume_from_checkpoint");
    let mut scenario = Scenario::new(3).stepping("B");
    let session = monitored_training_session(
        Graph::new(&line()),
        TrainingSessionOptions {
            checkpoint_dir: Some(folder.0.clone()),
            save_checkpoint_steps: Setting::Own(2),
            hooks: std::mem::take(&mut scenario.hooks),
            ..TrainingSessionOptions::default()
        },
    );
    scenario.run_in(session.unwrap()).unwrap();
    let trace = scenario.trace.lock().unwrap().clone();
    assert_eq!(trace, texts(&case["trace"]));
    assert_eq!(indices(&folder.0), texts(&case["files_saved"]));
}

#[test]
fn oracle_an_aborted_run_goes_on_from_the_last_checkpoint() {
    let case = case("recovery_from_checkpoint");
    let folder = Folder::new("recovery");
    let aborted = Act::Fail(Error::new(Code::Aborted, "preempted"));
    let mut scenario = Scenario::new(5)
        .acting("A", Call::BeforeRun, 4, aborted)
        .hook("B");
    let mut session = monitored_training_session(
        Graph::new(&line()),
        TrainingSessionOptions {
            checkpoint_dir: Some(folder.0.clone()),
            save_checkpoint_steps: Setting::Own(2),
            hooks: std::mem::take(&mut scenario.hooks),
            ..TrainingSessionOptions::default()
        },
    )
    .unwrap();
    scenario.say("session created");
    for i in 0..5 {
        run(&mut session, 1);
        let step = session.raw_session().unwrap().global_step();
        scenario.say(format!("run {i} -> global_step {step}"));
    }
    scenario.say("leaving with block");
    session.close().unwrap();
    let trace = scenario.trace.lock().unwrap().clone();
    assert_eq!(trace, texts(&case["trace"]));
}

#[test]
fn oracle_a_nan_loss_fails_or_stops() {
    let text = "spec nan; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } \
                train { optimizer gradient_descent(0.0); }";
    for (name, fail) in [
        ("nan_tensor_hook_fail", true),
        ("nan_tensor_hook_stop", false),
    ] {
        let case = case(name);
        let mut scenario = Scenario::new(0)
            .hook("A")
            .with(NanTensorHook::new("loss").fail_on_nan_loss(fail))
            .hook("B");
        let hooks = std::mem::take(&mut scenario.hooks);
        let creator = Box::<InitialSession>::default();
        let mut session = MonitoredSession::new(Graph::new(&spec(text)), creator, hooks).unwrap();
        let mut failed = None;
        for (i, loss) in [2.0_f32, f32::NAN, 3.0, 3.0].into_iter().enumerate() {
            if session.should_stop() {
                break;
            }
            let values = [loss];
            let feeds = [("x", InputView::new(&[1], &values))];
            match session.run("train_op", &feeds) {
                Ok(_) => scenario.say(format!("run {i}")),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let outcome = match session.close_after(failed) {
            Ok(()) => "none".to_owned(),
            Err(error) => format!("NanLossDuringTrainingError: {error}"),
        };
        let trace = scenario.trace.lock().unwrap().clone();
        assert_eq!(trace, texts(&case["trace"]), "{name}");
        assert_eq!(outcome, case["outcome"].as_str().unwrap(), "{name}");
    }
}

/// Feeds a fixed number of batches, then the input ends.
struct Input(usize);

impl SessionRunHook for Input {
    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        if self.0 == 0 {
            return Err(Error::new(Code::OutOfRange, "end of sequence"));
        }
        self.0 -= 1;
        let one = || Tensor::new(&[1], vec![1.0_f32]);
        Ok(Some(SessionRunArgs {
            feeds: vec![("x".into(), one()), ("y".into(), one())],
            ..SessionRunArgs::default()
        }))
    }
}

#[test]
fn oracle_the_end_of_the_input_ends_the_session_cleanly() {
    let case = case("hooks_out_of_range");
    let mut scenario = Scenario::new(0).hook("A").hook("B").with(Input(3));
    let hooks = std::mem::take(&mut scenario.hooks);
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    scenario.say("session created");
    let none: [(&str, InputView<'_>); 0] = [];
    let mut failed = None;
    for i in 0..5 {
        match session.run("train_op", &none) {
            Ok(_) => scenario.say(format!("run {i}")),
            Err(error) => {
                scenario.say(format!("run {i} raised {}", class(&error)));
                failed = Some(error);
                break;
            }
        }
    }
    session.close_after(failed).unwrap();
    let trace = scenario.trace.lock().unwrap().clone();
    assert_eq!(trace, texts(&case["trace"]));
}

#[test]
fn oracle_a_second_close_calls_end_again_and_is_an_error() {
    let case = case("hooks_run_after_close");
    let mut scenario = Scenario::new(0).hook("A");
    let hooks = std::mem::take(&mut scenario.hooks);
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    scenario.say("session created");
    run(&mut session, 1);
    scenario.say("run 0");
    session.close().unwrap();
    scenario.say("closed");
    let values = [1.0_f32];
    let view = InputView::new(&[1], &values);
    let after = session.run("train_op", &[("x", view), ("y", view)]);
    assert_eq!(after.unwrap_err().code(), Code::FailedPrecondition);
    // TensorFlow's text is one of Python's.
    let expected = texts(&case["trace"]);
    scenario.say(expected[8].clone());
    scenario.say("leaving with block");
    let error = session.close().unwrap_err();
    let trace = scenario.trace.lock().unwrap().clone();
    assert_eq!(trace, expected);
    let outcome = format!("RuntimeError: {error}");
    assert_eq!(outcome, case["outcome"].as_str().unwrap());
}

#[test]
fn a_listener_stops_the_run_by_its_answer() {
    struct StopAtTwo;
    impl CheckpointSaverListener for StopAtTwo {
        fn after_save(&mut self, _: &mut Session, step: u64) -> Result<bool, Error> {
            Ok(step == 2)
        }
    }
    let folder = Folder::new("listener-stops");
    let scaffold = Scaffold::new();
    let hook = CheckpointSaverHook::new(&folder.0, Every::Steps(1))
        .scaffold(scaffold.clone())
        .unwrap()
        .listener(Box::new(StopAtTwo));
    let creator = ChiefSessionCreator {
        scaffold,
        ..ChiefSessionCreator::default()
    };
    let mut session =
        MonitoredSession::new(Graph::new(&line()), Box::new(creator), vec![Box::new(hook)])
            .unwrap();
    let mut runs = 0;
    while !session.should_stop() {
        run(&mut session, 1);
        runs += 1;
    }
    assert_eq!(runs, 2);
}

#[test]
fn a_checkpoint_hook_without_one_saver_is_refused() {
    let folder = Folder::new("no-saver");
    let hook = || Box::new(CheckpointSaverHook::new(&folder.0, Every::Steps(1)));
    let creator = Box::<InitialSession>::default();
    let error = MonitoredSession::new(Graph::new(&line()), creator, vec![hook()]).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let scaffold = || Scaffold::new();
    let both = CheckpointSaverHook::new(&folder.0, Every::Steps(1))
        .scaffold(scaffold())
        .unwrap()
        .saver(trainspec::train::Saver::new(Default::default()).unwrap());
    assert_eq!(both.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn logged_values_have_the_text_of_tensorflow() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = lines.clone();
    let sink = move |line: &str| own.lock().unwrap().push(line.to_owned());
    let clock = Arc::new(ManualClock::default());
    let storage = trainspec_formats::storage::local();
    let graph = Graph::new_in(
        &line(),
        Env {
            storage,
            clock: clock.clone(),
        },
    );
    // Tags are sorted; the first line has no time.
    let hook = LoggingTensorHook::tagged([("step", "global_step"), ("loss", "loss")], sink);
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(hook.every_n_iter(2).unwrap())];
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(graph, creator, hooks).unwrap();
    for _ in 0..3 {
        run(&mut session, 1);
        clock.0.fetch_add(250, Ordering::Relaxed);
    }
    let lines = lines.lock().unwrap();
    assert_eq!(lines[0], "loss = 2.5, step = 1");
    assert!(lines[1].ends_with("step = 3 (0.500 sec)"), "{lines:?}");
    assert_eq!(lines.len(), 2);
    assert!(
        LoggingTensorHook::new(["loss"], |_: &str| {})
            .every_n_iter(0)
            .is_err()
    );
}

#[test]
fn hooks_see_the_options_that_all_asked_for_and_the_metadata_of_the_run() {
    struct Asking(Arc<Mutex<Vec<bool>>>);
    impl SessionRunHook for Asking {
        fn before_run(
            &mut self,
            _: &mut SessionRunContext<'_>,
        ) -> Result<Option<SessionRunArgs>, Error> {
            Ok(Some(SessionRunArgs {
                options: RunOptions {
                    output_program: true,
                    ..RunOptions::default()
                },
                ..SessionRunArgs::default()
            }))
        }

        fn after_run(
            &mut self,
            _: &mut SessionRunContext<'_>,
            values: &SessionRunValues,
        ) -> Result<(), Error> {
            let metadata = values.run_metadata.as_ref().unwrap();
            assert!(values.options.output_program);
            let seen = metadata.program.is_some();
            self.0.lock().unwrap().push(seen);
            Ok(())
        }
    }
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(Asking(seen.clone()))];
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    run(&mut session, 2);
    assert_eq!(*seen.lock().unwrap(), [true, true]);
}

#[test]
fn values_are_those_of_the_run_whatever_hooks_run_afterwards() {
    /// Runs the session again, on other values.
    struct Meddling;
    impl SessionRunHook for Meddling {
        fn after_run(
            &mut self,
            context: &mut SessionRunContext<'_>,
            _: &SessionRunValues,
        ) -> Result<(), Error> {
            let zeros = [0.0_f32];
            let view = InputView::new(&[1], &zeros);
            context
                .session
                .run(["loss"], &[("x", view), ("y", view)])
                .map(drop)
        }
    }
    /// Keeps the loss that it asked for.
    struct Keeping(Arc<Mutex<f64>>);
    impl SessionRunHook for Keeping {
        fn before_run(
            &mut self,
            context: &mut SessionRunContext<'_>,
        ) -> Result<Option<SessionRunArgs>, Error> {
            let loss = Target::named(context.session, "loss")?;
            Ok(Some(SessionRunArgs::fetch([loss])))
        }

        fn after_run(
            &mut self,
            _: &mut SessionRunContext<'_>,
            values: &SessionRunValues,
        ) -> Result<(), Error> {
            *self.0.lock().unwrap() = values.get(0).unwrap().to_f64s()[0];
            Ok(())
        }
    }
    let kept: Arc<Mutex<f64>> = Arc::default();
    let hooks: Vec<Box<dyn SessionRunHook>> =
        vec![Box::new(Meddling), Box::new(Keeping(kept.clone()))];
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    let (x, y) = ([1.0_f32], [2.0_f32]);
    let feeds = [
        ("x", InputView::new(&[1], &x)),
        ("y", InputView::new(&[1], &y)),
    ];
    let (_, loss) = session.run(("train_op", "loss"), &feeds).unwrap();
    assert_eq!(loss.unwrap().to_f64s(), [4.0]);
    assert_eq!(*kept.lock().unwrap(), 4.0);
}

#[test]
fn what_hooks_declare_is_compiled_with_the_first_step_and_nothing_later() {
    /// Fetches a gradient in every third run.
    struct Gradient {
        declares: bool,
        runs: u64,
    }
    impl SessionRunHook for Gradient {
        fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
            let target = graph.target("gradient/loss/a")?;
            match self.declares {
                true => graph.declare([&target]),
                false => Ok(()),
            }
        }

        fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
            self.runs = 0;
            Ok(())
        }

        fn before_run(
            &mut self,
            context: &mut SessionRunContext<'_>,
        ) -> Result<Option<SessionRunArgs>, Error> {
            self.runs += 1;
            let target = Target::named(context.session, "gradient/loss/a")?;
            Ok(self
                .runs
                .is_multiple_of(3)
                .then(|| SessionRunArgs::fetch([target])))
        }
    }
    for declares in [true, false] {
        let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(Gradient { declares, runs: 0 })];
        let creator = Box::<InitialSession>::default();
        let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
        run(&mut session, 1);
        let first = session.raw_session().unwrap().specialised();
        run(&mut session, 6);
        let later = session.raw_session().unwrap().specialised();
        let fetches = |all: &[trainspec::session::Specialisation]| {
            let all = all.iter().map(|one| one.fetches.len());
            all.collect::<Vec<_>>()
        };
        match declares {
            true => assert_eq!((fetches(&first), fetches(&later)), (vec![1, 0], vec![])),
            false => assert_eq!((fetches(&first), fetches(&later)), (vec![0], vec![1])),
        }
    }
}

/// Every 2 steps TensorFlow's hook traces the runs that end with steps 2 and 4; the first run is never traced.
#[test]
fn a_profiler_traces_at_the_steps_of_tensorflow_s() {
    for (every, steps) in [(1, vec![2, 3, 4, 5]), (2, vec![2, 4]), (3, vec![3])] {
        let folder = Folder::new(&format!("profiler-{every}"));
        let hook = ProfilerHook::new(Every::Steps(every), &folder.0);
        let creator = Box::<InitialSession>::default();
        let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(hook)];
        let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
        run(&mut session, 5);
        session.close().unwrap();
        session.graph().summary_writers().clear().unwrap();
        for step in 1..=5 {
            let path = folder.0.join(format!("timeline-{step}.json"));
            assert_eq!(
                path.exists(),
                steps.contains(&step),
                "every {every}: {step}"
            );
        }
        let text = std::fs::read_to_string(folder.0.join(format!("timeline-{}.json", steps[0])));
        let trace: Json = serde_json::from_str(&text.unwrap()).unwrap();
        let all = trace["traceEvents"].as_array().unwrap();
        let kernels = all.iter().filter(|event| event["ph"] == "X");
        assert!(kernels.count() > 0);
    }
}

#[test]
fn a_waiter_reads_the_step_every_half_second_until_it_is_reached() {
    let clock = Arc::new(ManualClock::default());
    let graph = Graph::new_in(
        &line(),
        Env {
            clock: clock.clone(),
            ..Env::default()
        },
    );
    let mut step = 0;
    let waiter = GlobalStepWaiterHook::new(10).reading(move || {
        step += 3;
        Ok(step)
    });
    // 0 and less wait for nothing.
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![
        Box::new(waiter),
        Box::new(GlobalStepWaiterHook::new(0)),
        Box::new(GlobalStepWaiterHook::new(-1)),
    ];
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(graph, creator, hooks).unwrap();
    assert_eq!(clock.now(), Duration::ZERO);
    run(&mut session, 1);
    // It read 3, 6, 9 and 12.
    assert_eq!(clock.now(), Duration::from_millis(1500));
    run(&mut session, 1);
    assert_eq!(clock.now(), Duration::from_millis(1500));
    // The coordinator of the session and a stop token end the wait.
    for by_token in [false, true] {
        let stop = StopToken::default();
        let waiter = GlobalStepWaiterHook::new(10).with_stop(stop.clone());
        let creator = Box::<InitialSession>::default();
        let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(waiter)];
        let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
        match by_token {
            true => stop.request_stop(),
            false => session.coordinator().request_stop(None).unwrap(),
        }
        let values = [1.0_f32];
        let view = InputView::new(&[1], &values);
        let error = session.run("train_op", &[("x", view), ("y", view)]);
        assert!(error.unwrap_err().is_end_of_input());
    }
}
