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
        let mut child = command(&["run", "line.trainspec"])
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
        assert!(rest.last().unwrap().contains("(stopped)"), "{rest:?}");
        let message = err(&output);
        assert!(
            message.contains("`trainspec run line.trainspec` goes on"),
            "{message}"
        );
        let steps = folder.run(&["run", "line.trainspec", "--steps", "1"]);
        assert!(out(&steps).contains("resumed from"), "{}", out(&steps));
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
    }
    let output = command(&[
        "verify-resume",
        root()
            .join("examples/linear_regression.trainspec")
            .to_str()
            .unwrap(),
    ]);
    let output = { output }.output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("add `checkpoint"), "{}", err(&output));
}
