//! Removing runs: each command shows what it would remove, and removes it with `--yes` alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use trainspec::runs::{RunState, RunSummary};

use super::{below, failure, run_of};
use crate::Format;
use crate::columns;
use crate::failure::Failure;
use crate::output::{count, print, say};

#[derive(Debug, clap::Args)]
pub(crate) struct RmArguments {
    /// The folders of the runs
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Remove them
    #[arg(long)]
    yes: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl RmArguments {
    pub(super) fn format(&self) -> Format {
        self.format
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct PruneArguments {
    /// The folder with the runs, also in folders below it
    #[arg(default_value = "runs")]
    dir: PathBuf,
    /// How many runs of each spec are kept: the newest ones. Those that are running are kept besides
    #[arg(long, value_name = "N")]
    keep: usize,
    /// Remove the others
    #[arg(long)]
    yes: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl PruneArguments {
    pub(super) fn format(&self) -> Format {
        self.format
    }
}

/// `trainspec runs rm`
pub(super) fn rm(arguments: &RmArguments) -> Result<(), Failure> {
    let runs: Result<Vec<RunSummary>, Failure> =
        arguments.runs.iter().map(|path| run_of(path)).collect();
    let runs = runs?;
    // All are looked at before the first is removed.
    if let Some(run) = runs.iter().find(|run| is_running(run)) {
        let message = format!("{} is running", run.path.display());
        return Err(Failure::input(message).help("stop it first; nothing was removed"));
    }
    remove(&runs, arguments.yes, arguments.format)
}

/// `trainspec runs prune`
pub(super) fn prune(arguments: &PruneArguments) -> Result<(), Failure> {
    let mut of_specs: BTreeMap<String, Vec<RunSummary>> = BTreeMap::new();
    for run in below(&arguments.dir)? {
        if !is_running(&run) {
            of_specs.entry(run.spec.clone()).or_default().push(run);
        }
    }
    let mut removed = Vec::new();
    for mut runs in of_specs.into_values() {
        runs.sort_by_key(|run| std::cmp::Reverse(run.modified));
        removed.extend(runs.into_iter().skip(arguments.keep));
    }
    removed.sort_by(|a, b| a.path.cmp(&b.path));
    remove(&removed, arguments.yes, arguments.format)
}

fn is_running(run: &RunSummary) -> bool {
    matches!(run.state, RunState::Running { .. })
}

fn remove(runs: &[RunSummary], yes: bool, format: Format) -> Result<(), Failure> {
    for run in runs {
        if yes {
            run.remove().map_err(failure)?;
        }
        match format {
            Format::Json => print(json!({
                "run": run.path.display().to_string(),
                "bytes": run.bytes,
                "removed": yes,
            })),
            Format::Text => say(format_args!(
                "{} {} ({})",
                if yes { "removed" } else { "would remove" },
                run.path.display(),
                columns::bytes(run.bytes)
            )),
        }
    }
    if format == Format::Text {
        let bytes = runs
            .iter()
            .map(|run| run.bytes)
            .fold(0, u64::saturating_add);
        let (runs, bytes) = (count(runs.len(), "run"), columns::bytes(bytes));
        match yes {
            true => say(format_args!("{runs} removed, {bytes} freed")),
            false => say(format_args!(
                "{runs}, {bytes}; nothing was removed: `--yes` removes"
            )),
        }
    }
    Ok(())
}
