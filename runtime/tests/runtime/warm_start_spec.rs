//! `warm_start` in a spec: TensorFlow's cases through the language, plans that are printed, and runs that are resumed.

use std::path::Path;

use serde_json::Value as Json;
use trainspec::env::Env;
use trainspec::saver::{Records, Saver, SaverOptions};
use trainspec::session::{Event, Options, Session};
use trainspec::train;
use trainspec::{Code, Error, State, Tensor, dry_run};
use trainspec_testing::folders::Folder;

use crate::saver::{cases, state, vector};
use crate::support::{MemoryEnv, RunDir, check_errors, spec};
use crate::warm_start::{assert_near, filled, map, save, tensor, tensors, texts};

/// A spec with a variable for each tensor, which begins with its first element everywhere, and a `warm_start`.
fn with_variables(variables: &State, warm_start: &str) -> String {
    let mut text = "spec warm; model (x: f32[batch]) { let all = mean(x);\n".to_owned();
    for (i, name) in variables.names().iter().enumerate() {
        let value = variables.get(name).unwrap();
        let first = value.to_f64s()[0];
        text += &format!(
            "param v{i}: {} as \"{name}\" = constant({first:?});\n",
            value.ty()
        );
    }
    let sum: Vec<String> = (0..variables.names().len())
        .map(|i| format!("sum(v{i})"))
        .collect();
    text += &format!("loss all * ({}); }}\n", sum.join(" + "));
    text + "train { optimizer gradient_descent(0.1); }\n" + warm_start
}

/// The initial state of a spec beside a folder of vocabularies.
fn initial(text: &str, folder: &Folder) -> Result<State, Error> {
    let options = Options {
        folder: folder.file(""),
        ..Options::default()
    };
    Ok(Session::new(&spec(text), &options)?.state().clone())
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

#[test]
fn oracle_warm_start_of_a_spec_remaps_vocabularies() {
    let cases = cases("warm_start");
    assert_eq!(cases.len(), 6);
    for case in &cases {
        let args = &case["args"];
        let folder = Folder::new();
        let path = save(&folder, &state([("w", tensor(&case["previous"]))]));
        for key in ["new_vocab", "old_vocab"] {
            folder.write(&format!("{key}.txt"), texts(&case[key]).join("\n") + "\n");
        }
        let expected = tensor(&case["expected"]);
        let mut info =
            "variable: \"w\", new_vocab: \"new_vocab.txt\", old_vocab: \"old_vocab.txt\""
                .to_owned();
        for key in [
            "new_vocab_size",
            "num_oov_buckets",
            "old_vocab_size",
            "axis",
        ] {
            info += &format!(", {key}: {}", args[key]);
        }
        info += &format!(
            ", backup_initializer: constant({})",
            args["backup_constant"]
        );
        let warm = format!(
            "warm_start (checkpoint: {}, vocab: vocabulary({info}));",
            quoted(&path)
        );
        let own = state([("w", Tensor::zeros(&expected.ty()))]);
        let found = initial(&with_variables(&own, &warm), &folder).unwrap();
        let name = case["name"].as_str().unwrap();
        assert_near(name, found.get("w").unwrap(), &expected, case);
    }
}

#[test]
fn oracle_warm_start_of_a_spec_selects_names() {
    let cases = cases("warm_start_names");
    assert_eq!(cases.len(), 6);
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let folder = Folder::new();
        let path = save(&folder, &tensors(&case["checkpoint"]));
        let expected = tensors(&case["expected"]);
        let zeros = |n: &String| (n.clone(), Tensor::zeros(&expected.get(n).unwrap().ty()));
        let own: State = texts(&case["new_variables"]).iter().map(zeros).collect();
        // A glob is not anchored at the start alone: it matches all of a name.
        let glob = |pattern: &str| format!("{:?}", pattern.replace(".*", "**"));
        let vars = match &case["vars_to_warm_start"] {
            Json::Null => "none".to_owned(),
            Json::String(pattern) => glob(pattern),
            list => {
                let patterns: Vec<String> = texts(list).iter().map(|one| glob(one)).collect();
                format!("[{}]", patterns.join(", "))
            }
        };
        let renamed = map(&case["var_name_to_prev_var_name"]);
        let renamed: Vec<String> = renamed.iter().map(|pair| format!("{pair:?}")).collect();
        let warm = format!(
            "warm_start (checkpoint: {}, vars: {vars}, rename: [{}]);",
            quoted(&path),
            renamed.join(", ")
        );
        let text = with_variables(&own, &warm);
        if case["vars_to_warm_start"] == "b" {
            // TensorFlow takes nothing where nothing matches; here that is a mistake.
            assert_eq!(check_errors(&text).len(), 1, "{name}");
            continue;
        }
        let found = initial(&text, &folder).unwrap_or_else(|e| panic!("{name}: {e}"));
        for variable in expected.names() {
            let expected = expected.get(variable).unwrap();
            assert_near(name, found.get(variable).unwrap(), expected, case);
        }
    }
}

