//! `trainspec inspect`, as text and as JSON.

use crate::support::{Folder, code, err, out, trainspec};
use serde_json::{Value as Json, json};
use trainspec_formats::checkpoint::{BundleWriter, Tensor};
use trainspec_formats::events::{SummaryWriter, summary};
use trainspec_formats::examples::{encode, encode_sequence, example, sequence_example};
use trainspec_formats::files::Durability;
use trainspec_formats::records::RecordWriter;

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
    let first = &object["first"][0];
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
    let (_, object) = shown(&path);
    let expected = json!({
        "f": [0.1, "NaN", "Infinity"], "i": [i64::MAX], "s": [{ "hex": "ff00" }], "t": ["word"],
    });
    assert_eq!(object["first"][0]["features"], expected);

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
    let (text, object) = shown(&path);
    assert!(text.contains("begins with \"a line of text\""), "{text}");
    assert!(text.contains("begins with the bytes fe ff 00"), "{text}");
    assert_eq!(object["first"][0]["start"], "a line of text");
    assert_eq!(object["first"][1]["start"], json!({ "hex": "feff00" }));
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
