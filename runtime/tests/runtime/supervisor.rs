//! Scaffolds, session managers, supervisors and global steps: what TensorFlow's do, over a compiled spec.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainspec::InputView;
use trainspec::env::Env;
use trainspec::graph::SharedSaver;
use trainspec::monitored::{
    ChiefSessionCreator, InitOp, MonitoredSession, ReadyOp, Scaffold, SessionCreator, Setting,
    TrainingSessionOptions, WorkerSessionCreator, monitored_training_session,
};
use trainspec::saver::SharedClock;
use trainspec::saver::{Saver, SaverOptions, VarList};
use trainspec::session::{Options, Session};
use trainspec::summary::{
    SummaryOp, audio_summary, histogram_summary, image_summary, merge_all_summaries, scalar_summary,
};
use trainspec::supervisor::{
    CheckpointSource, Prepare, SessionManager, SessionManagerOptions, SharedSession, Supervisor,
    SupervisorOptions, basic_train_loop,
};
use trainspec::train::{
    assert_global_step, create_global_step, get_global_step, get_or_create_global_step, global_step,
};
use trainspec::{Code, Error, Graph, Tensor};
use trainspec_formats::proto::summary::value::Value;

use crate::hooks::{Folder, ManualClock, events};
use crate::monitored::line;
use crate::support::spec;

/// What was called, in order.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<&'static str>>>);

impl Calls {
    fn init(&self, name: &'static str) -> InitOp {
        let own = self.clone();
        InitOp::new(move |session| {
            own.0.lock().unwrap().push(name);
            match name {
                "init_op" => session.initialize(),
                _ => Ok(()),
            }
        })
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn saver() -> SharedSaver {
    let options = SaverOptions {
        create_folder: true,
        ..SaverOptions::default()
    };
    Arc::new(Mutex::new(Saver::new(options).unwrap()))
}

/// Saves a state of `line` whose `a` is a number and whose step is another.
fn save(folder: &Path, a: f32, step: i64) {
    let mut session = Session::new(&line(), &Options::default()).unwrap();
    let state = session.state_mut();
    for (name, value) in [
        ("a", Tensor::scalar(a)),
        ("global_step", Tensor::scalar(step)),
    ] {
        let index = state.index_of(name).unwrap();
        state.set(index, value);
    }
    let path = folder.join("model.ckpt");
    let saver = saver();
    let mut saver = saver.lock().unwrap();
    saver
        .save(session.state(), session.records(), &path, Some(step as u64))
        .unwrap();
}

fn manager(calls: &Calls, with_local: bool) -> SessionManager {
    SessionManager::new(SessionManagerOptions {
        local_init_op: with_local.then(|| calls.init("local_init_op")),
        ready_op: Some(ReadyOp::report_uninitialized()),
        ready_for_local_init_op: with_local.then(ReadyOp::report_uninitialized),
        recovery_wait: Duration::from_secs(30),
        ..SessionManagerOptions::default()
    })
    .unwrap()
}

fn a_of(session: &Session) -> f64 {
    session.state().get("a").unwrap().to_f64s()[0]
}

/// A graph with a clock of its own.
fn graph_at(clock: SharedClock) -> Graph {
    let env = Env {
        clock,
        ..Env::default()
    };
    Graph::new_in(&line(), env)
}

#[test]
fn a_restore_replaces_initialization_and_local_initialization_follows_both() {
    let folder = Folder::new("manager-restore");
    let calls = Calls::default();
    let manager = manager(&calls, true);
    let graph = Graph::new(&line());
    let own = calls.clone();
    let prepare = Prepare {
        init_op: Some(calls.init("init_op")),
        init_fn: Some(Arc::new(move |_| {
            own.0.lock().unwrap().push("init_fn");
            Ok(())
        })),
        saver: Some(saver()),
        checkpoint: Some(CheckpointSource::Folder(folder.0.clone())),
        ..Prepare::default()
    };
    let options = Options::default();
    let session = manager.prepare_session(&graph, &options, &prepare).unwrap();
    assert_eq!(a_of(&session), 0.0);
    assert_eq!(calls.take(), ["init_op", "init_fn", "local_init_op"]);

    save(&folder.0, 4.0, 7);
    let session = manager.prepare_session(&graph, &options, &prepare).unwrap();
    assert_eq!((a_of(&session), session.global_step()), (4.0, 7));
    assert_eq!(calls.take(), ["local_init_op"]);
    // The saver goes on with the list of the folder.
    let saver = prepare.saver.as_ref().unwrap().lock().unwrap();
    assert_eq!(saver.last_checkpoints(), [folder.0.join("model.ckpt-7")]);
    drop(saver);

    save(&folder.0, 5.0, 8);
    let one = Prepare {
        checkpoint: Some(CheckpointSource::File(folder.0.join("model.ckpt-7"))),
        ..prepare
    };
    let session = manager.prepare_session(&graph, &options, &one).unwrap();
    assert_eq!(a_of(&session), 4.0);
}

#[test]
fn a_session_without_values_is_refused_with_their_names() {
    let calls = Calls::default();
    let graph = Graph::new(&line());
    let options = Options::default();
    let nothing = manager(&calls, false).prepare_session(&graph, &options, &Prepare::default());
    let error = nothing.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(
        error
            .to_string()
            .contains("`init_op`, `init_fn` or `local_init_op`")
    );

    // An initializer that assigns nothing leaves the session not ready.
    let idle = Prepare {
        init_op: Some(InitOp::no_op()),
        ..Prepare::default()
    };
    let error = manager(&calls, false)
        .prepare_session(&graph, &options, &idle)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("variables not initialized: a, global_step"),
        "{error}"
    );

    // Without `ready_op` it is not asked, and the first run is the error.
    let unasked = SessionManager::new(SessionManagerOptions::default()).unwrap();
    let mut session = unasked.prepare_session(&graph, &options, &idle).unwrap();
    let values = [1.0_f32];
    let view = InputView::new(&[1], &values);
    let error = session
        .run("train_op", &[("x", view), ("y", view)])
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.to_string().contains("`a`, `global_step`"), "{error}");
}

