//! CSV files, good and hostile: what is read, and what errors say.

use crate::support::{MemoryEnv, check_errors, ints, read};
use trainspec::internals::data::Element;
use trainspec_compiler::ir::{DType, Tensor};

/// The message of the error that reading a file gives.
fn error(bytes: &[u8], settings: &str) -> String {
    let env = MemoryEnv::new(&[("a.csv", bytes)]);
    let error = read(&env, &format!("source {settings}"), 1000).unwrap_err();
    assert!(error.is_bad_input());
    error.to_string()
}

const XY: &str = "csv(\"a.csv\", header: true); feature x: f32; feature y: i64;";

#[test]
fn columns_are_found_by_name() {
    let env = MemoryEnv::new(&[("a.csv", b"y, z ,x\n3,no,1.5\n-4,\"a,\nb\",\"2.5\"\n")]);
    let found = read(
        &env,
        "source csv(\"a.csv\", header: true); feature x: f32; feature other: i64 as \"y\"; feature z: string;",
        9,
    )
    .unwrap();
    assert_eq!(ints(&found, "other"), [3, -4]);
    assert_eq!(found[0].values["x"], Tensor::scalar(1.5_f32));
    assert_eq!(found[1].values["x"], Tensor::scalar(2.5_f32));
    assert_eq!(found[1].values["z"], Tensor::scalar(b"a,\nb".to_vec()));
    assert_eq!(found[1].location().unwrap().to_string(), "a.csv:3");
}

#[test]
fn without_a_header_columns_come_in_order_and_tensors_take_several() {
    let env = MemoryEnv::new(&[("a.csv", b"1;2;3;4;5\r\n6;7;8;9;10\r\n")]);
    let settings = "source csv(\"a.csv\", delimiter: \";\"); feature x: f64[3]; feature n: u8; feature last: f32;";
    let found = read(&env, settings, 9).unwrap();
    assert_eq!(found[1].values["x"], Tensor::new(&[3], vec![6.0, 7.0, 8.0]));
    assert_eq!(found[1].values["n"], Tensor::scalar(9_u8));
    let named = MemoryEnv::new(&[("a.csv", b"a,b,c\n1,2,3\n")]);
    let settings = "source csv(\"a.csv\", header: true); feature x: i32[2] as \"b\";";
    let found = read(&named, settings, 9).unwrap();
    assert_eq!(ints(&found, "x"), [2, 3]);
}

#[test]
fn every_type_of_number_is_read() {
    for dtype in DType::ALL {
        let env = MemoryEnv::new(&[("a.csv", b" 1 \n")]);
        let settings = format!("source csv(\"a.csv\"); feature x: {dtype};");
        let found = read(&env, &settings, 9).unwrap();
        assert_eq!(found[0].values["x"].dtype(), dtype);
    }
    let env = MemoryEnv::new(&[("a.csv", b"True,-inf\nfalse,NaN\n0,+1.5e3\n")]);
    let settings = "source csv(\"a.csv\"); feature b: bool; feature x: f32;";
    let found = read(&env, settings, 9).unwrap();
    assert_eq!(ints(&found, "b"), [1, 0, 0]);
    assert_eq!(found[0].values["x"], Tensor::scalar(f32::NEG_INFINITY));
    assert!(found[1].values["x"].to_f64s()[0].is_nan());
}

#[test]
fn numbers_are_rounded_once() {
    // Halfway between two f32 numbers but for a digit that f64 cannot hold.
    let env = MemoryEnv::new(&[("a.csv", b"1.00000005960464477539062501\n")]);
    let found = read(&env, "source csv(\"a.csv\"); feature x: f32;", 9).unwrap();
    assert_eq!(found[0].values["x"], Tensor::scalar(1.000_000_1_f32));
}

#[test]
fn a_default_replaces_missing_values() {
    let env = MemoryEnv::new(&[("a.csv", b"x,y\n,1\n2,\n")]);
    let settings = "source csv(\"a.csv\", header: true); feature x: i64 = 7; feature y: i64 = -1;";
    let found = read(&env, settings, 9).unwrap();
    assert_eq!(ints(&found, "x"), [7, 2]);
    assert_eq!(ints(&found, "y"), [1, -1]);
}

