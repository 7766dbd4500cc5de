//! Files that need more memory than there is: an error with the size, never an abort.
//!
//! The files are read in a child process, whose address space is limited.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::support::{Folder, limited};
use trainspec_formats::checkpoint::bundle::{data_path, index_path};
use trainspec_formats::checkpoint::{Bundle, CheckpointReader, Safetensors};
use trainspec_formats::examples::{Dtype, ExampleParser, FeatureSpec, Schema};
use trainspec_formats::proto::Event;
use trainspec_formats::records::{ReaderOptions, RecordReader, Recovering};
use trainspec_formats::table::TableBuilder;
use trainspec_formats::wire::put_varint;
use trainspec_formats::{Code, FileKind, FormatError, bounded, crc};

/// The address space of the child process.
const LIMIT_MIB: u64 = 320;

#[test]
fn a_lack_of_memory_is_an_error() {
    limited("memory_limits::in_little_memory", LIMIT_MIB, &[], || ());
}

#[test]
fn in_little_memory() {
    limited("", 0, &[], || {
        let folder = Folder::new();
        strings_of_an_archive(&folder.file("a.npz"));
        strings_of_a_bundle(&folder.file("model.ckpt"));
        a_directory_of_an_archive(&folder.file("sparse.npz"));
        a_record_of_more_than_a_gibibyte(&folder.file("a.tfrecord"));
        numbers_of_an_example();
        a_header_of_json(&folder.file("a.safetensors"));
        messages();
    });
}

fn exhausted(error: &FormatError) {
    assert_eq!(error.code, Code::ResourceExhausted, "{error}");
    assert!(error.cause.contains("there is no memory for "), "{error}");
}

