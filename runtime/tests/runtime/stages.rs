//! The stages of an input pipeline: which elements come out, in which order.

use std::collections::BTreeSet;

use crate::support::{MemoryEnv, check_errors, ints, numbers, open, read, read_seeded, rows};

/// The numbers that come out of stages over the numbers from 0 to before `n`.
fn through(n: usize, stages: &str, limit: usize) -> Vec<i64> {
    let env = MemoryEnv::new(&[("n.csv", &numbers(n))]);
    let settings = format!("source csv(\"n.csv\"); feature x: i64; {stages}");
    let elements = read(&env, &settings, limit).unwrap_or_else(|e| panic!("{stages}: {e}"));
    ints(&elements, "x")
}

fn sizes(n: usize, stages: &str, limit: usize) -> Vec<usize> {
    let env = MemoryEnv::new(&[("n.csv", &numbers(n))]);
    let settings = format!("source csv(\"n.csv\"); feature x: i64; {stages}");
    rows(&read(&env, &settings, limit).unwrap())
}

fn failure(n: usize, stages: &str) -> String {
    let env = MemoryEnv::new(&[("n.csv", &numbers(n))]);
    let settings = format!("source csv(\"n.csv\"); feature x: i64; {stages}");
    read(&env, &settings, 1000).unwrap_err().to_string()
}

#[test]
fn stages_apply_in_the_order_written() {
    assert_eq!(through(9, "take 5; skip 2;", 99), [2, 3, 4]);
    assert_eq!(through(9, "skip 2; take 5;", 99), [2, 3, 4, 5, 6]);
    assert_eq!(through(9, "shard (index: 1, count: 4);", 99), [1, 5]);
    assert_eq!(
        through(9, "map x = x * x; filter x % 2 == 0;", 99),
        [0, 4, 16, 36, 64]
    );
    assert_eq!(
        through(9, "filter x > 5; map x = x - 6; skip 1;", 99),
        [1, 2]
    );
    assert_eq!(through(3, "skip 9;", 99), [0_i64; 0]);
    assert_eq!(through(3, "take 9; cache; prefetch 2;", 99), [0, 1, 2]);
}

#[test]
fn maps_work_on_records_before_a_batch_and_on_batches_after_it() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(5))]);
    let settings = "source csv(\"n.csv\"); feature x: i64;
        map y = x + 1; batch (size: 2, remainder: keep); map s = sum(y); map y = y * 10; drop x;";
    let found = read(&env, settings, 9).unwrap();
    assert_eq!(ints(&found, "y"), [10, 20, 30, 40, 50]);
    assert_eq!(ints(&found, "s"), [3, 7, 5]);
    assert!(found.iter().all(|e| !e.values.contains_key("x")));
}

#[test]
fn a_short_last_batch_is_dropped_kept_or_an_error() {
    assert_eq!(sizes(7, "batch 3;", 9), [3, 3]);
    assert_eq!(sizes(7, "batch (size: 3, remainder: keep);", 9), [3, 3, 1]);
    assert_eq!(sizes(6, "batch (size: 3, remainder: error);", 9), [3, 3]);
    assert_eq!(
        failure(7, "batch (size: 3, remainder: error);"),
        "the last batch has 1 records, and not 3"
    );
    assert_eq!(sizes(2, "batch (size: 3, remainder: keep);", 9), [2]);
    assert_eq!(sizes(2, "batch 3;", 9), [0; 0]);
}

