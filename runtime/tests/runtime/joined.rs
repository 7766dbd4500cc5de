//! Several files read in turn, and several data sets together: `interleave`, `mix` and `zip`.

use trainspec::internals::data::Pipeline;
use trainspec_formats::records::Compression;

use crate::positions::check;
use crate::support::{
    MemoryEnv, check_errors, check_warnings, context, ints, numbers, read, read_seeded, spec,
};
use crate::tfrecord::{file, int64s};

/// Files of lines: 10, 11, ... in the first, 20, 21, ... in the second.
fn files(lines: &[usize]) -> MemoryEnv {
    let files: Vec<(String, Vec<u8>)> = (1..)
        .zip(lines)
        .map(|(file, n)| {
            let lines: String = (0..*n).map(|i| format!("{}\n", file * 10 + i)).collect();
            (format!("d/{file}"), lines.into_bytes())
        })
        .collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
    MemoryEnv::new(&files)
}

fn x(env: &MemoryEnv, settings: &str) -> Vec<i64> {
    ints(&read(env, settings, 99).unwrap(), "x")
}

/// What TensorFlow's deterministic `interleave` gives, with its rules alone: element by element.
fn interleaved(lines: &[usize], cycle: usize, block: usize) -> Vec<i64> {
    let mut files: Vec<Vec<i64>> = (1..)
        .zip(lines)
        .map(|(file, n)| (0..*n).map(|i| (file * 10 + i) as i64).collect())
        .collect();
    files.reverse();
    let mut open: Vec<Option<std::vec::IntoIter<i64>>> = (0..cycle).map(|_| None).collect();
    let (mut at, mut read, mut all) = (0, 0, Vec::new());
    while !files.is_empty() || open.iter().any(Option::is_some) {
        match &mut open[at] {
            Some(file) => match file.next() {
                Some(x) => {
                    all.push(x);
                    read += 1;
                    if read == block {
                        (at, read) = ((at + 1) % cycle, 0);
                    }
                }
                None => {
                    open[at] = None;
                    (at, read) = ((at + 1) % cycle, 0);
                }
            },
            None => match files.pop() {
                Some(file) => open[at] = Some(file.into_iter()),
                None => (at, read) = ((at + 1) % cycle, 0),
            },
        }
    }
    all
}

#[test]
fn files_are_read_in_turn() {
    // The example of TensorFlow's documentation.
    let settings = "source csv(\"d/*\"); feature x: i64; interleave (cycle: 2, block: 4);";
    let found = x(&files(&[6, 6, 6, 6, 6]), settings);
    let files_of: Vec<i64> = found.iter().map(|x| x / 10).collect();
    assert_eq!(
        files_of,
        [
            1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5,
            5
        ]
    );
    for lines in [
        &[3, 1, 2][..],
        &[0, 5, 0, 2],
        &[1],
        &[4, 4, 4, 4, 4],
        &[0, 0],
    ] {
        for cycle in [1, 2, 3, 9] {
            for block in [1, 2, 3, 7] {
                let settings = format!(
                    "source csv(\"d/*\"); feature x: i64; interleave (cycle: {cycle}, block: {block});"
                );
                let expected = interleaved(lines, cycle, block);
                assert_eq!(
                    x(&files(lines), &settings),
                    expected,
                    "{lines:?} {settings}"
                );
                for skipped in [1, 2, 5] {
                    let settings = format!("{settings} skip {skipped};");
                    let rest = expected.get(skipped..).unwrap_or(&[]);
                    assert_eq!(x(&files(lines), &settings), rest, "{lines:?} {settings}");
                }
            }
        }
    }
}

