//! Saving and restoring: what TensorFlow keeps is kept, what it reads is written, and nothing is lost on the way.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value as Json;
use trainspec::env::Clock;
use trainspec::saver::{
    Checkpoint, CheckpointManager, CheckpointOptions, Format, ManagerOptions, NewestCheckpoint,
    RECORDS_KEY, Records, RestoreOptions, RestorePlan, Retained, Saver, SaverOptions, Strictness,
    VarList, restore,
};
use trainspec::{Code, State};
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_formats::checkpoint::{CheckpointReader, CheckpointState};
use trainspec_formats::proto::SaverDef;
use trainspec_testing::folders::{Folder, oracle};

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub(crate) struct SetClock(Mutex<f64>);

impl SetClock {
    pub(crate) fn at(seconds: f64) -> Arc<SetClock> {
        Arc::new(SetClock(Mutex::new(seconds)))
    }

    pub(crate) fn set(&self, seconds: f64) {
        *self.0.lock().unwrap() = seconds;
    }
}

impl Clock for SetClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_seconds(&self) -> f64 {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, _: Duration) {}
}

/// The cases of a kind in `misc.json`.
pub(crate) fn cases(kind: &str) -> Vec<Json> {
    let path = oracle().join("misc.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let json: Json = serde_json::from_str(&text).unwrap();
    let all = json["cases"].as_array().unwrap().iter();
    let found: Vec<Json> = all.filter(|case| case["kind"] == kind).cloned().collect();
    assert!(!found.is_empty(), "no case of {kind}");
    found
}

/// A state of named tensors.
pub(crate) fn state<const N: usize>(tensors: [(&str, Tensor); N]) -> State {
    let named = tensors.into_iter();
    named.map(|(name, t)| (name.to_owned(), t)).collect()
}

pub(crate) fn vector(values: &[f32]) -> Tensor {
    Tensor::new(&[values.len()], values.to_vec())
}

fn texts(list: &Json) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(name).collect()
}

fn max_to_keep(args: &Json) -> Option<u32> {
    args["max_to_keep"].as_u64().map(|n| n as u32)
}

/// The steps whose index is there.
fn kept(folder: &Folder, prefix: &str) -> Vec<u64> {
    let files = folder.files();
    let steps = files.iter().filter_map(|file| {
        let step = file.strip_prefix(prefix)?.strip_suffix(".index")?;
        step.parse().ok()
    });
    let mut steps: Vec<u64> = steps.collect();
    steps.sort();
    for step in &steps {
        let data = format!("{prefix}{step}.data-00000-of-00001");
        assert!(files.contains(&data), "{data}");
    }
    let data = files.iter().filter(|file| file.contains(".data-")).count();
    assert_eq!(data, steps.len(), "data files without an index: {files:?}");
    steps
}

fn steps(list: &Json) -> Vec<u64> {
    let list = list.as_array().unwrap().iter();
    let mut steps: Vec<u64> = list.map(|step| step.as_u64().unwrap()).collect();
    steps.sort();
    steps
}

#[test]
fn oracle_saver_keeps_what_tensorflow_keeps() {
    let cases = cases("saver_keep");
    for case in &cases {
        let folder = Folder::new();
        let clock = SetClock::at(case["created"].as_f64().unwrap());
        let args = &case["args"];
        let options = SaverOptions {
            max_to_keep: max_to_keep(args),
            keep_checkpoint_every_n_hours: args["keep_checkpoint_every_n_hours"].as_f64().unwrap(),
            ..SaverOptions::default()
        };
        let mut saver = Saver::with_clock(options, clock.clone()).unwrap();
        let state = state([("w", vector(&[1.0]))]);
        for row in case["rows"].as_array().unwrap() {
            clock.set(row["time"].as_f64().unwrap());
            let step = row["step"].as_u64().unwrap();
            let prefix = folder.file("model");
            saver
                .save(&state, &Records::default(), &prefix, Some(step))
                .unwrap();
            let at = format!("{}, step {step}", case["name"]);
            assert_eq!(kept(&folder, "model-"), steps(&row["kept"]), "{at}");
            let listed = names(&saver.last_checkpoints());
            assert_eq!(listed, texts(&row["last_checkpoints"]), "{at}");
            let file = CheckpointState::read(&folder.file("checkpoint")).unwrap();
            let paths: Vec<PathBuf> = file
                .all_model_checkpoint_paths
                .iter()
                .map(PathBuf::from)
                .collect();
            assert_eq!(names(&paths), texts(&row["state_paths"]), "{at}");
            assert!(
                file.model_checkpoint_path
                    .ends_with(&format!("model-{step}"))
            );
        }
    }
    println!("{} cases", cases.len());
}

#[test]
fn oracle_manager_keeps_what_tensorflow_keeps() {
    let cases = cases("manager_keep");
    // A manager that is made again before every save goes on by the state file alone.
    for restarted in [false, true] {
        for case in &cases {
            let folder = Folder::new();
            let clock = SetClock::at(case["created"].as_f64().unwrap());
            let args = &case["args"];
            let options = ManagerOptions {
                max_to_keep: max_to_keep(args),
                keep_checkpoint_every_n_hours: args["keep_checkpoint_every_n_hours"].as_f64(),
                ..ManagerOptions::default()
            };
            let new = || {
                CheckpointManager::with_clock(&folder.0, options.clone(), clock.clone()).unwrap()
            };
            let mut manager = new();
            let state = state([("w", vector(&[1.0]))]);
            for row in case["rows"].as_array().unwrap() {
                clock.set(row["time"].as_f64().unwrap());
                let step = row["step"].as_u64().unwrap();
                manager
                    .save(&state, &Records::default(), Some(step))
                    .unwrap();
                let at = format!("{}, step {step}", case["name"]);
                assert_eq!(kept(&folder, "ckpt-"), steps(&row["kept"]), "{at}");
                let listed = names(&manager.checkpoints());
                assert_eq!(listed, texts(&row["checkpoints"]), "{at}");
                let latest = names(&[manager.latest_checkpoint().unwrap()]);
                assert_eq!(latest, [row["latest"].as_str().unwrap()], "{at}");
                if restarted {
                    manager = new();
                    assert_eq!(names(&manager.checkpoints()), listed, "{at}");
                }
            }
        }
    }
    println!("{} cases", cases.len());
}

