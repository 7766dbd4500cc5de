//! Warm starts: names, scopes and vocabularies as TensorFlow reads them.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trainspec::saver::{
    Backup, Records, RestorePlan, Saver, SaverOptions, VocabInfo, Vocabulary, WarmStart,
    WarmStartNames, init_from_checkpoint, warm_start,
};
use trainspec::{Code, State};
use trainspec_compiler::ir::Tensor;
use trainspec_testing::folders::Folder;

use crate::saver::{cases, state, vector};

/// A float32 tensor of a case.
pub(crate) fn tensor(json: &Json) -> Tensor {
    assert_eq!(json["dtype"], "float32");
    let shape = json["shape"].as_array().unwrap().iter();
    let shape: Vec<usize> = shape.map(|d| d.as_u64().unwrap() as usize).collect();
    let data = json["data"].as_array().unwrap().iter();
    Tensor::new(&shape, data.map(|x| x.as_f64().unwrap() as f32).collect())
}

pub(crate) fn texts(json: &Json) -> Vec<String> {
    let list = json.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn map(json: &Json) -> BTreeMap<String, String> {
    let map = json.as_object().unwrap().iter();
    map.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()))
        .collect()
}

pub(crate) fn tensors(json: &Json) -> State {
    let map = json.as_object().unwrap().iter();
    map.map(|(name, value)| (name.clone(), tensor(value)))
        .collect()
}

/// Saves a state as `ck` in a folder.
pub(crate) fn save(folder: &Folder, own: &State) -> std::path::PathBuf {
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    saver
        .save(own, &Records::default(), &folder.file("ck"), None)
        .unwrap()
}

/// Compares with a tolerance that a case states, or exactly.
pub(crate) fn assert_near(name: &str, found: &Tensor, expected: &Tensor, case: &Json) {
    assert_eq!(found.shape(), expected.shape(), "{name}");
    let rtol = case["rtol"].as_f64().unwrap_or(0.0);
    let atol = case["atol"].as_f64().unwrap_or(0.0);
    for (a, b) in found.to_f64s().iter().zip(expected.to_f64s()) {
        assert!((a - b).abs() <= atol + rtol * b.abs(), "{name}: {a}, {b}");
    }
}

#[test]
fn oracle_warm_start_remaps_vocabularies_as_tensorflow_does() {
    let cases = cases("warm_start");
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let args = &case["args"];
        let number = |key: &str| args[key].as_i64().unwrap();
        let folder = Folder::new();
        let path = save(&folder, &state([("w", tensor(&case["previous"]))]));
        let lines = |key: &str| texts(&case[key]).join("\n") + "\n";
        let files = [
            Vocabulary::File(folder.write("new.txt", lines("new_vocab"))),
            Vocabulary::File(folder.write("old.txt", lines("old_vocab"))),
        ];
        let words = ["new_vocab", "old_vocab"].map(|key| Vocabulary::Words(texts(&case[key])));
        for [new_vocab, old_vocab] in [files, words] {
            let info = VocabInfo {
                num_oov_buckets: number("num_oov_buckets") as usize,
                old_vocab_size: usize::try_from(number("old_vocab_size")).ok(),
                backup_initializer: Backup::Constant(args["backup_constant"].as_f64().unwrap()),
                axis: number("axis") as usize,
                ..VocabInfo::new(new_vocab, number("new_vocab_size") as usize, old_vocab)
            };
            let settings = WarmStart {
                var_name_to_vocab_info: [("w".to_owned(), info)].into(),
                ..WarmStart::default()
            };
            let expected = tensor(&case["expected"]);
            let mut own = state([("w", Tensor::zeros(&expected.ty()))]);
            warm_start(&mut own, &["w".to_owned()], &path, &settings).unwrap();
            assert_near(name, own.get("w").unwrap(), &expected, case);
        }
    }
    println!("{} cases", cases.len());
}

#[test]
fn oracle_warm_start_selects_names_as_tensorflow_does() {
    let cases = cases("warm_start_names");
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let folder = Folder::new();
        let path = save(&folder, &tensors(&case["checkpoint"]));
        let expected = tensors(&case["expected"]);
        let new = texts(&case["new_variables"]);
        let mut own: State = new
            .iter()
            .map(|n| (n.clone(), Tensor::zeros(&expected.get(n).unwrap().ty())))
            .collect();
        let settings = WarmStart {
            vars_to_warm_start: match &case["vars_to_warm_start"] {
                Json::Null => WarmStartNames::WithVocabulary,
                Json::String(pattern) => WarmStartNames::Trainable(pattern.clone()),
                list => WarmStartNames::All(texts(list)),
            },
            var_name_to_prev_var_name: map(&case["var_name_to_prev_var_name"]),
            ..WarmStart::default()
        };
        warm_start(&mut own, &new, &path, &settings).unwrap();
        for variable in expected.names() {
            let expected = expected.get(variable).unwrap();
            assert_near(name, own.get(variable).unwrap(), expected, case);
        }
    }
    println!("{} cases", cases.len());
}