#[test]
fn a_recovery_says_whether_the_session_is_ready_and_tries_local_initialization() {
    let folder = Folder::new("manager-recover");
    let calls = Calls::default();
    let graph = Graph::new(&line());
    let options = Options::default();
    let manager = SessionManager::new(SessionManagerOptions {
        local_init_op: Some(calls.init("local_init_op")),
        ready_op: Some(ReadyOp::report_uninitialized()),
        ..SessionManagerOptions::default()
    })
    .unwrap();
    let recover = |saver: SharedSaver| {
        let prepare = Prepare {
            saver: Some(saver),
            checkpoint: Some(CheckpointSource::Folder(folder.0.clone())),
            ..Prepare::default()
        };
        let recovered = manager.recover_session(&graph, &options, &prepare);
        recovered.unwrap().1
    };
    assert!(!recover(saver()), "there is no checkpoint");
    assert_eq!(calls.take(), ["local_init_op"]);
    save(&folder.0, 4.0, 7);
    assert!(recover(saver()));
    // A saver of some variables leaves the others without values.
    let some = SaverOptions {
        var_list: VarList::Names(vec!["a".into()]),
        ..SaverOptions::default()
    };
    let some = Arc::new(Mutex::new(Saver::new(some).unwrap()));
    assert!(!recover(some), "the step has no value");
}

