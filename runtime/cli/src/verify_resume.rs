//! `trainspec verify-resume`: shows for a spec that a run which is killed and resumed ends with the bits of one that is not.
//!
//! In: a spec; where it has no `checkpoint` hook, it is saved all the same. Out: a straight run, a run that is killed by SIGKILL several
//! times, and a comparison of the two final checkpoints, byte by byte in every tensor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trainspec::saver::NewestCheckpoint;
use trainspec_compiler::lower::GLOBAL_STEP;
use trainspec_compiler::typed::{HookKind, Interval, Spec};
use trainspec_formats::checkpoint::{CheckpointReader, latest_checkpoint};

use crate::failure::Failure;
use crate::output::{count, note, print};
use crate::{BAD_INPUT, FAILED, FINE, Format, files};

/// How often a run is started over that could not be killed before its end.
const ATTEMPTS: u32 = 5;

/// How often a run is looked at.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec
    file: PathBuf,
    /// How often the second run is killed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    kills: u32,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The number of steps, instead of what the spec says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// The base folder of relative data paths [default: the folder of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The steps between two saves [default: those of its `checkpoint` hook, at most a tenth of the run]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: Option<u64>,
    /// The checkpoint of the warm start, instead of that of the spec
    #[arg(long, value_name = "CHECKPOINT")]
    warm_start: Option<PathBuf>,
    /// The number of threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = files::threads)]
    threads: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let compilation = match files::checked(&arguments.file, &arguments.set, Format::Text) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    if spec.train.is_none() {
        return files::no_train(spec, "nothing to resume").report(Format::Text);
    }
    let folder = std::env::temp_dir().join(format!("trainspec-verify-{}", std::process::id()));
    let verdict = verify(arguments, spec, &folder);
    // What is left in the folder for temporary files harms nobody.
    let _ = std::fs::remove_dir_all(&folder);
    match verdict {
        Ok(differing) if differing.is_empty() => {
            print("the same bits: killing and resuming changes nothing");
            FINE
        }
        Ok(differing) => {
            print(format_args!("DIFFERENT: {}", differing.join(", ")));
            FAILED
        }
        Err(failure) => failure.report(Format::Text),
    }
}

/// Runs straight and with kills; gives the tensors that differ. The second run is saved ten times, or as often as the spec says where
/// that is more.
fn verify(arguments: &Arguments, spec: &Spec, folder: &Path) -> Result<Vec<String>, Failure> {
    let (straight, killed) = (folder.join("straight"), folder.join("killed"));
    let start = Instant::now();
    finish(arguments, &straight, arguments.save_every)?;
    let time = start.elapsed();
    let steps = last_step(&straight)?;
    let tenth = (steps / 10).max(1);
    let save_every = match (arguments.save_every, interval(spec)) {
        (Some(given), _) => given,
        (None, Some(interval)) => interval.min(tenth),
        (None, None) => tenth,
    };
    print(format_args!("a straight run: {:.1} s", time.as_secs_f64()));
    for _ in 0..ATTEMPTS {
        let resumed = killed_run(arguments, &killed, save_every, steps, time)?;
        if resumed.is_empty() {
            // Every run was over before it could be killed. Another attempt is luckier, or nothing is shown.
            std::fs::remove_dir_all(&killed).map_err(Failure::output)?;
            continue;
        }
        let times = count(resumed.len(), "time");
        let steps: Vec<String> = resumed.iter().map(u64::to_string).collect();
        let at = match resumed.len() {
            1 => format!("step {}", steps[0]),
            _ => format!("steps {}", steps.join(", ")),
        };
        print(format_args!(
            "a run that was killed and resumed {times}: from {at} of {}",
            last_step(&killed)?
        ));
        return compare(&straight, &killed);
    }
    let message = "no run could be killed between a checkpoint and its end";
    Err(Failure::output(message).help("give it more `--steps`, or save more often: `--save-every`"))
}

/// The steps between two saves that a spec says.
fn interval(spec: &Spec) -> Option<u64> {
    spec.hooks.iter().find_map(|hook| match &hook.kind {
        HookKind::Checkpoint {
            every: Interval::Steps(steps),
            ..
        } => u64::try_from(*steps).ok(),
        _ => None,
    })
}

/// Trains to the end with kills; gives the steps of the checkpoints that it was resumed from. Each kill comes some time after the first
/// checkpoint of another part of the run: what was done since then is lost.
fn killed_run(
    arguments: &Arguments,
    dir: &Path,
    save_every: u64,
    steps: u64,
    time: Duration,
) -> Result<Vec<u64>, Failure> {
    let mut resumed = Vec::new();
    let interval = time.mul_f64((save_every as f64 / steps.max(1) as f64).min(1.0));
    for i in 0..arguments.kills {
        let part = steps * u64::from(i) / u64::from(arguments.kills);
        let past = resumed.last().copied().unwrap_or(0).max(part);
        // Fractions that never repeat (golden ratio), so that kills hit other moments of an interval.
        let pause = interval.mul_f64(f64::from(i) * 0.618_033_988_749_895 % 1.0);
        if !kill_after(arguments, dir, save_every, past, pause)? {
            break;
        }
        // The newest one that is complete, whatever the kill left.
        match last_step(dir)? {
            step if step < steps => resumed.push(step),
            _ => break,
        }
    }
    finish(arguments, dir, Some(save_every))?;
    Ok(resumed)
}

