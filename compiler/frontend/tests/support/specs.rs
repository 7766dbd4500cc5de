//! The specs of this repository that parse.

use std::fs;
use std::path::{Path, PathBuf};

use trainspec_frontend::syntax::{self, Parsed};
use trainspec_ir::FileId;

/// A spec, and its tree.
pub(crate) struct Spec {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) parsed: Parsed,
}

/// Every spec below the library, the examples and the goldens that has no syntax error, sorted by path.
pub(crate) fn all() -> Vec<Spec> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["compiler/std", "examples", "tests/golden"] {
        collect(&root.join(folder), &mut paths);
    }
    paths.sort();
    let specs: Vec<Spec> = paths.into_iter().filter_map(read).collect();
    assert!(
        specs.len() > 10,
        "the specs of the repository are not where they were"
    );
    specs
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|e| e == "trainspec") {
            paths.push(path);
        }
    }
}

/// `None` for a golden of something that does not parse.
fn read(path: PathBuf) -> Option<Spec> {
    let text = fs::read_to_string(&path).ok()?;
    let (parsed, errors) = syntax::parse(FileId(0), &text);
    errors.is_empty().then_some(Spec { path, text, parsed })
}
