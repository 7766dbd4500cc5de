//! Text files as a source: lines, words, characters and bytes.

use trainspec::internals::data::Element;
use trainspec_compiler::ir::tensor::Data;

use crate::arrays::gzip;
use crate::support::{MemoryEnv, check_errors, ints, read};

fn strings(elements: &[Element], name: &str) -> Vec<String> {
    let texts = elements
        .iter()
        .flat_map(|element| match element.values[name].data() {
            Data::String(all) => all.clone(),
            other => panic!("{other:?} is no text"),
        });
    texts
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .collect()
}

fn files() -> MemoryEnv {
    let b = gzip(b"third\n\nfifth line");
    MemoryEnv::new(&[("t/a.txt", b"first line\r\nsecond\n"), ("t/b.txt", &b)])
}

#[test]
fn lines_are_records_compressed_or_not() {
    let settings = "source text(\"t/*.txt\"); feature line: string;";
    let all = read(&files(), settings, 99).unwrap();
    assert_eq!(
        strings(&all, "line"),
        ["first line", "second", "third", "", "fifth line"]
    );
    assert_eq!(all[4].location().unwrap().to_string(), "t/b.txt:3");
    let words = format!(
        "{settings} map n = vocabulary(words(line, max: 2), from: [\"line\", \"first\"]); drop line; batch (size: 5, pad: true);"
    );
    let all = read(&files(), &words, 99).unwrap();
    assert_eq!(all[0].values["n"].to_i64s(), [1, 0, 2, 0, 2, 0, 0, 0, 2, 0]);
}

#[test]
fn words_and_characters_are_records() {
    let words = read(
        &files(),
        "source text(\"t/*.txt\", unit: word); feature w: string;",
        99,
    )
    .unwrap();
    assert_eq!(
        strings(&words, "w"),
        ["first", "line", "second", "third", "fifth", "line"]
    );
    let env = MemoryEnv::new(&[("t", "né\n".as_bytes())]);
    let all = read(
        &env,
        "source text(\"t\", unit: character); feature c: string;",
        99,
    )
    .unwrap();
    assert_eq!(strings(&all, "c"), ["n", "é", "\n"]);
}

#[test]
fn a_stream_of_bytes_is_cut_into_windows() {
    let env = MemoryEnv::new(&[("t", b"abcdefgh")]);
    let settings = "source text(\"t\", unit: byte); feature b: u8; window (size: 4, shift: 3);
        map next = b[1..4]; map b = b[0..3];";
    let all = read(&env, settings, 99).unwrap();
    assert_eq!(ints(&all, "b"), [97, 98, 99, 100, 101, 102]);
    assert_eq!(ints(&all, "next"), [98, 99, 100, 101, 102, 103]);
    let all = read(
        &env,
        "source text(\"t\", unit: byte); feature b: u8; shuffle;",
        99,
    )
    .unwrap();
    let mut bytes = ints(&all, "b");
    assert_ne!(bytes, (97..105).collect::<Vec<i64>>());
    bytes.sort_unstable();
    assert_eq!(bytes, (97..105).collect::<Vec<i64>>());
}

#[test]
fn lines_are_shuffled_exactly() {
    let env = MemoryEnv::new(&[("a", b"1\r\n2\n"), ("b", b""), ("c", b"3")]);
    let settings = "source text([\"a\", \"b\", \"c\"]); feature line: string; shuffle;";
    let mut all = strings(&read(&env, settings, 99).unwrap(), "line");
    all.sort();
    assert_eq!(all, ["1", "2", "3"]);
    let compressed = read(
        &files(),
        "source text(\"t/*.txt\"); feature line: string; shuffle;",
        9,
    );
    let message = compressed.unwrap_err().to_string();
    assert!(message.contains("indices"), "{message}");
}

#[test]
fn a_text_is_one_feature_of_its_type() {
    for (settings, message) in [
        (
            "source text(\"a\"); feature x: f32;",
            "a line of a text is `string`, and `x` is `f32`",
        ),
        (
            "source text(\"a\", unit: byte); feature x: string;",
            "a byte of a text is `u8`, and `x` is `string`",
        ),
        (
            "source text(\"a\"); feature x: string; feature y: string;",
            "a line of a text is one feature, and there are 2",
        ),
        (
            "source text(\"a\");",
            "the data set reads no feature of its source",
        ),
        (
            "source text(\"a\", unit: word); feature x: string; shuffle;",
            "without a buffer `shuffle` reads records by their indices, which these do not have",
        ),
    ] {
        let errors = check_errors(&format!("spec test; data d {{ {settings} }}"));
        assert_eq!(errors, [message], "{settings}");
    }
    let env = MemoryEnv::new(&[("t.gz", &gzip(b"a line of a text\nanother")[..20])]);
    let error = read(&env, "source text(\"t.gz\"); feature x: string;", 9).unwrap_err();
    assert!(
        error.to_string().starts_with("t.gz: cannot be read: "),
        "{error}"
    );
}
