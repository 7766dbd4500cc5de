//! Arbitrary index entries, data files and `checkpoint` files: a result or an error, never a crash, and memory bounded by the files.
//!
//! The input is split into length-prefixed pieces: the index's keys and values, which get valid checksums, and the data. Thus the
//! fuzzer reaches the code after the checksums.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use trainspec_formats::checkpoint::{
    CheckpointReader, CheckpointState, ObjectGraph, Slice, get_checkpoint_state, verify,
};
use trainspec_formats::table::TableBuilder;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 6 {
        // The entries of a bundle.
        0 => {
            let folder = Folder::new();
            let (data, entries) = pieces(bytes);
            std::fs::write(folder.0.join("m.index"), table(entries)).expect("a file");
            std::fs::write(folder.0.join("m.data-00000-of-00001"), data).expect("a file");
            look(&folder.0.join("m"));
        }
        // The entries of a checkpoint of the first version.
        1 => {
            let folder = Folder::new();
            std::fs::write(folder.0.join("m"), table(pieces(bytes).1)).expect("a file");
            look(&folder.0.join("m"));
        }
        // The `checkpoint` file.
        2 => {
            if let Ok(text) = std::str::from_utf8(bytes)
                && let Ok(state) = CheckpointState::parse(text)
            {
                let again = CheckpointState::parse(&state.to_text()).expect("what was printed");
                assert_eq!(again.to_text(), state.to_text());
            }
            let folder = Folder::new();
            std::fs::write(folder.0.join("checkpoint"), bytes).expect("a file");
            if let Ok(Some(state)) = get_checkpoint_state(&folder.0, None) {
                let path = Path::new(&state.model_checkpoint_path);
                assert!(path.is_absolute());
            }
        }
        // The object graph.
        3 => {
            if let Ok(graph) = ObjectGraph::decode(bytes) {
                let count = graph.variables().len();
                let again = ObjectGraph::decode(&graph.encode()).expect("what was written");
                assert_eq!(again.variables().len(), count);
            }
        }
        // A tensor slice.
        4 => {
            if let Ok(text) = std::str::from_utf8(bytes)
                && let Ok(slice) = text.parse::<Slice>()
            {
                assert_eq!(slice.to_string().parse::<Slice>().expect("a slice"), slice);
            }
        }
        // A file of any format.
        _ => {
            let folder = Folder::new();
            std::fs::write(folder.0.join("m"), bytes).expect("a file");
            look(&folder.0.join("m"));
        }
    }
});

/// Calls every operation of a checkpoint reader.
fn look(path: &Path) {
    verify(path);
    let Ok(reader) = CheckpointReader::open(path) else {
        return;
    };
    let _ = reader.object_graph();
    for name in reader.names() {
        let Ok(tensor) = reader.get_tensor(name) else {
            continue;
        };
        if tensor.dtype().size().is_some() {
            let mut into = vec![0; tensor.bytes().len()];
            reader.read_into(name, &mut into).expect("it was just read");
            assert_eq!(into, tensor.bytes());
        }
        let slice = Slice::full(tensor.shape().len());
        let whole = reader.get_slice(name, &slice).expect("it was just read");
        assert_eq!(whole, tensor);
    }
}

/// The data, and keys with values: each prefixed by its length in one byte.
fn pieces(bytes: &[u8]) -> (&[u8], Vec<(&[u8], &[u8])>) {
    let mut rest = bytes;
    let mut piece = || {
        let (&length, after) = rest.split_first()?;
        let (piece, after) = after.split_at_checked(usize::from(length))?;
        rest = after;
        Some(piece)
    };
    let data = piece().unwrap_or_default();
    let mut entries = Vec::new();
    while let Some(key) = piece()
        && let Some(value) = piece()
    {
        entries.push((key, value));
    }
    (data, entries)
}

fn table(mut entries: Vec<(&[u8], &[u8])>) -> Vec<u8> {
    entries.sort();
    entries.dedup_by_key(|entry| entry.0);
    let mut builder = TableBuilder::new(Vec::new());
    for (key, value) in entries {
        builder.add(key, value).expect("keys in order");
    }
    builder.finish().expect("memory does not fail")
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Folder {
        // In memory, where there is such a folder: it is created again for every input.
        let root = match Path::new("/dev/shm").is_dir() {
            true => "/dev/shm".into(),
            false => std::env::temp_dir(),
        };
        let path = root.join(format!("trainspec-fuzz-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
