//! Exhaustive damage of checkpoints: an error, never a panic, and never a wrong value without an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Folder, oracle};
use trainspec_formats::checkpoint::numpy::{self, Compression};
use trainspec_formats::checkpoint::{
    CheckpointReader, Tensor, get_checkpoint_state, latest_checkpoint, safetensors, verify,
};

/// The readable tensors of a checkpoint; `None` if it cannot be opened.
fn values(path: &Path) -> Option<BTreeMap<String, Option<Tensor>>> {
    let reader = CheckpointReader::open(path).ok()?;
    let _ = reader.object_graph();
    let values = reader.names().into_iter().map(|name| {
        let value = reader.get_tensor(name).ok();
        if let Some(tensor) = &value {
            let mut into = vec![0; tensor.bytes().len()];
            match reader.read_into(name, &mut into) {
                Ok(()) => assert_eq!(into, tensor.bytes()),
                Err(_) => assert!(tensor.dtype().size().is_none()),
            }
        }
        (name.to_owned(), value)
    });
    Some(values.collect())
}

/// Changes every byte of a file and truncates it at every length; `whole` are the tensors before.
///
/// Where `summed`, everything is covered by checksums: what is still read is unchanged.
fn damage(
    open: &Path,
    file: &Path,
    whole: &BTreeMap<String, Option<Tensor>>,
    summed: bool,
) -> usize {
    let bytes = fs::read(file).unwrap();
    let check = |what: String| {
        // Only termination matters here.
        let found = verify(open);
        let Some(values) = values(open) else {
            assert!(!found.is_empty(), "{what}: not opened and nothing found");
            return;
        };
        let mut lost = false;
        for (name, value) in &values {
            match value {
                Some(value) if summed => {
                    assert_eq!(Some(value), whole[name].as_ref(), "{what}: {name}");
                }
                Some(_) => {}
                None => lost = true,
            }
        }
        assert!(!lost || !found.is_empty(), "{what}: lost and not found");
        if summed {
            // A type that is damaged may be one that is not supported.
            let is_whole = values.len() == whole.len();
            assert!(is_whole || !found.is_empty(), "{what}");
        }
    };
    let mut count = 0;
    for length in 0..bytes.len() {
        fs::write(file, &bytes[..length]).unwrap();
        check(format!("{} cut to {length}", file.display()));
        count += 1;
    }
    for at in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            fs::write(file, &changed).unwrap();
            check(format!("{} byte {at} changed by {mask:#x}", file.display()));
            count += 1;
        }
    }
    fs::write(file, &bytes).unwrap();
    count
}

#[test]
fn every_damage_of_a_checkpoint_is_detected() {
    let root = oracle().join("checkpoints");
    let mut count = 0;
    for case in [
        "single",
        "sharded",
        "partitioned",
        "dtypes",
        "object",
        "v1",
        "v1_partitioned",
    ] {
        let folder = Folder::new();
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(root.join(case)).unwrap() {
            let from = entry.unwrap().path();
            let name = from.file_name().unwrap().to_str().unwrap().to_owned();
            // Meta graphs are not read here; of several checkpoints one is enough.
            if name.ends_with(".meta") || name.contains("-352") || name.contains("-600") {
                continue;
            }
            fs::copy(&from, folder.file(&name)).unwrap();
            if name != "checkpoint" {
                files.push(folder.file(&name));
            }
        }
        let prefix = latest_checkpoint(&folder.0, None).unwrap().unwrap();
        let whole = values(&prefix).unwrap();
        assert!(whole.values().all(Option::is_some), "{case}");
        for file in &files {
            count += damage(&prefix, file, &whole, true);
        }
        assert_eq!(values(&prefix).unwrap(), whole, "{case}");
    }
    println!("{count} damaged files");
}

#[test]
fn damage_of_a_checkpoint_state_file_is_at_most_an_error() {
    let folder = Folder::new();
    let path = folder.file("checkpoint");
    let text = "model_checkpoint_path: \"model.ckpt-7\"\nall_model_checkpoint_paths: \"a\\303\\251\\n\"\n\
                all_model_checkpoint_timestamps: 1.5\nlast_preserved_timestamp: 1e+300\n";
    for at in 0..text.len() {
        fs::write(&path, &text[..at]).unwrap();
        let _ = get_checkpoint_state(&folder.0, None);
        for byte in 0..=255 {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = byte;
            fs::write(&path, &changed).unwrap();
            let _ = get_checkpoint_state(&folder.0, None);
        }
    }
}

fn small() -> Vec<(&'static str, Tensor)> {
    vec![
        (
            "a/b",
            Tensor::from_values(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap(),
        ),
        ("c", Tensor::from_values(&[3], &[1_i64, -2, 3]).unwrap()),
        ("d", Tensor::from_values(&[2], &[true, false]).unwrap()),
        ("e", Tensor::from_values::<u8>(&[0, 4], &[]).unwrap()),
    ]
}

#[test]
fn archives_without_checksums_are_read_within_bounds() {
    let folder = Folder::new();
    let path = folder.file("a.safetensors");
    let tensors = small();
    let views: Vec<_> = tensors.iter().map(|(name, t)| (*name, t.view())).collect();
    let metadata = [("made".to_owned(), "here".to_owned())].into();
    safetensors::write(&path, &views, &metadata, Default::default()).unwrap();
    let whole = values(&path).unwrap();
    assert_eq!(whole.len(), 4);
    damage(&path, &path, &whole, false);
}

#[test]
fn archives_of_numpy_are_checked() {
    let folder = Folder::new();
    let tensors = small();
    let views: Vec<_> = tensors.iter().map(|(name, t)| (*name, t.view())).collect();
    for compression in [Compression::Stored, Compression::Deflated] {
        let path = folder.file("a.npz");
        numpy::write_npz(&path, &views, compression, Default::default()).unwrap();
        let whole = values(&path).unwrap();
        assert_eq!(whole.len(), 4);
        for (name, tensor) in &tensors {
            assert_eq!(whole[*name].as_ref(), Some(tensor));
        }
        // Names, sizes and checksums stand twice, in the directory and before the bytes.
        damage(&path, &path, &whole, true);
    }
    let path = folder.file("a.npy");
    for (_, tensor) in &tensors {
        numpy::write_npy(&path, tensor.view(), Default::default()).unwrap();
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            fs::write(&path, &bytes[..at]).unwrap();
            assert!(numpy::read_npy(&path).is_err(), "cut to {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x11;
            fs::write(&path, &changed).unwrap();
            let _ = numpy::read_npy(&path);
        }
    }
}