/// One tensor of each element type.
fn of_every_type() -> State {
    let f16 = Tensor::from_f64s(&Type::new(DType::F16, &[2]), [0.5, -2.0]);
    let bf16 = Tensor::from_f64s(&Type::new(DType::Bf16, &[2]), [0.5, -2.0]);
    state([
        ("a/f16", f16),
        ("a/bf16", bf16),
        ("a/f32", Tensor::new(&[2, 1], vec![1.5_f32, f32::NAN])),
        ("f64", Tensor::scalar(-0.0_f64)),
        ("i8", Tensor::new(&[3], vec![-1_i8, 0, 1])),
        ("i16", Tensor::new(&[0, 4], Vec::<i16>::new())),
        ("i32", Tensor::scalar(-7_i32)),
        ("u8", Tensor::scalar(200_u8)),
        ("bool", Tensor::new(&[2], vec![true, false])),
        ("#scratch", Tensor::scalar(1.0_f32)),
        ("global_step", Tensor::scalar(41_i64)),
    ])
}

fn with_strings() -> State {
    let own = of_every_type();
    let strings = Tensor::new(&[2], vec![b"one".to_vec(), vec![0xff, 0]]);
    let names = own.names().iter().cloned();
    let named = names.zip(own.values().iter().cloned());
    named.chain([("words".to_owned(), strings)]).collect()
}

/// A state with the names and types of another, and with zeros or empty strings as values.
fn blank(state: &State) -> State {
    let blank = |tensor: &Tensor| match tensor.data() {
        Data::String(strings) => Tensor::of(
            tensor.shape(),
            Data::String(vec![Vec::new(); strings.len()]),
        ),
        _ => Tensor::zeros(&tensor.ty()),
    };
    let names = state.names().iter().cloned();
    names.zip(state.values().iter().map(blank)).collect()
}

/// Compares all but scratch values, bit by bit.
fn assert_same(found: &State, expected: &State) {
    for (name, tensor) in expected.names().iter().zip(expected.values()) {
        if !name.starts_with('#') {
            let (found, expected) = (found.get(name).unwrap(), tensor);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}");
        }
    }
}

fn some_records() -> Records {
    let mut records = Records::default();
    records.insert("input", "v1\nepoch 3\nrecord 17");
    records.insert("stopping", "v1 best 0.5");
    records
}

#[test]
fn every_format_restores_every_type_and_the_records() {
    for (format, sharded) in [
        (Format::V2, None),
        (Format::V2, Some(3)),
        (Format::V1, None),
        (Format::V1, Some(2)),
        (Format::Safetensors, None),
    ] {
        let mut saved = match format {
            Format::Safetensors => of_every_type(),
            Format::V1 | Format::V2 => with_strings(),
        };
        if format == Format::V1 {
            // The first version has no bfloat16.
            let names = saved.names().iter().cloned();
            let named = names.zip(saved.values().iter().cloned());
            saved = named.filter(|(name, _)| name != "a/bf16").collect();
        }
        let folder = Folder::new();
        let options = SaverOptions {
            format,
            sharded,
            ..SaverOptions::default()
        };
        let mut saver = Saver::new(options).unwrap();
        let records = some_records();
        let path = saver
            .save(&saved, &records, &folder.file("model"), Some(41))
            .unwrap_or_else(|e| panic!("{format:?}: {e}"));
        let reader = CheckpointReader::open_prefix(&path).unwrap();
        assert!(!reader.has_tensor("#scratch"));
        let mut restored = blank(&saved);
        let done = saver.restore(&mut restored, &path).unwrap();
        assert_same(&restored, &saved);
        assert_eq!(done.records, records, "{format:?}");
        assert_eq!(done.plan.left_over, Vec::<String>::new());
        // The state file leads to it as well.
        let newest = NewestCheckpoint::find(&folder.0, None).unwrap();
        assert_eq!(newest.path.as_ref(), Some(&path), "{:?}", newest.skipped);
        // And so do the names of the files alone.
        std::fs::remove_file(folder.file("checkpoint")).unwrap();
        let newest = NewestCheckpoint::find(&folder.0, None).unwrap();
        assert_eq!(newest.path, Some(path), "{:?}", newest.skipped);
    }
}

#[test]
fn a_checkpoint_without_records_holds_the_tensors_alone() {
    let folder = Folder::new();
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let own = state([("w", vector(&[1.0])), ("#micro", Tensor::scalar(1_i64))]);
    let path = saver
        .save(&own, &Records::default(), &folder.file("model"), None)
        .unwrap();
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    assert_eq!(reader.names(), ["w"]);
    saver
        .save(&own, &some_records(), &folder.file("model"), None)
        .unwrap();
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    assert_eq!(reader.names(), [RECORDS_KEY, "w"]);
    assert_eq!(reader.entry(RECORDS_KEY).unwrap().1, [0_usize; 0]);
}

