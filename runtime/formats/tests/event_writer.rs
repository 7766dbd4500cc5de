//! Guarantees of the event writer: order, no loss, errors are returned, files are never overwritten.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::support::Folder;
use trainspec_formats::Code;
use trainspec_formats::clock::FixedClock;
use trainspec_formats::events::summary::DisplayMetadata;
use trainspec_formats::events::{
    EventReader, ReaderOptions, SummaryWriter, SummaryWriterCache, Tail, WriterOptions, summary,
    summary_iterator,
};
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::session_log::SessionStatus;
use trainspec_formats::proto::{
    Event, GraphDef, MetaGraphDef, RunMetadata, SessionLog, Summary, SummaryMetadata,
};

fn fixed() -> WriterOptions {
    WriterOptions {
        host: Some("host".to_owned()),
        clock: Arc::new(FixedClock {
            unix_seconds: 1234.5,
        }),
        // However slow the machine is, no interval passes during a test.
        flush_every: Duration::MAX,
        ..Default::default()
    }
}

fn events(writer: &SummaryWriter) -> Vec<Event> {
    let events = summary_iterator(&writer.path()).unwrap();
    events.map(|event| event.unwrap()).collect()
}

fn summary_of(event: &Event) -> &Summary {
    match &event.what {
        Some(What::Summary(summary)) => summary,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_starts_with_its_version_and_keeps_the_order() {
    let folder = Folder::new();
    let options = WriterOptions {
        filename_suffix: ".v2".to_owned(),
        ..fixed()
    };
    let writer = SummaryWriter::open(&folder.0, options).unwrap();
    let name = writer
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let start = format!(
        "events.out.tfevents.0000001234.host.{}.",
        std::process::id()
    );
    assert!(name.starts_with(&start) && name.ends_with(".v2"), "{name}");
    writer.add_graph(&GraphDef::default(), 0).unwrap();
    writer.add_meta_graph(&MetaGraphDef::default(), 0).unwrap();
    let log = SessionLog {
        status: SessionStatus::Start.into(),
        ..Default::default()
    };
    writer.add_session_log(log, 3).unwrap();
    for step in 0..1000 {
        let value = summary::scalar("loss", step as f32);
        writer.add_summary(value, step).unwrap();
    }
    writer
        .add_run_metadata(&RunMetadata::default(), "run", 7)
        .unwrap();
    writer.close().unwrap();
    let events = events(&writer);
    assert_eq!(events.len(), 1 + 3 + 1000 + 1);
    assert_eq!(
        events[0].what,
        Some(What::FileVersion("brain.Event:2".to_owned()))
    );
    assert_eq!(events[0].wall_time, 1234.0);
    assert!(events[1..].iter().all(|event| event.wall_time == 1234.5));
    let steps: Vec<i64> = events[4..1004].iter().map(|event| event.step).collect();
    assert!(steps.into_iter().eq(0..1000));
}

#[test]
fn metadata_are_written_with_the_first_value_of_a_tag_only() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    let about = summary::DisplayMetadata {
        description: "d",
        ..Default::default()
    };
    let make = |value| summary::scalar_tensor("a", value, about);
    writer.add_summary(make(1.0), 1).unwrap();
    use prost::Message;
    writer
        .add_serialized_summary(&make(2.0).encode_to_vec(), 2)
        .unwrap();
    // As in TensorFlow, a tag that came without metadata never gets any.
    writer.add_summary(summary::scalar("b", 1.0), 3).unwrap();
    let mut late = summary::scalar("b", 1.0);
    late.value[0].metadata = Some(SummaryMetadata::default());
    writer.add_summary(late, 4).unwrap();
    writer.close().unwrap();
    assert!(writer.add_serialized_summary(b"\xff", 5).is_err());
    let events = events(&writer);
    let has = |i: usize| summary_of(&events[i]).value[0].metadata.is_some();
    assert_eq!(
        [has(1), has(2), has(3), has(4)],
        [true, false, false, false]
    );
}

#[test]
fn the_first_events_are_flushed_at_once_and_others_at_the_interval() {
    let folder = Folder::new();
    let options = WriterOptions {
        flush_every: Duration::from_millis(1),
        ..fixed()
    };
    let writer = SummaryWriter::open(&folder.0, options).unwrap();
    let mut reader = EventReader::open(&writer.path(), ReaderOptions::default()).unwrap();
    // The version is there before anything is added.
    assert!(reader.poll().unwrap().is_some());
    // Without a time limit: a writer that never flushes hangs here.
    let mut wait = || {
        while reader.poll().unwrap().is_none() {
            std::thread::yield_now();
        }
    };
    writer.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    wait();
    // No further call: the flush interval alone writes it.
    writer.add_summary(summary::scalar("a", 2.0), 2).unwrap();
    wait();
    writer.add_summary(summary::scalar("a", 3.0), 3).unwrap();
    writer.flush().unwrap();
    assert!(reader.poll().unwrap().is_some());
    assert_eq!(reader.rest().unwrap(), 0);
}

#[test]
fn events_are_buffered_until_the_flush_interval() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    writer.add_summary(summary::scalar("a", 0.0), 0).unwrap();
    writer.flush().unwrap();
    let length = || fs::metadata(writer.path()).unwrap().len();
    let before = length();
    for step in 1..100 {
        writer.add_summary(summary::scalar("a", 0.0), step).unwrap();
    }
    assert_eq!(length(), before);
    writer.flush().unwrap();
    assert!(length() > before);
}

