//! Faults of the storage at every operation of a run that saves: what was there is intact, what is reported names the file, and nothing
//! temporary is left.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::Folder;
use trainspec_formats::checkpoint::{
    Bundle, BundleWriter, CheckpointList, CheckpointReader, PathStyle, Safetensors, Tensor,
    Version, bundle, get_checkpoint_mtimes_in, latest_checkpoint, remove_checkpoint_in,
    safetensors, update_checkpoint_state_in,
};
use trainspec_formats::clock::FixedClock;
use trainspec_formats::events::{
    EventReader, SummaryWriter, Tail, WriterOptions, is_event_file, summary,
};
use trainspec_formats::files::{Durability, replace_in};
use trainspec_formats::records::{Check, IndexedRecords, RecordReader, RecordWriter};
use trainspec_formats::storage::faulty::{Effect, Fault, FaultyStorage, Operation, Unsynced};
use trainspec_formats::storage::{self, FileType, Storage};
use trainspec_formats::{Code, FileKind, FormatError, Result};

/// The value of `w` in the newest checkpoint after each step of [`run`].
const NEWEST: [Option<f32>; 7] = [
    None,
    Some(1.0),
    Some(2.0),
    Some(2.0),
    Some(3.0),
    Some(3.0),
    Some(3.0),
];

/// The steps of the events that are written.
const EVENT_STEPS: [i64; 3] = [1, 2, 3];

fn save(storage: &Arc<dyn Storage>, prefix: &Path, value: f32) -> Result<()> {
    let mut writer = BundleWriter::create_in(storage, prefix, Default::default())?;
    writer.add("w", &Tensor::from_values(&[3], &[value; 3])?)?;
    writer.add("name", &Tensor::strings(&[1], vec![b"w".to_vec()])?)?;
    writer.finish()
}

fn list(storage: &Arc<dyn Storage>, folder: &Path, newest: &str) -> Result<()> {
    let listed = CheckpointList {
        newest,
        ..CheckpointList::default()
    };
    let (style, durability) = (PathStyle::Relative, Durability::Synced);
    update_checkpoint_state_in(storage, folder, &listed, None, style, durability)
}

fn write_events(storage: &Arc<dyn Storage>, folder: &Path) -> Result<()> {
    let options = WriterOptions {
        clock: Arc::new(FixedClock { unix_seconds: 7.0 }),
        flush_every: Duration::MAX,
        storage: Arc::clone(storage),
        ..WriterOptions::default()
    };
    let writer = SummaryWriter::open(folder, options)?;
    for step in EVENT_STEPS {
        writer.add_summary(summary::scalar("loss", 0.5), step)?;
        writer.flush()?;
    }
    writer.close()
}

/// Saves, replaces, lists and removes checkpoints, and writes events, from a step on; returns the step that failed.
fn run(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    from: usize,
    mut done: impl FnMut(usize),
) -> std::result::Result<(), (usize, FormatError)> {
    let (first, second) = (folder.join("model.ckpt-1"), folder.join("model.ckpt-2"));
    for step in from..NEWEST.len() {
        let result = match step {
            0 => save(storage, &first, 1.0),
            1 => list(storage, folder, first.to_str().unwrap()),
            2 => save(storage, &first, 2.0),
            3 => save(storage, &second, 3.0),
            4 => list(storage, folder, second.to_str().unwrap()),
            5 => remove_checkpoint_in(storage, &first, Version::V2, "meta"),
            _ => write_events(storage, folder),
        };
        result.map_err(|e| (step, e))?;
        done(step);
    }
    Ok(())
}

/// The value of `w` in the newest checkpoint by the state file; every byte of it is checked.
fn newest(folder: &Path) -> Option<f32> {
    let prefix = latest_checkpoint(folder, None).unwrap()?;
    let reader = CheckpointReader::open(&prefix).unwrap();
    let damage = reader.verify();
    assert!(damage.is_empty(), "{damage:?}");
    let values = reader.get_tensor("w").unwrap().to_vec::<f32>().unwrap();
    assert_eq!(values, [values[0]; 3]);
    Some(values[0])
}

/// Whether the newest checkpoint is that before a step or after it.
fn check_newest(folder: &Path, step: usize, what: &str) {
    let found = newest(folder);
    let before = step.checked_sub(1).and_then(|before| NEWEST[before]);
    assert!(
        found == before || found == NEWEST[step],
        "{what}: {found:?} in step {step}"
    );
}

