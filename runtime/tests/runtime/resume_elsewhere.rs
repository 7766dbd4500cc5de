//! Runs that go on from what something else has left: another format, TensorFlow, another machine, a long way into the data.

use std::path::Path;

use trainspec::env::Env;
use trainspec::saver::{Format, Records, Saver, SaverOptions, restore};
use trainspec::session::{Event, Options};
use trainspec::{Code, Engine, InputView, Session, State, dry_run, evaluate, train};
use trainspec_formats::checkpoint::load_variable;
use trainspec_testing::folders::oracle;

use crate::resume::{Folder, bits, evaluated, options, resumed_at, run, run_in, training};
use crate::support::{MemoryEnv, RunDir, numbers, spec};

/// A state and the records of a run of 4 steps.
fn after_four_steps() -> (State, Records) {
    let folder = Folder::new(&format!("four-{:?}", std::thread::current().id()));
    let (mut state, _) = run(&training(4, 0.05), &options(&folder));
    let path = folder.run().join("model.ckpt-4");
    let restored = restore(&mut state, &path, &Default::default()).unwrap();
    (state, restored.records)
}

/// Saves into a folder that no run has used.
fn save(folder: &Path, format: Format, state: &State, records: &Records) {
    let options = SaverOptions {
        format,
        create_folder: true,
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(options).unwrap();
    let prefix = folder.join("model.ckpt");
    saver.save(state, records, &prefix, Some(4)).unwrap();
}

fn notes<'a>(events: &'a [Event], part: &str) -> Vec<&'a str> {
    let notes = events.iter().filter_map(|event| match event {
        Event::Note(text) if text.contains(part) => Some(text.as_str()),
        _ => None,
    });
    notes.collect()
}

#[test]
fn checkpoints_without_a_position_restore_the_state_and_start_the_input_over() {
    let (state, records) = after_four_steps();
    let straight = Folder::new("formats-straight");
    let (expected, _) = run(&training(7, 0.05), &options(&straight));
    let mut started_over = Vec::new();
    for format in [Format::V1, Format::V2, Format::Safetensors] {
        // As TensorFlow and Hugging Face's library write them, without records.
        let folder = Folder::new(&format!("bare-{format:?}"));
        save(&folder.run(), format, &state, &Records::default());
        let (ended, events) = run(&training(7, 0.05), &options(&folder));
        assert_eq!(resumed_at(&events), Some(4), "{format:?}: {events:?}");
        let said = notes(
            &events,
            "holds no position of the input, so the input starts over",
        );
        assert_eq!(said.len(), 1, "{format:?}: {events:?}");
        assert!(said[0].contains("model.ckpt-4"), "{said:?}");
        assert_ne!(bits(&ended), bits(&expected), "{format:?}");
        started_over.push(bits(&ended));
        // With the records of the run it goes on exactly, in every format.
        let folder = Folder::new(&format!("records-{format:?}"));
        save(&folder.run(), format, &state, &records);
        let (ended, events) = run(&training(7, 0.05), &options(&folder));
        assert_eq!(resumed_at(&events), Some(4), "{format:?}: {events:?}");
        assert!(notes(&events, "starts over").is_empty(), "{events:?}");
        assert_eq!(bits(&ended), bits(&expected), "{format:?}");
    }
    assert_eq!(started_over[0], started_over[1]);
    assert_eq!(started_over[0], started_over[2]);
    // It is the input that starts over, and the state that goes on: the first steps see the first batches again.
    let fresh = Folder::new("bare-straight");
    let (first, _) = run(&training(3, 0.05), &options(&fresh));
    assert_ne!(bits(&first), started_over[0]);
}

