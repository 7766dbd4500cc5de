//! End-to-end tests of `trainspec run`: convergence, reproducibility, errors.

use std::process::Output;

use crate::support::{Folder, RunCommand, code, command, err, out, root};
use serde_json::Value;

/// Runs an example of the repository.
fn example(name: &str, arguments: &[&str]) -> Output {
    let path = root().join("examples").join(name);
    // Runs are written into the working folder.
    let folder = Folder::new();
    command(&[&["run", path.to_str().unwrap()], arguments].concat())
        .current_dir(&folder.0)
        .output()
        .unwrap()
}

/// The events of a run with `--format json`.
fn events(output: &Output) -> Vec<Value> {
    let lines = out(output);
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    lines.lines().map(parse).collect()
}

fn find<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|e| e["event"] == name).collect()
}

/// Its standard output without the times at the ends of lines.
fn without_times(output: &Output) -> String {
    let text = out(output);
    let lines = text.lines().map(|line| match line.rfind("  [") {
        Some(at) if line.ends_with("s]") => &line[..at],
        _ => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// y = 2 a - 3 b + 0.5, exactly.
fn plane() -> String {
    let mut text = String::from("a,b,y\n");
    for i in 0..40 {
        let (a, b) = (
            f64::from(i * 7 % 16) / 8.0 - 1.0,
            f64::from(i * 5 % 12) / 4.0 - 1.5,
        );
        text += &format!("{a},{b},{}\n", 2.0 * a - 3.0 * b + 0.5);
    }
    text
}

/// The numbers of nested arrays.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

const PLANE: &str = r#"
spec plane;

data points {
    source  csv("points.csv", header: true);
    feature a: f32;
    feature b: f32;
    feature y: f32;
    map     x = stack([a, b]);
    shuffle 40;
    repeat;
    batch   20;
}

model (x: f32[batch, 2], y: f32[batch]) {
    layer line = dense(1);
    let guess = line(x)[_, 0];
    let slopes = line.kernel;
    let offset = line.bias;
    loss mean(square(guess - y));
    metric close = abs(guess - y) < 0.01;
}

train { data points; optimizer gradient_descent(0.2); steps 200; }

hooks { checkpoint none; log ([loss, close, slopes, offset], every: 100 steps); }
"#;

#[test]
fn iris_is_learned_whatever_the_seed() {
    for seed in 1..=5 {
        let output = example(
            "iris.trainspec",
            &["--seed", &seed.to_string(), "--format", "json"],
        );
        assert_eq!(code(&output), 0, "{}", err(&output));
        let events = events(&output);
        let start = find(&events, "start")[0];
        assert_eq!(start["seed"], seed);
        assert_eq!(start["data"][0]["records"], 120);
        assert_eq!(start["data"][1]["records"], 30);
        let last = find(&events, "eval").pop().unwrap();
        assert_eq!(last["step"], 300);
        let accuracy = &last["metrics"]["accuracy"];
        assert_eq!(accuracy["count"], 30.0);
        assert!(
            accuracy["mean"].as_f64().unwrap() >= 0.93,
            "seed {seed}: {last}"
        );
    }
}

#[test]
fn digits_are_learned_whatever_the_seed() {
    for seed in 1..=5 {
        let output = example(
            "digits.trainspec",
            &["--seed", &seed.to_string(), "--format", "json"],
        );
        assert_eq!(code(&output), 0, "{}", err(&output));
        let events = events(&output);
        let evals = find(&events, "eval");
        for name in ["last", "averaged"] {
            let mut own = evals.iter().rev().filter(|e| e["name"] == name);
            let last = own.next().unwrap();
            assert_eq!(last["step"], 2000);
            let accuracy = &last["metrics"]["accuracy"];
            assert_eq!(accuracy["count"], 360.0);
            assert!(
                accuracy["mean"].as_f64().unwrap() >= 0.965,
                "seed {seed}: {last}"
            );
        }
    }
}

#[test]
fn an_optimizer_of_ones_own_learns_the_digits() {
    let output = example("custom_optimizer.trainspec", &["--format", "json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let events = events(&output);
    let last = find(&events, "step").pop().unwrap();
    assert_eq!(last["step"], 400);
}

#[test]
fn linear_regression_reaches_the_least_squares() {
    let output = example("linear_regression.trainspec", &["--format", "json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let events = events(&output);
    let last = find(&events, "step").pop().unwrap();
    assert_eq!(last["step"], 1000);
    let slopes: Vec<f64> = serde_json::from_value(last["values"]["slopes"].clone()).unwrap();
    // The solution of the normal equations.
    for (found, known) in slopes.iter().zip([-0.2073, 0.2228, 0.5241]) {
        assert!((found - known).abs() < 0.01, "{slopes:?}");
    }
}

#[test]
fn a_plane_is_fitted_exactly() {
    let folder = Folder::new();
    folder.write("specs/points.csv", plane());
    folder.write("specs/plane.trainspec", PLANE);
    let output = folder.run(&["run", "specs/plane.trainspec", "--format", "json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let events = events(&output);
    let last = find(&events, "step").pop().unwrap()["values"].clone();
    let numbers = |name: &str| flat(&last[name]);
    for (found, known) in numbers("slopes")
        .iter()
        .chain(&numbers("offset"))
        .zip([2.0, -3.0, 0.5])
    {
        assert!((found - known).abs() < 1e-4, "{last}");
    }
    assert_eq!(last["close"]["count"], 20.0);
    let end = find(&events, "end")[0];
    assert_eq!(
        (end["step"].as_u64(), end["why"].as_str()),
        (Some(200), Some("steps"))
    );
    assert!(end["losses"]["loss"].as_f64().unwrap() < 1e-8);
}

#[test]
fn the_same_run_prints_the_same_lines() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    folder.write("plane.trainspec", PLANE);
    let first = folder.run(&["run", "plane.trainspec"]);
    assert_eq!(code(&first), 0, "{}", err(&first));
    let text = without_times(&first);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "plane: 3 parameters, seed 0");
    assert_eq!(lines[1], "data points: 40 records in batches of 20");
    assert!(
        lines[2].starts_with("train gradient_descent: 200 steps, on "),
        "{text}"
    );
    assert!(lines[3].starts_with("writes nothing: "), "{text}");
    assert!(lines[4].starts_with("step 100  loss "), "{text}");
    assert!(
        lines[5].contains("  close 1.000 (20 of 20)  slopes ["),
        "{text}"
    );
    assert!(lines[6].starts_with("trained 200 steps: loss "), "{text}");
    assert_eq!(lines.len(), 7);
    // Times and speeds stand in brackets at the end.
    assert_eq!(out(&first).matches("  [").count(), 3, "{}", out(&first));
    let again = folder.run(&["run", "plane.trainspec"]);
    assert_eq!(without_times(&again), text);
    let again = folder.run(&["run", "plane.trainspec", "--seed", "0"]);
    assert_eq!(without_times(&again), text);
    let other = folder.run(&["run", "plane.trainspec", "--seed", "1"]);
    assert_ne!(without_times(&other), text);
    let quiet = folder.run(&["run", "plane.trainspec", "--quiet", "--steps", "3"]);
    assert_eq!(out(&quiet).lines().count(), 1);
    assert!(out(&quiet).starts_with("trained 3 steps: loss "));
}

#[test]
fn data_may_lie_elsewhere_and_the_spec_may_be_piped() {
    let folder = Folder::new();
    folder.write("far/points.csv", plane());
    let spec = folder.write("plane.trainspec", PLANE);
    let output = folder.run(&[
        "run",
        "plane.trainspec",
        "--data-dir",
        "far",
        "--steps",
        "2",
    ]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let piped = command(&["run", "-", "--steps", "2"])
        .current_dir(folder.0.join("far"))
        .stdin(std::fs::File::open(spec).unwrap())
        .output()
        .unwrap();
    assert_eq!(out(&piped), out(&output));
}

#[test]
fn a_constant_can_be_set() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    folder.write(
        "plane.trainspec",
        PLANE
            .replace("spec plane;", "spec plane;\nconst STEPS = 200;")
            .replace("steps 200;", "steps STEPS;"),
    );
    let output = folder.run(&["run", "plane.trainspec", "--set", "STEPS=7", "--quiet"]);
    assert!(
        out(&output).starts_with("trained 7 steps"),
        "{}",
        err(&output)
    );
}

#[test]
fn bad_input_exits_with_2_and_says_where() {
    let folder = Folder::new();
    folder.write("plane.trainspec", PLANE);
    let missing = folder.run(&["run", "plane.trainspec"]);
    assert_eq!(code(&missing), 2);
    assert!(
        err(&missing).contains("points.csv: cannot be read: "),
        "{}",
        err(&missing)
    );

    folder.write("points.csv", "a,c,y\n1,2,3\n");
    let column = folder.run(&["run", "plane.trainspec"]);
    assert_eq!(code(&column), 2);
    let text = err(&column);
    assert!(
        text.contains("points.csv:1: there is no column `b`"),
        "{text}"
    );
    assert!(text.contains("plane.trainspec:7:13"), "{text}");
    assert!(text.contains("its columns are `a`, `c`, `y`"), "{text}");

    folder.write("points.csv", "a,b,y\n1,2,3\n1,x,3\n");
    let value = folder.run(&["run", "plane.trainspec"]);
    assert_eq!(code(&value), 2);
    assert!(
        err(&value).contains("points.csv:3: column `b`: `x` is no f32"),
        "{}",
        err(&value)
    );

    let json = folder.run(&["run", "plane.trainspec", "--format", "json"]);
    let events = events(&json);
    let error = events.last().unwrap();
    assert_eq!(
        (error["severity"].as_str(), code(&json)),
        (Some("error"), 2)
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .starts_with("points.csv:3: ")
    );

    folder.write(
        "wrong.trainspec",
        "spec wrong; model (x: f32[n]) { loss y; }",
    );
    assert_eq!(code(&folder.run(&["run", "wrong.trainspec"])), 2);
    assert_eq!(code(&folder.run(&["run", "none.trainspec"])), 2);
    assert_eq!(
        code(&folder.run(&["run", "plane.trainspec", "--disable-pass", "all"])),
        2
    );
    folder.write(
        "other.trainspec",
        PLANE.replace("csv(\"points.csv\", header: true)", "npy(\"a.npy\")"),
    );
    let other = folder.run(&["run", "other.trainspec"]);
    assert_eq!(code(&other), 2);
    assert!(
        err(&other).contains("a file of `npy` is one array, and there are 3 features"),
        "{}",
        err(&other)
    );
    assert!(
        err(&other).contains("other.trainspec:5:13"),
        "{}",
        err(&other)
    );
}

#[test]
fn a_loss_that_is_not_finite_fails_the_run() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    let wild = PLANE.replace("gradient_descent(0.2)", "gradient_descent(1e6)");
    folder.write("wild.trainspec", &wild);
    let output = folder.run(&["run", "wild.trainspec"]);
    assert_eq!(code(&output), 1);
    let text = err(&output);
    assert!(text.contains("`loss` is infinite in step "), "{text}");
    assert!(text.contains("loss mean(square(guess - y));"), "{text}");
    assert!(text.contains("nan (loss, fail: false)"), "{text}");
    folder.write(
        "calm.trainspec",
        wild.replace("hooks {", "hooks { nan (loss, fail: false);"),
    );
    let output = folder.run(&["run", "calm.trainspec"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        out(&output).contains("(`loss` is not finite)"),
        "{}",
        out(&output)
    );
}

#[test]
fn an_operation_without_a_value_is_reported_at_its_span() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    folder.write(
        "gather.trainspec",
        PLANE
            .replace(
                "metric close",
                "metric far = gather(y, cast(round(y * 100.0), i64));\n    metric close",
            )
            .replace("[loss, close,", "[loss, close, far,"),
    );
    let output = folder.run(&["run", "gather.trainspec"]);
    assert_eq!(code(&output), 1, "{}", out(&output));
    let text = err(&output);
    assert!(text.contains("out of range"), "{text}");
    assert!(
        text.contains("^^^^") && text.contains("gather.trainspec:21:18"),
        "{text}"
    );
    assert!(text.contains("in step 1"), "{text}");
}

#[test]
fn every_json_line_is_an_event_with_typed_values() {
    let folder = Folder::new();
    folder.write("points.csv", "1,2\n3,4\n");
    folder.write(
        "kinds.trainspec",
        r#"spec kinds;
        data points { source csv("points.csv"); feature a: i64; feature b: f32; batch 2; }
        model (a: i64[batch], b: f32[batch]) {
            param w: f32 = ones();
            let large = b > 3.0;
            let infinite = b / 0.0;
            let first = a[0];
            loss mean(square(w * b));
        }
        train { data points; optimizer gradient_descent(0.0); steps 5; }
        hooks { log ([a, large, infinite, first, step], every: 1 step); }"#,
    );
    let output = folder.run(&["run", "kinds.trainspec", "--format", "json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let events = events(&output);
    assert!(events.iter().all(|event| event["event"].is_string()));
    let values = &find(&events, "step")[0]["values"];
    assert_eq!(values["a"], serde_json::json!([1, 3]));
    assert_eq!(values["large"], serde_json::json!([false, true]));
    assert_eq!(
        values["infinite"],
        serde_json::json!(["Infinity", "Infinity"])
    );
    assert_eq!(values["first"], 1);
    assert_eq!(values["step"], 1);
}

#[test]
fn a_label_that_is_no_class_is_an_error() {
    let folder = Folder::new();
    folder.write("points.csv", "1,0\n2,7\n");
    let spec = |bound: &str| {
        format!(
            r#"spec labels;
            data points {{ source csv("points.csv"); feature x: f32; feature y: i64; map x = expand_dims(x, axis: 0); batch 2; }}
            model (x: f32[batch, 1], y: i64[batch]{bound}) {{
                loss sparse_softmax_cross_entropy(labels: y, logits: dense(x, 3));
            }}
            train {{ data points; optimizer gradient_descent(0.1); steps 5; }}"#
        )
    };
    folder.write("open.trainspec", spec(""));
    let output = folder.run(&["run", "open.trainspec"]);
    assert_eq!(code(&output), 1);
    assert!(
        err(&output).contains("`labels`: 7 is not in 0..3"),
        "{}",
        err(&output)
    );
    folder.write("bound.trainspec", spec(" in 0..10"));
    let output = folder.run(&["check", "bound.trainspec"]);
    assert_eq!(code(&output), 2);
    let text = err(&output);
    assert!(
        text.contains("these integers are in 0..10, and must be in 0..3"),
        "{text}"
    );
}

#[test]
fn a_dry_run_says_what_a_training_needs_and_trains_nothing() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    folder.write("plane.trainspec", PLANE);
    let before = folder.files();
    let output = folder.run(&["run", "--dry-run", "plane.trainspec"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let text = out(&output);
    assert!(text.starts_with("plane: 3 parameters, seed "), "{text}");
    assert!(
        text.contains("\ndata points: 40 records in batches of 20\n"),
        "{text}"
    );
    assert!(text.contains("\nmemory: state "), "{text}");
    assert!(!text.contains("step 1"), "{text}");
    let output = folder.run(&["run", "--dry-run", "--format", "json", "plane.trainspec"]);
    let events = events(&output);
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(event["event"], "dry_run");
    assert_eq!(event["parameters"], 3);
    assert!(event["step_flops"].as_u64().unwrap() > 100, "{event}");
    // Of each record a, b, y and x, which is both.
    assert_eq!(event["batch_bytes"], 20 * 5 * 4);
    assert!(event["state_bytes"].as_u64().unwrap() >= 3 * 4 + 8);
    assert!(event["step_bytes"].as_u64().unwrap() > 0);
    assert_eq!(folder.files(), before);
    for engine in ["--interpret", "--threads=1"] {
        let output = folder.run(&["run", "--dry-run", engine, "plane.trainspec"]);
        assert_eq!(code(&output), 0, "{}", err(&output));
    }
    // What gradient accumulation takes is said where it is asked for.
    assert!(!text.contains("accumulate"), "{text}");
    let accumulated = PLANE.replace("train {", "train { accumulate 4;");
    folder.write("plane.trainspec", accumulated.as_bytes());
    let output = folder.run(&["run", "--dry-run", "plane.trainspec"]);
    let text = out(&output);
    let line = text.lines().find(|line| line.starts_with("accumulate 4: "));
    let line = line.unwrap_or_else(|| panic!("{text}{}", err(&output)));
    assert!(line.contains("of the memory, for partial sums"), "{line}");
    let more = "the program of micro-batches, and 3 more batches";
    assert!(line.ends_with(more), "{line}");
}

#[test]
fn a_dry_run_fails_as_a_run_does() {
    let folder = Folder::new();
    let unused = "data other { source csv(\"other.csv\"); feature z: f32; batch 1; }\n";
    for (spec, points, part) in [
        (PLANE.to_owned(), None, "points.csv"),
        (
            PLANE.to_owned(),
            Some("a,b,y\n1,2,x\n".to_owned()),
            "points.csv:2",
        ),
        // A run would not open it.
        (
            PLANE.replace("model (", &format!("{unused}model (")),
            Some(plane()),
            "other.csv",
        ),
    ] {
        if let Some(points) = points {
            folder.write("points.csv", points);
        }
        folder.write("plane.trainspec", &spec);
        let output = folder.run(&["run", "--dry-run", "plane.trainspec"]);
        assert_eq!(code(&output), 2, "{}", out(&output));
        assert!(err(&output).contains(part), "{}", err(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_too_large_for_memory_is_refused() {
    let folder = Folder::new();
    folder.write("points.csv", "1,2\n");
    let spec = |layers: &str| {
        format!(
            r#"spec large;
            data points {{ source csv("points.csv"); feature x: f32; feature y: f32; map x = expand_dims(x, axis: 0); batch 1; }}
            model (x: f32[batch, 1], y: f32[batch]) {{ loss mean(square((x |> {layers} |> dense(1))[_, 0] - y)); }}
            train {{ data points; optimizer adam(0.1); steps 5; }}
            hooks {{ checkpoint none; }}"#
        )
    };
    folder.write(
        "large.trainspec",
        spec("dense(1_000_000) |> dense(1_000_000)"),
    );
    let output = folder.run(&["run", "large.trainspec"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    let text = err(&output);
    assert!(
        text.contains("the state needs 10.9 TiB of memory"),
        "{text}"
    );
    assert!(
        text.contains("`dense_1/kernel` (f32[1000000, 1000000]): 3.6 TiB"),
        "{text}"
    );
    assert!(!std::path::Path::new(&folder.path("runs")).exists());
    let output = folder.run(&["bench", "large.trainspec"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(
        err(&output).contains("the program needs 3.6 TiB of memory"),
        "{}",
        err(&output)
    );
    // Within what the machine has, but beyond a limit of the process.
    folder.write("limited.trainspec", spec("dense(10_000) |> dense(10_000)"));
    let limited = "ulimit -v 800000; exec \"$0\" run limited.trainspec";
    let output = std::process::Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_trainspec")])
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("(`ulimit -v`)"), "{}", err(&output));
}

/// The plane with other hooks.
fn plane_with(hooks: &str) -> String {
    let (spec, _) = PLANE.split_once("hooks {").unwrap();
    format!("{spec}{hooks}")
}

#[test]
fn hooks_of_a_program_are_a_warning_of_check_and_refused_by_run() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    let hooks = "\nhooks { hook \"mine\" (threshold: 0.5); feed \"yours\"; }\n";
    folder.write("plane.trainspec", plane_with(hooks));
    let checked = folder.run(&["check", "plane.trainspec"]);
    let text = err(&checked);
    assert_eq!(code(&checked), 0, "{text}");
    assert!(text.contains("warning[unknown-name]"), "{text}");
    let denied = folder.run(&["check", "plane.trainspec", "--deny-warnings"]);
    assert_eq!(code(&denied), 2);
    for arguments in [
        &["run", "plane.trainspec"][..],
        &["run", "plane.trainspec", "--dry-run"],
    ] {
        let refused = folder.run(arguments);
        let text = err(&refused);
        assert_eq!(code(&refused), 2, "{text}");
        assert!(text.contains("error[unknown-name]"), "{text}");
        assert!(text.contains("`hook \"mine\"` is not registered"), "{text}");
        assert!(
            text.contains("`feed \"yours\"` is not registered"),
            "{text}"
        );
        assert!(
            text.contains("`trainspec run` has none, and refuses them"),
            "{text}"
        );
    }
}

#[test]
fn early_stops_and_final_values_are_printed() {
    let folder = Folder::new();
    folder.write("points.csv", plane());
    let hooks = "\neval { data points; steps 1; every 1 steps; metrics loss; }\n\
                 hooks { early_stop (loss, patience: 2, min_delta: 1e9); final_ops [loss, step]; }\n";
    folder.write("plane.trainspec", plane_with(hooks));
    let output = folder.run(&["run", "plane.trainspec"]);
    let text = out(&output);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(text.contains("final at step 3  loss "), "{text}");
    assert!(text.contains("(`loss` no longer improves)"), "{text}");
    let json = folder.run(&["run", "plane.trainspec", "--format", "json"]);
    let events = events(&json);
    let last = find(&events, "final")[0];
    assert_eq!(last["step"], 3);
    assert!(last["values"]["loss"].is_number(), "{last}");
    assert_eq!(find(&events, "end")[0]["why"], "no-improvement");
}

/// What is proposed after a run is typed as it stands: a shell has to read the constants and folders of this run in it.
#[test]
fn the_commands_after_a_run_concern_that_run() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("my specs")).unwrap();
    let spec = PLANE
        .replacen("spec plane;", "spec plane;\nconst FACTOR = 1.0;", 1)
        .replacen(
            "    loss mean",
            "    output twice = 2.0 * x;\n    loss mean",
            1,
        );
    assert!(spec.contains("FACTOR") && spec.contains("output"));
    folder.write(
        "my specs/plane.trainspec",
        spec.replace("0.2)", "0.2 * FACTOR)"),
    );
    folder.write("my specs/points.csv", plane());
    let given = ["--set", "FACTOR=0.5", "--seed", "4", "--dir", "it's here"];
    let first = [&["run", "my specs/plane.trainspec"][..], &given].concat();
    let first = folder.run(&first);
    assert_eq!(code(&first), 0, "{}", err(&first));
    let text = out(&first);
    let proposed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("trainspec "))
        .map(|(_, rest)| rest)
        .collect();
    assert_eq!(proposed.len(), 3, "go on, predict, plot: {text}");
    let program = env!("CARGO_BIN_EXE_trainspec");
    for command in proposed {
        let command = command.replace("FILE", "'my specs/points.csv'");
        let typed = format!("'{program}' {command}");
        let done = std::process::Command::new("sh")
            .args(["-c", &typed])
            .current_dir(&folder.0)
            .output()
            .unwrap();
        assert_eq!(code(&done), 0, "{typed}: {}", err(&done));
        let resumed = out(&done).contains("resumed from");
        assert_eq!(
            resumed,
            command.starts_with("run"),
            "{typed}: {}",
            out(&done)
        );
    }
}

/// The mean accuracy over 20 random splits of the penguins.
#[test]
fn penguins_that_were_held_out_are_classified() {
    let (mut right, mut all) = (0.0, 0.0);
    for split in 1..=20 {
        let split = format!("SPLIT={split}");
        let output = example("penguins.trainspec", &["--set", &split, "--format", "json"]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        let events = events(&output);
        let accuracy = &find(&events, "eval").last().unwrap()["metrics"]["accuracy"];
        right += accuracy["sum"].as_f64().unwrap();
        all += accuracy["count"].as_f64().unwrap();
    }
    assert_eq!(all, 20.0 * 69.0);
    assert!(right / all >= 0.98, "{right} of {all}");
}

/// A write beyond the limit of a file's size fails with a message, as a full disk does; the signal would end the process without a word.
#[cfg(unix)]
#[test]
fn a_limit_of_the_size_of_files_is_an_error() {
    let folder = Folder::new();
    folder.write("plane.trainspec", PLANE);
    folder.write("points.csv", plane());
    let typed = format!(
        "ulimit -f 1; exec '{}' run plane.trainspec --dir runs/plane",
        env!("CARGO_BIN_EXE_trainspec")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &typed])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("File too large"), "{}", err(&output));
}
