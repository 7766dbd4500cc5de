//! Sweeps that are run by several jobs, stopped and killed end with the same table.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Folder, RunCommand, code, command, err, out};

const SPEC: &str = r#"
spec line;

const RATE = 0.01;
const WIDTH = 4;

data points { source csv("points.csv"); feature x: f32; feature y: f32; shuffle 20; repeat; batch 8; }

data held { source csv("points.csv"); feature x: f32; feature y: f32; batch 30; }

model (x: f32[batch], y: f32[batch]) {
    let h = expand_dims(x, axis: 1) |> dense(WIDTH, activation: tanh) |> dropout(0.2);
    loss mean(square(dense(h, 1)[_, 0] - y));
}

train { data points; optimizer adam(RATE); steps STEPS; }

EVAL

hooks { log (loss, every: 20 steps); }
"#;

const EVAL: &str = "eval { data held; metrics [loss]; }";

const SPACE: [&str; 9] = [
    "sweep",
    "line.trainspec",
    "--grid",
    "WIDTH=2,4",
    "--sample",
    "RATE=1e-3..1e-1:log",
    "--trials",
    "6",
    "--seed=3",
];

fn folder(steps: u64, eval: &str) -> Folder {
    let folder = Folder::new();
    let rows: String = (0..30).map(|i| format!("{},{}\n", i, 2 * i)).collect();
    folder.write("points.csv", rows.as_bytes());
    write_spec(&folder, steps, eval);
    folder
}

fn write_spec(folder: &Folder, steps: u64, eval: &str) {
    let text = SPEC.replace("STEPS", &steps.to_string());
    let text = text.replace("EVAL", eval);
    folder.write("line.trainspec", text.as_bytes());
}

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SPACE.iter().chain(more).copied().collect()
}

/// The table of a sweep that runs to its end.
fn table(folder: &Folder, more: &[&str]) -> String {
    let output = folder.run(&sweep(&[more, &["--quiet"]].concat()));
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    out(&output)
}

fn start(folder: &Folder, more: &[&str]) -> Child {
    command(&sweep(more))
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the sweep says something.
fn wait_for(child: &mut Child, part: &str) {
    let lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.contains(part)), "{part}");
}

#[cfg(unix)]
fn send(signal: &str, process: &str) {
    let sent = Command::new("kill").args([signal, process]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn the_table_does_not_depend_on_jobs_and_threads() {
    let expected = table(&folder(60, EVAL), &[]);
    assert_eq!(expected.lines().count(), 7, "{expected}");
    for more in [&["--jobs", "2"][..], &["-j3", "--threads", "4"]] {
        assert_eq!(table(&folder(60, EVAL), more), expected);
    }
}

#[cfg(unix)]
#[test]
fn a_sweep_that_is_stopped_goes_on_to_the_same_table() {
    let expected = table(&folder(4_000, EVAL), &[]);
    for (signal, exit_code) in [("-INT", 130), ("-TERM", 143)] {
        let folder = folder(4_000, EVAL);
        let mut child = start(&folder, &["--jobs", "2"]);
        wait_for(&mut child, "trial 00");
        send(signal, &child.id().to_string());
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), exit_code, "{}", err(&output));
        let said = "goes on from here";
        assert!(err(&output).contains(said), "{}", err(&output));
        assert!(
            err(&output).contains("`trainspec sweep line.trainspec --grid WIDTH=2,4 --sample"),
            "{}",
            err(&output)
        );
        assert_eq!(table(&folder, &[]), expected);
    }
}

