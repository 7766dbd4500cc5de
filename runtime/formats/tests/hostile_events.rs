//! Damaged and hostile event files: an error that names the offset, never a wrong value, a crash or a hang.

use crate::support::{Folder, oracle};
use prost::Message;
use trainspec_formats::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use trainspec_formats::events::{
    EventIterator, EventReader, Purge, ReaderOptions, Run, RunOptions, summary,
};
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::summary::value::Value as Kind;
use trainspec_formats::proto::{Event, GraphDef, MetaGraphDef, RunMetadata, Summary};
use trainspec_formats::tensor::Tensor;
use trainspec_formats::{Code, FileKind, FormatError, crc};

fn fixtures() -> Vec<(String, Vec<u8>)> {
    ["v1.tfevents", "v2.tfevents"]
        .into_iter()
        .map(|name| {
            let bytes = std::fs::read(oracle().join("events").join(name)).unwrap();
            (name.to_owned(), bytes)
        })
        .collect()
}

/// All events up to the first error, as bytes: NaN is not equal to itself.
fn read(bytes: Vec<u8>) -> (Vec<Vec<u8>>, Option<FormatError>) {
    let reader = EventReader::new(bytes, ReaderOptions::default());
    let mut events = Vec::new();
    for event in EventIterator::from(reader) {
        match event {
            Ok(event) => events.push(event.encode_to_vec()),
            Err(e) => return (events, Some(e)),
        }
    }
    (events, None)
}

/// Bytes of each record, and where it begins.
fn records(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        found.push((at, length));
        at += length + 16;
    }
    found
}

#[test]
fn a_truncated_file_gives_complete_records_and_an_error() {
    for (name, bytes) in fixtures() {
        let (all, error) = read(bytes.clone());
        assert!(error.is_none());
        let starts: Vec<usize> = records(&bytes).iter().map(|record| record.0).collect();
        for end in 0..bytes.len() {
            let (events, error) = read(bytes[..end].to_vec());
            let whole = starts.iter().filter(|&&start| start < end).count();
            let last = starts[whole.saturating_sub(1)];
            match end - last {
                // As in TensorFlow, a truncated header is the end.
                1..12 => {
                    assert!(error.is_none());
                    assert_eq!(events, all[..whole - 1], "{name} at {end}");
                }
                _ if starts.contains(&end) => {
                    assert!(error.is_none());
                    assert_eq!(events, all[..whole], "{name} at {end}");
                }
                _ => {
                    let error = error.expect("an error");
                    assert_eq!(error.code, Code::DataLoss);
                    assert_eq!(error.offset, Some(starts[whole - 1] as u64));
                    assert_eq!(events, all[..whole - 1], "{name} at {end}");
                }
            }
        }
    }
}

#[test]
fn a_byte_that_is_flipped_is_noticed() {
    for (name, bytes) in fixtures() {
        let (all, _) = read(bytes.clone());
        let records = records(&bytes);
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                let (events, error) = read(damaged);
                let error = error.unwrap_or_else(|| panic!("{name}: {at} is not noticed"));
                let record = records.iter().rposition(|record| record.0 <= at).unwrap();
                assert_eq!(error.code, Code::DataLoss);
                assert_eq!(error.offset, Some(records[record].0 as u64));
                assert_eq!(events, all[..record], "{name} at {at}");
            }
        }
    }
}

/// Damaged messages with valid checksums cause no panic.
#[test]
fn messages_that_are_damaged_under_good_checksums_do_not_break_anything() {
    let mut read_anyway = 0;
    for (_, bytes) in fixtures() {
        for (start, length) in records(&bytes) {
            let body = &bytes[start + 12..start + 12 + length];
            // Large graphs: every few bytes.
            let stride = 1 + length / 400;
            for at in (0..length).step_by(stride) {
                for mask in [0x01, 0x04, 0x80, 0xff] {
                    let mut damaged = body.to_vec();
                    damaged[at] ^= mask;
                    read_anyway += usize::from(look_at(&damaged));
                }
                look_at(&body[..at]);
            }
        }
    }
    println!("{read_anyway} could be read");
}

