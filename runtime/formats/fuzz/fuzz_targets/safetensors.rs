//! Arbitrary bytes as a `safetensors`, `npy` or `npz` file: tensors or an error, never a crash.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use trainspec_formats::checkpoint::{Npz, Safetensors, numpy, safetensors};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    let root = match std::path::Path::new("/dev/shm").is_dir() {
        true => PathBuf::from("/dev/shm"),
        false => std::env::temp_dir(),
    };
    let path = root.join(format!("trainspec-fuzz-archive-{}", std::process::id()));
    match kind % 4 {
        // The header alone, with a valid length.
        0 => {
            let (header, data) = bytes.split_at(bytes.len() - bytes.len() / 8);
            let mut file = (header.len() as u64).to_le_bytes().to_vec();
            file.extend(header);
            file.extend(data);
            std::fs::write(&path, file).expect("a file");
            tensors(&path);
        }
        1 => {
            std::fs::write(&path, bytes).expect("a file");
            tensors(&path);
        }
        2 => {
            std::fs::write(&path, bytes).expect("a file");
            if let Ok(archive) = Npz::open(&path) {
                archive.verify();
                for (name, dtype, shape) in archive.entries() {
                    if let Ok(tensor) = archive.tensor(name) {
                        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, shape));
                    }
                }
            }
        }
        _ => {
            std::fs::write(&path, bytes).expect("a file");
            if let Ok(tensor) = numpy::read_npy(&path)
                && numpy::write_npy(&path, tensor.view(), Default::default()).is_ok()
            {
                assert_eq!(numpy::read_npy(&path).expect("what was written"), tensor);
            }
        }
    }
    let _ = std::fs::remove_file(&path);
});

fn tensors(path: &std::path::Path) {
    let Ok(file) = Safetensors::open(path) else {
        return;
    };
    assert!(file.verify().is_empty());
    let tensors: Vec<_> = file
        .entries()
        .map(|(name, dtype, shape)| {
            let tensor = file.tensor(name).expect("the header was checked");
            assert_eq!((tensor.dtype(), tensor.shape()), (dtype, shape));
            (name.to_owned(), tensor)
        })
        .collect();
    let views: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.view()))
        .collect();
    let again = path.with_extension("again");
    safetensors::write(&again, &views, file.metadata(), Default::default()).expect("a file");
    let file = Safetensors::open(&again).expect("what was written");
    for (name, tensor) in &tensors {
        assert_eq!(&file.tensor(name).expect("what was written"), tensor);
    }
    let _ = std::fs::remove_file(again);
}