fn names(folder: &Path) -> Vec<String> {
    let names = storage::local().list(folder).unwrap();
    names
        .into_iter()
        .map(|name| name.into_string().unwrap())
        .collect()
}

/// Nothing temporary, no data files without an index, and event files that end with an event.
fn check_clean(folder: &Path, step: usize, what: &str) {
    let names = names(folder);
    assert!(
        !names.iter().any(|name| name.contains(".tmp-")),
        "{what}: {names:?}"
    );
    for prefix in ["model.ckpt-1", "model.ckpt-2"] {
        let prefix = folder.join(prefix);
        let is_indexed = bundle::index_path(&prefix).is_file();
        // Where removing fails, the index is gone first.
        let data = bundle::data_files(&prefix);
        assert!(
            is_indexed || data.is_empty() || step == 5,
            "{what}: {data:?}"
        );
        if is_indexed {
            Bundle::open(&prefix).unwrap().tensor("w").unwrap();
        }
    }
    for name in names.iter().filter(|name| is_event_file(name)) {
        let mut reader = EventReader::open(&folder.join(name), Default::default()).unwrap();
        let mut steps = Vec::new();
        while let Some((_, event)) = reader.poll().unwrap() {
            steps.push(event.step);
        }
        assert_eq!(reader.tail().unwrap(), Tail::Complete, "{what}: {name}");
        // The version event comes first.
        assert_eq!(steps.first(), Some(&0), "{what}: {name}");
        assert!(EVENT_STEPS.starts_with(&steps[1..]), "{what}: {steps:?}");
    }
}

/// Runs with a fault at every operation until one is not reached; returns how many there are.
fn at_every_operation(effect: Effect, sticky: bool, code: Option<Code>) -> u64 {
    for at in 1.. {
        let folder = Folder::new();
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        faulty.inject(Fault {
            at,
            effect,
            sticky,
            only: None,
        });
        let storage: Arc<dyn Storage> = faulty.clone();
        let result = run(&storage, &folder.0, 0, |_| {});
        if !faulty.has_fired() {
            result.unwrap();
            return at - 1;
        }
        let what = format!("{effect:?} at {at}: {:?}", faulty.log()[at as usize - 1]);
        let Err((step, error)) = result else {
            // Only what may fail without a loss is not reported.
            let (operation, path) = &faulty.log()[at as usize - 1];
            let is_old_data = path.to_string_lossy().contains(".data-");
            assert!(
                effect == Effect::Short
                    || *operation == Operation::Lock
                    || *operation == Operation::Remove && is_old_data,
                "{what}"
            );
            check_newest(&folder.0, NEWEST.len() - 1, &what);
            check_clean(&folder.0, NEWEST.len() - 1, &what);
            continue;
        };
        assert_eq!(Some(error.code), code, "{what}: {error}");
        let path = error
            .path
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: no path"));
        assert!(path.starts_with(&folder.0), "{what}: {error}");
        check_newest(&folder.0, step, &what);
        if sticky {
            continue;
        }
        check_clean(&folder.0, step, &what);
        // The storage works again, and so does the run.
        run(&storage, &folder.0, step, |_| {}).unwrap_or_else(|(_, e)| panic!("{what}: {e}"));
        assert_eq!(newest(&folder.0), Some(3.0), "{what}");
        check_clean(&folder.0, 6, &what);
        let names = names(&folder.0);
        assert!(
            !names.iter().any(|name| name.starts_with("model.ckpt-1")),
            "{what}: {names:?}"
        );
    }
    unreachable!("a run ends")
}

#[test]
fn a_failure_at_any_operation_leaves_what_was_there() {
    for (kind, code) in [
        (ErrorKind::StorageFull, Code::ResourceExhausted),
        (ErrorKind::PermissionDenied, Code::PermissionDenied),
        (ErrorKind::Other, Code::Internal),
    ] {
        let operations = at_every_operation(Effect::Fail(kind), false, Some(code));
        assert!(operations > 40, "{operations}");
    }
}

#[test]
fn a_torn_write_at_any_operation_leaves_what_was_there() {
    let effect = Effect::Tear(ErrorKind::StorageFull);
    at_every_operation(effect, false, Some(Code::ResourceExhausted));
}

#[test]
fn a_storage_that_stays_full_leaves_a_readable_checkpoint() {
    for effect in [Effect::Fail, Effect::Tear] {
        let effect = effect(ErrorKind::StorageFull);
        at_every_operation(effect, true, Some(Code::ResourceExhausted));
    }
}

