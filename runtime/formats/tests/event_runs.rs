//! Reading runs: files that grow, several files, restarts.

use std::fs;
use std::sync::Arc;

use crate::support::Folder;
use prost::Message;
use trainspec_formats::clock::FixedClock;
use trainspec_formats::events::summary::{self, DisplayMetadata, hparams};
use trainspec_formats::events::{
    Kind, Purge, ReaderOptions, Run, RunOptions, RunReader, SummaryWriter, WriterOptions,
};
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::session_log::SessionStatus;
use trainspec_formats::proto::summary::value::Value as Field;
use trainspec_formats::proto::{Event, GraphDef, MetaGraphDef, NodeDef, SessionLog};
use trainspec_formats::records::RecordWriter;
use trainspec_formats::{Code, crc};

fn writer(folder: &Folder, second: f64) -> SummaryWriter {
    let options = WriterOptions {
        host: Some("h".to_owned()),
        clock: Arc::new(FixedClock {
            unix_seconds: second,
        }),
        ..Default::default()
    };
    SummaryWriter::open(&folder.0, options).unwrap()
}

fn start() -> SessionLog {
    SessionLog {
        status: SessionStatus::Start.into(),
        ..Default::default()
    }
}

fn steps(run: &Run, tag: &str) -> Vec<i64> {
    let points = &run.series[tag].points;
    points.iter().map(|point| point.step).collect()
}

