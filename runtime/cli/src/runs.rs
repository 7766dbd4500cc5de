//! `trainspec runs`: the runs in a folder, what differs between two of them, and removing them.

mod compare;
mod remove;
mod trials;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};
use trainspec::runs::{BestValue, RunState, RunSummary};

use crate::columns::{self, Align, number};
use crate::failure::Failure;
use crate::output::{plain, print, say};
use crate::progress::Spinner;
use crate::sweep::values_text;
use crate::tensors::{Number, json_of};
use crate::{FINE, Format};

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A run is a folder with a `run.json`. It is running while a process holds its lock; one that was stopped or \
                  killed is interrupted, and `trainspec run` with its spec goes on from its last checkpoint. \
                  The best value is of an evaluation where there is one; losses and errors are minimized."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The folder with the runs, also in folders below it
    #[arg(default_value = RUNS)]
    dir: PathBuf,
    /// Show the settings and lines of the spec that differ between two runs
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    diff: Vec<PathBuf>,
    /// Show the best value of this metric, and sort by it
    #[arg(long, value_name = "METRIC", conflicts_with = "diff")]
    best: Option<String>,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Remove runs: shows which, and removes them with `--yes`
    Rm(remove::RmArguments),
    /// Remove all but the newest runs of each spec: shows which, and removes them with `--yes`
    Prune(remove::PruneArguments),
}

/// The folder of runs that have no other.
const RUNS: &str = "runs";

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let (done, format) = match &arguments.command {
        Some(Command::Rm(given)) => (remove::rm(given), given.format()),
        Some(Command::Prune(given)) => (remove::prune(given), given.format()),
        None => (list(arguments), arguments.format),
    };
    match done {
        Ok(()) => FINE,
        Err(failure) => failure.report(format),
    }
}

fn list(arguments: &Arguments) -> Result<(), Failure> {
    if let [a, b] = arguments.diff.as_slice() {
        return compare::show(&run_of(a)?, &run_of(b)?, arguments.format);
    }
    let mut runs = below(&arguments.dir)?;
    let metric = arguments.best.as_deref();
    let best = |run: &RunSummary| run.best(metric);
    if let Some(metric) = metric {
        if !runs.is_empty() && runs.iter().all(|run| best(run).is_none()) {
            let message = format!(
                "no run in {} has a value of `{metric}`",
                arguments.dir.display()
            );
            return Err(Failure::input(message).help(known_metrics(&runs)));
        }
        runs.sort_by(|a, b| order(best(a).as_ref(), best(b).as_ref()));
    }
    let varied = trials::varied(&runs);
    match arguments.format {
        Format::Json => (runs.iter().zip(&varied))
            .for_each(|(run, varied)| print(to_json(run, best(run), varied.as_deref()))),
        Format::Text if runs.is_empty() => say(format_args!(
            "there are no runs in {}",
            arguments.dir.display()
        )),
        Format::Text => table(&arguments.dir, &runs, &varied, metric),
    }
    Ok(())
}

/// The runs below a folder.
fn below(folder: &Path) -> Result<Vec<RunSummary>, Failure> {
    if !folder.is_dir() {
        let message = match folder.exists() {
            true => format!("{} is no folder", folder.display()),
            false => format!("there is no folder {}", folder.display()),
        };
        return Err(Failure::input(message).help(
            "runs are written into `runs/NAME`; name another folder: `trainspec runs FOLDER`",
        ));
    }
    let spinner = Spinner::new("reading", folder);
    let runs = RunSummary::below(folder);
    drop(spinner);
    runs.map_err(failure)
}

/// The run in a folder, or of a name as the table of `runs` shows it.
fn run_of(path: &Path) -> Result<RunSummary, Failure> {
    RunSummary::of(&folder_of(path)).map_err(failure)
}

/// A folder that is given, or that of this name in `runs`, where there is none.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    let named = Path::new(RUNS).join(path);
    match !path.exists() && named.is_dir() {
        true => named,
        false => path.to_owned(),
    }
}

/// A failure of the runtime, with its help.
fn failure(error: trainspec::Error) -> Failure {
    let diagnostic = error.diagnostic();
    let failure = match error.is_bad_input() {
        true => Failure::input(&diagnostic.message),
        false => Failure::output(&diagnostic.message),
    };
    match diagnostic.help.first() {
        Some(help) => failure.help(help),
        None => failure,
    }
}

fn known_metrics(runs: &[RunSummary]) -> String {
    let tags = runs.iter().flat_map(|run| &run.curves);
    let mut tags: Vec<&str> = tags.map(|curve| curve.tag.as_str()).collect();
    tags.sort_unstable();
    tags.dedup();
    match tags.is_empty() {
        true => "their event files have no scalars: the `summary` hook writes them".to_owned(),
        false => format!("they have {}", tags.join(", ")),
    }
}

