//! Arbitrary bytes as an event file, as an event, as a graph: a result or an error, never a crash, and messages round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use trainspec_formats::bounded::decode;
use trainspec_formats::events::{EventIterator, EventReader, ReaderOptions, summary};
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::summary::value::Value as Kind;
use trainspec_formats::proto::{Event, GraphDef, MetaGraphDef, RunMetadata};
use trainspec_formats::tensor::Tensor;
use trainspec_formats::{FileKind, crc};

/// The memory limit of a message in bytes: small, so that an excess is noticed.
const MEMORY_LIMIT_BYTES: u64 = 1 << 26;

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else {
        return;
    };
    match mode % 4 {
        // Unchanged: nearly always damaged.
        0 => file(bytes),
        // With valid checksums.
        1 => file(&framed(bytes)),
        2 => same::<GraphDef>(bytes),
        _ => same::<MetaGraphDef>(bytes),
    }
});

fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
    bytes.extend(crc::masked(&bytes).to_le_bytes());
    bytes.extend(body);
    bytes.extend(crc::masked(body).to_le_bytes());
    bytes
}

fn file(bytes: &[u8]) {
    let options = ReaderOptions {
        max_event_bytes: MEMORY_LIMIT_BYTES,
    };
    let mut events = 0;
    for event in EventIterator::from(EventReader::new(bytes.to_vec(), options)) {
        match event {
            Ok(event) => look_at(&event),
            Err(e) => {
                assert!(e.offset.is_some_and(|at| at <= bytes.len() as u64), "{e}");
                return;
            }
        }
        events += 1;
        assert!(
            16 * events <= bytes.len(),
            "more records than the file can hold"
        );
    }
}

fn look_at(event: &Event) {
    same::<Event>(&event.encode_to_vec());
    match &event.what {
        Some(What::GraphDef(bytes)) => same::<GraphDef>(bytes),
        Some(What::MetaGraphDef(bytes)) => same::<MetaGraphDef>(bytes),
        Some(What::TaggedRunMetadata(run)) => same::<RunMetadata>(&run.run_metadata),
        Some(What::Summary(values)) => {
            for value in &values.value {
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
            let _ = summary::merge([values.clone(), values.clone()]);
        }
        _ => {}
    }
}

/// Messages round-trip bit for bit, NaNs included.
fn same<M: Message + prost::Name + Default>(bytes: &[u8]) {
    let Ok(message) = decode::<M>(FileKind::Events, bytes, MEMORY_LIMIT_BYTES) else {
        return;
    };
    let once = message.encode_to_vec();
    // Nested messages that just fit may not fit again only if they grew, and they do not grow.
    let again =
        decode::<M>(FileKind::Events, &once, u64::MAX).expect("what was written can be read");
    assert_eq!(once, again.encode_to_vec());
}
