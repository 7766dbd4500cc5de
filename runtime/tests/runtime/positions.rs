//! Positions of input pipelines: a pipeline that seeks reads on as if it had never been interrupted.

use trainspec::internals::data::{Batch, Input, Pipeline, Position};
use trainspec::{Code, Error};
use trainspec_compiler::ir::philox::Key;
use trainspec_formats::records::Compression;

use crate::support::{MemoryEnv, check_errors, context, ints, numbers, open, spec};
use crate::tfrecord::{file, int64s};

/// Draws of a random pipeline.
pub(crate) struct Draws {
    key: Key,
    next: u64,
}

impl Draws {
    pub(crate) fn new(case: i64) -> Draws {
        Draws {
            key: Key::new(case, "positions"),
            next: 0,
        }
    }

    /// An integer from `low` to before `high`.
    pub(crate) fn int(&mut self, low: u64, high: u64) -> u64 {
        self.next += 1;
        low + u64::from(self.key.block(self.next)[0]) % (high - low)
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.int(0, 2) == 1
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.int(0, choices.len() as u64) as usize]
    }
}

/// Files with up to about 30 records together, and the settings that read them. Some files are empty.
fn source(draws: &mut Draws) -> (MemoryEnv, String) {
    let (mut files, mut x) = (Vec::new(), 0);
    let (is_csv, header) = (draws.bool(), draws.bool());
    // Each file has a line that is no record, and sometimes they are too many.
    let (skips, max) = (draws.int(0, 4) == 0, draws.int(2, 5));
    for name in ["d/0", "d/1", "d/2"].iter().take(draws.int(1, 4) as usize) {
        let n = draws.of(&[0, 1, 2, 5, 12]);
        let records = x..x + n;
        x += n;
        let bytes = if is_csv {
            let line_end = draws.of(&["\n", "\r\n", "\n\n", "\r"]);
            let mut lines: Vec<String> = records.map(|x| x.to_string()).collect();
            if skips {
                lines.insert(lines.len() / 2, "red".to_owned());
            }
            if header {
                lines.insert(0, "x".to_owned());
            }
            let last = if draws.bool() { line_end } else { "" };
            (lines.join(line_end) + last).into_bytes()
        } else {
            let compression = draws.of(&[Compression::None, Compression::Gzip, Compression::Zlib]);
            let list: Vec<i64> = (0..draws.int(0, 4) as i64).collect();
            let record = |x| vec![("x", int64s(&[x])), ("list", int64s(&list))];
            file(compression, &records.map(record).collect::<Vec<_>>())
        };
        files.push((*name, bytes));
    }
    let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (*n, &b[..])).collect();
    let on_error = match skips {
        true => format!(", on_error: skip(max: {max})"),
        false => String::new(),
    };
    let mut source = match is_csv {
        true => format!("source csv(\"d/*\", header: {header}{on_error}); feature x: i64;"),
        false => {
            format!("source tfrecord(\"d/*\"{on_error}); feature x: i64; feature list: i64[<=3];")
        }
    };
    if draws.int(0, 3) == 0 {
        let (cycle, block) = (draws.int(1, 5), draws.int(1, 4));
        source += &format!(" interleave (cycle: {cycle}, block: {block});");
    }
    (MemoryEnv::new(&files), source)
}

/// The source of several data sets that read another source, and their declarations.
fn joined(draws: &mut Draws, source: &str) -> (String, String) {
    let stage = draws.of(&[
        "",
        "shuffle (buffer: 3, seed: 1);",
        "take 9;",
        "filter x % 3 != 1;",
    ]);
    let own = format!("}} data a {{ {source} {stage}");
    let other = draws.of(&["", "skip 2;", "map x = x + 100;", "cache; epochs 2;"]);
    match draws.bool() {
        true => {
            let until = draws.of(&["all", "first"]);
            let weight = draws.int(1, 5);
            (
                format!("source mix(a: {weight}, b: 2, seed: 3, until: {until});"),
                format!("{own} }} data b {{ {source} {other}"),
            )
        }
        false => {
            let rest = match source.contains("list") {
                true => "drop list; map y = 2 * x; drop x;",
                false => "map y = 2 * x; drop x;",
            };
            (
                "source zip(a, b);".to_owned(),
                format!("{own} }} data b {{ {source} {other} {rest}"),
            )
        }
    }
}

