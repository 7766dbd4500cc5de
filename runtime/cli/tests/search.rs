//! Recursive search of folders: known formats, damaged files, and special files.

#![cfg(unix)]

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use crate::support::{Folder, code, command, err, out, root, trainspec};
use trainspec_formats::checkpoint::{BundleWriter, TableCheckpointWriter, Tensor, numpy};
use trainspec_formats::events::SummaryWriter;
use trainspec_formats::files::Durability;
use trainspec_formats::records::RecordWriter;

fn tensor() -> Tensor {
    Tensor::from_values(&[2], &[1.0_f32, 2.0]).unwrap()
}

fn bundle(prefix: &str) {
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    writer.add("w", &tensor()).unwrap();
    writer.finish().unwrap();
}

fn records(path: &str) {
    let mut writer = RecordWriter::create(path.as_ref(), &Default::default()).unwrap();
    writer.write(b"one").unwrap();
    writer.write(b"two").unwrap();
    writer.close(Durability::Unsynced).unwrap();
}

/// The exit code and the output of `verify` on a folder.
fn verified(folder: &Folder) -> (i32, String) {
    let output = trainspec(&["verify", &folder.path("")]);
    (code(&output), out(&output) + &err(&output))
}

#[test]
fn a_file_that_is_not_of_the_format_its_name_implies_is_damaged() {
    type Case = (&'static str, fn(&Folder));
    let cases: [Case; 8] = [
        ("old.ckpt-1", |folder| {
            let values = tensor();
            let mut table = TableCheckpointWriter::new();
            table.add("w", &values).unwrap();
            let path = folder.path("old.ckpt-1");
            table.write(path.as_ref(), Durability::Unsynced).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            folder.write("checkpoint", "model_checkpoint_path: \"old.ckpt-1\"\n");
        }),
        ("a.safetensors", |folder| {
            folder.write("a.safetensors", b"\x40\0\0\0");
        }),
        ("a.npz", |folder| {
            folder.write("a.npz", b"");
        }),
        ("data-00001-of-00002", |folder| {
            records(&folder.path("data-00000-of-00002"));
            let path = folder.path("data-00001-of-00002");
            records(&path);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[0] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }),
        ("lone-00000-of-00001", |folder| {
            folder.write("lone-00000-of-00001", "neither records nor tensors");
        }),
        ("b.index: it is missing", |folder| {
            bundle(&folder.path("b"));
            std::fs::remove_file(folder.path("b.index")).unwrap();
        }),
        ("c.tfrecord: the link leads nowhere", |folder| {
            symlink("nowhere", folder.path("c.tfrecord")).unwrap();
        }),
        ("events.out.tfevents.1: the link leads nowhere", |folder| {
            symlink("nowhere", folder.path("events.out.tfevents.1")).unwrap();
        }),
    ];
    for (named, make) in cases {
        let folder = Folder::new();
        bundle(&folder.path("good"));
        make(&folder);
        let (code, text) = verified(&folder);
        assert_eq!((code, text.contains(named)), (2, true), "{named}: {text}");
        assert!(text.contains("good: checkpoint, intact"), "{text}");
    }
}

#[test]
fn names_that_imply_no_format_are_left_alone() {
    let folder = Folder::new();
    bundle(&folder.path("good"));
    folder.write("notes.txt", "read me");
    folder.write("words.txt-00000-of-00001", "a\nb\n");
    let archive = folder.path("a.npz");
    let array = tensor();
    let arrays = [("w", array.view())];
    numpy::write_npz(
        archive.as_ref(),
        &arrays,
        Default::default(),
        Default::default(),
    )
    .unwrap();
    // An archive whose only member, which is empty, is no array.
    let fields = b"\x14\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0";
    let other = [
        &b"PK\x03\x04"[..],
        fields,
        b"w.txt",
        b"PK\x01\x02\x14\0",
        fields,
        &[0; 14],
        b"w.txt",
        b"PK\x05\x06\0\0\0\0\x01\0\x01\0\x33\0\0\0\x23\0\0\0\0\0",
    ]
    .concat();
    folder.write("model.keras", &other);
    let (verdict, text) = verified(&folder);
    assert_eq!(verdict, 0, "{text}");
    assert!(text.contains("2 checked: 2 intact"), "{text}");
    assert!(text.contains("model.keras: a Keras model"), "{text}");

    for verb in ["verify", "inspect"] {
        let output = trainspec(&[verb, &folder.path("model.keras")]);
        let text = out(&output) + &err(&output);
        assert_eq!(code(&output), 2, "{text}");
        assert!(text.contains("this is a Keras model"), "{text}");
    }
}

#[test]
fn pipes_in_folders_are_skipped_and_reported() {
    let folder = Folder::new();
    records(&folder.path("a.tfrecord"));
    for name in ["b.tfrecord", "events.out.tfevents.7", "c"] {
        let made = Command::new("mkfifo").arg(folder.path(name)).status();
        assert!(made.unwrap().success());
    }
    symlink(".", folder.path("circle")).unwrap();
    for verb in ["verify", "inspect"] {
        let output = trainspec(&[verb, &folder.path("")]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        let text = err(&output);
        for name in ["b.tfrecord", "events.out.tfevents.7", "c"] {
            let line = format!("skipped {}: no regular file\n", folder.path(name));
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.contains("circle: a link to a folder"), "{text}");
        let output = trainspec(&[verb, "--format", "json", &folder.path("")]);
        assert!(out(&output).contains("\"skipped\":\"no regular file\""));
    }
}

#[test]
fn what_cannot_be_read_at_any_place_is_refused() {
    let bytes = std::fs::read(root().join("examples/data/digits-test.tfrecord")).unwrap();
    for verb in ["verify", "inspect"] {
        let mut child = command(&[verb, "/dev/stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may be gone before all is written.
        let _ = child.stdin.take().unwrap().write_all(&bytes);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 2);
        assert!(err(&output).contains("no regular file"), "{}", err(&output));
    }
}

#[test]
fn a_folder_that_cannot_be_listed_does_not_stop_the_rest() {
    let folder = Folder::new();
    bundle(&folder.path("z"));
    std::fs::create_dir(folder.path("closed")).unwrap();
    let closed = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path("closed"), permissions).unwrap();
    };
    closed(0o000);
    let is_closed = std::fs::read_dir(folder.path("closed")).is_err();
    let (code, text) = verified(&folder);
    closed(0o700);
    assert!(text.contains("z: checkpoint, intact"), "{text}");
    // Root can list every folder.
    assert_eq!(code, if is_closed { 2 } else { 0 }, "{text}");
}

#[test]
fn relative_entries_of_a_list_stay_in_its_folder_and_absolute_ones_are_followed() {
    let folder = Folder::new();
    bundle(&folder.path("run/model-1"));
    bundle(&folder.path("other/model-9"));
    symlink("../other", folder.path("run/link")).unwrap();
    let inside = folder.path("run/model-1");
    let outside = folder.path("other/model-9");
    let mut text = "model_checkpoint_path: \"model-1\"\n".to_owned();
    for path in [
        &inside,
        "gone-2",
        "../other/model-9",
        "link/model-9",
        &outside,
    ] {
        text += &format!("all_model_checkpoint_paths: {path:?}\n");
    }
    let list = folder.write("run/checkpoint", text);
    let list = list.to_str().unwrap();
    let output = trainspec(&["verify", list]);
    let stderr = err(&output);
    assert_eq!((code(&output), stderr.lines().count()), (2, 3), "{stderr}");
    assert!(stderr.contains("`gone-2` is missing"), "{stderr}");
    for path in ["../other/model-9", "link/model-9"] {
        assert!(stderr.contains(&format!("`{path}` leads out")), "{stderr}");
    }
    let output = trainspec(&["inspect", "--format", "json", list]);
    let shown: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(shown["missing"], serde_json::json!(["gone-2"]));
    let expected = serde_json::json!(["../other/model-9", "link/model-9"]);
    assert_eq!(shown["outside"], expected);
}

#[test]
fn without_a_list_the_highest_step_is_the_newest() {
    let folder = Folder::new();
    for step in [1000, 900, 99] {
        bundle(&folder.path(&format!("run/model-{step}")));
    }
    let (run, newest) = (folder.path("run"), folder.path("run/model-1000"));
    for arguments in [
        &["inspect", &run][..],
        &["cat", &run, "w"],
        &["diff", &run, &newest],
        &["convert", &run, &folder.path("out.npz")],
    ] {
        let output = trainspec(arguments);
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert!(err(&output).contains(&newest), "{}", err(&output));
    }
    // Among equals, the latest.
    folder.write("tie/a-5", std::fs::read(folder.path("out.npz")).unwrap());
    folder.write("tie/b-5", std::fs::read(folder.path("out.npz")).unwrap());
    let file = std::fs::File::options()
        .write(true)
        .open(folder.path("tie/a-5"));
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(9);
    file.unwrap().set_modified(later).unwrap();
    let output = trainspec(&["cat", &folder.path("tie"), "w"]);
    assert!(err(&output).contains("tie/a-5"), "{}", err(&output));
}

#[test]
fn a_list_of_a_moved_folder_means_the_checkpoint_beside_it() {
    let folder = Folder::new();
    for step in [7, 9] {
        bundle(&folder.path(&format!("run/model-{step}")));
    }
    let listed = "model_checkpoint_path: \"/nowhere/run/model-7\"\n";
    folder.write("run/checkpoint", listed);
    let run = folder.path("run");
    let output = trainspec(&["cat", &run, "w"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let beside = folder.path("run/model-7");
    let expected = format!(
        "it lists `/nowhere/run/model-7`, which is not there; taking {beside}, of that name"
    );
    assert!(err(&output).contains(&expected), "{}", err(&output));
    // A list that is cut off.
    folder.write("run/checkpoint", &listed[..30]);
    let output = trainspec(&["cat", &run, "w"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let expected = format!("{}: at byte ", folder.path("run/checkpoint"));
    assert!(err(&output).contains(&expected), "{}", err(&output));
    assert!(
        err(&output).contains("run/model-9, by its step"),
        "{}",
        err(&output)
    );
}

#[test]
fn an_export_is_not_newer_than_a_checkpoint() {
    let folder = Folder::new();
    bundle(&folder.path("run/model-7"));
    let tensor = tensor();
    let path = folder.path("run/model-9.npz");
    let arrays = [("w", tensor.view())];
    numpy::write_npz(
        path.as_ref(),
        &arrays,
        Default::default(),
        Default::default(),
    )
    .unwrap();
    let output = trainspec(&["cat", &folder.path("run"), "w"]);
    assert!(err(&output).contains("run/model-7,"), "{}", err(&output));
}

#[test]
fn an_event_file_that_is_being_written_is_intact() {
    let folder = Folder::new();
    let writer = SummaryWriter::open(folder.path("run"), Default::default()).unwrap();
    let path = writer.path();
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    // The beginning of a record.
    file.write_all(&[7; 9]).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(code(&trainspec(&["verify", path])), 0);
    writer.close().unwrap();
    let output = trainspec(&["verify", path]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("9 bytes are there"),
        "{}",
        err(&output)
    );
}

#[test]
fn what_is_no_checkpoint_is_called_by_its_name() {
    let folder = Folder::new();
    bundle(&folder.path("a"));
    records(&folder.path("b"));
    let output = trainspec(&["diff", &folder.path("a"), &folder.path("b")]);
    let stderr = err(&output);
    assert_eq!(code(&output), 2, "{stderr}");
    assert!(stderr.contains("this is a record file"), "{stderr}");
}

#[test]
fn models_of_other_programs_are_called_by_their_names() {
    let folder = Folder::new();
    let member = |name: &str| {
        let mut bytes = b"PK\x03\x04".to_vec();
        bytes.resize(26, 0);
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(300, 0);
        bytes
    };
    let files: [(&str, Vec<u8>, &str); 12] = [
        ("a", member("model/data.pkl"), "a PyTorch checkpoint"),
        ("a.pt", member("model/version"), "a PyTorch checkpoint"),
        ("b.pt", b"\x80\x02}q\0.".to_vec(), "a Python pickle"),
        ("a.keras", member("metadata.json"), "a Keras model"),
        ("a.h5", b"\x89HDF\r\n\x1a\n\0".to_vec(), "an HDF5 file"),
        ("saved_model.pb", b"\x08\x01".to_vec(), "a SavedModel"),
        ("frozen.pb", b"\x0a\x01".to_vec(), "a TensorFlow graph"),
        ("m.ckpt.meta", b"\x0a\x01".to_vec(), "MetaGraphDef"),
        ("a.npy", b"\x93NUMPY\x01\0".to_vec(), "a single NumPy array"),
        ("a.onnx", b"\x08\x07".to_vec(), "an ONNX model"),
        (
            "a.tflite",
            b"\x1c\0\0\0TFL3".to_vec(),
            "a TensorFlow Lite model",
        ),
        ("a.gguf", b"GGUF\x03\0\0\0".to_vec(), "a GGUF model"),
    ];
    for (name, bytes, expected) in &files {
        let path = folder.write(name, bytes);
        let path = path.to_str().unwrap();
        let out_path = folder.path("out.npz");
        for arguments in [
            &["inspect", path][..],
            &["verify", path],
            &["cat", path, "w"],
            &["diff", path, path],
            &["convert", path, &out_path],
        ] {
            let output = trainspec(arguments);
            let text = err(&output);
            assert_eq!(code(&output), 2, "{text}");
            assert!(
                text.starts_with(&format!("error: {path}: this is ")),
                "{text}"
            );
            assert!(text.contains(expected), "{text}");
        }
    }
    // In a folder they are skipped, and reported.
    let output = trainspec(&["inspect", &folder.path("")]);
    let text = err(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(text.contains("there is no checkpoint"), "{text}");
    for name in ["a", "a.pt", "b.pt", "a.keras", "a.h5", "saved_model.pb"] {
        let line = format!("skipped {}: a", folder.path(name));
        let graph = format!("skipped {}: the graph", folder.path(name));
        assert!(
            text.contains(&line) || text.contains(&graph),
            "{name}: {text}"
        );
    }
}

#[test]
fn folders_show_the_checkpoints_below_them() {
    let folder = Folder::new();
    // A SavedModel, and runs in folders of their own.
    folder.write("export/saved_model.pb", b"\x08\x01");
    bundle(&folder.path("export/variables/variables"));
    for step in [7, 12] {
        bundle(&folder.path(&format!("runs/a/model-{step}")));
    }
    bundle(&folder.path("runs/b/model-3"));
    let shown = |path: &str| {
        let output = trainspec(&["inspect", &folder.path(path)]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output)
    };
    assert!(shown("export").contains("export/variables/variables: checkpoint"));
    let text = shown("runs");
    assert!(text.contains("runs/a/model-12: checkpoint"), "{text}");
    assert!(!text.contains("model-7"), "{text}");
    assert!(text.contains("runs/b/model-3: checkpoint"), "{text}");
    assert_eq!(shown("runs/*"), text);
    assert_eq!(shown("").matches(": checkpoint").count(), 3);

    // The variables of a SavedModel are its checkpoint; a folder of runs has none itself.
    let output = trainspec(&["cat", &folder.path("export"), "w"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let output = trainspec(&["cat", &folder.path("runs"), "w"]);
    let text = err(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(
        text.contains("but below it: ") && text.contains("runs/a/model-12 and 2 more"),
        "{text}"
    );
}

#[test]
fn patterns_and_shard_counts_mean_files() {
    let folder = Folder::new();
    for shard in 0..3 {
        records(&folder.path(&format!("data-{shard:05}-of-00003")));
        records(&folder.path(&format!("rec-{shard}.tfrecord")));
    }
    for pattern in ["data@3", "data-*", "data-?????-of-00003", "rec-*.tfrecord"] {
        for verb in ["inspect", "verify"] {
            let output = trainspec(&[verb, &folder.path(pattern)]);
            let text = out(&output);
            assert_eq!(code(&output), 0, "{pattern}: {}", err(&output));
            assert_eq!(text.matches(": records").count(), 3, "{text}");
        }
    }
    std::fs::remove_file(folder.path("data-00001-of-00003")).unwrap();
    let output = trainspec(&["verify", &folder.path("data@3")]);
    let text = err(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(
        text.contains("data-00001-of-00003: 1 of the 3 shards"),
        "{text}"
    );
    let output = trainspec(&["inspect", &folder.path("none-*")]);
    let text = err(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(text.contains("no file matches"), "{text}");

    // All files of a checkpoint are one.
    bundle(&folder.path("model-1"));
    let output = trainspec(&["inspect", &folder.path("model-*")]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output).matches(": checkpoint").count(), 1);
    let output = trainspec(&["cat", &folder.path("model-*"), "w"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    bundle(&folder.path("model-2"));
    let output = trainspec(&["cat", &folder.path("model-*"), "w"]);
    let text = err(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(text.contains("this means 2 files"), "{text}");
}