#[test]
fn wrong_arguments_are_named() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let none = Records::default();
    let save = |options: SaverOptions, prefix: &Path, step: Option<u64>| {
        let saved = Saver::new(options).and_then(|mut saver| saver.save(&own, &none, prefix, step));
        saved.map_err(|e| (e.code(), e.to_string()))
    };
    let base = SaverOptions::default;
    let invalid = |found: Result<PathBuf, (Code, String)>, part: &str| {
        let (code, text) = found.unwrap_err();
        assert!(text.contains(part), "{text}");
        assert_eq!(code, Code::InvalidArgument, "{text}");
    };
    let missing = folder.file("no/such/model");
    invalid(save(base(), &missing, None), "does not exist");
    assert!(!folder.file("no").exists());
    invalid(save(base(), &folder.file("checkpoint"), None), "collides");
    // With a step there is no collision.
    assert!(save(base(), &folder.file("checkpoint"), Some(1)).is_ok());
    let named = |name: &str| SaverOptions {
        latest_filename: Some(name.to_owned()),
        ..base()
    };
    invalid(
        save(named("a/b"), &folder.file("m"), None),
        "without a folder",
    );
    invalid(save(named("m"), &folder.file("m"), None), "collides");
    invalid(save(base(), Path::new(""), None), "neither a prefix");
    invalid(save(base(), &folder.file("sub/"), None), "is a folder");
    let empty = |allow_empty| SaverOptions {
        var_list: VarList::Names(Vec::new()),
        allow_empty,
        ..base()
    };
    invalid(save(empty(false), &folder.file("m"), None), "no variables");
    assert!(save(empty(true), &folder.file("m"), None).is_ok());
    let sharded = |n, format| SaverOptions {
        sharded: Some(n),
        format,
        ..base()
    };
    invalid(
        save(sharded(0, Format::V2), &folder.file("m"), None),
        "is 0",
    );
    let one_file = save(sharded(2, Format::Safetensors), &folder.file("m"), None);
    invalid(one_file, "always one");
    let hours = SaverOptions {
        keep_checkpoint_every_n_hours: f64::NAN,
        ..base()
    };
    invalid(save(hours, &folder.file("m"), None), "NaN");
    let list = |list: &[&str]| SaverOptions {
        var_list: VarList::Names(list.iter().map(|n| (*n).to_owned()).collect()),
        ..base()
    };
    invalid(
        save(list(&["w", "w"]), &folder.file("m"), None),
        "at least two",
    );
    let (code, text) = save(list(&["v"]), &folder.file("m"), None).unwrap_err();
    assert_eq!(code, Code::NotFound, "{text}");
    let reserved = SaverOptions {
        var_list: VarList::Map([(RECORDS_KEY.to_owned(), "w".to_owned())].into()),
        ..base()
    };
    invalid(save(reserved, &folder.file("m"), None), "reserved");
}

#[test]
fn options_change_names_and_paths() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0])), ("v", vector(&[2.0]))]);
    let options = SaverOptions {
        var_list: VarList::Map([("old/w".to_owned(), "w".to_owned())].into()),
        pad_step_number: true,
        save_relative_paths: true,
        latest_filename: Some("newest".to_owned()),
        filename: Some(folder.file("run/model")),
        create_folder: true,
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(options).unwrap();
    let none = Records::default();
    let path = saver.save(&own, &none, Path::new(""), Some(7)).unwrap();
    assert_eq!(path, folder.file("run/model-00000007"));
    let text = std::fs::read_to_string(folder.file("run/newest")).unwrap();
    assert!(text.starts_with("model_checkpoint_path: \"model-00000007\"\n"));
    assert_eq!(
        CheckpointReader::open_prefix(&path).unwrap().names(),
        ["old/w"]
    );
    let mut other = blank(&own);
    saver.restore(&mut other, &path).unwrap();
    assert_eq!(other.get("w"), own.get("w"));
    assert_ne!(other.get("v"), own.get("v"));
    // Without the state file nothing is listed or deleted.
    let quiet = SaverOptions {
        write_state: false,
        max_to_keep: Some(1),
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(quiet).unwrap();
    for step in 1..4 {
        saver
            .save(&own, &none, &folder.file("m"), Some(step))
            .unwrap();
    }
    assert_eq!(kept(&folder, "m-"), [1, 2, 3]);
    assert!(saver.last_checkpoints().is_empty());
    assert!(!folder.file("checkpoint").exists());
}

#[test]
fn saving_a_step_again_moves_it_to_the_end() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let options = SaverOptions {
        max_to_keep: Some(2),
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(options).unwrap();
    for step in [1, 2, 1, 3] {
        let prefix = folder.file("model");
        saver
            .save(&own, &Records::default(), &prefix, Some(step))
            .unwrap();
    }
    assert_eq!(names(&saver.last_checkpoints()), ["model-1", "model-3"]);
    assert!(!folder.file("model-2.index").exists());
    assert!(
        restore(
            &mut blank(&own),
            &folder.file("model-1"),
            &RestoreOptions::default()
        )
        .is_ok()
    );
}

#[test]
fn a_restarted_saver_goes_on_deleting() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let none = Records::default();
    let options = || SaverOptions {
        max_to_keep: Some(2),
        ..SaverOptions::default()
    };
    let mut first = Saver::new(options()).unwrap();
    for step in [1, 2] {
        first
            .save(&own, &none, &folder.file("model"), Some(step))
            .unwrap();
    }
    std::fs::write(folder.file("model-1.meta"), "graph").unwrap();
    let mut listed = first.last_checkpoints();
    listed.push(folder.file("model-gone"));
    let mut second = Saver::new(options()).unwrap();
    second.recover_last_checkpoints(&listed).unwrap();
    assert_eq!(names(&second.last_checkpoints()), ["model-1", "model-2"]);
    second
        .save(&own, &none, &folder.file("model"), Some(3))
        .unwrap();
    assert_eq!(kept(&folder, "model-"), [2, 3]);
    // The meta graph goes with its checkpoint.
    assert!(!folder.file("model-1.meta").exists());
    // Those of unknown age are never deleted.
    let mut third = Saver::new(options()).unwrap();
    third.set_last_checkpoints(&second.last_checkpoints());
    third
        .save(&own, &none, &folder.file("model"), Some(4))
        .unwrap();
    assert_eq!(names(&third.last_checkpoints()), ["model-3", "model-4"]);
    assert_eq!(kept(&folder, "model-"), [2, 3, 4]);
    let mut fourth = Saver::new(options()).unwrap();
    let timed = third.last_checkpoints().into_iter();
    let timed = timed.map(|path| Retained { path, time: 0.0 }).collect();
    fourth.set_last_checkpoints_with_time(timed);
    fourth
        .save(&own, &none, &folder.file("model"), Some(5))
        .unwrap();
    assert_eq!(kept(&folder, "model-"), [2, 4, 5]);
}