#[test]
fn a_writer_that_is_closed_refuses_events_until_it_is_reopened() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    writer.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    writer.reopen().unwrap();
    let first = writer.path();
    writer.close().unwrap();
    writer.close().unwrap();
    writer.flush().unwrap();
    let refused = writer
        .add_summary(summary::scalar("a", 2.0), 2)
        .unwrap_err();
    assert_eq!(refused.code, Code::FailedPrecondition);
    // Within the same second too there is a new file, and its name is later.
    for step in 0..12 {
        let before = writer.path();
        writer.reopen().unwrap();
        assert!(writer.path() > before);
        writer.add_summary(summary::scalar("a", 2.0), step).unwrap();
        writer.close().unwrap();
        assert_eq!(events(&writer).len(), 2);
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 13);
    assert_eq!(summary_iterator(&first).unwrap().count(), 2);
}

#[test]
fn a_tag_of_a_run_is_used_once() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    writer
        .add_run_metadata(&RunMetadata::default(), "r", 1)
        .unwrap();
    let refused = writer
        .add_run_metadata(&RunMetadata::default(), "r", 2)
        .unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument);
    writer
        .add_run_metadata(&RunMetadata::default(), "s", 2)
        .unwrap();
}

#[test]
fn dropping_a_writer_flushes_the_queue() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    for step in 0..500 {
        writer.add_summary(summary::scalar("a", 1.0), step).unwrap();
    }
    let path = writer.path();
    drop(writer);
    assert_eq!(summary_iterator(&path).unwrap().count(), 501);
}

#[test]
fn a_removed_file_is_created_again() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    writer.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    writer.flush().unwrap();
    let first = writer.path();
    fs::remove_file(&first).unwrap();
    writer.add_summary(summary::scalar("a", 2.0), 2).unwrap();
    writer.flush().unwrap();
    assert!(writer.path() > first);
    assert_eq!(events(&writer).len(), 2);
}

