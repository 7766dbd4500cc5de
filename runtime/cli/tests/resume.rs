//! Runs that are interrupted: signals, a second call, another training in the folder, and the proof that nothing changes.

use std::process::Stdio;

use crate::support::{Folder, RunCommand, code, command, err, out, root};

const LINE: &str = r#"
spec line;

data points {
    source  csv("points.csv");
    feature x: f32;
    feature y: f32;
    shuffle 20;
    repeat;
    batch   4;
}

model (x: f32[batch], y: f32[batch]) {
    param a: f32 = zeros();
    loss mean(square(a * x - y));
}

train { data points; optimizer adam(learning_rate: 0.01); steps STEPS; }

hooks {
    checkpoint (dir: "runs/line", every: 10 steps, keep: 2);
    summary    (every: 5 steps) { scalar loss; }
    log        (loss, every: 100 steps, at_end: true);
}
"#;

fn folder(steps: u64) -> Folder {
    let folder = Folder::new();
    let rows: String = (0..30).map(|i| format!("{i},{}\n", 2 * i)).collect();
    folder.write("points.csv", rows.as_bytes());
    let text = LINE.replace("STEPS", &steps.to_string());
    folder.write("line.trainspec", text.as_bytes());
    folder
}

#[test]
fn a_second_call_goes_on_and_a_third_has_nothing_to_do() {
    let folder = folder(30);
    let first = folder.run(&["run", "line.trainspec", "--steps", "20"]);
    assert_eq!(code(&first), 0, "{}", err(&first));
    assert!(out(&first).contains("saved runs/line/model.ckpt-20 at step 20"));
    let second = folder.run(&["run", "line.trainspec"]);
    assert_eq!(code(&second), 0, "{}", err(&second));
    assert!(
        out(&second).contains("resumed from runs/line/model.ckpt-20 at step 20"),
        "{}",
        out(&second)
    );
    let third = folder.run(&["run", "line.trainspec"]);
    assert_eq!(code(&third), 0, "{}", err(&third));
    assert!(
        err(&third).contains("this run has finished: step 30"),
        "{}",
        err(&third)
    );
    let other = folder.run(&["run", "line.trainspec", "--seed", "7"]);
    assert_eq!(code(&other), 2);
    assert!(err(&other).contains("--fresh"), "{}", err(&other));
    let fresh = folder.run(&["run", "line.trainspec", "--seed", "7", "--fresh"]);
    assert_eq!(code(&fresh), 0, "{}", err(&fresh));
    assert!(folder.0.join("runs/line.1/checkpoint").exists());
}

#[cfg(unix)]
#[test]
fn a_signal_saves_and_says_how_to_go_on() {
    use std::io::{BufRead, BufReader};
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let folder = folder(100_000_000);
        let options = ["--steps", "200000000", "--threads", "1"];
        let mut child = command(&[&["run", "line.trainspec"][..], &options].concat())
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The first line that is logged says that it trains.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("step 100 ")));
        let pid = child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(sent.unwrap().success());
        let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), expected, "{rest:?}");
        assert!(
            rest.iter().any(|line| line.contains("(stopped)")),
            "{rest:?}"
        );
        let message = err(&output);
        assert!(
            message
                .contains("`trainspec run line.trainspec --threads 1 --steps 200000000` goes on"),
            "{message}"
        );
        let steps = folder.run(&["run", "line.trainspec", "--steps", "1"]);
        assert!(out(&steps).contains("resumed from"), "{}", out(&steps));
    }
}

/// Batches of 1000 records and of one in turn. A step with the first takes moments, and seconds where it is interpreted: within it a run
/// does not look whether it is to stop.
const SLOW: &str = r#"
spec slow;

data points {
    source csv("many.csv");
    feature x: f32;
    feature y: f32;
    repeat;
    batch (size: 1_000, remainder: keep);
}

model (x: f32[batch], y: f32[batch]) {
    param w: f32[400, 400] = normal(stddev: 0.01);
    let wide = expand_dims(x, axis: 1) * fill([1, 400], 1.0);
    let guess = sum(wide @ w @ w @ w @ w @ w @ w, axis: 1);
    loss mean(square(guess - y));
}

train { data points; optimizer gradient_descent(1e-9); steps 3; }

hooks {
    checkpoint (dir: "runs/slow", every: 5 steps);
    log        (loss, every: 1 steps);
}
"#;