#[test]
fn nothing_is_deleted_before_the_new_one_is_listed() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let none = Records::default();
    let options = SaverOptions {
        max_to_keep: Some(1),
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(options).unwrap();
    saver
        .save(&own, &none, &folder.file("model"), Some(1))
        .unwrap();
    // The state file cannot be replaced.
    std::fs::remove_file(folder.file("checkpoint")).unwrap();
    std::fs::create_dir(folder.file("checkpoint")).unwrap();
    assert!(
        saver
            .save(&own, &none, &folder.file("model"), Some(2))
            .is_err()
    );
    assert_eq!(kept(&folder, "model-"), [1, 2]);
    assert_eq!(names(&saver.last_checkpoints()), ["model-1"]);
    std::fs::remove_dir(folder.file("checkpoint")).unwrap();
    saver
        .save(&own, &none, &folder.file("model"), Some(2))
        .unwrap();
    assert!(!folder.file("model-1.index").exists());
    assert!(folder.file("model-2.index").exists());
}

#[test]
fn a_failed_deletion_is_reported_and_tried_again() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let none = Records::default();
    let options = SaverOptions {
        max_to_keep: Some(1),
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(options).unwrap();
    saver
        .save(&own, &none, &folder.file("model"), Some(1))
        .unwrap();
    // A folder cannot be removed as a file.
    std::fs::create_dir(folder.file("model-1.meta")).unwrap();
    saver
        .save(&own, &none, &folder.file("model"), Some(2))
        .unwrap();
    let failed = saver.take_failed_deletions();
    assert_eq!(names(&[failed[0].path.clone()]), ["model-1"]);
    assert!(
        failed[0].to_string().contains("model-1.meta"),
        "{}",
        failed[0]
    );
    std::fs::remove_dir(folder.file("model-1.meta")).unwrap();
    std::fs::write(folder.file("model-1.meta"), "graph").unwrap();
    saver
        .save(&own, &none, &folder.file("model"), Some(3))
        .unwrap();
    assert!(saver.take_failed_deletions().is_empty());
    assert!(!folder.file("model-1.meta").exists());
    assert_eq!(kept(&folder, "model-"), [3]);
}