#[test]
fn a_short_write_at_any_operation_changes_nothing() {
    at_every_operation(Effect::Short, false, None);
}

#[test]
fn a_failed_read_at_any_place_leaves_a_readable_checkpoint() {
    for at in 1.. {
        let folder = Folder::new();
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        faulty.inject_read(Fault::at(at, Effect::Fail(ErrorKind::Other)));
        let storage: Arc<dyn Storage> = faulty.clone();
        let result = run(&storage, &folder.0, 0, |_| {});
        let step = result.as_ref().map_or_else(|(step, _)| *step, |()| 6);
        check_newest(&folder.0, step, &format!("read {at}"));
        if !faulty.has_fired() {
            assert!(at > 10);
            return result.unwrap();
        }
    }
}

/// A save that cannot read the old index must not take the names of the data files that it lists: a later failure would leave that index
/// with other data.
#[test]
fn a_failed_read_and_a_failed_write_together_leave_what_was_there() {
    let mut pairs = 0;
    for read in 1.. {
        let mut has_read = false;
        for write in 1.. {
            let folder = Folder::new();
            let prefix = folder.file("model.ckpt-1");
            save(&storage::local(), &prefix, 1.0).unwrap();
            list(&storage::local(), &folder.0, prefix.to_str().unwrap()).unwrap();
            let faulty = Arc::new(FaultyStorage::new(storage::local()));
            faulty.inject_read(Fault::at(read, Effect::Fail(ErrorKind::Other)));
            faulty.inject(Fault::at(write, Effect::Fail(ErrorKind::StorageFull)));
            let storage: Arc<dyn Storage> = faulty.clone();
            let result = save(&storage, &prefix, 2.0);
            let found = newest(&folder.0);
            let what = format!("read {read}, write {write}: {:?}", faulty.log().last());
            assert!(found == Some(1.0) || found == Some(2.0), "{what}");
            assert!(result.is_err() || found == Some(2.0), "{what}");
            pairs += 1;
            has_read |= faulty.reads() >= read;
            if faulty.operations() < write {
                break;
            }
        }
        if !has_read {
            break;
        }
    }
    assert!(pairs > 50, "{pairs}");
}

/// The storage of a machine whose power fails at an operation.
fn failing_power(at: u64, unsynced: Unsynced) -> Arc<FaultyStorage> {
    let faulty = Arc::new(FaultyStorage::new(storage::local()));
    faulty.inject(Fault::at(at, Effect::PowerFailure(unsynced)));
    faulty
}

#[test]
fn what_was_saved_outlives_a_power_failure_at_any_operation() {
    for unsynced in [Unsynced::Lost, Unsynced::LastKept] {
        for at in 1.. {
            let parent = Folder::new();
            // A new folder, whose name must be safe too.
            let folder = parent.file("run");
            let faulty = failing_power(at, unsynced);
            let storage: Arc<dyn Storage> = faulty.clone();
            let result = run(&storage, &folder, 0, |_| {});
            if !faulty.has_fired() {
                result.unwrap();
                assert!(at > 40);
                break;
            }
            // What is done before the events is done for good.
            let step = result.map_or_else(|(step, _)| step, |()| NEWEST.len() - 1);
            let what = format!("{unsynced:?} at {at}: {:?}", faulty.log().last());
            check_newest(&folder, step, &what);
            run(&storage::local(), &folder, step, |_| {}).unwrap();
            assert_eq!(newest(&folder), Some(3.0), "{what}");
        }
    }
}

