//! A spec inside Rust is the same spec: every example, as the macro sees it, gives the same text at every stage from `typed` on.

use trainspec::SpecFolder;
use trainspec_compiler::{EmitOptions, Options, Stage};
use trainspec_frontend::tokens::text_of;

use crate::macro_examples::example_specs;

#[test]
fn every_example_is_the_same_spec_inside_rust() {
    let examples = example_specs();
    assert!(examples.len() > 20);
    let emit_options = EmitOptions {
        dims: [("batch".to_owned(), 4)].into(),
        ..EmitOptions::default()
    };
    for path in examples {
        let text = std::fs::read_to_string(&path).unwrap();
        let tokens = text_of(text.parse().expect("specs are made of Rust tokens"));
        let (name, loader) = (path.display().to_string(), SpecFolder::of(&path));
        for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::Ast) {
            let emit = |text: &str| {
                let emitted = stage.emit(&name, text, &loader, &Options::default(), &emit_options);
                let refused = |diagnostics| panic!("{name}, {}: {diagnostics:?}", stage.name());
                emitted.unwrap_or_else(|failed| refused(failed.diagnostics))
            };
            let is_same = emit(&tokens.text) == emit(&text);
            assert!(is_same, "{name}, {}", stage.name());
        }
    }
}