#[test]
fn a_strict_restore_lists_everything_and_changes_nothing() {
    let folder = Folder::new();
    let own = state([
        ("dense/kernel", vector(&[1.0, 2.0])),
        ("dense/bias", vector(&[3.0])),
        ("scale", Tensor::scalar(1.0_f64)),
        ("same", Tensor::scalar(5_i64)),
    ]);
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let path = saver
        .save(&own, &Records::default(), &folder.file("model"), None)
        .unwrap();
    let mut other = state([
        ("dense/kernal", vector(&[0.0, 0.0])),
        ("dense/bias", vector(&[0.0, 0.0])),
        ("scale", Tensor::scalar(0.0_f32)),
        ("same", Tensor::scalar(0_i64)),
        ("#scratch", Tensor::scalar(9.0_f32)),
    ]);
    let before = other.clone();
    let strict = RestoreOptions::default();
    let error = restore(&mut other, &path, &strict).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let text = error.to_string();
    for part in [
        "`dense/kernal` is not in the checkpoint; the nearest name there is `dense/kernel`",
        "`dense/bias` is f32[2], and in the checkpoint f32[1]",
        "`scale` is f32, and in the checkpoint f64",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(other, before);
    let partial = RestoreOptions {
        strictness: Strictness::Partial,
        ..strict
    };
    let done = restore(&mut other, &path, &partial).unwrap();
    assert_eq!(other.get("same").unwrap().to_i64s(), [5]);
    assert_eq!(other.get("dense/bias"), before.get("dense/bias"));
    assert_eq!(other.get("#scratch"), before.get("#scratch"));
    assert_eq!(done.plan.left_over, ["dense/kernel"]);
    let shown = done.plan.to_string();
    assert!(
        shown.contains("another type in the checkpoint:\n  dense/bias: f32[2] here, f32[1] there"),
        "{shown}"
    );
    assert!(
        shown.contains("left over in the checkpoint:\n  dense/kernel\n"),
        "{shown}"
    );
    // Only changed: another class of error.
    let mut bias = state([("dense/bias", vector(&[0.0, 0.0]))]);
    let error = restore(&mut bias, &path, &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn reshape_takes_as_many_elements() {
    let folder = Folder::new();
    let own = state([(
        "w",
        Tensor::new(&[2, 3], (0..6).map(|x| x as f32).collect()),
    )]);
    let reshape = SaverOptions {
        reshape: true,
        ..SaverOptions::default()
    };
    let mut saver = Saver::new(reshape).unwrap();
    let path = saver
        .save(&own, &Records::default(), &folder.file("model"), None)
        .unwrap();
    let mut other = state([("w", vector(&[0.0; 6]))]);
    assert!(restore(&mut other, &path, &RestoreOptions::default()).is_err());
    saver.restore(&mut other, &path).unwrap();
    assert_eq!(
        other.get("w"),
        Some(&vector(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    );
    let mut short = state([("w", vector(&[0.0; 5]))]);
    assert!(saver.restore(&mut short, &path).is_err());
}

#[test]
fn averages_take_the_place_of_their_variables() {
    let folder = Folder::new();
    let own = state([
        ("w", vector(&[1.0])),
        ("w/ExponentialMovingAverage", vector(&[2.0])),
        ("b", vector(&[3.0])),
        ("global_step", Tensor::scalar(9_i64)),
    ]);
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let path = saver
        .save(&own, &Records::default(), &folder.file("model"), None)
        .unwrap();
    let averages = RestoreOptions {
        averages: true,
        ..RestoreOptions::default()
    };
    let mut other = state([("w", vector(&[0.0])), ("b", vector(&[0.0]))]);
    let done = restore(&mut other, &path, &averages).unwrap();
    assert_eq!(other.get("w"), Some(&vector(&[2.0])));
    assert_eq!(other.get("b"), Some(&vector(&[3.0])));
    assert_eq!(done.plan.left_over, ["global_step", "w"]);
    assert!(
        done.plan
            .to_string()
            .contains("  w from w/ExponentialMovingAverage\n")
    );
    // Where there are none, that is said.
    let plain = state([("w", vector(&[1.0]))]);
    let path = saver
        .save(&plain, &Records::default(), &folder.file("plain"), None)
        .unwrap();
    let error = restore(&mut other, &path, &averages).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}

#[test]
fn a_damaged_checkpoint_leaves_the_state_as_it_was() {
    let folder = Folder::new();
    let own = state([("a", vector(&[1.0; 100])), ("b", vector(&[2.0; 100]))]);
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let path = saver
        .save(&own, &some_records(), &folder.file("model"), None)
        .unwrap();
    let data = folder.file("model.data-00000-of-00001");
    let good = std::fs::read(&data).unwrap();
    for at in [5, 405, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        std::fs::write(&data, &bytes).unwrap();
        let mut other = blank(&own);
        let error = saver.restore(&mut other, &path).unwrap_err();
        assert_eq!(error.code(), Code::DataLoss, "byte {at}: {error}");
        assert_eq!(other, blank(&own), "byte {at}");
    }
}

#[test]
fn the_newest_complete_checkpoint_is_found() {
    let own = state([("w", vector(&[1.0; 64]))]);
    let none = Records::default();
    let made = || {
        let folder = Folder::new();
        let mut saver = Saver::new(SaverOptions::default()).unwrap();
        for step in [8, 9, 10] {
            saver
                .save(&own, &none, &folder.file("model"), Some(step))
                .unwrap();
        }
        folder
    };
    let found = |folder: &Folder| {
        let newest = NewestCheckpoint::find(&folder.0, None).unwrap();
        let skipped: Vec<PathBuf> = newest.skipped.iter().map(|s| s.path.clone()).collect();
        (newest.path.map(|p| names(&[p]).remove(0)), names(&skipped))
    };
    let index = "model-10.index";
    let data = "model-10.data-00000-of-00001";
    // (what is done, what is found, what is skipped)
    type Damage<'a> = &'a dyn Fn(&Folder);
    let cases: [(&str, Damage<'_>, &str, &[&str]); 10] = [
        ("nothing", &|_| {}, "model-10", &[]),
        (
            "a save that was interrupted before its index, and no list",
            &|f| {
                std::fs::remove_file(f.file(index)).unwrap();
                std::fs::remove_file(f.file("checkpoint")).unwrap();
            },
            "model-9",
            &[],
        ),
        (
            "a checksum",
            &|f| {
                let mut bytes = std::fs::read(f.file(data)).unwrap();
                bytes[17] ^= 1;
                f.write(data, bytes);
            },
            "model-9",
            &["model-10"],
        ),
        (
            "a truncated data file",
            &|f| {
                let bytes = std::fs::read(f.file(data)).unwrap();
                f.write(data, &bytes[..100]);
            },
            "model-9",
            &["model-10"],
        ),
        (
            "a missing data file",
            &|f| std::fs::remove_file(f.file(data)).unwrap(),
            "model-9",
            &["model-10"],
        ),
        (
            "a missing index",
            &|f| std::fs::remove_file(f.file(index)).unwrap(),
            "model-9",
            &["model-10"],
        ),
        (
            "an empty index",
            &|f| drop(f.write(index, "")),
            "model-9",
            &["model-10"],
        ),
        (
            "no state file",
            &|f| std::fs::remove_file(f.file("checkpoint")).unwrap(),
            "model-10",
            &[],
        ),
        (
            "a broken state file",
            &|f| drop(f.write("checkpoint", "model_checkpoint_path: \"mod")),
            "model-10",
            &["checkpoint"],
        ),
        (
            "a list of checkpoints that are gone",
            &|f| drop(f.write("checkpoint", "model_checkpoint_path: \"gone-7\"\n")),
            "model-10",
            &["gone-7"],
        ),
    ];
    for (what, damage, path, skipped) in cases {
        let folder = made();
        damage(&folder);
        let skipped: Vec<String> = skipped.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(found(&folder), (Some(path.to_owned()), skipped), "{what}");
    }
    // A folder that was moved: the paths in it are absolute, and what they name is beside the state file.
    let (old, new) = (made(), Folder::new());
    for file in old.files() {
        std::fs::rename(old.file(&file), new.file(&file)).unwrap();
    }
    let newest = NewestCheckpoint::find(&new.0, None).unwrap();
    assert_eq!(
        newest.path,
        Some(new.file("model-10")),
        "{:?}",
        newest.skipped
    );
    // Nothing at all, and a folder that is not there.
    let empty = Folder::new();
    assert_eq!(found(&empty), (None, Vec::new()));
    let newest = NewestCheckpoint::find(&empty.file("no"), None).unwrap();
    assert!(newest.path.is_none() && newest.skipped.is_empty());
}

#[test]
fn objects_are_restored_by_name_and_counted() {
    let folder = Folder::new();
    let own = with_strings();
    let mut checkpoint = Checkpoint::new(CheckpointOptions::default()).unwrap();
    let prefix = folder.file("run/ckpt");
    for _ in 0..2 {
        checkpoint.save(&own, &some_records(), &prefix).unwrap();
    }
    let text = std::fs::read_to_string(folder.file("run/checkpoint")).unwrap();
    assert_eq!(
        text,
        "model_checkpoint_path: \"ckpt-2\"\nall_model_checkpoint_paths: \"ckpt-2\"\n"
    );
    let path = folder.file("run/ckpt-2");
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    let graph = reader.object_graph().unwrap().unwrap();
    assert_eq!(graph.named("a/f32").len(), 1);
    assert!(graph.value_at("a/f32").is_some());
    assert!(graph.named("#scratch").is_empty());
    // By objects, and by a `Saver`, which says that it goes by names.
    let mut other = Checkpoint::new(CheckpointOptions::default()).unwrap();
    let mut restored = blank(&own);
    let status = other.restore(&mut restored, &path).unwrap();
    status.assert_consumed().unwrap();
    assert_same(&restored, &own);
    assert_eq!(status.records, some_records());
    assert_eq!(other.save_counter(), 2);
    let mut restored = blank(&own);
    let saver = Saver::new(SaverOptions::default()).unwrap();
    let done = saver.restore(&mut restored, &path).unwrap();
    assert_same(&restored, &own);
    assert!(done.plan.notes[0].contains("object-based"));
    // A checkpoint by names is read as well; what is missing is in the status.
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let one = state([("w", vector(&[1.0]))]);
    let path = saver
        .save(&one, &Records::default(), &folder.file("m"), None)
        .unwrap();
    let mut two = state([("w", vector(&[0.0])), ("v", vector(&[0.0]))]);
    let status = other.read(&mut two, &path).unwrap();
    assert_eq!(two.get("w"), one.get("w"));
    assert!(status.assert_existing_objects_matched().is_err());
    assert!(status.warning().unwrap().contains("`v`"));
    let wrong = other.read(&mut state([("w", Tensor::scalar(0.0_f32))]), &path);
    assert_eq!(wrong.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn a_checkpoint_is_written_in_the_background() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let options = ManagerOptions {
        max_to_keep: Some(2),
        checkpoint: CheckpointOptions {
            enable_async: true,
            ..CheckpointOptions::default()
        },
        ..ManagerOptions::default()
    };
    let mut manager = CheckpointManager::new(&folder.0, options).unwrap();
    for _ in 0..4 {
        manager.save(&own, &Records::default(), None).unwrap();
    }
    manager.sync().unwrap();
    assert_eq!(kept(&folder, "ckpt-"), [3, 4]);
    // The error of a save is returned by what comes next.
    std::fs::remove_file(folder.file("checkpoint")).unwrap();
    std::fs::create_dir(folder.file("checkpoint")).unwrap();
    manager.save(&own, &Records::default(), None).unwrap();
    assert!(manager.sync().is_err());
    assert!(manager.sync().is_ok());
}

#[test]
fn a_manager_saves_at_its_interval_and_restores_what_is_whole() {
    let folder = Folder::new();
    let at = |step: i64| {
        state([
            ("w", vector(&[step as f32])),
            ("global_step", Tensor::scalar(step)),
        ])
    };
    let options = ManagerOptions {
        checkpoint_interval: Some(10),
        ..ManagerOptions::default()
    };
    let mut manager = CheckpointManager::new(&folder.0, options.clone()).unwrap();
    let mut fresh = at(0);
    let made = manager.restore_or_initialize(&mut fresh, |state| {
        state.set(0, vector(&[7.0]));
        Ok(())
    });
    assert!(made.unwrap().is_none());
    assert_eq!(fresh.get("w"), Some(&vector(&[7.0])));
    let none = Records::default();
    let mut saved = Vec::new();
    for step in [0, 5, 10, 19, 20] {
        saved.push(manager.save(&at(step), &none, None).unwrap().is_some());
    }
    assert_eq!(saved, [true, false, true, false, true]);
    manager.save_now(&at(21), &none, Some(21)).unwrap();
    assert_eq!(
        names(&manager.checkpoints()),
        ["ckpt-1", "ckpt-2", "ckpt-3", "ckpt-21"]
    );
    folder.write("ckpt-21.index", "");
    let mut again = CheckpointManager::new(&folder.0, options.clone()).unwrap();
    let mut found = at(0);
    let restored = again
        .restore_or_initialize(&mut found, |_| Ok(()))
        .unwrap()
        .unwrap();
    assert_eq!(restored.path, folder.file("ckpt-3"));
    assert_eq!(names(&[restored.skipped[0].path.clone()]), ["ckpt-21"]);
    assert_eq!(found, at(20));
    // The interval goes on from the restored step.
    assert!(again.save(&at(29), &none, None).unwrap().is_none());
    assert!(again.save(&at(30), &none, None).unwrap().is_some());
    // If all are damaged, a run does not begin again.
    for file in folder.files() {
        if file.ends_with(".index") {
            folder.write(&file, "");
        }
    }
    let mut last = CheckpointManager::new(&folder.0, options).unwrap();
    assert!(last.restore_or_initialize(&mut found, |_| Ok(())).is_err());
    for (options, part) in [
        (
            ManagerOptions {
                max_to_keep: Some(0),
                ..ManagerOptions::default()
            },
            "must be positive",
        ),
        (
            ManagerOptions {
                checkpoint_interval: Some(1),
                step_counter: None,
                ..ManagerOptions::default()
            },
            "`step_counter`",
        ),
        (
            ManagerOptions {
                checkpoint_name: "a/b".to_owned(),
                ..ManagerOptions::default()
            },
            "the name of a file",
        ),
    ] {
        let error = CheckpointManager::new(&folder.0, options).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_manager_survives_a_clock_that_is_set_back() {
    let folder = Folder::new();
    let own = state([("w", vector(&[1.0]))]);
    let clock = SetClock::at(10_000.0);
    let options = ManagerOptions {
        max_to_keep: Some(2),
        ..ManagerOptions::default()
    };
    let new = || CheckpointManager::with_clock(&folder.0, options.clone(), clock.clone()).unwrap();
    let mut manager = new();
    manager.save(&own, &Records::default(), Some(1)).unwrap();
    let text = std::fs::read_to_string(folder.file("checkpoint")).unwrap();
    assert!(
        text.contains("all_model_checkpoint_timestamps: 10000"),
        "{text}"
    );
    assert!(text.contains("last_preserved_timestamp: 9999"), "{text}");
    clock.set(5_000.0);
    // As in TensorFlow, what seems to be of the future is forgotten and stays.
    let mut manager = new();
    assert!(manager.checkpoints().is_empty());
    for step in [2, 3, 4] {
        manager.save(&own, &Records::default(), Some(step)).unwrap();
    }
    assert_eq!(kept(&folder, "ckpt-"), [1, 3, 4]);
}

#[test]
fn a_plan_of_thousands_of_names_takes_no_quadratic_time() {
    let folder = Folder::new();
    let many = |prefix: &str| -> State {
        let names = (0..3000).map(|i| format!("{prefix}/with/a/rather/long/name/{i}"));
        names.map(|name| (name, Tensor::scalar(1.0_f32))).collect()
    };
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let path = saver
        .save(
            &many("old"),
            &Records::default(),
            &folder.file("model"),
            None,
        )
        .unwrap();
    let plan = RestorePlan::new(&many("new"), &path, &RestoreOptions::default()).unwrap();
    assert_eq!(plan.missing.len(), 3000);
    assert!(plan.missing[0].nearest.is_some());
    assert!(plan.missing[2999].nearest.is_none());
}

/// What TensorFlow wrote, as a state of the same names and types; types that no state has are left out.
fn state_of(reader: &CheckpointReader) -> State {
    let own = |dtype: trainspec_formats::tensor::DType| {
        let own = [
            ("float16", DType::F16),
            ("bfloat16", DType::Bf16),
            ("float32", DType::F32),
            ("float64", DType::F64),
            ("int8", DType::I8),
            ("int16", DType::I16),
            ("int32", DType::I32),
            ("int64", DType::I64),
            ("uint8", DType::U8),
            ("bool", DType::Bool),
        ];
        let found = own.iter().find(|(name, _)| *name == dtype.name());
        found.map(|(_, own)| *own)
    };
    let entries = reader.entries();
    let known = entries.filter_map(|(name, dtype, shape)| {
        let ty = Type::new(own(dtype)?, shape);
        Some((name.to_owned(), Tensor::zeros(&ty)))
    });
    known.collect()
}

/// The numbers of a tensor of the reference data.
fn numbers(json: &Json) -> Vec<f64> {
    let number = |one: &Json| match one {
        Json::Bool(one) => f64::from(u8::from(*one)),
        Json::String(text) => text.parse().unwrap(),
        other => other.as_f64().unwrap(),
    };
    json["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect()
}

#[test]
fn oracle_checkpoints_of_tensorflow_are_restored() {
    for name in [
        "single",
        "sharded",
        "partitioned",
        "dtypes",
        "v1",
        "v1_partitioned",
    ] {
        let folder = oracle().join("checkpoints");
        let json = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let json: Json = serde_json::from_str(&json).unwrap();
        let newest = NewestCheckpoint::find(&folder.join(name), None).unwrap();
        assert!(newest.skipped.is_empty(), "{name}: {:?}", newest.skipped);
        let path = newest.path.unwrap();
        let mut restored = state_of(&CheckpointReader::open_prefix(&path).unwrap());
        let saver = Saver::new(SaverOptions::default()).unwrap();
        saver.restore(&mut restored, &path).unwrap();
        let mut compared = 0;
        for tensor in json["tensors"].as_array().unwrap() {
            let variable = tensor["name"].as_str().unwrap();
            let Some(found) = restored.get(variable) else {
                continue;
            };
            let Some(expected) = tensor.get("value") else {
                continue;
            };
            let expected = match expected["data"].as_array() {
                // Large ones are not exact as floats.
                Some(data) if data.first().is_some_and(Json::is_i64) => {
                    let data = data.iter().map(|one| one.as_i64().unwrap());
                    Tensor::from_i64s(&found.ty(), data)
                }
                _ => Tensor::from_f64s(&found.ty(), numbers(expected)),
            };
            let at = format!("{name}: {variable}");
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{at}");
            compared += 1;
        }
        assert_eq!(compared, restored.names().len(), "{name}");
    }
}

#[test]
fn oracle_objects_of_tensorflow_are_restored_by_name() {
    let path = oracle().join("checkpoints/object/ckpt-1");
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    let graph = reader.object_graph().unwrap().unwrap();
    let mut restored = State::from_iter([]);
    let mut keys = Vec::new();
    for variable in graph.variables() {
        let key = &variable.value.key;
        let (dtype, shape) = reader.entry(key).unwrap();
        if dtype == trainspec_formats::tensor::DType::Float32 && variable.path != "save_counter" {
            keys.push((variable.path.clone(), key.clone()));
            let names = restored.names().iter().cloned();
            let named = names.zip(restored.values().iter().cloned());
            let new = Tensor::zeros(&Type::new(DType::F32, shape));
            restored = named.chain([(variable.path.clone(), new)]).collect();
        }
    }
    assert!(keys.len() > 3, "{keys:?}");
    let mut checkpoint = Checkpoint::new(CheckpointOptions::default()).unwrap();
    let status = checkpoint.restore(&mut restored, &path).unwrap();
    status.assert_existing_objects_matched().unwrap();
    assert_eq!(checkpoint.save_counter(), 1);
    for (path, key) in keys {
        let stored = reader.get_tensor(&key).unwrap().to_vec::<f32>().unwrap();
        let found = restored.get(&path).unwrap().values::<f32>().unwrap();
        assert_eq!(found, stored, "{path}");
    }
}

#[test]
fn oracle_objects_have_their_names_in_a_graph() {
    let path = oracle().join("checkpoints/object/ckpt-1");
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    let zeros = |key: &str| {
        let (_, shape) = reader.entry(key).unwrap();
        Tensor::zeros(&Type::new(DType::F32, shape))
    };
    let kernel = "model/w/.ATTRIBUTES/VARIABLE_VALUE";
    let slot = "model/w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE";
    let mut own = state([("w", zeros(kernel)), ("w/Adam", zeros(slot))]);
    let done = restore(&mut own, &path, &RestoreOptions::default()).unwrap();
    for (variable, key) in [("w", kernel), ("w/Adam", slot)] {
        let stored = reader.get_tensor(key).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(own.get(variable).unwrap().values::<f32>().unwrap(), stored);
    }
    assert!(!done.plan.notes.is_empty());
    // Several objects are called `Variable`: none of them is meant.
    let mut own = state([("Variable", Tensor::scalar(0.0_f32))]);
    let error = restore(&mut own, &path, &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}

#[test]
fn oracle_savers_of_meta_graphs_survive_a_round_trip() {
    for name in ["single", "sharded", "v1"] {
        let path = oracle().join(format!("checkpoints/{name}.json"));
        let json: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let json = &json["meta"]["saver_def"];
        let text = |field: &str| json[field].as_str().unwrap().to_owned();
        let def = SaverDef {
            filename_tensor_name: text("filename_tensor_name"),
            save_tensor_name: text("save_tensor_name"),
            restore_op_name: text("restore_op_name"),
            max_to_keep: json["max_to_keep"].as_i64().unwrap() as i32,
            sharded: json["sharded"].as_bool().unwrap(),
            keep_checkpoint_every_n_hours: json["keep_checkpoint_every_n_hours"].as_f64().unwrap()
                as f32,
            version: match json["version"].as_str().unwrap() {
                "V1" => 1,
                "V2" => 2,
                other => panic!("{other}"),
            },
        };
        let saver = Saver::from_proto(&def).unwrap();
        assert_eq!(saver.to_proto().unwrap(), def, "{name}");
        for wrong in [
            SaverDef {
                max_to_keep: -1,
                ..def.clone()
            },
            SaverDef {
                version: 3,
                ..def.clone()
            },
            SaverDef {
                restore_op_name: String::new(),
                ..def.clone()
            },
        ] {
            let error = Saver::from_proto(&wrong).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        }
    }
}

#[test]
fn oracle_damaged_checkpoints_of_tensorflow_are_skipped() {
    for name in [
        "damaged_flipped_data",
        "damaged_flipped_index",
        "damaged_missing_data",
        "damaged_truncated_data",
        "damaged_truncated_index",
    ] {
        let folder = oracle().join("checkpoints").join(name);
        let newest = NewestCheckpoint::find(&folder, None).unwrap();
        assert!(newest.path.is_none(), "{name}: {:?}", newest.path);
        assert!(!newest.skipped.is_empty(), "{name}");
    }
}
