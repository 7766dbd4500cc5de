//! `on_error: skip(max: ...)`: records that cannot be decoded are left out, counted and reported, and positions stay exact.

use ::png::ColorType::Grayscale;
use trainspec::session::{Event, Options};
use trainspec_compiler::ir::Tensor as IrTensor;
use trainspec_formats::records::Compression;
use trainspec_formats::tensor::Tensor as FileTensor;

use crate::arrays::{idx, npy};
use crate::image_files::png;
use crate::positions::check;
use crate::support::{MemoryEnv, ints, open, read, run};
use crate::tfrecord::{file, int64s};

/// All elements of a data set, and what was left out of it.
fn all(env: &MemoryEnv, settings: &str) -> (Vec<i64>, Option<String>) {
    let mut data = open(env, settings, 0).unwrap();
    let mut elements = Vec::new();
    while let Some(element) = data.next().unwrap() {
        elements.push(element);
    }
    let left_out = data.left_out().map(|left_out| left_out.to_string());
    (ints(&elements, "x"), left_out)
}

const CSV: &[u8] = b"x,y\n1,a\n2,b\nred,c\n3,d\n4\n5,\"e\"f\n6,g\n7,h\n";

#[test]
fn lines_that_are_no_records_are_left_out() {
    let env = MemoryEnv::new(&[("n.csv", CSV)]);
    let settings = |max: u64| {
        format!(
            "source csv(\"n.csv\", header: true, on_error: skip(max: {max})); feature y: string; feature x: i64;"
        )
    };
    let (x, left_out) = all(&env, &settings(3));
    assert_eq!(x, [1, 2, 3, 6, 7]);
    assert_eq!(
        left_out.unwrap(),
        "3 records of an epoch cannot be decoded and were left out: n.csv:4: column `x`: `red` is no i64; \
         n.csv:6: there are 1 fields, but the header (line 1) has 2; n.csv:7: a quote inside a field is not written twice"
    );
    let error = read(&env, &settings(2), 99).unwrap_err();
    assert_eq!(
        error.to_string(),
        "n.csv:7: a quote inside a field is not written twice; 2 other records of this epoch were left out, and `max` is 2"
    );
    // The number is that of an epoch.
    let (x, left_out) = all(&env, &format!("{} epochs 2;", settings(3)));
    assert_eq!(x, [1, 2, 3, 6, 7, 1, 2, 3, 6, 7]);
    assert!(left_out.unwrap().starts_with("3 records"));
    // Draws are keyed by the ordinal in the source, so what is left out changes no other.
    let drawn = |bytes: &[u8]| {
        let env = MemoryEnv::new(&[("n.csv", bytes)]);
        let settings = format!("{} map r = random_uniform([]);", settings(3));
        let found = read(&env, &settings, 99).unwrap();
        found[3].values["r"].clone()
    };
    let mended = b"x,y\n1,a\n2,b\n3,c\n3,d\n4,e\n5,f\n6,g\n7,h\n";
    let env = MemoryEnv::new(&[("n.csv", mended)]);
    let whole = read(
        &env,
        &format!("{} map r = random_uniform([]);", settings(3)),
        99,
    );
    assert_eq!(drawn(CSV), whole.unwrap()[6].values["r"]);
}

#[test]
fn every_kind_of_source_leaves_out_what_cannot_be_decoded() {
    let x = |n: i64| vec![("x", int64s(&[n]))];
    let records = [
        x(1),
        vec![("y", int64s(&[2]))],
        x(3),
        vec![("x", int64s(&[4, 4]))],
        x(500),
        x(6),
    ];
    for compression in [Compression::None, Compression::Gzip] {
        let env = MemoryEnv::new(&[("r", &file(compression, &records))]);
        let settings = "source tfrecord(\"r\", on_error: skip(max: 9)); feature x: i64 in 0..100;";
        let (x, left_out) = all(&env, settings);
        assert_eq!(x, [1, 3, 6]);
        assert_eq!(
            left_out.unwrap(),
            "3 records of an epoch cannot be decoded and were left out: r, record 2: there is no feature `x`; \
             r, record 4: `x` has 2 values, and `i64` takes 1; r, record 5: `x` is 500, which is not in 0..100"
        );
    }
    let values: Vec<u8> = (0..30).map(|i| if i % 10 == 3 { 99 } else { i }).collect();
    let expected: Vec<i64> = (0..30).filter(|i| i % 10 != 3).collect();
    let tensor = FileTensor::from_values(&[30], &values).unwrap();
    let env = MemoryEnv::new(&[
        ("a.idx", &idx(8, &[30], &values)),
        ("a.npy", &npy(&tensor)),
        ("a.txt", &values),
    ]);
    for source in [
        "idx(x: \"a.idx\", on_error: skip(max: 3))",
        "npy(x: \"a.npy\", on_error: skip(max: 3))",
        "text(\"a.txt\", unit: byte, on_error: skip(max: 3))",
    ] {
        let (x, left_out) = all(&env, &format!("source {source}; feature x: u8 in 0..50;"));
        assert_eq!(x, expected, "{source}");
        let left_out = left_out.unwrap();
        assert!(left_out.contains(", record 14: `x` is 99"), "{left_out}");
        let fewer = source.replace("max: 3", "max: 2");
        let error = read(
            &env,
            &format!("source {fewer}; feature x: u8 in 0..50;"),
            99,
        );
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("and `max` is 2"), "{error}");
    }
}