/// A folder that is replaced by a file makes every later write fail.
#[test]
fn failures_in_the_background_are_returned_by_every_call() {
    let folder = Folder::new();
    let inner = folder.file("run");
    let writer = SummaryWriter::open(&inner, fixed()).unwrap();
    writer.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    writer.flush().unwrap();
    fs::remove_dir_all(&inner).unwrap();
    fs::write(&inner, "in the way").unwrap();
    // Many more than the capacity of the queue: no caller waits for a thread that has ended.
    let mut failed = None;
    for step in 0..1000 {
        if let Err(e) = writer.add_summary(summary::scalar("a", 1.0), step) {
            failed = Some(e);
            break;
        }
    }
    let flushed = writer.flush().unwrap_err();
    let closed = writer.close().unwrap_err();
    assert_eq!(flushed.to_string(), closed.to_string());
    assert_eq!(failed.map_or(closed.code, |e| e.code), closed.code);
    assert!(closed.path.is_some(), "{closed}");
    assert!(writer.add_event(Event::default()).is_err());
    // Once the folder can be created, it continues in a new file.
    assert!(writer.reopen().is_err());
    fs::remove_file(&inner).unwrap();
    writer.reopen().unwrap();
    writer.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    writer.close().unwrap();
    assert_eq!(events(&writer).len(), 2);
}

#[test]
fn a_folder_that_cannot_be_is_an_error_at_once() {
    let folder = Folder::new();
    let file = folder.file("file");
    fs::write(&file, "").unwrap();
    let error = SummaryWriter::open(file.join("run"), fixed()).unwrap_err();
    assert!(
        error.to_string().contains("cannot create the folder"),
        "{error}"
    );
    let options = WriterOptions {
        filename_suffix: "/../x".to_owned(),
        ..fixed()
    };
    let error = SummaryWriter::open(&folder.0, options).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
}

#[test]
fn several_threads_share_a_writer() {
    for max_queue in [0, 1, 10] {
        let folder = Folder::new();
        let options = WriterOptions {
            max_queue,
            ..fixed()
        };
        let writer = Arc::new(SummaryWriter::open(&folder.0, options).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let writer = Arc::clone(&writer);
                scope.spawn(move || {
                    for step in 0..200 {
                        let tag = format!("{thread}");
                        writer
                            .add_summary(summary::scalar(&tag, 1.0), step)
                            .unwrap();
                        if step % 50 == 0 {
                            writer.flush().unwrap();
                        }
                    }
                });
            }
        });
        writer.close().unwrap();
        let events = events(&writer);
        assert_eq!(events.len(), 801);
        for thread in 0..4 {
            let of_thread = events[1..]
                .iter()
                .filter(|event| summary_of(event).value[0].tag == thread.to_string())
                .map(|event| event.step);
            assert!(of_thread.eq(0..200));
        }
    }
}

#[test]
fn a_cache_has_one_writer_per_canonical_folder() {
    let folder = Folder::new();
    let cache = SummaryWriterCache::new(fixed());
    let a = cache.get(&folder.file("run")).unwrap();
    let b = cache.get(&folder.file("run/../run/.")).unwrap();
    assert!(Arc::ptr_eq(&a, &b));
    let c = cache.get(&folder.file("other")).unwrap();
    assert!(!Arc::ptr_eq(&a, &c));
    cache.clear().unwrap();
    assert!(a.add_event(Event::default()).is_err());
    assert!(!Arc::ptr_eq(&a, &cache.get(&folder.file("run")).unwrap()));
}

/// A process that is killed leaves complete records and at most one truncated record.
#[test]
#[cfg(unix)]
fn a_killed_process_leaves_a_file_that_reads() {
    if let Some(folder) = std::env::var_os("TRAINSPEC_TEST_KILLED") {
        let options = WriterOptions {
            flush_every: Duration::ZERO,
            ..fixed()
        };
        let writer = SummaryWriter::open(folder, options).unwrap();
        for step in 0.. {
            let tag = "x".repeat(1 + step as usize * 37 % 5000);
            writer
                .add_summary(summary::scalar(&tag, step as f32), step)
                .unwrap();
        }
    }
    for round in 0..5 {
        let folder = Folder::new();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "event_writer::a_killed_process_leaves_a_file_that_reads",
            ])
            .env("TRAINSPEC_TEST_KILLED", &folder.0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let file = || -> Option<std::path::PathBuf> {
            let entry = fs::read_dir(&folder.0).ok()?.next()?;
            Some(entry.ok()?.path())
        };
        let min_length = 20_000 * (round + 1);
        while file().is_none_or(|file| fs::metadata(file).unwrap().len() < min_length) {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "it writes until it is killed"
            );
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut reader = EventReader::open(&file().unwrap(), ReaderOptions::default()).unwrap();
        let mut step = -1;
        while let Some((_, event)) = reader.poll().unwrap() {
            match step {
                -1 => assert!(matches!(event.what, Some(What::FileVersion(_)))),
                _ => assert_eq!(event.step, step),
            }
            step += 1;
        }
        assert!(step > 1);
        assert!(reader.rest().unwrap() < 6000);
    }
}