#[test]
fn oracle_init_from_checkpoint_of_a_spec_assigns() {
    let cases = cases("init_from_checkpoint");
    assert_eq!(cases.len(), 9);
    let mut errors = 0;
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let folder = Folder::new();
        let path = save(&folder, &tensors(&case["checkpoint"]));
        let new = case["new_variables"].as_object().unwrap().iter();
        let own: State = new
            .map(|(name, text)| (name.clone(), filled(text.as_str().unwrap())))
            .collect();
        let pairs = map(&case["assignment_map"]);
        let pairs: Vec<String> = pairs.iter().map(|pair| format!("{pair:?}")).collect();
        let warm = format!(
            "warm_start (checkpoint: {}, assign: [{}]);",
            quoted(&path),
            pairs.join(", ")
        );
        let text = with_variables(&own, &warm);
        if let Some(error) = case.get("expected_error") {
            errors += 1;
            let message = error["message"].as_str().unwrap();
            // A name of the model is compared by `check`, one of the checkpoint when it is opened.
            if message.contains("should map to scope") {
                assert_eq!(
                    check_errors(&text),
                    ["the model has no variable `missing`, to which `a/w` is assigned"]
                );
                continue;
            }
            let expected = match message.contains("is not found") {
                true => Code::NotFound,
                false => Code::InvalidArgument,
            };
            let found = initial(&text, &folder).unwrap_err();
            assert_eq!(found.code(), expected, "{name}: {found}");
            continue;
        }
        let found = initial(&text, &folder).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = tensors(&case["expected"]);
        for variable in expected.names() {
            let expected = expected.get(variable).unwrap();
            assert_near(name, found.get(variable).unwrap(), expected, case);
        }
    }
    assert_eq!(errors, 4);
}

/// A line that is trained on two points.
fn line(items: &str) -> String {
    format!(
        "spec line;
         data d {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; repeat; batch 2; }}
         model (x: f32[batch], y: f32[batch]) {{
             param a: f32[1] = zeros();
             param b: f32[1] = zeros();
             loss mean(square(a[0] * x + b[0] - y));
         }}
         train {{ data d; optimizer adam(0.1); ema (decay: 0.9); steps 4; }}
         {items}"
    )
}

fn environment() -> Env {
    MemoryEnv::new(&[("line.csv", b"0,1\n1,3\n")]).env()
}

/// Trains; the events and the final state.
fn trained(text: &str, options: &Options) -> Result<(Vec<Event>, State), Error> {
    let mut events = Vec::new();
    let mut observer = |event: &Event| events.push(event.clone());
    let options = Options {
        env: environment(),
        ..options.clone()
    };
    let last = train(&spec(text), &options, &mut observer)?;
    Ok((events, last))
}

fn older(folder: &Folder) -> std::path::PathBuf {
    let one = |x: f32| vector(&[x]);
    save(
        folder,
        &state([("a", one(5.0)), ("b", one(7.0)), ("old", one(9.0))]),
    )
}

