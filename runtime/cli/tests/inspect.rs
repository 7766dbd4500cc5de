//! `trainspec inspect`, as text and as JSON.

use crate::support::{Folder, code, err, out, trainspec};
use serde_json::{Value as Json, json};
use trainspec_formats::checkpoint::{BundleWriter, Tensor};
use trainspec_formats::events::SummaryWriter;
use trainspec_formats::events::summary::{self, DisplayMetadata};
use trainspec_formats::examples::{encode, encode_sequence, example, sequence_example};
use trainspec_formats::files::Durability;
use trainspec_formats::proto::summary::value::Value;
use trainspec_formats::records::{Compression, RecordWriter, WriterOptions};

fn records(path: &str, all: &[&[u8]]) {
    let mut writer = RecordWriter::create(path.as_ref(), &Default::default()).unwrap();
    for record in all {
        writer.write(record).unwrap();
    }
    writer.close(Durability::Unsynced).unwrap();
}

/// What is shown of a path, as text and as JSON.
fn shown(path: &str) -> (String, Json) {
    let text = out(&trainspec(&["inspect", path]));
    let output = trainspec(&["inspect", "--format", "json", path]);
    let line = out(&output);
    let first = line.lines().next().unwrap();
    (text, serde_json::from_str(first).unwrap())
}

/// The lines of JSON for the first records.
fn record_lines(path: &str) -> Vec<Json> {
    let output = trainspec(&["inspect", "--format", "json", path]);
    let lines = out(&output);
    let lines = lines.lines().skip(1);
    let lines = lines.map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Json> = lines.collect();
    assert!(lines.iter().all(|line| line["kind"] == "record"));
    lines
}

#[test]
fn records_are_lines_of_json_after_the_file() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    let all: Vec<Vec<u8>> = (0..1200_i64)
        .map(|i| encode(&example([("i", i.into())])))
        .collect();
    let borrowed: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    records(&path, &borrowed);
    let output = trainspec(&["inspect", "--format", "json", "--records", "1100", &path]);
    let text = out(&output);
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1 + 1100);
    assert_eq!(lines[0]["records"], 1200);
    assert_eq!(lines[0]["scanned"], 1000);
    assert_eq!(lines[0]["features"][0]["records"], 1000);
    for (i, line) in lines[1..].iter().enumerate() {
        let expected = json!({
            "kind": "record", "path": path, "record": i, "bytes": all[i].len(), "features": { "i": [i] },
        });
        assert_eq!(*line, expected);
    }
    // Statistics of a part are not taken for those of all.
    let (text, _) = shown(&path);
    assert!(
        text.contains("\nfeatures of the first 1000 records, not of all 1200:\n"),
        "{text}"
    );
    records(&path, &borrowed[..1000]);
    let (text, _) = shown(&path);
    assert!(!text.contains("not of all"), "{text}");
}

#[test]
fn offsets_in_compressed_files_say_what_they_count() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    let options = WriterOptions {
        compression: Compression::Gzip,
        ..WriterOptions::default()
    };
    let mut writer = RecordWriter::create(path.as_ref(), &options).unwrap();
    for i in 0..100_u32 {
        writer.write(&i.to_le_bytes().repeat(50)).unwrap();
    }
    writer.close(Durability::Unsynced).unwrap();
    let intact = std::fs::read(&path).unwrap();
    std::fs::write(&path, &intact[..intact.len() / 2]).unwrap();
    let saved = folder.path("b.tfrecord");
    for arguments in [
        &["inspect", &path][..],
        &["verify", &path],
        &["recover", &path, &saved],
    ] {
        let output = trainspec(arguments);
        let text = out(&output) + &err(&output);
        assert!(
            text.contains("(the offset is that of the decompressed stream)"),
            "{text}"
        );
    }
}