#[test]
fn batches_cross_epochs_only_if_epochs_come_first() {
    assert_eq!(
        through(5, "epochs 2; batch 3;", 99),
        [0, 1, 2, 3, 4, 0, 1, 2, 3]
    );
    assert_eq!(through(5, "batch 3; epochs 2;", 99), [0, 1, 2, 0, 1, 2]);
    assert_eq!(
        sizes(5, "batch (size: 3, remainder: keep); epochs 2;", 99),
        [3, 2, 3, 2]
    );
    assert_eq!(through(3, "repeat; take 7;", 99), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(
        through(2, "epochs 2; epochs 2;", 99),
        [0, 1, 0, 1, 0, 1, 0, 1]
    );
    assert_eq!(
        through(4, "batch 2; take 1; repeat;", 3),
        [0, 1, 0, 1, 0, 1]
    );
}

#[test]
fn elements_know_their_pass() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(3))]);
    let settings = "source csv(\"n.csv\"); feature x: i64; epochs 2; epochs 2; batch 2;";
    let found = read(&env, settings, 99).unwrap();
    let passes: Vec<u64> = found.iter().map(|e| e.pass).collect();
    // 01 20 12 | 01 20 12: what crosses a pass belongs to the one it began in.
    assert_eq!(passes, [0, 0, 1, 2, 2, 3]);
}

#[test]
fn a_shuffle_is_another_permutation_in_every_epoch() {
    let stages = "shuffle (buffer: 100, seed: 5); epochs 3;";
    let found = through(50, stages, 999);
    assert_eq!(found, through(50, stages, 999), "it is decided by the seed");
    let passes: Vec<&[i64]> = found.chunks(50).collect();
    for pass in &passes {
        let mut sorted = pass.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<i64>>());
    }
    assert!(passes[0] != passes[1] && passes[1] != passes[2]);
    assert_ne!(
        found,
        through(50, "shuffle (buffer: 100, seed: 6); epochs 3;", 999)
    );
}

#[test]
fn a_small_buffer_mixes_nearby_records_only() {
    let found = through(100, "shuffle (buffer: 10, seed: 1);", 999);
    let distinct: BTreeSet<i64> = found.iter().copied().collect();
    assert_eq!((found.len(), distinct.len()), (100, 100));
    for (position, x) in found.iter().enumerate() {
        assert!(*x < position as i64 + 10, "{x} came out at {position}");
    }
    assert_ne!(found, (0..100).collect::<Vec<i64>>());
    assert_eq!(
        through(5, "shuffle (buffer: 1, seed: 1);", 9),
        [0, 1, 2, 3, 4]
    );
}

#[test]
fn every_order_of_a_shuffle_is_equally_likely() {
    // Each of the 24 orders of 4 records is expected 100 times in 2400; by far not 50 or 160 times.
    let found = through(4, "shuffle (buffer: 4, seed: 3); epochs 2400;", 99_999);
    let mut counts = std::collections::BTreeMap::new();
    for order in found.chunks(4) {
        *counts.entry(order).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 24);
    assert!(counts.values().all(|n| (50..160).contains(n)), "{counts:?}");
}

#[test]
fn a_shuffle_without_a_seed_follows_the_training() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20))]);
    let settings = "source csv(\"n.csv\"); feature x: i64; shuffle 20;";
    let order = |seed| ints(&read_seeded(&env, settings, 99, seed).unwrap(), "x");
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn the_sides_of_a_split_are_disjoint_and_complete() {
    for n in [1, 2, 10, 97] {
        for holdout in ["1", "0.3"] {
            let part = |part: &str, more: &str| {
                let stages = format!("split (part: {part}, holdout: {holdout}, seed: 7); {more}");
                through(n, &stages, 9999)
            };
            let (train, held) = (part("train", ""), part("holdout", ""));
            let expected = if holdout == "1" {
                1
            } else {
                (n as f64 * 0.3).round() as usize
            };
            assert_eq!(held.len(), expected);
            let mut all = [&train[..], &held].concat();
            assert!(
                train.is_sorted() && held.is_sorted(),
                "records stay in order"
            );
            all.sort_unstable();
            assert_eq!(all, (0..n as i64).collect::<Vec<i64>>());
            assert_eq!(part("holdout", "epochs 2;"), [&held[..], &held].concat());
        }
    }
    let held = |seed: u32| {
        through(
            100,
            &format!("split (part: holdout, holdout: 10, seed: {seed});"),
            99,
        )
    };
    assert_ne!(held(1), held(2));
    assert_ne!(held(1), (0..10).collect::<Vec<i64>>());
}

