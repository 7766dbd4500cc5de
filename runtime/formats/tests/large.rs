//! Memory bounds with large files: 5 GB of records, a checkpoint of 3 GB.
//!
//! Not part of the ordinary tests, since it takes 8 GB of disk and minutes:
//! `cargo test --release -p trainspec-formats --test large -- --ignored --nocapture`. `TMPDIR` says where the files are.

#![cfg(target_os = "linux")]

mod support;

use std::path::Path;

use crate::support::peak;
use trainspec_formats::checkpoint::{Bundle, BundleWriter, TensorView};
use trainspec_formats::examples::{Dtype, ExampleParser, FeatureSpec, Schema, encode, example};
use trainspec_formats::files::Durability;
use trainspec_formats::records::{Check, IndexedRecords, RecordReader, RecordWriter, Recovering};

/// Records of 64 KB, as images are.
const IMAGE: usize = 64 * 1024;
const RECORDS: u64 = 80_000;
/// Tensors of 128 MB, as large layers are.
const TENSORS: usize = 24;
const SHAPE: [usize; 2] = [4096, 8192];

#[test]
#[ignore = "takes 8 GB of disk and minutes"]
fn files_of_gigabytes_take_little_memory() {
    let folder = support::Folder::new();
    let start = peak();
    println!("{start} MiB before");
    records(&folder.file("large.tfrecord"));
    let records = peak();
    println!("{} MiB more for 5 GB of records", records - start);
    assert!(records - start < 32);
    std::fs::remove_file(folder.file("large.tfrecord")).unwrap();

    let tensor = vec![0.0_f32; SHAPE[0] * SHAPE[1]];
    checkpoint(&folder.file("large.ckpt"), tensor);
    let tensor = ((SHAPE[0] * SHAPE[1] * 4) >> 20) as u64;
    let more = peak() - start;
    println!(
        "{more} MiB more for a checkpoint of 3 GB, {tensor} of them for the tensor that is written and read"
    );
    assert!(more < tensor + 16);
}

/// Records of more than 1 GiB are recovered, also of a compressed file.
#[test]
#[ignore = "takes 4 GB of memory and minutes"]
fn records_of_more_than_a_gibibyte_are_recovered() {
    use trainspec_formats::records::{Compression, WriterOptions};
    let folder = support::Folder::new();
    let path = folder.file("long.tfrecord");
    let record = vec![0; (1 << 30) + 5];
    for compression in [Compression::None, Compression::Gzip] {
        let options = WriterOptions {
            compression,
            level: Some(1),
            ..Default::default()
        };
        let mut writer = RecordWriter::create(&path, &options).unwrap();
        for record in [&b"first"[..], &record, b"last"] {
            writer.write(record).unwrap();
        }
        writer.close(Durability::Unsynced).unwrap();
        let mut recovering = Recovering::open(&path).unwrap();
        let mut lengths = Vec::new();
        while let Some(record) = recovering.next().unwrap() {
            lengths.push(record.len());
        }
        assert_eq!(lengths, [5, record.len(), 4]);
        let mut recovering = Recovering::open(&path).unwrap();
        while recovering.check_next().unwrap().is_some() {}
        assert_eq!((recovering.records(), recovering.skipped()), (3, &[][..]));
    }
}

fn records(path: &Path) {
    let mut image = vec![0_u8; IMAGE];
    let mut writer = RecordWriter::create(path, &Default::default()).unwrap();
    for record in 0..RECORDS {
        image[..8].copy_from_slice(&record.to_le_bytes());
        let features = [
            ("image", image.as_slice().into()),
            ("label", (record as i64).into()),
        ];
        writer.write(&encode(&example(features))).unwrap();
    }
    writer.close(Durability::Unsynced).unwrap();
    let size = std::fs::metadata(path).unwrap().len();
    assert!(size > 5_000_000_000, "{size} bytes");

    let fixed = |dtype| FeatureSpec::fixed(dtype, []);
    let schema = Schema::new([
        ("image", fixed(Dtype::Bytes)),
        ("label", fixed(Dtype::Int64)),
    ]);
    let mut parser = ExampleParser::new(&schema.unwrap());
    let mut reader = RecordReader::open(path, &Default::default()).unwrap();
    let mut count = 0;
    loop {
        let mut batch = 0;
        while batch < 32
            && let Some(record) = reader.next().unwrap()
        {
            parser.push(record).unwrap();
            batch += 1;
        }
        let parsed = parser.finish().unwrap();
        assert_eq!(parsed.rows(), batch);
        count += batch as u64;
        if batch == 0 {
            break;
        }
    }
    assert_eq!(count, RECORDS);

    let indexed = IndexedRecords::open(path, Check::Headers).unwrap();
    let mut buffer = Vec::new();
    for record in [RECORDS - 1, 0, RECORDS / 2] {
        let bytes = indexed.read(record as usize, &mut buffer).unwrap();
        assert!(bytes.windows(8).any(|part| part == record.to_le_bytes()));
    }
    // Damage past 4 GiB, where offsets no longer fit 32 bits.
    damage(path, (1 << 32) + 12_345);
    let mut recovering = Recovering::open(path).unwrap();
    while recovering.next().unwrap().is_some() {}
    assert_eq!(recovering.records(), RECORDS - 1);
    assert_eq!(recovering.skipped().len(), 1);
}

fn damage(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

fn checkpoint(prefix: &Path, mut tensor: Vec<f32>) {
    let name = |i: usize| format!("layer_{i:02}/kernel");
    let mark = |i: usize| (i as f32 + 0.5, i as f32 - 0.5);
    let mut writer = BundleWriter::create(prefix, Default::default()).unwrap();
    for i in 0..TENSORS {
        (tensor[0], *tensor.last_mut().unwrap()) = mark(i);
        let view = TensorView::of_values(&SHAPE, &tensor).unwrap();
        writer.add(&name(i), view).unwrap();
    }
    writer.finish().unwrap();

    let bundle = Bundle::open(prefix).unwrap();
    let bytes: i64 = bundle.entries().map(|(_, entry)| entry.size).sum();
    assert!(bytes > 3_000_000_000, "{bytes} bytes");
    assert!(bundle.verify().is_empty());
    for i in 0..TENSORS {
        bundle
            .read_into(&name(i), bytemuck::cast_slice_mut(&mut tensor))
            .unwrap();
        assert_eq!((tensor[0], *tensor.last().unwrap()), mark(i));
    }
    // Damage past 2 GiB.
    let data = trainspec_formats::checkpoint::bundle::data_path(prefix, 0, 1);
    damage(&data, (1 << 31) + 12_345);
    assert_eq!(bundle.verify().len(), 1);
}