#[test]
fn several_files_follow_each_other() {
    let env = MemoryEnv::new(&[
        ("d/b-2.csv", b"y,x\n0,3\n"),
        ("d/b-1.csv", b"x,y\n1,0\n2,0\n"),
        ("d/.b-0.csv", b"x,y\n9,0\n"),
        ("a.csv", b"x,y\n4,0\n"),
    ]);
    let settings = "source csv([\"d/b-*.csv\", \"a.csv\"], header: true); feature x: i64;";
    let found = read(&env, settings, 9).unwrap();
    assert_eq!(ints(&found, "x"), [1, 2, 3, 4]);
    let settings = "source csv(\"d/c*.csv\"); feature x: i64;";
    let error = read(&env, settings, 9).unwrap_err();
    assert_eq!(error.to_string(), "no file matches `d/c*.csv`");
}

#[test]
fn a_class_in_a_pattern_matches_one_character_and_an_existing_name_is_itself() {
    let env = MemoryEnv::new(&[
        ("a1.csv", b"1\n"),
        ("a2.csv", b"2\n"),
        ("a3.csv", b"3\n"),
        ("a[2].csv", b"4\n"),
    ]);
    for (pattern, expected) in [("a[12].csv", &[1, 2][..]), ("a[2].csv", &[4])] {
        let settings = format!("source csv(\"{pattern}\"); feature x: i64;");
        assert_eq!(ints(&read(&env, &settings, 9).unwrap(), "x"), expected);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_record_that_does_not_fit_in_memory_is_refused() {
    let settings = "csv(\"a.csv\"); feature x: f32[1_000_000_000_000];";
    let found = error(b"1,2\n", settings);
    assert!(found.starts_with("a record of `"), "{found}");
    assert!(found.contains("TiB of memory, and there are"), "{found}");
}

#[test]
fn an_unclosed_quote_is_reported_at_the_line_where_it_opens() {
    let lines = |plain: &str, third: &str| {
        let line = |n| match n {
            1 => "x,y\n".to_owned(),
            3 => format!("{third}\n"),
            _ => format!("{plain}\n"),
        };
        (1..=1000).map(line).collect::<String>()
    };
    for (plain, third, cause) in [
        ("1,2", "\"1,2", "a field with quotes does not end with one"),
        (
            "\"1\",\"2\"",
            "\"1\",\"2",
            "a quote inside a field is not written twice",
        ),
    ] {
        let found = error(lines(plain, third).as_bytes(), XY);
        assert_eq!(found, format!("a.csv:3: {cause}"));
    }
    // The quote opens on line 3 of a record that begins on line 2.
    let text = format!("x,y\n\"1\n\",\"2\n{}", "1,2\n".repeat(997));
    let cause = "a field with quotes does not end with one";
    assert_eq!(error(text.as_bytes(), XY), format!("a.csv:3: {cause}"));
}

#[test]
fn misplaced_quotes_are_errors() {
    for (bytes, message) in [
        (
            &b"1,a\n2,b\"\n3,c\n"[..],
            "a.csv:2: a field without quotes has a quote or a line end in it",
        ),
        (
            b"1,a\n2,\"b\n3,c\n",
            "a.csv:2: a field with quotes does not end with one",
        ),
        (
            b"1,\"a\"b\n",
            "a.csv:1: a quote inside a field is not written twice",
        ),
    ] {
        let env = MemoryEnv::new(&[("a.csv", bytes)]);
        let settings = "source csv(\"a.csv\"); feature x: i64; feature s: string;";
        let error = read(&env, settings, 9).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_byte_order_mark_and_empty_lines_are_no_values() {
    let env = MemoryEnv::new(&[("a.csv", "\u{feff}x,y\n\n1,2\n\n\n3,4".as_bytes())]);
    let found = read(&env, &format!("source {XY}"), 9).unwrap();
    assert_eq!(ints(&found, "y"), [2, 4]);
}

#[test]
fn errors_name_file_line_and_column() {
    for (bytes, message) in [
        (
            &b"x,y\n1,2\n1.5,abc\n"[..],
            "a.csv:3: column `y`: `abc` is no i64",
        ),
        (
            b"x,y\n1,2\n\n\n1.5,abc\n",
            "a.csv:5: column `y`: `abc` is no i64",
        ),
        (
            b"x,y\n\"1\n\",2\n1.5,abc\n",
            "a.csv:4: column `y`: `abc` is no i64",
        ),
        (b"x,y\n1,2.0\n", "a.csv:2: column `y`: `2.0` is no i64"),
        (b"x,y\n1,\n", "a.csv:2: column `y`: the value is missing"),
        (
            b"x,y\n1\n",
            "a.csv:2: there are 1 fields, but the header (line 1) has 2",
        ),
        (
            b"x,y\n1,2,3\n",
            "a.csv:2: there are 3 fields, but the header (line 1) has 2",
        ),
        (b"x,z\n1,2\n", "a.csv:1: there is no column `y`"),
        (b"x,y,x\n1,2,3\n", "a.csv:1: there are two columns `x`"),
        (
            b"",
            "a.csv: is empty, and its first line should name the columns",
        ),
        (
            b"x,y\n1e39,2\n",
            "a.csv:2: column `x`: `1e39` is too large for f32",
        ),
        (
            b"x,y\n1,9223372036854775808\n",
            "a.csv:2: column `y`: `9223372036854775808` is too large for i64",
        ),
        (
            b"x,y\n\xff,2\n",
            "a.csv:2: column `x`: `\u{fffd}` is not UTF-8",
        ),
    ] {
        assert_eq!(
            error(bytes, XY),
            message,
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
    }
    let long = [b"x,y\n1,".as_slice(), &[b'7'; 100_000], b"\n"].concat();
    let message = error(&long, XY);
    assert!(
        message.len() < 120 && message.ends_with("...` is too large for i64"),
        "{message}"
    );
}

#[test]
fn small_types_have_small_ranges() {
    for (text, dtype) in [
        ("128", "i8"),
        ("-1", "u8"),
        ("65536", "f16"),
        ("-40000", "i16"),
    ] {
        let message = error(
            text.as_bytes(),
            &format!("csv(\"a.csv\"); feature x: {dtype};"),
        );
        assert_eq!(
            message,
            format!("a.csv:1: column `x`: `{text}` is too large for {dtype}")
        );
    }
}

#[test]
fn a_header_that_is_taken_for_a_line_is_recognized() {
    let env = MemoryEnv::new(&[("a.csv", b"x,y\n1,2\n")]);
    let settings = "source csv(\"a.csv\"); feature x: f32; feature y: i64;";
    let error = read(&env, settings, 9).unwrap_err().diagnostic();
    assert_eq!(error.message, "a.csv:1: column `x`: `x` is no f32");
    assert!(error.help[0].contains("header: true"), "{:?}", error.help);
}

#[test]
fn lines_without_a_header_have_one_width() {
    let settings = "csv(\"a.csv\"); feature x: f32; feature y: i64;";
    assert_eq!(
        error(b"1\n", settings),
        "a.csv:1: there are 1 fields, but the features take 2"
    );
    assert_eq!(
        error(b"1,2\n1,2,3\n", settings),
        "a.csv:2: there are 3 fields, but the first line (line 1) has 2"
    );
}

#[test]
fn bounds_are_checked() {
    let settings = "csv(\"a.csv\", header: true); feature species: i64 in 0..3;";
    assert_eq!(
        error(b"species\n2\n3\n", settings),
        "a.csv:3: column `species`: `species` is 3, which is not in 0..3"
    );
    let settings = "csv(\"a.csv\"); feature x: i64[2] in -1..1;";
    assert_eq!(
        error(b"-1,0\n0,-2\n", settings),
        "a.csv:2: column `x, value 1`: `x` is -2, which is not in -1..1"
    );
}

#[test]
fn files_without_records_are_empty_data_sets() {
    for bytes in [&b"x,y\n"[..], b"x,y"] {
        let env = MemoryEnv::new(&[("a.csv", bytes)]);
        assert!(read(&env, &format!("source {XY}"), 9).unwrap().is_empty());
    }
    let env = MemoryEnv::new(&[("a.csv", b"")]);
    let settings = "source csv(\"a.csv\"); feature x: f32; repeat;";
    assert!(read(&env, settings, 9).unwrap().is_empty());
}

#[test]
fn errors_of_a_source_are_reported_before_the_first_record() {
    let env = MemoryEnv::new(&[]);
    for (settings, message) in [
        (
            "source csv(\"no.csv\"); feature x: f32;",
            "no.csv: cannot be read: entity not found",
        ),
        (
            "source \"mine\" (rows: 3); feature x: f32;",
            "`source \"mine\"` is not registered",
        ),
    ] {
        let error = read(&env, settings, 9).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn static_errors_of_a_data_set_are_found_by_check() {
    for (settings, message) in [
        (
            "source csv([]); feature x: f32;",
            "the source names no file",
        ),
        (
            "source csv(\"a.csv\"); feature x: f32[2] = [1.0];",
            "the default of `x` has 1 values, and `f32[2]` has 2",
        ),
        (
            "source csv(\"a.csv\"); feature x: f32[2] = [\"a\", \"b\"];",
            "the string \"a\" is no default for `f32[2]`",
        ),
        (
            "source csv(\"a.csv\"); feature x: u8 = 300;",
            "300 does not fit in `u8`, which goes from 0 to 255",
        ),
        (
            "source csv(\"a.csv\"); feature x: i64 in 0..3 = 3;",
            "the default is 3, which is not in 0..3",
        ),
        (
            "source tfrecord(\"a\"); feature x: i64[<=3] = 0;",
            "a feature of varying length has no default: a record that lacks it gives an empty one",
        ),
        (
            "source tfrecord(\"a\"); feature x: i64[2, <=3];",
            "an Example has lists of one varying length, the first, and `x` is `i64[2, <=3]`",
        ),
        (
            "source csv(\"a.csv\", delimiter: \"::\"); feature x: f32;",
            "the delimiter must be one ASCII character, and no quote or line end, but is \"::\"",
        ),
        (
            "source csv(\"a.csv\"); feature x: i64[<=3];",
            "a csv file has no features of varying length, and `x` is `i64[<=3]`",
        ),
        (
            "source csv(\"a.csv\"); feature x: i64; skip 1; interleave (cycle: 2);",
            "`interleave` says how a source reads its files, so it comes before other stages",
        ),
        (
            "source csv(\"a.csv\"); feature s: string; filter s == 3;",
            "`==` needs `string` elements here",
        ),
    ] {
        let text = format!("spec test; data d {{ {settings} }}");
        assert_eq!(check_errors(&text), [message]);
    }
}

#[test]
fn no_bytes_make_it_panic() {
    use trainspec_compiler::ir::philox::Key;
    let bytes = b"0,1.5,-\"\n\r\xff e9\xef\xbb\xbfx";
    for case in 0..2000_i64 {
        let key = Key::new(case, "hostile");
        let length = key.block(0)[0] as usize % 60;
        let file: Vec<u8> = (0..length)
            .map(|i| bytes[key.block(1 + i as u64)[0] as usize % bytes.len()])
            .collect();
        let env = MemoryEnv::new(&[("a.csv", &file)]);
        for settings in [
            "source csv(\"a.csv\"); feature x: f32; feature s: string; batch 2;",
            "source csv(\"a.csv\", header: true); feature n: i64 as \"x\" = 0; split (part: train, holdout: 0.5);",
        ] {
            // Whether it is a file or not is not the point.
            let _ = read(&env, settings, 99);
        }
    }
}

#[test]
fn listed_fields_stand_for_missing_values() {
    let bytes = b"a,b,c,s\n1,NA,3,x\nNA,-999,,NA\n , 5 ,NA,\n";
    let env = MemoryEnv::new(&[("a.csv", bytes)]);
    let settings = "source csv(\"a.csv\", header: true, missing: [\"NA\", \"\", \"-999\"]);
        feature a: f32; feature b: f64 = 7.0; feature c: i64 = 2; feature s: string;
        map empty = is_missing(s);";
    let all = read(&env, settings, 9).unwrap();
    let a: Vec<f64> = all.iter().flat_map(|e| e.values["a"].to_f64s()).collect();
    assert!(a[0] == 1.0 && a[1].is_nan() && a[2].is_nan(), "{a:?}");
    let b: Vec<f64> = all.iter().flat_map(|e| e.values["b"].to_f64s()).collect();
    assert_eq!(b, [7.0, 7.0, 5.0]);
    assert_eq!(ints(&all, "c"), [3, 2, 2]);
    assert_eq!(ints(&all, "empty"), [0, 1, 1]);
    let settings = settings.replace("feature c: i64 = 2;", "feature c: i64;");
    let error = read(&env, &settings, 9).unwrap_err().to_string();
    assert_eq!(error, "a.csv:3: column `c`: the value is missing");
}

#[test]
fn columns_make_a_vector_by_their_names() {
    let env = MemoryEnv::new(&[("a.csv", b"a,b,c,d\n1,2,3,4\n5,6,7,x\n")]);
    let read = |columns: &str| {
        let settings =
            format!("source csv(\"a.csv\", header: true); feature x: f32[2] as {columns};");
        let first = |all: Vec<Element>| all[0].values["x"].to_f64s();
        read(&env, &settings, 9).map(first)
    };
    assert_eq!(read("[\"c\", \"a\"]").unwrap(), [3.0, 1.0]);
    let error = read("[\"a\", \"z\"]").unwrap_err().to_string();
    assert_eq!(error, "a.csv:1: there is no column `z`");
    let error = read("[\"a\", \"d\"]").unwrap_err().to_string();
    assert_eq!(error, "a.csv:3: column `d`: `x` is no f32");
}

#[test]
fn a_default_does_not_stand_for_a_column_that_is_not_there() {
    let settings = |feature: &str| format!("csv(\"a.csv\", header: true); feature {feature};");
    for feature in ["labl: i64 = 3", "z: f32[2] as [\"labl\", \"x\"] = [0.5, 1]"] {
        let message = error(b"x,label\n1,2\n", &settings(feature));
        assert_eq!(message, "a.csv:1: there is no column `labl`");
    }
    let env = MemoryEnv::new(&[("a.csv", b"x,label\n1,2\n")]);
    let found = read(&env, &format!("source {}", settings("labl: i64 = 3")), 9).unwrap_err();
    let help = found.diagnostic().help;
    assert_eq!(help, ["did you mean `label`? its columns are `x`, `label`"]);
}

#[test]
fn a_compressed_file_is_read_as_it_was_before() {
    use std::io::Write;
    let lines: String = (0..500).map(|i| format!("{i},\"{i}\n\"\n")).collect();
    let text = format!("x,y\n{lines}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(text.as_bytes()).unwrap();
    let zlib = zlib.finish().unwrap();
    let files: [(&str, &[u8]); 3] = [
        ("a.csv", text.as_bytes()),
        ("a.csv.gz", &gzip),
        ("a.csv.z", &zlib),
    ];
    let env = MemoryEnv::new(&files);
    let settings = |source: &str| {
        format!(
            "source csv({source}, header: true); feature x: i64; feature y: string; shuffle (buffer: 20, seed: 1); batch 3;"
        )
    };
    let plain = read(&env, &settings("\"a.csv\""), 999).unwrap();
    for source in [
        "\"a.csv.gz\"",
        "\"a.csv.gz\", compression: gzip",
        "\"a.csv.z\", compression: zlib",
    ] {
        let settings = settings(source);
        let found = read(&env, &settings, 999).unwrap();
        assert_eq!(ints(&found, "x"), ints(&plain, "x"), "{source}");
        // It goes on from any position, with the same records and lines.
        let mut first = crate::support::open(&env, &settings, 0).unwrap();
        for _ in 0..70 {
            first.next().unwrap().unwrap();
        }
        let mut second = crate::support::open(&env, &settings, 0).unwrap();
        second.seek(&first.position()).unwrap();
        for _ in 0..20 {
            let (a, b) = (first.next().unwrap(), second.next().unwrap());
            assert_eq!(a, b, "{source}");
            let line = a.unwrap().location().unwrap().to_string();
            assert!(line.starts_with("a.csv."), "{line}");
        }
    }
    // One that is cut is an error.
    let env = MemoryEnv::new(&[("a.csv.gz", &gzip[..gzip.len() / 2])]);
    let settings = settings("\"a.csv.gz\", on_error: skip(max: 99)");
    let error = read(&env, &settings, 999).unwrap_err().to_string();
    assert!(error.starts_with("a.csv.gz: cannot be read"), "{error}");
    // So is one of another file whose name alone says so.
    let env = MemoryEnv::new(&[("a.csv", &text.as_bytes()[..900])]);
    let settings = "csv(\"a.csv\", header: true, compression: gzip); feature x: i64;";
    let found = read(&env, &format!("source {settings}"), 9).unwrap_err();
    assert_eq!(found.to_string(), "a.csv: is not compressed by gzip");
}

#[test]
fn columns_without_a_header_have_no_names() {
    for feature in ["a: f32 as \"2\"", "a: f32 as \"a\"", "a: f32[2] as \"b\""] {
        let text =
            format!("spec t; data d {{ source csv(\"a.csv\"); feature {feature}; batch 2; }}");
        let errors = check_errors(&text);
        assert_eq!(errors, ["without a header the columns have no names"]);
    }
}

#[test]
fn what_a_field_or_a_file_is_instead_is_said() {
    let help = |bytes: &[u8], settings: &str| {
        let env = MemoryEnv::new(&[("a.csv", bytes)]);
        let error = read(&env, &format!("source {settings}"), 9).unwrap_err();
        let diagnostic = error.diagnostic();
        format!("{}; {}", diagnostic.message, diagnostic.help.join("; "))
    };
    let x = |dtype: &str| {
        format!("csv(\"a.csv\", header: true, delimiter: \";\"); feature x: {dtype};")
    };
    for (bytes, settings, expected) in [
        (&b"x\n1,5\n"[..], x("f32"), "decimal comma"),
        (
            b"x\n1e3\n",
            x("i64"),
            "`feature x: f64;` and `map x = cast(x, i64);`",
        ),
        (b"x;y\n1;2;3\n", x("i64"), "stands in quotes"),
        (b"1;2\n3;4\n", x("i64"), "leave out `header: true`"),
        (
            b"PAR1\x15\x04\x15\x10",
            x("i64"),
            "is a Parquet file, and no csv file",
        ),
        (b"\x93NUMPY\x01\x00", x("i64"), "`source npy"),
        (b"\xff\xfex\0\n\0", x("i64"), "UTF-16"),
        (b"PK\x03\x04\x14\x00", x("i64"), "xlsx"),
        (
            b"x\n1\n",
            "csv(\"b.csv\", header: true); feature x: i64;".to_owned(),
            "did you mean `a.csv`?",
        ),
        (
            b"x\n1\n",
            "csv(\"b*.csv\"); feature x: i64;".to_owned(),
            "the working folder",
        ),
    ] {
        let found = help(bytes, &settings);
        assert!(found.contains(expected), "{found}");
    }
    let env = MemoryEnv::new(&[("pics/cat/1.png", b"")]);
    let settings = "source files(\"pics\"); feature image: u8[1, 1, 1];";
    let error = read(&env, settings, 9).unwrap_err().diagnostic();
    assert_eq!(error.help, ["name its files: `pics/*/*.png`"]);
}
