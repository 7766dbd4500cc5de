//! What supervisors and monitored training sessions do at the edges: pieces that are given or switched off, times that a clock measures, and
//! graphs without a step.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use trainspec::env::Env;
use trainspec::hooks::{SessionRunHook, StepCounterHook, StopAtStepHook};
use trainspec::monitored::{
    InitOp, InitialSession, MonitoredSession, Setting, TrainingSessionOptions,
    monitored_training_session,
};
use trainspec::queue::{EnqueueOp, FifoQueue, Queue, QueueOptions, QueueRunner, TensorSpec};
use trainspec::summary::{SummaryWriter, scalar_summary};
use trainspec::supervisor::{Supervisor, SupervisorOptions};
use trainspec::train::{
    add_queue_runner, create_global_step, get_global_step, get_or_create_global_step,
};
use trainspec::{Code, DType, Graph, InputView, Tensor};
use trainspec_formats::events::summary::scalar;

use crate::hooks::{Folder, ManualClock, events};
use crate::monitored::line;
use crate::queues::RUNNERS;
use crate::support::{eventually, spec};

fn run(session: &mut MonitoredSession, runs: usize) {
    let values = [1.0_f32, 2.0];
    let view = InputView::new(&[2], &values);
    for _ in 0..runs {
        let feeds = [("x", view), ("y", view)];
        session.run("train_op", &feeds).unwrap();
    }
}

#[test]
fn a_monitored_training_session_saves_every_600_seconds_of_its_clock() {
    let folder = Folder::new("mts-600");
    let clock = Arc::new(ManualClock::default());
    let env = Env {
        clock: clock.clone(),
        ..Env::default()
    };
    let options = TrainingSessionOptions {
        checkpoint_dir: Some(folder.0.clone()),
        hooks: vec![Box::new(StopAtStepHook::last_step(6))],
        ..TrainingSessionOptions::default()
    };
    let graph = Graph::new_in(&line(), env);
    let mut session = monitored_training_session(graph, options).unwrap();
    // The seconds at which the steps 1 to 6 are made.
    for seconds in [1, 599, 600, 601, 1199, 1200] {
        clock.0.store(seconds * 1000, Ordering::Relaxed);
        run(&mut session, 1);
    }
    session.close().unwrap();
    let found = events(&folder.0);
    let saves = found
        .iter()
        .filter(|(_, text)| text.starts_with("Checkpoint"));
    let saves: Vec<i64> = saves.map(|(step, _)| *step).collect();
    assert_eq!(saves, [0, 3, 6]);
}

