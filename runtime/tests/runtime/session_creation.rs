//! How sessions come to be and end: what runs in which order, who waits for whom, what a scaffold, a supervisor and a monitored session do
//! by default.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainspec::InputView;
use trainspec::env::Env;
use trainspec::hooks::{
    Every, SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues, StopAtStepHook,
};
use trainspec::monitored::{
    ChiefSessionCreator, InitOp, InitialSession, MonitoredSession, ReadyOp, Scaffold, Setting,
    TrainingSessionOptions, monitored_training_session,
};
use trainspec::session::{Options, RunOptions, Session, TraceLevel};
use trainspec::summary::scalar_summary;
use trainspec::supervisor::{
    MAX_WAIT, Prepare, RECOVERY_WAIT, SessionManager, SessionManagerOptions, Supervisor,
    SupervisorOptions,
};
use trainspec::train::assert_global_step;
use trainspec::{Code, Coordinator, Error, Graph, STOP_GRACE_PERIOD, Tensor};

use crate::hooks::{Folder, ManualClock, events};
use crate::monitored::line;
use crate::support::spec;

/// What was called, in order.
type Calls = Arc<Mutex<Vec<String>>>;

fn say(calls: &Calls, text: &str) {
    calls.lock().unwrap().push(text.to_owned());
}

fn taken(calls: &Calls) -> Vec<String> {
    std::mem::take(&mut calls.lock().unwrap())
}

/// A hook that says when it is called.
struct Saying(&'static str, Calls);

impl SessionRunHook for Saying {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        let open = if graph.is_finalized() {
            "final"
        } else {
            "open"
        };
        say(&self.1, &format!("{}.begin, {open}", self.0));
        Ok(())
    }

    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        say(&self.1, &format!("{}.after_create_session", self.0));
        Ok(())
    }
}

/// Two examples of `line`.
const VALUES: [f32; 2] = [1.0, 2.0];

fn run(session: &mut MonitoredSession, runs: usize) -> Result<(), Error> {
    let view = InputView::new(&[2], &VALUES);
    let feeds = [("x", view), ("y", view)];
    (0..runs).try_for_each(|_| session.run("train_op", &feeds).map(drop))
}

#[test]
fn a_session_is_created_in_the_order_of_tensorflow() {
    let calls = Calls::default();
    let op = |name: &'static str| {
        let calls = calls.clone();
        InitOp::new(move |session| {
            say(&calls, name);
            match name {
                "init_op" => session.initialize(),
                _ => Ok(()),
            }
        })
    };
    let ready = |name: &'static str| {
        let calls = calls.clone();
        ReadyOp::new(move |_| {
            say(&calls, name);
            Ok(Vec::new())
        })
    };
    let own = calls.clone();
    let scaffold = Scaffold::new()
        .with_init_op(op("init_op"))
        .with_init_fn(move |_, _| {
            say(&own, "init_fn");
            Ok(())
        })
        .with_ready_for_local_init_op(ready("ready_for_local_init_op"))
        .with_local_init_op(op("local_init_op"))
        .with_ready_op(ready("ready_op"));
    let creator = ChiefSessionCreator {
        scaffold,
        ..ChiefSessionCreator::default()
    };
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![
        Box::new(Saying("A", calls.clone())),
        Box::new(Saying("B", calls.clone())),
    ];
    let session = MonitoredSession::new(Graph::new(&line()), Box::new(creator), hooks).unwrap();
    assert!(session.graph().is_finalized());
    let expected = [
        "A.begin, open",
        "B.begin, open",
        "init_op",
        "init_fn",
        "ready_for_local_init_op",
        "local_init_op",
        "ready_op",
        "A.after_create_session",
        "B.after_create_session",
    ];
    assert_eq!(taken(&calls), expected);
}