/// One random stage; without `records` it works on batches.
fn stage(draws: &mut Draws, records: bool) -> String {
    let n = draws.int(1, 7);
    match draws.int(0, 15) {
        0 if records => "map r = random_uniform([]);".to_owned(),
        0 => "map r = random_uniform([2]);".to_owned(),
        1 => "map x = 3 * x + 1;".to_owned(),
        2 if records => format!("filter x % {} != 1;", n + 1),
        2 => "map s = sum(x);".to_owned(),
        3 | 4 => format!(
            "shuffle (buffer: {}, seed: {n});",
            draws.of(&[1, 2, 3, 7, 20, 49])
        ),
        5 => format!("epochs {};", draws.int(1, 4)),
        6 => format!("take {};", n * draws.int(1, 7)),
        7 => format!("skip {n};"),
        8 => format!("shard (index: {}, count: {n});", draws.int(0, n)),
        9 => format!(
            "split (part: {}, holdout: 0.3, seed: {n});",
            draws.of(&["train", "holdout"])
        ),
        10 => "cache;".to_owned(),
        11 => format!("window (size: {n}, shift: {});", draws.int(1, 5)),
        12 => "shuffle;".to_owned(),
        13 => format!(
            "split (part: {}, holdout: 0.3, by: x, seed: {n});",
            draws.of(&["train", "holdout"])
        ),
        _ => draws.of(&["repeat;", "prefetch 2;"]).to_owned(),
    }
}

/// A random pipeline that the checker accepts.
pub(crate) fn pipeline(draws: &mut Draws) -> (MemoryEnv, String) {
    let (env, source) = source(draws);
    let (head, tail) = match draws.int(0, 4) == 0 {
        true => joined(draws, &source),
        false => (source, String::new()),
    };
    loop {
        let mut settings = head.clone();
        let mut endless = false;
        let batch_at = draws.int(0, 6);
        for i in 0..draws.int(0, 6) {
            if i == batch_at {
                let remainder = draws.of(&["keep", "drop", "keep", "drop", "error"]);
                let size = draws.int(1, 6);
                settings += &match head.contains("list") && draws.bool() {
                    true => format!(
                        " bucket_by_length (list, boundaries: [1, 3], size: {size}, remainder: {remainder});"
                    ),
                    false => format!(" batch (size: {size}, remainder: {remainder}, pad: true);"),
                };
            }
            let stage = stage(draws, i < batch_at);
            // A filter that keeps nothing would look for the next record forever.
            if !(endless && stage.starts_with("filter")) {
                endless |= stage.starts_with("repeat");
                settings += &format!(" {stage}");
            }
        }
        settings += &tail;
        if check_errors(&format!("spec test; data d {{ {settings} }}")).is_empty() {
            return (env, settings);
        }
    }
}

fn input(env: &MemoryEnv, settings: &str) -> Input {
    Input::new(open(env, settings, 5).unwrap())
}

/// Up to `limit` batches, and the error after them.
pub(crate) fn run(input: &mut Input, limit: usize) -> (Vec<Batch>, Option<String>) {
    let mut batches = Vec::new();
    while batches.len() < limit {
        match input.next() {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => break,
            Err(error) => return (batches, Some(error.to_string())),
        }
    }
    (batches, None)
}