#[test]
fn the_step_counter_of_a_training_session_comes_before_its_summaries() {
    let folder = Folder::new("mts-order");
    let mut graph = Graph::new(&line());
    scalar_summary(&mut graph, &["loss"], "loss", None).unwrap();
    let options = TrainingSessionOptions {
        checkpoint_dir: Some(folder.0.clone()),
        log_step_count_steps: 2,
        save_summaries_steps: Setting::Own(2),
        save_checkpoint_steps: Setting::Own(2),
        ..TrainingSessionOptions::default()
    };
    let mut session = monitored_training_session(graph, options).unwrap();
    run(&mut session, 3);
    session.close().unwrap();
    // They share one event file, in which the third step has all three.
    let found = events(&folder.0).into_iter();
    let third = found.filter(|(step, _)| *step == 3);
    let third: Vec<String> = third
        .map(|(_, text)| text.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(third[..2], ["global_step/sec", "loss"], "{third:?}");
}

/// A supervisor over `line` with a folder and these pieces.
fn supervisor(folder: &Folder, options: SupervisorOptions) -> Supervisor {
    let options = SupervisorOptions {
        logdir: Some(folder.0.clone()),
        ..options
    };
    Supervisor::new(Graph::new(&line()), options).unwrap()
}

#[test]
fn a_writer_that_is_given_stays_open_and_one_that_is_made_is_closed() {
    let (folder, own) = (Folder::new("given-writer"), Folder::new("given-writer-own"));
    let writer = Arc::new(SummaryWriter::open(&own.0, Default::default()).unwrap());
    let options = || SupervisorOptions {
        summary_writer: Setting::Own(writer.clone()),
        ..SupervisorOptions::default()
    };
    let mut given = supervisor(&folder, options());
    given
        .managed_session(|supervisor, session| {
            supervisor.summary_computed(session, scalar("x", 1.0), Some(4))
        })
        .unwrap();
    // It says nothing of a stop, and goes on.
    writer.add_summary(scalar("later", 2.0), 5).unwrap();
    writer.flush().unwrap();
    let found = events(&own.0);
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert!(
        texts.contains(&"x 1") && texts.contains(&"later 2"),
        "{texts:?}"
    );
    assert!(!texts.contains(&"Stop"), "{texts:?}");
    // Nothing was written elsewhere.
    let is_events = |name: &String| name.contains("tfevents");
    let names = |folder: &Folder| -> Vec<String> {
        let entries = std::fs::read_dir(&folder.0).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    assert!(!names(&folder).iter().any(is_events));
    // Where it is asked for, it is closed.
    given.stop_with(Vec::new(), true, false).unwrap();
    assert_eq!(events(&own.0).last().unwrap().1, "Stop");
    assert!(writer.add_summary(scalar("closed", 3.0), 6).is_err());

    let mut made = supervisor(&folder, SupervisorOptions::default());
    made.managed_session(|_, _| Ok(())).unwrap();
    assert_eq!(events(&folder.0).last().unwrap().1, "Stop");
    let writer = made.summary_writer().unwrap();
    assert!(writer.add_summary(scalar("closed", 3.0), 6).is_err());
}

#[test]
fn a_supervisor_without_a_step_writes_no_start() {
    let starts = |name: &str, global_step: Setting<String>| {
        let folder = Folder::new(name);
        let options = SupervisorOptions {
            global_step,
            ..SupervisorOptions::default()
        };
        let mut one = supervisor(&folder, options);
        let saved = || {
            let names = ["model.ckpt.index", "model.ckpt-0.index"];
            names.iter().any(|name| folder.0.join(name).exists())
        };
        one.managed_session(|_, _| {
            eventually("it saves", saved);
            Ok(())
        })
        .unwrap();
        let found = events(&folder.0);
        let starts = found.iter().filter(|(_, text)| text == "Start").count();
        // Without a step a checkpoint has no number.
        (starts, folder.0.join("model.ckpt.index").exists())
    };
    assert_eq!(starts("with-step", Setting::Default), (1, false));
    assert_eq!(starts("without-step", Setting::None), (0, true));
}

#[test]
fn a_supervisor_without_a_ready_op_asks_nothing() {
    // Nothing gives the variables their values.
    let options = |ready_op| SupervisorOptions {
        init_op: Setting::Own(InitOp::no_op()),
        ready_op,
        ..SupervisorOptions::default()
    };
    let mut asks = Supervisor::new(Graph::new(&line()), options(Setting::Default)).unwrap();
    let error = asks.managed_session(|_, _| Ok(())).unwrap_err();
    assert!(error.to_string().contains('a'), "{error}");
    assert_eq!(error.code(), Code::FailedPrecondition);
    let mut silent = Supervisor::new(Graph::new(&line()), options(Setting::None)).unwrap();
    assert!(silent.ready_op().is_none());
    let mut ran = false;
    silent
        .managed_session(|_, _| {
            ran = true;
            Ok(())
        })
        .unwrap();
    assert!(ran);
}

#[test]
fn a_supervisor_without_a_writer_saves_all_the_same() {
    let folder = Folder::new("no-writer");
    let mut graph = Graph::new(&line());
    scalar_summary(&mut graph, &["weight"], "a", None).unwrap();
    let options = SupervisorOptions {
        logdir: Some(folder.0.clone()),
        summary_writer: Setting::None,
        ..SupervisorOptions::default()
    };
    let mut one = Supervisor::new(graph, options).unwrap();
    assert!(one.summary_writer().is_none());
    let session = one
        .prepare_or_wait_for_session(false, false, Duration::ZERO)
        .unwrap();
    // Neither summaries nor steps per second, which would need it.
    let services = one.start_standard_services(&session).unwrap();
    assert_eq!(services.len(), 1);
    let saved = || folder.0.join("model.ckpt-0.index").exists();
    eventually("it saves", saved);
    let error = one.summary_computed(&session, scalar("x", 1.0), None);
    assert_eq!(error.unwrap_err().code(), Code::FailedPrecondition);
    one.stop(Vec::new()).unwrap();
    let names = std::fs::read_dir(&folder.0).unwrap();
    let names: Vec<String> = names
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("tfevents")),
        "{names:?}"
    );
}