#[test]
fn a_run_knows_kinds_and_last_values() {
    let folder = Folder::new();
    let writer = writer(&folder, 5.0);
    let about = DisplayMetadata::default();
    for step in 0..3 {
        let summary = summary::merge([
            summary::scalar("old", step as f32),
            summary::scalar_tensor("new", 10.0 * step as f32, about),
            summary::histogram("histogram", [1.0, 2.0]).unwrap(),
            summary::text("text", &[], &["hello"], about).unwrap(),
        ]);
        writer.add_summary(summary.unwrap(), step).unwrap();
    }
    writer
        .add_summary(
            hparams::session_start([("lr", hparams::HParam::Number(0.1))], None, 5.0),
            0,
        )
        .unwrap();
    let node = |name: &str| GraphDef {
        node: vec![NodeDef {
            name: name.to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let whole = MetaGraphDef {
        graph_def: Some(node("in the meta graph")),
        ..Default::default()
    };
    writer.add_meta_graph(&whole, 0).unwrap();
    writer.flush().unwrap();
    let mut run = Run::read(&folder.0, RunOptions::default()).unwrap();
    assert_eq!(run.graph().unwrap(), whole.graph_def);
    let kinds: Vec<(String, String)> = run
        .series
        .iter()
        .map(|(tag, series)| (tag.clone(), series.kind.to_string()))
        .collect();
    let expected = [
        ("_hparams_/session_start_info", "hparams"),
        ("histogram", "histogram"),
        ("new", "scalar"),
        ("old", "scalar"),
        ("text", "text"),
    ];
    assert_eq!(
        kinds,
        expected.map(|(tag, kind)| (tag.to_owned(), kind.to_owned()))
    );
    let last = |run: &Run, tag: &str| run.series[tag].points.last().copied().unwrap();
    assert_eq!(last(&run, "old").scalar, Some(2.0));
    assert_eq!(last(&run, "new").scalar, Some(20.0));
    let text = run.value(&last(&run, "text")).unwrap();
    assert_eq!(text.tag, "text");
    assert!(matches!(text.value, Some(Field::Tensor(tensor)) if tensor.string_val == [b"hello"]));

    // More of it, in the same file.
    writer.add_summary(summary::scalar("old", 7.0), 3).unwrap();
    writer.add_graph(&node("alone"), 0).unwrap();
    writer.close().unwrap();
    assert_eq!(run.update().unwrap(), 2);
    assert_eq!(run.update().unwrap(), 0);
    assert_eq!(last(&run, "old").scalar, Some(7.0));
    assert_eq!(run.series["new"].kind, Kind::Scalar);
    assert_eq!(run.graph().unwrap(), Some(node("alone")));
    assert_eq!(run.meta_graph().unwrap(), Some(whole));

    // The file that was read is gone.
    fs::remove_file(writer.path()).unwrap();
    assert_eq!(
        run.value(&last(&run, "old")).unwrap_err().code,
        Code::NotFound
    );
}

#[test]
fn a_restart_purges_orphaned_values_on_request() {
    let folder = Folder::new();
    let before = writer(&folder, 1.0);
    before.add_session_log(start(), 0).unwrap();
    for step in 0..10 {
        before
            .add_summary(summary::scalar("a", step as f32), step)
            .unwrap();
        before
            .add_summary(summary::scalar("b", step as f32), step)
            .unwrap();
    }
    before.close().unwrap();
    let after = writer(&folder, 2.0);
    after.add_session_log(start(), 5).unwrap();
    for step in 5..8 {
        after.add_summary(summary::scalar("a", -1.0), step).unwrap();
    }
    after.close().unwrap();
    let read = |purge| {
        let options = RunOptions {
            purge,
            ..Default::default()
        };
        Run::read(&folder.0, options).unwrap()
    };
    let all = read(Purge::Never);
    assert_eq!(steps(&all, "a"), (0..10).chain(5..8).collect::<Vec<_>>());
    assert_eq!(all.sessions.len(), 2);
    let purged = read(Purge::Restarts);
    assert_eq!(steps(&purged, "a"), (0..8).collect::<Vec<_>>());
    assert_eq!(steps(&purged, "b"), (0..5).collect::<Vec<_>>());
    assert_eq!(purged.series["a"].points[5].scalar, Some(-1.0));
}

/// Files from before there were versions: a step that goes back drops the later ones of its own tags.
#[test]
fn without_a_version_a_step_that_goes_back_is_a_restart() {
    use prost::Message;
    use trainspec_formats::proto::Event;
    use trainspec_formats::proto::event::What;
    let folder = Folder::new();
    let mut bytes = Vec::new();
    for (tag, step) in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("a", 2)] {
        let event = Event {
            step,
            what: Some(What::Summary(summary::scalar(tag, 0.0))),
            ..Default::default()
        };
        let body = event.encode_to_vec();
        let length = (body.len() as u64).to_le_bytes();
        bytes.extend(length);
        bytes.extend(crc::masked(&length).to_le_bytes());
        bytes.extend(&body);
        bytes.extend(crc::masked(&body).to_le_bytes());
    }
    fs::write(folder.file("x.tfevents.1"), bytes).unwrap();
    let options = RunOptions {
        purge: Purge::Restarts,
        ..Default::default()
    };
    let run = Run::read(&folder.0, options).unwrap();
    assert_eq!(steps(&run, "a"), [1, 2]);
    assert_eq!(steps(&run, "b"), [1, 2]);
}

#[test]
fn a_reader_goes_on_to_a_later_file_when_there_is_one() {
    let folder = Folder::new();
    let mut reader = RunReader::open(&folder.0, ReaderOptions::default()).unwrap();
    assert!(reader.poll().unwrap().is_none());
    let first = writer(&folder, 1.0);
    first.add_summary(summary::scalar("a", 1.0), 1).unwrap();
    first.flush().unwrap();
    let all = |reader: &mut RunReader| {
        let mut seen = Vec::new();
        while let Some((file, _, event)) = reader.poll().unwrap() {
            seen.push((file, event.step));
        }
        seen
    };
    assert_eq!(all(&mut reader), [(0, 0), (0, 1)]);
    assert_eq!(all(&mut reader), []);
    // The rest of the first file comes before the second.
    first.add_summary(summary::scalar("a", 1.0), 2).unwrap();
    first.close().unwrap();
    let second = writer(&folder, 2.0);
    second.add_summary(summary::scalar("a", 1.0), 3).unwrap();
    second.close().unwrap();
    assert_eq!(all(&mut reader), [(0, 2), (1, 0), (1, 3)]);
    assert_eq!(reader.files(), [first.path(), second.path()]);
}

#[test]
fn a_truncated_record_is_not_yet_an_event() {
    let folder = Folder::new();
    let source = writer(&folder, 1.0);
    for step in 1..20 {
        source.add_summary(summary::scalar("a", 1.0), step).unwrap();
    }
    source.close().unwrap();
    let bytes = fs::read(source.path()).unwrap();
    let grown = Folder::new();
    let path = grown.file("events.out.tfevents.1");
    fs::write(&path, "").unwrap();
    let mut reader = RunReader::open(&grown.0, ReaderOptions::default()).unwrap();
    let mut seen = 0;
    for end in (0..=bytes.len()).step_by(7).chain([bytes.len()]) {
        fs::write(&path, &bytes[..end]).unwrap();
        while let Some((_, _, event)) = reader.poll().unwrap() {
            assert_eq!(event.step, seen);
            seen += 1;
        }
    }
    assert_eq!(seen, 20);
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let folder = Folder::new();
    let error = Run::read(&folder.file("none"), RunOptions::default()).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
}

#[test]
fn metadata_of_a_tag_may_come_late() {
    let folder = Folder::new();
    let writer = writer(&folder, 1.0);
    for step in 0..3 {
        let mut summary = summary::scalar_tensor("loss", step as f32, DisplayMetadata::default());
        if step < 2 {
            summary.value[0].metadata = None;
        }
        let event = Event {
            step,
            what: Some(What::Summary(summary)),
            ..Default::default()
        };
        writer.add_event(event).unwrap();
    }
    writer.close().unwrap();
    let run = Run::read(&folder.0, RunOptions::default()).unwrap();
    let series = &run.series["loss"];
    assert_eq!(series.kind, Kind::Scalar);
    let numbers: Vec<_> = series.points.iter().map(|point| point.scalar).collect();
    assert_eq!(numbers, [Some(0.0), Some(1.0), Some(2.0)]);
}

#[test]
fn a_record_that_is_no_event_does_not_hide_later_events() {
    let folder = Folder::new();
    let writer = writer(&folder, 1.0);
    writer.add_summary(summary::scalar("loss", 1.0), 1).unwrap();
    writer.close().unwrap();
    let path = writer.path();
    let mut records = RecordWriter::new(std::fs::read(&path).unwrap(), &Default::default());
    records.write(&[0xff; 20]).unwrap();
    // Longer than what is read below.
    records.write(&[0; 20_000]).unwrap();
    let event = Event {
        step: 2,
        what: Some(What::Summary(summary::scalar("loss", 2.0))),
        ..Default::default()
    };
    records.write(&event.encode_to_vec()).unwrap();
    std::fs::write(&path, records.finish().unwrap()).unwrap();
    let reader = ReaderOptions {
        max_event_bytes: 10_000,
    };
    let options = RunOptions {
        reader,
        ..Default::default()
    };
    let run = Run::read(&folder.0, options).unwrap();
    assert_eq!(steps(&run, "loss"), [1, 2]);
    let codes: Vec<_> = run.damage.iter().map(|error| error.code).collect();
    assert_eq!(codes, [Code::DataLoss, Code::ResourceExhausted]);
}

#[test]
fn many_restarts_take_one_pass() {
    let folder = Folder::new();
    let writer = writer(&folder, 1.0);
    for _ in 0..20_000 {
        writer.add_summary(summary::scalar("loss", 1.0), 0).unwrap();
    }
    // In pairs this would be four hundred million comparisons for each tag.
    for _ in 0..20_000 {
        writer.add_summary(summary::scalar("loss", 1.0), 7).unwrap();
        writer.add_session_log(start(), 5).unwrap();
    }
    writer.add_summary(summary::scalar("loss", 1.0), 6).unwrap();
    writer.close().unwrap();
    let options = RunOptions {
        purge: Purge::Restarts,
        ..Default::default()
    };
    let run = Run::read(&folder.0, options).unwrap();
    let steps = steps(&run, "loss");
    assert_eq!((steps.len(), steps.last()), (20_001, Some(&6)));
}
