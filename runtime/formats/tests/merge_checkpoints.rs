//! Merging checkpoints loses nothing: neither when it fails, nor where the result has the name of a part.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Folder;
use trainspec_formats::Code;
use trainspec_formats::checkpoint::bundle::{Options, Replace, data_path, index_path, merge};
use trainspec_formats::checkpoint::{Bundle, BundleWriter, Tensor};
use trainspec_formats::files::Durability;

fn options(shards: u32, replace: Replace) -> Options {
    Options {
        shards,
        replace,
        durability: Durability::Unsynced,
        ..Options::default()
    }
}

/// A checkpoint with one tensor in its first data file.
fn save(prefix: &Path, name: &str, shards: u32) {
    let mut writer = BundleWriter::create(prefix, options(shards, Replace::Atomic)).unwrap();
    writer.add(name, &value(name)).unwrap();
    writer.finish().unwrap();
}

fn value(name: &str) -> Tensor {
    Tensor::strings(&[], vec![name.into()]).unwrap()
}

fn names(folder: &Folder) -> Vec<String> {
    let files = fs::read_dir(&folder.0).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn parts(folder: &Folder) -> [PathBuf; 3] {
    let parts = ["a", "b", "c"];
    parts.map(|name| {
        let prefix = folder.file(name);
        save(&prefix, name, 1);
        prefix
    })
}

#[test]
fn a_part_without_its_data_leaves_all_others_as_they_were() {
    let folder = Folder::new();
    let [a, b, c] = parts(&folder);
    fs::remove_file(data_path(&c, 0, 1)).unwrap();
    let before = names(&folder);
    for durability in [Durability::Unsynced, Durability::Synced] {
        let options = Options {
            durability,
            ..Options::default()
        };
        let error = merge(&[&a, &b, &c], &folder.file("all"), options).unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        assert_eq!(error.path, Some(data_path(&c, 0, 1)));
        assert_eq!(names(&folder), before);
    }
    for (prefix, name) in [(&a, "a"), (&b, "b")] {
        assert_eq!(
            Bundle::open(prefix).unwrap().tensor(name).unwrap(),
            value(name)
        );
    }
}

#[test]
fn a_failed_rename_leaves_all_parts_as_they_were() {
    let folder = Folder::new();
    let [a, b, c] = parts(&folder);
    let merged = folder.file("all");
    // A folder is where the last data file should be.
    fs::create_dir_all(data_path(&merged, 2, 3).join("in")).unwrap();
    let before = names(&folder);
    let options = options(1, Replace::Atomic);
    assert!(merge(&[&a, &b, &c], &merged, options).is_err());
    assert_eq!(names(&folder), before);
    for (prefix, name) in [(&a, "a"), (&b, "b"), (&c, "c")] {
        let bundle = Bundle::open(prefix).unwrap();
        assert_eq!(bundle.tensor(name).unwrap(), value(name));
    }
}

#[test]
fn the_result_may_have_the_name_of_a_part() {
    for replace in [Replace::Atomic, Replace::SameNames] {
        for which in 0..3 {
            let folder = Folder::new();
            let parts = parts(&folder);
            // However its name is spelled.
            let merged = folder.0.join(".").join(parts[which].file_name().unwrap());
            // The first data file of the result has the name of the last part's, if names are kept.
            save(&merged, ["a", "b", "c"][which], 3);
            let parts: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
            merge(&parts, &merged, options(1, replace)).unwrap();
            let bundle = Bundle::open(&merged).unwrap();
            for name in ["a", "b", "c"] {
                assert_eq!(bundle.tensor(name).unwrap(), value(name));
            }
            assert!(bundle.verify().is_empty());
            let prefix = merged.file_name().unwrap().to_str().unwrap();
            let left = names(&folder);
            assert!(left.iter().all(|name| name.starts_with(prefix)), "{left:?}");
            assert_eq!(left.len(), 1 + bundle.header().shards as usize);
        }
    }
}

#[test]
fn data_files_without_tensors_go_with_their_part() {
    let folder = Folder::new();
    let (a, b) = (folder.file("a"), folder.file("b"));
    save(&a, "a", 3);
    save(&b, "b", 2);
    let merged = folder.file("all");
    merge(&[&a, &b], &merged, options(1, Replace::Atomic)).unwrap();
    let expected = [
        data_path(&merged, 0, 2),
        data_path(&merged, 1, 2),
        index_path(&merged),
    ];
    let expected = expected.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    assert_eq!(names(&folder), expected);
}