#[test]
fn every_source_of_files_is_interleaved() {
    let record = |x: i64| vec![("x", int64s(&[x])), ("list", int64s(&[x]))];
    let bare = |x: i64| vec![("x", int64s(&[x]))];
    let none = file(Compression::None, &[10, 11, 12].map(bare));
    let gzip = file(Compression::Gzip, &[20, 21].map(record));
    let env = MemoryEnv::new(&[
        ("r/1", &none),
        ("r/2", &gzip),
        ("t/1", b"ab"),
        ("t/2", b"cde"),
    ]);
    let settings =
        "source tfrecord(\"r/*\"); feature x: i64; feature list: i64[<=2]; interleave (cycle: 2);";
    assert_eq!(x(&env, settings), [10, 20, 11, 21, 12]);
    let settings = "source text(\"t/*\", unit: byte); feature x: u8; interleave (cycle: 2);";
    assert_eq!(x(&env, settings), b"acbde".map(i64::from));
    // A feature that no file has is misspelt, and one that a file lacks is not.
    let settings =
        "source tfrecord(\"r/*\"); feature x: i64; feature lost: i64[<=2]; interleave (cycle: 2);";
    let error = read(&env, settings, 99).unwrap_err().to_string();
    assert_eq!(error, "no record has a feature `lost`");
    let keyed = "source tfrecord(\"r/*\"); feature x: i64; interleave (cycle: 2); map r = random_uniform([]);";
    let drawn = read(&env, keyed, 99).unwrap();
    for (i, one) in drawn.iter().enumerate() {
        let others = drawn[..i].iter();
        assert!(
            others
                .clone()
                .all(|other| other.values["r"] != one.values["r"])
        );
    }
}

#[test]
fn files_in_turn_go_on_from_anywhere() {
    let lines = files(&[3, 0, 4, 2, 5]);
    let record = |x: i64| vec![("x", int64s(&[x]))];
    let gzip = file(Compression::Gzip, &[10, 11, 12].map(record));
    let none = file(Compression::None, &[20, 21].map(record));
    let other = MemoryEnv::new(&[
        ("r/1", &gzip),
        ("r/2", &none),
        ("r/3", &gzip),
        ("b/1", b"1\nx\n2\n3\n"),
        ("b/2", b"4\n5\nx\nx\n"),
        ("b/3", b"6\n"),
    ]);
    for (env, source) in [
        (&lines, "source csv(\"d/*\"); feature x: i64;"),
        (&other, "source tfrecord(\"r/*\"); feature x: i64;"),
        (
            &other,
            "source csv(\"b/*\", on_error: skip(max: 3)); feature x: i64;",
        ),
        (
            &other,
            "source csv(\"b/*\", on_error: skip(max: 2)); feature x: i64;",
        ),
    ] {
        for turns in ["cycle: 2", "cycle: 3, block: 2", "cycle: 9, block: 3"] {
            for stages in [
                "",
                "epochs 3; batch (size: 4, remainder: keep);",
                "map r = random_uniform([]); shuffle (buffer: 4, seed: 2); repeat; batch 3;",
                "window (size: 3, shift: 2); repeat; batch 2;",
                "skip 3; cache; shuffle; epochs 2;",
            ] {
                check(env, &format!("{source} interleave ({turns}); {stages}"), 40);
            }
        }
    }
}

/// Two sets of numbers: from 0, and from 1000.
const PARTS: &str =
    "} data a { source csv(\"n.csv\"); feature x: i64; } data b { source a; map x = x + 1000;";

#[test]
fn data_sets_are_mixed_by_their_weights() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(600))]);
    let mixed = |options: &str| {
        let settings = format!("source mix({options}); {PARTS}");
        ints(&read_seeded(&env, &settings, 2000, 1).unwrap(), "x")
    };
    let all = mixed("a: 0.7, b: 0.3, seed: 1");
    // Every record comes once, those of a set in its order; where one has ended the other goes on.
    let of = |is_own: fn(&i64) -> bool| -> Vec<(usize, i64)> {
        let own = all.iter().copied().enumerate();
        own.filter(|(_, x)| is_own(x)).collect()
    };
    let (a, b) = (of(|x| *x < 1000), of(|x| *x >= 1000));
    assert!(a.iter().map(|(_, x)| *x).eq(0..600));
    assert!(b.iter().map(|(_, x)| *x).eq(1000..1600));
    let early = a.iter().filter(|(i, _)| *i < 700).count();
    assert!((440..=540).contains(&early), "{early}");
    assert_eq!(mixed("a: 7, b: 3, seed: 1"), all, "ratios count");
    assert_ne!(mixed("a: 0.7, b: 0.3, seed: 2"), all);
    assert_eq!(mixed("a, b, seed: 3"), mixed("a: 1, b: 1, seed: 3"));
    let first = mixed("a: 0.7, b: 0.3, seed: 1, until: first");
    assert_eq!(first, all[..first.len()]);
    assert_eq!(first.last(), Some(&599), "the first set has ended");
    // Every epoch has draws of its own.
    let settings = format!("source mix(a: 0.5, b: 0.5, seed: 1); epochs 2; {PARTS}");
    let twice = ints(&read(&env, &settings, 9999).unwrap(), "x");
    assert_eq!(twice.len(), 2400);
    assert_ne!(twice[..1200], twice[1200..]);
    let count = |options: &str| {
        let text = format!("spec test; data d {{ source mix({options}); {PARTS} }}");
        let spec = spec(&text);
        let cx = context(&env, &spec, 0);
        Pipeline::open(&cx, &spec.data[0]).unwrap().records
    };
    assert_eq!(count("a, b"), Some(1200));
    assert_eq!(count("a, b, until: first"), None);
}

