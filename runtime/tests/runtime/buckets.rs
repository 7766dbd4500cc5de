//! `bucket_by_length`: batches of records of similar length.

use trainspec_formats::records::Compression;

use crate::positions::check;
use crate::support::{MemoryEnv, check_errors, ints, read};
use crate::tfrecord::{file, int64s};

/// Records 0, 1, ... with lists of those lengths.
fn lists(lengths: &[usize]) -> MemoryEnv {
    let record = |(x, n): (usize, &usize)| {
        let list: Vec<i64> = (1..=*n as i64).collect();
        vec![("x", int64s(&[x as i64])), ("list", int64s(&list))]
    };
    let records: Vec<_> = lengths.iter().enumerate().map(record).collect();
    MemoryEnv::new(&[("r", &file(Compression::None, &records))])
}

const SOURCE: &str = "source tfrecord(\"r\"); feature x: i64; feature list: i64[<=9];";

#[test]
fn records_of_similar_length_make_a_batch() {
    let env = lists(&[1, 5, 2, 9, 3, 0, 6, 7, 1]);
    let read = |stage: &str| {
        let batches = read(&env, &format!("{SOURCE} {stage}"), 99).unwrap();
        let of = |name: &str| -> Vec<Vec<i64>> {
            let own = batches.iter().map(std::slice::from_ref);
            own.map(|batch| ints(batch, name)).collect()
        };
        (of("x"), of("list#count").concat(), batches)
    };
    // Below 3, from 3 to 5, and from 6 on.
    let stage = "bucket_by_length (list, boundaries: [3, 6], size: 2";
    let (x, longest, batches) = read(&format!("{stage}, remainder: keep);"));
    assert_eq!(x, [[0, 2].as_slice(), &[1, 4], &[3, 6], &[5, 8], &[7]]);
    assert_eq!(longest, [2, 5, 9, 1, 7]);
    assert_eq!(
        ints(&batches[..1], "list"),
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0]
    );
    let (x, ..) = read(&format!("{stage});"));
    assert_eq!(x.len(), 4, "a training drops what fills no batch");
    let (_, longest, _) = read(&format!("{stage}, remainder: keep, pad: boundary);"));
    assert_eq!(longest, [2, 5, 9, 2, 9]);
    let (x, ..) =
        read("bucket_by_length (list, boundaries: [3, 6], size: [3, 2, 1], remainder: keep);");
    // 3 is a batch of its own before 1 and 4 are one.
    assert_eq!(x, [[3].as_slice(), &[1, 4], &[0, 2, 5], &[6], &[7], &[8]]);
    let error = crate::support::read(&env, &format!("{SOURCE} {stage}, remainder: error);"), 99);
    assert_eq!(
        error.unwrap_err().to_string(),
        "the last batch of a bucket has 1 records, and not 2"
    );
}

#[test]
fn buckets_go_on_from_anywhere() {
    let lengths = [
        1, 5, 2, 9, 3, 0, 6, 7, 1, 4, 4, 8, 2, 2, 9, 0, 3, 5, 1, 1, 1, 7, 0, 2, 6,
    ];
    let env = lists(&lengths);
    for buckets in [
        "boundaries: [3, 6], size: 2, remainder: keep",
        "boundaries: [3, 6], size: [4, 1, 3], remainder: keep",
        "boundaries: [1], size: 5",
        "boundaries: [2, 3, 4, 5, 6, 7, 8, 9], size: 3, remainder: keep, pad: boundary",
        "boundaries: [2, 8], size: 4, remainder: error",
    ] {
        for (before, after) in [
            ("", ""),
            ("", "epochs 3;"),
            ("shuffle (buffer: 4, seed: 1); repeat;", ""),
            (
                "map r = random_uniform([]); filter x % 5 != 2; epochs 2;",
                "repeat;",
            ),
            (
                "cache; shuffle;",
                "shuffle (buffer: 3, seed: 2); repeat; prefetch 2;",
            ),
            ("", "cache; epochs 2; skip 1; take 9;"),
        ] {
            let settings = format!("{SOURCE} {before} bucket_by_length (list, {buckets}); {after}");
            check(&env, &settings, 50);
        }
    }
}

#[test]
fn mistakes_in_buckets_are_errors() {
    for (stage, message) in [
        (
            "(x, boundaries: [3], size: 2);",
            "all records have `x` of one length",
        ),
        (
            "(lost, boundaries: [3], size: 2);",
            "there is no feature `lost` whose length decides",
        ),
        (
            "(list, boundaries: [3, 3], size: 2);",
            "boundaries are positive and ascending",
        ),
        (
            "(list, boundaries: [0, 3], size: 2);",
            "boundaries are positive and ascending",
        ),
        (
            "(list, boundaries: [3, 20], size: 2);",
            "`list` has at most 9 elements, and 20 is a boundary",
        ),
        (
            "(list, boundaries: [], size: 2);",
            "there are from 1 to 255 boundaries, and these are 0",
        ),
        (
            "(list, boundaries: [3, 6], size: [2, 2]);",
            "2 boundaries make 3 buckets, and there are 2 sizes",
        ),
        (
            "(list, boundaries: [3], size: 0);",
            "a batch has at least 1 record, and not 0",
        ),
        (
            "(list, boundaries: [3], size: 2); batch 2;",
            "records are joined into batches once",
        ),
    ] {
        let text = format!("spec test; data d {{ {SOURCE} bucket_by_length {stage} }}");
        assert_eq!(check_errors(&text), [message], "{stage}");
    }
}
