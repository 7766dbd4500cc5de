//! Vocabulary lint: comments, documents and constants use the field's terms, and the glossary names the file of each.

use std::path::{Path, PathBuf};

use trainspec_tests::root;

/// Words and phrases that describe a notion for which the field has a name, and that name.
const DENIED: &[(&str, &str)] = &[
    ("truth", "bool, boolean, mask"),
    ("truths", "bools, boolean masks"),
    ("told", "reported, given"),
    ("behind", "after, past, beyond"),
    ("wanted", "requested, required"),
    ("so many", "N, this many"),
    ("so much", "this much"),
    ("whole number", "integer"),
    ("whole numbers", "integers"),
    ("large page", "huge page"),
    ("large pages", "huge pages"),
    ("very small numbers", "denormals"),
    ("very small results", "denormals"),
    ("what nothing needs", "dead code"),
    ("for ever", "endlessly"),
    ("put aside", "spilled, staged"),
    ("walks again", "makes a second pass"),
    ("slopes", "gradients"),
    ("pull back", "VJP"),
    ("at hand", "available, in cache"),
    ("rides on", "is an epilogue of"),
    ("ride on", "are an epilogue of"),
    ("fewer products", "Winograd"),
    ("anew", "again"),
    ("written down", "emitted"),
    ("shelf", "buffer pool"),
    ("halves", "f16 and bf16; half (name which)"),
    ("gathered", "collected; bias correction"),
    ("swept", "implicit GEMM"),
    ("every so often", "at an interval"),
    ("room", "capacity, space"),
    ("wants", "requests, needs"),
    ("lend", "buffer pool"),
    ("lends", "buffer pool"),
    ("lent", "buffer pool"),
    ("sums of sums", "two-level reduction"),
    ("whole tensor", "dense tensor"),
];

/// Constants are named after a quantity and its unit, not by an adjective.
const DENIED_CONSTANTS: &[&str] = &[
    "MOST", "SOME", "LEAST", "FAR", "NEAR", "TALL", "FEW", "MANY", "LONG", "SHORT", "SMALL",
    "LARGE", "KEPT", "OFTEN", "CLOSE", "ENOUGH", "WIDE", "STAYS", "TERMS", "SKIPPED",
];

/// The files that people read: Rust, specs, the grammar and documents. What is generated or written by others is passed over.
fn files() -> Vec<PathBuf> {
    const SKIPPED_FOLDERS: &[&str] = &["target", "oracle", "data", "corpus", "proto", "artifacts"];
    let mut open = vec![root().to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path
                .file_name()
                .expect("an entry has a name")
                .to_string_lossy();
            if path.is_dir() {
                // Hidden folders hold what tools keep.
                if !name.starts_with('.') && !SKIPPED_FOLDERS.contains(&&*name) {
                    open.push(path);
                }
            } else if ["rs", "md", "trainspec", "pest", "graph"]
                .iter()
                .any(|e| path.extension().is_some_and(|found| found == *e))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The prose of a line: all of a document, the comment of a line of code.
fn prose<'t>(path: &Path, line: &'t str) -> &'t str {
    if path.extension().is_some_and(|e| e == "md") {
        return line;
    }
    let comment = match line.trim_start().starts_with("//") {
        true => line.find("//"),
        // A comment after code; `://` is an address in a string.
        false => line.find(" // "),
    };
    comment.map_or("", |at| &line[at..])
}

/// A line as lower-case words between single spaces, with one at each end.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    for word in line.split(|c: char| !c.is_alphanumeric()) {
        if !word.is_empty() {
            words.push_str(&word.to_lowercase());
            words.push(' ');
        }
    }
    words
}

#[test]
fn comments_and_documents_use_the_terms_of_the_field() {
    let mut found = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        for (number, line) in text.lines().enumerate() {
            let place = || format!("{}:{}", path.display(), number + 1);
            let prose = prose(&path, line);
            let plain = words(prose);
            for (denied, instead) in DENIED {
                if plain.contains(&format!(" {denied} ")) {
                    found.push(format!(
                        "{}: `{denied}`: say {instead}\n    {line}",
                        place()
                    ));
                }
            }
            let doc = prose
                .trim_start_matches(['/', '!'])
                .trim_start()
                .starts_with("The same");
            if doc && prose.starts_with("///") {
                found.push(format!(
                    "{}: a doc comment stands alone: say what it is\n    {line}",
                    place()
                ));
            }
        }
    }
    assert!(found.is_empty(), "{}\n{}", found.join("\n"), found.len());
}

#[test]
fn constants_are_named_after_a_quantity() {
    let mut found = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        for (number, line) in text.lines().enumerate() {
            let name = line.trim_start().trim_start_matches("pub ");
            let name = name
                .trim_start_matches("(crate) ")
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub(super) ");
            let name = name
                .strip_prefix("const ")
                .or(name.strip_prefix("static "))
                .and_then(|rest| rest.split_once(':'));
            if let Some((name, _)) = name
                && DENIED_CONSTANTS.contains(&name.trim())
            {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The `//!` lines of a file, or the first comment of a spec or a document, on one line.
fn header(text: &str) -> String {
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("//") && !line.starts_with('#'));
    let header = lines.take_while(|line| line.starts_with("//") || line.starts_with('#'));
    words(&header.collect::<Vec<_>>().join(" "))
}

#[test]
fn each_term_of_the_glossary_stands_in_the_header_of_its_file() {
    let glossary = std::fs::read_to_string(root().join("docs/glossary.md")).expect("a glossary");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in glossary.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, term, file] = cells[..] else {
            wrong.push(format!("a row has three cells: {line}"));
            continue;
        };
        if file == "file" || file.starts_with("--") {
            continue;
        }
        rows += 1;
        let path = file.trim_matches('`');
        match std::fs::read_to_string(root().join(path)) {
            // A suffix is an inflection: `timers`, `broadcasting`.
            Ok(text) if header(&text).contains(words(term).trim_end()) => {}
            Ok(_) => wrong.push(format!("the header of {path} does not say `{term}`")),
            Err(error) => wrong.push(format!("{path}: {error}")),
        }
    }
    assert!(rows > 50, "{rows} terms are few");
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), wrong.len());
}
