//! Exact resume: a run that is interrupted in any way and started again ends with the bits of one that never was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec::env::{Env, Storage};
use trainspec::saver::NewestCheckpoint;
use trainspec::session::{End, Event, Options};
use trainspec::train;
use trainspec::{Code, Engine, Error, State, StopToken};
use trainspec_compiler::typed::Spec;
use trainspec_formats::events::{Purge, Run, RunOptions};
use trainspec_formats::storage;

use crate::support::spec;

/// A folder for one test, removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = format!("trainspec-resume-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let rows = (0..23).map(|i| format!("{},{}\n", f64::from(i) / 7.0, i % 5));
        fs::write(folder.join("points.csv"), rows.collect::<String>()).unwrap();
        let more = "0.5,1\nred,2\n1.5,3\n2.5\n3.5,0\n";
        fs::write(folder.join("more.csv"), more).unwrap();
        Folder(folder)
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Shuffled data with random maps, a filter and epochs, dropout, Adam with a schedule, averages and accumulation.
pub(crate) fn training(steps: u64, learning_rate: f64) -> Arc<Spec> {
    training_with(steps, learning_rate, "keep: 2", "")
}

/// As [`training`], with an evaluation and more arguments of `checkpoint`.
pub(crate) fn evaluated(steps: u64, arguments: &str) -> Arc<Spec> {
    let eval = "
        data held { source csv(\"points.csv\"); feature x: f32; feature y: f32; batch 5; }
        eval { data held; every 2 steps; metrics [loss]; }";
    training_with(steps, 0.05, &format!("keep: 2, {arguments}"), eval)
}

pub(crate) fn training_with(
    steps: u64,
    learning_rate: f64,
    arguments: &str,
    items: &str,
) -> Arc<Spec> {
    let data = "source csv(\"points.csv\"); feature x: f32; feature y: f32; filter y < 4.0;
        map x = x + 0.1 * random_normal([]); shuffle (buffer: 7, seed: 3); repeat; batch 2;";
    training_on(data, steps, learning_rate, arguments, items)
}

fn training_on(
    data: &str,
    steps: u64,
    learning_rate: f64,
    arguments: &str,
    items: &str,
) -> Arc<Spec> {
    spec(&format!(
        r#"
        spec resumed;
        data points {{ {data} }}
        model (x: f32[batch], y: f32[batch]) {{
            let h = expand_dims(x, axis: 1) |> dense(4) |> tanh |> dropout(0.25);
            let guess = dense(h, 1)[_, 0];
            loss mean(square(guess - y));
        }}
        train {{
            data       points;
            schedule   lr = exponential_decay({learning_rate}, decay_steps: 5, decay_rate: 0.9);
            optimizer  adam(learning_rate: lr);
            clip       global_norm(1.0);
            ema        (decay: 0.9, num_updates: step);
            accumulate 4;
            steps      {steps};
        }}
        {items}
        hooks {{
            checkpoint (dir: "unused", every: 3 steps, {arguments});
            summary    (every: 2 steps) {{ scalar [loss, lr]; histogram "**/kernel"; }}
            log        ([loss], every: 100 steps, at_end: false);
        }}
        "#
    ))
}

pub(crate) fn options(folder: &Folder) -> Options {
    Options {
        folder: folder.0.clone(),
        dir: Some(folder.run()),
        // Whatever the machine has: with a second thread batches are prepared ahead.
        engine: Engine::compiled(2),
        ..Options::default()
    }
}

pub(crate) fn run_in(
    storage: Arc<dyn Storage>,
    spec: &Arc<Spec>,
    options: &Options,
) -> (Result<State, Error>, Vec<Event>) {
    let options = Options {
        env: Env::with_storage(storage),
        ..options.clone()
    };
    let mut events = Vec::new();
    let trained = train(spec, &options, &mut |event: &Event| {
        events.push(event.clone())
    });
    (trained, events)
}

pub(crate) fn run(spec: &Arc<Spec>, options: &Options) -> (State, Vec<Event>) {
    let (trained, events) = run_in(storage::local(), spec, options);
    (trained.unwrap_or_else(|e| panic!("{e}")), events)
}

/// The bits of all state.
pub(crate) fn bits(state: &State) -> Vec<(String, Vec<u64>)> {
    let names = state.names().iter().zip(state.values());
    let bits = |tensor: &trainspec::Tensor| match tensor.dtype().is_float() {
        true => tensor.to_f64s().iter().map(|x| x.to_bits()).collect(),
        false => tensor.to_i64s().iter().map(|n| *n as u64).collect(),
    };
    names.map(|(name, t)| (name.clone(), bits(t))).collect()
}

pub(crate) fn resumed_at(events: &[Event]) -> Option<u64> {
    events.iter().find_map(|event| match event {
        Event::Resumed { step, .. } => Some(*step),
        _ => None,
    })
}

/// The state of a run of 13 steps that nothing interrupted.
pub(crate) fn uninterrupted() -> Vec<(String, Vec<u64>)> {
    let folder = Folder::new(&format!("straight-{:?}", std::thread::current().id()));
    bits(&run(&training(13, 0.05), &options(&folder)).0)
}

#[test]
fn a_run_in_pieces_has_the_bits_of_one() {
    let straight = uninterrupted();
    let folder = Folder::new("pieces");
    for (steps, from) in [(1, None), (4, Some(1)), (5, Some(4)), (13, Some(5))] {
        let (state, events) = run(&training(steps, 0.05), &options(&folder));
        assert_eq!(resumed_at(&events), from, "{events:?}");
        assert_eq!(state.step(), steps);
        if steps == 13 {
            assert_eq!(bits(&state), straight);
        }
    }
}

#[test]
fn a_finished_run_says_so_and_changes_nothing() {
    let folder = Folder::new("finished");
    let (first, _) = run(&training(4, 0.05), &options(&folder));
    let (again, events) = run(&training(4, 0.05), &options(&folder));
    assert_eq!(bits(&first), bits(&again));
    let says = |event: &Event| matches!(event, Event::Note(text) if text.contains("has finished"));
    assert!(events.iter().any(says), "{events:?}");
    assert!(!events.iter().any(|e| matches!(e, Event::Saved { .. })));
}

/// Everything that an input can do: files in turn and lines that are left out, both kinds of shuffles, a mixture, a filter, random maps,
/// windows and batches that are prepared ahead.
pub(crate) fn everything(steps: u64) -> Arc<Spec> {
    let data =
        "source mix(a: 2, b: 1, seed: 1); filter y < 4.0; map x = x + 0.1 * random_normal([]);
        window (size: 2, shift: 1); map x = x[0] + 0.1 * x[1]; map y = y[1];
        shuffle (buffer: 7, seed: 3); repeat; batch 2; prefetch 3;";
    let items = "data a {
            source csv([\"points.csv\", \"more.csv\"], on_error: skip(max: 2)); feature x: f32; feature y: f32;
            interleave (cycle: 2, block: 3); map x = x + 0.1 * random_normal([]);
        }
        data b { source csv(\"points.csv\"); feature x: f32; feature y: f32; cache; shuffle; take 9; }";
    training_on(data, steps, 0.05, "keep: 2", items)
}

#[test]
fn an_input_that_does_everything_resumes_to_the_same_bits_after_any_step() {
    let folder = Folder::new("everything-straight");
    let straight = bits(&run(&everything(13), &options(&folder)).0);
    for step in 1..13 {
        let folder = Folder::new(&format!("everything-{step}"));
        let one = Options {
            engine: Engine::compiled(1 + step as usize % 2),
            ..options(&folder)
        };
        run(&everything(step), &one);
        let (state, events) = run(&everything(13), &options(&folder));
        assert_eq!(resumed_at(&events), Some(step), "{events:?}");
        assert_eq!(bits(&state), straight, "step {step}");
    }
}

#[test]
fn a_stop_token_ends_a_run_that_goes_on_later() {
    let straight = uninterrupted();
    let folder = Folder::new("stop");
    let stop = StopToken::default();
    let stopped = Options {
        stop: stop.clone(),
        ..options(&folder)
    };
    let mut end = None;
    let spec = training(13, 0.05);
    let state = train(&spec, &stopped, &mut |event: &Event| match event {
        Event::Saved { step: 6, .. } => stop.request_stop(),
        Event::Ended { step, why, .. } => end = Some((*step, why.clone())),
        _ => {}
    });
    let (step, why) = end.unwrap();
    assert_eq!(why, End::Stopped);
    assert!((6..13).contains(&step), "{step}");
    assert_eq!(state.unwrap().step(), step);
    let (state, events) = run(&spec, &options(&folder));
    assert_eq!(resumed_at(&events), Some(step));
    assert_eq!(bits(&state), straight);
}

#[test]
fn another_training_in_the_folder_is_refused_with_what_differs() {
    let folder = Folder::new("other");
    run(&training(4, 0.05), &options(&folder));
    let refused = |spec: &Arc<Spec>, options: &Options| {
        let (refused, _) = run_in(storage::local(), spec, options);
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        let help = format!("{:?}", error.diagnostic());
        assert!(help.contains("--fresh"), "{help}");
        error.to_string()
    };
    let message = refused(&training(4, 0.06), &options(&folder));
    assert!(
        message.contains("0.06") && message.contains("0.05"),
        "{message}"
    );
    let seeded = Options {
        seed: Some(9),
        ..options(&folder)
    };
    let message = refused(&training(4, 0.05), &seeded);
    assert!(message.contains("seed is 0, and not 9"), "{message}");
    let mut data = fs::read(folder.0.join("points.csv")).unwrap();
    data[0] = b'1';
    fs::write(folder.0.join("points.csv"), data).unwrap();
    let message = refused(&training(4, 0.05), &options(&folder));
    assert!(message.contains("points.csv has changed"), "{message}");
    // A fresh run moves the old one aside.
    let fresh = Options {
        fresh: true,
        ..options(&folder)
    };
    let (_, events) = run(&training(4, 0.06), &fresh);
    assert_eq!(resumed_at(&events), None);
    assert!(folder.0.join("run.1").join("checkpoint").exists());
}

#[test]
fn the_folder_of_a_run_without_a_step_is_free_for_another_training() {
    let folder = Folder::new("no-step");
    let resumed = Options {
        resume: true,
        ..options(&folder)
    };
    let (ended, _) = run_in(storage::local(), &training(4, 0.06), &resumed);
    assert!(ended.is_err());
    // Nor is it described before it can begin.
    assert!(!folder.run().join("run.json").exists());
    let (_, events) = run(&training(4, 0.05), &options(&folder));
    assert_eq!(resumed_at(&events), None);
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over_aloud() {
    let straight = uninterrupted();
    let folder = Folder::new("damaged");
    run(&training(7, 0.05), &options(&folder));
    let data = |step: u64| {
        folder
            .run()
            .join(format!("model.ckpt-{step}.data-00000-of-00001"))
    };
    let mut bytes = fs::read(data(7)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(data(7), bytes).unwrap();
    let (state, events) = run(&training(13, 0.05), &options(&folder));
    assert_eq!(resumed_at(&events), Some(6), "{events:?}");
    let says = |event: &Event| matches!(event, Event::Note(text) if text.contains("model.ckpt-7"));
    assert!(events.iter().any(says), "{events:?}");
    assert_eq!(bits(&state), straight);
}

#[test]
fn a_run_does_not_begin_again_in_the_place_of_damaged_checkpoints() {
    let folder = Folder::new("all-damaged");
    run(&training(7, 0.05), &options(&folder));
    let all = || {
        let files = fs::read_dir(folder.run()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        files.filter(|path| path.to_string_lossy().contains(".data-"))
    };
    for path in all() {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let before: Vec<(PathBuf, Vec<u8>)> =
        all().map(|p| (p.clone(), fs::read(&p).unwrap())).collect();
    assert!(!before.is_empty());
    let spec = training(13, 0.05);
    let refused = train(&spec, &options(&folder), &mut |_: &Event| {}).unwrap_err();
    assert_eq!(refused.code(), Code::DataLoss);
    let text = refused.to_string();
    assert!(
        text.starts_with("no checkpoint can be used: ") && text.contains("model.ckpt-7"),
        "{text}"
    );
    let after: Vec<(PathBuf, Vec<u8>)> =
        all().map(|p| (p.clone(), fs::read(&p).unwrap())).collect();
    assert_eq!(before, after);
    let fresh = Options {
        fresh: true,
        ..options(&folder)
    };
    assert_eq!(bits(&run(&spec, &fresh).0), uninterrupted());
}

#[test]
fn a_run_that_goes_on_elsewhere_says_that_its_bits_may_differ() {
    let folder = Folder::new("elsewhere");
    let interpreted = Options {
        engine: Engine::Interpreted,
        ..options(&folder)
    };
    run(&training(4, 0.05), &interpreted);
    let (_, events) = run(&training(4, 0.05), &interpreted);
    let says = |event: &Event| matches!(event, Event::Note(text) if text.contains("not promised"));
    assert!(!events.iter().any(says), "{events:?}");
    // The checkpoint says it, not the folder: a run that makes no step here leaves it as it is.
    for _ in 0..2 {
        let (_, events) = run(&training(4, 0.05), &options(&folder));
        assert!(events.iter().any(says), "{events:?}");
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = Folder::new("lock");
    fs::create_dir_all(folder.run()).unwrap();
    let mut lock = storage::local()
        .try_lock(&folder.run().join("run.lock"))
        .unwrap()
        .unwrap();
    lock.write("4711").unwrap();
    let (refused, _) = run_in(storage::local(), &training(4, 0.05), &options(&folder));
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("in use") && message.contains("4711"),
        "{message}"
    );
}

#[test]
fn a_resumed_run_is_one_curve() {
    let folder = Folder::new("curve");
    // Killed after step 10 was written and before it was saved: the steps from 10 on are made again.
    run(&training(9, 0.05), &options(&folder));
    run(&training(11, 0.05), &options(&folder));
    fs::remove_file(folder.run().join("model.ckpt-11.index")).unwrap();
    let (_, events) = run(&training(13, 0.05), &options(&folder));
    assert_eq!(resumed_at(&events), Some(9), "{events:?}");
    let read = Run::read(
        &folder.run(),
        RunOptions {
            purge: Purge::Restarts,
            ..RunOptions::default()
        },
    )
    .unwrap();
    let steps = |tag: &str| -> Vec<i64> {
        let series = read.series.get(tag).unwrap_or_else(|| panic!("no {tag}"));
        series.points.iter().map(|point| point.step).collect()
    };
    for tag in ["loss", "lr", "dense/kernel"] {
        assert_eq!(steps(tag), [2, 4, 6, 8, 10, 12], "{tag}");
    }
}

#[test]
fn retention_goes_on_after_a_resume() {
    let folder = Folder::new("keep");
    run(&training(6, 0.05), &options(&folder));
    run(&training(13, 0.05), &options(&folder));
    let index = |name: &Path| name.extension().is_some_and(|e| e == "index");
    let names = fs::read_dir(folder.run())
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut kept: Vec<String> = names
        .filter(|name| index(name))
        .map(|name| name.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    kept.sort();
    assert_eq!(kept, ["model.ckpt-12", "model.ckpt-13"]);
}

#[test]
fn what_interrupted_saves_have_left_is_removed_and_never_taken_for_a_checkpoint() {
    let folder = Folder::new("temporaries");
    let options = options(&folder);
    run(&training(4, 0.05), &options);
    let dir = options.dir.clone().unwrap();
    let left = [
        "model.ckpt-9.data-00000-of-00001.tmp-4711-1",
        "model.ckpt-9.index.tmp-4711-2",
    ];
    for name in left {
        fs::write(dir.join(name), "").unwrap();
    }
    let newest = NewestCheckpoint::find(&dir, None).unwrap();
    assert!(newest.skipped.is_empty(), "{:?}", newest.skipped);
    let (ended, events) = run_in(storage::local(), &training(6, 0.05), &options);
    ended.unwrap();
    let said =
        |event: &Event| matches!(event, Event::Note(note) if note.contains("removed 2 files"));
    assert!(events.iter().any(said), "{events:?}");
    assert!(left.iter().all(|name| !dir.join(name).exists()));
}

#[test]
fn the_folder_says_what_was_run() {
    let folder = Folder::new("description");
    let options = options(&folder);
    let spec = training(4, 0.05);
    run(&spec, &options);
    let dir = options.dir.unwrap();
    let text = fs::read_to_string(dir.join("spec.trainspec")).unwrap();
    assert_eq!(text, &*spec.text);
    let run: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    assert!(run["threads"].as_u64().unwrap() >= 1);
    assert!(run["constants"].is_object());
    let data = run["data"].as_object().unwrap();
    assert!(data.values().all(|file| file["modified"].is_u64()));
}

/// The values of `loss` that a run evaluated, by step.
fn evaluations(events: &[Event]) -> Vec<(u64, f64)> {
    let evaluated = events.iter().filter_map(|event| match event {
        Event::Evaluated { step, metrics, .. } => Some((*step, metrics[0].1.value())),
        _ => None,
    });
    evaluated.collect()
}

fn files_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_best_checkpoint_is_that_of_the_best_evaluation() {
    for (mode, least) in [("", true), (", mode: min", true), (", mode: max", false)] {
        let folder = Folder::new(&format!("best-{}", mode.len()));
        let spec = evaluated(13, &format!("best: loss{mode}"));
        let (_, events) = run(&spec, &options(&folder));
        let found = evaluations(&events);
        assert_eq!(found.len(), 7, "{found:?}");
        let sign = if least { 1.0 } else { -1.0 };
        let by_value = |a: &&(u64, f64), b: &&(u64, f64)| (a.1 * sign).total_cmp(&(b.1 * sign));
        let (step, _) = found.iter().min_by(by_value).unwrap();
        let name = format!("model.ckpt-{step}");
        let expected = [
            "checkpoint".to_owned(),
            format!("{name}.data-00000-of-00001"),
            format!("{name}.index"),
        ];
        assert_eq!(files_in(&folder.run().join("best")), expected, "{found:?}");
        let saved = |event: &Event| matches!(event, Event::Saved { path, .. } if path.ends_with(format!("best/{name}")));
        assert!(events.iter().any(saved), "{events:?}");
    }
}

#[test]
fn a_lost_best_checkpoint_is_said_and_made_again() {
    let folder = Folder::new("lost-best");
    run(&evaluated(6, "best: loss"), &options(&folder));
    fs::remove_dir_all(folder.run().join("best")).unwrap();
    let (_, events) = run(&evaluated(8, "best: loss"), &options(&folder));
    let says = |event: &Event| matches!(event, Event::Note(text) if text.contains("the best checkpoint best/model.ckpt-") && text.contains("is not there"));
    assert!(events.iter().any(says), "{events:?}");
    assert!(folder.run().join("best").join("checkpoint").exists());
    // Another choice replaces it, aloud.
    let (_, events) = run(&evaluated(10, "best: loss, mode: max"), &options(&folder));
    let says = |event: &Event| matches!(event, Event::Note(text) if text.contains("was not chosen by the greatest `loss`"));
    assert!(events.iter().any(says), "{events:?}");
}

#[test]
fn a_damaged_safetensors_checkpoint_is_passed_over_aloud() {
    let straight = uninterrupted();
    let folder = Folder::new("damaged-safetensors");
    let format = "format: safetensors, keep: 2";
    run(&training_with(7, 0.05, format, ""), &options(&folder));
    let file = folder.run().join("model.ckpt-7.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (state, events) = run(&training_with(13, 0.05, format, ""), &options(&folder));
    assert_eq!(resumed_at(&events), Some(6), "{events:?}");
    let says = |event: &Event| matches!(event, Event::Note(text) if text.contains("model.ckpt-7.safetensors") && text.contains("checksum"));
    assert!(events.iter().any(says), "{events:?}");
    assert_eq!(bits(&state), straight);
    let kept = files_in(&folder.run());
    let kept: Vec<&String> = kept
        .iter()
        .filter(|n| n.ends_with(".safetensors"))
        .collect();
    // What is damaged is no longer listed, and is not deleted.
    let expected = ["12", "13", "7"].map(|step| format!("model.ckpt-{step}.safetensors"));
    assert_eq!(kept, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_run_that_saves_some_variables_says_what_starts_over() {
    let folder = Folder::new("vars");
    let some = |steps, vars: &str| training_with(steps, 0.05, &format!("vars: {vars}"), "");
    let (first, _) = run(&some(6, "[\"dense/*\", \"dense_1/*\"]"), &options(&folder));
    let (resumed, events) = run(&some(6, "\"**\""), &options(&folder));
    assert_eq!(resumed_at(&events), Some(6), "{events:?}");
    let note = events.iter().find_map(|event| match event {
        Event::Note(text) if text.contains("start over") => Some(text.clone()),
        _ => None,
    });
    let note = note.unwrap_or_else(|| panic!("{events:?}"));
    assert!(note.contains("5 of "), "{note}");
    assert!(note.contains("\n  dense/kernel/Adam"), "{note}");
    for name in ["dense/kernel", "dense_1/bias", "global_step"] {
        assert_eq!(resumed.get(name), first.get(name), "{name}");
    }
    let starts_over =
        |e: &Event| matches!(e, Event::Note(text) if text.ends_with("so the input starts over"));
    assert!(events.iter().any(starts_over), "{events:?}");
    // `**` is all of the state: the run goes on exactly.
    run(&some(8, "\"**\""), &options(&folder));
    let (_, events) = run(&some(9, "\"**\""), &options(&folder));
    assert_eq!(resumed_at(&events), Some(8), "{events:?}");
    assert!(
        !events
            .iter()
            .any(|e| matches!(e, Event::Note(text) if text.contains("start"))),
        "{events:?}"
    );
    let slot = resumed.get("dense/kernel/Adam").unwrap();
    assert!(slot.to_f64s().iter().all(|x| *x == 0.0));
    // A variable that the checkpoint should hold, and does not, is an error.
    let strict = Folder::new("vars-strict");
    run(&training(4, 0.05), &options(&strict));
    let (failed, _) = {
        let state: State = [(
            "dense/kernal".to_owned(),
            first.get("dense/kernel").unwrap().clone(),
        )]
        .into_iter()
        .collect();
        let mut saver = trainspec::saver::Saver::new(Default::default()).unwrap();
        let prefix = strict.run().join("model.ckpt");
        saver
            .save(&state, &Default::default(), &prefix, Some(9))
            .unwrap();
        run_in(storage::local(), &training(13, 0.05), &options(&strict))
    };
    let message = failed.unwrap_err().to_string();
    assert!(
        message.contains(
            "`dense/kernel` is not in the checkpoint; the nearest name there is `dense/kernal`"
        ),
        "{message}"
    );
}
