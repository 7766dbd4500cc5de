//! A spec inside Rust is the same spec: every example, as the macro sees it, gives the same text at every stage from `typed` on.

use std::path::PathBuf;

use trainspec::SpecFolder;
use trainspec_compiler::{EmitOptions, Options, Stage};
use trainspec_frontend::tokens::text_of;
use trainspec_tests::root;

fn examples() -> Vec<PathBuf> {
    let folders = ["examples", "examples/bench"].map(|folder| root().join(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut found: Vec<PathBuf> = (entries.map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|e| e == "trainspec"))
        .collect();
    found.sort();
    found
}

#[test]
fn every_example_is_the_same_spec_inside_rust() {
    let examples = examples();
    assert!(examples.len() > 20);
    let emit_options = EmitOptions {
        dims: [("batch".to_owned(), 4)].into(),
        ..EmitOptions::default()
    };
    for path in examples {
        let text = std::fs::read_to_string(&path).unwrap();
        let tokens = text_of(text.parse().expect("specs are made of Rust tokens"));
        let (name, loader) = (path.display().to_string(), SpecFolder::of(&path));
        // What follows is a function of the plan.
        for stage in [Stage::Typed, Stage::Graph, Stage::Grad, Stage::Plan] {
            let emit = |text: &str| {
                let emitted = stage.emit(&name, text, &loader, &Options::default(), &emit_options);
                emitted.map_err(|failed| failed.diagnostics)
            };
            assert_eq!(emit(&tokens.text), emit(&text), "{name}, {}", stage.name());
        }
    }
}