#[cfg(unix)]
#[test]
fn a_second_signal_exits_at_once_and_loses_nothing_that_was_saved() {
    use std::io::{BufRead, BufReader};
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let folder = folder(1);
        folder.write("slow.trainspec", SLOW.as_bytes());
        let rows: String = (0..1_001).map(|i| format!("0.5,{}\n", i % 7)).collect();
        folder.write("many.csv", rows.as_bytes());
        let first = folder.run(&["run", "slow.trainspec", "--steps", "1"]);
        assert_eq!(code(&first), 0, "{}", err(&first));
        let mut child = command(&["run", "slow.trainspec", "--interpret"])
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The next step is the slow one.
        assert!(lines.any(|line| line.unwrap().starts_with("step 2 ")));
        let pid = child.id().to_string();
        // Two that come at the same time are one: until it has ended.
        let mut sent = 0;
        while child.try_wait().unwrap().is_none() {
            let killed = std::process::Command::new("kill")
                .args([signal, &pid])
                .stderr(Stdio::null())
                .status();
            sent += u64::from(killed.unwrap().success());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(sent >= 2, "{sent}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), expected, "{}", err(&output));
        // It has neither finished the step nor saved it.
        let said = err(&output).contains("`trainspec run slow.trainspec");
        assert!(!said, "{}", err(&output));
        let runs = folder.0.join("runs/slow");
        assert!(runs.join("model.ckpt-1.index").exists());
        assert!(!runs.join("model.ckpt-2.index").exists());
        assert!(!runs.join("model.ckpt-3.index").exists());
        let again = folder.run(&["run", "slow.trainspec", "--steps", "2"]);
        assert_eq!(code(&again), 0, "{}", err(&again));
        let resumed = "resumed from runs/slow/model.ckpt-1 at step 1";
        assert!(out(&again).contains(resumed), "{}", out(&again));
    }
}

#[test]
fn killed_and_resumed_is_never_killed() {
    let path = root().join("examples/monitored.trainspec");
    let path = path.to_str().unwrap();
    for threads in ["1", "2"] {
        let output = command(&["verify-resume", path, "--kills", "2", "--threads", threads])
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
        assert!(out(&output).contains("the same bits"), "{}", out(&output));
        assert!(
            out(&output).contains("killed and resumed"),
            "{}",
            out(&output)
        );
    }
    // A run that saves at its end alone cannot be killed in between, and proves nothing.
    let output = command(&["verify-resume", path, "--steps", "20", "--save-every", "20"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 1, "{}{}", out(&output), err(&output));
    assert!(
        err(&output).contains("give it more `--steps`"),
        "{}",
        err(&output)
    );
    // One without a `checkpoint` hook is saved all the same.
    let path = root().join("examples/linear_regression.trainspec");
    let path = path.to_str().unwrap();
    let output = command(&["verify-resume", path, "--steps", "4000"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("the same bits"), "{}", out(&output));
}

#[test]
fn a_spec_without_a_checkpoint_hook_is_saved_where_a_folder_is_given() {
    let folder = folder(30);
    let text = LINE.replace("STEPS", "30");
    let text = &text[..text.find("hooks {").unwrap()];
    folder.write("line.trainspec", text.as_bytes());
    let run = |steps| folder.run(&["run", "line.trainspec", "--dir", "out", "--steps", steps]);
    let first = run("20");
    assert_eq!(code(&first), 0, "{}", err(&first));
    assert!(out(&first).contains("saved out/model.ckpt-20"));
    let second = run("30");
    assert!(out(&second).contains("resumed from out/model.ckpt-20"));
    let every = ["--save-every", "7", "--fresh"];
    let third = folder.run(&[&["run", "line.trainspec", "--dir", "out"][..], &every].concat());
    assert!(
        out(&third).contains("saved out/model.ckpt-7 at"),
        "{}",
        out(&third)
    );
}

#[cfg(unix)]
#[test]
fn a_closed_output_saves_and_ends_the_run() {
    use std::io::{BufRead, BufReader};
    let folder = folder(100_000_000);
    let mut child = command(&["run", "line.trainspec"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("step 100 ")));
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 141, "{}", err(&output));
    assert!(err(&output).contains("goes on"), "{}", err(&output));
    let steps = folder.run(&["run", "line.trainspec", "--steps", "1"]);
    assert!(out(&steps).contains("resumed from"), "{}", out(&steps));
}

#[test]
fn a_warm_start_says_what_it_took_and_counts_once() {
    let folder = folder(10);
    let first = folder.run(&["run", "line.trainspec"]);
    assert_eq!(code(&first), 0, "{}", err(&first));
    let warm = ["run", "line.trainspec", "--dir", "runs/warm"];
    let second = folder.run(&[&warm[..], &["--warm-start", "runs/line"]].concat());
    assert_eq!(code(&second), 0, "{}", err(&second));
    let said = "warm-started 1 variable from runs/line\n  a\n  left over there: `a/Adam`, `a/Adam_1`, `beta1_power`, `beta2_power`, `global_step`\n";
    assert!(out(&second).contains(said), "{}", out(&second));
    // It goes on from its own checkpoint, and says that the option is not used.
    let more = ["--warm-start", "runs/line", "--steps", "20"];
    let third = folder.run(&[&warm[..], &more].concat());
    assert_eq!(code(&third), 0, "{}", err(&third));
    assert!(out(&third).contains("resumed from"), "{}", out(&third));
    assert!(!out(&third).contains("warm-started"), "{}", out(&third));
    let message = err(&third);
    assert!(message.contains("`--warm-start` is not used"), "{message}");
    // What is not there, and what does not fit, is an error before the first step.
    let other = LINE
        .replace("STEPS", "1")
        .replace("param a", "param ab")
        .replace("a * x", "ab * x")
        .replace("runs/line", "runs/other");
    folder.write("other.trainspec", other.as_bytes());
    for (path, part) in [
        ("runs/line", "the nearest name there is `a`"),
        ("nowhere", "nowhere"),
    ] {
        for dry in [&["--dry-run"][..], &[]] {
            let arguments = ["run", "other.trainspec", "--warm-start", path];
            let failed = folder.run(&[&arguments[..], dry].concat());
            assert_eq!(code(&failed), 2, "{}", err(&failed));
            assert!(err(&failed).contains(part), "{}", err(&failed));
        }
    }
}

#[test]
fn a_pipeline_of_everything_is_never_killed() {
    let folder = Folder::new();
    let rows = |n: u32| {
        (0..n)
            .map(|i| format!("{i},{}\n", 2 * i))
            .collect::<String>()
    };
    folder.write("points.csv", rows(60));
    folder.write("more.csv", format!("{}red,1\n{}", rows(20), rows(9)));
    folder.write(
        "all.trainspec",
        "spec all;
        data a {
            source csv([\"points.csv\", \"more.csv\"], on_error: skip(max: 2)); feature x: f32; feature y: f32;
            interleave (cycle: 2, block: 3); map x = x + 0.1 * random_normal([]);
        }
        data b { source csv(\"points.csv\"); feature x: f32; feature y: f32; cache; shuffle; take 40; }
        data both {
            source mix(a: 2, b: 1, seed: 1); filter y < 100.0; window (size: 3, shift: 1);
            map x = x[0] + 0.1 * x[1]; map y = y[2]; shuffle (buffer: 7, seed: 3); repeat; batch 4; prefetch 3;
        }
        model (x: f32[batch], y: f32[batch]) { param w: f32 = zeros(); loss mean(square(0.01 * (w * x - y))); }
        train { data both; optimizer adam(0.01); steps 3_000; }
        hooks { checkpoint (dir: \"run\", every: 100 steps); }
        ",
    );
    let output = folder.run(&["verify-resume", "all.trainspec", "--kills", "3"]);
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("the same bits"), "{}", out(&output));
}

#[test]
fn the_records_of_a_checkpoint_are_printed() {
    let folder = folder(20);
    assert_eq!(code(&folder.run(&["run", "line.trainspec"])), 0);
    let printed = folder.run(&["cat", "runs/line", "_trainspec/records"]);
    assert_eq!(code(&printed), 0, "{}", err(&printed));
    let text = out(&printed);
    assert!(
        text.lines()
            .any(|line| line == "input/1:" || line.starts_with("input")),
        "{text}"
    );
    assert!(!text.contains("trainspec-records 1"), "{text}");
}

#[test]
fn errors_of_data_have_their_place_as_json() {
    let folder = folder(20);
    folder.write("points.csv", "1,2\n3,red\n");
    let output = folder.run(&["data", "line.trainspec", "--format", "json"]);
    assert_eq!(code(&output), 2);
    let found: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    let expected =
        serde_json::json!({ "file": "points.csv", "line": 2, "record": null, "field": "y" });
    assert_eq!(found["data"], expected, "{found}");
}
