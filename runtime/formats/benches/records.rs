//! Throughput of writing, reading and parsing records, on one thread.
//!
//! 200,000 examples of ten features of one float, a label and a string of 32 bytes, in one file; batches of 512. `cargo bench -p
//! trainspec-formats --bench records [part of a name]`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trainspec_formats::Result;
use trainspec_formats::examples::{
    Dtype, ExampleParser, FeatureSpec, Schema, encode_into, example,
};
use trainspec_formats::files::Durability;
use trainspec_formats::records::{
    Check, Compression, IndexedRecords, Permutation, RecordIndex, RecordReader, RecordWriter,
    WriterOptions,
};

const RECORDS: usize = 200_000;
const BATCH: usize = 512;
const RUNS: usize = 7;

fn main() -> Result<()> {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let folder = Folder::new();
    let plain = folder.0.join("plain.tfrecord");
    let gzip = folder.0.join("gzip.tfrecord");
    let records = records();
    write(&plain, Compression::None, &records)?;
    write(&gzip, Compression::Gzip, &records)?;
    let bytes: usize = records.iter().map(|record| record.len() + 16).sum();
    println!("{RECORDS} records, {} bytes", bytes);

    let measure = |name: &str, work: &dyn Fn() -> Result<usize>| -> Result<()> {
        if !filters.is_empty() && !filters.iter().any(|part| name.contains(part.as_str())) {
            return Ok(());
        }
        let mut best = Duration::MAX;
        for _ in 0..RUNS {
            let start = Instant::now();
            assert_eq!(work()?, RECORDS);
            best = best.min(start.elapsed());
        }
        let rate = RECORDS as f64 / best.as_secs_f64();
        let speed = bytes as f64 / best.as_secs_f64();
        println!(
            "{name:32} {:7.3} M records/s {:8.0} MB/s",
            rate / 1e6,
            speed / 1e6
        );
        Ok(())
    };
    measure("read", &|| read(&plain))?;
    measure("read and parse", &|| parse(&plain, &whole()?))?;
    measure("read and parse two features", &|| parse(&plain, &part()?))?;
    measure("read and parse var-len", &|| parse(&plain, &var_len()?))?;
    measure("read gzip", &|| read(&gzip))?;
    measure("read and parse gzip", &|| parse(&gzip, &whole()?))?;
    measure("index", &|| {
        Ok(RecordIndex::build(&plain, Check::Headers)?.len())
    })?;
    measure("read shuffled", &|| shuffled(&plain))?;
    let copy = folder.0.join("copy.tfrecord");
    measure("write", &|| write(&copy, Compression::None, &records))?;
    Ok(())
}

/// The serialized examples.
fn records() -> Vec<Vec<u8>> {
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut record = || {
        let mut features: Vec<(String, _)> = (0..10)
            .map(|i| (format!("x{i}"), (random() as f32 / 1e9).into()))
            .collect();
        features.push(("label".to_owned(), ((random() % 1000) as i64).into()));
        let name: Vec<u8> = (0..32).map(|_| random() as u8).collect();
        features.push(("name".to_owned(), name.into()));
        let mut bytes = Vec::new();
        encode_into(&example(features), &mut bytes);
        bytes
    };
    (0..RECORDS).map(|_| record()).collect()
}

fn whole() -> Result<Schema> {
    let floats = (0..10).map(|i| (format!("x{i}"), FeatureSpec::fixed(Dtype::Float, [])));
    let others = [
        ("label".to_owned(), FeatureSpec::fixed(Dtype::Int64, [])),
        ("name".to_owned(), FeatureSpec::fixed(Dtype::Bytes, [])),
    ];
    Schema::new(floats.chain(others))
}

fn part() -> Result<Schema> {
    Schema::new([
        ("label", FeatureSpec::fixed(Dtype::Int64, [])),
        ("x7", FeatureSpec::fixed(Dtype::Float, [])),
    ])
}

fn var_len() -> Result<Schema> {
    let floats = (0..10).map(|i| (format!("x{i}"), FeatureSpec::var_len(Dtype::Float)));
    let others = [
        ("label".to_owned(), FeatureSpec::var_len(Dtype::Int64)),
        ("name".to_owned(), FeatureSpec::var_len(Dtype::Bytes)),
    ];
    Schema::new(floats.chain(others))
}

fn write(path: &Path, compression: Compression, records: &[Vec<u8>]) -> Result<usize> {
    let options = WriterOptions {
        compression,
        ..Default::default()
    };
    let mut writer = RecordWriter::create(path, &options)?;
    for record in records {
        writer.write(record)?;
    }
    writer.close(Durability::Unsynced)?;
    Ok(records.len())
}

fn read(path: &Path) -> Result<usize> {
    let mut reader = RecordReader::open(path, &Default::default())?;
    while let Some(record) = reader.next()? {
        black_box(record);
    }
    Ok(reader.records() as usize)
}

fn parse(path: &Path, schema: &Schema) -> Result<usize> {
    let mut reader = RecordReader::open(path, &Default::default())?;
    let mut parser = ExampleParser::new(schema);
    let mut rows = 0;
    while let Some(record) = reader.next()? {
        parser.push(record)?;
        if parser.rows() == BATCH {
            rows += black_box(parser.finish()?).rows();
        }
    }
    rows += black_box(parser.finish()?).rows();
    Ok(rows)
}

fn shuffled(path: &Path) -> Result<usize> {
    let records = IndexedRecords::open(path, Check::Headers)?;
    let mut buffer = Vec::new();
    let order = Permutation::new(records.index.len() as u64, 7, 0);
    for number in order.iter() {
        black_box(records.read(number as usize, &mut buffer)?);
    }
    Ok(order.len())
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("trainspec-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the files");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