/// Better ones first; runs without a value last.
fn order(a: Option<&BestValue>, b: Option<&BestValue>) -> std::cmp::Ordering {
    match (a, b) {
        // What was measured on a batch of the training tells less.
        (Some(a), Some(b)) if a.evaluation.is_some() != b.evaluation.is_some() => {
            b.evaluation.is_some().cmp(&a.evaluation.is_some())
        }
        (Some(a), Some(b)) if a.is_minimum => a.value.total_cmp(&b.value),
        (Some(a), Some(b)) => b.value.total_cmp(&a.value),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn table(
    folder: &Path,
    runs: &[RunSummary],
    varied: &[Option<Vec<(String, String)>>],
    metric: Option<&str>,
) {
    let mut head = vec![
        ("run", Align::Left),
        ("spec", Align::Left),
        ("state", Align::Left),
        ("step", Align::Right),
        ("best", Align::Left),
        ("age", Align::Right),
        ("size", Align::Right),
    ];
    // Trials of a sweep differ in their constants.
    let has_trials = varied.iter().any(Option::is_some);
    if has_trials {
        head.insert(1, ("constants", Align::Left));
    }
    let now = SystemTime::now();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .zip(varied)
        .map(|(run, varied)| {
            let name = run.path.strip_prefix(folder).unwrap_or(&run.path);
            let name = if name == Path::new("") {
                &run.path
            } else {
                name
            };
            let mut cells = vec![
                plain(name.display()),
                plain(&run.spec),
                plain(state_text(run)),
                run.step.map_or_else(String::new, |step| step.to_string()),
                run.best(metric)
                    .map_or_else(String::new, |best| best_text(&best)),
                run.modified.map_or_else(String::new, |time| age(now, time)),
                columns::bytes(run.bytes),
            ];
            if has_trials {
                let constants = varied.as_deref().unwrap_or_default();
                cells.insert(1, plain(values_text(constants)));
            }
            cells
        })
        .collect();
    columns::lines(&head, &rows).for_each(say);
}

/// The most characters of the reason of a failure in a table.
const MAX_REASON_CHARS: usize = 48;

fn state_text(run: &RunSummary) -> String {
    match &run.state {
        RunState::Running { process: Some(id) } => format!("running (process {id})"),
        RunState::Running { process: None } => "running".to_owned(),
        RunState::Finished(why) if why == "steps" || why == "epochs" => "finished".to_owned(),
        RunState::Finished(why) => format!("finished: {why}"),
        RunState::Interrupted if run.step.is_none() => "interrupted, no checkpoint".to_owned(),
        RunState::Interrupted => "interrupted".to_owned(),
        RunState::Failed(why) => {
            let line = why.lines().next().unwrap_or_default();
            // Long ones begin with paths; the reason is at their end.
            format!("failed: {}", columns::truncated(line, MAX_REASON_CHARS))
        }
    }
}

fn best_text(best: &BestValue) -> String {
    let (metric, value, step) = (&best.metric, number(best.value), best.step);
    match best.evaluation {
        Some(_) => format!("{metric} {value} at step {step}"),
        None => format!("{metric} {value} of a batch at step {step}"),
    }
}

/// How long ago a time is: `12 s`, `5 min`, `3 h`, `2 d`.
fn age(now: SystemTime, then: SystemTime) -> String {
    let seconds = now.duration_since(then).map_or(0, |age| age.as_secs());
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn to_json(
    run: &RunSummary,
    best: Option<BestValue>,
    varied: Option<&[(String, String)]>,
) -> Value {
    let why = match &run.state {
        RunState::Finished(why) | RunState::Failed(why) => Some(why),
        RunState::Running { .. } | RunState::Interrupted => None,
    };
    let process = match run.state {
        RunState::Running { process } => process,
        _ => None,
    };
    let modified = run
        .modified
        .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let settings = run
        .settings
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)));
    let trial = varied.map(|constants| {
        let constants = constants.iter();
        let constants = constants.map(|(name, value)| (name.clone(), json!(value)));
        constants.collect::<serde_json::Map<_, _>>()
    });
    json!({
        "run": run.path.display().to_string(),
        "trial": trial,
        "spec": run.spec,
        "state": run.state.name(),
        "why": why,
        "process": process,
        "step": run.step,
        "best": best.map(|best| json!({
            "metric": best.metric,
            "evaluation": best.evaluation,
            "value": json_of(Number::Real(best.value)),
            "step": best.step,
        })),
        "modified": modified.map(|time| time.as_secs()),
        "bytes": run.bytes,
        "settings": settings.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ages_have_one_unit() {
        let then = SystemTime::UNIX_EPOCH;
        for (seconds, text) in [(5, "5 s"), (119, "1 min"), (7200, "2 h"), (200_000, "2 d")] {
            assert_eq!(age(then + Duration::from_secs(seconds), then), text);
        }
        // A clock that was set back.
        assert_eq!(age(then, then + Duration::from_secs(9)), "0 s");
    }
}