#[test]
fn waits_end_before_they_would_sleep_past_their_time() {
    let clock = Arc::new(ManualClock::default());
    let graph = graph_at(clock.clone());
    let options = Options::default();
    let calls = Calls::default();
    let error = manager(&calls, false)
        .wait_for_session(&graph, &options, Some(Duration::from_secs(100)))
        .unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert_eq!(
        clock.0.load(Ordering::Relaxed),
        90_000,
        "three waits of 30 s"
    );

    // A session that another makes ready at the third try.
    let tries = Arc::new(Mutex::new(0));
    let own = tries.clone();
    let manager = SessionManager::new(SessionManagerOptions {
        ready_op: Some(ReadyOp::report_uninitialized()),
        factory: Some(Arc::new(move |graph, options| {
            let mut tries = own.lock().unwrap();
            *tries += 1;
            match *tries {
                3 => Session::new(graph.spec(), options),
                _ => Session::uninitialized(graph.spec(), options),
            }
        })),
        ..SessionManagerOptions::default()
    })
    .unwrap();
    let before = clock.0.load(Ordering::Relaxed);
    assert!(manager.wait_for_session(&graph, &options, None).is_ok());
    assert_eq!(clock.0.load(Ordering::Relaxed) - before, 60_000);

    // A folder that stays empty: the session is initialized when the time is over.
    let folder = Folder::new("manager-wait");
    let prepare = Prepare {
        init_op: Some(InitOp::initializer()),
        saver: Some(saver()),
        checkpoint: Some(CheckpointSource::Folder(folder.0.clone())),
        wait_for_checkpoint: true,
        max_wait: Duration::from_secs(60),
        ..Prepare::default()
    };
    let before = clock.0.load(Ordering::Relaxed);
    let manager = SessionManager::new(SessionManagerOptions::default()).unwrap();
    assert!(manager.prepare_session(&graph, &options, &prepare).is_ok());
    assert_eq!(clock.0.load(Ordering::Relaxed) - before, 60_000);

    let alone = SessionManagerOptions {
        ready_for_local_init_op: Some(ReadyOp::report_uninitialized()),
        ..SessionManagerOptions::default()
    };
    let error = SessionManager::new(alone).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn a_scaffold_collects_what_it_makes_and_takes_the_one_that_is_collected() {
    let mut graph = Graph::new(&line());
    let collected = InitOp::initializer();
    let all = graph.collections_mut().unwrap();
    all.init_op.push(collected.clone());
    scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let scaffold = Scaffold::new().with_local_init_op(InitOp::no_op());
    scaffold.finalize(&mut graph).unwrap();
    assert!(scaffold.init_op().unwrap().is(&collected));
    let all = graph.collections();
    assert!(all.local_init_op.is_empty(), "it was given");
    assert_eq!((all.savers.len(), all.ready_op.len()), (1, 1));
    assert_eq!(all.ready_for_local_init_op.len(), 1);
    assert_eq!(all.summary_op.len(), 1);
    assert!(graph.is_finalized());
    // Again, it changes nothing.
    scaffold.finalize(&mut graph).unwrap();
    assert_eq!(graph.collections().savers.len(), 1);

    let copy = scaffold.copy_from_scaffold().with_init_op(InitOp::no_op());
    assert!(copy.saver().is_some());
    assert!(scaffold.init_op().unwrap().is(&collected));

    let mut graph = Graph::new(&line());
    for _ in 0..2 {
        let all = graph.collections_mut().unwrap();
        all.savers.push(saver());
    }
    let error = Scaffold::new().finalize(&mut graph).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.to_string().contains("2 items"), "{error}");

    let mut empty = Graph::new(&line());
    let scaffold = Scaffold::new();
    scaffold.finalize(&mut empty).unwrap();
    assert!(scaffold.summary_op().is_none());
}