/// Decodes all that an event can hold.
fn look_at(bytes: &[u8]) -> bool {
    let Ok(event) = decode::<Event>(FileKind::Events, bytes, DEFAULT_MEMORY_LIMIT) else {
        return false;
    };
    match event.what {
        Some(What::GraphDef(bytes)) => drop(decode::<GraphDef>(
            FileKind::Events,
            &bytes,
            DEFAULT_MEMORY_LIMIT,
        )),
        Some(What::MetaGraphDef(bytes)) => drop(decode::<MetaGraphDef>(
            FileKind::Events,
            &bytes,
            DEFAULT_MEMORY_LIMIT,
        )),
        Some(What::TaggedRunMetadata(run)) => {
            drop(decode::<RunMetadata>(
                FileKind::Events,
                &run.run_metadata,
                DEFAULT_MEMORY_LIMIT,
            ));
        }
        Some(What::Summary(summary)) => look_at_values(&summary),
        _ => {}
    }
    true
}

fn look_at_values(summary: &Summary) {
    for value in &summary.value {
        match &value.value {
            Some(Kind::Tensor(tensor)) => {
                let _ = Tensor::from_message(tensor.clone());
                for string in &tensor.string_val {
                    let _ = summary::decode_png(string, 1 << 20);
                }
            }
            Some(Kind::Image(image)) => {
                let _ = summary::decode_png(&image.encoded_image_string, 1 << 20);
            }
            _ => {}
        }
    }
}

#[test]
fn graphs_that_are_cut_off_or_flipped_do_not_break_anything() {
    let path = oracle().join("checkpoints/single/model.ckpt-1000.meta");
    let bytes = std::fs::read(path).unwrap();
    for at in (0..bytes.len()).step_by(3) {
        let _ = decode::<MetaGraphDef>(FileKind::Events, &bytes[..at], DEFAULT_MEMORY_LIMIT);
        for mask in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            let _ = decode::<MetaGraphDef>(FileKind::Events, &damaged, DEFAULT_MEMORY_LIMIT);
        }
    }
}

#[test]
fn lengths_that_no_file_has_are_no_reason_to_allocate() {
    for length in [1 << 33, 1 << 62, u64::MAX - 20, u64::MAX] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(crc::masked(&bytes).to_le_bytes());
        bytes.extend([0; 100]);
        let mut reader = EventReader::new(bytes.clone(), ReaderOptions::default());
        // A file may still grow to that length, up to an overflow.
        assert!(matches!(reader.poll(), Ok(None) | Err(_)));
        assert_eq!(read(bytes).1.unwrap().code, Code::DataLoss);
    }
}

#[test]
fn an_event_of_many_empty_values_is_refused_before_it_is_made() {
    let mut body = vec![0x2a];
    let values = b"\x0a\x00".repeat(1 << 22);
    prost::encoding::encode_varint(values.len() as u64, &mut body);
    body.extend(values);
    let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
    bytes.extend(crc::masked(&bytes).to_le_bytes());
    bytes.extend(&body);
    bytes.extend(crc::masked(&body).to_le_bytes());
    let error = read(bytes).1.unwrap();
    assert_eq!(
        (error.code, error.offset),
        (Code::ResourceExhausted, Some(0))
    );
}

#[test]
fn a_run_indexes_intact_events_and_reports_damage() {
    let (_, bytes) = fixtures().remove(0);
    let starts = records(&bytes);
    let folder = Folder::new();
    let mut damaged = bytes.clone();
    damaged[starts[5].0 + 20] ^= 1;
    std::fs::write(folder.file("events.out.tfevents.1.a"), damaged).unwrap();
    std::fs::write(folder.file("events.out.tfevents.2.a"), &bytes).unwrap();
    std::fs::write(folder.file("notes.txt"), "not events").unwrap();
    std::fs::create_dir(folder.file("tfevents.folder")).unwrap();
    for purge in [Purge::Never, Purge::Restarts] {
        let options = RunOptions {
            purge,
            ..Default::default()
        };
        let run = Run::read(&folder.0, options).unwrap();
        assert_eq!(run.events, 5 + 12);
        let [damage] = &run.damage[..] else {
            panic!("{:?}", run.damage);
        };
        assert_eq!(damage.offset, Some(starts[5].0 as u64));
        assert_eq!(damage.path, Some(folder.file("events.out.tfevents.1.a")));
    }
}