#[test]
fn files_that_are_no_images_are_left_out() {
    let good = png(2, 2, Grayscale, &[1, 2, 3, 4]);
    let other = png(1, 2, Grayscale, &[1, 2]);
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let env = MemoryEnv::new(&[
        ("i/a.png", &good),
        ("i/b.png", b"no image"),
        ("i/c.png", &other),
        ("i/d.png", &damaged),
        ("i/e.png", &good),
    ]);
    let settings = "source files(\"i/*.png\", on_error: skip(max: 3)); feature path: string; feature image: u8[2, 2, 1];";
    let mut data = open(&env, settings, 0).unwrap();
    let mut paths = Vec::new();
    while let Some(element) = data.next().unwrap() {
        assert_eq!(
            element.values["image"],
            IrTensor::new(&[2, 2, 1], vec![1_u8, 2, 3, 4])
        );
        paths.push(element.values["path"].element_text(0));
    }
    assert_eq!(paths, ["\"i/a.png\"", "\"i/e.png\""]);
    let left_out = data.left_out().unwrap();
    assert_eq!(left_out.records, 3);
    assert!(left_out.first[0].starts_with("i/b.png: "), "{left_out}");
    // A file that is not there is no record that is wrong.
    let settings = "source files([\"i/a.png\", \"i/x.png\"], on_error: skip(max: 3)); feature image: u8[2, 2, 1];";
    let error = read(&env, settings, 9).unwrap_err().to_string();
    assert!(error.starts_with("i/x.png: cannot be read"), "{error}");
}

/// A file of ten records, and the offset of each.
fn ten() -> (Vec<u8>, usize) {
    let record = |n: i64| vec![("x", int64s(&[n]))];
    let bytes = file(Compression::None, &(0..10).map(record).collect::<Vec<_>>());
    let each = bytes.len() / 10;
    (bytes, each)
}

#[test]
fn a_record_whose_data_is_damaged_is_left_out_and_one_whose_length_is_damaged_is_an_error() {
    let (mut bytes, each) = ten();
    bytes[4 * each + 14] ^= 1;
    let settings = "source tfrecord(\"r\", on_error: skip(max: 1)); feature x: i64;";
    let env = MemoryEnv::new(&[("r", &bytes)]);
    let (x, left_out) = all(&env, settings);
    assert_eq!(x, [0, 1, 2, 3, 5, 6, 7, 8, 9]);
    let left_out = left_out.unwrap();
    assert!(
        left_out.contains("r, record 5: ")
            && left_out.contains("the checksum of the data is wrong"),
        "{left_out}"
    );
    bytes[6 * each] ^= 1;
    let damaged = MemoryEnv::new(&[("r", &bytes)]);
    let error = read(&damaged, settings, 99).unwrap_err().to_string();
    assert!(
        error.contains("the checksum of the length is wrong"),
        "{error}"
    );
    let (bytes, each) = ten();
    let cut = MemoryEnv::new(&[("r", &bytes[..10 * each - 3])]);
    let error = read(&cut, settings, 99).unwrap_err().to_string();
    assert!(error.contains("the file ends inside a record"), "{error}");
}

