//! Rust tokens become spec text, and spans of that text map back to spans of the Rust source.

use proc_macro2::TokenStream;
use trainspec_frontend::dump::dump_without_spans;
use trainspec_frontend::syntax;
use trainspec_frontend::tokens::{TokenText, text_of};
use trainspec_ir::FileId;

fn tokens(text: &str) -> TokenText {
    let stream: TokenStream = text.parse().expect("the text is made of Rust tokens");
    text_of(stream)
}

#[test]
fn every_spec_keeps_its_tree() {
    for spec in crate::support::specs::all() {
        let path = spec.path.display();
        let bridged = tokens(&spec.text);
        let (parsed, errors) = syntax::parse(FileId(0), &bridged.text);
        assert!(errors.is_empty(), "{path}: {errors:#?}\n{}", bridged.text);
        assert_eq!(
            dump_without_spans(&parsed.file),
            dump_without_spans(&spec.parsed.file),
            "{path}"
        );
    }
}

#[test]
fn joint_punctuation_stays_together() {
    let text = tokens("fn f(x) { m <- x[0..2] |> g <= -1; }").text;
    assert_eq!(text, "fn f(x) { m <- x[0..2] |> g <= -1; }\n");
}

/// Where the first error of a spec is, as line and column of the Rust source: the caret below must point at it.
#[track_caller]
fn error_is_at(lines: [&str; 3]) {
    let [first, second, caret] = lines;
    let bridged = tokens(&format!("{first}\n{second}\n"));
    let (_, errors) = syntax::parse(FileId(0), &bridged.text);
    let place = errors[0].span.expect("a syntax error has a span");
    let start = bridged
        .span_at(place.range())
        .expect("there are tokens")
        .start();
    let column = caret.find('^').expect("the caret shows the column");
    assert_eq!((start.line, start.column), (2, column), "{errors:#?}");
}

#[test]
fn a_syntax_error_is_at_its_token() {
    error_is_at([
        "const A = 1;",
        "const B = ;", //
        "          ^",
    ]);
    error_is_at([
        "/// Documented.",
        "fn f(x) { let y = x +; y }", //
        "                     ^",
    ]);
    error_is_at([
        "model (x: f32[3]) {",
        "    let y = mean(x,,); }", //
        "                   ^",
    ]);
}

#[test]
fn a_missing_semicolon_is_reported_after_its_token() {
    error_is_at([
        "fn f(x) {",
        "    f(x) other; }", //
        "       ^",
    ]);
}

#[test]
fn a_number_with_a_suffix_is_at_the_number() {
    error_is_at([
        "fn f(x) =",
        "    x + 1f32;", //
        "        ^",
    ]);
}

#[test]
fn ranges_find_their_tokens() {
    let text = tokens("const ab = 1;");
    assert_eq!(text.text, "const ab = 1;\n");
    let column = |range| text.span_at(range).map(|s| s.start().column);
    assert_eq!(column(6..8), Some(6), "one token");
    assert_eq!(column(7..12), Some(6), "from its middle");
    assert_eq!(column(8..8), Some(6), "right after it");
    assert_eq!(column(6..6), Some(6), "right before it");
    assert_eq!(column(5..9), Some(6), "from the space before it");
    assert_eq!(column(12..13), Some(12), "the last");
    assert_eq!(column(14..14), Some(12), "after everything");
    let both = text.spans_at(0..8).unwrap();
    assert_eq!((both.0.start().column, both.1.start().column), (0, 6));
    assert_eq!(tokens("").span_at(0..0).map(|s| s.start().column), None);
}

/// Tokens that follow each other in the text, but not in the source.
#[test]
fn tokens_of_another_macro_follow_each_other() {
    let mut stream: TokenStream = "const b = 2;".parse().unwrap();
    stream.extend(
        "const a = -1 ; fn f ( x ) = x |> g;"
            .parse::<TokenStream>()
            .unwrap(),
    );
    let text = text_of(stream).text;
    assert_eq!(text, "const b = 2; const a = - 1 ; fn f ( x ) = x |> g ;\n");
}

#[test]
fn every_token_stands_where_it_stands_in_the_source() {
    for spec in crate::support::specs::all() {
        // Doc comments are attributes by then.
        let documented = |line: &str| line.trim_start().starts_with("//");
        let bridged = tokens(&spec.text).text;
        for (line, (found, expected)) in bridged.lines().zip(spec.text.lines()).enumerate() {
            let code = expected.split("//").next().unwrap().trim_end();
            if !documented(expected) && !expected.contains('"') {
                assert_eq!(found, code, "{}:{}", spec.path.display(), line + 1);
            }
        }
    }
}