#[test]
fn a_run_says_which_build_and_machine_computed_its_bits() {
    let (mut state, _) = after_four_steps();
    let version = env!("CARGO_PKG_VERSION");
    let machines = [
        (Engine::Interpreted, "the interpreter".to_owned()),
        (
            Engine::compiled(1),
            format!("{} with ", std::env::consts::ARCH),
        ),
    ];
    for (engine, expected) in machines {
        let folder = Folder::new(&format!("machine-{}", expected.len()));
        let options = Options {
            engine,
            ..options(&folder)
        };
        run(&training(4, 0.05), &options);
        let file = std::fs::read(folder.run().join("run.json")).unwrap();
        let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
        assert_eq!(file["trainspec"], version);
        let machine = file["machine"].as_str().unwrap();
        assert!(machine.starts_with(&expected), "{machine}");
        let path = folder.run().join("model.ckpt-4");
        let restored = restore(&mut state, &path, &Default::default()).unwrap();
        let recorded = restored.records.get("machine/1").unwrap();
        assert_eq!(recorded, format!("trainspec {version} on {machine}"));
    }
}

#[test]
fn a_checkpoint_of_another_vector_width_or_build_is_said_and_used() {
    let (state, records) = after_four_steps();
    let straight = Folder::new("width-straight");
    let (expected, _) = run(&training(7, 0.05), &options(&straight));
    let here = records.get("machine/1").unwrap().to_owned();
    for other in [
        here.replace("trainspec ", "trainspec 9."),
        format!("{here}, a wider vector"),
    ] {
        let mut records = records.clone();
        records.insert("machine/1", other.clone());
        let folder = Folder::new(&format!("width-{}", other.len()));
        save(&folder.run(), Format::V2, &state, &records);
        let (ended, events) = run(&training(7, 0.05), &options(&folder));
        assert_eq!(resumed_at(&events), Some(4), "{events:?}");
        let said = notes(&events, "not promised");
        assert_eq!(said.len(), 1, "{events:?}");
        assert!(
            said[0].contains(&other) && said[0].contains(&here),
            "{said:?}"
        );
        assert_eq!(bits(&ended), bits(&expected));
        // What it saves now is of this machine: the next one has nothing to say.
        let (_, events) = run(&training(8, 0.05), &options(&folder));
        assert!(notes(&events, "not promised").is_empty(), "{events:?}");
    }
}

