//! What saving in the background costs the steps: a state of 100 MB that is saved several times while it trains.
//!
//!     cargo run --release --example save_overhead [FOLDER]
//!
//! Prints the median and the longest step with saves and without, and the slowdown of the whole run.

use std::path::PathBuf;
use std::time::Instant;

use trainspec::Error;
use trainspec::session::{Event, Options};
use trainspec::train;
use trainspec_compiler::{Compilation, source::NoFiles};

/// 25 million parameters: 100 MB.
const SPEC: &str = r#"
spec large;
data points { source csv("points.csv"); feature x: f32; repeat; batch 2; }
model (x: f32[batch]) {
    param w: f32[25_000_000] = ones();
    loss mean(square(w)) * mean(x);
}
train { data points; optimizer gradient_descent(0.01); steps 400; }
hooks { log (loss, every: 1 steps); }
"#;

fn main() -> Result<(), Error> {
    let folder = std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("trainspec-save-{}", std::process::id())),
        PathBuf::from,
    );
    std::fs::create_dir_all(&folder).map_err(Error::other)?;
    std::fs::write(folder.join("points.csv"), "1\n2\n3\n4\n").map_err(Error::other)?;
    let checked = Compilation::check("large", SPEC, &NoFiles, &Default::default());
    let spec = checked.spec.expect("it is a good spec");
    // Interleaved, so that both meet the machine in the same mood.
    for round in 0..3 {
        for saved in [false, true] {
            let mut options = Options {
                folder: folder.clone(),
                ..Options::default()
            };
            if saved {
                options.dir = Some(folder.join(format!("run-{round}")));
                options.save_every = Some(60);
            }
            let (mut steps, mut saves) = (Vec::new(), 0);
            let mut last: Option<Instant> = None;
            train(&spec, &options, &mut |event: &Event| match event {
                Event::Step { .. } => {
                    let now = Instant::now();
                    steps.extend(last.map(|last| (now - last).as_secs_f64() * 1e3));
                    last = Some(now);
                }
                Event::Saved { .. } => saves += 1,
                _ => {}
            })?;
            let total: f64 = steps.iter().sum();
            steps.sort_by(f64::total_cmp);
            let (median, longest) = (steps[steps.len() / 2], steps[steps.len() - 1]);
            println!(
                "{saves} saves: median {median:.2} ms, longest {longest:.2} ms ({:.2} more), {} steps in {total:.0} ms",
                longest - median,
                steps.len()
            );
        }
    }
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}