#[test]
fn a_power_failure_leaves_what_was_synced() {
    // What a folder holds that held `old` before some operations, where the power fails after them.
    let after = |unsynced, run: fn(&dyn Storage, &Path)| -> BTreeMap<String, String> {
        let folder = Folder::new();
        std::fs::write(folder.file("old"), "old").unwrap();
        let counted = FaultyStorage::new(storage::local());
        let twin = Folder::new();
        std::fs::write(twin.file("old"), "old").unwrap();
        run(&counted, &twin.0);
        let faulty = failing_power(counted.operations() + 1, unsynced);
        run(&*faulty, &folder.0);
        assert!(faulty.sync(&folder.0).is_err() && faulty.has_fired());
        // The machine is off: nothing can be done any more.
        assert!(faulty.read(&folder.file("old")).is_err());
        assert!(faulty.remove_file(&folder.file("old")).is_err());
        let names = names(&folder.0).into_iter().chain(["a/b/c".to_owned()]);
        let files = names.filter(|name| folder.file(name).is_file());
        let read = |name: String| {
            let text = std::fs::read_to_string(folder.file(&name)).unwrap();
            (name, text)
        };
        files.map(read).collect()
    };
    let holds = |files: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        files.iter().map(owned).collect()
    };
    let both = [Unsynced::Lost, Unsynced::LastKept];
    for unsynced in both {
        // Bytes without a sync of the file.
        let found = after(unsynced, |storage, folder| {
            storage
                .create(&folder.join("old"))
                .unwrap()
                .write_all(b"new")
                .unwrap();
        });
        assert_eq!(found, holds(&[("old", "old")]));
        // A synced file with a safe name.
        let found = after(unsynced, |storage, folder| {
            let mut file = storage.append(&folder.join("old")).unwrap();
            file.write_all(b" and new").unwrap();
            file.sync().unwrap();
            file.write_all(b" and newer").unwrap();
        });
        assert_eq!(found, holds(&[("old", "old and new")]));
        // A safe name without its bytes.
        let found = after(unsynced, |storage, folder| {
            storage
                .create_new(&folder.join("new"))
                .unwrap()
                .write_all(b"new")
                .unwrap();
            storage.sync(folder).unwrap();
        });
        assert_eq!(found, holds(&[("new", ""), ("old", "old")]));
        // A file in a folder whose own name is not safe.
        let found = after(unsynced, |storage, folder| {
            storage.create_dir_all(&folder.join("a/b")).unwrap();
            storage.sync(&folder.join("a")).unwrap();
            let mut file = storage.create(&folder.join("a/b/c")).unwrap();
            file.sync().unwrap();
            storage.sync(&folder.join("a/b")).unwrap();
            let mut file = storage.create_new(&folder.join("new")).unwrap();
            file.sync().unwrap();
        });
        match unsynced {
            Unsynced::Lost => assert_eq!(found, holds(&[("old", "old")])),
            Unsynced::LastKept => assert_eq!(found, holds(&[("new", ""), ("old", "old")])),
        }
    }
    // Names without a sync of the folder.
    let rename: fn(&dyn Storage, &Path) = |storage, folder| {
        let mut file = storage.create_new(&folder.join("new")).unwrap();
        file.write_all(b"new").unwrap();
        file.sync().unwrap();
        storage
            .rename(&folder.join("new"), &folder.join("newer"))
            .unwrap();
        storage.remove_file(&folder.join("old")).unwrap();
    };
    assert_eq!(after(Unsynced::Lost, rename), holds(&[("old", "old")]));
    assert_eq!(after(Unsynced::LastKept, rename), holds(&[]));
    let over: fn(&dyn Storage, &Path) = |storage, folder| {
        let mut file = storage.create_new(&folder.join("new")).unwrap();
        file.write_all(b"new").unwrap();
        file.sync().unwrap();
        storage
            .rename(&folder.join("new"), &folder.join("old"))
            .unwrap();
    };
    assert_eq!(after(Unsynced::Lost, over), holds(&[("old", "old")]));
    assert_eq!(after(Unsynced::LastKept, over), holds(&[("old", "new")]));
}

/// The folder and the operation of a child process that is killed.
const KILL_VARIABLE: &str = "TRAINSPEC_KILL_AT";

#[cfg(unix)]
#[test]
fn a_kill_at_any_operation_leaves_a_readable_checkpoint() {
    if let Ok(plan) = std::env::var(KILL_VARIABLE) {
        let (at, folder) = plan.split_once(' ').unwrap();
        let faulty = Arc::new(FaultyStorage::new(storage::local()));
        faulty.inject(Fault::at(at.parse().unwrap(), Effect::Kill));
        let storage: Arc<dyn Storage> = faulty;
        let folder = Path::new(folder);
        let done = |step: usize| std::fs::write(folder.join("done"), step.to_string()).unwrap();
        return run(&storage, folder, 0, done).unwrap();
    }
    for at in 1.. {
        let folder = Folder::new();
        let status = child(
            "faults::a_kill_at_any_operation_leaves_a_readable_checkpoint",
            KILL_VARIABLE,
            &format!("{at} {}", folder.0.display()),
        );
        let done = std::fs::read_to_string(folder.file("done")).ok();
        let step = done.map_or(0, |done| done.parse::<usize>().unwrap() + 1);
        check_newest(&folder.0, step.min(6), &format!("killed at {at}"));
        if status.success() {
            assert!(at > 40);
            return;
        }
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status.signal(), Some(9));
        // The next process goes on from there.
        run(&storage::local(), &folder.0, step, |_| {}).unwrap();
        assert_eq!(newest(&folder.0), Some(3.0));
    }
}