/// The variables that took a value, and its keys.
fn pairs(plan: &RestorePlan) -> Vec<(&str, &str)> {
    let pairs = plan.restored.iter();
    pairs
        .map(|one| (one.variable.as_str(), one.key.as_str()))
        .collect()
}

/// `all 9.0, shape [2, 2]`
pub(crate) fn filled(text: &str) -> Tensor {
    let (value, shape) = text
        .strip_prefix("all ")
        .unwrap()
        .split_once(", shape ")
        .unwrap();
    let shape: Vec<usize> = serde_json::from_str(shape).unwrap();
    let value: f32 = value.parse().unwrap();
    Tensor::new(&shape, vec![value; shape.iter().product()])
}

#[test]
fn oracle_init_from_checkpoint_assigns_as_tensorflow_does() {
    let cases = cases("init_from_checkpoint");
    let mut errors = 0;
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let folder = Folder::new();
        let path = save(&folder, &tensors(&case["checkpoint"]));
        let new = case["new_variables"].as_object().unwrap().iter();
        let mut own: State = new
            .map(|(name, text)| (name.clone(), filled(text.as_str().unwrap())))
            .collect();
        let before = own.clone();
        let variables = own.names().to_vec();
        let assigned =
            init_from_checkpoint(&mut own, &variables, &path, &map(&case["assignment_map"]));
        if let Some(error) = case.get("expected_error") {
            assert_eq!(error["type"], "ValueError", "{name}");
            let code = assigned.unwrap_err().code();
            // A name that is not there has a class of its own.
            let missing = error["message"].as_str().unwrap().contains("is not found");
            let expected = match missing {
                true => Code::NotFound,
                false => Code::InvalidArgument,
            };
            assert_eq!(code, expected, "{name}");
            assert_eq!(own, before, "{name}");
            errors += 1;
            continue;
        }
        assigned.unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = tensors(&case["expected"]);
        assert_eq!(expected.names().len(), own.names().len(), "{name}");
        for variable in expected.names() {
            let expected = expected.get(variable).unwrap();
            assert_near(name, own.get(variable).unwrap(), expected, case);
        }
    }
    assert!(errors > 0);
    println!("{} cases", cases.len());
}

#[test]
fn a_later_restore_replaces_what_was_initialized() {
    let folder = Folder::new();
    let path = save(&folder, &state([("w", vector(&[1.0]))]));
    let mut own = state([("w", vector(&[0.0])), ("v", vector(&[0.0]))]);
    // The initial values are in the state already: they are replaced, and a checkpoint of the run replaces them again.
    let map = [("w".to_owned(), "w".to_owned())].into();
    let assigned = init_from_checkpoint(&mut own, &[], &path, &map).unwrap();
    assert_eq!(pairs(&assigned), [("w", "w")]);
    assert_eq!(own.get("w"), Some(&vector(&[1.0])));
    assert_eq!(own.get("v"), Some(&vector(&[0.0])));
    let run = state([("w", vector(&[2.0])), ("v", vector(&[3.0]))]);
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    let path = saver
        .save(&run, &Records::default(), &folder.file("run"), Some(1))
        .unwrap();
    saver.restore(&mut own, &path).unwrap();
    assert_eq!(own, run);
}

#[test]
fn the_values_of_new_words_are_their_own_initial_ones() {
    let folder = Folder::new();
    let path = save(
        &folder,
        &state([("w", Tensor::new(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]))]),
    );
    let words = |words: &[&str]| Vocabulary::Words(words.iter().map(|w| (*w).to_owned()).collect());
    let info = VocabInfo {
        backup_initializer: Backup::Initial,
        num_oov_buckets: 1,
        ..VocabInfo::new(words(&["x", "b"]), 2, words(&["a", "b"]))
    };
    let settings = WarmStart {
        vars_to_warm_start: WarmStartNames::WithVocabulary,
        var_name_to_vocab_info: [("w".to_owned(), info)].into(),
        ..WarmStart::default()
    };
    let initial = vec![5.0_f32, 6.0, 7.0, 8.0, 9.0, 10.0];
    let mut own = state([("w", Tensor::new(&[3, 2], initial)), ("v", vector(&[0.0]))]);
    let trainable = ["w".to_owned(), "v".to_owned()];
    let warm = warm_start(&mut own, &trainable, &path, &settings).unwrap();
    assert_eq!(pairs(&warm), [("w", "w")]);
    let found = own.get("w").unwrap().values::<f32>().unwrap();
    assert_eq!(found, [5.0, 6.0, 3.0, 4.0, 9.0, 10.0]);
}

