//! Runs whose files fail, tear, are killed or lose power at every operation: what was saved is found, the run goes on from it, and it ends
//! with the same bytes as one that nothing interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use trainspec::env::{Env, Storage};
use trainspec::saver::NewestCheckpoint;
use trainspec::session::{Event, Options};
use trainspec::{Code, Engine, State, train};
use trainspec_compiler::typed::Spec;
use trainspec_formats::checkpoint::{CheckpointReader, Tensor as FileTensor};
use trainspec_formats::storage;
use trainspec_formats::storage::faulty::{Effect, Fault, FaultyStorage, Unsynced};

use crate::resume::{
    Folder, bits, evaluated, everything, options, resumed_at, run, run_in, training, training_with,
};

/// Which trainings are interrupted at every operation: the arguments of their `checkpoint`.
const PLAIN: &str = "";
const EVERYTHING: &str = "everything";
const BEST: &str = "best: loss";
const SAFETENSORS: &str = "format: safetensors";
const BEST_SAFETENSORS: &str = "best: loss, format: safetensors";

/// The steps of a training, and those at which it saves.
const STEPS: u64 = 7;
const SAVES: [u64; 3] = [3, 6, 7];

fn variant(steps: u64, arguments: &str) -> Arc<Spec> {
    match arguments {
        PLAIN => training(steps, 0.05),
        EVERYTHING => everything(steps),
        SAFETENSORS => training_with(steps, 0.05, "keep: 2, format: safetensors", ""),
        arguments => evaluated(steps, arguments),
    }
}

/// A checkpoint: its name, every tensor with its bytes (the records of a bundle are one), and the metadata of a safetensors file.
#[derive(Debug, PartialEq)]
struct Saved {
    name: String,
    tensors: BTreeMap<String, FileTensor>,
    metadata: BTreeMap<String, String>,
}

/// The newest checkpoint of a folder. None is passed over: whatever is listed is complete.
fn newest(folder: &Path, what: &str) -> Option<Saved> {
    let found = NewestCheckpoint::find(folder, None).unwrap();
    assert!(found.skipped.is_empty(), "{what}: {:?}", found.skipped);
    let path = found.path?;
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    let names = reader.names().into_iter().map(str::to_owned);
    let tensors = names.map(|name| (name.clone(), reader.get_tensor(&name).unwrap()));
    Some(Saved {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        tensors: tensors.collect(),
        metadata: match &reader {
            CheckpointReader::Safetensors(file) => file.metadata().clone(),
            CheckpointReader::Bundle(_) | CheckpointReader::Table(_) | CheckpointReader::Npz(_) => {
                BTreeMap::new()
            }
        },
    })
}

/// The step of the newest checkpoint of a run.
fn newest_step(folder: &Folder, what: &str) -> Option<u64> {
    let found = newest(&folder.run(), what)?;
    let name = found.name.trim_end_matches(".safetensors");
    Some(name.rsplit_once('-').unwrap().1.parse().unwrap())
}

/// What a run ends with: its state, its last checkpoint, and the best one where it keeps one.
#[derive(Debug, PartialEq)]
struct Outcome {
    state: Vec<(String, Vec<u64>)>,
    last: Saved,
    best: Option<Saved>,
}

fn outcome(state: &State, folder: &Folder, what: &str) -> Outcome {
    Outcome {
        state: bits(state),
        last: newest(&folder.run(), what).unwrap(),
        best: newest(&folder.run().join("best"), what),
    }
}

fn uninterrupted(arguments: &str) -> Outcome {
    let folder = Folder::new(&format!("straight-{:?}", std::thread::current().id()));
    let (state, events) = run(&variant(STEPS, arguments), &options(&folder));
    assert_eq!(last_save(&events), SAVES.last().copied());
    let found = outcome(&state, &folder, "straight");
    assert!(found.last.name.starts_with("model.ckpt-7"));
    assert_eq!(found.best.is_some(), arguments.contains("best"));
    found
}

/// The step of the last save that a run reported: whatever happens afterwards, it is there.
fn last_save(events: &[Event]) -> Option<u64> {
    let saves = events.iter().filter_map(|event| match event {
        Event::Saved { step, path } if !path.to_string_lossy().contains("best") => Some(*step),
        _ => None,
    });
    saves.max()
}

/// Runs again where a run was interrupted after it reported a save: it goes on from the newest checkpoint, which is at least that one, and
/// ends as `straight`. Gives the step that it went on from.
fn goes_on(
    spec: &Arc<Spec>,
    options: &Options,
    folder: &Folder,
    reported: Option<u64>,
    straight: &Outcome,
    what: &str,
) -> Option<u64> {
    let from = newest_step(folder, what);
    assert!(
        from >= reported,
        "{what}: {from:?}, and {reported:?} was saved"
    );
    newest(&folder.run().join("best"), what);
    let (state, events) = run(spec, options);
    assert_eq!(resumed_at(&events), from, "{what}: {events:?}");
    assert_eq!(outcome(&state, folder, what), *straight, "{what}");
    from
}