/// Checks that a pipeline which is interrupted after any batch goes on as one which is not.
pub(crate) fn check(env: &MemoryEnv, settings: &str, limit: usize) {
    let spec = spec(&format!("spec test; data d {{ {settings} }}"));
    let cx = context(env, &spec, 5);
    let open = || Pipeline::open(&cx, &spec.data[0]).unwrap_or_else(|e| panic!("{settings}: {e}"));
    let mut uninterrupted = Input::new(open());
    let start = uninterrupted.position().clone();
    let (batches, failure) = run(&mut uninterrupted, limit);
    // A limited run has seen no failure.
    let left = |read: usize| limit.min(batches.len() + 1) - read;
    let mut used = uninterrupted;
    for (k, position) in [&start]
        .into_iter()
        .chain(batches.iter().map(|b| &b.position))
        .enumerate()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let what = format!(
            "{settings}\nafter batch {k} of {}: {position:?}",
            batches.len()
        );
        let parsed: Position = position.to_string().parse().unwrap();
        assert_eq!(parsed, *position, "{what}");
        // Backwards on a pipeline that was used, and in a new one.
        let mut new = Input::new(open());
        if k % 3 == 0 {
            let other = &batches.get(k / 2).map_or(&start, |b| &b.position);
            new.seek(other).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        for (which, input, n) in [
            ("new", &mut new, left(k)),
            ("used", &mut used, left(k).min(3)),
        ] {
            let sought = input.seek(&parsed);
            sought.unwrap_or_else(|e| panic!("{which} {what}: {e}"));
            assert_eq!(input.position(), position, "{which} {what}");
            let (found, error) = run(input, n);
            assert_eq!(
                found,
                batches[k..batches.len().min(k + n)],
                "{which} {what}"
            );
            if k + n > batches.len() {
                assert_eq!(error, failure, "{which} {what}");
            }
        }
    }
    let mut pipeline = open();
    let last = batches.last().map_or(&start, |b| &b.position);
    pipeline.seek(last).unwrap();
    pipeline.rewind();
    let (again, error) = run(&mut Input::new(pipeline), limit);
    let elements = |batches: Vec<Batch>| batches.into_iter().map(|b| b.element).collect::<Vec<_>>();
    assert_eq!(error, failure, "{settings}");
    assert_eq!(elements(again), elements(batches), "rewound: {settings}");
}

#[test]
fn any_pipeline_resumes_after_any_batch() {
    for case in 0..400 {
        let mut draws = Draws::new(case);
        let (env, settings) = pipeline(&mut draws);
        check(&env, &settings, if case % 16 == 0 { 300 } else { 40 });
    }
}

#[test]
fn shuffles_of_any_size_resume_in_any_epoch() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20))]);
    for buffer in [1, 2, 5, 19, 20, 21, 50] {
        for stages in [
            "shuffle B; epochs 3;",
            "map r = random_uniform([]); filter r < 0.7; shuffle B; repeat; batch 3;",
            "shuffle B; cache; shuffle (buffer: 7, seed: 2); repeat; batch (size: 6, remainder: keep);",
            "cache; shuffle B; take 11; epochs 2; shuffle 4; repeat;",
            "epochs 2; shuffle B; batch (size: 3, remainder: keep); epochs 2;",
        ] {
            let shuffle = format!("shuffle (buffer: {buffer}, seed: 9)");
            let stages = stages.replace("shuffle B", &shuffle);
            let settings = format!("source csv(\"n.csv\"); feature x: i64; {stages}");
            check(&env, &settings, 70);
        }
    }
}

/// The position after `n` elements.
fn position(env: &MemoryEnv, settings: &str, n: usize) -> Position {
    let mut pipeline = open(env, settings, 0).unwrap();
    for _ in 0..n {
        pipeline.next().unwrap().unwrap();
    }
    pipeline.position()
}

/// The error of a seek.
fn refused(env: &MemoryEnv, settings: &str, position: &str) -> Error {
    let position: Position = position.parse().unwrap();
    let mut pipeline = open(env, settings, 0).unwrap();
    let error = pipeline.seek(&position).unwrap_err();
    // It is at the beginning again.
    let first = open(env, settings, 0).unwrap().next().unwrap();
    assert_eq!(pipeline.next().unwrap(), first);
    error
}

const NUMBERS: &str = "source csv(\"n.csv\"); feature x: i64;";