#[test]
fn a_worker_has_no_interval_of_summaries() {
    let options = |is_chief| SupervisorOptions {
        is_chief,
        ..SupervisorOptions::default()
    };
    let chief = Supervisor::new(Graph::new(&line()), options(true)).unwrap();
    assert_eq!(
        chief.save_summaries_interval(),
        Some(Duration::from_secs(120))
    );
    assert_eq!(chief.save_model_interval(), Some(Duration::from_secs(600)));
    let worker = Supervisor::new(Graph::new(&line()), options(false)).unwrap();
    assert_eq!(worker.save_summaries_interval(), None);
    assert_eq!(worker.save_model_interval(), None);
}

#[test]
fn a_supervisor_starts_the_runners_that_it_is_given() {
    let _turn = RUNNERS.read().unwrap_or_else(PoisonError::into_inner);
    let components = || vec![TensorSpec::new(DType::I64, &[])];
    let queue = |capacity| -> Queue {
        let options = QueueOptions::new(Some(capacity), components());
        FifoQueue::new(options).unwrap().into()
    };
    let runner = |queue: &Queue| {
        let own = queue.clone();
        let op = EnqueueOp::new(move || own.enqueue([Tensor::scalar(7_i64)]));
        QueueRunner::new(queue, vec![op]).unwrap()
    };
    let (given, collected) = (queue(2), queue(2));
    let mut graph = Graph::new(&line());
    add_queue_runner(&mut graph, &runner(&collected), None).unwrap();
    let mut one = Supervisor::new(graph, SupervisorOptions::default()).unwrap();
    let threads = one.start_queue_runners(Some(&[runner(&given)])).unwrap();
    // One that enqueues, and one that cancels when all stops.
    assert_eq!(threads.len(), 2);
    assert_eq!(given.dequeue().unwrap()[0].tensor().unwrap().to_i64s(), [7]);
    // The collected ones are others, which were not asked for.
    assert_eq!(collected.size(), 0);
    one.stop(Vec::new()).unwrap();
    assert!(given.is_closed());
    assert!(!collected.is_closed());
}

#[test]
fn a_graph_that_updates_nothing_has_no_global_step() {
    let text = "spec still; model (x: f32[batch]) { param a: f32 = ones(); output y = a * x; }";
    let still = spec(text);
    let mut graph = Graph::new(&still);
    assert_eq!(get_global_step(&graph).unwrap(), None);
    let error = get_or_create_global_step(&mut graph).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let error = create_global_step(&mut graph).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    // What the caller names himself is taken, and must be one.
    let mut named = |name: &str| {
        let all = graph.collections_mut().unwrap();
        all.global_step = vec![name.to_owned()];
        get_global_step(&graph)
    };
    for (name, expected) in [("a", "no integer"), ("nothing", "is no variable")] {
        let error = named(name).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(
        named("global_step:0").unwrap().as_deref(),
        Some("global_step")
    );
    // Neither a supervisor nor a step counter makes one up.
    let options = SupervisorOptions::default();
    let supervisor = Supervisor::new(Graph::new(&still), options).unwrap();
    assert_eq!(supervisor.global_step(), None);
    let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(StepCounterHook::without_output())];
    let creator = Box::<InitialSession>::default();
    let error = MonitoredSession::new(Graph::new(&still), creator, hooks).unwrap_err();
    assert!(error.to_string().contains("global step"), "{error}");
}