#[test]
fn local_initialization_waits_until_the_session_is_ready_for_it() {
    let calls = Calls::default();
    let own = calls.clone();
    let local = InitOp::new(move |_| {
        say(&own, "local_init_op");
        Ok(())
    });
    let manager = SessionManager::new(SessionManagerOptions {
        local_init_op: Some(local),
        ready_for_local_init_op: Some(ReadyOp::new(|_| {
            Ok(vec!["table".to_owned(), "vocabulary".to_owned()])
        })),
        ..SessionManagerOptions::default()
    })
    .unwrap();
    let (graph, options) = (Graph::new(&line()), Options::default());
    let prepare = Prepare {
        init_op: Some(InitOp::initializer()),
        ..Prepare::default()
    };
    let error = manager.prepare_session(&graph, &options, &prepare);
    let error = error.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    // The names are joined into the reason.
    assert!(error.to_string().ends_with("table, vocabulary"), "{error}");
    let (_, is_ready) = manager.recover_session(&graph, &options, &prepare).unwrap();
    assert!(!is_ready && taken(&calls).is_empty());
}

#[test]
fn waits_have_the_times_of_tensorflow() {
    assert_eq!(MAX_WAIT, Duration::from_secs(7200));
    assert_eq!(RECOVERY_WAIT, Duration::from_secs(30));
    assert_eq!(STOP_GRACE_PERIOD, Duration::from_secs(120));
    assert_eq!(Prepare::default().max_wait, MAX_WAIT);
    let manager = SessionManagerOptions::default();
    assert_eq!(manager.recovery_wait, RECOVERY_WAIT);
    let supervisor = SupervisorOptions::default();
    let seconds = (supervisor.save_summaries_secs, supervisor.save_model_secs);
    assert_eq!(seconds, (120.0, 600.0));
    assert_eq!(
        (supervisor.recovery_wait, supervisor.stop_grace),
        (RECOVERY_WAIT, STOP_GRACE_PERIOD)
    );
    assert_eq!(supervisor.checkpoint_basename, "model.ckpt");
    let training = TrainingSessionOptions::default();
    assert_eq!(
        (training.max_wait, training.stop_grace_period),
        (MAX_WAIT, STOP_GRACE_PERIOD)
    );
    assert_eq!(training.log_step_count_steps, 100);
}

#[test]
fn hooks_of_the_chief_come_first_and_a_worker_has_none_of_them() {
    let folder = Folder::new("chief-hooks");
    let calls = Calls::default();
    let options = |is_chief| TrainingSessionOptions {
        is_chief,
        // Without a folder for checkpoints the summaries have one of their own.
        summary_dir: Some(folder.0.clone()),
        hooks: vec![Box::new(Saying("hook", calls.clone()))],
        chief_only_hooks: vec![Box::new(Saying("chief", calls.clone()))],
        max_wait: Duration::from_secs(60),
        ..TrainingSessionOptions::default()
    };
    let mut graph = Graph::new(&line());
    scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let mut session = monitored_training_session(graph, options(true)).unwrap();
    run(&mut session, 1).unwrap();
    session.close().unwrap();
    let expected = [
        "chief.begin, open",
        "hook.begin, open",
        "chief.after_create_session",
        "hook.after_create_session",
    ];
    assert_eq!(taken(&calls), expected);
    let written = events(&folder.0);
    assert!(written.iter().any(|(_, text)| text.starts_with("loss")));

    let clock = Arc::new(ManualClock::default());
    let env = Env {
        clock: clock.clone(),
        ..Env::default()
    };
    let worker = monitored_training_session(Graph::new_in(&line(), env), options(false));
    assert_eq!(worker.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(taken(&calls), ["hook.begin, open"]);
    assert_eq!(clock.0.load(Ordering::Relaxed), 60_000);
}

#[test]
fn checkpoints_come_after_summaries_and_before_the_hooks_of_the_caller() {
    /// Says which files there are when its session is created.
    struct Looks(std::path::PathBuf, Calls);
    impl SessionRunHook for Looks {
        fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
            let there = self.0.join("model.ckpt-0.index").exists();
            say(&self.1, if there { "saved" } else { "not saved" });
            Ok(())
        }
    }
    let folder = Folder::new("hook-order");
    let calls = Calls::default();
    let looks = || Box::new(Looks(folder.0.clone(), calls.clone()));
    let options = TrainingSessionOptions {
        checkpoint_dir: Some(folder.0.clone()),
        save_checkpoint_steps: Setting::Own(10),
        hooks: vec![looks()],
        chief_only_hooks: vec![looks()],
        ..TrainingSessionOptions::default()
    };
    let session = monitored_training_session(Graph::new(&line()), options).unwrap();
    drop(session);
    assert_eq!(taken(&calls), ["not saved", "saved"]);
}