#[test]
fn positions_are_exact_where_records_are_left_out() {
    let (mut bytes, each) = ten();
    bytes[4 * each + 14] ^= 1;
    bytes[9 * each + 14] ^= 1;
    let values: Vec<u8> = (0..30).map(|i| if i % 10 == 3 { 99 } else { i }).collect();
    let mut packed = Vec::new();
    for n in 0..10 {
        let name = if n % 4 == 1 { "y" } else { "x" };
        packed.push(vec![(name, int64s(&[n]))]);
    }
    let gzip = file(Compression::Gzip, &packed);
    let env = MemoryEnv::new(&[
        ("r", &bytes),
        ("g", &gzip),
        ("n.csv", CSV),
        ("a.idx", &idx(8, &[30], &values)),
    ]);
    for source in [
        "source tfrecord(\"r\", on_error: skip(max: 2)); feature x: i64;",
        "source tfrecord([\"g\", \"r\", \"g\"], on_error: skip(max: 8)); feature x: i64;",
        "source csv([\"n.csv\", \"n.csv\"], header: true, on_error: skip(max: 6)); feature x: i64; feature y: string; drop y;",
        "source idx(x: \"a.idx\", on_error: skip(max: 3)); feature x: u8 in 0..50;",
        // The second epoch of the first fails.
        "source csv([\"n.csv\", \"n.csv\"], header: true, on_error: skip(max: 4)); feature x: i64;",
    ] {
        for stages in [
            "",
            "epochs 3; batch (size: 4, remainder: keep);",
            "map r = random_uniform([]); shuffle (buffer: 4, seed: 2); repeat; batch 3;",
            "split (part: train, holdout: 0.3, seed: 1); cache; shuffle; epochs 3; batch 2;",
            "window (size: 3, shift: 1); repeat; batch 2;",
            "skip 3; shard (index: 1, count: 2); epochs 4;",
        ] {
            check(&env, &format!("{source} {stages}"), 40);
        }
    }
}

#[test]
fn a_run_says_what_was_left_out() {
    let env = MemoryEnv::new(&[("n.csv", b"1\n2\nred\n3\nblue\n4\n5\n6\n")]);
    let text = "spec left;
        data points { source csv(\"n.csv\", on_error: skip(max: 2)); feature x: f32; shuffle (buffer: 3); epochs 3; batch 2; }
        data seen { source csv(\"n.csv\", on_error: skip(max: 5)); feature x: f32; batch 2; }
        model (x: f32[batch]) { param w: f32 = zeros(); loss mean(square(w - x)); }
        train { data points; optimizer gradient_descent(0.1); }
        eval { data seen; every 3 steps; }";
    for threads in [1, 2] {
        let options = Options {
            engine: trainspec::Engine::compiled(threads),
            ..Options::default()
        };
        let (state, events) = run(&env, text, &options);
        state.unwrap();
        let notes = events.iter().filter_map(|event| match event {
            Event::Note(note) if note.contains("left out") => Some(note.as_str()),
            _ => None,
        });
        let notes: Vec<&str> = notes.collect();
        let said = "2 records of an epoch cannot be decoded and were left out: \
            n.csv:3: column `x`: `red` is no f32; n.csv:5: column `x`: `blue` is no f32";
        let mut expected = [
            format!("data set `points`: {said}"),
            format!("data set `seen`: {said}"),
        ];
        let mut notes: Vec<String> = notes.into_iter().map(str::to_owned).collect();
        notes.sort();
        expected.sort();
        assert_eq!(notes, expected);
    }
}

#[test]
fn a_quote_that_does_not_close_loses_no_record_without_a_word() {
    let lines = |third: &str| {
        let line = |n: i64| match n {
            2 => third.to_owned(),
            n => format!("{n},\"a\""),
        };
        (0..1000).map(line).collect::<Vec<_>>().join("\n") + "\n"
    };
    let settings =
        "source csv(\"n.csv\", on_error: skip(max: 5)); feature x: i64; feature y: string;";
    // The quotes after it pair up with it, so that its record ends somewhere, or nowhere.
    for third in ["2,\"a", "2,\"a\"\"", "\"2,a"] {
        let text = lines(third);
        let env = MemoryEnv::new(&[("n.csv", text.as_bytes())]);
        let error = read(&env, settings, 2000).unwrap_err();
        assert!(error.to_string().starts_with("n.csv:3: a "), "{error}");
        let help = error.diagnostic().help;
        assert!(help[0].contains("where the next record begins"), "{help:?}");
    }
    // In one line it is known: also in the last one.
    for (line, n) in [(2, 999), (999, 999)] {
        let mut text: Vec<String> = lines("2,\"a\"").lines().map(str::to_owned).collect();
        text[line] = format!("{line},\"a\"b");
        let env = MemoryEnv::new(&[("n.csv", (text.join("\n") + "\n").as_bytes())]);
        assert_eq!(all(&env, settings).0.len(), n);
    }
    let unclosed = MemoryEnv::new(&[("n.csv", b"1,a\n2,\"b\n")]);
    assert_eq!(all(&unclosed, settings).0, [1]);
}
