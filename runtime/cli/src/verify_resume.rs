//! `trainspec verify-resume`: shows for a spec that a run which is killed and resumed ends with the bits of one that is not.
//!
//! In: a spec with a `checkpoint` hook. Out: a straight run, a run that is killed by SIGKILL several times, and a comparison of the two
//! final checkpoints, byte by byte in every tensor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trainspec::saver::NewestCheckpoint;
use trainspec_compiler::typed::HookKind;
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
    let saves = |kind: &HookKind| matches!(kind, HookKind::Checkpoint { .. });
    if !spec.hooks.iter().any(|hook| saves(&hook.kind)) {
        note(format_args!(
            "error: {} saves nothing, so it cannot be resumed\nhelp: add `checkpoint (dir: \"runs/{}\", every: 100 steps);` to `hooks`",
            arguments.file.display(),
            spec.name
        ));
        return BAD_INPUT;
    }
    let folder = std::env::temp_dir().join(format!("trainspec-verify-{}", std::process::id()));
    let verdict = verify(arguments, &folder);
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

/// Runs straight and with kills; gives the tensors that differ.
fn verify(arguments: &Arguments, folder: &Path) -> Result<Vec<String>, String> {
    let (straight, killed) = (folder.join("straight"), folder.join("killed"));
    let start = Instant::now();
    finish(arguments, &straight)?;
    let time = start.elapsed();
    print(format_args!("a straight run: {:.1} s", time.as_secs_f64()));
    let mut kills = 0;
    for i in 1..=arguments.kills {
        // Spread over the time of the straight run: each goes on where the one before it was killed.
        let pause = time.mul_f64(f64::from(i) / f64::from(arguments.kills + 1));
        kills += u32::from(kill_after(arguments, &killed, pause)?);
    }
    finish(arguments, &killed)?;
    print(format_args!(
        "a run that was killed {} and resumed",
        count(kills as usize, "time")
    ));
    compare(&straight, &killed)
}

/// The command that trains in a folder.
fn command(arguments: &Arguments, dir: &Path) -> Result<Command, String> {
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
    if let Some(folder) = &arguments.data_dir {
        command.arg("--data-dir").arg(folder);
    }
    if let Some(threads) = arguments.threads {
        command.arg("--threads").arg(threads.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Trains to the end.
fn finish(arguments: &Arguments, dir: &Path) -> Result<(), String> {
    let status = command(arguments, dir)?.status();
    match status.map_err(|e| format!("cannot start a run: {e}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("a run failed: {status}")),
    }
}

/// Starts a run and kills it after a time; false where it was faster.
fn kill_after(arguments: &Arguments, dir: &Path, pause: Duration) -> Result<bool, String> {
    let failed = |e: std::io::Error| format!("cannot start a run: {e}");
    let mut child = command(arguments, dir)?
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

/// The names of tensors in which the newest checkpoints of two folders differ.
fn compare(one: &Path, other: &Path) -> Result<Vec<String>, String> {
    let open = |folder: &Path| {
        let newest = NewestCheckpoint::find(folder, None).map_err(|e| e.to_string())?;
        let path = newest
            .path
            .ok_or_else(|| format!("{} has no checkpoint", folder.display()))?;
        CheckpointReader::open_prefix(&path).map_err(|e| e.to_string())
    };
    let (one, other) = (open(one)?, open(other)?);
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
