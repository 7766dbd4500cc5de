//! The table of settings: what `check` accepts, a run accepts too.

use std::sync::Arc;

use png::ColorType;
use trainspec::env::Env;
use trainspec::internals::data::Pipeline;
use trainspec::registry::Registry;
use trainspec::saver::{Records, Saver, SaverOptions};
use trainspec::session::{Event, Options};
use trainspec::train;
use trainspec::{State, Tensor};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{
    Compilation, Identity, Options as CheckOptions, SETTINGS, SettingKind, SettingParam,
    SettingSignature,
};
use trainspec_formats::checkpoint::Tensor as FileTensor;
use trainspec_formats::records::Compression;

use crate::arrays::{idx, npy, npz};
use crate::image_files::png;
use crate::support::{MemoryEnv, RunDir, context_with};
use crate::tfrecord::{file, floats, int64s};

/// y = 2 x + 1 at eight points.
const LINE: &[u8] = b"0,1\n1,3\n2,5\n3,7\n-1,-1\n-2,-3\n0.5,2\n1.5,4\n";

/// The arguments that a parameter takes: one, or all of its keywords.
fn values(signature: &SettingSignature, param: &SettingParam) -> Vec<String> {
    let value = match (signature.word, param.name) {
        ("csv" | "tfrecord" | "text", "path") => "\"line.csv\"",
        ("npz", "path") => "\"line.npz\"",
        ("files", "path") => "\"line.png\"",
        // A feature and its file.
        ("idx" | "npy", "path") => "\"line.FORMAT\"",
        ("csv", "delimiter") => "\",\"",
        ("freeze", _) => "\"b\"",
        ("data", _) => "d",
        ("dynamic", _) => "2",
        // What these say of the best checkpoint needs `best`.
        ("checkpoint", "mode") => "max, best: loss",
        ("checkpoint", "eval") => "e, best: loss",
        ("warm_start", "checkpoint") => "\"ck\"",
        ("vocabulary", "variable") => "\"w\"",
        ("vocabulary", "new_vocab" | "old_vocab") => "\"words.txt\"",
        ("vocabulary", "num_oov_buckets") => "0",
        ("vocabulary", "old_vocab_size") => "2",
        ("early_stop", "eval") => "v",
        ("bucket_by_length", "feature") => "s",
        ("bucket_by_length", "boundaries") => "[2, 3]",
        ("bucket_by_length", "size") => "2",
        ("wait_for_step", "dir") => "\"WAITED_FOR\"",
        _ => match param.kind {
            SettingKind::Keyword(words) => return words.iter().map(|w| (*w).to_owned()).collect(),
            SettingKind::Str | SettingKind::StrList => "\"a\"",
            SettingKind::Int => "1",
            SettingKind::Count => "2",
            SettingKind::Number | SettingKind::Rate | SettingKind::RateAfter => "0.5",
            SettingKind::Bool => "true",
            SettingKind::Duration => "1 h",
            SettingKind::Interval => "1 steps",
            SettingKind::Names if signature.word == "image" => "picture",
            SettingKind::Names if signature.word == "audio" => "sound",
            SettingKind::Name | SettingKind::Names => "loss",
            SettingKind::StrPairs => "[(\"a\", \"b\")]",
            SettingKind::Patterns => "[\"a\"]",
            SettingKind::Calls("on_error") => "skip(max: 2)",
            SettingKind::Calls(_) => {
                "vocabulary(variable: \"w\", new_vocab: \"words.txt\", old_vocab: \"words.txt\")"
            }
            SettingKind::Init => "ones()",
            SettingKind::Ints => "[0]",
        },
    };
    vec![value.to_owned()]
}