#[test]
fn the_init_fn_of_a_scaffold_gets_the_scaffold_and_the_session() {
    let scaffold = Scaffold::new().with_init_fn(|scaffold, session| {
        assert!(scaffold.saver().is_some());
        let index = session.state().index_of("a").unwrap();
        session.state_mut().set(index, Tensor::scalar(9.0_f32));
        Ok(())
    });
    let mut creator = ChiefSessionCreator {
        scaffold,
        ..ChiefSessionCreator::default()
    };
    let mut graph = Graph::new(&line());
    assert_eq!(a_of(&creator.create_session(&mut graph).unwrap()), 9.0);

    // A worker's session is ready only where another initializes it.
    let clock = Arc::new(ManualClock::default());
    let mut graph = graph_at(clock.clone());
    let worker = WorkerSessionCreator::default().create_session(&mut graph);
    assert_eq!(worker.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(clock.0.load(Ordering::Relaxed), 1_800_000, "half an hour");
}

/// Runs `line` N times.
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
fn a_monitored_training_session_has_the_defaults_of_tensorflow() {
    let folder = Folder::new("mts-defaults");
    let mut graph = Graph::new(&line());
    scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let mut session = monitored_training_session(
        graph,
        TrainingSessionOptions {
            checkpoint_dir: Some(folder.0.clone()),
            ..TrainingSessionOptions::default()
        },
    )
    .unwrap();
    run(&mut session, 205);
    session.close().unwrap();
    let path = folder.0.join("model.ckpt");
    let checkpoint = |step: i64| (step, format!("Checkpoint {}", path.display()));
    let found = events(&folder.0);
    let steps_of = |what: &str| {
        let found = found.iter().filter(|(_, text)| text.starts_with(what));
        found.map(|(step, _)| *step).collect::<Vec<_>>()
    };
    assert_eq!(steps_of("loss"), [1, 101, 201], "every 100 steps");
    assert_eq!(steps_of("global_step/sec"), [101, 201]);
    assert_eq!(steps_of("Start"), [1]);
    // At the start and at the end; in between only every 600 s.
    assert!(found.contains(&checkpoint(0)) && found.contains(&checkpoint(205)));
    assert_eq!(steps_of("Checkpoint").len(), 2);

    // Nothing where all is switched off.
    let other = Folder::new("mts-off");
    let mut session = monitored_training_session(
        Graph::new(&line()),
        TrainingSessionOptions {
            checkpoint_dir: Some(other.0.clone()),
            save_checkpoint_secs: Setting::None,
            save_summaries_steps: Setting::Own(0),
            log_step_count_steps: 0,
            ..TrainingSessionOptions::default()
        },
    )
    .unwrap();
    run(&mut session, 3);
    session.close().unwrap();
    assert_eq!(std::fs::read_dir(&other.0).unwrap().count(), 0);
}

#[test]
fn a_supervisor_saves_summarizes_and_counts_on_threads() {
    let folder = Folder::new("supervisor");
    let mut graph = Graph::new(&line());
    scalar_summary(&mut graph, &["weight"], "a", None).unwrap();
    let options = || SupervisorOptions {
        logdir: Some(folder.0.clone()),
        save_summaries_secs: 0.01,
        save_model_secs: 0.01,
        ..SupervisorOptions::default()
    };
    let mut supervisor = Supervisor::new(graph.clone(), options()).unwrap();
    let values = [1.0_f32, 2.0];
    let view = InputView::new(&[2], &values);
    let train = |session: &SharedSession| {
        session
            .run("train_op", &[("x", view), ("y", view)])
            .map(drop)
    };
    supervisor
        .managed_session(|supervisor, session| {
            while !supervisor.should_stop() && session.lock().global_step() < 5 {
                train(session)?;
            }
            // Until all services have acted after a step, on however slow a machine.
            while !has_events(supervisor, &folder.0, &SERVICES) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        })
        .unwrap();
    let found = events(&folder.0);
    assert_eq!(found[0], (0, "Start".to_owned()));
    assert_eq!(
        found.last().unwrap(),
        &(0, "Stop".to_owned()),
        "without a step"
    );
    for what in SERVICES {
        assert!(
            found.iter().any(|(_, text)| text.starts_with(what)),
            "{what}: {found:?}"
        );
    }
    // A second use goes on from the newest checkpoint, with a writer that is open again.
    let mut seen = 0;
    supervisor
        .managed_session(|_, session| {
            seen = session.lock().global_step();
            Ok(())
        })
        .unwrap();
    assert!(seen > 0, "it was restored");
    let found = events(&folder.0);
    assert!(
        found.contains(&(seen as i64, "Start".to_owned())),
        "{found:?}"
    );
}

/// What the services of a supervisor write: summaries, steps per second, and where a checkpoint is.
const SERVICES: [&str; 3] = ["weight", "global_step/sec", "Checkpoint"];

/// Whether each of some texts begins an entry of the event file that is from after the first step, after a flush.
fn has_events(supervisor: &Supervisor, folder: &Path, texts: &[&str]) -> bool {
    supervisor.summary_writer().unwrap().flush().unwrap();
    let found = events(folder);
    let mut texts = texts.iter();
    texts.all(|text| {
        let mut later = found.iter().filter(|(step, _)| *step > 0);
        later.any(|(_, entry)| entry.starts_with(text))
    })
}

#[test]
fn a_supervisor_switches_services_off() {
    let folder = Folder::new("supervisor-off");
    let quiet = SupervisorOptions {
        logdir: Some(folder.0.clone()),
        save_summaries_secs: 0.0,
        save_model_secs: 0.0,
        ..SupervisorOptions::default()
    };
    let mut supervisor = Supervisor::new(Graph::new(&line()), quiet).unwrap();
    let session = supervisor
        .prepare_or_wait_for_session(false, false, Duration::ZERO)
        .unwrap();
    assert!(
        supervisor
            .start_standard_services(&session)
            .unwrap()
            .is_empty()
    );
    supervisor.stop(Vec::new()).unwrap();

    // Without a folder nothing starts, and a summary has nowhere to go.
    let mut supervisor =
        Supervisor::new(Graph::new(&line()), SupervisorOptions::default()).unwrap();
    let session = supervisor
        .prepare_or_wait_for_session(true, false, Duration::ZERO)
        .unwrap();
    assert!(
        supervisor
            .start_standard_services(&session)
            .unwrap()
            .is_empty()
    );
    let summary = trainspec_formats::events::summary::scalar("x", 1.0);
    let error = supervisor
        .summary_computed(&session, summary, None)
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);

    // One that is not the chief has no writer, path or services, and waits for its session.
    let clock = Arc::new(ManualClock::default());
    let graph = graph_at(clock.clone());
    let worker = SupervisorOptions {
        is_chief: false,
        logdir: Some(folder.0.clone()),
        ..SupervisorOptions::default()
    };
    let mut worker = Supervisor::new(graph, worker).unwrap();
    assert!(worker.logdir().is_none() && worker.save_path().is_none());
    assert!(worker.summary_writer().is_none() && worker.save_model_interval().is_none());
    let waited = worker.prepare_or_wait_for_session(true, false, Duration::from_secs(60));
    assert_eq!(waited.unwrap_err().code(), Code::DeadlineExceeded);
    let error = worker.start_standard_services(&session).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);

    // Pieces that are switched off are not asked.
    let none = SupervisorOptions {
        init_op: Setting::None,
        local_init_op: Setting::None,
        saver: Setting::None,
        summary_op: Setting::None,
        global_step: Setting::None,
        ..SupervisorOptions::default()
    };
    let mut none = Supervisor::new(Graph::new(&line()), none).unwrap();
    assert!(none.saver().is_none() && none.global_step().is_none() && none.summary_op().is_none());
    let error = none.managed_session(|_, _| Ok(())).unwrap_err();
    assert!(error.to_string().contains("`init_op`"), "{error}");
}

