//! Memory bounds with hostile and large input. All in one test, since the memory is that of the process.

#![cfg(target_os = "linux")]

mod support;

use crate::support::peak;
use trainspec_formats::examples::{
    Column, Dtype, ExampleParser, FeatureSpec, Schema, decode, encode, example,
};
use trainspec_formats::records::{
    Compression, ReaderOptions, RecordReader, RecordWriter, WriterOptions,
};
use trainspec_formats::{Code, FormatError, crc};

fn header(length: u64) -> Vec<u8> {
    let bytes = length.to_le_bytes();
    [&bytes[..], &crc::masked(&bytes).to_le_bytes()].concat()
}

fn first(bytes: &[u8]) -> FormatError {
    let mut reader = RecordReader::new(bytes, &Default::default()).unwrap();
    reader.next().unwrap_err()
}

#[test]
fn memory_is_bounded_by_what_is_there() {
    let before = peak();
    lengths_are_not_believed();
    compressed_records_come_one_by_one();
    let records = peak() - before;
    assert!(records < 16, "{records} MiB for records");

    // Ten million strings of one byte: 30 MB of bytes.
    let many = [0x0a, 1, b'x'].repeat(10_000_000);
    let list = field(1, &many);
    let entry = [field(1, b"x"), field(2, &list)].concat();
    let record = field(1, &field(1, &entry));
    drop((many, list, entry));
    let before = peak();
    large_lists_are_compact(&record);
    let examples = peak().saturating_sub(before);
    assert!(
        examples < 160,
        "{examples} MiB for a list of {} MiB",
        record.len() >> 20
    );
}

/// A length-delimited field of a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        all.push(length as u8 | 0x80);
        length >>= 7;
    }
    all.push(length as u8);
    all.extend_from_slice(bytes);
    all
}

fn large_lists_are_compact(record: &[u8]) {
    let schema = Schema::new([("x", FeatureSpec::var_len(Dtype::Bytes))]).unwrap();
    let mut parser = ExampleParser::new(&schema);
    let batch = parser.parse(record).unwrap();
    let Some(Column::VarLen(x)) = batch.column("x") else {
        panic!("a list");
    };
    assert_eq!(x.values.len(), 10_000_000);
    assert_eq!(&x.values.bytes().unwrap()[9_999_999], b"x");
    // As a message each would be an allocation of its own.
    assert_eq!(decode(record).unwrap_err().code, Code::ResourceExhausted);
    // Where one value is required, the others are counted and not kept.
    let schema = Schema::new([("x", FeatureSpec::fixed(Dtype::Bytes, []))]).unwrap();
    let error = ExampleParser::new(&schema)
        .parse(record)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        error.cause,
        "record 0: feature `x` holds 10000000 bytes values, and not 1"
    );
    // Padding is bounded.
    let schema = Schema::new([("x", FeatureSpec::sequence(Dtype::Bytes, []))]).unwrap();
    let mut parser = ExampleParser::new(&schema);
    let small = encode(&example([("x", ["y"].into())]));
    for _ in 0..100 {
        parser.push(&small).unwrap();
    }
    parser.push(record).unwrap();
    let error = parser.finish().map(|_| ()).unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted);
}

fn lengths_are_not_believed() {
    for length in [u64::MAX, u64::MAX - 15, 1 << 40, 1 << 31, (1 << 30) + 1] {
        assert_eq!(
            first(&header(length)).code,
            Code::ResourceExhausted,
            "{length}"
        );
    }
    // Allowed, but not there.
    for length in [1 << 30, 1 << 29, 1 << 20] {
        let bytes = [header(length), vec![0; 1000]].concat();
        assert_eq!(first(&bytes).code, Code::DataLoss, "{length}");
    }
    // In a file, what is longer than the file is damage.
    let folder = support::Folder::new();
    let path = folder.file("records");
    for length in [u64::MAX, 1 << 40, 1 << 30, 1 << 20] {
        std::fs::write(&path, [header(length), vec![0; 1000]].concat()).unwrap();
        let mut reader = RecordReader::open(&path, &Default::default()).unwrap();
        let error = reader.next().unwrap_err();
        assert_eq!(
            (error.code, error.offset),
            (Code::DataLoss, Some(0)),
            "{length}"
        );
    }
}

/// A high compression ratio.
fn compressed_records_come_one_by_one() {
    let options = WriterOptions {
        compression: Compression::Gzip,
        ..Default::default()
    };
    let mut writer = RecordWriter::new(Vec::new(), &options);
    let record = vec![0; 1 << 20];
    (0..200).for_each(|_| writer.write(&record).unwrap());
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < 1 << 20);
    let mut reader = RecordReader::new(bytes.as_slice(), &Default::default()).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.records(), 200);
    let small = ReaderOptions {
        max_length: 1 << 19,
        ..Default::default()
    };
    let mut reader = RecordReader::new(bytes.as_slice(), &small).unwrap();
    assert_eq!(reader.next().unwrap_err().code, Code::ResourceExhausted);
}