#[test]
fn a_split_after_a_shuffle_is_stable_in_every_epoch() {
    let part = |part: &str| {
        let stages = format!(
            "filter x < 40; shuffle (buffer: 50, seed: 1); split (part: {part}, holdout: 0.25, seed: 2); epochs 3;"
        );
        through(50, &stages, 9999)
    };
    let (train, held) = (part("train"), part("holdout"));
    assert_eq!((train.len(), held.len()), (90, 30));
    let train: BTreeSet<i64> = train.into_iter().collect();
    let held: BTreeSet<i64> = held.into_iter().collect();
    assert_eq!((train.len(), held.len()), (30, 10));
    assert!(train.is_disjoint(&held));
}

#[test]
fn splits_nest() {
    let stages = |a: &str, b: &str| {
        format!("split (part: {a}, holdout: 10, seed: 1); split (part: {b}, holdout: 5, seed: 1);")
    };
    let mut all = Vec::new();
    for (a, b) in [
        ("train", "train"),
        ("train", "holdout"),
        ("holdout", "train"),
        ("holdout", "holdout"),
    ] {
        all.extend(through(30, &stages(a, b), 99));
    }
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<i64>>());
}

#[test]
fn stages_that_need_an_end_are_refused_after_repeat() {
    for (stages, message) in [
        (
            "repeat; cache;",
            "`cache` keeps all records, and after `repeat` they are endless",
        ),
        (
            "epochs 2; split (part: train, holdout: 2);",
            "`split` needs each record once, and after `epochs` or `repeat` they come again",
        ),
        (
            "repeat; take 5; split (part: train, holdout: 2);",
            "`split` needs each record once, and after `epochs` or `repeat` they come again",
        ),
    ] {
        let source = "source csv(\"n.csv\"); feature x: i64;";
        let text = format!("spec test; data d {{ {source} {stages} }}");
        assert_eq!(check_errors(&text), [message]);
    }
    assert_eq!(through(2, "repeat; take 3; cache;", 9), [0, 1, 0]);
    assert_eq!(
        failure(9, "split (part: train, holdout: 10);"),
        "`holdout` is 10, but there are 9 records"
    );
}

#[test]
fn a_cache_gives_the_same_again() {
    let stages = "shuffle (buffer: 9, seed: 1); cache; epochs 3;";
    let found = through(9, stages, 99);
    assert_eq!(found[..9], found[9..18]);
    // A pass that ends early leaves the rest to be read later.
    assert_eq!(
        through(4, "cache; take 2; epochs 2; skip 1;", 99),
        [1, 0, 1]
    );
}

#[test]
fn random_maps_are_decided_by_the_seed_and_the_record() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(6))]);
    let draws = |stages: &str, seed| {
        let settings =
            format!("source csv(\"n.csv\"); feature x: i64; map r = random_uniform([]); {stages}");
        let elements = read_seeded(&env, &settings, 99, seed).unwrap();
        elements
            .iter()
            .map(|e| e.values["r"].to_f64s()[0].to_bits())
            .collect::<Vec<u64>>()
    };
    let all = draws("", 1);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 6);
    assert_eq!(draws("", 1), all);
    assert_ne!(draws("", 2), all);
    assert_eq!(
        draws("skip 2;", 1),
        all[2..],
        "skipped elements change nothing after them"
    );
    assert_eq!(draws("cache; epochs 2;", 1), [&all[..], &all].concat());
    let twice = draws("epochs 2;", 1);
    assert_ne!(twice[..6], twice[6..], "another pass draws other numbers");
}

