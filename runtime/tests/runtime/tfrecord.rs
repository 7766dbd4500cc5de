//! TFRecord files of `tf.train.Example`: what is read, and what errors say.

use crate::support::{MemoryEnv, ints, read};
use trainspec_compiler::ir::Tensor;
use trainspec_formats::examples::{Feature, encode, example};
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::proto::{BytesList, FloatList, Int64List};
use trainspec_formats::records::{Compression, RecordWriter, WriterOptions};

pub(crate) fn int64s(value: &[i64]) -> Feature {
    let value = value.to_vec();
    Feature {
        kind: Some(Kind::Int64List(Int64List { value })),
    }
}

pub(crate) fn floats(value: &[f32]) -> Feature {
    let value = value.to_vec();
    Feature {
        kind: Some(Kind::FloatList(FloatList { value })),
    }
}

pub(crate) fn strings(value: &[&[u8]]) -> Feature {
    let value = value.iter().map(|b| b.to_vec()).collect();
    Feature {
        kind: Some(Kind::BytesList(BytesList { value })),
    }
}

/// A file of records.
pub(crate) fn file(compression: Compression, records: &[Vec<(&str, Feature)>]) -> Vec<u8> {
    let options = WriterOptions {
        compression,
        ..WriterOptions::default()
    };
    let mut writer = RecordWriter::new(Vec::new(), &options);
    for record in records {
        writer.write(&encode(&example(record.clone()))).unwrap();
    }
    writer.finish().unwrap()
}

/// The message of the error that reading one record gives, as `feature`.
fn error(record: Vec<(&str, Feature)>, feature: &str) -> String {
    let env = MemoryEnv::new(&[("a.tfrecord", &file(Compression::None, &[record]))]);
    let settings = format!("source tfrecord(\"a.tfrecord\"); feature {feature};");
    let error = read(&env, &settings, 9).unwrap_err();
    assert!(error.is_bad_input());
    error.to_string()
}

#[test]
fn features_are_found_by_key_and_converted() {
    let records = [
        vec![
            ("x", floats(&[0.5, 1.5])),
            ("n", int64s(&[-3])),
            ("image", strings(&[&[0, 255, 7]])),
            ("list", int64s(&[1, 2, 3])),
            ("name", strings(&[b"one"])),
        ],
        vec![
            ("x", floats(&[2.5, 3.5])),
            ("n", int64s(&[4])),
            ("image", int64s(&[9, 8, 7])),
            ("name", strings(&[b"two"])),
        ],
    ];
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let env = MemoryEnv::new(&[("a.tfrecord", &file(compression, &records))]);
        let settings = "source tfrecord(\"a.tfrecord\"); feature x: f64[2]; feature m: i32 as \"n\"; \
            feature image: u8[3]; feature list: i64[<=4]; feature name: string; feature more: f32 = 7.0;";
        let found = read(&env, settings, 9).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].values["x"], Tensor::new(&[2], vec![0.5, 1.5]));
        assert_eq!(ints(&found, "m"), [-3, 4]);
        assert_eq!(
            found[0].values["image"],
            Tensor::new(&[3], vec![0_u8, 255, 7])
        );
        assert_eq!(
            found[1].values["image"],
            Tensor::new(&[3], vec![9_u8, 8, 7])
        );
        assert_eq!(
            found[0].values["list"],
            Tensor::new(&[4], vec![1_i64, 2, 3, 0])
        );
        assert_eq!(ints(&found, "list#count"), [3, 0]);
        assert_eq!(found[1].values["name"], Tensor::scalar(b"two".to_vec()));
        assert_eq!(found[1].values["more"], Tensor::scalar(7.0_f32));
        let location = found[1].location().unwrap();
        assert_eq!(location.to_string(), "a.tfrecord, record 2");
    }
}

#[test]
fn several_files_come_one_after_the_other() {
    let one = |n: i64| file(Compression::None, &[vec![("n", int64s(&[n]))]]);
    let env = MemoryEnv::new(&[("d/b-1", &one(2)), ("d/a", &one(9)), ("d/b-0", &one(1))]);
    let settings = "source tfrecord(\"d/b-*\"); feature n: i64; repeat; take 5;";
    assert_eq!(
        ints(&read(&env, settings, 9).unwrap(), "n"),
        [1, 2, 1, 2, 1]
    );
}

