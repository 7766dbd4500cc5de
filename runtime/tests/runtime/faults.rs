//! What a long run meets: folders that vanish or become read-only, data that changes, disks that fill up, clocks that jump.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainspec::env::{Clock, Env};
use trainspec::session::{Event, Options};
use trainspec::train;
use trainspec::{Code, Error, State};
use trainspec_compiler::typed::Spec;
use trainspec_formats::storage;
use trainspec_formats::storage::faulty::{Effect, Fault, FaultyStorage};

use crate::resume::{
    Folder, bits, options, resumed_at, run, run_in, training, training_with, uninterrupted,
};

/// Trains, and does something once, at the first event of a kind.
fn disturbed(
    spec: &Arc<Spec>,
    options: &Options,
    at: impl Fn(&Event) -> bool,
    disturb: impl FnOnce(),
) -> (Result<State, Error>, Vec<Event>) {
    let mut events = Vec::new();
    let mut disturb = Some(disturb);
    let trained = train(spec, options, &mut |event: &Event| {
        if at(event)
            && let Some(disturb) = disturb.take()
        {
            disturb();
        }
        events.push(event.clone());
    });
    assert!(disturb.is_none(), "nothing was disturbed: {events:?}");
    (trained, events)
}

fn is_started(event: &Event) -> bool {
    matches!(event, Event::Started { .. })
}

fn is_saved(event: &Event) -> bool {
    matches!(event, Event::Saved { .. })
}

fn notes(events: &[Event], part: &str) -> usize {
    let has = |e: &&Event| matches!(e, Event::Note(text) if text.contains(part));
    events.iter().filter(has).count()
}

#[test]
fn a_folder_that_vanishes_is_made_again() {
    let straight = uninterrupted();
    let folder = Folder::new("vanishes");
    let remove = || fs::remove_dir_all(folder.run()).unwrap();
    let (trained, _) = disturbed(&training(13, 0.05), &options(&folder), is_started, remove);
    assert_eq!(bits(&trained.unwrap()), straight);
    let (state, events) = run(&training(13, 0.05), &options(&folder));
    assert_eq!(resumed_at(&events), Some(13), "{events:?}");
    assert_eq!(bits(&state), straight);
}

#[test]
fn a_folder_that_vanishes_within_a_save_is_an_error_that_names_it() {
    let straight = uninterrupted();
    let folder = Folder::new("vanishes-later");
    let aside = || fs::rename(folder.run(), folder.0.join("aside")).unwrap();
    let (trained, _) = disturbed(&training(13, 0.05), &options(&folder), is_saved, aside);
    // The next save may be under way, or begin later and make the folder again.
    match trained {
        Ok(state) => assert_eq!(bits(&state), straight),
        Err(error) => {
            let (message, path) = (error.to_string(), folder.run().display().to_string());
            assert!(message.contains(&path), "{message}");
        }
    }
    let (state, _) = run(&training(13, 0.05), &options(&folder));
    assert_eq!(bits(&state), straight);
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error_that_names_it() {
    let folder = Folder::new("replaced");
    let replace = || {
        fs::rename(folder.run(), folder.0.join("aside")).unwrap();
        fs::write(folder.run(), "in the way").unwrap();
    };
    let (trained, _) = disturbed(&training(13, 0.05), &options(&folder), is_started, replace);
    let message = trained.unwrap_err().to_string();
    let path = folder.run().display().to_string();
    assert!(message.contains(&path), "{message}");
}

#[test]
fn a_folder_that_becomes_read_only_ends_the_run_and_keeps_what_was_saved() {
    let straight = uninterrupted();
    let folder = Folder::new("read-only");
    // Everything after the first checkpoint is refused.
    let counting = Arc::new(FaultyStorage::new(storage::local()));
    let other = Folder::new("read-only-counted");
    let (trained, _) = run_in(counting.clone(), &training(3, 0.05), &options(&other));
    trained.unwrap();
    let faulty = Arc::new(FaultyStorage::new(storage::local()));
    let fault = Fault::at(
        counting.operations() + 3,
        Effect::Fail(ErrorKind::PermissionDenied),
    );
    faulty.inject(fault.sticky());
    let (trained, _) = run_in(faulty, &training(13, 0.05), &options(&folder));
    let error = trained.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    let message = error.to_string();
    assert!(
        message.contains(&folder.run().display().to_string()),
        "{message}"
    );
    let (state, events) = run(&training(13, 0.05), &options(&folder));
    assert!(resumed_at(&events).is_some(), "{events:?}");
    assert_eq!(bits(&state), straight);
}

/// What can happen to a data file, and its name.
type Damage = (&'static str, fn(&Path));

fn damages() -> [Damage; 4] {
    [
        ("truncated", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("replaced", |path| {
            let new = path.with_extension("new");
            let text = fs::read_to_string(path).unwrap();
            fs::write(&new, text.replace(",1\n", ",2\n")).unwrap();
            fs::rename(new, path).unwrap();
        }),
        ("longer", |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text + "9,1\n").unwrap();
        }),
        ("gone", |path| fs::remove_file(path).unwrap()),
    ]
}

#[test]
fn data_that_changes_between_two_starts_is_refused_by_name() {
    let straight = uninterrupted();
    for (name, damage) in damages() {
        let folder = Folder::new(&format!("between-{name}"));
        let path = folder.0.join("points.csv");
        run(&training(7, 0.05), &options(&folder));
        let before = fs::read(&path).unwrap();
        damage(&path);
        let (refused, _) = run_in(storage::local(), &training(13, 0.05), &options(&folder));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("points.csv"), "{name}: {message}");
        // With the file of before, the run goes on as if nothing had been.
        fs::write(&path, before).unwrap();
        let (state, events) = run(&training(13, 0.05), &options(&folder));
        assert_eq!(resumed_at(&events), Some(7), "{name}: {events:?}");
        assert_eq!(bits(&state), straight, "{name}");
    }
}

