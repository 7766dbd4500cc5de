//! Crates depend on each other only along the arrows that are drawn in ARCHITECTURE.md.

use std::collections::BTreeMap;

use trainspec_tests::root;

/// Who may use whom. A crate that is not listed uses nothing of ours.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "compiler/frontend",
        &["trainspec-grammar", "trainspec-ir", "trainspec-std"],
    ),
    ("compiler/codegen", &["trainspec-ir"]),
    ("compiler/testing", &["trainspec-ir"]),
    (
        "compiler",
        &["trainspec-codegen", "trainspec-frontend", "trainspec-ir"],
    ),
    ("macros", &["trainspec-frontend", "trainspec-ir"]),
    (
        "runtime",
        &[
            "trainspec-compiler",
            "trainspec-formats",
            "trainspec-macros",
        ],
    ),
    ("examples/rust", &["trainspec"]),
    (
        "runtime/cli",
        &["trainspec-compiler", "trainspec-formats", "trainspec"],
    ),
];

/// The packages of ours that a manifest's `[dependencies]` name.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in manifest.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if section == "dependencies"
            && line.starts_with("trainspec")
            && let Some((name, _)) = line.split_once([' ', '=', '.'])
        {
            found.push(name.to_owned());
        }
    }
    found
}

#[test]
fn crates_use_each_other_along_the_arrows_only() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace
        .split("members = [")
        .nth(1)
        .unwrap()
        .split(']')
        .next()
        .unwrap();
    let members: Vec<&str> = members
        .split('"')
        .filter(|m| m.contains(char::is_alphabetic))
        .collect();
    assert!(members.len() >= 7, "{members:?}");
    for member in members {
        if member == "tests" {
            continue;
        }
        let manifest = std::fs::read_to_string(root().join(member).join("Cargo.toml")).unwrap();
        for dependency in dependencies(&manifest) {
            let known = allowed.get(member).copied().unwrap_or_default();
            assert!(
                known.contains(&dependency.as_str()),
                "{member} may not use {dependency}"
            );
        }
    }
}