#[test]
fn a_run_after_a_requested_stop_is_an_error() {
    let creator = Box::<InitialSession>::default();
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(StopAtStepHook::last_step(1))];
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    run(&mut session, 1).unwrap();
    assert!(session.should_stop());
    let error = run(&mut session, 1).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.to_string().contains("after a stop was requested"));
    session.close().unwrap();
}

/// Asks for something in `before_run`, and says whether a stop was requested before it.
struct Asking {
    options: RunOptions,
    feeds: Vec<(String, Tensor)>,
    stops: bool,
    calls: Calls,
}

impl Asking {
    fn new(calls: &Calls) -> Asking {
        Asking {
            options: RunOptions::default(),
            feeds: Vec::new(),
            stops: false,
            calls: calls.clone(),
        }
    }
}

impl SessionRunHook for Asking {
    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        say(&self.calls, &format!("{}", context.stop_requested()));
        if self.stops {
            context.request_stop();
        }
        Ok(Some(SessionRunArgs {
            options: self.options.clone(),
            feeds: self.feeds.clone(),
            ..SessionRunArgs::default()
        }))
    }

    fn after_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        say(&self.calls, &format!("{:?}", values.options));
        Ok(())
    }
}

#[test]
fn hooks_see_a_requested_stop_and_their_options_are_merged() {
    let calls = Calls::default();
    let first = Asking {
        options: RunOptions {
            trace_level: TraceLevel::FullTrace,
            ..RunOptions::default()
        },
        stops: true,
        ..Asking::new(&calls)
    };
    let second = Asking {
        options: RunOptions {
            output_program: true,
            ..RunOptions::default()
        },
        ..Asking::new(&calls)
    };
    let creator = Box::<InitialSession>::default();
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(first), Box::new(second)];
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    run(&mut session, 1).unwrap();
    // Levels by their maximum, flags by or.
    let merged = RunOptions {
        trace_level: TraceLevel::FullTrace,
        output_program: true,
    };
    let merged = format!("{merged:?}");
    assert_eq!(taken(&calls), ["false", "true", &merged, &merged]);
    assert!(session.should_stop());
}

#[test]
fn what_two_hooks_feed_is_an_error_that_names_it() {
    let calls = Calls::default();
    let feeding = || -> Box<dyn SessionRunHook> {
        Box::new(Asking {
            feeds: vec![("y".to_owned(), Tensor::new(&[2], vec![1.0_f32, 2.0]))],
            ..Asking::new(&calls)
        })
    };
    let creator = Box::<InitialSession>::default();
    let hooks = vec![feeding(), feeding()];
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    let x = InputView::new(&[2], &VALUES);
    let error = session.run("train_op", &[("x", x)]).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.to_string().contains("`y` is fed twice"), "{error}");
}

#[test]
fn fetches_of_any_shape_give_results_of_that_shape() {
    let mut session = Session::new(&line(), &Options::default()).unwrap();
    let view = InputView::new(&[2], &VALUES);
    let feeds = [("x", view), ("y", view)];
    let number = |tensor: &Tensor| tensor.to_f64s()[0];
    let loss = session.run("loss", &feeds).unwrap();
    assert_eq!(loss.as_ref().map(number), Some(2.5));
    // An operation has no value.
    let (op, (loss, a)) = session.run(("train_op", ("loss", "a")), &feeds).unwrap();
    assert!(op.is_none());
    let (loss, a) = (loss.unwrap(), a.unwrap());
    assert_eq!((number(&loss), number(&a)), (2.5, 0.5));
    let listed = session.run(vec!["a", "global_step"], &feeds).unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1].as_ref().unwrap().to_i64s(), [1]);
    let map = std::collections::BTreeMap::from([("rate", "loss"), ("weight", "a")]);
    let mapped = session.run(map, &feeds).unwrap();
    assert_eq!(
        mapped.keys().copied().collect::<Vec<_>>(),
        ["rate", "weight"]
    );
    assert_eq!(number(mapped["weight"].as_ref().unwrap()), 0.5);
}