#[test]
fn a_supervisor_gives_errors_back_but_not_the_end_of_the_input() {
    let options = SupervisorOptions::default;
    let mut supervisor = Supervisor::new(Graph::new(&line()), options()).unwrap();
    let boom = |code| move |_: &Supervisor, _: &SharedSession| Err(Error::new(code, "boom"));
    let error = supervisor
        .managed_session(boom(Code::DataLoss))
        .unwrap_err();
    assert_eq!(error.code(), Code::DataLoss);
    supervisor.managed_session(boom(Code::OutOfRange)).unwrap();
    // A service that fails stops the loop.
    let failed = supervisor.managed_session(|supervisor, _| {
        let own = supervisor.coordinator().clone();
        std::thread::scope(|scope| {
            scope.spawn(|| own.stop_on_error(|| Err(Error::new(Code::Internal, "service"))));
        });
        supervisor.wait_for_stop();
        Ok(())
    });
    assert_eq!(failed.unwrap_err().to_string(), "service");
}

#[test]
fn a_train_loop_starts_over_where_it_was_preempted() {
    let folder = Folder::new("train-loop");
    let mut supervisor = Supervisor::new(
        Graph::new(&line()),
        SupervisorOptions {
            logdir: Some(folder.0.clone()),
            save_model_secs: 0.0,
            save_summaries_secs: 0.0,
            ..SupervisorOptions::default()
        },
    )
    .unwrap();
    let coordinator = supervisor.coordinator().clone();
    let values = [1.0_f32, 2.0];
    let view = InputView::new(&[2], &values);
    let mut calls = Vec::new();
    let mut aborts = 2;
    basic_train_loop(&mut supervisor, |session| {
        calls.push(session.lock().global_step());
        session.run("train_op", &[("x", view), ("y", view)])?;
        if calls.len() % 2 == 0 && aborts > 0 {
            aborts -= 1;
            return Err(Error::new(Code::Aborted, "preempted"));
        }
        if calls.len() == 7 {
            coordinator.request_stop(None)?;
        }
        Ok(())
    })
    .unwrap();
    // Nothing was saved, so each session starts from the beginning.
    assert_eq!(calls, [0, 1, 0, 1, 0, 1, 2]);
}

#[test]
fn the_global_step_is_found_by_collection_then_by_name() {
    let mut graph = Graph::new(&line());
    assert_eq!(
        get_global_step(&graph).unwrap().as_deref(),
        Some("global_step")
    );
    assert_eq!(
        create_global_step(&mut graph).unwrap_err().code(),
        Code::AlreadyExists
    );
    assert_eq!(
        get_or_create_global_step(&mut graph).unwrap(),
        "global_step"
    );
    assert_global_step(&graph, "global_step:0").unwrap();
    let error = assert_global_step(&graph, "a").unwrap_err();
    assert!(error.to_string().contains("no integer"), "{error}");
    graph
        .collections_mut()
        .unwrap()
        .global_step
        .push("a".into());
    assert_eq!(
        get_global_step(&graph).unwrap_err().code(),
        Code::InvalidArgument
    );
    let session = Session::new(&line(), &Options::default()).unwrap();
    assert_eq!(global_step(&session, "global_step:0").unwrap(), 0);
    assert_eq!(
        global_step(&session, "nothing").unwrap_err().code(),
        Code::NotFound
    );
}