/// Argument lists: the required arguments alone and with each optional one, each with all of its keywords.
fn argument_lists(signature: &SettingSignature) -> Vec<String> {
    let (required, optional): (Vec<_>, Vec<_>) = signature.params.iter().partition(|p| p.required);
    let mut lists = vec![Vec::new()];
    for param in required {
        let given: Vec<String> = values(signature, param);
        let with = |list: &Vec<String>, value: &String| {
            let mut list = list.clone();
            list.push(format!("{}: {value}", param.name));
            list
        };
        lists = lists
            .iter()
            .flat_map(|list| {
                given
                    .iter()
                    .map(|value| with(list, value))
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    for param in optional {
        for value in values(signature, param) {
            let mut list = lists[0].clone();
            list.push(format!("{}: {value}", param.name));
            lists.push(list);
        }
    }
    lists.iter().map(|list| list.join(", ")).collect()
}

/// A spec that can be run, with one setting added to its section.
fn spec_with(signature: &SettingSignature, arguments: &str) -> String {
    spec_of(signature, Some(arguments))
}

/// As [`spec_with`]; without arguments it has not got the setting.
fn spec_of(signature: &SettingSignature, arguments: Option<&str>) -> String {
    let word = signature.word;
    let setting = match arguments {
        None => String::new(),
        Some("") => format!("{word};"),
        Some(arguments) => format!("{word} ({arguments});"),
    };
    let call = arguments.map(|arguments| format!("{} {word}({arguments});", signature.section));
    let is_given = arguments.is_some();
    let (call, arguments) = (call.unwrap_or_default(), arguments.unwrap_or_default());
    let mut source = "source csv(\"line.csv\");".to_owned();
    let mut features = "feature x: f32; feature y: f32;";
    let (mut stages, mut batch) = (String::new(), "batch 2;".to_owned());
    let mut trained = "data d; steps 2;".to_owned();
    let mut items = String::new();
    match (signature.section, word) {
        ("source" | "on_error" | "vocab" | "warm_start", _) if !is_given => {}
        ("data", "batch" | "window" | "bucket_by_length" | "interleave")
        | ("train" | "eval", "data")
            if !is_given => {}
        // The parts have features of their own.
        ("source", "mix" | "zip") => {
            let options = match arguments {
                "" => String::new(),
                _ => format!(", {arguments}"),
            };
            source = format!("source {word}(a, b{options});");
            features = "";
            items = match word {
                "mix" => {
                    "data a { source csv(\"line.csv\"); feature x: f32; feature y: f32; }
                     data b { source a; shuffle 3; }"
                }
                _ => {
                    "data a { source csv(\"line.csv\"); feature x: f32; feature z: f32; drop z; }
                     data b { source csv(\"line.csv\"); feature z: f32; feature y: f32; drop z; }"
                }
            }
            .to_owned();
        }
        ("source", _) => {
            source = call;
            features = match word {
                "text" if arguments.contains("byte") => {
                    "feature b: u8; map x = cast(b, f32); map y = x; drop b;"
                }
                "text" => "feature s: string; map x = cast(is_missing(s), f32); map y = x; drop s;",
                "files" => {
                    "feature image: u8[1, 2, 1]; map x = cast(image[0, 0, 0], f32); map y = x; drop image;"
                }
                "idx" | "npy" => {
                    // They are read by a feature's name, or the file stands alone where there is one feature.
                    source = source.replace("path: ", "").replace("FORMAT", word);
                    "feature x: f32; map y = x;"
                }
                _ => features,
            };
        }
        ("on_error", _) => {
            source = format!("source csv(\"line.csv\", on_error: {word}({arguments}));");
        }
        ("data", "batch") => batch = setting,
        // A feature of varying length, which is none of the model.
        ("data", "bucket_by_length") => {
            source = "source tfrecord(\"line.tfrecord\");".to_owned();
            features = "feature x: f32; feature y: f32; feature s: i64[<=3];";
            batch = format!("{setting} drop s;");
        }
        // Without a buffer it needs records with indices; windows change the types, so they are dropped again.
        ("data", "shuffle") => stages = format!("cache; {setting}"),
        ("data", "window") => stages = format!("{setting} map x = x[0]; map y = y[0];"),
        ("data", "split") => stages = setting.replace("by: loss", "by: x"),
        ("data", _) => stages = setting,
        ("train", "data") => trained = format!("{setting} steps 2;"),
        ("train", "steps" | "epochs") => trained = format!("data d; {setting}"),
        ("train", _) => trained.push_str(&setting),
        ("clip" | "loss_scale", _) => trained.push_str(&call),
        ("eval", "data") => items = format!("eval {{ {setting} }}"),
        ("eval", _) => {
            trained.push_str("ema (decay: 0.9);");
            items =
                format!("eval {{ data d; steps 1; {setting} }}").replace("steps 1; steps", "steps");
        }
        ("hooks", _) if !is_given => {}
        ("hooks", "early_stop") => {
            items = format!("eval v {{ data d; every 1 steps; }} hooks {{ {setting} }}");
        }
        // What writes files shares the folder of the checkpoints.
        ("hooks", "summary" | "step_counter" | "profile") => {
            items = format!("hooks {{ checkpoint (dir: \"runs\"); {setting} }}");
        }
        ("hooks", "checkpoint") => {
            items = format!("eval e {{ data d; metrics [loss]; }} hooks {{ {setting} }}");
        }
        ("hooks", _) => items = format!("hooks {{ {setting} }}"),
        ("summary", _) => {
            items = format!("hooks {{ checkpoint (dir: \"runs\"); summary {{ {setting} }} }}");
        }
        ("warm_start", _) => items = setting,
        ("vocab", _) => {
            items = format!("warm_start (checkpoint: \"ck\", vocab: {word}({arguments}));");
        }
        other => panic!("no test knows the section of {other:?}"),
    }
    format!(
        "spec table;
         data d {{ {source} {features} {stages} {batch} }}
         model (x: f32[batch], y: f32[batch]) {{
             param a: f32[2] = zeros();
             param b: f32[2] = zeros();
             param w: f32[2, 2] = zeros();
             let sound = expand_dims(x, axis: 1);
             let picture = expand_dims(expand_dims(sound, axis: 1), axis: 1);
             loss mean(square(a[0] * x + b[0] - y)) + sum(square(w));
         }}
         train {{ optimizer gradient_descent(0.01); {trained} }}
         {items}"
    )
}

/// Eight records with lists of up to three integers.
fn records() -> Vec<u8> {
    let record = |n: i64| {
        let list: Vec<i64> = (0..n % 4).collect();
        vec![
            ("x", floats(&[n as f32])),
            ("y", floats(&[1.0])),
            ("s", int64s(&list)),
        ]
    };
    file(Compression::None, &(0..8).map(record).collect::<Vec<_>>())
}

/// Opens the data of a spec, and trains it; whether the files of a source have what its arguments say is another matter.
fn run(signature: &SettingSignature, spec: &Arc<Spec>) -> Result<(), String> {
    let array = FileTensor::from_values(&[2], &[1.0_f32, 2.0]).unwrap();
    let env = MemoryEnv::new(&[
        ("line.csv", LINE),
        ("line.tfrecord", &records()),
        ("line.npy", &npy(&array)),
        ("line.npz", &npz(&[("x", &array), ("y", &array)])),
        ("line.idx", &idx(13, &[2], &[63, 128, 0, 0, 64, 0, 0, 0])),
        ("line.png", &png(2, 1, ColorType::Grayscale, &[10, 20])),
    ]);
    let ones = || Tensor::new(&[2], vec![1.0_f32; 2]);
    let registry = Registry::default().memory("a", [("x", ones()), ("y", ones())]);
    let data = context_with(&env, spec, 0, registry);
    Pipeline::open(&data, &spec.data[0]).map_err(|e| e.to_string())?;
    if signature.section != "source" {
        let folder = RunDir::new();
        let words = RunDir::new();
        let words = &words.0;
        let mut options = Options {
            dir: Some(folder.0.clone()),
            env: env.env(),
            ..Options::default()
        };
        if spec.warm_start.is_some() {
            std::fs::create_dir_all(words).unwrap();
            std::fs::write(words.join("words.txt"), "yes\nno\n").unwrap();
            let older =
                ["a", "b"].map(|name| (name.to_owned(), Tensor::new(&[2], vec![1.0_f32; 2])));
            let table = ("w".to_owned(), Tensor::new(&[2, 2], vec![1.0_f32; 4]));
            let older: State = older.into_iter().chain([table]).collect();
            let mut saver = Saver::new(SaverOptions::default()).unwrap();
            let saved = saver.save(&older, &Records::default(), &words.join("ck"), None);
            options.warm_start = Some(saved.unwrap());
            options.folder = words.clone();
            std::fs::write(words.join("line.csv"), LINE).unwrap();
            options.env = Env::default();
        }
        train(spec, &options, &mut |_: &Event| {}).map_err(|e| e.to_string())?;
    }
    Ok(())
}

#[test]
fn check_refuses_what_a_run_would() {
    let waited_for = RunDir::new();
    let state = "model_checkpoint_path: \"model.ckpt-2\"\n";
    std::fs::create_dir_all(&waited_for.0).unwrap();
    std::fs::write(waited_for.0.join("checkpoint"), state).unwrap();
    std::fs::write(waited_for.0.join("model.ckpt-2.index"), []).unwrap();
    for signature in SETTINGS {
        let name = format!("{} {}", signature.section, signature.word);
        let mut ran = 0;
        for arguments in argument_lists(signature) {
            let text = spec_with(signature, &arguments);
            let text = text.replace("WAITED_FOR", waited_for.0.to_str().unwrap());
            let found = Compilation::check("table", &text, &NoFiles, &Default::default());
            let errors: Vec<&String> = found
                .diagnostics
                .iter()
                .filter(|d| d.is_error())
                .map(|d| &d.message)
                .collect();
            let Some(spec) = &found.spec else {
                // `stop_at` needs one of its two arguments.
                let is_incomplete = signature.word == "stop_at" && arguments.is_empty();
                assert!(is_incomplete, "{name}: {errors:?}\n{text}");
                continue;
            };
            run(signature, spec).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            ran += 1;
        }
        assert!(ran > 0, "{name}");
    }
}

/// The hash that says which training a spec is.
fn identity(text: &str, overrides: &[(&str, &str)]) -> String {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let options = CheckOptions {
        overrides: overrides.iter().map(owned).collect(),
    };
    let found = Compilation::check("table", text, &NoFiles, &options);
    let spec = found
        .spec
        .unwrap_or_else(|| panic!("{:?}\n{text}", found.diagnostics));
    Identity::of(&spec).unwrap().hash
}

/// Settings of data, model and train that do not change what is trained: they say how long, or how fast, or they are what they would be
/// without them.
const SAME_TRAINING: &[&str] = &[
    "source csv(path: \"line.csv\")",
    "source csv(path: \"line.csv\", delimiter: \",\")",
    "source csv(path: \"line.csv\", compression: auto)",
    "data batch(size: 2)",
    "train data(name: d)",
    "train steps(count: 2)",
    "train epochs(count: 2)",
];

#[test]
fn every_setting_of_data_and_train_makes_another_training_and_no_other_does() {
    let mut same = Vec::new();
    for signature in SETTINGS {
        let SettingSignature { section, word, .. } = signature;
        let without = identity(&spec_of(signature, None), &[]);
        for arguments in argument_lists(signature) {
            if *word == "stop_at" && arguments.is_empty() {
                continue;
            }
            let text = spec_with(signature, &arguments);
            let is_same = identity(&text, &[]) == without;
            match *section {
                "source" | "on_error" | "data" | "train" | "clip" | "loss_scale" => {
                    if is_same {
                        same.push(format!("{section} {word}({arguments})"));
                    }
                }
                "eval" | "hooks" | "summary" | "warm_start" | "vocab" => {
                    assert!(is_same, "{section} {word}({arguments})\n{text}");
                }
                other => panic!("no test knows the section `{other}`"),
            }
        }
    }
    assert_eq!(same, SAME_TRAINING);
}

#[test]
fn the_model_and_constants_make_another_training_and_comments_do_not() {
    let text = "spec line;
        const RATE = 0.01;
        const LONG = 7;
        data d { source csv(\"line.csv\"); feature x: f32; feature y: f32; batch 2; }
        model (x: f32[batch], y: f32[batch]) {
            param a: f32 = constant(0.5);
            loss mean(square(a * x - y));
        }
        train { data d; optimizer gradient_descent(RATE); steps LONG; }";
    let base = identity(text, &[]);
    for (from, to) in [
        ("spec line;", "// About it.\nspec line;"),
        ("loss mean", "// What is minimized.\n   loss mean"),
        ("const RATE", "const  RATE"),
        ("RATE", "R"),
        (
            "data d {",
            "data other { source csv(\"other.csv\"); feature z: f32; batch 3; } data d {",
        ),
        ("train {", "eval { data d; } train {"),
        ("steps LONG;", "epochs 3;"),
    ] {
        assert_eq!(identity(&text.replace(from, to), &[]), base, "{to}");
    }
    for (from, to) in [
        ("constant(0.5)", "constant(0.25)"),
        ("constant(0.5)", "zeros()"),
        ("a * x - y", "x * a - y"),
        ("square", "abs"),
        ("f32[batch]", "f32[2]"),
        ("RATE = 0.01", "RATE = 0.02"),
        ("gradient_descent(RATE)", "momentum(RATE, momentum: 0.0)"),
        ("line.csv", "lines.csv"),
        ("feature y: f32;", "feature y: f64; map y = cast(y, f32);"),
    ] {
        assert_ne!(identity(&text.replace(from, to), &[]), base, "{to}");
    }
    // What the command overrides counts as if it were written.
    assert_eq!(identity(text, &[("LONG", "9")]), base);
    let faster = identity(text, &[("RATE", "0.02")]);
    assert_ne!(faster, base);
    assert_eq!(faster, identity(&text.replace("0.01", "0.02"), &[]));
}
