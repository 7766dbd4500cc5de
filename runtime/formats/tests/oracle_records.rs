//! Record files as TensorFlow writes and reads them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;
use trainspec_formats::Code;
use trainspec_formats::files::Durability;
use trainspec_formats::records::{
    Compression, ExpectedCompression, ReaderOptions, RecordReader, RecordWriter, Recovering,
    WriterOptions,
};

use crate::support::{Folder, bytes, json, oracle};

/// Fails on a field that is not known, so that nothing is left out unseen.
fn known(case: &Json, fields: &[&str]) {
    let fields: BTreeSet<&str> = fields.iter().copied().collect();
    for field in case.as_object().expect("a case").keys() {
        assert!(
            fields.contains(field.as_str()),
            "{}: unknown field {field}",
            case["name"]
        );
    }
}

/// The records of a file up to its end or an error.
fn read(
    path: &Path,
    options: &ReaderOptions,
) -> (Vec<Vec<u8>>, Option<trainspec_formats::FormatError>) {
    let mut reader = match RecordReader::open(path, options) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record.to_vec()),
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

fn all(records: &Json) -> Vec<Vec<u8>> {
    records
        .as_array()
        .expect("records")
        .iter()
        .map(bytes)
        .collect()
}

#[test]
fn oracle_files() {
    let file = json("tfrecord/files.json");
    let (mut intact, mut damaged) = (0, 0);
    for case in file["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let path = oracle()
            .join("tfrecord")
            .join(case["file"].as_str().expect("a file"));
        let compression = Compression::from_name(case["compression"].as_str().unwrap()).unwrap();
        let stored = std::fs::read(&path).unwrap();
        assert_eq!(
            stored.len() as u64,
            case["file_size"].as_u64().unwrap(),
            "{name}"
        );
        let given = ReaderOptions {
            compression: ExpectedCompression::Is(compression),
            ..Default::default()
        };
        match case["kind"].as_str().expect("a kind") {
            "tfrecord" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "file",
                        "compression",
                        "file_size",
                        "file_sha256",
                        "records_hex",
                    ],
                );
                let expected = all(&case["records_hex"]);
                for options in [given, ReaderOptions::default()] {
                    let (records, error) = read(&path, &options);
                    assert!(error.is_none(), "{name}: {error:?}");
                    assert_eq!(records, expected, "{name}");
                }
                writes(name, compression, &expected, &stored);
                intact += 1;
            }
            "damaged" => {
                known(
                    case,
                    &[
                        "name",
                        "kind",
                        "file",
                        "compression",
                        "file_size",
                        "file_sha256",
                        "defect",
                        "records_before_error",
                        "expected_error",
                        "dataset_records_before_error",
                        "dataset_error",
                    ],
                );
                // TensorFlow has two readers, which must agree, since there is one here.
                assert_eq!(
                    case["records_before_error"],
                    case["dataset_records_before_error"]
                );
                assert_eq!(
                    case["expected_error"]["type"],
                    case["dataset_error"]["type"]
                );
                let expected = all(&case["records_before_error"]);
                for options in [given, ReaderOptions::default()] {
                    let (records, error) = read(&path, &options);
                    assert_eq!(records, expected, "{name}");
                    match case["expected_error"]["type"].as_str() {
                        None => assert!(error.is_none(), "{name}: {error:?}"),
                        Some("DataLossError") => {
                            let error = error.unwrap_or_else(|| panic!("{name}: no error"));
                            assert_eq!(error.code, Code::DataLoss, "{name}: {error}");
                            assert_eq!(error.path.as_deref(), Some(path.as_path()), "{name}");
                            let before: usize =
                                expected.iter().map(|record| record.len() + 16).sum();
                            assert_eq!(error.offset, Some(before as u64), "{name}: {error}");
                        }
                        Some(other) => panic!("{name}: unknown error {other}"),
                    }
                }
                recovers(name, &path, &expected);
                damaged += 1;
            }
            other => panic!("{name}: unknown kind {other}"),
        }
    }
    println!("{intact} intact files, {damaged} damaged ones");
    assert!(intact > 0 && damaged > 0);
}

/// What we write is read back, and without compression it is the same to the byte.
fn writes(name: &str, compression: Compression, records: &[Vec<u8>], stored: &[u8]) {
    let folder = Folder::new();
    let path = folder.file("written");
    let options = WriterOptions {
        compression,
        ..Default::default()
    };
    let mut writer = RecordWriter::replacing(&path, &options).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.commit(Durability::Unsynced).unwrap();
    if compression == Compression::None {
        assert_eq!(std::fs::read(&path).unwrap(), stored, "{name}");
    }
    let (read, error) = read(&path, &ReaderOptions::default());
    assert!(error.is_none(), "{name}: {error:?}");
    assert_eq!(read, records, "{name}");
}

/// Recovery gives at least the records before the damage, and says what it passed over.
fn recovers(name: &str, path: &Path, before: &[Vec<u8>]) {
    let mut recovering = Recovering::open(path).unwrap();
    let mut records = Vec::new();
    while let Some(record) = recovering.next().unwrap() {
        records.push(record.to_vec());
    }
    assert!(records.starts_with(before), "{name}");
    assert!(!recovering.skipped().is_empty(), "{name}");
}