#[test]
fn a_run_says_how_far_it_has_read_its_data_again() {
    let text = "spec far;
        data d {
            source csv(\"n.csv\"); feature n: i64; map x = cast(n, f32) / 4_000.0; drop n;
            shuffle (buffer: 50, seed: 1); repeat; batch 100;
        }
        model (x: f32[batch]) { param a: f32 = zeros(); loss mean(square(a - x)); }
        train { data d; optimizer gradient_descent(0.1); steps 100; }
        hooks { checkpoint (dir: \"unused\", every: 30 steps); }";
    let (files, dir) = (numbers(4_000), RunDir::new());
    // Its clock advances by a second at every reading.
    let ticking = MemoryEnv::new(&[("n.csv", &files)]).env();
    let standing = Env {
        clock: std::sync::Arc::new(trainspec_formats::clock::FixedClock { unix_seconds: 1.0 }),
        ..ticking.clone()
    };
    let until = |steps, env: &Env| {
        let options = Options {
            steps: Some(steps),
            dir: Some(dir.0.clone()),
            env: env.clone(),
            ..Options::default()
        };
        let mut events = Vec::new();
        train(&spec(text), &options, &mut |event: &Event| {
            events.push(event.clone())
        })
        .unwrap();
        events
    };
    until(30, &ticking);
    let read_again = |events: &[Event]| -> Vec<u64> {
        // Between the start and the word that it goes on.
        let began = events
            .iter()
            .position(|e| matches!(e, Event::Started { .. }));
        let went_on = events
            .iter()
            .position(|e| matches!(e, Event::Resumed { .. }));
        let range = began.unwrap()..went_on.unwrap();
        let is_reread = |e: &&Event| matches!(e, Event::Rereading { .. });
        assert_eq!(
            events.iter().filter(is_reread).count(),
            events[range.clone()].iter().filter(is_reread).count()
        );
        let reread = events[range].iter().filter_map(|event| match event {
            Event::Rereading { records } => Some(*records),
            _ => None,
        });
        reread.collect()
    };
    let events = until(35, &ticking);
    let said = read_again(&events);
    let total = events.iter().find_map(|event| match event {
        Event::Resumed {
            step: 30, reread, ..
        } => Some(*reread),
        _ => None,
    });
    let total = total.unwrap_or_else(|| panic!("{events:?}"));
    assert!(total >= 2_000, "{total}");
    assert!(
        !said.is_empty() && said.is_sorted() && *said.last().unwrap() <= total,
        "{said:?} {total}"
    );
    // At most once a second: where the time stands still, not at all.
    let events = until(40, &standing);
    assert_eq!(read_again(&events), [0_u64; 0]);
}

#[test]
fn oracle_a_checkpoint_of_tensorflow_in_the_folder_of_a_run_is_gone_on_from() {
    for (name, layer, dtype, step, left_over) in [
        ("v1", "layer", "f32", 4, "c64"),
        ("single", "layer1", "f64", 0, "scalar"),
    ] {
        let text = format!(
            "spec taken;
             data d {{ source csv(\"points.csv\"); feature x: f32; feature y: f32; repeat; batch 2; }}
             block {layer}(x) {{
                 param w: f32[3, 4] = zeros();
                 param b: {dtype}[4] = zeros();
                 cast(x @ w, {dtype}) + b
             }}
             model (x: f32[batch], y: f32[batch]) {{
                 let h = expand_dims(x, axis: 1) * [1.0, 2.0, 3.0] |> {layer};
                 loss mean(square(cast(sum(h, axis: 1), f32) - y));
             }}
             train {{ data d; optimizer gradient_descent(0.0); steps {}; }}
             hooks {{ checkpoint (dir: \"unused\", every: 1 steps, keep: 9); }}",
            step + 2
        );
        let folder = Folder::new(&format!("tensorflow-{name}"));
        let from = oracle().join("checkpoints").join(name);
        std::fs::create_dir_all(folder.run()).unwrap();
        for file in std::fs::read_dir(&from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.run().join(file.file_name())).unwrap();
        }
        let (state, events) = run(&spec(&text), &options(&folder));
        assert_eq!(resumed_at(&events), Some(step), "{name}: {events:?}");
        let over = notes(&events, "so the input starts over");
        assert_eq!(over.len(), 1, "{name}: {events:?}");
        let listed = notes(&events, "values are restored");
        assert!(
            listed.len() == 1 && listed[0].contains(left_over),
            "{events:?}"
        );
        assert_eq!(state.step(), step + 2);
        // With a learning rate of 0 the variables are those of the checkpoint.
        for variable in ["w", "b"] {
            let variable = format!("{layer}/{variable}");
            let expected = load_variable(&from, &variable).unwrap();
            let found = state.get(&variable).unwrap().to_f64s();
            let expected: Vec<f64> = match dtype {
                "f64" if variable.ends_with('b') => expected.to_vec().unwrap(),
                _ => expected
                    .to_vec::<f32>()
                    .unwrap()
                    .into_iter()
                    .map(f64::from)
                    .collect(),
            };
            assert_eq!(found, expected, "{name}: {variable}");
            assert!(expected.iter().any(|x| *x != 0.0));
        }
        // The next run goes on from its own.
        let more = text.replace(
            &format!("steps {}", step + 2),
            &format!("steps {}", step + 3),
        );
        let (_, events) = run(&spec(&more), &options(&folder));
        assert!(
            notes(&events, "starts over").is_empty(),
            "{name}: {events:?}"
        );
    }
}

#[test]
fn a_project_that_was_moved_as_a_whole_goes_on() {
    let straight = Folder::new("unmoved");
    let (expected, _) = run(&training(7, 0.05), &options(&straight));
    let (before, after) = (
        Folder::new("before-the-move"),
        Folder::new("after-the-move"),
    );
    run(&training(4, 0.05), &options(&before));
    std::fs::rename(before.run(), after.run()).unwrap();
    // However its folder is spelt.
    let options = Options {
        folder: after.0.join("."),
        ..options(&after)
    };
    let (ended, events) = run(&training(7, 0.05), &options);
    assert_eq!(resumed_at(&events), Some(4), "{events:?}");
    assert_eq!(bits(&ended), bits(&expected));
}

#[test]
fn data_of_evaluations_may_change_where_nothing_is_decided_by_it() {
    let changed = |arguments: &str| {
        let text = |steps| {
            let spec = evaluated(steps, arguments).text.replace(
                "csv(\"points.csv\"); feature x: f32; feature y: f32; batch 5",
                "csv(\"held.csv\"); feature x: f32; feature y: f32; batch 5",
            );
            crate::support::spec(&spec)
        };
        let folder = Folder::new(&format!("held-{}", arguments.len()));
        let held = folder.0.join("held.csv");
        std::fs::write(&held, "1,2\n3,4\n").unwrap();
        run(&text(4), &options(&folder));
        std::fs::write(&held, "1,2\n3,5\n").unwrap();
        run_in(
            trainspec_formats::storage::local(),
            &text(7),
            &options(&folder),
        )
    };
    let (ended, events) = changed("basename: \"model.ckpt\"");
    ended.unwrap();
    let said = notes(
        &events,
        "metrics before and after cannot be compared: held.csv",
    );
    assert_eq!(said.len(), 1, "{events:?}");
    let (refused, _) = changed("best: loss");
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.to_string().contains("held.csv has changed"),
        "{refused}"
    );
}

#[test]
fn a_checkpoint_says_of_which_training_it_is() {
    let straight = Folder::new("described");
    let (expected, _) = run(&training(7, 0.05), &options(&straight));
    let folder = Folder::new("undescribed");
    run(&training(4, 0.05), &options(&folder));
    let file = folder.run().join("run.json");
    std::fs::remove_file(&file).unwrap();
    let local = trainspec_formats::storage::local;
    let (refused, _) = run_in(local(), &training(7, 0.06), &options(&folder));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(
        refused
            .to_string()
            .contains("is a checkpoint of another training"),
        "{refused}"
    );
    let seeded = Options {
        seed: Some(9),
        ..options(&folder)
    };
    assert!(run_in(local(), &training(7, 0.05), &seeded).0.is_err());
    // Those that were refused left no trace: it still goes on.
    assert!(!file.exists());
    let (ended, events) = run(&training(7, 0.05), &options(&folder));
    assert_eq!(resumed_at(&events), Some(4), "{events:?}");
    assert_eq!(bits(&ended), bits(&expected));
    // A fresh run moves it aside, described or not.
    std::fs::remove_file(&file).unwrap();
    let fresh = Options {
        fresh: true,
        ..options(&folder)
    };
    let (_, events) = run(&training(4, 0.06), &fresh);
    assert_eq!(resumed_at(&events), None);
    assert!(folder.0.join("run.1").join("checkpoint").exists());
}

#[test]
fn a_start_that_fails_leaves_the_folder_to_its_training() {
    let (state, _) = after_four_steps();
    let folder = Folder::new("adopted");
    save(&folder.run(), Format::V2, &state, &Records::default());
    let wider = training(7, 0.05).text.replace("dense(4)", "dense(5)");
    let local = trainspec_formats::storage::local;
    let (refused, _) = run_in(local(), &spec(&wider), &options(&folder));
    assert!(refused.unwrap_err().to_string().contains("does not fit"));
    let (_, events) = run(&training(7, 0.05), &options(&folder));
    assert_eq!(resumed_at(&events), Some(4), "{events:?}");
    // With `--fresh` a warm start that is not there is found before anything is moved.
    let absent = Options {
        fresh: true,
        warm_start: Some(folder.0.join("absent")),
        ..options(&folder)
    };
    assert!(run_in(local(), &training(7, 0.05), &absent).0.is_err());
    assert!(folder.run().join("checkpoint").exists());
}

#[test]
fn a_checkpoint_of_a_part_is_not_evaluated() {
    let folder = Folder::new("part");
    run(&evaluated(4, "vars: \"dense/**\""), &options(&folder));
    let whole = evaluated(4, "basename: \"model.ckpt\"");
    let path = folder.run().join("model.ckpt-4");
    let refused = evaluate(&whole, &options(&folder), &path, false, &mut |_: &Event| {});
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("dense_1/kernel"), "{refused}");
}

#[test]
fn values_that_were_restored_and_trained_on_elsewhere_have_no_position() {
    let folder = Folder::new("elsewhere");
    run(&training(4, 0.05), &options(&folder));
    let spec = spec(
        "spec small; model (x: f32[batch]) { param a: f32 = zeros(); loss mean(square(a - x)); }
                     train { optimizer gradient_descent(0.5); }",
    );
    let mut session = Session::new(&spec, &Options::default()).unwrap();
    let prefix = folder.0.join("small");
    let mut records = Records::default();
    records.insert("input/1", "csv/2 0 0 0 0 0 0");
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    saver
        .save(session.state(), &records, &prefix, Some(1))
        .unwrap();
    session.restore(folder.0.join("small-1")).unwrap();
    let position = |path: &Path| {
        let mut state = session_state(&spec);
        let restored = restore(&mut state, path, &Default::default()).unwrap();
        restored.records.get("input/1").map(ToOwned::to_owned)
    };
    let same = session.save(folder.0.join("same")).unwrap();
    assert!(position(&same).is_some());
    session
        .step(&[("x", InputView::new(&[1], &[1.0_f32]))])
        .unwrap();
    let later = session.save(folder.0.join("later")).unwrap();
    assert_eq!(position(&later), None);
}

fn session_state(spec: &std::sync::Arc<trainspec::Spec>) -> State {
    Session::new(spec, &Options::default())
        .unwrap()
        .into_state()
}

#[test]
fn a_dry_run_says_what_the_run_would_make_of_its_folder() {
    let folder = Folder::new("dry");
    let absent = Options {
        resume: true,
        ..options(&folder)
    };
    let refused = dry_run(&training(4, 0.05), &absent).unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    run(&training(4, 0.05), &options(&folder));
    let found = dry_run(&training(7, 0.05), &options(&folder)).unwrap();
    assert!(!found.is_finished);
    assert!(found.resumes.unwrap().ends_with("model.ckpt-4"));
    assert!(
        dry_run(&training(4, 0.05), &options(&folder))
            .unwrap()
            .is_finished
    );
    let refused = dry_run(&training(7, 0.06), &options(&folder)).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.to_string().contains("belongs to another run"),
        "{refused}"
    );
}

#[test]
fn a_learning_rate_that_has_come_down_to_0_is_said_and_no_other_schedule() {
    let text = |steps: u64| {
        let text = training(steps, 0.05).text.replace(
            "schedule   lr = exponential_decay(0.05, decay_steps: 5, decay_rate: 0.9);",
            "schedule lr = cosine_decay(0.05, decay_steps: 3); schedule other = lr * 0.0;",
        );
        assert!(text.contains("other"));
        spec(&text)
    };
    let folder = Folder::new("ended-rate");
    let (_, events) = run(&text(3), &options(&folder));
    let rates = events.iter().find_map(|event| match event {
        Event::Ended { learning_rates, .. } => Some(learning_rates.clone()),
        _ => None,
    });
    assert_eq!(rates.unwrap(), [("lr".to_owned(), 0.0)]);
    let (_, events) = run(&text(4), &options(&folder));
    let said = notes(&events, "its schedule has ended");
    assert_eq!(said.len(), 1, "{events:?}");
    assert!(said[0].contains("`lr` is 0 at step 3"), "{said:?}");
}