#[test]
fn the_global_step_of_a_check_is_a_scalar_integer_variable() {
    let text = "spec odd;
        model (x: f32[batch]) {
            param a: f32 = ones();
            state seen: i64[2] = zeros();
            seen <- seen + 1;
            loss mean(a * x);
        }
        train { optimizer gradient_descent(0.1); }";
    let graph = Graph::new(&spec(text));
    assert_global_step(&graph, "global_step").unwrap();
    let error = assert_global_step(&graph, "seen").unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(assert_global_step(&graph, "no_variable").is_err());
}

#[test]
fn a_supervisor_makes_its_folder_and_gives_its_services() {
    let folder = Folder::new("supervisor-services");
    let logdir = folder.0.join("deep/runs");
    let mut graph = Graph::new(&line());
    scalar_summary(&mut graph, &["weight"], "a", None).unwrap();
    let options = SupervisorOptions {
        logdir: Some(logdir.clone()),
        ..SupervisorOptions::default()
    };
    let mut supervisor = Supervisor::new(graph, options).unwrap();
    assert!(logdir.is_dir());
    let session = supervisor
        .prepare_or_wait_for_session(false, false, Duration::ZERO)
        .unwrap();
    let services = supervisor.start_standard_services(&session).unwrap();
    let names: Vec<&str> = services.iter().map(|thread| thread.name()).collect();
    assert_eq!(names, ["summaries", "step counter", "checkpoints"]);
    // The step is read where none is given.
    let view = InputView::new(&[2], &VALUES);
    for _ in 0..3 {
        session
            .run("train_op", &[("x", view), ("y", view)])
            .unwrap();
    }
    let summary = |tag| trainspec_formats::events::summary::scalar(tag, 1.0);
    supervisor
        .summary_computed(&session, summary("read"), None)
        .unwrap();
    supervisor
        .summary_computed(&session, summary("given"), Some(9))
        .unwrap();
    supervisor.stop(Vec::new()).unwrap();
    let found = events(&logdir);
    assert!(found.contains(&(3, "read 1".to_owned())), "{found:?}");
    assert!(found.contains(&(9, "given 1".to_owned())), "{found:?}");
    // A stop does not close the session.
    assert_eq!(session.lock().global_step(), 3);
    session
        .run("train_op", &[("x", view), ("y", view)])
        .unwrap();
}

#[test]
fn a_stop_after_a_number_of_steps_counts_from_the_restored_one_and_not_again() {
    let folder = Folder::new("num-steps");
    let session_with = |hooks: Vec<Box<dyn SessionRunHook>>| {
        let options = TrainingSessionOptions {
            checkpoint_dir: Some(folder.0.clone()),
            save_checkpoint_steps: Setting::Own(1),
            hooks,
            ..TrainingSessionOptions::default()
        };
        monitored_training_session(Graph::new(&line()), options).unwrap()
    };
    let mut session = session_with(Vec::new());
    run(&mut session, 5).unwrap();
    session.close().unwrap();
    /// Is preempted once, before its second run.
    struct Preempted(u32);
    impl SessionRunHook for Preempted {
        fn before_run(
            &mut self,
            _: &mut SessionRunContext<'_>,
        ) -> Result<Option<SessionRunArgs>, Error> {
            self.0 += 1;
            match self.0 {
                2 => Err(Error::new(Code::Aborted, "preempted")),
                _ => Ok(None),
            }
        }
    }
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![
        Box::new(StopAtStepHook::num_steps(3)),
        Box::new(Preempted(0)),
    ];
    let mut session = session_with(hooks);
    while !session.should_stop() {
        run(&mut session, 1).unwrap();
    }
    assert_eq!(session.raw_session().unwrap().global_step(), 8);
    session.close().unwrap();
}

#[test]
fn an_interval_is_in_steps_or_in_seconds() {
    let both = TrainingSessionOptions {
        checkpoint_dir: Some(Folder::new("both").0.clone()),
        save_checkpoint_steps: Setting::Own(1),
        save_checkpoint_secs: Setting::Own(1.0),
        ..TrainingSessionOptions::default()
    };
    let error = monitored_training_session(Graph::new(&line()), both).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(Every::steps_or_secs(None, None).is_err());
}