/// A run that is interrupted anywhere goes on from every one of its saves.
fn assert_all_saves(steps: &BTreeSet<Option<u64>>) {
    let all = std::iter::once(None).chain(SAVES.map(Some));
    assert_eq!(*steps, all.collect());
}

#[test]
fn every_failing_operation_leaves_a_run_that_resumes_to_the_same_bits() {
    for effect in [Effect::Fail, Effect::Tear] {
        fails_at_every_operation(PLAIN, effect(ErrorKind::StorageFull), true);
    }
}

#[test]
fn an_operation_that_fails_once_leaves_a_run_that_resumes_to_the_same_bits() {
    fails_at_every_operation(PLAIN, Effect::Fail(ErrorKind::StorageFull), false);
    fails_at_every_operation(SAFETENSORS, Effect::Tear(ErrorKind::StorageFull), false);
}

#[test]
fn every_failing_operation_leaves_the_same_best_checkpoint() {
    fails_at_every_operation(BEST, Effect::Tear(ErrorKind::StorageFull), true);
    fails_at_every_operation(BEST, Effect::Fail(ErrorKind::StorageFull), false);
}

#[test]
fn a_short_write_at_any_operation_changes_nothing() {
    let straight = uninterrupted(BEST);
    for n in 1.. {
        let folder = Folder::new(&format!("short-{n}"));
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        faulty.inject(Fault::at(n, Effect::Short));
        let (trained, _) = run_in(faulty.clone(), &variant(STEPS, BEST), &options(&folder));
        if !faulty.has_fired() {
            return assert!(n > 20, "a run has more than {n} operations");
        }
        let what = format!("operation {n}");
        assert_eq!(
            outcome(&trained.unwrap(), &folder, &what),
            straight,
            "{what}"
        );
    }
}

#[test]
fn what_was_saved_outlives_a_power_failure_at_any_operation() {
    for (arguments, unsynced) in [
        (BEST, Unsynced::Lost),
        (PLAIN, Unsynced::LastKept),
        (BEST_SAFETENSORS, Unsynced::LastKept),
    ] {
        fails_at_every_operation(arguments, Effect::PowerFailure(unsynced), true);
    }
}

fn fails_at_every_operation(arguments: &str, effect: Effect, sticky: bool) {
    let straight = uninterrupted(arguments);
    let spec = variant(STEPS, arguments);
    let (mut failures, mut steps) = (0, BTreeSet::new());
    for n in 1.. {
        let folder = Folder::new(&format!("fail-{n}-{:?}", std::thread::current().id()));
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        faulty.inject(Fault {
            sticky,
            ..Fault::at(n, effect)
        });
        let (trained, events) = run_in(faulty.clone(), &spec, &options(&folder));
        if !faulty.has_fired() {
            assert!(n > 20, "a run has more than {n} operations");
            break;
        }
        let what = format!(
            "{arguments} {effect:?} at {:?}",
            faulty.log().get(n as usize - 1)
        );
        match (trained, effect) {
            // What may fail without a loss.
            (Ok(state), _) => assert_eq!(bits(&state), straight.state, "{what}"),
            (Err(_), Effect::PowerFailure(_)) => failures += 1,
            (Err(error), _) => {
                failures += 1;
                let code = error.code();
                let is_expected = matches!(code, Code::ResourceExhausted | Code::Internal);
                assert!(is_expected, "{what}: {error}");
            }
        }
        let saved = last_save(&events);
        steps.insert(goes_on(
            &spec,
            &options(&folder),
            &folder,
            saved,
            &straight,
            &what,
        ));
    }
    assert!(failures > 20, "{failures}");
    assert_all_saves(&steps);
}

#[test]
fn a_read_that_fails_while_a_run_resumes_changes_nothing() {
    let straight = uninterrupted(BEST);
    let spec = variant(STEPS, BEST);
    let folder = Folder::new("reads");
    run(&variant(4, BEST), &options(&folder));
    let aside = folder.0.join("aside");
    copy(&folder.run(), &aside);
    let mut failures = 0;
    for effect in [Effect::Fail(ErrorKind::Other), Effect::Short] {
        // Besides the checkpoint there is the data, which is read again and again.
        for n in (1..).step_by(3) {
            fs::remove_dir_all(folder.run()).unwrap();
            copy(&aside, &folder.run());
            let faulty = Arc::new(FaultyStorage::new(storage::local()));
            faulty.inject_read(Fault::at(n, effect));
            let (trained, events) = run_in(faulty.clone(), &spec, &options(&folder));
            if !faulty.has_fired() {
                assert!(n > 60, "a run has more than {n} reads");
                break;
            }
            let what = format!("{effect:?} at read {n}");
            match trained {
                Ok(state) => {
                    // A checkpoint that cannot be read is passed over, aloud.
                    let at = resumed_at(&events);
                    let said =
                        |e: &Event| matches!(e, Event::Note(text) if text.contains("model.ckpt-4"));
                    assert!(
                        at == Some(4) || events.iter().any(said),
                        "{what}: {events:?}"
                    );
                    assert_eq!(outcome(&state, &folder, &what), straight, "{what}");
                }
                Err(error) => {
                    failures += 1;
                    assert_ne!(effect, Effect::Short, "{what}: {error}");
                    let at = goes_on(&spec, &options(&folder), &folder, Some(4), &straight, &what);
                    assert!(at.is_some());
                }
            }
        }
    }
    assert!(failures > 10, "{failures}");
}

