//! `CheckpointManager` and object-based checkpoints over files that fail, tear or lose power at every operation.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use trainspec::env::Storage;
use trainspec::saver::{CheckpointManager, CheckpointOptions, ManagerOptions, Records};
use trainspec::{Error, State, Tensor};
use trainspec_formats::clock::FixedClock;
use trainspec_formats::storage;
use trainspec_formats::storage::faulty::{Effect, Fault, FaultyStorage, Unsynced};
use trainspec_testing::folders::Folder;

/// How often a state is saved.
const SAVES: u64 = 4;

fn options(enable_async: bool) -> ManagerOptions {
    ManagerOptions {
        max_to_keep: Some(2),
        checkpoint: CheckpointOptions {
            enable_async,
            ..CheckpointOptions::default()
        },
        ..ManagerOptions::default()
    }
}

/// A state whose every value says which save it is.
fn state(number: u64) -> State {
    let value = number as f32;
    let vector = ("layer/w".to_owned(), Tensor::new(&[3], vec![value; 3]));
    let step = ("global_step".to_owned(), Tensor::scalar(number as i64));
    [vector, step].into_iter().collect()
}

fn manager(
    storage: &Arc<dyn Storage>,
    folder: &Folder,
    enable_async: bool,
) -> Result<CheckpointManager, Error> {
    let clock = Arc::new(FixedClock { unix_seconds: 7.0 });
    let folder = folder.0.join("managed");
    CheckpointManager::with_clock_in(storage, &folder, options(enable_async), clock)
}

/// Saves these; gives the last that was saved, and the error that ended it.
fn save(manager: &mut CheckpointManager, from: u64, to: u64) -> (u64, Option<Error>) {
    for number in from..=to {
        let saved = manager.save(&state(number), &Records::default(), None);
        if let Err(error) = saved.and_then(|_| manager.sync()) {
            return (number - 1, Some(error));
        }
    }
    (to, None)
}

fn walk(effect: Effect, enable_async: bool) {
    let mut newest = BTreeSet::new();
    for at in 1.. {
        let folder = Folder::new();
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        faulty.inject(Fault::at(at, effect));
        let storage: Arc<dyn Storage> = faulty.clone();
        let mut first = manager(&storage, &folder, enable_async).unwrap();
        let (saved, error) = save(&mut first, 1, SAVES);
        drop(first);
        let what = format!(
            "{effect:?} at {:?}: {error:?}",
            faulty.log().get(at as usize - 1)
        );
        if !faulty.has_fired() {
            assert!(error.is_none() && at > 30, "{what}");
            break;
        }
        // Another process finds what was saved last, or what the fault came after.
        let mut next = manager(&storage::local(), &folder, enable_async).unwrap();
        let mut found = state(0);
        let restored = next.restore_or_initialize(&mut found, |_| Ok(())).unwrap();
        let skipped = restored.iter().flat_map(|one| &one.skipped);
        assert_eq!(skipped.count(), 0, "{what}: {restored:?}");
        let number = found.get("global_step").unwrap().to_i64s()[0] as u64;
        assert!(number == saved || number == saved + 1, "{what}: {number}");
        assert_eq!(found, state(number), "{what}");
        newest.insert(number);
        // It goes on counting, and keeps two.
        let (saved, error) = save(&mut next, number + 1, SAVES + 1);
        assert!(saved == SAVES + 1 && error.is_none(), "{what}: {error:?}");
        let mut last = manager(&storage::local(), &folder, enable_async).unwrap();
        let restored = last.restore_or_initialize(&mut found, |_| Ok(())).unwrap();
        assert!(restored.is_some(), "{what}");
        assert_eq!(found, state(SAVES + 1), "{what}");
        assert!(
            last.checkpoints().len() == 2,
            "{what}: {:?}",
            last.checkpoints()
        );
    }
    assert!(newest.len() as u64 >= SAVES, "{newest:?}");
}

#[test]
fn an_operation_of_a_manager_that_fails_leaves_what_was_saved() {
    walk(Effect::Fail(ErrorKind::StorageFull), false);
    walk(Effect::Tear(ErrorKind::StorageFull), true);
}

#[test]
fn what_a_manager_saved_outlives_a_power_failure() {
    walk(Effect::PowerFailure(Unsynced::Lost), true);
    walk(Effect::PowerFailure(Unsynced::LastKept), false);
}
