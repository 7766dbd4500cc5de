//! Strings and tables against TensorFlow: `tests/oracle/tables.json`, which `tests/interop/tables.py` writes.

use serde_json::Value;
use trainspec::internals::data::tables::{
    ColumnArg, Table, Tables, concatenated, evaluate, fingerprint64, tables_of_data,
};
use trainspec::internals::data::{Element, Pipeline};
use trainspec::session::{Event, Options, Session};
use trainspec::{Error, StopToken, Tensor, Vocabulary, train};
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::typed::{self, ColumnOpKind, WordSource};
use trainspec_testing::folders::own_oracle;

use crate::support::{MemoryEnv, context, ints, read, spec};

fn cases(kind: &str) -> Vec<Value> {
    let path = own_oracle().join("tables.json");
    let text = std::fs::read_to_string(path).expect("a readable file");
    let all: Value = serde_json::from_str(&text).expect("the file is JSON");
    all[kind].as_array().expect("a list of cases").clone()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("a string");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn strings(list: &Value) -> Vec<Vec<u8>> {
    list.as_array().expect("a list").iter().map(bytes).collect()
}

fn integers(list: &Value) -> Vec<i64> {
    let list = list.as_array().expect("a list").iter();
    list.map(|n| n.as_i64().expect("an integer")).collect()
}

fn column(texts: Vec<Vec<u8>>) -> Tensor {
    Tensor::of(&[texts.len()], Data::String(texts))
}

#[test]
fn fingerprints_are_tensorflows() {
    for case in cases("hash") {
        let text = bytes(&case["text"]);
        let shown = format!("{:016x}", fingerprint64(&text));
        assert_eq!(
            Some(shown.as_str()),
            case["fingerprint"].as_str(),
            "{} bytes",
            text.len()
        );
        for (buckets, id) in case["buckets"].as_object().expect("an object") {
            let kind = ColumnOpKind::HashBucket {
                buckets: buckets.parse().unwrap(),
            };
            let column = column(vec![text.clone()]);
            let found = evaluate(&kind, &[ColumnArg::Column(&column)], None, 1, 0, None).unwrap();
            assert_eq!(found.values.to_i64s(), [id.as_i64().unwrap()]);
        }
    }
}

#[test]
fn crosses_are_those_of_crossed_column() {
    for case in cases("crossed") {
        let columns: Vec<Tensor> = (case["columns"].as_array().unwrap().iter())
            .map(|list| match list[0].is_string() {
                true => column(strings(list)),
                false => Tensor::new(&[6], integers(list)),
            })
            .collect();
        let args: Vec<ColumnArg<'_>> = columns.iter().map(ColumnArg::Column).collect();
        let kind = ColumnOpKind::Crossed {
            buckets: case["buckets"].as_u64().unwrap(),
        };
        let found = evaluate(&kind, &args, None, 6, 0, None).unwrap();
        assert_eq!(found.values.to_i64s(), integers(&case["ids"]), "{case}");
    }
    assert_ne!(concatenated(1, 2), concatenated(2, 1));
}

#[test]
fn ids_of_words_are_those_of_a_static_vocabulary_table() {
    for case in cases("vocabulary") {
        let words = strings(&case["words"]);
        let vocabulary = Vocabulary::new(&words, case["oov"].as_u64().unwrap()).unwrap();
        for (word, id) in strings(&case["asked"]).iter().zip(integers(&case["ids"])) {
            assert_eq!(vocabulary.id(word), Some(id as u64), "{word:?}");
        }
        // Integers are looked up by their decimal digits.
        let digits: Vec<i64> = (words.iter())
            .filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
            .collect();
        if digits.len() == words.len() {
            let kind = ColumnOpKind::Vocabulary(typed::Vocabulary {
                table: "n".to_owned(),
                words: WordSource::List(Vec::new()),
                size: 4,
                oov: vocabulary.oov(),
            });
            let table = Table::Vocabulary(vocabulary.into());
            let column = Tensor::new(&[digits.len()], digits.clone());
            let args = [ColumnArg::Column(&column)];
            let found = evaluate(&kind, &args, Some(&table), digits.len(), 0, None).unwrap();
            assert_eq!(found.values.to_i64s(), [0, 1, 2, 3]);
        }
    }
}

#[test]
fn parts_of_strings_are_tensorflows() {
    for case in cases("split") {
        let column = column(vec![bytes(&case["text"])]);
        let args = [ColumnArg::Column(&column)];
        for (kind, name) in [
            (ColumnOpKind::Words, "words"),
            (ColumnOpKind::Characters, "characters"),
        ] {
            let expected = strings(&case[name]);
            for capacity in [1, 3, 100] {
                let found = evaluate(&kind, &args, None, 1, capacity, None).unwrap();
                let n = expected.len().min(capacity);
                assert_eq!(found.counts.unwrap().to_i64s(), [n as i64]);
                let parts = found.values.values::<Vec<u8>>().unwrap();
                assert_eq!(parts[..n], expected[..n], "{name} of {case}");
                assert_eq!(parts.len(), capacity);
            }
        }
        let found = evaluate(&ColumnOpKind::Bytes, &args, None, 1, 200, None).unwrap();
        let expected = integers(&case["bytes"]);
        assert_eq!(found.counts.unwrap().to_i64s(), [expected.len() as i64]);
        assert_eq!(found.values.to_i64s()[..expected.len()], expected);
    }
}

// ---- Data sets ----

/// People: a country, an age and a number, some of which are missing.
const PEOPLE: &[u8] = b"country,age,tags,amount
NO,17,a b,1
SE,30,b c d,2
,41.5,,4
DK,50,a,8
SE,nan,d a,16
NO,29,c,32
SE,18,b b,64
FI,77,e,128
";

const FEATURES: &str = "
    source  csv(\"people.csv\", header: true);
    feature country: string;
    feature age: f32;
    feature tags: string;
    feature amount: f32;";

fn people() -> MemoryEnv {
    MemoryEnv::new(&[
        ("people.csv", PEOPLE),
        ("words.txt", b"SE\nNO\r\nDK\n"),
        ("twice.txt", b"SE\nNO\nSE\n"),
    ])
}

fn elements(settings: &str) -> Vec<Element> {
    read(&people(), &format!("{FEATURES} {settings}"), 100).unwrap()
}

fn failure(settings: &str) -> (String, Vec<String>) {
    let error = read(&people(), &format!("{FEATURES} {settings}"), 100).unwrap_err();
    let diagnostic = error.diagnostic();
    (diagnostic.message, diagnostic.help)
}

fn bools(elements: &[Element], name: &str) -> Vec<bool> {
    let values = elements.iter().flat_map(|e| e.values[name].to_bools());
    values.collect()
}

fn texts(elements: &[Element], name: &str) -> Vec<String> {
    let values = elements.iter().flat_map(|e| {
        let texts = e.values[name].values::<Vec<u8>>().unwrap().to_vec();
        texts
            .into_iter()
            .map(|text| String::from_utf8(text).unwrap())
    });
    values.collect()
}

#[test]
fn strings_are_compared_tested_and_chosen() {
    let all = elements(
        "map nordic = country == \"NO\" || \"SE\" == country;
         map other = country != tags;
         map missing = is_missing(country);
         map unknown_age = is_missing(age);
         map country = where(is_missing(country), \"XX\", country);
         map copied = country;
         map fixed = \"same\";",
    );
    let no = false;
    assert_eq!(
        bools(&all, "nordic"),
        [true, true, no, no, true, true, true, no]
    );
    assert_eq!(bools(&all, "missing"), [no, no, true, no, no, no, no, no]);
    assert_eq!(
        bools(&all, "unknown_age"),
        [no, no, no, no, true, no, no, no]
    );
    assert_eq!(
        bools(&all, "other"),
        [true, true, no, true, true, true, true, true]
    );
    let countries = ["NO", "SE", "XX", "DK", "SE", "NO", "SE", "FI"];
    assert_eq!(texts(&all, "country"), countries);
    assert_eq!(texts(&all, "copied"), countries);
    assert_eq!(texts(&all, "fixed"), ["same"; 8]);
    // What an expression needs for itself is no feature of the record.
    assert!(
        all[0].values.keys().all(|name| !name.contains('/')),
        "{:?}",
        all[0]
    );
    let kept = elements("filter country == \"SE\" && !is_missing(age); drop tags;");
    assert_eq!(
        kept.iter()
            .flat_map(|e| e.values["amount"].to_f64s())
            .collect::<Vec<_>>(),
        [2.0, 64.0]
    );
}

#[test]
fn words_of_lists_and_files_have_ids() {
    let all = elements(
        "map a = vocabulary(country, from: [\"DK\", \"SE\"], oov: 3);
         map b = vocabulary(country, from: \"words.txt\", size: 10);
         map c = hash_bucket(country, 10);
         map d = crossed([country, tags], 1_000);
         map e = crossed([country, vocabulary(tags, from: [\"a\"])], 1_000);",
    );
    let bucket = |text: &[u8], n: u64| (fingerprint64(text) % n) as i64;
    let other = |text: &[u8]| 2 + bucket(text, 3);
    let a = [
        other(b"NO"),
        1,
        other(b""),
        0,
        1,
        other(b"NO"),
        1,
        other(b"FI"),
    ];
    assert_eq!(ints(&all, "a"), a);
    assert_eq!(ints(&all, "b"), [1, 0, 3, 2, 0, 1, 0, 3]);
    assert_eq!(ints(&all, "c")[0], bucket(b"NO", 10));
    let parts = [fingerprint64(b"NO"), fingerprint64(b"a b")];
    let crossed = parts.into_iter().fold(0xDECAFCAFFE, concatenated) % 1000;
    assert_eq!(ints(&all, "d")[0], crossed as i64);
    let crossed = [fingerprint64(b"DK"), 0]
        .into_iter()
        .fold(0xDECAFCAFFE, concatenated)
        % 1000;
    assert_eq!(ints(&all, "e")[3], crossed as i64);
}

#[test]
fn a_word_that_a_vocabulary_without_buckets_lacks_is_an_error_with_its_record() {
    let (message, help) = failure("map id = vocabulary(country, from: [\"NO\", \"SE\"], oov: 0);");
    assert_eq!(
        message,
        "people.csv:4: the vocabulary `id` has no word \"\""
    );
    assert_eq!(help, ["`oov: 1` gives such words an id of their own"]);
}

#[test]
fn a_file_with_more_words_than_its_size_is_an_error_when_it_is_opened() {
    let (message, help) = failure("map id = vocabulary(country, from: \"words.txt\", size: 2);");
    assert_eq!(message, "words.txt: the file has 3 words, and `size` is 2");
    assert_eq!(help, ["say `size: 3`"]);
    let (message, _) = failure("map id = vocabulary(country, from: \"twice.txt\", size: 9);");
    assert_eq!(
        message,
        "twice.txt: the word \"SE\" is there twice, as number 1 and 3"
    );
    let (message, _) = failure("map id = vocabulary(country, from: \"none.txt\", size: 9);");
    assert!(
        message.starts_with("none.txt: the words cannot be read"),
        "{message}"
    );
}

#[test]
fn a_string_becomes_words_and_their_ids() {
    let all = elements(
        "map tags = words(tags, max: 2);
         map ids = vocabulary(tags, from: [\"a\", \"b\", \"c\"], oov: 1);
         map hot = multi_hot(ids, 4);
         map known = tags != \"d\";
         map bytes = bytes(country, max: 3);
         batch (size: 8, pad: true);",
    );
    assert_eq!(
        all[0].values["ids"].to_i64s(),
        [0, 1, 1, 2, 0, 0, 0, 0, 3, 0, 2, 0, 1, 1, 3, 0]
    );
    let hot = all[0].values["hot"].to_f64s();
    assert_eq!(hot[..8], [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(hot[8..12], [0.0; 4]);
    assert_eq!(bools(&all, "known")[8..10], [false, true]);
    assert_eq!(
        all[0].values["bytes"].to_i64s()[..6],
        [78, 79, 0, 83, 69, 0]
    );
    // A vocabulary without buckets does not look at padding.
    let strict = elements(
        "map tags = words(tags, max: 9);
         map ids = vocabulary(tags, from: [\"a\", \"b\", \"c\", \"d\", \"e\"], oov: 0);",
    );
    assert_eq!(strict.len(), 8);
}

#[test]
fn strings_are_looked_up_in_batches_too() {
    let all = elements(
        "map tags = words(tags, max: 2);
         batch (size: 4, pad: true);
         map ids = vocabulary(tags, from: [\"a\", \"b\"], oov: 1);
         map same = country == \"SE\";",
    );
    assert_eq!(all[0].values["ids"].shape(), [4, 2]);
    assert_eq!(
        bools(&all, "same"),
        [false, true, false, false, true, false, true, false]
    );
}

// ---- Tables of the training data ----

fn tables(settings: &str, env: &MemoryEnv) -> Result<(Tables, Vec<Element>), Error> {
    let spec = spec(&format!("spec test; data d {{ {settings} }}"));
    let cx = context(env, &spec, 0);
    let tables = tables_of_data(&cx, &spec.data[0], &StopToken::default())?;
    cx.tables.set(tables.clone());
    let mut data = Pipeline::open(&cx, &spec.data[0])?;
    let mut all = Vec::new();
    while all.len() < 100
        && let Some(element) = data.next()?
    {
        all.push(element);
    }
    Ok((tables, all))
}

fn words_in(tables: &Tables, name: &str) -> Vec<String> {
    let words = tables.vocabulary(name).unwrap();
    let words = words
        .iter()
        .map(|word| String::from_utf8(word.to_vec()).unwrap());
    words.collect()
}

#[test]
fn words_of_data_are_those_after_filters_by_falling_frequency() {
    let settings = format!(
        "{FEATURES}
         filter  amount < 100.0;
         shuffle (buffer: 100, seed: 1);
         repeat;
         map     id = vocabulary(country, from: data, size: 3);
         map     tags = words(tags, max: 3);
         map     tag = vocabulary(tags, from: data, size: 100);
         take    50;
         batch   (size: 4, pad: true);"
    );
    let (made, all) = tables(&settings, &people()).unwrap();
    // SE is there three times, NO twice, DK once; FI is filtered out.
    assert_eq!(words_in(&made, "id"), ["SE", "NO", "DK"]);
    assert_eq!(words_in(&made, "tag"), ["b", "a", "c", "d"]);
    assert_eq!(ints(&all, "id").len(), 48);
    assert_eq!(Tables::parse(&made.to_text()).unwrap(), made);
}

#[test]
fn standardized_features_are_tensorflows() {
    for case in cases("standardize") {
        let rows: Vec<Vec<f64>> = serde_json::from_value(case["x"].clone()).unwrap();
        let lines = rows
            .iter()
            .map(|row| format!("{} {} {}\n", row[0], row[1], row[2]));
        let text: String = lines.collect();
        let env = MemoryEnv::new(&[("x.csv", text.as_bytes())]);
        let settings = "source csv(\"x.csv\", delimiter: \" \");
            feature a: f32; feature b: f32; feature c: f32;
            map x = stack([a, b, c]);
            map y = standardize(x);
            map z = standardize(standardize(a) * 2.0 + 1.0);";
        let (made, all) = tables(settings, &env).unwrap();
        let Some(Table::Moments(moments)) = made.get("y") else {
            panic!("{made:?}");
        };
        let close = |a: &[f64], b: &Value, tolerance: f64| {
            let b: Vec<f64> = serde_json::from_value(b.clone()).unwrap();
            for (a, b) in a.iter().zip(b) {
                assert!(
                    (a - b).abs() <= tolerance * b.abs().max(1e-12),
                    "{a} and {b}"
                );
            }
        };
        close(&moments.mean, &case["mean"], 1e-13);
        close(&moments.variance, &case["variance"], 1e-9);
        let expected: Vec<Vec<f64>> = serde_json::from_value(case["standardized"].clone()).unwrap();
        for (element, row) in all.iter().zip(expected) {
            for (a, b) in element.values["y"].to_f64s().iter().zip(row) {
                // TensorFlow's mean and variance are f32.
                assert!((a - b).abs() < 2e-3 * b.abs().max(1.0), "{a} and {b}");
            }
        }
        // What depends on a table is made of the data after it: a second pass.
        let z: Vec<f64> = all.iter().flat_map(|e| e.values["z"].to_f64s()).collect();
        let mean = z.iter().sum::<f64>() / z.len() as f64;
        let variance = z.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / z.len() as f64;
        assert!(
            mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-5,
            "{mean} {variance}"
        );
    }
}

#[test]
fn moments_leave_out_what_is_missing() {
    let settings = format!(
        "{FEATURES} map x = standardize(age); filter x > 0.0; map y = standardize(amount);"
    );
    let (made, all) = tables(&settings, &people()).unwrap();
    let Some(Table::Moments(age)) = made.get("x") else {
        panic!("{made:?}");
    };
    let ages = [17.0, 30.0, 41.5, 50.0, 29.0, 18.0, 77.0];
    assert!((age.mean[0] - ages.iter().sum::<f64>() / 7.0).abs() < 1e-12);
    // Of those that the filter keeps: 41.5, 50, 77.
    assert_eq!(all.len(), 3);
    let Some(Table::Moments(amount)) = made.get("y") else {
        panic!("{made:?}");
    };
    assert!((amount.mean[0] - (4.0 + 8.0 + 128.0) / 3.0).abs() < 1e-12);
}

#[test]
fn a_table_of_nothing_is_an_error() {
    let env = MemoryEnv::new(&[("x.csv", b"nan,\nnan,\n")]);
    let settings = "source csv(\"x.csv\"); feature a: f32; feature b: string;";
    let error = tables(&format!("{settings} map a = standardize(a);"), &env).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no numbers to make the table `a` of"),
        "{error}"
    );
    let error = tables(
        &format!("{settings} map b = vocabulary(b, from: data, size: 2);"),
        &env,
    );
    let error = error.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no words to make the table `b` of"),
        "{error}"
    );
    let env = MemoryEnv::new(&[("x.csv", b"1,a\ninf,b\n")]);
    let error = tables(&format!("{settings} map a = standardize(a);"), &env).unwrap_err();
    assert!(
        error.diagnostic().message.starts_with("x.csv:2:"),
        "{error}"
    );
}

// ---- Modes ----

#[test]
fn training_is_known_in_maps() {
    let text = format!(
        "spec test; data d {{ {FEATURES}
            map x = if training {{ amount + random_uniform([]) }} else {{ amount }};
            filter training || amount < 10.0;
        }}"
    );
    let spec = spec(&text);
    let read = |training: bool| {
        let mut cx = context(&people(), &spec, 0);
        cx.training = training;
        let mut data = Pipeline::open(&cx, &spec.data[0]).unwrap();
        let mut all = Vec::new();
        while let Some(element) = data.next().unwrap() {
            all.push(element.values["x"].to_f64s()[0]);
        }
        all
    };
    assert_eq!(read(false), [1.0, 2.0, 4.0, 8.0]);
    let drawn = read(true);
    assert_eq!(drawn.len(), 8);
    assert!(drawn.iter().all(|x| x.fract() > 0.0), "{drawn:?}");
}

#[test]
fn tables_know_nothing_of_what_a_later_split_holds_out() {
    let moments = |stages: &str| {
        let text = format!(
            "spec held;
             data whole {{ source csv(\"x.csv\"); feature x: f32; feature kind: string; {stages} }}
             data d {{ source whole; split (part: train, holdout: 3, seed: 2); batch 1; }}
             data plain {{ source csv(\"x.csv\"); feature x: f32; feature kind: string;
                           split (part: train, holdout: 3, seed: 2); batch 1; }}"
        );
        let env = MemoryEnv::new(&[("x.csv", b"1,a\n2,b\n4,c\n8,d\n16,e\n32,f\n64,g\n")]);
        let spec = spec(&text);
        let all = |name: &str| {
            let set = spec.data.iter().find(|set| set.name == name).unwrap();
            let cx = context(&env, &spec, 0);
            cx.tables
                .set(tables_of_data(&cx, set, &StopToken::default()).unwrap());
            let mut data = Pipeline::open(&cx, set).unwrap();
            let next = || data.next().unwrap();
            std::iter::from_fn(next).collect::<Vec<Element>>()
        };
        (all("d"), all("plain"))
    };
    let (standardized, plain) =
        moments("map x = standardize(x); map kind = vocabulary(kind, from: data, size: 9);");
    assert_eq!((standardized.len(), plain.len()), (4, 4));
    let raw: Vec<f64> = plain.iter().map(|e| e.values["x"].to_f64s()[0]).collect();
    let mean = raw.iter().sum::<f64>() / 4.0;
    let variance = raw.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
    for (element, x) in standardized.iter().zip(&raw) {
        let expected = (x - mean) / variance.sqrt();
        let found = element.values["x"].to_f64s()[0];
        assert!((found - expected).abs() < 1e-5, "{found} and {expected}");
        // Four words of four records: none is unknown.
        assert!(element.values["kind"].to_f64s()[0] < 4.0);
    }
}

// ---- Runs ----

/// A spec with tables of all kinds; `steps` of 3 records.
fn training(steps: u64) -> String {
    format!(
        "spec people;
        data train_set {{
            {FEATURES}
            split   (part: train, holdout: 2, seed: 3);
            map     country = vocabulary(country, from: data, size: 10);
            map     age = where(is_missing(age), 0.0, standardize(age));
            shuffle (buffer: 4, seed: 5);
            map     amount = if training {{ amount + 0.1 * random_normal([]) }} else {{ amount }};
            repeat;
            batch   3;
        }}
        data test_set {{
            {FEATURES}
            split   (part: holdout, holdout: 2, seed: 3);
            map     country = vocabulary(country, from: data, size: 10);
            map     age = where(is_missing(age), 0.0, standardize(age));
            batch   3;
        }}
        model (country: i64[batch], age: f32[batch], amount: f32[batch]) {{
            let h = concat([one_hot(country, 11), expand_dims(age, axis: 1)], axis: 1);
            let logits = dense(h, 5);
            loss mean(square(dense(h, 1)[_, 0] - amount / 100.0)) + mean(square(logits));
            output guess = words_of(argmax(logits, axis: 1), country);
        }}
        train {{ data train_set; optimizer adam(0.01); steps {steps}; }}
        eval {{ data test_set; every 4 steps; }}
        hooks {{ checkpoint (dir: \"unused\", every: 2 steps); }}"
    )
}

#[test]
fn a_run_with_tables_resumes_to_the_same_bits() {
    let folder = crate::support::RunDir::new();
    let options = |dir: &str, steps| Options {
        dir: Some(folder.0.join(dir)),
        env: people().env(),
        steps: Some(steps),
        ..Options::default()
    };
    let spec = spec(&training(9));
    let train = |dir: &str, steps| {
        let mut evaluated = Vec::new();
        let state = train(&spec, &options(dir, steps), &mut |event: &Event| {
            if let Event::Evaluated { metrics, .. } = event {
                evaluated.push(metrics[0].1.value());
            }
        });
        (state.unwrap(), evaluated)
    };
    let (whole, evaluated) = train("whole", 9);
    let mut resumed = None;
    for steps in [3, 4, 7, 9] {
        resumed = Some(train("parts", steps));
    }
    let (state, last) = resumed.unwrap();
    assert_eq!(whole.values(), state.values());
    assert_eq!(evaluated.last(), last.last());

    // A session that is restored has the words of the training data.
    let mut session = Session::new(&spec, &options("whole", 9)).unwrap();
    assert!(session.vocabulary("guess").unwrap().is_none());
    session.restore(folder.0.join("whole")).unwrap();
    let words = session.vocabulary("guess").unwrap().unwrap();
    assert!((2..=4).contains(&words.len()), "{words:?}");
    assert_eq!(session.vocabulary("country").unwrap(), Some(words));
    assert!(session.vocabulary("age").unwrap().is_none());
}

#[test]
fn a_checkpoint_without_the_tables_is_an_error() {
    let folder = crate::support::RunDir::new();
    let options = Options {
        dir: Some(folder.0.clone()),
        env: people().env(),
        ..Options::default()
    };
    let spec = spec(&training(4));
    train(&spec, &options, &mut |_: &Event| {}).unwrap();
    let mut session = Session::new(&spec, &options).unwrap();
    session.restore(&folder.0).unwrap();
    let text = session.records_mut().remove("tables/1").unwrap();
    assert!(text.starts_with("moments age 1\n"), "{text}");
    for name in std::fs::read_dir(&folder.0).unwrap() {
        let name = name.unwrap().path();
        if name
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("model.ckpt")
        {
            std::fs::remove_file(name).unwrap();
        }
    }
    session.save(folder.0.join("model.ckpt-4")).unwrap();
    let options = Options {
        steps: Some(6),
        ..options
    };
    let error = train(&spec, &options, &mut |_: &Event| {}).unwrap_err();
    assert!(
        error.to_string().contains("does not hold the table"),
        "{error}"
    );
}

#[test]
fn a_dry_run_makes_the_tables_too() {
    let options = Options {
        env: people().env(),
        ..Options::default()
    };
    let sizes = trainspec::dry_run(&spec(&training(4)), &options).unwrap();
    assert_eq!(sizes.data.len(), 2);
}

// ---- Augmentation ----

/// Images of 6 x 5 x 1 whose pixels are their numbers, with a map in a mode.
fn images(map: &str, training: bool, epochs: usize) -> Vec<Vec<f64>> {
    let text: String = (0..40).map(|i| format!("{i}\n")).collect();
    let env = MemoryEnv::new(&[("n.csv", text.as_bytes())]);
    let spec = spec(&format!(
        "spec test; data d {{ source csv(\"n.csv\"); feature n: f32;
            map image = reshape(cast(range(0, 30), f32), [6, 5, 1]) + 0.0 * n;
            {map}
            epochs {epochs};
        }}"
    ));
    let mut cx = context(&env, &spec, 7);
    cx.training = training;
    let mut data = Pipeline::open(&cx, &spec.data[0]).unwrap();
    let mut all = Vec::new();
    while let Some(element) = data.next().unwrap() {
        all.push(element.values["image"].to_f64s());
    }
    all
}

fn distinct(images: &[Vec<f64>]) -> usize {
    let mut all: Vec<String> = images.iter().map(|image| format!("{image:?}")).collect();
    all.sort();
    all.dedup();
    all.len()
}

#[test]
fn crops_are_windows_and_those_of_evaluations_their_centers() {
    let window = |top: usize, left: usize| -> Vec<f64> {
        let rows =
            (top..top + 4).flat_map(|row| (left..left + 3).map(move |c| (row * 5 + c) as f64));
        rows.collect()
    };
    let map = "map image = random_crop(image, 4, 3);";
    assert!(
        images(map, false, 1)
            .iter()
            .all(|image| *image == window(1, 1))
    );
    let drawn = images(map, true, 10);
    let windows: Vec<Vec<f64>> = (0..3)
        .flat_map(|t| (0..3).map(move |l| (t, l)))
        .map(|(top, left)| window(top, left))
        .collect();
    assert!(drawn.iter().all(|image| windows.contains(image)));
    // 400 draws among 9: each is there, and none too often (five deviations).
    for expected in &windows {
        let n = drawn.iter().filter(|image| *image == expected).count() as f64;
        assert!(
            (n - 400.0 / 9.0).abs() < 5.0 * (400.0 * 8.0 / 81.0_f64).sqrt(),
            "{n}"
        );
    }
    assert_eq!(drawn, images(map, true, 10));
}

#[test]
fn flips_brightness_and_cutout_vary_images_while_training() {
    for (map, least) in [
        ("map image = random_flip_left_right(image);", 2),
        ("map image = random_flip_up_down(image);", 2),
        ("map image = random_brightness(image, 0.5);", 40),
        ("map image = random_contrast(image, 0.5, 1.5);", 40),
        ("map image = cutout(image, 3, value: -1.0);", 25),
    ] {
        let plain: Vec<f64> = (0..30).map(f64::from).collect();
        assert!(
            images(map, false, 1).iter().all(|image| *image == plain),
            "{map}"
        );
        let drawn = images(map, true, 5);
        assert!(distinct(&drawn) >= least, "{map}: {}", distinct(&drawn));
        for image in drawn {
            let is_fine = match map {
                _ if map.contains("left_right") => {
                    image == plain || (0..30).all(|i| image[i] == plain[i / 5 * 5 + 4 - i % 5])
                }
                _ if map.contains("up_down") => {
                    image == plain || (0..30).all(|i| image[i] == plain[(5 - i / 5) * 5 + i % 5])
                }
                _ if map.contains("brightness") => {
                    let delta = image[0] - plain[0];
                    delta.abs() <= 0.5
                        && image
                            .iter()
                            .zip(&plain)
                            .all(|(x, y)| (x - y - delta).abs() < 1e-5)
                }
                _ if map.contains("contrast") => {
                    let factor = (image[29] - 14.5) / 14.5;
                    (0.5..=1.5).contains(&(factor as f32))
                        && (image.iter().zip(&plain))
                            .all(|(x, y)| (x - (14.5 + (y - 14.5) * factor)).abs() < 1e-4)
                }
                _ => {
                    // The cut of a corner is 2 x 2, elsewhere 3 x 3 or what is inside.
                    let cut = image.iter().filter(|x| **x == -1.0).count();
                    [4, 6, 9].contains(&cut)
                        && image.iter().zip(&plain).all(|(x, y)| *x == -1.0 || x == y)
                }
            };
            assert!(is_fine, "{map} gives {image:?}");
        }
    }
}

#[test]
fn mixup_mixes_images_and_labels_alike() {
    let text: String = (0..64).map(|i| format!("{i}\n")).collect();
    let env = MemoryEnv::new(&[("n.csv", text.as_bytes())]);
    let spec = spec(
        "spec test; data d { source csv(\"n.csv\"); feature n: i64;
            map image = cast(n, f32);
            map label = one_hot(n, 64);
            batch 64;
            map (image, label) = mixup(image, label, alpha: 1.0);
        }",
    );
    let read = |training: bool| {
        let mut cx = context(&env, &spec, 3);
        cx.training = training;
        let mut data = Pipeline::open(&cx, &spec.data[0]).unwrap();
        data.next().unwrap().unwrap()
    };
    let plain: Vec<f64> = (0..64).map(f64::from).collect();
    assert_eq!(read(false).values["image"].to_f64s(), plain);
    let mixed = read(true);
    let (x, y) = (
        mixed.values["image"].to_f64s(),
        mixed.values["label"].to_f64s(),
    );
    let mut weights = 0.0;
    for (i, (x, row)) in x.iter().zip(y.chunks(64)).enumerate() {
        // The same weight and the same other record in both.
        let mean: f64 = row.iter().zip(&plain).map(|(weight, n)| weight * n).sum();
        assert!((mean - x).abs() < 1e-3, "{mean} and {x}");
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        assert!(row.iter().filter(|weight| **weight > 0.0).count() <= 2);
        weights += row[i];
    }
    // Uniform with alpha 1.
    assert!(
        (weights / 64.0 - 0.5).abs() < 5.0 / (12.0_f64 * 64.0).sqrt() + 1.0 / 64.0,
        "{weights}"
    );
}

#[test]
fn buckets_and_multi_hot_are_tensorflows() {
    for case in cases("bucketize") {
        let x: Vec<String> = serde_json::from_value(case["x"].clone()).unwrap();
        let text = x.join("\n");
        let env = MemoryEnv::new(&[("x.csv", text.as_bytes())]);
        let settings = format!(
            "source csv(\"x.csv\"); feature x: f32; map id = bucketize(x, {});",
            case["boundaries"]
        );
        let found = read(&env, &settings, 100).unwrap();
        assert_eq!(ints(&found, "id"), integers(&case["ids"]));
    }
    for case in cases("multi_hot") {
        let ids: Vec<Vec<i64>> = serde_json::from_value(case["ids"].clone()).unwrap();
        let lines = ids.iter().map(|row| format!("{},{}\n", row[0], row[1]));
        let env = MemoryEnv::new(&[("x.csv", lines.collect::<String>().as_bytes())]);
        let settings = format!(
            "source csv(\"x.csv\"); feature a: i64; feature b: i64;
             map hot = multi_hot(stack([a, b]), {});",
            case["depth"]
        );
        let found = read(&env, &settings, 100).unwrap();
        let hot: Vec<Vec<f64>> = serde_json::from_value(case["hot"].clone()).unwrap();
        let found: Vec<Vec<f64>> = found.iter().map(|e| e.values["hot"].to_f64s()).collect();
        assert_eq!(found, hot);
    }
}

#[test]
fn columns_are_read_by_index_for_an_exact_shuffle() {
    let settings = "cache;
        map id = vocabulary(country, from: [\"NO\", \"SE\", \"DK\", \"FI\"], oov: 1);
        map tags = words(tags, max: 3);
        map known = tags == \"b\";
        shuffle (seed: 4);";
    let shuffled = elements(settings);
    let mut ids = ints(&shuffled, "id");
    assert_ne!(ids, [0, 1, 4, 2, 1, 0, 1, 3]);
    ids.sort_unstable();
    assert_eq!(ids, [0, 0, 1, 1, 1, 2, 3, 4]);
    for element in shuffled {
        let tags = element.values["tags"].values::<Vec<u8>>().unwrap().to_vec();
        let known: Vec<bool> = tags.iter().map(|tag| tag == b"b").collect();
        let n = element.values["known#count"].to_i64s()[0] as usize;
        assert_eq!(element.values["tags#count"].to_i64s(), [n as i64]);
        assert_eq!(element.values["known"].to_bools()[..n], known[..n]);
    }
}