/// Runs one test of this executable in a child process.
fn child(test: &str, variable: &str, value: &str) -> std::process::ExitStatus {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1"])
        .env(variable, value)
        .output()
        .unwrap()
        .status
}

/// The locked file that a child process looks at.
const LOCK_VARIABLE: &str = "TRAINSPEC_LOCKED_FILE";

#[cfg(unix)]
#[test]
fn a_lock_is_seen_by_another_process_with_its_text() {
    let storage = storage::local();
    if let Ok(path) = std::env::var(LOCK_VARIABLE) {
        let path = Path::new(&path);
        let text = String::from_utf8(storage.read(path).unwrap()).unwrap();
        assert!(text.starts_with("pid "), "{text}");
        assert!(storage.is_locked(path));
        assert!(storage.try_lock(path).unwrap().is_none());
        return;
    }
    let folder = Folder::new();
    let path = folder.file("lock");
    let mut lock = storage.try_lock(&path).unwrap().unwrap();
    lock.write("a longer text than the next").unwrap();
    lock.write(&format!("pid {}", std::process::id())).unwrap();
    let test = "faults::a_lock_is_seen_by_another_process_with_its_text";
    assert!(child(test, LOCK_VARIABLE, &folder.path("lock")).success());
    drop(lock);
    // Nobody has it any more.
    assert!(!child(test, LOCK_VARIABLE, &folder.path("lock")).success());
    assert!(storage.try_lock(&path).unwrap().is_some());
}

#[test]
fn a_file_that_is_written_can_be_appended_cut_and_overwritten() {
    let (folder, storage) = (Folder::new(), storage::local());
    let path = folder.file("a");
    storage.create(&path).unwrap().write_all(b"first").unwrap();
    let exists = storage.create_new(&path).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    let mut file = storage.append(&path).unwrap();
    file.write_all(b" second").unwrap();
    file.overwrite(0, b"F").unwrap();
    file.write_all(b" third").unwrap();
    assert_eq!(storage.read(&path).unwrap(), b"First second third");
    file.truncate(5).unwrap();
    file.write_all(b"!").unwrap();
    file.sync().unwrap();
    assert_eq!(storage.read(&path).unwrap(), b"First!");
    let about = storage.metadata(&path).unwrap();
    assert_eq!((about.file_type, about.length), (FileType::File, 6));
    assert!(about.modified.is_some());
    assert!(storage.is_dir(&folder.0) && !storage.is_file(&folder.0));
    assert_eq!(
        storage.open(&folder.0).err().map(|e| e.kind()),
        Some(ErrorKind::IsADirectory)
    );
    storage.create(&path).unwrap();
    assert_eq!(storage.read(&path).unwrap(), b"");
    storage.remove_file(&path).unwrap();
    assert!(!storage.exists(&path));
}

#[test]
fn a_faulty_storage_counts_and_fails_once_or_for_good() {
    let folder = Folder::new();
    let faulty = Arc::new(FaultyStorage::new(storage::local()));
    let storage: Arc<dyn Storage> = faulty.clone();
    let path = folder.file("a");
    let write = || {
        replace_in(
            &storage,
            FileKind::Other,
            &path,
            b"text",
            Durability::Synced,
        )
    };
    write().unwrap();
    let operations: Vec<Operation> = faulty.log().into_iter().map(|(o, _)| o).collect();
    assert_eq!(
        operations,
        [
            Operation::Create,
            Operation::Write,
            Operation::Sync,
            Operation::Rename,
            Operation::SyncPath,
        ]
    );
    assert_eq!((faulty.operations(), faulty.has_fired()), (5, false));
    let reads = faulty.reads();
    storage.read(&path).unwrap();
    assert_eq!((faulty.operations(), faulty.reads()), (5, reads + 3));
    faulty.inject(Fault::at(6, Effect::Fail(ErrorKind::QuotaExceeded)));
    assert_eq!(write().unwrap_err().code, Code::ResourceExhausted);
    write().unwrap();
    let next = faulty.operations() + 1;
    faulty.inject(Fault::at(next, Effect::Fail(ErrorKind::Other)).sticky());
    assert!(write().is_err() && write().is_err());
    faulty.inject_read(Fault::at(
        faulty.reads() + 1,
        Effect::Fail(ErrorKind::Other),
    ));
    assert!(storage.read(&path).is_err());
    assert_eq!(storage.read(&path).unwrap(), b"text");
}