#[cfg(unix)]
#[test]
fn a_sweep_that_is_killed_goes_on_to_the_same_table() {
    for eval in [EVAL, ""] {
        let expected = table(&folder(400, eval), &[]);
        let folder = folder(400, eval);
        for pause in [0, 100, 200, 300, 400, 500] {
            let mut child = start(&folder, &["--jobs", "2", "--save-every", "50"]);
            std::thread::sleep(Duration::from_millis(pause));
            // Its runs find their standard input closed, and stop by themselves.
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(table(&folder, &[]), expected);
    }
}

#[test]
fn a_run_whose_end_was_not_recorded_has_the_same_row() {
    for eval in [EVAL, ""] {
        let folder = folder(60, eval);
        let expected = table(&folder, &[]);
        let file = folder.0.join("runs/line-sweep/sweep.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut known: serde_json::Value = serde_json::from_str(&text).unwrap();
        known["trials"].as_array_mut().unwrap().drain(1..4);
        std::fs::write(&file, known.to_string()).unwrap();
        assert_eq!(table(&folder, &[]), expected);
    }
}

#[cfg(unix)]
#[test]
fn a_trial_whose_process_is_killed_is_a_row_and_can_be_run_again() {
    let folder = folder(100_000_000, EVAL);
    let mut child = command(&[
        "sweep",
        "line.trainspec",
        "--grid",
        "RATE=0.1,0.2",
        "--jobs=2",
    ])
    .current_dir(&folder.0)
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let lock = |trial: &str| folder.0.join(format!("runs/line-sweep/{trial}/run.lock"));
    let owner = |trial: &str| loop {
        match std::fs::read_to_string(lock(trial)) {
            Ok(owner) if !owner.trim().is_empty() => return owner.trim().to_owned(),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    send("-KILL", &owner("000"));
    let other = owner("001");
    wait_for(
        &mut child,
        "trial 000 (RATE=0.1): failed: its process was killed by signal 9",
    );
    // A run that is stopped is no failure of the sweep; the other one ended, so that the sweep has nothing more to run.
    send("-TERM", &other);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 1, "{}", err(&output));
    let rows: Vec<&str> = std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .collect();
    assert!(rows[1].contains("killed by signal 9"), "{rows:?}");
    assert!(rows[2].contains("interrupted"), "{rows:?}");
}

#[test]
fn a_spec_that_changes_meanwhile_ends_the_sweep() {
    let folder = folder(50, EVAL);
    let grid: Vec<String> = (1..60).map(|i| format!("0.{i:03}")).collect();
    let grid = format!("RATE={}", grid.join(","));
    let arguments = ["sweep", "line.trainspec", "--grid", &grid];
    let mut child = command(&arguments)
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut child, "trial 000");
    let before = std::fs::read_to_string(folder.0.join("line.trainspec")).unwrap();
    folder.write("line.trainspec", before.replace("0.2", "0.3").as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(
        err(&output).contains("line.trainspec has changed while the sweep ran"),
        "{}",
        err(&output)
    );
    let other = folder.run(&arguments);
    assert_eq!(code(&other), 2, "{}", err(&other));
    assert!(err(&other).contains("the spec now has"), "{}", err(&other));
    folder.write("line.trainspec", before.as_bytes());
    let output = folder.run(&arguments);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(!out(&output).contains("failed"), "{}", out(&output));
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_sweep_and_names_the_file() {
    let folder = folder(60, EVAL);
    // A limit of the length of files stands in for a disk that is full.
    let limited = format!(
        "trap '' XFSZ; ulimit -f 2; exec {} {} --quiet",
        env!("CARGO_BIN_EXE_trainspec"),
        sweep(&[]).join(" ")
    );
    let output = Command::new("sh")
        .args(["-c", &limited])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("sweep.json"), "{}", err(&output));
    assert_eq!(table(&folder, &[]).lines().count(), 7);
}

#[test]
fn a_run_stops_at_the_end_of_its_standard_input() {
    let folder = folder(100_000_000, EVAL);
    let output = folder.run(&["run", "line.trainspec", "--stop-at-eof"]);
    assert_eq!(code(&output), 143, "{}", err(&output));
    let both = folder.run(&["run", "-", "--stop-at-eof"]);
    assert_eq!(code(&both), 2, "{}", err(&both));
    assert!(
        err(&both).contains("write the spec into a file"),
        "{}",
        err(&both)
    );
}