/// An event above the flush threshold, which is written at once.
fn large(tag: &str) -> Summary {
    summary::text(tag, &[], &["x".repeat(300_000)], DisplayMetadata::default()).unwrap()
}

#[test]
fn large_events_do_not_vanish_with_a_file_that_is_removed() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    writer.add_summary(large("note"), 1).unwrap();
    writer.flush().unwrap();
    let first = writer.path();
    fs::remove_file(&first).unwrap();
    writer.add_summary(large("note"), 2).unwrap();
    writer.add_summary(large("note"), 3).unwrap();
    writer.close().unwrap();
    assert_ne!(writer.path(), first);
    let events = events(&writer);
    let steps: Vec<i64> = events.iter().skip(1).map(|event| event.step).collect();
    assert_eq!(steps, [2, 3]);
    // The tag's metadata were lost with the first file: they are written again as soon as that is noticed.
    assert!(summary_of(&events[2]).value[0].metadata.is_some());
}

#[test]
fn a_reopened_writer_writes_metadata_again() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    for _ in 0..2 {
        writer.add_summary(large("note"), 1).unwrap();
        writer.close().unwrap();
        assert!(summary_of(&events(&writer)[1]).value[0].metadata.is_some());
        writer.reopen().unwrap();
    }
}

#[test]
fn closing_and_opening_from_several_threads_never_deadlocks() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let writer = &writer;
            scope.spawn(move || {
                for step in 0..50 {
                    // Events that are refused while another thread has closed it do not matter here.
                    let _ = writer.add_summary(summary::scalar("x", 1.0), step);
                    match thread {
                        0 => drop(writer.close()),
                        1 => drop(writer.flush()),
                        _ => writer.reopen().unwrap(),
                    }
                }
            });
        }
    });
    writer.close().unwrap();
}

#[cfg(unix)]
#[test]
fn an_event_that_is_being_written_is_not_torn() {
    use std::io::Write;
    let folder = Folder::new();
    let writer = SummaryWriter::open(&folder.0, fixed()).unwrap();
    writer.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    writer.flush().unwrap();
    let path = writer.path();
    let mut reader = EventReader::open(&path, ReaderOptions::default()).unwrap();
    while reader.poll().unwrap().is_some() {}
    assert_eq!(reader.tail().unwrap(), Tail::Complete);
    // As a reader may see it while the writer is in the middle of a write.
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    file.write_all(&[7; 5]).unwrap();
    assert!(reader.poll().unwrap().is_none());
    assert_eq!(reader.tail().unwrap(), Tail::BeingWritten { bytes: 5 });
    writer.close().unwrap();
    assert_eq!(reader.tail().unwrap(), Tail::Torn { bytes: 5 });
    // What was written since the last poll is not torn.
    file.set_len(reader.position()).unwrap();
    let whole = fs::read(&path).unwrap();
    file.write_all(&whole).unwrap();
    assert!(matches!(reader.tail().unwrap(), Tail::BeingWritten { .. }));
    while reader.poll().unwrap().is_some() {}
    assert_eq!(reader.tail().unwrap(), Tail::Complete);
}
