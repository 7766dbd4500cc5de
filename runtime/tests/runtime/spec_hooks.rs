//! The hooks of specs: `early_stop`, `profile`, `final_ops`, `wait_for_step`, and their order.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use trainspec::hooks::FeedFn;
use trainspec::registry::Registry;
use trainspec::session::{End, Event, Options, Reading};
use trainspec::{State, StopToken, Tensor};
use trainspec_formats::events::summary_iterator;
use trainspec_formats::proto::event::What;

use crate::support::{MemoryEnv, RunDir, spec};

/// Eight times the same record.
const ONES: &[u8] = b"1\n1\n1\n1\n1\n1\n1\n1\n";

/// Each step multiplies the distance of `a` to 1 by 0.5, so the loss after step k is 4^-k, and before it 4^-(k - 1).
fn halving(hooks: &str) -> String {
    format!(
        "spec halving;
         data d {{ source csv(\"ones.csv\"); feature y: f32; repeat; batch 4; }}
         data held {{ source csv(\"ones.csv\"); feature y: f32; batch 4; }}
         model (y: f32[batch]) {{
             param a: f32 = zeros();
             let distance = mean(y - a);
             loss square(distance);
             metric closeness = 1.0 - distance;
         }}
         train {{ data d; optimizer gradient_descent(0.25); steps 20; }}
         eval {{ data held; every 1 steps; metrics [loss, closeness]; }}
         hooks {{ {hooks} }}"
    )
}

fn train(text: &str, options: &Options) -> (State, Vec<Event>) {
    let mut events = Vec::new();
    let options = Options {
        env: MemoryEnv::new(&[("ones.csv", ONES)]).env(),
        ..options.clone()
    };
    let mut observer = |event: &Event| events.push(event.clone());
    let trained = trainspec::train(&spec(text), &options, &mut observer);
    (trained.unwrap_or_else(|e| panic!("{e}")), events)
}

fn in_folder(dir: &RunDir) -> Options {
    Options {
        dir: Some(dir.0.clone()),
        ..Options::default()
    }
}

/// The last step, and why it was the last.
fn end(events: &[Event]) -> (u64, End) {
    let ended = events.iter().find_map(|event| match event {
        Event::Ended { step, why, .. } => Some((*step, why.clone())),
        _ => None,
    });
    ended.expect("it ended")
}

fn no_improvement(metric: &str) -> End {
    End::NoImprovement(metric.to_owned())
}

#[test]
fn early_stop_counts_evaluations_without_an_improvement() {
    // 0.25, 0.0625, 0.0156, 0.0039, ...: steps 1, 2 and 4 improve by more than 0.05, step 3 by less than it from step 2.
    let text = halving("early_stop (loss, patience: 2, min_delta: 0.05);");
    let (_, events) = train(&text, &Options::default());
    assert_eq!(end(&events), (6, no_improvement("loss")));
    // 1/2, 3/4, 7/8, 15/16: the last improves by a sixteenth.
    let text = halving("early_stop (closeness, patience: 1, min_delta: 0.1, goal: max);");
    let (_, events) = train(&text, &Options::default());
    assert_eq!(end(&events), (4, no_improvement("closeness")));
    let text = halving("early_stop (closeness, patience: 3, goal: min);");
    let (_, events) = train(&text, &Options::default());
    assert_eq!(end(&events), (4, no_improvement("closeness")));
    let text = halving("early_stop (loss, patience: 2);");
    let (_, events) = train(&text, &Options::default());
    assert_eq!(end(&events), (20, End::Steps));
}

#[test]
fn a_resumed_run_stops_early_at_the_same_step() {
    let hooks = "checkpoint (dir: \"unused\", every: 100 steps); \
                 early_stop (loss, patience: 2, min_delta: 0.05);";
    let text = halving(hooks);
    for interrupted in 1..6 {
        let dir = RunDir::new();
        let options = in_folder(&dir);
        let first = Options {
            steps: Some(interrupted),
            ..options.clone()
        };
        assert_eq!(end(&train(&text, &first).1), (interrupted, End::Steps));
        assert_eq!(
            end(&train(&text, &options).1),
            (6, no_improvement("loss")),
            "from {interrupted}"
        );
        // Started again, it makes no step, and says why.
        let (state, events) = train(&text, &options);
        assert_eq!(end(&events), (6, no_improvement("loss")));
        assert_eq!(state.step(), 6);
        let said = |e: &Event| matches!(e, Event::Note(note) if note.contains("a larger `patience` continues it"));
        assert!(events.iter().any(said), "{events:?}");
        let patient = text.replace("patience: 2", "patience: 4");
        assert_eq!(
            end(&train(&patient, &options).1),
            (8, no_improvement("loss"))
        );
    }
}

/// Options under which the `call`-th batch that is computed with, of training or evaluation, asks the run to stop.
fn stopping_at(call: u64, options: &Options) -> Options {
    let (stop, calls) = (StopToken::default(), Arc::new(AtomicU64::new(0)));
    let token = stop.clone();
    let registry = Registry::default().feed("scale", &[], move |_| {
        let (token, calls) = (token.clone(), calls.clone());
        let feed: FeedFn = Box::new(move || {
            if calls.fetch_add(1, Ordering::Relaxed) + 1 == call {
                token.request_stop();
            }
            Ok(vec![("scale".to_owned(), Tensor::scalar(1.0_f32))])
        });
        Ok(feed)
    });
    Options {
        stop,
        registry,
        ..options.clone()
    }
}

/// The names of the checkpoints in a folder and in that of its best one.
fn checkpoints(dir: &RunDir) -> Vec<String> {
    let files = ["", "best"].into_iter().flat_map(|folder| {
        let files = std::fs::read_dir(dir.0.join(folder)).unwrap();
        files.map(move |file| format!("{folder}/{}", file.unwrap().file_name().display()))
    });
    let mut names: Vec<String> = files.filter(|name| name.ends_with(".index")).collect();
    names.sort();
    names
}

/// The records of the last checkpoint, but for the machine and the position.
fn records(dir: &RunDir) -> Vec<String> {
    let newest = trainspec_formats::checkpoint::latest_checkpoint(&dir.0, None)
        .unwrap()
        .unwrap();
    let reader = trainspec_formats::checkpoint::CheckpointReader::open(&newest).unwrap();
    let text = reader.get_tensor("_trainspec/records").unwrap();
    vec![format!("{text:?}")]
}

/// The event files of the evaluations.
fn event_files(dir: &RunDir) -> usize {
    std::fs::read_dir(dir.0.join("eval")).map_or(0, Iterator::count)
}

#[test]
fn an_evaluation_that_a_stop_cuts_short_is_made_at_the_next_start() {
    let hooks = "checkpoint (dir: \"unused\", every: 100 steps, keep: 1, best: closeness, mode: min); feed \"scale\"; \
                 early_stop (loss, patience: 2, min_delta: 0.05);";
    let text = halving(hooks).replace("(y: f32[batch])", "(y: f32[batch], scale: f32)");
    let text = text.replace("mean(y - a)", "mean(y - a) * scale");
    let straight = RunDir::new();
    let (state, events) = train(&text, &stopping_at(u64::MAX, &in_folder(&straight)));
    assert_eq!(end(&events), (6, no_improvement("loss")));
    // A step computes with one batch, an evaluation with two; the first batch is drawn before the first step.
    for call in 2..=18 {
        let dir = RunDir::new();
        let (_, events) = train(&text, &stopping_at(call, &in_folder(&dir)));
        let evaluated = happenings(&events);
        let (step, why) = end(&events);
        assert_eq!(step, call.div_ceil(3), "{call}: {events:?}");
        assert_eq!(why, End::Stopped, "{call}");
        let made = |events: &[(u64, &str)]| events.contains(&(step, "eval"));
        assert_eq!(made(&evaluated), call % 3 == 0, "{call}: {events:?}");
        let (resumed, events) = train(&text, &stopping_at(u64::MAX, &in_folder(&dir)));
        assert_eq!(
            end(&events),
            (6, no_improvement("loss")),
            "{call}: {events:?}"
        );
        if call % 3 != 0 {
            assert!(made(&happenings(&events)), "{call}: {events:?}");
        }
        assert_eq!(resumed.digest(), state.digest(), "{call}");
        // Started again it has nothing to do, and what it owed is forgotten.
        let written = event_files(&dir);
        train(&text, &stopping_at(u64::MAX, &in_folder(&dir)));
        assert_eq!(event_files(&dir), written, "{call}");
        assert_eq!(records(&dir), records(&straight), "{call}");
        assert_eq!(checkpoints(&dir), checkpoints(&straight), "{call}");
    }
}

#[test]
fn num_steps_counts_over_all_starts_of_a_run() {
    let text = halving("checkpoint (dir: \"unused\", every: 100 steps); stop_at (num_steps: 7);");
    let text = text.replace("steps 20;", "");
    for interrupted in 1..7 {
        let dir = RunDir::new();
        let options = in_folder(&dir);
        let first = Options {
            steps: Some(interrupted),
            ..options.clone()
        };
        assert_eq!(end(&train(&text, &first).1), (interrupted, End::Steps));
        assert_eq!(end(&train(&text, &options).1), (7, End::Steps));
        let (_, events) = train(&text, &options);
        assert_eq!(end(&events), (7, End::Steps));
        let says = |e: &Event| matches!(e, Event::Note(note) if note.contains("step 7; a larger `stop_at` continues it"));
        assert!(events.iter().any(says), "{events:?}");
        let longer = text.replace("num_steps: 7", "num_steps: 9");
        assert_eq!(end(&train(&longer, &options).1), (9, End::Steps));
    }
}

/// What happened at which step.
fn happenings(events: &[Event]) -> Vec<(u64, &'static str)> {
    let happening = |event: &Event| match event {
        Event::Step { step, .. } => Some((*step, "log")),
        Event::Evaluated { step, .. } => Some((*step, "eval")),
        Event::Saved { step, .. } => Some((*step, "checkpoint")),
        _ => None,
    };
    events.iter().filter_map(happening).collect()
}

#[test]
fn at_a_step_hooks_act_in_their_order_and_not_again_after_a_resume() {
    let text = halving(
        "checkpoint (dir: \"unused\", every: 2 steps);
         early_stop (loss, patience: 9);
         summary (every: 2 steps) { scalar loss; }
         log (loss, every: 2 steps);",
    )
    .replace("every 1 steps", "every 2 steps");
    let dir = RunDir::new();
    let until = |steps| Options {
        steps: Some(steps),
        ..in_folder(&dir)
    };
    let (_, first) = train(&text, &until(4));
    let at = |step| [(step, "log"), (step, "eval"), (step, "checkpoint")];
    // A save is reported when its thread is done: at the next step, or at the end.
    let mut found = happenings(&first);
    found.sort_by_key(|(step, _)| *step);
    assert_eq!(found, [at(2), at(4)].concat());
    let (_, second) = train(&text, &until(6));
    assert_eq!(happenings(&second), at(6));
}

#[test]
fn profiles_hold_every_kernel_and_change_no_bit() {
    let dir = RunDir::new();
    let profiled = halving("profile (every: 2 steps, dir: \"unused\", show_memory: true);");
    let options = Options {
        steps: Some(5),
        ..in_folder(&dir)
    };
    let (state, _) = train(&profiled, &options);
    let plain = Options {
        steps: Some(5),
        ..Options::default()
    };
    let (expected, _) = train(&halving(""), &plain);
    assert_eq!(state.values(), expected.values());
    let mut names = files(&dir.0, "timeline-");
    names.sort();
    assert_eq!(names, ["timeline-2.json", "timeline-4.json"]);
    let text = std::fs::read_to_string(dir.0.join("timeline-4.json")).unwrap();
    let trace: Json = serde_json::from_str(&text).unwrap();
    let all = trace["traceEvents"].as_array().unwrap();
    let kernels: Vec<&Json> = all.iter().filter(|event| event["ph"] == "X").collect();
    assert!(!kernels.is_empty(), "{text}");
    for kernel in kernels {
        assert!(
            kernel["ts"].is_number() && kernel["dur"].is_number(),
            "{kernel}"
        );
        assert!(
            kernel["tid"].is_number() && kernel["name"].is_string(),
            "{kernel}"
        );
    }
    assert!(all.iter().any(|event| event["ph"] == "C"), "memory: {text}");
    let mut tags = Vec::new();
    for name in files(&dir.0, "events.out") {
        for event in summary_iterator(&dir.0.join(name)).unwrap() {
            if let Some(What::TaggedRunMetadata(metadata)) = event.unwrap().what {
                tags.push(metadata.tag);
            }
        }
    }
    assert_eq!(tags, ["step_2", "step_4"]);
}

fn files(folder: &Path, prefix: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn final_ops_are_computed_from_the_state_at_the_end() {
    let text = halving("final_ops [loss, closeness, distance, step, \"a\"];");
    let options = Options {
        steps: Some(3),
        ..Options::default()
    };
    let (_, events) = train(&text, &options);
    let values = events.iter().find_map(|event| match event {
        Event::Final { step, values } => Some((*step, values.clone())),
        _ => None,
    });
    let (step, values) = values.expect("final values");
    let shown = |reading: &Reading| match reading {
        Reading::Number(number) => *number,
        Reading::Mean(mean) => mean.value(),
        Reading::Tensor(tensor) => tensor.to_i64s()[0] as f64,
    };
    let values: Vec<(&str, f64)> = values.iter().map(|(n, v)| (n.as_str(), shown(v))).collect();
    assert_eq!(step, 3);
    // After three steps a is 7/8; the last step itself saw 3/4.
    let expected = [
        ("loss", 1.0 / 64.0),
        ("closeness", 0.875),
        ("distance", 0.125),
        ("step", 3.0),
        ("a", 0.875),
    ];
    assert_eq!(values, expected);
}

/// A training whose first step waits for step 5 of another folder.
fn waiting(folder: &RunDir) -> String {
    let path = folder.0.display();
    halving(&format!(
        "wait_for_step (step: 5, dir: \"{path}\"); checkpoint (dir: \"unused\", every: 1 steps);"
    ))
}

#[test]
fn the_first_step_waits_for_the_step_of_another_run() {
    let (other, dir) = (RunDir::new(), RunDir::new());
    let text = waiting(&other);
    let saved = halving("checkpoint (dir: \"unused\", every: 5 steps);");
    let teacher = Options {
        steps: Some(7),
        ..in_folder(&other)
    };
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        train(&saved, &teacher)
    });
    let (state, events) = train(&text, &in_folder(&dir));
    assert_eq!(state.step(), 20);
    let note = format!(
        "the first step waits until `{}` has step 5",
        other.0.display()
    );
    assert!(events.contains(&Event::Note(note)), "{events:?}");
    thread.join().unwrap();
}

#[test]
fn a_stop_ends_the_wait_before_the_first_step() {
    let (other, dir) = (RunDir::new(), RunDir::new());
    let stop = StopToken::default();
    let options = Options {
        stop: stop.clone(),
        ..in_folder(&dir)
    };
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        stop.request_stop();
    });
    let (state, events) = train(&waiting(&other), &options);
    thread.join().unwrap();
    assert_eq!((state.step(), end(&events)), (0, (0, End::Stopped)));
    assert!(
        !happenings(&events)
            .iter()
            .any(|(_, what)| *what == "checkpoint")
    );
}
