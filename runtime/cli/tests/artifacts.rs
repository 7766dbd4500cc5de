//! File type detection, and safety: what commands never do to a file.

use std::path::Path;

use crate::support::{Folder, command, root, trainspec};
use trainspec_formats::checkpoint::{BundleWriter, Slice, TableCheckpointWriter, Tensor, v1};
use trainspec_formats::files::Durability;
use trainspec_formats::records::RecordWriter;

/// The exit code, and all output.
fn output_of(arguments: &[&str]) -> (i32, String) {
    let output = trainspec(arguments);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.code().unwrap(), text)
}

fn bundle(prefix: &str, name: &str) {
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    let tensor = Tensor::from_values(&[2], &[1.0_f32, 2.0]).unwrap();
    writer.add(name, &tensor).unwrap();
    writer.finish().unwrap();
}

#[test]
fn records_are_records_whatever_their_checksums_look_like() {
    let folder = Folder::new();
    let path = folder.path("data");
    // The checksums of some of these lengths begin with `{`, as safetensors do, and some files with `PK`, as zip files do.
    for length in [130, 162, 587, 619, 1293, 19280, 84816] {
        let mut writer = RecordWriter::create(path.as_ref(), &Default::default()).unwrap();
        writer.write(&vec![7; length]).unwrap();
        writer.close(Durability::Unsynced).unwrap();
        let (code, text) = output_of(&["verify", &path]);
        assert_eq!(
            (code, text.contains("records, intact")),
            (0, true),
            "{length}: {text}"
        );
    }
}

#[test]
fn data_files_without_an_index_are_in_the_way() {
    let folder = Folder::new();
    bundle(&folder.path("in"), "w");
    let lost = folder.path("out.data-00001-of-00002");
    std::fs::write(&lost, "all that is left").unwrap();
    let (code, text) = output_of(&["convert", &folder.path("in"), &folder.path("out")]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("is there already"), "{text}");
    assert!(Path::new(&lost).exists());
}

#[test]
fn nothing_is_written_over_unless_that_is_asked_for() {
    let folder = Folder::new();
    let (input, npz) = (folder.path("in"), folder.path("in.npz"));
    bundle(&input, "w");
    assert_eq!(output_of(&["convert", &input, &npz]).0, 0);
    let before = std::fs::read(&npz).unwrap();
    let (code, text) = output_of(&["cat", &npz, "w", "-o", &npz]);
    assert_eq!((code, text.contains("--force")), (2, true), "{text}");
    assert_eq!(std::fs::read(&npz).unwrap(), before);
    let text = folder.path("w.txt");
    assert_eq!(output_of(&["cat", &npz, "w", "-o", &text]).0, 0);
    assert_eq!(output_of(&["cat", &npz, "w", "-o", &text]).0, 2);
    assert_eq!(output_of(&["cat", &npz, "w", "-o", &text, "--force"]).0, 0);
    let (code, text) = output_of(&["cat", &npz, "w", "-o", "/dev/null", "--force"]);
    assert_eq!((code, text.contains("not a file")), (1, true), "{text}");

    let records = folder.path("a.tfrecord");
    let mut writer = RecordWriter::create(records.as_ref(), &Default::default()).unwrap();
    writer.write(b"one").unwrap();
    writer.close(Durability::Unsynced).unwrap();
    let (code, text) = output_of(&["recover", &records, &records, "--force"]);
    assert_eq!((code, text.contains("over itself")), (2, true), "{text}");
    let (code, text) = output_of(&["recover", &records, &folder.path("no/where")]);
    assert_eq!(code, 1, "{text}");
}

#[test]
fn shards_of_the_first_version_are_one_checkpoint() {
    let folder = Folder::new();
    let prefix = folder.0.join("m");
    for shard in 0..2_u32 {
        let part = Tensor::from_values(&[1, 2], &[shard as f32, 1.0]).unwrap();
        let slice: Slice = format!("{shard},1:-").parse().unwrap();
        let mut writer = TableCheckpointWriter::new();
        writer.add_slice("w", &[2, 2], &slice, &part).unwrap();
        let path = v1::shard_path(&prefix, shard, 2);
        writer.write(&path, Durability::Unsynced).unwrap();
    }
    let (code, text) = output_of(&["verify", &folder.path("")]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("m-?????-of-00002: checkpoint, intact"),
        "{text}"
    );
    for pattern in ["m-?????-of-00002", "m@2", "m-*", "m-0000[01]-of-00002"] {
        let (code, text) = output_of(&["inspect", &folder.path(pattern)]);
        assert_eq!((code, text.contains("[2, 2]")), (0, true), "{text}");
        let (code, text) = output_of(&["cat", &folder.path(pattern), "w"]);
        assert_eq!((code, text.contains("[2, 2]")), (0, true), "{text}");
    }
}

#[test]
fn an_index_is_shown_without_its_data_files() {
    let folder = Folder::new();
    let from = root().join("tests/oracle/checkpoints/object");
    std::fs::copy(from.join("ckpt-1.index"), folder.path("ckpt-1.index")).unwrap();
    let (code, text) = output_of(&["inspect", "--no-values", &folder.path("ckpt-1")]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("checkpoint of objects") && text.contains("model/w/"),
        "{text}"
    );
}

#[test]
fn names_cannot_emit_terminal_escapes() {
    let folder = Folder::new();
    let path = folder.path("in");
    bundle(&path, "\u{1b}[31mred\nforged  float32  [9]");
    for arguments in [
        &["inspect", &path][..],
        &["cat", &path, "\u{1b}[31m"],
        &["diff", &path, &path],
    ] {
        let (_, text) = output_of(arguments);
        assert!(
            !text.contains('\u{1b}') && !text.contains("\nforged"),
            "{text}"
        );
    }
}

#[cfg(unix)]
#[test]
fn folders_are_searched_for_known_formats_alone() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    std::fs::write(folder.path("words.index"), "a b c").unwrap();
    let odd = folder.0.join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).unwrap();
    bundle(&folder.path("good"), "w");
    for ending in ["index", "data-00000-of-00001"] {
        let from = folder.path(&format!("good.{ending}"));
        std::fs::copy(from, odd.join(format!("bad.{ending}"))).unwrap();
    }
    assert_eq!(output_of(&["verify", &folder.path("")]).0, 0);
    std::fs::write(odd.join("bad.data-00000-of-00001"), "8 bytes.").unwrap();
    let (code, text) = output_of(&["verify", &folder.path("")]);
    assert_eq!(
        (code, text.contains("1 intact, 1 damaged")),
        (2, true),
        "{text}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let folder = Folder::new();
    bundle(&folder.path("in"), "w");
    for verb in ["inspect", "verify"] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let status = command(&[verb, &folder.path("in")])
            .stdout(full)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(1), "{verb}");
    }
}

#[test]
fn slices_of_partitioned_tensors_are_named() {
    let folder = Folder::new();
    let from = root().join("tests/oracle/checkpoints/partitioned");
    for ending in ["index", "data-00000-of-00001"] {
        let name = format!("model.ckpt.{ending}");
        std::fs::copy(from.join(&name), folder.path(&name)).unwrap();
    }
    let data = folder.path("model.ckpt.data-00000-of-00001");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(&data, bytes).unwrap();
    let (code, text) = output_of(&["verify", &folder.path("model.ckpt")]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("tensor `emb/rows, slice 0,"), "{text}");
    assert!(!text.contains("\\x"), "{text}");
}
