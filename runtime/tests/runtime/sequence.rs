//! SequenceExamples, and the cases of the oracle's `tfrecord/parse.json` read by data sets: what TensorFlow parses, they give.

use serde_json::Value as Json;
use trainspec::Tensor;
use trainspec_compiler::ir::CountName;
use trainspec_formats::examples::{encode_sequence, sequence_example};
use trainspec_formats::records::{RecordWriter, WriterOptions};
use trainspec_testing::folders::oracle;

use crate::positions::check;
use crate::support::{MemoryEnv, check_errors, ints, read};

/// A file of messages.
fn file(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), &WriterOptions::default());
    for message in messages {
        writer.write(message).unwrap();
    }
    writer.finish().unwrap()
}

/// A record with an id, words of a number each, and tags, any number for each step.
fn record(id: i64, words: &[i64], tags: &[&[i64]]) -> Vec<u8> {
    let words = words.iter().map(|n| (*n).into()).collect::<Vec<_>>();
    let tags = tags.iter().map(|n| n.to_vec().into()).collect::<Vec<_>>();
    let lists = [("words", words), ("tags", tags)];
    encode_sequence(&sequence_example([("id", id.into())], lists))
}

fn env() -> MemoryEnv {
    let records = [
        record(7, &[1, 2, 3], &[&[1, 2], &[], &[5]]),
        record(8, &[4], &[&[9]]),
        record(9, &[], &[]),
    ];
    MemoryEnv::new(&[("s", &file(&records))])
}

const SETTINGS: &str = "source tfrecord(\"s\"); feature id: i64; sequence words: i64[<=4]; sequence tags: i64[<=4, <=3];";