#[test]
fn data_sets_are_joined_one_by_one() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20))]);
    let parts = "} data a { source csv(\"n.csv\"); feature x: i64; } data b { source a; skip 3; map y = 10 * x; drop x;";
    let all = read(
        &env,
        &format!("source zip(a, b); map z = y - 10 * x; {parts}"),
        99,
    )
    .unwrap();
    assert_eq!(ints(&all, "x"), (0..17).collect::<Vec<_>>());
    assert_eq!(ints(&all, "z"), [30; 17]);
    let text = format!("spec test; data d {{ source zip(a, b); {parts} }}");
    let both = spec(&text);
    let cx = context(&env, &both, 0);
    assert_eq!(
        Pipeline::open(&cx, &both.data[0]).unwrap().records,
        Some(17)
    );
    // It ends with the shortest, whichever that is, and the next epoch begins both again.
    let settings = format!("source zip(b, a); batch 4; epochs 2; {parts}");
    let all = read(&env, &settings, 99).unwrap();
    assert_eq!(all.len(), 8);
    assert_eq!(ints(&all[4..5], "y"), [30, 40, 50, 60]);
    // One that is endless ends with the other.
    let settings = "source zip(a, c); } data a { source csv(\"n.csv\"); feature x: i64; }
        data c { source a; take 3; repeat; map y = x; drop x;";
    let all = read(&env, settings, 99).unwrap();
    assert_eq!(ints(&all, "y")[..7], [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(all.len(), 20);
    assert!(all.iter().all(|element| element.pass == 0));
}

#[test]
fn joined_data_sets_go_on_from_anywhere() {
    let env = MemoryEnv::new(&[
        ("n.csv", &numbers(9)),
        ("m.csv", b"50\n51\nred\n52\n53\n54\n"),
        (
            "r",
            &file(
                Compression::None,
                &(0..7)
                    .map(|x| vec![("x", int64s(&[x]))])
                    .collect::<Vec<_>>(),
            ),
        ),
    ]);
    let parts = "} data a { source csv(\"n.csv\"); feature x: i64; shuffle (buffer: 3, seed: 1); }
        data b { source csv(\"m.csv\", on_error: skip(max: 1)); feature x: i64; filter x != 52; }
        data c { source tfrecord(\"r\"); feature x: i64; repeat; }
        data e { source b; map y = x + 1; drop x; }
        data f { source tfrecord(\"r\"); feature x: i64; map z = random_uniform([]); drop x;";
    for source in [
        "mix(a: 0.6, b: 0.4, seed: 3)",
        "mix(a, b, c, seed: 4)",
        "mix(a: 5, b: 1, until: first)",
        "zip(a, e)",
        "zip(f, a, e)",
        "zip(e, c)",
    ] {
        for stages in [
            "",
            "epochs 3; batch (size: 4, remainder: keep);",
            "map r = random_uniform([]); shuffle (buffer: 4, seed: 2); repeat; batch 3;",
            "window (size: 3, shift: 2); repeat; batch 2;",
            "skip 3; shard (index: 1, count: 2); epochs 2;",
        ] {
            check(&env, &format!("source {source}; {stages} {parts}"), 40);
        }
    }
    // Arrays that have indices have them side by side, too.
    let text = "source zip(a, b); shuffle; epochs 2; batch 2;
        } data a { source tfrecord(\"r\"); feature x: i64; } data b { source a; map y = 2 * x; drop x;";
    check(&env, text, 40);
    let all = read(&env, text, 99).unwrap();
    let doubled: Vec<i64> = ints(&all, "x").iter().map(|x| 2 * x).collect();
    assert_eq!(ints(&all, "y"), doubled);
}

#[test]
fn mistakes_in_joined_data_sets_are_errors() {
    let parts = "data a { source csv(\"a\"); feature x: i64; } data b { source csv(\"b\"); feature x: f32; }
        data c { source csv(\"c\"); feature x: i64; feature y: i64; } data e { source a; batch 2; }";
    for (settings, message) in [
        (
            "source mix(a: 1, b: 2);",
            "`x` is `f32` in `b` and `i64` in `a`",
        ),
        (
            "source mix(a, c);",
            "`c` has the feature `y`, and `a` has not",
        ),
        (
            "source mix(a);",
            "`mix` joins from 2 to 32 data sets, and this names 1",
        ),
        ("source mix(a, a);", "the data set `a` is named twice"),
        (
            "source mix(a: 0, c: 1);",
            "a weight is a positive number, and this is 0",
        ),
        ("source mix(a, z);", "there is no data set `z`"),
        (
            "source mix(a, e);",
            "`mix` joins records, and `e` gives batches",
        ),
        (
            "source mix(a, \"b\");",
            "`mix` joins data sets, by their names",
        ),
        (
            "source mix(a, d);",
            "the data set `d` takes its records from itself",
        ),
        ("source zip(a, c);", "`a` and `c` both have the feature `x`"),
        (
            "source zip(a: 1, c: 2);",
            "`zip` joins data sets, by their names",
        ),
        (
            "source mix(a, a2); shuffle;",
            "without a buffer `shuffle` reads records by their indices, which these do not have",
        ),
        (
            "source mix(a, a2); feature z: i64;",
            "the features of this data set are those of `a`",
        ),
        (
            "source mix(a, a2); interleave (cycle: 2);",
            "`mix` reads no files in turn",
        ),
    ] {
        let text =
            format!("spec test; {parts} data a2 {{ source a; }} data d {{ {settings} batch 2; }}");
        let errors = check_errors(&text);
        assert_eq!(errors, [message], "{settings}");
    }
}

#[test]
fn what_a_split_or_a_prefetch_does_not_do_is_warned_of() {
    let warnings = |train: &str, eval: &str, rest: &str| {
        let text = format!(
            "spec t; data all {{ source csv(\"n.csv\"); feature x: f32; }}
            data a {{ source all; {train} batch 2; }} data e {{ source all; {eval} batch 2; }} {rest}
            model (x: f32[batch]) {{ param w: f32 = zeros(); loss mean(square(w * x)); }}
            train {{ data a; optimizer gradient_descent(0.1); steps 1; }} eval {{ data e; }}"
        );
        check_warnings(&text)
    };
    let split = |part: &str, rest: &str| format!("split (part: {part}, {rest});");
    let train = split("train", "holdout: 0.2, seed: 1");
    assert_eq!(
        warnings(&train, &split("holdout", "holdout: 0.2, seed: 1"), ""),
        [""; 0]
    );
    for (other, difference) in [
        ("holdout: 0.2, seed: 2", "seed"),
        ("holdout: 0.3, seed: 1", "holdout"),
    ] {
        let found = warnings(&train, &split("holdout", other), "");
        let expected = format!(
            "records of `e` may be trained on, too: its `split` has another `{difference}` than that of `a`"
        );
        assert_eq!(found, [expected]);
    }
    assert_eq!(
        warnings("", "prefetch 2;", ""),
        ["`prefetch` of `e` prepares nothing: an evaluation reads its batches when it takes them"]
    );
    assert_eq!(warnings("prefetch 2;", "", ""), [""; 0]);
    let parts = "data b { source all; prefetch 3; } data c { source mix(all, b); batch 2; }";
    let found = warnings("", "", parts);
    let expected =
        "`prefetch` of `b` prepares nothing: `c` joins its records, and prepares its own ahead";
    assert!(found.iter().any(|warning| warning == expected), "{found:?}");
}