#[test]
fn data_that_changes_during_a_run_ends_it_by_name() {
    let straight = uninterrupted();
    for (name, damage) in damages() {
        let folder = Folder::new(&format!("during-{name}"));
        let path = folder.0.join("points.csv");
        let before = fs::read(&path).unwrap();
        let (trained, _) = disturbed(&training(13, 0.05), &options(&folder), is_saved, || {
            damage(&path);
        });
        let message = trained.unwrap_err().to_string();
        assert!(message.contains("points.csv"), "{name}: {message}");
        // No checkpoint was made of a mixture.
        fs::write(&path, before).unwrap();
        let (state, events) = run(&training(13, 0.05), &options(&folder));
        assert!(resumed_at(&events).is_some(), "{name}: {events:?}");
        assert_eq!(bits(&state), straight, "{name}");
    }
}

#[test]
fn data_that_is_only_touched_is_the_same() {
    let folder = Folder::new("touched");
    let path = folder.0.join("points.csv");
    let (trained, _) = disturbed(&training(13, 0.05), &options(&folder), is_saved, || {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    });
    assert_eq!(bits(&trained.unwrap()), uninterrupted());
}

#[test]
fn a_disk_that_is_full_for_event_files_is_said_once_and_training_goes_on() {
    let straight = uninterrupted();
    // The first operation creates the file, later ones write and sync it.
    for at in 1..=6 {
        let folder = Folder::new(&format!("full-{at}"));
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        let fault = Fault::at(at, Effect::Tear(ErrorKind::StorageFull));
        faulty.inject(fault.sticky().only("tfevents"));
        let (trained, events) = run_in(faulty.clone(), &training(13, 0.05), &options(&folder));
        assert_eq!(bits(&trained.unwrap()), straight, "{at}");
        if faulty.has_fired() {
            let said = notes(&events, "no more summaries are written, training goes on");
            assert_eq!(said, 1, "{at}: {events:?}");
        }
        assert!(at > 3 || faulty.has_fired(), "{at}");
    }
}

#[derive(Debug, Default)]
struct JumpingClock {
    readings: AtomicU64,
    /// Readings of `now` at which it jumps, and the seconds by which it does.
    jumps: Vec<(u64, i64)>,
    /// Whether the wall time jumps back and forth by days at every reading.
    wild_wall: bool,
    offset: Mutex<i64>,
}

impl Clock for JumpingClock {
    fn now(&self) -> Duration {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
        let mut offset = self.offset.lock().unwrap();
        for (at, seconds) in &self.jumps {
            if *at == reading {
                *offset += seconds;
            }
        }
        let seconds = 1_000_000_i64.saturating_add(reading as i64 + *offset);
        Duration::from_secs(seconds.max(0) as u64)
    }

    fn unix_seconds(&self) -> f64 {
        let reading = self.readings.load(Ordering::Relaxed);
        let wild = match (self.wild_wall, reading % 2) {
            (true, 0) => 400_000.0,
            (true, _) => -400_000.0,
            (false, _) => 0.0,
        };
        1.7e9 + reading as f64 + wild
    }

    fn sleep(&self, _: Duration) {}
}

/// The steps of the saves of a run whose checkpoints are four seconds apart; the clock is read once after each step.
fn saves(name: &str, clock: JumpingClock) -> Vec<u64> {
    let folder = Folder::new(name);
    let spec = training_with(13, 0.05, "keep: 9", "");
    let mut spec = Spec::clone(&spec);
    for hook in &mut spec.hooks {
        if let trainspec_compiler::typed::HookKind::Checkpoint { every, .. } = &mut hook.kind {
            *every = trainspec_compiler::typed::Interval::Seconds(4.0);
        }
    }
    let options = Options {
        env: Env {
            clock: Arc::new(clock),
            ..Env::default()
        },
        ..options(&folder)
    };
    let mut saved = Vec::new();
    let state = train(&Arc::new(spec), &options, &mut |event: &Event| {
        if let Event::Saved { step, .. } = event {
            saved.push(*step);
        }
    });
    assert_eq!(bits(&state.unwrap()), uninterrupted(), "{name}");
    saved
}

#[test]
fn timers_outlive_clocks_that_jump() {
    let steady = saves("clock-steady", JumpingClock::default());
    assert_eq!(steady, [4, 8, 12, 13]);
    // The wall time alone: timers do not read it.
    let wild = JumpingClock {
        wild_wall: true,
        ..JumpingClock::default()
    };
    assert_eq!(saves("clock-wall", wild), steady);
    let jump = |at: u64, seconds: i64| JumpingClock {
        jumps: vec![(at, seconds)],
        ..JumpingClock::default()
    };
    // The reading of step 6 is the seventh. A day ahead is one save more, and then as before.
    let ahead = saves("clock-ahead", jump(7, 86_400));
    assert_eq!(ahead, [4, 6, 10, 13]);
    // An hour back is no hour without saves: the second that was passed over is all that is lost.
    let back = saves("clock-back", jump(7, -3_600));
    assert_eq!(back, [4, 9, 13]);
}