/// 80 million strings of one byte, which take little when they are compressed.
fn strings_of_an_archive(path: &Path) {
    const COUNT: usize = 80_000_000;
    let dictionary = format!("{{'descr': '|S1', 'fortran_order': False, 'shape': ({COUNT},), }}\n");
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((dictionary.len() as u16).to_le_bytes());
    header.extend(dictionary.bytes());
    let mut crc = flate2::Crc::new();
    let mut deflated = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut put = |bytes: &[u8]| {
        crc.update(bytes);
        deflated.write_all(bytes).unwrap();
    };
    put(&header);
    let zeros = vec![0; 1 << 20];
    let mut left = COUNT;
    while left > 0 {
        let now = left.min(zeros.len());
        put(&zeros[..now]);
        left -= now;
    }
    let deflated = deflated.finish().unwrap();
    let mut fields = vec![20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0];
    fields.extend(crc.sum().to_le_bytes());
    fields.extend((deflated.len() as u32).to_le_bytes());
    fields.extend(((header.len() + COUNT) as u32).to_le_bytes());
    fields.extend([5, 0, 0, 0]);
    let mut out = [b"PK\x03\x04", &fields[..], b"a.npy", &deflated].concat();
    let start = out.len() as u32;
    let entry = [b"PK\x01\x02\x14\x00", &fields[..], &[0; 14], b"a.npy"].concat();
    out.extend(&entry);
    out.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    out.extend((entry.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    assert!(out.len() < 1 << 20, "{}", out.len());
    fs::write(path, out).unwrap();
    let reader = CheckpointReader::open(path).unwrap();
    exhausted(&reader.get_tensor("a").unwrap_err());
    assert!(reader.verify().is_empty());
}

/// A directory that is a hole, with as many entries as fit into it.
fn a_directory_of_an_archive(path: &Path) {
    const BYTES: u64 = 1 << 30;
    let mut end = b"PK\x06\x06".to_vec();
    end.extend(44_u64.to_le_bytes());
    end.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for value in [BYTES / 46, BYTES / 46, BYTES, BYTES] {
        end.extend(value.to_le_bytes());
    }
    end.extend(b"PK\x06\x07\0\0\0\0");
    end.extend((2 * BYTES).to_le_bytes());
    end.extend([1, 0, 0, 0]);
    end.extend(b"PK\x05\x06\0\0\0\0");
    end.extend([0xff; 12]);
    end.extend([0, 0]);
    let mut file = File::create(path).unwrap();
    file.seek(SeekFrom::Start(2 * BYTES)).unwrap();
    file.write_all(&end).unwrap();
    let error = CheckpointReader::open(path).unwrap_err();
    exhausted(&error);
    assert_eq!(error.offset, Some(BYTES));
}

/// A length-delimited field of a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2];
    put_varint(&mut all, bytes.len() as u64);
    all.extend_from_slice(bytes);
    all
}

fn number(number: u8, value: u64) -> Vec<u8> {
    let mut all = vec![number << 3];
    put_varint(&mut all, value);
    all
}

/// A data file that is a hole, and as many empty strings as it has bytes.
fn strings_of_a_bundle(prefix: &Path) {
    const BYTES: u64 = 120 << 20;
    let mut table = TableBuilder::new(Vec::new());
    let header = [number(1, 1), field(3, &number(1, 1))].concat();
    table.add(b"", &header).unwrap();
    let shape = field(2, &number(1, BYTES - 4));
    let entry = [number(1, 7), field(2, &shape), number(5, BYTES)].concat();
    table.add(b"a", &entry).unwrap();
    fs::write(index_path(prefix), table.finish().unwrap()).unwrap();
    let data = File::create(data_path(prefix, 0, 1)).unwrap();
    data.set_len(BYTES).unwrap();
    let error = Bundle::open(prefix).unwrap().tensor("a").unwrap_err();
    exhausted(&error);
    assert_eq!(error.offset, Some(0));
}

/// A record of zeros, which is a hole in the file.
fn a_record_of_more_than_a_gibibyte(path: &Path) {
    const LENGTH: u64 = (1 << 30) + 5;
    let mut file = File::create(path).unwrap();
    let length = LENGTH.to_le_bytes();
    file.write_all(&length).unwrap();
    file.write_all(&crc::masked(&length).to_le_bytes()).unwrap();
    file.seek(SeekFrom::Current(LENGTH as i64)).unwrap();
    let block = crc::of(&[0; 1 << 16]);
    let mut sum = 0;
    for _ in 0..LENGTH >> 16 {
        sum = crc::combine(sum, block, 1 << 16);
    }
    sum = crc::combine(sum, crc::of(&[0; 5]), 5);
    file.write_all(&crc::mask(sum).to_le_bytes()).unwrap();
    drop(file);
    let mut recovering = Recovering::open(path).unwrap();
    assert_eq!(recovering.check_next().unwrap(), Some(LENGTH));
    assert_eq!(recovering.check_next().unwrap(), None);
    assert!(recovering.skipped().is_empty());
    // It is intact, so that it is not passed over where it cannot be held.
    let error = Recovering::open(path).unwrap().next().unwrap_err();
    exhausted(&error);
    assert_eq!((error.offset, error.path.as_deref()), (Some(0), Some(path)));
    let options = ReaderOptions {
        max_length: u64::MAX,
        ..Default::default()
    };
    let mut reader = RecordReader::open(path, &options).unwrap();
    exhausted(&reader.next().unwrap_err());
}

/// Forty million numbers of a byte each, which take eight in memory.
fn numbers_of_an_example() {
    let entry = [
        field(1, b"x"),
        field(2, &field(3, &field(1, &vec![7; 40_000_000]))),
    ]
    .concat();
    let entry = field(1, &entry);
    let record = field(1, &entry);
    drop(entry);
    let schema = Schema::new([("x", FeatureSpec::var_len(Dtype::Int64))]).unwrap();
    let mut parser = ExampleParser::new(&schema);
    let error = parser.push(&record).unwrap_err();
    exhausted(&error);
    assert!(
        error.cause.starts_with("record 0: feature `x`: "),
        "{error}"
    );
    assert_eq!(parser.rows(), 0);
}

/// JSON whose objects take far more memory than text.
fn a_header_of_json(path: &Path) {
    let mut text = b"{\"a\":[".to_vec();
    text.extend(b"{\"\":0},".repeat(1 << 20));
    text.extend(b"0]}");
    let bytes = [&(text.len() as u64).to_le_bytes()[..], &text].concat();
    fs::write(path, bytes).unwrap();
    exhausted(&Safetensors::open(path).unwrap_err());
}

/// A message that is within its limit, and not within memory.
fn messages() {
    let values = field(1, &field(1, b"a")).repeat(1 << 18);
    let bytes = field(5, &values);
    let decoded = bounded::decode::<Event>(FileKind::Events, &bytes, 1 << 31);
    exhausted(&decoded.map(drop).unwrap_err());
}
