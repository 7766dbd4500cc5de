//! Every public type of the front crate has an example in its documentation.

use std::path::{Path, PathBuf};

use trainspec_tests::root;

/// Modules whose types are internals of the crate.
const INTERNALS: &[&str] = &["data", "macro_support.rs", "memory.rs", "program.rs"];

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => rust_files(&path, files),
            false => files.push(path),
        }
    }
}

/// The name of a public type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric()).next()
}

#[test]
fn every_public_type_has_an_example() {
    let source = root().join("runtime/src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    files.sort();
    let mut without = Vec::new();
    for path in files {
        let name = path.strip_prefix(&source).unwrap();
        if INTERNALS.iter().any(|module| name.starts_with(module)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let Some(ty) = declared(line) else { continue };
            let above = lines[..i].iter().rev();
            let mut attached = above.take_while(|l| l.starts_with("///") || l.starts_with("#["));
            if !attached.any(|l| l.starts_with("/// ```") || l == &"#[doc(hidden)]") {
                without.push(format!("{}: {ty}", name.display()));
            }
        }
    }
    assert!(without.is_empty(), "no example: {without:#?}");
}
