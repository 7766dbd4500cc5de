//! Writes record files of every compression into a folder, for TensorFlow to read: `tests/interop/records.py` does.
//!
//! `cargo run -p trainspec-formats --example write_records FOLDER`

use std::error::Error;
use std::path::{Path, PathBuf};

use trainspec_formats::examples::{Feature, encode, encode_sequence, example, sequence_example};
use trainspec_formats::files::Durability;
use trainspec_formats::records::{Compression, RecordWriter, WriterOptions};

/// The number of records of each file.
const RECORDS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("usage: write_records FOLDER")?;
    std::fs::create_dir_all(&folder)?;
    for (name, compression) in [
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("zlib", Compression::Zlib),
    ] {
        let options = WriterOptions {
            compression,
            ..WriterOptions::default()
        };
        let file = |kind: &str| folder.join(format!("{kind}-{name}.tfrecord"));
        write(&file("bytes"), &options, bytes)?;
        write(&file("examples"), &options, one_example)?;
        write(&file("sequences"), &options, one_sequence)?;
    }
    Ok(())
}

fn write(
    path: &Path,
    options: &WriterOptions,
    record: impl Fn(usize) -> Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    let mut writer = RecordWriter::replacing(path, options)?;
    for i in 0..RECORDS {
        writer.write(&record(i))?;
    }
    writer.commit(Durability::Unsynced)?;
    Ok(())
}

/// Arbitrary bytes, of zero to many.
fn bytes(i: usize) -> Vec<u8> {
    let length = if i == 7 { 300_000 } else { i % 50 };
    (0..length).map(|k| (i * 31 + k) as u8).collect()
}

fn one_example(i: usize) -> Vec<u8> {
    let x = i as f32;
    let mut features: Vec<(&str, Feature)> = vec![
        ("x", vec![x / 8.0, -x].into()),
        ("label", vec![i as i64 - 500].into()),
        ("name", vec![format!("record {i}")].into()),
    ];
    // An optional feature of variable length.
    if !i.is_multiple_of(3) {
        features.push((
            "ids",
            (0..i % 3)
                .map(|k| (i + k) as i64)
                .collect::<Vec<_>>()
                .into(),
        ));
    }
    encode(&example(features))
}

fn one_sequence(i: usize) -> Vec<u8> {
    let context: Vec<(&str, Feature)> = vec![("length", vec![(i % 5) as i64].into())];
    let steps: Vec<Feature> = (0..i % 5)
        .map(|t| vec![t as f32 + 0.5, i as f32].into())
        .collect();
    encode_sequence(&sequence_example(context, [("steps", steps)]))
}