/// The command that trains in a folder.
fn command(arguments: &Arguments, dir: &Path, save_every: Option<u64>) -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::output(format!("cannot find this program: {e}")))?;
    let mut command = Command::new(program);
    command.arg("run").arg(&arguments.file);
    command.arg("--quiet").arg("--dir").arg(dir);
    for (name, value) in &arguments.set {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    if let Some(steps) = arguments.steps {
        command.arg("--steps").arg(steps.to_string());
    }
    if let Some(steps) = save_every {
        command.arg("--save-every").arg(steps.to_string());
    }
    if let Some(folder) = &arguments.data_dir {
        command.arg("--data-dir").arg(folder);
    }
    if let Some(path) = &arguments.warm_start {
        command.arg("--warm-start").arg(path);
    }
    if let Some(threads) = arguments.threads {
        command.arg("--threads").arg(threads.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Trains to the end. What the run says is shown where it fails.
fn finish(arguments: &Arguments, dir: &Path, save_every: Option<u64>) -> Result<(), Failure> {
    let output = command(arguments, dir, save_every)?.output();
    let output = output.map_err(|e| Failure::output(format!("cannot start a run: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    note(String::from_utf8_lossy(&output.stderr).trim_end());
    match output.status.code() == Some(i32::from(BAD_INPUT)) {
        // It has said why.
        true => Err(Failure::input("the spec cannot be trained")),
        false => Err(Failure::output(format!("a run failed: {}", output.status))),
    }
}

/// Starts a run and kills it some time after it has saved a step past `past`; false where it ended before.
fn kill_after(
    arguments: &Arguments,
    dir: &Path,
    save_every: u64,
    past: u64,
    pause: Duration,
) -> Result<bool, Failure> {
    let failed = |e: std::io::Error| Failure::output(format!("cannot start a run: {e}"));
    let mut child = command(arguments, dir, Some(save_every))?
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut saved = None;
    while saved.is_none_or(|saved: Instant| saved.elapsed() < pause) {
        if child.try_wait().map_err(failed)?.is_some() {
            return Ok(false);
        }
        if saved.is_none() && listed_step(dir).is_some_and(|step| step > past) {
            saved = Some(Instant::now());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    child.kill().map_err(failed)?;
    child.wait().map_err(failed)?;
    Ok(true)
}

/// The step of the newest checkpoint that the list of a folder names, which costs less than to look at the checkpoint.
fn listed_step(folder: &Path) -> Option<u64> {
    let path = latest_checkpoint(folder, None).ok().flatten()?;
    let name = path.file_name()?.to_str()?;
    let (_, step) = name.trim_end_matches(".safetensors").rsplit_once('-')?;
    step.parse().ok()
}

/// The newest checkpoint of a folder.
fn newest(folder: &Path) -> Result<CheckpointReader, Failure> {
    let newest = NewestCheckpoint::find(folder, None).map_err(Failure::output)?;
    let path = newest
        .path
        .ok_or_else(|| Failure::output(format!("{} has no checkpoint", folder.display())))?;
    CheckpointReader::open_prefix(&path).map_err(Failure::output)
}

/// The step at which a run ended.
fn last_step(folder: &Path) -> Result<u64, Failure> {
    let step = newest(folder)?.get_tensor(GLOBAL_STEP);
    let step = step.and_then(|step| step.to_vec::<i64>());
    let step = step.map_err(Failure::output)?;
    Ok(step.first().map_or(0, |step| step.max(&0).unsigned_abs()))
}

/// The names of tensors in which the newest checkpoints of two folders differ.
fn compare(one: &Path, other: &Path) -> Result<Vec<String>, Failure> {
    let (one, other) = (newest(one)?, newest(other)?);
    let names = |reader: &CheckpointReader| -> Vec<String> {
        reader.entries().map(|(name, ..)| name.to_owned()).collect()
    };
    let mut differing = Vec::new();
    let (all, others) = (names(&one), names(&other));
    for name in all.iter().chain(others.iter().filter(|n| !all.contains(n))) {
        let tensors = (one.get_tensor(name), other.get_tensor(name));
        if !matches!(tensors, (Ok(a), Ok(b)) if a == b) {
            differing.push(name.clone());
        }
    }
    Ok(differing)
}