#[test]
fn a_position_reads_as_a_line_per_stage() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20))]);
    let settings = format!("{NUMBERS} map x = x + 1; skip 2; batch 3; repeat;");
    // 9 records after 2 that were skipped: ten lines of two bytes, one of three.
    let text = "csv/2 0 11 23 12 3 11\nmap/2 0\nskip/1 2\nrepeat/1 0 0 0 1 0";
    assert_eq!(position(&env, &settings, 3).to_string(), text);
    let settings = format!("{NUMBERS} shuffle (buffer: 4, seed: 1);");
    let text = "csv/2 0 0 0 0 0 0\nshuffle/1 0 3 6 0";
    assert_eq!(position(&env, &settings, 3).to_string(), text);
}

#[test]
fn text_that_is_no_position_is_an_error() {
    let long = format!("csv/1{}", " 1".repeat(17));
    let many = "a/1\n".repeat(5000);
    for text in [
        "csv",
        "csv/",
        "/1",
        "csv/1 ",
        "csv/1  2",
        "csv/-1",
        "csv/+1 2",
        "csv/1 2x",
        "CSV/1",
        "csv/01",
        "\n",
        "csv/1\n\nmap/1",
        "csv/99999999999",
        "csv/1 99999999999999999999",
        "csv/1 ²",
        "c\0v/1",
        &long,
        &many,
    ] {
        let error = text.parse::<Position>().unwrap_err();
        assert_eq!(error.code(), Code::DataLoss, "{text:?}");
    }
    assert_eq!(
        "csv 0".parse::<Position>().unwrap_err().to_string(),
        "line 1 of a data position is `csv 0`, and not a stage, its version and numbers as in `take/1 12`"
    );
    assert_eq!("".parse::<Position>().unwrap().len(), 0);
}

#[test]
fn no_numbers_make_a_seek_panic() {
    for case in 0..200 {
        let mut draws = Draws::new(case);
        let (env, settings) = pipeline(&mut draws);
        let mut input = input(&env, &settings);
        let (batches, _) = run(&mut input, 10);
        for batch in &batches {
            let text = batch.position.to_string();
            let mut lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').collect()).collect();
            let line = draws.int(0, lines.len() as u64) as usize;
            let number = draws.int(1, lines[line].len() as u64) as usize;
            lines[line][number] = draws.of(&["0", "1", "2", "7", "40", "1152921504606846976"]);
            let lines: Vec<String> = lines.iter().map(|l| l.join(" ")).collect();
            if input.seek(&lines.join("\n").parse().unwrap()).is_ok() {
                let _ = run(&mut input, 10);
            }
        }
    }
}

#[test]
fn a_position_of_another_pipeline_is_refused() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(9))]);
    let settings = format!("{NUMBERS} shuffle (buffer: 4, seed: 1); take 5;");
    let csv = "csv/2 0 0 0 0 0 0";
    for (position, code, message) in [
        (
            "csv/2 0 0 0 0 0 0\nshuffle/1 0 0 0 0\nskip/1 2",
            Code::InvalidArgument,
            "the position has `skip` where the data set has `take`",
        ),
        (
            "take/1 2",
            Code::InvalidArgument,
            "the position has no record for `shuffle`: it has take",
        ),
        (
            "",
            Code::InvalidArgument,
            "the position has no record for `take`: it has nothing",
        ),
        (
            "map/1 1\nCSV\nshuffle/1 0 0 0 0\ntake/1 2",
            Code::InvalidArgument,
            "the position has 1 records more than the data set has stages: map, csv, shuffle, take",
        ),
        (
            "CSV\nshuffle/1 0 0 0 0\ntake/2 2",
            Code::InvalidArgument,
            "the position has version 2 of `take`, and version 1 is read here",
        ),
        (
            "CSV\nshuffle/1 0 0 0 0\ntake/1 2 3",
            Code::DataLoss,
            "the position of `take` has 2 numbers, and not 1",
        ),
        (
            "CSV\nshuffle/1 0 0 0 0\ntake/1 18446744073709551615",
            Code::DataLoss,
            "the position of `take` has 18446744073709551615, which is no count",
        ),
        (
            "CSV\nshuffle/1 0 3 7 0\ntake/1 3",
            Code::DataLoss,
            "the position of `shuffle` has drawn 3 of 7 elements, which a buffer of 4 cannot",
        ),
        (
            "CSV\nshuffle/1 0 8 11 0\ntake/1 3",
            Code::DataLoss,
            "the position of `shuffle` is after 11 elements, and there are 9",
        ),
        (
            "CSV\nshuffle/1 0 8 8 1\ntake/1 3",
            Code::DataLoss,
            "the position of `shuffle` ends after 8 elements, and there are more",
        ),
        (
            "CSV\nshuffle/1 0 0 0 7\ntake/1 3",
            Code::DataLoss,
            "the position of `shuffle` has 7 for a flag, and not 0 or 1",
        ),
        (
            "csv/2 2 0 0 0 0 0\nshuffle/1 0 0 0 0\ntake/1 3",
            Code::DataLoss,
            "the position of `csv` is after 2 files, and there are 1",
        ),
        (
            "csv/2 1 3 0 0 0 0\nshuffle/1 0 0 0 0\ntake/1 3",
            Code::DataLoss,
            "the position of `csv` has read records after the last file",
        ),
    ] {
        let error = refused(&env, &settings, &position.replace("CSV", csv));
        assert_eq!(error.to_string(), message);
        assert_eq!(error.code(), code, "{message}");
    }
}