#[test]
fn summaries_are_evaluated_merged_and_collected() {
    let mut graph = Graph::new(&line());
    let loss = scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let other = scalar_summary(&mut graph, &["loss"], "a", Some(&["other"])).unwrap();
    assert_eq!(graph.collections().summaries["other"].len(), 1);
    let both = trainspec::summary::merge_summary(&mut graph, &[loss.clone(), other], None).unwrap();
    let values = [Tensor::scalar(2.0_f32), Tensor::scalar(3.0_f32)];
    // Two parts with one tag are an error when they are evaluated.
    let error = both.evaluate(&values).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(loss.evaluate(&values[..1]).unwrap().value[0].tag, "loss");
    // Several tags are for a vector with as many elements.
    let two = scalar_summary(&mut graph, &["p", "q"], "a", Some(&[])).unwrap();
    let vector = Tensor::new(&[2], vec![1.0_f32, 5.0]);
    let summary = two.evaluate(std::slice::from_ref(&vector)).unwrap();
    let tags: Vec<&str> = summary.value.iter().map(|v| v.tag.as_str()).collect();
    assert_eq!(tags, ["p", "q"]);
    let three = Tensor::new(&[3], vec![0.0_f32; 3]);
    assert!(two.evaluate(&[three]).is_err());
    assert!(scalar_summary(&mut graph, &["x"], "train_op", None).is_err());
    assert!(scalar_summary(&mut graph, &["x"], "los", None).is_err());
    let function = SummaryOp::function(&graph, &["loss", "a"], |values| {
        let sum: f64 = values.iter().map(|value| value.to_f64s()[0]).sum();
        Ok(trainspec_formats::events::summary::scalar(
            "sum", sum as f32,
        ))
    })
    .unwrap();
    let summary = function.evaluate(&values).unwrap();
    assert!(format!("{:?}", summary.value[0]).contains("5.0"));
}

#[test]
fn every_kind_of_summary_is_merged_from_its_collection() {
    let text = "spec kinds;
model (x: f32[batch]) {
    param weights: f32[3] = ones();
    param picture: f32[2, 2, 2, 1] = ones();
    param sound: f32[1, 4] = ones();
    loss mean(x) * (sum(weights) + sum(picture) + sum(sound));
}
train { optimizer gradient_descent(0.1); }
";
    let mut graph = Graph::new(&spec(text));
    histogram_summary(&mut graph, "h", "weights", None).unwrap();
    image_summary(&mut graph, "i", "picture", 3, None).unwrap();
    audio_summary(&mut graph, "s", "sound", 8_000, 1, None).unwrap();
    let all = merge_all_summaries(&graph, trainspec::graph::SUMMARIES).unwrap();
    let values = [
        Tensor::new(&[3], vec![1.0_f32, 2.0, 4.0]),
        Tensor::new(&[2, 2, 2, 1], vec![0.5_f32; 8]),
        Tensor::new(&[1, 4], vec![0.0_f32, 1.0, 0.0, -1.0]),
    ];
    let summary = all.evaluate(&values).unwrap();
    let tags: Vec<&str> = summary.value.iter().map(|v| v.tag.as_str()).collect();
    assert_eq!(tags, ["h", "i/image/0", "i/image/1", "s/audio"]);
    let Some(Value::Histo(histogram)) = &summary.value[0].value else {
        panic!("{summary:?}");
    };
    let numbers = (histogram.min, histogram.max, histogram.num, histogram.sum);
    assert_eq!(numbers, (1.0, 4.0, 3.0, 7.0));
    let Some(Value::Image(image)) = &summary.value[1].value else {
        panic!("{summary:?}");
    };
    assert_eq!((image.height, image.width, image.colorspace), (2, 2, 1));
    let Some(Value::Audio(audio)) = &summary.value[3].value else {
        panic!("{summary:?}");
    };
    assert_eq!((audio.sample_rate, audio.length_frames), (8_000.0, 4));
    assert!(merge_all_summaries(&graph, "none").is_none());
}
