//! Commands on files of gigabytes, in an address space that is far smaller.
//!
//! Not part of the ordinary tests, since it takes 10 GB of disk and minutes:
//! `cargo test --release -p trainspec-cli --test large -- --ignored --nocapture`. `TMPDIR` says where the files are.

#![cfg(target_os = "linux")]

mod support;

use std::process::Command;
use std::time::Instant;

use trainspec_formats::checkpoint::{BundleWriter, TensorView};
use trainspec_formats::files::Durability;
use trainspec_formats::records::RecordWriter;

/// The address space in MB; a tensor takes 128, and `diff` has two of them.
const ADDRESS_SPACE_MB: usize = 512;
const TENSORS: usize = 24;
const SHAPE: [usize; 2] = [4096, 8192];

/// Runs a command in the small space and gives what it prints.
fn trainspec(arguments: &[&str]) -> String {
    let start = Instant::now();
    let limited = format!("ulimit -v {}; exec \"$0\" \"$@\"", ADDRESS_SPACE_MB * 1000);
    let output = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_trainspec")])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}{error}");
    let time = start.elapsed().as_secs_f64();
    println!("{} in {time:.1} s", arguments[0]);
    text
}

#[test]
#[ignore = "takes 10 GB of disk and minutes"]
fn files_of_gigabytes_pass_through_a_small_space() {
    let folder = support::Folder::new();
    let path = |name: &str| folder.path(name);

    let record = vec![7_u8; 1_000_000];
    let records = path("large.tfrecord");
    let mut writer = RecordWriter::create(records.as_ref(), &Default::default()).unwrap();
    for _ in 0..5100 {
        writer.write(&record).unwrap();
    }
    writer.close(Durability::Unsynced).unwrap();
    assert!(trainspec(&["inspect", &records]).contains("5100 records"));
    assert!(trainspec(&["verify", &records]).contains(", intact"));
    assert!(trainspec(&["recover", &records, &path("saved.tfrecord")]).contains("5100 records"));
    std::fs::remove_file(&records).unwrap();
    std::fs::remove_file(path("saved.tfrecord")).unwrap();

    let tensor: Vec<f32> = (0..SHAPE[0] * SHAPE[1]).map(|i| i as f32).collect();
    let prefix = path("large.ckpt");
    let mut writer = BundleWriter::create(prefix.as_ref(), Default::default()).unwrap();
    for i in 0..TENSORS {
        let view = TensorView::of_values(&SHAPE, &tensor).unwrap();
        writer.add(&format!("layer_{i:02}/kernel"), view).unwrap();
    }
    writer.finish().unwrap();
    assert!(trainspec(&["inspect", &prefix]).contains("24 tensors"));
    assert!(trainspec(&["verify", &prefix]).contains(", intact"));
    let other = path("large.safetensors");
    trainspec(&["convert", &prefix, &other]);
    trainspec(&["diff", &prefix, &other]);
    assert!(trainspec(&["inspect", &other]).contains("24 tensors"));
    for name in ["large.npz", "large.v1"] {
        let to = if name.ends_with("npz") { "npz" } else { "v1" };
        trainspec(&["convert", &prefix, &path(name), "--to", to]);
        trainspec(&["diff", &prefix, &path(name)]);
        std::fs::remove_file(path(name)).unwrap();
    }
}
