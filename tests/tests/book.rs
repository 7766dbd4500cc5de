//! The book: `docs/SUMMARY.md` names every page, and every link of a document leads somewhere.
//!
//! In: the documents at the root of the repository, `docs/*.md` and the READMEs beside examples. A link within the repository has a file or
//! folder at its end, and with `#name` a heading of that name, as GitHub and mdBook name headings. Leaves alone: addresses of others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trainspec_tests::{files_below, root};

fn documents() -> Vec<PathBuf> {
    let mut found = files_below(&root().join("docs"), "md");
    found.extend(files_below(&root().join("examples"), "md"));
    for entry in std::fs::read_dir(root()).expect("the repository") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The lines of a document that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// What the links of a line lead to: `[text](target)`, outside of code.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    // Every other part stands between backticks; what a link begins with may stand there, its target may not.
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        let inside = rest[..at].matches('`').count() % 2 == 1;
        rest = &rest[at + 2..];
        if let Some(end) = rest.find(')').filter(|_| !inside) {
            found.push(&rest[..end]);
        }
    }
    found
}

/// The name of a heading in a link: lower case, without punctuation, with hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let name = anchor(line.trim_start_matches('#').trim());
        let numbered = (1..).map(|i| format!("{name}-{i}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in documents() {
        let text = read(&path);
        for target in prose(&text).flat_map(targets) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (file, name) = target.split_once('#').unwrap_or((target, ""));
            let end = match file {
                "" => path.clone(),
                file => path.parent().expect("a folder").join(file),
            };
            let is_there = match name {
                "" => end.exists(),
                name => end.is_file() && anchors(&read(&end)).contains(name),
            };
            if !is_there {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(count > 100, "{count} links are few");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_summary_names_every_page_once() {
    let folder = root().join("docs");
    let summary = read(&folder.join("SUMMARY.md"));
    let mut named: Vec<&str> = prose(&summary).flat_map(targets).collect();
    named.sort_unstable();
    let pages = files_below(&folder, "md");
    let pages = pages.iter().map(|page| page.strip_prefix(&folder).unwrap());
    let mut pages: Vec<String> = pages.map(|page| page.display().to_string()).collect();
    pages.retain(|page| page != "SUMMARY.md");
    pages.sort();
    assert_eq!(named, pages);
}

/// Commands of `cargo` that documents show are those that CI runs, or build and show what is there.
#[test]
fn commands_of_cargo_name_what_is_there() {
    let ci = read(&root().join(".ci/run"));
    for path in ["README.md", "CONTRIBUTING.md"] {
        for line in read(&root().join(path)).lines() {
            let Some(command) = line.strip_prefix("cargo ") else {
                continue;
            };
            let command = command.split('#').next().unwrap_or_default().trim();
            assert!(ci.contains(&format!("cargo {command}")), "{path}: {line}");
        }
    }
}

#[test]
fn anchors_are_those_of_github() {
    for (heading, name) in [
        ("Not a number", "not-a-number"),
        ("`warm_start`", "warm_start"),
        (
            "Optimizer, schedule: the loop",
            "optimizer-schedule-the-loop",
        ),
        ("512-bit vectors (AVX-512)", "512-bit-vectors-avx-512"),
    ] {
        assert_eq!(anchor(heading), name);
    }
}