#[test]
fn integers_have_all_their_digits() {
    let folder = Folder::new();
    let prefix = folder.path("ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    let step = Tensor::scalar(12_345_678_i64);
    let ends = Tensor::from_values(&[2], &[i64::MIN, i64::MAX]).unwrap();
    writer.add("ends", &ends).unwrap();
    writer.add("global_step", &step).unwrap();
    writer.finish().unwrap();
    let (text, _) = shown(&prefix);
    assert_eq!(text.matches(" 12345678 ").count(), 3, "{text}");
    assert!(
        text.contains("-9223372036854775808") && text.contains(" 9223372036854775807 "),
        "{text}"
    );
}

#[test]
fn histograms_of_nan_are_not_empty() {
    let folder = Folder::new();
    let logs = folder.path("logs");
    let writer = SummaryWriter::open(&logs, Default::default()).unwrap();
    let mut summary = summary::histogram_tensor("nan", &[], 2, DisplayMetadata::default()).unwrap();
    // What TensorFlow writes of NaN: buckets without limits, and nothing in them.
    let nan = f64::NAN;
    let buckets = Tensor::from_values(&[2, 3], &[nan, nan, 0.0, nan, nan, 0.0]).unwrap();
    summary.value[0].value = Some(Value::Tensor(buckets.into_message().unwrap()));
    writer.add_summary(summary, 1).unwrap();
    writer.close().unwrap();
    let (text, object) = shown(&logs);
    assert!(text.contains("NaN") && !text.contains("empty"), "{text}");
    assert_eq!(object["tags"][0]["last_value"]["min"], "NaN");
}

#[test]
fn names_of_any_length_are_cut_in_tables_alone() {
    let folder = Folder::new();
    let prefix = folder.path("ckpt");
    let name = "n".repeat(70_000);
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    writer.add(&name, &Tensor::scalar(1.0_f32)).unwrap();
    writer.add("w", &Tensor::scalar(1.0_f32)).unwrap();
    writer.finish().unwrap();
    let output = trainspec(&["inspect", &prefix]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let (text, object) = shown(&prefix);
    assert!(text.lines().all(|line| line.len() < 400), "{text}");
    assert_eq!(object["tensors"][0]["name"], name);
    let path = folder.path("a.tfrecord");
    records(&path, &[&encode(&example([(name.as_str(), 1_i64.into())]))]);
    let output = trainspec(&["inspect", &path]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let logs = folder.path("logs");
    let writer = SummaryWriter::open(&logs, Default::default()).unwrap();
    writer.add_summary(summary::scalar(&name, 1.0), 1).unwrap();
    writer.close().unwrap();
    let output = trainspec(&["inspect", &logs]);
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn control_characters_are_not_lost_in_json_and_csv() {
    let folder = Folder::new();
    let all: String = (0..0x300)
        .chain(0x2020..0x2070)
        .filter_map(char::from_u32)
        .filter(|c| *c != '\0')
        .collect();
    let prefix = folder.path("ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    let strings = Tensor::strings(&[1], vec![all.clone().into_bytes()]).unwrap();
    writer.add(&all, &strings).unwrap();
    writer.finish().unwrap();
    let (_, object) = shown(&prefix);
    assert_eq!(object["tensors"][0]["name"], all);
    let output = trainspec(&["cat", "--format", "json", &prefix, &all]);
    let object: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["name"], all);
    assert_eq!(object["values"][0], all);
    let output = trainspec(&["cat", "--as", "csv", &prefix, &all]);
    let quoted = format!("\"{}\"\n", all.replace('"', "\"\""));
    assert_eq!(out(&output), quoted);

    let path = folder.path("a.tfrecord");
    records(
        &path,
        &[&encode(&example([(all.as_str(), all.as_str().into())]))],
    );
    assert_eq!(shown(&path).1["features"][0]["name"], all);
    assert_eq!(record_lines(&path)[0]["features"][&all], json!([all]));
}

#[test]
fn sequence_examples_have_a_context_and_lists() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    let tokens = vec![[1_i64, 2].as_slice().into(), [3_i64].as_slice().into()];
    let message = sequence_example([("id", 78_i64.into())], [("tokens", tokens)]);
    records(&path, &[&encode_sequence(&message)]);
    let (text, object) = shown(&path);
    assert!(
        text.contains("\n  id: [78]\n  tokens: 2 steps: [1, 2], [3]\n"),
        "{text}"
    );
    assert!(text.contains("feature list"), "{text}");
    assert_eq!(object["features"][0]["name"], "id");
    let list = json!({
        "name": "tokens", "kind": "int64", "steps": [2, 2], "values": [1, 2], "lengths": null, "records": 1,
    });
    assert_eq!(object["feature_lists"], json!([list]));
    let first = &record_lines(&path)[0];
    assert_eq!(first["features"], json!({ "id": [78] }));
    assert_eq!(first["feature_lists"], json!({ "tokens": [[1, 2], [3]] }));
}

#[test]
fn values_are_values_for_programs() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    let message = example([
        ("f", [0.1_f32, f32::NAN, f32::INFINITY].into()),
        ("i", i64::MAX.into()),
        ("s", b"\xff\0".as_slice().into()),
        ("t", "word".into()),
    ]);
    records(&path, &[&encode(&message)]);
    let expected = json!({
        "f": [0.1, "NaN", "Infinity"], "i": [i64::MAX], "s": [{ "hex": "ff00" }], "t": ["word"],
    });
    assert_eq!(record_lines(&path)[0]["features"], expected);

    let prefix = folder.path("ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    let nan = Tensor::from_values(&[1], &[f32::NAN]).unwrap();
    let signed = Tensor::from_values(&[2], &[i64::MIN, i64::MAX]).unwrap();
    writer.add("nan", &nan).unwrap();
    writer.add("signed", &signed).unwrap();
    writer.finish().unwrap();
    let (_, object) = shown(&prefix);
    assert_eq!(object["tensors"][0]["min"], "NaN");
    assert_eq!(object["tensors"][1]["min"], json!(i64::MIN));
    assert_eq!(object["tensors"][1]["max"], json!(i64::MAX));
}

#[test]
fn kinds_have_one_name() {
    let folder = Folder::new();
    let prefix = folder.path("ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    writer.add("w", &Tensor::scalar(1.0_f32)).unwrap();
    writer.finish().unwrap();
    let npz = folder.path("a.npz");
    assert_eq!(code(&trainspec(&["convert", &prefix, &npz])), 0);
    let list = folder.write("checkpoint", "model_checkpoint_path: \"ckpt\"\n");
    for path in [prefix.as_str(), &npz, list.to_str().unwrap()] {
        let output = trainspec(&["verify", "--format", "json", path]);
        let verified: Json = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(verified["kind"], shown(path).1["kind"], "{path}");
    }
}

#[test]
fn a_truncated_record_file_is_reported() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    records(&path, &[b"one", b"two"]);
    let intact = std::fs::read(&path).unwrap();
    std::fs::write(&path, &intact[..intact.len() - 15]).unwrap();
    let output = trainspec(&["inspect", &path]);
    assert_eq!(code(&output), 2);
    assert!(out(&output).contains("1 record of 3 B, up to the first damage"));
    assert!(err(&output).contains("at byte 19: the file ends inside the header"));
    let (_, object) = shown(&path);
    let damage = json!({ "offset": 19, "cause": "the file ends inside the header" });
    assert_eq!(object["damage"], damage);
}

#[test]
fn records_that_are_no_examples_show_their_beginning() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    records(&path, &["a line of text".as_bytes(), b"\xfe\xff\0"]);
    let (text, _) = shown(&path);
    assert!(text.contains("begins with \"a line of text\""), "{text}");
    assert!(text.contains("begins with the bytes fe ff 00"), "{text}");
    let lines = record_lines(&path);
    assert_eq!(lines[0]["start"], "a line of text");
    assert_eq!(lines[1]["start"], json!({ "hex": "feff00" }));
}

#[test]
fn features_and_tags_cannot_emit_terminal_escapes() {
    let folder = Folder::new();
    let name = "\u{1b}[31mred\nforged";
    let path = folder.path("a.tfrecord");
    records(&path, &[&encode(&example([(name, 1_i64.into())]))]);
    let writer = SummaryWriter::open(folder.path("logs"), Default::default()).unwrap();
    writer.add_summary(summary::scalar(name, 1.0), 1).unwrap();
    writer.close().unwrap();
    for path in [path, folder.path("logs")] {
        let (text, _) = shown(&path);
        let drawn = text.contains('\u{1b}') || text.contains("\nforged");
        assert!(!drawn && text.contains("forged"), "{text}");
    }
}

#[test]
fn many_features_are_cut() {
    let folder = Folder::new();
    let path = folder.path("a.tfrecord");
    let all = (0..50).map(|i| (format!("f{i:02}"), 1_i64.into()));
    records(&path, &[&encode(&example(all))]);
    let (text, object) = shown(&path);
    assert!(text.ends_with("  f19: [1]\n  … 30 more\n"), "{text}");
    assert_eq!(object["features"].as_array().unwrap().len(), 50);
}

#[test]
fn a_missing_data_file_is_reported_once() {
    let folder = Folder::new();
    let prefix = folder.path("ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    for name in ["a", "b", "c"] {
        writer.add(name, &Tensor::scalar(1.0_f32)).unwrap();
    }
    writer.finish().unwrap();
    std::fs::remove_file(folder.path("ckpt.data-00000-of-00001")).unwrap();
    let output = trainspec(&["verify", &prefix]);
    let stderr = err(&output);
    assert_eq!((code(&output), stderr.lines().count()), (2, 1), "{stderr}");
    assert!(
        stderr.contains("ckpt.data-00000-of-00001: cannot open it"),
        "{stderr}"
    );
    let (text, object) = shown(&prefix);
    assert!(
        text.contains("missing") && !text.contains("damaged"),
        "{text}"
    );
    assert_eq!(object["tensors"][0]["unread"], "missing");
}

#[test]
fn an_empty_record_file_is_recovered() {
    let folder = Folder::new();
    let (empty, saved) = (folder.path("a.tfrecord"), folder.path("b.tfrecord"));
    records(&empty, &[]);
    assert_eq!(code(&trainspec(&["recover", &empty, &saved])), 0);
    assert_eq!(std::fs::read(&saved).unwrap(), b"");
    std::fs::write(&empty, "no records at all").unwrap();
    let lost = folder.path("c.tfrecord");
    let output = trainspec(&["recover", &empty, &lost]);
    assert_eq!(code(&output), 1);
    assert!(!out(&output).contains("saved"), "{}", out(&output));
    assert!(!std::path::Path::new(&lost).exists());
}

#[test]
fn extensions_of_other_formats_are_refused() {
    let folder = Folder::new();
    let prefix = folder.path("ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    writer.add("w", &Tensor::scalar(1.0_f32)).unwrap();
    writer.finish().unwrap();
    let output = trainspec(&["convert", &prefix, &folder.path("model.h5")]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("`.h5` are not written"),
        "{}",
        err(&output)
    );
    for name in ["model.v2.best", "a/m.npz", "b/m.safetensors", "c/m"] {
        let output = trainspec(&["convert", &prefix, &folder.path(name)]);
        assert_eq!(code(&output), 0, "{}", err(&output));
    }
}

#[test]
fn types_that_are_not_known_do_not_hide_the_rest() {
    let folder = Folder::new();
    let header = r#"{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"__metadata__":{"by":"hand"}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&[0, 0, 3, 4]);
    let path = folder.write("a.safetensors", bytes);
    let (text, object) = shown(path.to_str().unwrap());
    assert!(
        text.contains("a: not read: tensor `a`: the type `F4`"),
        "{text}"
    );
    assert!(text.contains("metadata by: hand"), "{text}");
    assert_eq!(object["tensors"][0]["max"], 4);
    assert_eq!(object["not_read"][0]["name"], "a");
    assert_eq!(object["metadata"], json!({ "by": "hand" }));
}