#[test]
fn files_that_have_changed_are_noticed() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20))]);
    let at = position(&env, NUMBERS, 15).to_string();
    let shorter = MemoryEnv::new(&[("n.csv", &numbers(5))]);
    let message = "n.csv: has 10 bytes, and the position is after 35";
    assert_eq!(refused(&shorter, NUMBERS, &at).to_string(), message);
    let wider = MemoryEnv::new(&[("n.csv", &b"100\n".repeat(20))]);
    assert_eq!(refused(&wider, NUMBERS, &at).code(), Code::InvalidArgument);
    let settings = format!("{NUMBERS} cache;");
    let at = position(&env, &settings, 15).to_string();
    let message = "the position of `cache` has 15 cached elements, and there are 5";
    assert_eq!(refused(&shorter, &settings, &at).to_string(), message);
    let records = |n: i64, compression| {
        let record = |x: i64| vec![("x", int64s(&[x]))];
        let bytes = file(compression, &(0..n).map(record).collect::<Vec<_>>());
        MemoryEnv::new(&[("r", &bytes)])
    };
    let settings = "source tfrecord(\"r\"); feature x: i64;";
    for (compression, message) in [
        (Compression::None, "bytes, and the position is after"),
        (
            Compression::Gzip,
            "r: has 3 records, and the position is after 6",
        ),
    ] {
        let at = position(&records(9, compression), settings, 6).to_string();
        let error = refused(&records(3, compression), settings, &at).to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_seek_says_how_many_records_it_read_again() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20))]);
    for (stages, reread) in [
        ("", 0),
        ("batch 3; repeat;", 0),
        ("shuffle (buffer: 4, seed: 1);", 9),
        ("cache;", 6),
        ("filter x > 3; split (part: train, holdout: 0.1);", 16),
        ("split (part: train, holdout: 0.1);", 0),
    ] {
        let settings = format!("{NUMBERS} {stages}");
        let at = position(&env, &settings, 6);
        let mut new = open(&env, &settings, 0).unwrap();
        let mut said = Vec::new();
        let sought = new.seek_watched(&at, &mut |records| said.push(records));
        assert_eq!(sought.unwrap(), reread, "{stages}");
        assert!(said.is_sorted() && said.last().copied().unwrap_or(0) == reread);
    }
}