/// Every writer of a single file, with the bytes that it leaves; the second value replaces the first.
#[test]
fn other_files_are_replaced_atomically_too() {
    type Write = fn(&Arc<dyn Storage>, &Path, f32) -> Result<()>;
    let safetensors: Write = |storage, path, value| {
        let tensor = Tensor::from_values(&[2], &[value; 2])?;
        let tensors = [("w", tensor.view())];
        safetensors::write_in(
            storage,
            path,
            &tensors,
            &BTreeMap::new(),
            Durability::Synced,
        )
    };
    let records: Write = |storage, path, value| {
        let mut writer = RecordWriter::replacing_in(storage, path, &Default::default())?;
        writer.write(&value.to_le_bytes())?;
        writer.commit(Durability::Synced)
    };
    for write in [safetensors, records] {
        for effect in [Effect::Fail, Effect::Tear] {
            for at in 1.. {
                let folder = Folder::new();
                let path: PathBuf = folder.file("file");
                write(&storage::local(), &path, 1.0).unwrap();
                let first = std::fs::read(&path).unwrap();
                let faulty = Arc::new(FaultyStorage::new(storage::local()));
                faulty.inject(Fault::at(at, effect(ErrorKind::StorageFull)));
                let storage: Arc<dyn Storage> = faulty.clone();
                let result = write(&storage, &path, 2.0);
                assert_eq!(names(&folder.0), ["file"]);
                if !faulty.has_fired() {
                    result.unwrap();
                    assert_ne!(std::fs::read(&path).unwrap(), first);
                    break;
                }
                let error = result.unwrap_err();
                assert_eq!(error.code, Code::ResourceExhausted);
                assert!(error.path.is_some_and(|path| path.starts_with(&folder.0)));
                let (operation, _) = faulty.log()[at as usize - 1];
                if operation != Operation::SyncPath {
                    assert_eq!(std::fs::read(&path).unwrap(), first);
                }
            }
        }
    }
}

#[test]
fn readers_read_from_any_storage() {
    let folder = Folder::new();
    let faulty = Arc::new(FaultyStorage::new(storage::local()));
    let storage: Arc<dyn Storage> = faulty.clone();
    let (prefix, path) = (folder.file("model.ckpt-1"), folder.file("a"));
    save(&storage, &prefix, 1.0).unwrap();
    let reads = |read: &dyn Fn()| {
        let before = faulty.reads();
        read();
        assert!(faulty.reads() > before);
    };
    reads(&|| {
        let bundle = Bundle::open_in(&storage, &prefix).unwrap();
        let mut bytes = [0; 12];
        bundle.read_into("w", &mut bytes).unwrap();
        assert_eq!(bytes[..4], 1.0_f32.to_le_bytes());
    });
    reads(&|| {
        let times = get_checkpoint_mtimes_in(&storage, &[&prefix]).unwrap();
        assert_eq!(times.len(), 1);
    });
    let tensor = Tensor::scalar(2.0_f32);
    let tensors = [("w", tensor.view())];
    let none = BTreeMap::new();
    safetensors::write_in(&storage, &path, &tensors, &none, Durability::Synced).unwrap();
    reads(&|| {
        let file = Safetensors::open_in(&storage, &path).unwrap();
        assert_eq!(file.tensor("w").unwrap(), tensor);
        let reader = CheckpointReader::open_in(&storage, &path).unwrap();
        assert_eq!(reader.get_tensor("w").unwrap(), tensor);
    });
    let mut writer = RecordWriter::create_in(&storage, &path, &Default::default()).unwrap();
    writer.write(b"a record").unwrap();
    writer.close(Durability::Synced).unwrap();
    reads(&|| {
        let mut reader = RecordReader::open_in(&storage, &path, &Default::default()).unwrap();
        assert_eq!(reader.next().unwrap(), Some(&b"a record"[..]));
    });
    reads(&|| {
        let records = IndexedRecords::open_in(&storage, &path, Check::All).unwrap();
        assert_eq!(records.read(0, &mut Vec::new()).unwrap(), b"a record");
    });
}