#[test]
fn features_of_varying_length_are_padded_or_must_agree() {
    let env = MemoryEnv::new(&[("n.csv", b"1,1,2\n3,3,3\n")]);
    let settings = |batch: &str| {
        format!("source csv(\"n.csv\"); feature x: i64[3]; map u = unique(x)[0]; drop x; {batch}")
    };
    let padded = read(&env, &settings("batch (size: 2, pad: true);"), 9).unwrap();
    assert_eq!(ints(&padded, "u"), [1, 2, 0, 3, 0, 0]);
    assert_eq!(padded[0].values.len(), 1, "the counts are gone");
    let error = read(&env, &settings("batch 2;"), 9).unwrap_err();
    assert_eq!(
        error.to_string(),
        "records of one batch have `u` of different lengths: 2 and 1"
    );
    let alone = read(&env, &settings("batch 1;"), 9).unwrap();
    assert_eq!(ints(&alone, "u#count"), [2, 1]);
}

#[test]
fn a_map_that_fails_names_the_record() {
    let env = MemoryEnv::new(&[("n.csv", b"0\n\n1\n5\n")]);
    let settings = "source csv(\"n.csv\"); feature x: i64; map y = gather([1.0, 2.0], x);";
    let error = read(&env, settings, 9).unwrap_err();
    assert!(!error.is_bad_input());
    let notes: Vec<String> = error
        .diagnostic()
        .notes
        .into_iter()
        .map(|n| n.message)
        .collect();
    assert_eq!(notes, ["in the record at n.csv:4"]);
}

#[test]
fn windows_overlap_or_have_gaps() {
    assert_eq!(through(7, "window 3;", 99), [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        through(6, "window (size: 3, shift: 1);", 99),
        [0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5]
    );
    assert_eq!(through(9, "window (size: 2, shift: 4);", 99), [0, 1, 4, 5]);
    assert_eq!(through(2, "window 3;", 99), [0_i64; 0]);
    // An epoch begins a new window; before `window` it does not.
    assert_eq!(through(3, "window 2; epochs 2;", 99), [0, 1, 0, 1]);
    assert_eq!(through(3, "epochs 2; window 2;", 99), [0, 1, 2, 0, 1, 2]);
    let env = MemoryEnv::new(&[("n.csv", &numbers(40))]);
    let settings = "source csv(\"n.csv\"); feature x: i64; window (size: 4, shift: 2); batch 5;";
    let found = read(&env, settings, 99).unwrap();
    assert_eq!(found[0].values["x"].shape(), [5, 4]);
    assert_eq!(ints(&found, "x")[..6], [0, 1, 2, 3, 2, 3]);
}

#[test]
fn an_exact_shuffle_is_a_permutation_of_the_whole_epoch() {
    let stages = "cache; shuffle (seed: 5); epochs 3;";
    let found = through(3000, stages, 9999);
    assert_eq!(found, through(3000, stages, 9999));
    let mut firsts = BTreeSet::new();
    for pass in found.chunks(3000) {
        let mut sorted = pass.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..3000).collect::<Vec<i64>>());
        firsts.insert(pass[..5].to_vec());
        // A buffer would keep early records near the start.
        assert!(pass[..300].iter().any(|x| *x > 2000));
    }
    assert_eq!(firsts.len(), 3, "every epoch has an order of its own");
    let before = "cache; map x = x + 1; skip 1; take 7; shard (index: 1, count: 2); shuffle;";
    let mut found = through(20, before, 99);
    found.sort_unstable();
    assert_eq!(found, [3, 5, 7]);
}

#[test]
fn an_exact_shuffle_needs_records_with_indices() {
    let errors = |stages: &str| {
        check_errors(&format!(
            "spec test; data d {{ source csv(\"n.csv\"); feature x: i64; {stages} }}"
        ))
    };
    let message =
        "without a buffer `shuffle` reads records by their indices, which these do not have";
    for stages in [
        "shuffle;",
        "cache; filter x > 1; shuffle;",
        "cache; epochs 2; shuffle;",
    ] {
        assert_eq!(errors(stages), [message], "{stages}");
    }
    assert!(errors("cache; shuffle;").is_empty());
    assert!(errors("filter x > 1; cache; shuffle;").is_empty());
}