#[test]
fn a_schema_mismatch_is_reported_with_its_record() {
    let n = |values: &[i64]| vec![("n", int64s(values))];
    assert_eq!(
        error(n(&[1, 2]), "n: i64[3]"),
        "a.tfrecord, record 1: `n` has 2 values, and `i64[3]` takes 3"
    );
    assert_eq!(
        error(n(&[1, 2, 3]), "n: i64[<=2]"),
        "a.tfrecord, record 1: `n` has 3 values, and `i64[<=2]` takes up to 2"
    );
    assert_eq!(
        error(n(&[300]), "n: u8"),
        "a.tfrecord, record 1: `n` has 300, which is no u8"
    );
    assert_eq!(
        error(n(&[1]), "n: f32"),
        "a.tfrecord, record 1: `n` has integers, and is read as `f32`"
    );
    assert_eq!(
        error(n(&[5]), "n: i64 in 0..5"),
        "a.tfrecord, record 1: `n` is 5, which is not in 0..5"
    );
    assert_eq!(
        error(n(&[5]), "m: i64"),
        "a.tfrecord, record 1: there is no feature `m`"
    );
}

#[test]
fn corruption_is_reported_with_its_location() {
    let mut bytes = file(Compression::None, &[vec![("n", int64s(&[1]))]]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let env = MemoryEnv::new(&[("a.tfrecord", &bytes)]);
    let settings = "source tfrecord(\"a.tfrecord\"); feature n: i64;";
    let error = read(&env, settings, 9).unwrap_err();
    assert!(error.is_bad_input());
    let message = error.to_string();
    assert!(
        message.starts_with("a.tfrecord: ") && message.contains("checksum"),
        "{message}"
    );
}

/// A training may end long before an epoch does, so that a misspelt feature is an error of the first batch.
#[test]
fn a_misspelt_feature_of_varying_length_is_an_error_of_the_first_batch() {
    let plain = |i: i64| vec![("n", int64s(&[i]))];
    let mut records: Vec<_> = (0..50).map(plain).collect();
    let with_all = |records: &[Vec<(&str, Feature)>]| {
        MemoryEnv::new(&[("a.tfrecord", &file(Compression::None, records))])
    };
    for stages in ["batch 2;", "shuffle; batch 2;", "repeat; batch 2;"] {
        let settings = format!(
            "source tfrecord(\"a.tfrecord\"); feature n: i64; feature wrods: i64[<=4]; {}",
            stages.replace("batch 2;", "batch (size: 2, pad: true);")
        );
        let env = with_all(&records);
        let mut pipeline = crate::support::open(&env, &settings, 0).unwrap();
        let error = pipeline.next().unwrap_err().to_string();
        assert_eq!(error, "no record has a feature `wrods`", "{stages}");
    }
    // One that a later record has, even empty, is not misspelt.
    records.push(vec![("n", int64s(&[50])), ("wrods", int64s(&[]))]);
    let settings = "source tfrecord(\"a.tfrecord\"); feature n: i64; feature wrods: i64[<=4];
        batch (size: 2, remainder: keep, pad: true);";
    let all = read(&with_all(&records), settings, 99).unwrap();
    assert_eq!(ints(&all, "n").len(), 51);
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    let record = |i: i64| vec![("n", int64s(&[i]))];
    let records: Vec<_> = (0..3).map(record).collect();
    let settings = "source tfrecord(\"a.tfrecord\"); feature n: i64;";
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let bytes = file(compression, &records);
        let ends: Vec<usize> = match compression {
            Compression::None => (0..=3).map(|n| n * bytes.len() / 3).collect(),
            Compression::Gzip | Compression::Zlib => vec![bytes.len()],
        };
        for length in 1..bytes.len() {
            let env = MemoryEnv::new(&[("a.tfrecord", &bytes[..length])]);
            let found = read(&env, settings, 9).map(|found| found.len());
            match ends.iter().position(|end| *end == length) {
                Some(n) => assert_eq!(found.unwrap(), n),
                None => drop(found.unwrap_err()),
            }
        }
    }
}

#[test]
fn a_default_that_stands_in_for_all_records_is_noted() {
    let record = |i: i64| vec![("n", int64s(&[i])), ("label", int64s(&[1]))];
    let records: Vec<_> = (0..9).map(record).collect();
    let env = MemoryEnv::new(&[("a.tfrecord", &file(Compression::None, &records))]);
    let noted = |feature: &str| {
        let text = format!(
            "spec notes; data d {{ source tfrecord(\"a.tfrecord\"); feature n: i64; feature {feature}; batch 2; }}"
        );
        let options = trainspec::Options {
            env: env.env(),
            ..Default::default()
        };
        let spec = crate::support::spec(&text);
        let time = std::time::Duration::MAX;
        let report = trainspec::data_report(&spec, None, &options, 99, time).unwrap();
        assert_eq!(
            (report.records, report.unfilled, report.complete),
            (8, 1, true)
        );
        report.notes
    };
    assert_eq!(
        noted("lable: i64 = 3"),
        [
            "no record has a feature `lable`, so its default stands in for all; did you mean `label`?"
        ]
    );
    assert_eq!(noted("label: i64 = 3"), [""; 0]);
}