#[test]
fn context_and_lists_of_a_sequence_example_are_features() {
    let all = read(&env(), SETTINGS, 9).unwrap();
    assert_eq!(ints(&all, "id"), [7, 8, 9]);
    assert_eq!(ints(&all, "words"), [1, 2, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(ints(&all, "words#count"), [3, 1, 0]);
    assert_eq!(
        ints(&all[..1], "tags"),
        [1, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0]
    );
    let counts: Vec<String> = CountName::all("tags", 2).map(|n| n.to_string()).collect();
    assert_eq!(ints(&all, &counts[0]), [3, 1, 0]);
    assert_eq!(ints(&all, &counts[1]), [2, 1, 0]);
    // In a batch they are padded.
    let batch = read(
        &env(),
        &format!("{SETTINGS} batch (size: 3, pad: true);"),
        9,
    )
    .unwrap();
    assert_eq!(batch[0].values["tags"].shape(), [3, 4, 3]);
    let stages = "bucket_by_length (words, boundaries: [2], size: 2, remainder: keep); epochs 2;";
    let buckets = read(&env(), &format!("{SETTINGS} {stages}"), 9).unwrap();
    let found: Vec<Vec<i64>> = buckets
        .iter()
        .map(|batch| ints(std::slice::from_ref(batch), "id"))
        .collect();
    assert_eq!(found, [[8, 9].as_slice(), &[7], &[8, 9], &[7]]);
    assert_eq!(ints(&buckets[..2], &counts[0]), [1, 3]);
    assert_eq!(ints(&buckets[..2], &counts[1]), [1, 2]);
    check(&env(), &format!("{SETTINGS} {stages}"), 30);
}

#[test]
fn lists_that_do_not_fit_are_errors() {
    let error = |features: &str| {
        let settings = format!("source tfrecord(\"s\"); {features}");
        read(&env(), &settings, 9).unwrap_err().to_string()
    };
    for (features, message) in [
        (
            "sequence words: i64[<=2];",
            "s, record 1: `words` has 3 steps, and `i64[<=2]` takes up to 2",
        ),
        (
            "sequence words: i64[<=4, 2];",
            "s, record 1: step 1 of `words` has 1 values, and one of `i64[<=4, 2]` takes 2",
        ),
        (
            "sequence tags: i64[<=4, <=1];",
            "s, record 1: step 1 of `tags` has 2 values, and one of `i64[<=4, <=1]` takes up to 1",
        ),
        (
            "sequence words: f32[<=4];",
            "s, record 1: `words` has integers, and is read as `f32[<=4]`",
        ),
        (
            "sequence words: i64[<=4] in 0..3;",
            "s, record 1: `words` is 3, which is not in 0..3",
        ),
        (
            "feature x: i64; sequence words: i64[<=4];",
            "s, record 1: there is no feature `x`",
        ),
        (
            "sequence word: i64[<=4];",
            "no record has a sequence `word`",
        ),
    ] {
        assert_eq!(error(features), message);
    }
    for (settings, message) in [
        (
            "source tfrecord(\"s\"); sequence words: i64[4];",
            "a sequence has a varying number of steps, its first dimension (`[<=50]`), and `words` is `i64[4]`",
        ),
        (
            "source csv(\"s\"); sequence words: i64[<=4];",
            "`csv` has no sequences: only the SequenceExamples of TFRecord files have",
        ),
    ] {
        let errors = check_errors(&format!("spec test; data d {{ {settings} batch 2; }}"));
        assert_eq!(errors, [message]);
    }
}

#[test]
fn a_record_with_a_wrong_list_is_left_out() {
    let records = [
        record(1, &[1], &[]),
        record(2, &[1, 2, 3], &[]),
        b"no record".to_vec(),
        record(4, &[5, 6], &[]),
    ];
    let env = MemoryEnv::new(&[("s", &file(&records))]);
    let settings = "source tfrecord(\"s\", on_error: skip(max: 2)); feature id: i64; sequence words: i64[<=2];";
    assert_eq!(ints(&read(&env, settings, 9).unwrap(), "id"), [1, 4]);
    check(&env, &format!("{settings} epochs 3;"), 30);
}

/// The longest list that the cases have.
const CAPACITY: usize = 8;

/// The declaration of a feature of a case; `None` for what the language has no features of.
fn declared(name: &str, spec: &Json, is_sequence: bool) -> Option<String> {
    let dtype = match spec["dtype"].as_str().unwrap() {
        "float32" => "f32",
        "int64" => "i64",
        "string" => "string",
        other => panic!("{other}"),
    };
    let mut dims: Vec<String> = spec["shape"]
        .as_array()
        .map_or_else(Vec::new, |dims| dims.iter().map(Json::to_string).collect());
    let varying = || format!("<={CAPACITY}");
    match (spec["class"].as_str().unwrap(), is_sequence) {
        ("FixedLenFeature", _) => {}
        ("FixedLenSequenceFeature", _) | ("VarLenFeature", false) => dims.insert(0, varying()),
        ("VarLenFeature", true) => dims = vec![varying(), varying()],
        _ => return None,
    }
    let shape = match dims.as_slice() {
        [] => String::new(),
        dims => format!("[{}]", dims.join(", ")),
    };
    let default = match &spec["default_value"] {
        Json::Null => String::new(),
        // What TensorFlow fills up a list with, and no default of it.
        _ if spec["class"] == "FixedLenSequenceFeature" => String::new(),
        Json::Object(bytes) => {
            let text = unhex(bytes["hex"].as_str().unwrap());
            format!(" = {:?}", String::from_utf8(text).unwrap())
        }
        value => format!(" = {value}"),
    };
    let word = if is_sequence { "sequence" } else { "feature" };
    Some(format!("{word} {name}: {dtype}{shape}{default};"))
}

fn unhex(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// The elements of a tensor of a case, as ours are shown.
fn elements(tensor: &Json) -> Vec<String> {
    if let Some(strings) = tensor["data_hex"].as_array() {
        let strings = strings.iter().map(|s| unhex(s.as_str().unwrap()));
        return strings.map(|bytes| format!("{bytes:?}")).collect();
    }
    let numbers = tensor["data"].as_array().unwrap().iter();
    match tensor["dtype"].as_str().unwrap() {
        "float32" => numbers
            .map(|x| format!("{:?}", x.as_f64().unwrap() as f32))
            .collect(),
        _ => numbers.map(Json::to_string).collect(),
    }
}

fn shown(tensor: &Tensor) -> Vec<String> {
    use trainspec_compiler::ir::tensor::Data;
    match tensor.data() {
        Data::F32(values) => values.iter().map(|x| format!("{x:?}")).collect(),
        Data::I64(values) => values.iter().map(|n| n.to_string()).collect(),
        Data::String(values) => values.iter().map(|bytes| format!("{bytes:?}")).collect(),
        other => panic!("{}", other.dtype()),
    }
}

fn numbers(json: &Json) -> Vec<usize> {
    let all = json.as_array().unwrap().iter();
    all.map(|n| n.as_u64().unwrap() as usize).collect()
}

/// What stands for nothing.
fn is_padding(element: &str) -> bool {
    matches!(element, "0" | "0.0" | "[]" | "-1")
}

/// Compares a feature of all rows with what TensorFlow gives.
fn compare(
    what: &str,
    spec: &Json,
    expected: &Json,
    is_single: bool,
    rows: &[(Vec<String>, Vec<usize>)],
) {
    let Some(indices) = expected.get("indices") else {
        let all = elements(expected);
        let each = all.len() / rows.len();
        for (row, (found, counts)) in rows.iter().enumerate() {
            let expected = &all[row * each..][..each];
            let is_list = spec["class"] == "FixedLenSequenceFeature";
            let inner: usize = spec["shape"].as_array().map_or(1, |dims| {
                dims.iter().map(|n| n.as_u64().unwrap() as usize).product()
            });
            let used = if is_list { counts[0] * inner } else { each };
            assert_eq!(found[..used], expected[..used], "{what}, row {row}");
            let rest = expected[used..].iter().chain(&found[used..]);
            assert!(rest.clone().all(|x| is_padding(x)), "{what}, row {row}");
        }
        return;
    };
    // Sparse: what is not listed is nothing.
    let rank = numbers(&indices["shape"])[1] + usize::from(is_single);
    let mut flat = numbers(&indices["data"]).into_iter();
    for value in elements(&expected["values"]) {
        let mut index: Vec<usize> = flat.by_ref().take(rank - usize::from(is_single)).collect();
        if is_single {
            index.insert(0, 0);
        }
        let (found, counts) = &rows[index[0]];
        let at = index[1..].iter().fold(0, |at, i| at * CAPACITY + i);
        assert_eq!(found[at], value, "{what} at {index:?}");
        assert!(index[1..].iter().zip(counts).all(|(i, n)| i < n), "{what}");
    }
    let mut longest = numbers(&expected["dense_shape"]["data"]);
    if !is_single {
        longest.remove(0);
    }
    for (axis, n) in longest.into_iter().enumerate() {
        let own = rows.iter().map(|(_, counts)| counts[axis]).max();
        assert_eq!(own, Some(n), "{what}, axis {axis}");
    }
    let listed = elements(&expected["values"])
        .iter()
        .filter(|x| !is_padding(x))
        .count();
    let held = rows
        .iter()
        .flat_map(|(found, _)| found)
        .filter(|x| !is_padding(x))
        .count();
    assert_eq!(held, listed, "{what}");
}

/// The cases that read otherwise here, and why.
const OTHERWISE: [(&str, &str); 2] = [
    (
        "fixed_default_broadcast",
        "one default stands for all elements",
    ),
    (
        "single_sequence_missing_list",
        "a sequence that a record lacks is empty",
    ),
];

#[test]
fn oracle_cases_read_as_tensorflow_parses_them() {
    let path = oracle().join("tfrecord/parse.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let json: Json = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for case in json["cases"].as_array().unwrap() {
        let (name, kind) = (
            case["name"].as_str().unwrap(),
            case["kind"].as_str().unwrap(),
        );
        let groups: &[(&str, &str, bool)] = match kind {
            "parse_example" | "parse_single_example" => &[("features", "", false)],
            "parse_sequence_example" | "parse_single_sequence_example" => &[
                ("context_features", "context", false),
                ("sequence_features", "sequence", true),
            ],
            _ => continue,
        };
        let mut features = Vec::new();
        for (group, place, is_sequence) in groups {
            for (feature, spec) in case[*group].as_object().unwrap() {
                features.push((feature, spec, *place, *is_sequence));
            }
        }
        let declared: Option<Vec<String>> = (features.iter())
            .map(|(name, spec, _, is_sequence)| declared(name, spec, *is_sequence))
            .collect();
        // Ragged and sparse features are none of the language.
        let Some(declared) = declared else {
            continue;
        };
        let messages = case["serialized_hex"].as_array().unwrap().iter();
        let messages: Vec<Vec<u8>> = messages.map(|hex| unhex(hex.as_str().unwrap())).collect();
        // A feature that no record has is misspelt here, and empty for TensorFlow: another record has all of them.
        let all = (features.iter()).map(|(name, _, _, is_sequence)| (name.as_str(), *is_sequence));
        let names_all = without_values(all.collect());
        let records: Vec<Vec<u8>> = messages.iter().cloned().chain([names_all]).collect();
        let env = MemoryEnv::new(&[("r", &file(&records))]);
        let settings = format!("source tfrecord(\"r\"); {}", declared.join(" "));
        let found = read(&env, &settings, messages.len());
        compared += 1;
        let Some(expected) = case.get("expected") else {
            let otherwise = OTHERWISE.iter().any(|(known, _)| *known == name);
            assert_eq!(found.is_ok(), otherwise, "{name}: {settings}");
            continue;
        };
        let found = found.unwrap_or_else(|e| panic!("{name}: {settings}: {e}"));
        let is_single = kind.starts_with("parse_single");
        for (feature, spec, place, is_sequence) in features {
            let counted = match (spec["class"].as_str().unwrap(), is_sequence) {
                ("FixedLenFeature", _) => 0,
                ("VarLenFeature", true) => 2,
                _ => 1,
            };
            let rows = found.iter().map(|element| {
                let counts = CountName::all(feature, counted);
                let counts = counts.map(|n| element.values[&n.to_string()].to_i64s()[0] as usize);
                (shown(&element.values[feature.as_str()]), counts.collect())
            });
            let rows: Vec<(Vec<String>, Vec<usize>)> = rows.collect();
            let expected = match place {
                "" => &expected[feature],
                place => &expected[place][feature],
            };
            compare(
                &format!("{name}, {feature}"),
                spec,
                expected,
                is_single,
                &rows,
            );
        }
    }
    assert!(compared >= 20, "{compared} cases");
}

/// A SequenceExample, or an Example where none is a sequence, that has each of these features without values.
fn without_values(features: Vec<(&str, bool)>) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let group = |sequences: bool| {
        let own = features
            .iter()
            .filter(|(_, is_sequence)| *is_sequence == sequences);
        // An empty list of integers, or an empty list of features.
        let value: &[u8] = if sequences { &[] } else { &[3 << 3 | 2, 0] };
        let entry = |(name, _): &(&str, bool)| {
            field(1, &[field(1, name.as_bytes()), field(2, value)].concat())
        };
        own.map(entry).collect::<Vec<_>>().concat()
    };
    [field(1, &group(false)), field(2, &group(true))].concat()
}