#[test]
fn a_split_by_a_feature_moves_no_record_when_the_file_grows() {
    let side = |n: usize, part: &str| {
        through(
            n,
            &format!("split (part: {part}, holdout: 0.25, by: x, seed: 3);"),
            9999,
        )
    };
    let (train, holdout) = (side(4000, "train"), side(4000, "holdout"));
    let mut all = [train.clone(), holdout.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..4000).collect::<Vec<i64>>());
    // Four standard deviations of a binomial distribution: sqrt(4000 * 0.25 * 0.75) = 27.4.
    assert!((890..=1110).contains(&holdout.len()), "{}", holdout.len());
    let fewer: Vec<i64> = holdout.iter().copied().filter(|x| *x < 1000).collect();
    assert_eq!(side(1000, "holdout"), fewer);
    // Records with one value are on one side.
    let groups = through(
        500,
        "map g = floordiv(x, 10); split (part: holdout, holdout: 0.5, by: g);",
        999,
    );
    for x in &groups {
        let first = x / 10 * 10;
        assert!(
            (first..first + 10).all(|other| groups.contains(&other)),
            "{x}"
        );
    }
}

#[test]
fn a_filter_that_keeps_nothing_ends() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(4))]);
    let settings = "source csv(\"n.csv\"); feature x: i64; repeat; filter x > 9; batch 2;";
    let error = read(&env, settings, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the filter kept no record of 100 epochs in a row"
    );
}

#[test]
fn random_maps_draw_again_in_every_epoch_wherever_it_begins() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(8))]);
    let distinct = |stages: &str| {
        let settings = format!("source csv(\"n.csv\"); feature x: i64; {stages}");
        let found = read(&env, &settings, 99).unwrap();
        let bits = found.iter().map(|e| e.values["r"].to_f64s()[0].to_bits());
        (bits.collect::<BTreeSet<u64>>().len(), found.len())
    };
    for stages in [
        "map r = random_uniform([]); epochs 2;",
        "epochs 2; map r = random_uniform([]);",
        "cache; map r = random_uniform([]); epochs 2;",
        "epochs 2; map r = random_uniform([]); epochs 2;",
        "split (part: train, holdout: 2); map r = random_uniform([]); epochs 3;",
    ] {
        let (distinct, all) = distinct(stages);
        assert_eq!(distinct, all, "{stages}");
    }
}

/// Each element of a window is copied once for it, and once as it is kept: twice as many records take twice as long.
#[test]
fn large_windows_that_overlap_take_linear_time() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(20_000))]);
    let settings = "source csv(\"n.csv\"); feature x: i64; window (size: 8192, shift: 1); map x = x[8191] - x[0];";
    let start = std::time::Instant::now();
    let found = read(&env, settings, usize::MAX).unwrap();
    assert_eq!(found.len(), 20_000 - 8191);
    assert!(ints(&found, "x").iter().all(|x| *x == 8191));
    // 800 MB are copied, which takes a second at most; copying all that is held for each window took minutes.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn positions_of_windows_are_exact_whatever_the_overlap() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(900))]);
    for (size, shift) in [
        (300, 1),
        (300, 7),
        (300, 299),
        (300, 300),
        (5, 9),
        (2, 1),
        (600, 257),
    ] {
        let settings = format!(
            "source csv(\"n.csv\"); feature x: i64; shuffle (buffer: 10, seed: 1); window (size: {size}, shift: {shift}); epochs 2; batch (size: 3, remainder: keep);"
        );
        let mut whole = open(&env, &settings, 0).unwrap();
        let mut positions = Vec::new();
        let mut elements = Vec::new();
        while let Some(element) = whole.next().unwrap() {
            elements.push(element);
            positions.push(whole.position());
        }
        for at in (0..positions.len()).step_by(1 + positions.len() / 7) {
            let mut resumed = open(&env, &settings, 0).unwrap();
            resumed.seek(&positions[at]).unwrap();
            for next in at + 1..elements.len().min(at + 200) {
                assert_eq!(
                    resumed.next().unwrap().as_ref(),
                    Some(&elements[next]),
                    "{settings}"
                );
                assert_eq!(resumed.position(), positions[next], "{settings}");
            }
        }
    }
}
