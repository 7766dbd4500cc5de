//! `trainspec verify-resume`: shows for a spec that a run which is killed and resumed ends with the bits of one that is not.
//!
//! In: a spec; where it has no `checkpoint` hook, it is saved all the same. Out: a straight run, a run that is killed by SIGKILL several
//! times, and a comparison of the two final checkpoints, byte by byte in every tensor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trainspec::saver::NewestCheckpoint;
use trainspec_compiler::lower::GLOBAL_STEP;
use trainspec_compiler::typed::{Hook, HookKind};
use trainspec_formats::checkpoint::CheckpointReader;

use crate::output::{count, note, print};
use crate::{BAD_INPUT, FAILED, FINE, Format, files};

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
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The base folder of relative data paths [default: the folder of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The steps between two saves, instead of the interval of its `checkpoint` hook [default: a tenth of the run where it has no such hook]
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
        note("error: the spec has no `train`: there is nothing to resume");
        return BAD_INPUT;
    }
    let saves = |hook: &Hook| matches!(hook.kind, HookKind::Checkpoint { .. });
    let saves = spec.hooks.iter().any(saves);
    let folder = std::env::temp_dir().join(format!("trainspec-verify-{}", std::process::id()));
    let verdict = verify(arguments, &folder, saves);
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
        Err(message) => {
            note(format_args!("error: {message}"));
            FAILED
        }
    }
}

/// Runs straight and with kills; gives the tensors that differ. Where the spec does not say when it is saved, the second run is saved ten
/// times.
fn verify(arguments: &Arguments, folder: &Path, saves: bool) -> Result<Vec<String>, String> {
    let (straight, killed) = (folder.join("straight"), folder.join("killed"));
    let start = Instant::now();
    finish(arguments, &straight, arguments.save_every)?;
    let time = start.elapsed();
    let save_every = match (arguments.save_every, saves) {
        (None, false) => Some((last_step(&straight)? / 10).max(1)),
        (given, _) => given,
    };
    print(format_args!("a straight run: {:.1} s", time.as_secs_f64()));
    let mut kills = 0;
    for i in 1..=arguments.kills {
        // Spread over the time of the straight run: each goes on where the one before it was killed.
        let pause = time.mul_f64(f64::from(i) / f64::from(arguments.kills + 1));
        kills += u32::from(kill_after(arguments, &killed, save_every, pause)?);
    }
    finish(arguments, &killed, save_every)?;
    if kills == 0 {
        return Err("every run ended before it could be killed; give it more `--steps`".to_owned());
    }
    print(format_args!(
        "a run that was killed {} and resumed",
        count(kills as usize, "time")
    ));
    compare(&straight, &killed)
}

/// The command that trains in a folder.
fn command(arguments: &Arguments, dir: &Path, save_every: Option<u64>) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
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
fn finish(arguments: &Arguments, dir: &Path, save_every: Option<u64>) -> Result<(), String> {
    let output = command(arguments, dir, save_every)?.output();
    let output = output.map_err(|e| format!("cannot start a run: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    note(String::from_utf8_lossy(&output.stderr).trim_end());
    Err(format!("a run failed: {}", output.status))
}

/// Starts a run and kills it after a time; false where it was faster.
fn kill_after(
    arguments: &Arguments,
    dir: &Path,
    save_every: Option<u64>,
    pause: Duration,
) -> Result<bool, String> {
    let failed = |e: std::io::Error| format!("cannot start a run: {e}");
    let mut child = command(arguments, dir, save_every)?
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let start = Instant::now();
    while start.elapsed() < pause {
        if child.try_wait().map_err(failed)?.is_some() {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().map_err(failed)?;
    child.wait().map_err(failed)?;
    Ok(true)
}

/// The newest checkpoint of a folder.
fn newest(folder: &Path) -> Result<CheckpointReader, String> {
    let newest = NewestCheckpoint::find(folder, None).map_err(|e| e.to_string())?;
    let path = newest
        .path
        .ok_or_else(|| format!("{} has no checkpoint", folder.display()))?;
    CheckpointReader::open_prefix(&path).map_err(|e| e.to_string())
}

/// The step at which a run ended.
fn last_step(folder: &Path) -> Result<u64, String> {
    let step = newest(folder)?.get_tensor(GLOBAL_STEP);
    let step = step.and_then(|step| step.to_vec::<i64>());
    let step = step.map_err(|e| e.to_string())?;
    Ok(step.first().map_or(0, |step| step.max(&0).unsigned_abs()))
}

/// The names of tensors in which the newest checkpoints of two folders differ.
fn compare(one: &Path, other: &Path) -> Result<Vec<String>, String> {
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
