//! The table of settings: what `check` accepts, a run accepts too.

use std::sync::Arc;

use trainspec::data::Pipeline;
use trainspec::env::Env;
use trainspec::session::{Event, Options};
use trainspec::trainer::train;
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{
    Compilation, SETTINGS, SettingKind, SettingParam, SettingSignature, Support,
};

use crate::support::{MemoryEnv, RunDir, context};

/// y = 2 x + 1 at eight points.
const LINE: &[u8] = b"0,1\n1,3\n2,5\n3,7\n-1,-1\n-2,-3\n0.5,2\n1.5,4\n";

/// The arguments that a parameter takes: one, or all of its keywords.
fn values(signature: &SettingSignature, param: &SettingParam) -> Vec<String> {
    let value = match (signature.word, param.name) {
        ("csv" | "tfrecord", "path") => "\"line.csv\"",
        ("csv", "delimiter") => "\",\"",
        ("freeze", _) => "\"b\"",
        ("data", _) => "d",
        ("dynamic", _) => "2",
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
            SettingKind::StrTuples => "[(\"a\", \"b\")]",
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
    let word = signature.word;
    let setting = match arguments {
        "" => format!("{word};"),
        _ => format!("{word} ({arguments});"),
    };
    let call = format!("{} {word}({arguments});", signature.section);
    let mut source = "source csv(\"line.csv\");".to_owned();
    let (mut stages, mut batch) = (String::new(), "batch 2;".to_owned());
    let mut trained = "data d; steps 2;".to_owned();
    let mut items = String::new();
    match (signature.section, word) {
        ("source", _) => source = call,
        ("data", "batch") => batch = setting,
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
        // What writes files shares the folder of the checkpoints.
        ("hooks", "summary" | "step_counter") => {
            items = format!("hooks {{ checkpoint (dir: \"runs\"); {setting} }}");
        }
        ("hooks", _) => items = format!("hooks {{ {setting} }}"),
        ("summary", _) => {
            items = format!("hooks {{ checkpoint (dir: \"runs\"); summary {{ {setting} }} }}");
        }
        ("warm_start", _) => items = setting,
        other => panic!("no test knows the section of {other:?}"),
    }
    format!(
        "spec table;
         data d {{ {source} feature x: f32; feature y: f32; {stages} {batch} }}
         model (x: f32[batch], y: f32[batch]) {{
             param a: f32[2] = zeros();
             param b: f32[2] = zeros();
             let sound = expand_dims(x, axis: 1);
             let picture = expand_dims(expand_dims(sound, axis: 1), axis: 1);
             loss mean(square(a[0] * x + b[0] - y));
         }}
         train {{ optimizer gradient_descent(0.01); {trained} }}
         {items}"
    )
}

/// Opens the data of a spec, and trains it; whether the files of a source have what its arguments say is another matter.
fn run(signature: &SettingSignature, spec: &Arc<Spec>) -> Result<Vec<Event>, String> {
    let env = MemoryEnv::new(&[("line.csv", LINE)]);
    Pipeline::open(&context(&env, spec, 0), &spec.data[0]).map_err(|e| e.to_string())?;
    let env: Arc<dyn Env> = Arc::new(env);
    let mut events = Vec::new();
    if signature.section != "source" {
        let mut observer = |event: &Event| events.push(event.clone());
        let folder = RunDir::new();
        let options = Options {
            dir: Some(folder.0.clone()),
            ..Options::default()
        };
        train(spec, &options, &env, &mut observer).map_err(|e| e.to_string())?;
    }
    Ok(events)
}

#[test]
fn check_refuses_what_a_run_would() {
    for signature in SETTINGS {
        let name = format!("{} {}", signature.section, signature.word);
        let mut ran = 0;
        for arguments in argument_lists(signature) {
            let text = spec_with(signature, &arguments);
            let found = Compilation::check("table", &text, &NoFiles, &Default::default());
            let errors: Vec<&String> = found
                .diagnostics
                .iter()
                .filter(|d| d.is_error())
                .map(|d| &d.message)
                .collect();
            let Some(spec) = &found.spec else {
                let refused = errors.iter().any(|e| e.ends_with("yet"));
                // `stop_at` needs one of its two arguments.
                let incomplete = signature.word == "stop_at" && arguments.is_empty();
                assert!(refused || incomplete, "{name}: {errors:?}\n{text}");
                assert_eq!(refused, signature.support == Support::Refused, "{name}");
                continue;
            };
            assert_ne!(signature.support, Support::Refused, "{name}\n{text}");
            let events = run(signature, spec).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            let hook = match signature.section {
                "summary" => "summary",
                _ => signature.word,
            };
            let note = format!("`{hook}` in `hooks` is not run yet");
            let noted = events.contains(&Event::Note(note));
            assert_eq!(noted, signature.support == Support::Noted, "{name}\n{text}");
            ran += 1;
        }
        assert_eq!(ran == 0, signature.support == Support::Refused, "{name}");
    }
}
