//! Random trees, written with random space and comments: what the parser, the formatter, the dump and the token bridge
//! promise each other.

use crate::support::{generate, write};
use proc_macro2::TokenStream;
use proptest::collection::vec;
use proptest::prelude::*;
use trainspec_frontend::dump::dump_without_spans;
use trainspec_frontend::syntax::{self, Parsed};
use trainspec_frontend::{fmt, tokens};
use trainspec_ir::FileId;

/// The tree of a text with nothing wrong.
fn parse(text: &str) -> Parsed {
    let (parsed, errors) = syntax::parse(FileId(0), text);
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    parsed
}

fn comments(parsed: &Parsed) -> Vec<&str> {
    parsed.comments.iter().map(|c| c.text.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_random_spec_survives_every_way_around(
        shape in vec(any::<u8>(), 0..300),
        space in vec(any::<u8>(), 0..600),
    ) {
        let tree = generate::file(&mut generate::Entropy::new(&shape));
        let text = write::write(&tree, &mut generate::Entropy::new(&space));
        let dump = dump_without_spans(&tree);

        let parsed = parse(&text);
        prop_assert_eq!(&dump_without_spans(&parsed.file), &dump, "parsing changes the tree of\n{}", text);

        let formatted = fmt::format(&text).expect("it parses");
        let again = parse(&formatted);
        prop_assert_eq!(&dump_without_spans(&again.file), &dump, "formatting changes the tree of\n{}", text);
        prop_assert_eq!(comments(&again), comments(&parsed), "formatting loses comments of\n{}", text);
        prop_assert_eq!(fmt::format(&formatted).expect("it parses"), formatted.clone(), "formatting twice differs for\n{}", text);
        prop_assert!(!formatted.contains('\r') && !formatted.contains(" \n"), "bad space in\n{}", formatted);

        let stream: TokenStream = text.parse().expect("these are Rust tokens");
        let bridged = parse(&tokens::text_of(stream).text);
        prop_assert_eq!(&dump_without_spans(&bridged.file), &dump, "tokens change the tree of\n{}", text);
    }
}