#[test]
fn a_warm_start_says_what_it_took_and_averages_begin_there() {
    let folder = Folder::new();
    let path = older(&folder);
    let warm = format!("warm_start (checkpoint: {}, vars: \"a\");", quoted(&path));
    let text = line(&warm);
    let initial = initial(&text, &folder).unwrap();
    assert_eq!(initial.get("a"), Some(&vector(&[5.0])));
    let average = initial.get("a/ExponentialMovingAverage");
    assert_eq!(average, Some(&vector(&[5.0])));
    assert_eq!(initial.get("b"), Some(&vector(&[0.0])));
    assert_eq!(initial.get("a/Adam"), Some(&vector(&[0.0])));
    let (events, _) = trained(&text, &Options::default()).unwrap();
    let plan = events.iter().find_map(|event| match event {
        Event::WarmStarted(plan) => Some(plan),
        _ => None,
    });
    let plan = plan.unwrap();
    assert_eq!(plan.path, path);
    assert_eq!(plan.restored.len(), 1);
    assert_eq!(plan.left_over, ["b", "old"]);
    assert_eq!(plan.notes, ["initial values remain: `b`"]);
}

#[test]
fn a_list_of_patterns_takes_slots_and_averages_too() {
    let folder = Folder::new();
    let one = |x: f32| vector(&[x]);
    let stored = state([
        ("a", one(5.0)),
        ("a/Adam", one(0.25)),
        ("a/ExponentialMovingAverage", one(4.0)),
    ]);
    let path = save(&folder, &stored);
    let vars = "[\"a\", \"a/Adam\", \"a/ExponentialMovingAverage\"]";
    let warm = format!("warm_start (checkpoint: {}, vars: {vars});", quoted(&path));
    let found = initial(&line(&warm), &folder).unwrap();
    for name in stored.names() {
        assert_eq!(found.get(name), stored.get(name), "{name}");
    }
}

#[test]
fn the_option_is_instead_of_the_checkpoint_of_the_spec() {
    let folder = Folder::new();
    let options = Options {
        warm_start: Some(older(&folder)),
        ..Options::default()
    };
    let first = |text: &str| {
        let session = Session::new(&spec(text), &options).unwrap();
        ["a", "b"].map(|name| session.state().get(name).unwrap().to_f64s()[0])
    };
    assert_eq!(first(&line("")), [5.0, 7.0]);
    let warm = "warm_start (checkpoint: \"nowhere\", vars: \"b\", rename: [(\"b\", \"old\")]);";
    assert_eq!(first(&line(warm)), [0.0, 9.0]);
}

