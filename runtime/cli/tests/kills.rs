//! SIGKILL at random moments of a run: whatever was cut off, the run goes on and ends with the same bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use trainspec::saver::NewestCheckpoint;
use trainspec_formats::checkpoint::CheckpointReader;
use trainspec_testing::xorshift::XorShift;

use crate::support::{Folder, RunCommand, code, command, err};

const KILLS: u64 = 25;

const SPEC: &str = r#"
spec killed;

data points {
    source  csv("points.csv");
    feature x: f32;
    feature y: f32;
    map     x = x + 0.01 * random_normal([]);
    shuffle 20;
    repeat;
    batch   4;
}

data held { source csv("points.csv"); feature x: f32; feature y: f32; batch 30; }

model (x: f32[batch], y: f32[batch]) {
    let h = expand_dims(x, axis: 1) |> dense(8) |> tanh |> dropout(0.2);
    let guess = dense(h, 1)[_, 0];
    loss mean(square(guess - y));
}

train {
    data      points;
    optimizer adam(learning_rate: 0.01);
    ema       (decay: 0.9);
    steps     600;
}

eval { data held; every 50 steps; metrics [loss]; }

hooks {
    checkpoint (dir: "runs", every: 25 steps, keep: 3, best: loss);
    summary    (every: 20 steps) { scalar loss; }
    log        (loss, every: 300 steps);
}
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    let rows: String = (0..30).map(|i| format!("{},{}\n", i, 2 * i)).collect();
    folder.write("points.csv", rows.as_bytes());
    folder.write("killed.trainspec", SPEC.as_bytes());
    folder
}

/// The bytes of every tensor of the newest checkpoint of a folder, and its step.
fn newest(folder: &Path) -> Option<BTreeMap<String, String>> {
    let found = NewestCheckpoint::find(folder, None).unwrap();
    // A checkpoint that is listed is complete: none is passed over.
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    let path = found.path?;
    let reader = CheckpointReader::open_prefix(&path).unwrap();
    let names = reader.names().into_iter().map(str::to_owned);
    Some(
        names
            .map(|name| {
                let tensor = reader.get_tensor(&name).unwrap();
                let value = format!("{:?} {:?}", tensor.shape(), tensor.elements());
                (name, value)
            })
            .collect(),
    )
}

#[cfg(unix)]
#[test]
fn a_run_killed_at_random_moments_ends_with_the_same_bytes() {
    let straight = folder();
    let start = Instant::now();
    let output = straight.run(&["run", "killed.trainspec", "--quiet"]);
    let time = start.elapsed();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let expected = newest(&straight.0.join("runs")).unwrap();
    let best = newest(&straight.0.join("runs/best")).unwrap();
    assert!(expected.len() > 10, "{:?}", expected.keys());
    let mut random = XorShift::new(20_261_118);
    let (mut killed, mut resumed) = (0, 0);
    let mut attempt = 0;
    // Several moments in one run, as it happens to real ones: a run goes on until it is through, then another begins.
    let mut run = folder();
    while killed < KILLS || resumed < KILLS / 2 {
        attempt += 1;
        assert!(attempt < 20 * KILLS, "runs end before they are killed");
        let mut child = command(&["run", "killed.trainspec", "--quiet"])
            .current_dir(&run.0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let part = random.below(1_000) as f64 / 1_000.0;
        std::thread::sleep(Duration::from_secs_f64(time.as_secs_f64() * part));
        let was_running = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let runs = run.0.join("runs");
        match was_running {
            true => {
                killed += 1;
                resumed += u64::from(newest(&runs).is_some());
            }
            false => {
                assert_eq!(code(&output), 0, "{}", err(&output));
                assert_eq!(newest(&runs).as_ref(), Some(&expected), "attempt {attempt}");
                assert_eq!(newest(&runs.join("best")).as_ref(), Some(&best));
                run = folder();
            }
        }
    }
    let output = run.run(&["run", "killed.trainspec", "--quiet"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let runs = run.0.join("runs");
    assert_eq!(newest(&runs).as_ref(), Some(&expected));
    assert_eq!(newest(&runs.join("best")).as_ref(), Some(&best));
}