/// Copies a folder with what is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &copied),
            false => drop(fs::copy(&path, &copied).unwrap()),
        }
    }
}

/// The variables that tell a child process of a test what to do: the operation at which it is killed, and the folder.
const KILL_AT: &str = "TRAINSPEC_TEST_KILL_AT";
const KILL_FOLDER: &str = "TRAINSPEC_TEST_KILL_FOLDER";
const KILL_VARIANT: &str = "TRAINSPEC_TEST_KILL_VARIANT";

/// The process that [`a_process_killed_at_every_operation_resumes_to_the_same_bits`] starts: it trains until its storage kills it, and
/// writes down the saves that were reported.
#[test]
fn child_that_is_killed() {
    let (Ok(at), Ok(folder)) = (std::env::var(KILL_AT), std::env::var(KILL_FOLDER)) else {
        return;
    };
    let faulty = Arc::new(FaultyStorage::new(storage::local()));
    faulty.inject(Fault::at(at.parse().unwrap(), Effect::Kill));
    let folder = std::mem::ManuallyDrop::new(Folder(folder.into()));
    let arguments = std::env::var(KILL_VARIANT).unwrap();
    let storage: Arc<dyn Storage> = faulty;
    let options = Options {
        env: Env::with_storage(storage),
        ..options(&folder)
    };
    let mut reported = Vec::new();
    let trained = train(
        &variant(STEPS, &arguments),
        &options,
        &mut |event: &Event| {
            reported.push(event.clone());
            if let (Event::Saved { .. }, Some(step)) = (event, last_save(&reported)) {
                // At once, since it may be killed meanwhile.
                fs::write(folder.0.join("new"), step.to_string()).unwrap();
                fs::rename(folder.0.join("new"), folder.0.join("reported")).unwrap();
            }
        },
    );
    trained.unwrap();
}

/// Starts a process that trains in a folder and is killed by SIGKILL at an operation; whether it was.
fn killed_at(n: u64, arguments: &str, folder: &Folder) -> bool {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "interruptions::child_that_is_killed"])
        .env(KILL_AT, n.to_string())
        .env(KILL_VARIANT, arguments)
        .env(KILL_FOLDER, &folder.0)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let status = child.status().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        let killed = status.signal() == Some(9);
        assert!(killed || status.success(), "operation {n}: {status}");
        killed
    }
    #[cfg(not(unix))]
    !status.success()
}

#[test]
fn a_process_killed_at_every_operation_resumes_to_the_same_bits() {
    is_killed_at_every_operation(PLAIN, 1);
}

#[test]
fn a_process_with_an_input_that_does_everything_is_killed_and_resumes_to_the_same_bits() {
    is_killed_at_every_operation(EVERYTHING, 5);
}

#[test]
fn a_process_killed_at_every_operation_keeps_the_same_best_safetensors() {
    is_killed_at_every_operation(BEST_SAFETENSORS, 1);
}

/// Kills at every `nth` operation.
fn is_killed_at_every_operation(arguments: &str, nth: usize) {
    let straight = uninterrupted(arguments);
    let mut steps = BTreeSet::new();
    for n in (1..).step_by(nth) {
        let folder = Folder::new(&format!("kill-{n}-{}", arguments.len()));
        if !killed_at(n, arguments, &folder) {
            assert!(n > 20, "a run has more than {n} operations");
            break;
        }
        let reported = fs::read_to_string(folder.0.join("reported")).ok();
        let reported = reported.map(|step| step.parse().unwrap());
        // It goes on with another number of threads, and has the same bits.
        let options = Options {
            engine: Engine::compiled(1 + n as usize % 2),
            ..options(&folder)
        };
        let (spec, what) = (variant(STEPS, arguments), format!("killed at {n}"));
        steps.insert(goes_on(
            &spec, &options, &folder, reported, &straight, &what,
        ));
        // What the killed process had begun is removed.
        let folders = [folder.run(), folder.run().join("best")];
        let names = folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let names = names.flatten();
        let names = names.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        let left: Vec<String> = names.filter(|name| name.contains(".tmp-")).collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
    assert_all_saves(&steps);
}