#[test]
fn a_resumed_run_does_not_warm_start_again() {
    let folder = Folder::new();
    let path = older(&folder);
    let run = RunDir::new();
    let warm = format!(
        "warm_start (checkpoint: {});
         hooks {{ checkpoint (dir: \"runs\", every: 2 steps); }}",
        quoted(&path)
    );
    let text = line(&warm);
    let options = |steps: u64| Options {
        dir: Some(run.0.clone()),
        steps: Some(steps),
        ..Options::default()
    };
    let is_warm = |events: &[Event]| events.iter().any(|e| matches!(e, Event::WarmStarted(_)));
    let (events, _) = trained(&text, &options(2)).unwrap();
    assert!(is_warm(&events));
    // Its checkpoint is not even opened.
    for entry in std::fs::read_dir(folder.file("")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let (events, resumed) = trained(&text, &options(4)).unwrap();
    assert!(!is_warm(&events));
    assert!(
        events
            .iter()
            .any(|e| matches!(e, Event::Resumed { step: 2, .. }))
    );
    older(&folder);
    let other = RunDir::new();
    let uninterrupted = Options {
        dir: Some(other.0.clone()),
        ..Options::default()
    };
    assert_eq!(resumed, trained(&text, &uninterrupted).unwrap().1);
    // The option says that it is not used.
    let given = Options {
        warm_start: Some(path),
        ..options(4)
    };
    let (events, _) = trained(&text, &given).unwrap();
    let noted = |e: &Event| matches!(e, Event::Note(note) if note.starts_with("`--warm-start` is not used"));
    assert!(events.iter().any(noted));
}

#[test]
fn what_a_resumed_part_left_out_is_warm_started() {
    let folder = Folder::new();
    let path = older(&folder);
    let run = RunDir::new();
    let text = line(&format!(
        "warm_start (checkpoint: {});
         hooks {{ checkpoint (dir: \"runs\", every: 2 steps, vars: [\"b\"]); }}",
        quoted(&path)
    ));
    let text = text.replace("ema (decay: 0.9);", "freeze \"a\";");
    let options = |steps: u64| Options {
        dir: Some(run.0.clone()),
        steps: Some(steps),
        ..Options::default()
    };
    let (_, first) = trained(&text, &options(2)).unwrap();
    let (events, last) = trained(&text, &options(2)).unwrap();
    for name in ["a", "b"] {
        assert_eq!(last.get(name), first.get(name), "{name}");
    }
    let notes: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            Event::Note(note) => Some(note),
            _ => None,
        })
        .collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("2 of 7 values are restored")),
        "{notes:?}"
    );
    assert!(
        notes
            .iter()
            .any(|note| note.contains("so the input starts over")),
        "{notes:?}"
    );
}

#[test]
fn all_that_does_not_fit_is_listed_with_the_nearest_name() {
    let folder = Folder::new();
    let path = save(
        &folder,
        &state([("aa", vector(&[1.0])), ("b", vector(&[1.0, 2.0]))]),
    );
    let text = line(&format!("warm_start (checkpoint: {});", quoted(&path)));
    let error = initial(&text, &folder).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the warm start fails: {} does not fit the state: 1 missing, 1 changed\n  \
             `a` is not in the checkpoint; the nearest name there is `aa`\n  \
             `b` is f32[1], and in the checkpoint f32[2]",
            path.display()
        )
    );
    let help = error.diagnostic().help;
    assert!(
        help.iter().any(|line| line.contains("`rename`")),
        "{help:?}"
    );
    // A dry run says so, too.
    let in_memory = Options {
        env: environment(),
        ..Options::default()
    };
    let found = dry_run(&spec(&text), &in_memory);
    assert_eq!(found.unwrap_err().to_string(), error.to_string());
    let text = line("warm_start (checkpoint: \"/nowhere/at/all\");");
    let error = initial(&text, &folder).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn the_backup_is_any_initializer_and_the_same_in_every_run() {
    let folder = Folder::new();
    let table = Tensor::new(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
    let path = save(&folder, &state([("w", table)]));
    folder.write("old.txt", "a\nb\n");
    folder.write("new.txt", "b\nx\n");
    let warm = format!(
        "warm_start (checkpoint: {}, vocab: [vocabulary(variable: \"w\", new_vocab: \"new.txt\", old_vocab: \"old.txt\",
            num_oov_buckets: 1, backup_initializer: uniform(minval: 10.0, maxval: 11.0))]);",
        quoted(&path)
    );
    let text = with_variables(
        &state([("w", Tensor::new(&[3, 2], vec![0.0_f32; 6]))]),
        &warm,
    );
    let found = initial(&text, &folder).unwrap();
    let values = found.get("w").unwrap().to_f64s();
    assert_eq!(values[..2], [3.0, 4.0]);
    assert!(
        values[2..].iter().all(|x| (10.0..11.0).contains(x)),
        "{values:?}"
    );
    assert_ne!(values[2..4], values[4..]);
    assert_eq!(initial(&text, &folder).unwrap(), found);
}

#[test]
fn a_warm_start_from_a_folder_takes_its_newest_checkpoint() {
    let folder = Folder::new();
    let mut saver = Saver::new(SaverOptions::default()).unwrap();
    for step in [1, 2] {
        let own = state([("a", vector(&[step as f32])), ("b", vector(&[0.0]))]);
        let saved = saver.save(&own, &Records::default(), &folder.file("model"), Some(step));
        saved.unwrap();
    }
    let text = line(&format!(
        "warm_start (checkpoint: {});",
        quoted(&folder.file(""))
    ));
    let found = initial(&text, &folder).unwrap();
    assert_eq!(found.get("a"), Some(&vector(&[2.0])));
}