#[test]
fn errors_after_a_seek_name_the_same_line() {
    for text in [&b"1\n2\n\n\"3\"\n4,4\n"[..], b"1\n2\n\n3\nx\n"] {
        let env = MemoryEnv::new(&[("n.csv", text)]);
        let after = |seek: bool| {
            let mut pipeline = open(&env, NUMBERS, 0).unwrap();
            let position = position(&env, NUMBERS, 3);
            match seek {
                true => drop(pipeline.seek(&position).unwrap()),
                false => (0..3).for_each(|_| drop(pipeline.next().unwrap())),
            }
            pipeline.next().unwrap_err().to_string()
        };
        assert_eq!(after(true), after(false));
        assert!(after(true).starts_with("n.csv:5: "), "{}", after(true));
    }
}

#[test]
fn a_feature_before_the_position_is_not_missing() {
    let records = [
        vec![("x", int64s(&[1])), ("list", int64s(&[1]))],
        vec![("x", int64s(&[2]))],
        vec![("x", int64s(&[3]))],
    ];
    let env = MemoryEnv::new(&[("r", &file(Compression::None, &records))]);
    let settings = "source tfrecord(\"r\"); feature x: i64; feature list: i64[<=2]; epochs 2;";
    check(&env, settings, 99);
    let mut pipeline = open(&env, settings, 0).unwrap();
    pipeline.seek(&position(&env, settings, 2)).unwrap();
    let mut rest = Vec::new();
    while let Some(element) = pipeline.next().unwrap() {
        rest.push(element);
    }
    assert_eq!(ints(&rest, "x"), [3, 1, 2, 3]);
}

#[test]
fn more_epochs_continue_a_data_set_that_had_ended() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(5))]);
    let with =
        |epochs: u32| format!("{NUMBERS} epochs {epochs}; batch (size: 4, remainder: keep);");
    let at = position(&env, &with(2), 3);
    let mut longer = open(&env, &with(3), 0).unwrap();
    longer.seek(&at).unwrap();
    let next = longer.next().unwrap().unwrap();
    assert_eq!(
        (ints(std::slice::from_ref(&next), "x"), next.pass),
        (vec![0, 1, 2, 3], 2)
    );
    let mut shorter = open(&env, &with(1), 0).unwrap();
    shorter.seek(&at).unwrap();
    assert_eq!(shorter.next().unwrap(), None);
}

#[test]
fn an_input_looks_one_batch_ahead() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(5))]);
    let settings = format!("{NUMBERS} epochs 2; batch (size: 2, remainder: keep);");
    let mut input = input(&env, &settings);
    let (batches, failure) = run(&mut input, 99);
    assert_eq!(failure, None);
    let passes: Vec<(u64, u64)> = batches.iter().map(|b| (b.element.pass, b.passes)).collect();
    // 01 23 4|0 12 34: the third batch ends the first epoch.
    assert_eq!(passes, [(0, 0), (0, 0), (0, 1), (1, 1), (1, 2)]);
    let last: Vec<bool> = batches.iter().map(|b| b.last).collect();
    assert_eq!(last, [false, false, false, false, true]);
    assert_eq!(input.next().unwrap(), None);
    assert_eq!(input.position(), &batches[4].position);
    assert_eq!(input.name(), "d");
    assert_eq!(
        (input.endless(), input.records(), input.batch()),
        (false, Some(5), Some(2))
    );
    assert_eq!(input.files(), [std::path::PathBuf::from("n.csv")]);
}

#[test]
fn an_error_of_the_lookahead_comes_after_its_batch() {
    let env = MemoryEnv::new(&[("n.csv", b"1\n2\nx\n")]);
    let mut input = input(&env, NUMBERS);
    let first = input.next().unwrap().unwrap();
    let second = input.next().unwrap().unwrap();
    assert_eq!(ints(&[first.element, second.element], "x"), [1, 2]);
    assert!(!second.last);
    let message = "n.csv:3: column `x`: `x` is no i64";
    for _ in 0..2 {
        assert_eq!(input.next().unwrap_err().to_string(), message);
    }
    input.seek(&first.position).unwrap();
    assert_eq!(ints(&[input.next().unwrap().unwrap().element], "x"), [2]);
}

#[test]
fn pipelines_and_inputs_can_be_sent_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Input>();
    is_send::<trainspec::internals::data::Pipeline>();
    is_send::<trainspec::internals::data::DataContext>();
}
