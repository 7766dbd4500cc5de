//! Fuzzing of the front end: any bytes give diagnostics or a typed spec, never a crash. What parses has one canonical layout, with an
//! equal syntax tree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainspec_compiler::diag::{Style, render};
use trainspec_compiler::source::{NoFiles, Sources, decode};
use trainspec_compiler::{Compilation, Options, dump, fmt, syntax};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = decode("fuzz", bytes.to_vec()) else {
        return;
    };
    let compilation = Compilation::check("fuzz", &text, &NoFiles, &Options::default());
    for diagnostic in &compilation.diagnostics {
        render(&compilation.sources, diagnostic, Style::Plain);
    }
    assert_eq!(compilation.spec.is_none(), compilation.failed());
    let before = tree(&text);
    let Some(before) = before else {
        return;
    };
    let tidy = fmt::format(&text).expect("what parses can be laid out");
    let after = tree(&tidy).expect("a canonical text parses");
    assert_eq!(before, after, "the layout changes the meaning:\n{tidy}");
    let again = fmt::format(&tidy).expect("a canonical text can be laid out");
    assert_eq!(tidy, again, "the layout is not canonical");
});

/// The syntax tree without spans, where there is one.
fn tree(text: &str) -> Option<String> {
    let mut sources = Sources::default();
    let root = sources.add("fuzz", text);
    let (parsed, errors) = syntax::parse(root, text);
    errors
        .is_empty()
        .then(|| dump::dump_without_spans(&parsed.file))
}
