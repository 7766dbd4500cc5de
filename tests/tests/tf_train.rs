//! The table of `tf.train`: every row that is built names an item that exists and a test in whose source the symbol occurs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainspec_tests::root;

/// The table.
const PAGE: &str = "docs/tf-train.md";

/// What is not built yet: the parts of the product that a row may wait for.
const PLANNED: [&str; 3] = [
    "planned: graphs",
    "planned: clusters",
    "planned: clusters and graphs",
];

/// One line of the table.
struct Row {
    symbol: String,
    spec: String,
    rust: String,
    test: String,
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    lines.filter_map(row).collect()
}

/// A line with five cells; other tables of the page have three.
fn row(line: &str) -> Option<Row> {
    let inside = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inside.split('|').map(str::trim).collect();
    let [symbol, spec, rust, test, _notes] = cells[..] else {
        return None;
    };
    let plain = |cell: &str| cell.trim_matches('`').to_owned();
    Some(Row {
        symbol: plain(symbol),
        spec: plain(spec),
        rust: plain(rust),
        test: plain(test),
    })
}

/// The texts of the Rust files below a folder, by path.
fn rust_files(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, files);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.insert(path, text);
        }
    }
}

/// The last name of a path: of `a.b`, `a::b` and `b(...)` it is `b`.
fn last_name(path: &str) -> &str {
    let path = path.split(['(', ' ', ';']).next().unwrap_or(path);
    path.rsplit(['.', ':']).next().unwrap_or(path)
}

/// Whether a name stands in a text as a word.
fn has_word(text: &str, name: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            !text[..at].ends_with(inside) && !text[at + name.len()..].starts_with(inside)
        })
}

/// Whether a text defines a public item, or a variant of an enum, under a name.
fn defines(text: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "mod", "type", "const"];
    kinds
        .iter()
        .any(|kind| has_word(text, &format!("pub {kind} {name}")))
}

/// The file of a test that is called `module::name`.
fn file_of<'f>(files: &'f BTreeMap<PathBuf, String>, test: &str) -> Option<&'f str> {
    let (module, name) = test.split_once("::")?;
    let found = files.iter().find(|(path, text)| {
        let below_tests = path.components().any(|part| part.as_os_str() == "tests");
        below_tests
            && path.file_stem().is_some_and(|stem| stem == module)
            && text.contains(&format!("#[test]\nfn {name}()"))
    });
    found.map(|(_, text)| text.as_str())
}

#[test]
fn every_row_has_a_test_in_which_its_symbol_occurs() {
    let mut files = BTreeMap::new();
    for folder in ["compiler", "runtime", "tests"] {
        rust_files(&root().join(folder), &mut files);
    }
    let sources = files.iter().filter(|(path, _)| {
        let mut parts = path.components();
        parts.any(|part| part.as_os_str() == "src")
    });
    let sources: Vec<&str> = sources.map(|(_, text)| text.as_str()).collect();
    let mut wrong = Vec::new();
    let rows = rows();
    assert!(rows.len() > 150, "the table has {} rows", rows.len());
    for row in &rows {
        if row.test.starts_with("planned") {
            if !PLANNED.contains(&row.test.as_str()) || !row.rust.is_empty() {
                wrong.push(format!("`{}` is {}", row.symbol, row.test));
            }
            continue;
        }
        let Some(source) = file_of(&files, &row.test) else {
            wrong.push(format!("`{}`: there is no test `{}`", row.symbol, row.test));
            continue;
        };
        let item = last_name(&row.rust);
        let here = if item.is_empty() {
            last_name(&row.spec)
        } else {
            item
        };
        let names = [last_name(&row.symbol), here];
        if !names.iter().any(|name| has_word(source, name)) {
            let message = format!(
                "`{}` does not occur in the file of `{}`",
                row.symbol, row.test
            );
            wrong.push(message);
        }
        if !item.is_empty() && !sources.iter().any(|text| defines(text, item)) {
            wrong.push(format!("`{}`: there is no public `{item}`", row.symbol));
        }
    }
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn no_symbol_has_two_rows() {
    let mut counts = BTreeMap::<String, usize>::new();
    for row in rows() {
        *counts.entry(row.symbol).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    assert!(counts.is_empty(), "{counts:?}");
}