#[test]
fn expressions_are_anchored_at_the_start_alone() {
    let folder = Folder::new();
    let path = save(
        &folder,
        &state([
            ("ab", vector(&[1.0])),
            ("b", vector(&[1.0])),
            ("step", vector(&[1.0])),
        ]),
    );
    let selected = |names: WarmStartNames| {
        let zero = || vector(&[0.0]);
        let mut own = state([
            ("ab", zero()),
            ("b", zero()),
            ("step", zero()),
            ("#b", zero()),
        ]);
        let settings = WarmStart {
            vars_to_warm_start: names,
            ..WarmStart::default()
        };
        // `step` is not trained.
        let trainable = ["ab".to_owned(), "b".to_owned()];
        let warm = warm_start(&mut own, &trainable, &path, &settings)?;
        let names = warm.restored.into_iter().map(|one| one.variable);
        Ok::<Vec<String>, trainspec::Error>(names.collect())
    };
    let text = |pattern: &str| selected(WarmStartNames::Trainable(pattern.to_owned()));
    let list = |patterns: &[&str]| {
        let patterns = patterns.iter().map(|p| (*p).to_owned());
        selected(WarmStartNames::All(patterns.collect()))
    };
    assert_eq!(text("b").unwrap(), ["b"]);
    assert_eq!(text("a").unwrap(), ["ab"]);
    assert_eq!(text("a|b").unwrap(), ["ab", "b"]);
    assert_eq!(text(".*").unwrap(), ["ab", "b"]);
    // TensorFlow matches the name of the output.
    assert_eq!(text("b:0").unwrap(), ["b"]);
    assert!(text("").unwrap().is_empty());
    assert_eq!(list(&["s", "b"]).unwrap(), ["b", "step"]);
    assert!(list(&[]).unwrap().is_empty());
    for wrong in ["(", "a)", "[z-a]"] {
        assert_eq!(
            text(wrong).unwrap_err().code(),
            Code::InvalidArgument,
            "{wrong}"
        );
    }
}

#[test]
fn mistakes_of_a_warm_start_are_named_and_change_nothing() {
    let folder = Folder::new();
    let matrix = |rows: usize| Tensor::new(&[rows, 2], vec![1.0_f32; rows * 2]);
    let path = save(&folder, &state([("w", matrix(2)), ("v", vector(&[1.0]))]));
    let words = |words: &[&str]| Vocabulary::Words(words.iter().map(|w| (*w).to_owned()).collect());
    let info = || VocabInfo::new(words(&["b", "c", "a"]), 3, words(&["a", "b"]));
    let with = |info: VocabInfo| WarmStart {
        var_name_to_vocab_info: [("w".to_owned(), info)].into(),
        ..WarmStart::default()
    };
    let renamed = |from: &str, to: &str| WarmStart {
        var_name_to_vocab_info: [("w".to_owned(), info())].into(),
        var_name_to_prev_var_name: [(from.to_owned(), to.to_owned())].into(),
        ..WarmStart::default()
    };
    let invalid = Code::InvalidArgument;
    for (settings, code, part) in [
        (
            with(VocabInfo {
                new_vocab_size: 0,
                ..info()
            }),
            invalid,
            "`new_vocab_size` is 0",
        ),
        (
            with(VocabInfo {
                new_vocab_size: 2,
                ..info()
            }),
            invalid,
            "2 words and 0 buckets",
        ),
        (
            with(VocabInfo {
                num_oov_buckets: 1,
                ..info()
            }),
            invalid,
            "3 words and 1 buckets",
        ),
        (
            with(VocabInfo {
                new_vocab: words(&["a"]),
                ..info()
            }),
            invalid,
            "the new one has 1 words",
        ),
        (
            with(VocabInfo {
                old_vocab_size: Some(3),
                ..info()
            }),
            invalid,
            "the old one has 2 words",
        ),
        (
            with(VocabInfo {
                old_vocab: words(&["a", "a"]),
                ..info()
            }),
            invalid,
            "`a` twice",
        ),
        (
            with(VocabInfo {
                old_vocab: words(&["x", "y", "c"]),
                ..info()
            }),
            invalid,
            "`c` is word 2",
        ),
        (
            with(VocabInfo { axis: 2, ..info() }),
            invalid,
            "must be 0 or 1",
        ),
        (
            with(VocabInfo {
                axis: 1,
                old_vocab_size: Some(1),
                ..info()
            }),
            invalid,
            "for axis 1",
        ),
        (
            with(VocabInfo { axis: 1, ..info() }),
            invalid,
            "dimension 1 of f32[3, 2] is 2",
        ),
        (
            with(VocabInfo {
                old_vocab: Vocabulary::File(folder.file("no.txt")),
                ..info()
            }),
            Code::NotFound,
            "no.txt",
        ),
        (
            renamed("w", "u"),
            Code::NotFound,
            "`w` is not in the checkpoint as `u`",
        ),
        (
            renamed("u", "w"),
            invalid,
            "`var_name_to_prev_var_name` names variables that are not",
        ),
        (
            WarmStart::default(),
            invalid,
            "`w` is f32[3, 2], and in the checkpoint f32[2, 2]",
        ),
    ] {
        let mut own = state([("v", vector(&[0.0])), ("w", matrix(3))]);
        let before = own.clone();
        let trainable = ["v".to_owned(), "w".to_owned()];
        let error = warm_start(&mut own, &trainable, &path, &settings).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(own, before, "{part}");
    }
}
