//! What a run is about to do, in four lines: the model, its data, the training, and what is written.

use std::path::PathBuf;

use serde_json::{Value, json};
use trainspec::session::DataSize;
use trainspec_compiler::typed::{Hook, HookKind, Interval, Spec, TrainEnd};

use crate::output::count;

/// What the command line says of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    /// The number of steps.
    pub(super) steps: Option<u64>,
    /// The folder of the run.
    pub(super) dir: Option<PathBuf>,
    /// Whether the folder of the run could not be created, which a note has said.
    pub(super) is_unwritable: bool,
    /// The number of threads; 0 is the interpreter.
    pub(super) threads: usize,
}

/// `iris: 139 parameters, seed 3`
pub(super) fn model_line(spec: &str, parameters: u64, seed: i64) -> String {
    let parameters = count(parameters as usize, "parameter");
    format!("{spec}: {parameters}, seed {seed}")
}

/// `data train_set: 120 records in batches of 40; holdout_set: 30 records in batches of 30`
pub(super) fn data_line(data: &[DataSize]) -> String {
    let sizes: Vec<String> = data.iter().map(data_size).collect();
    format!("data {}", sizes.join("; "))
}

fn data_size(size: &DataSize) -> String {
    let mut text = format!("{}:", size.name);
    if let Some(records) = size.records {
        text += &format!(" {}", count(records as usize, "record"));
    }
    match size.batch {
        Some(batch) => text + &format!(" in batches of {batch}"),
        None => text + " one at a time",
    }
}

fn optimizers(spec: &Spec) -> Vec<&str> {
    let mut optimizers: Vec<&str> = Vec::new();
    for group in spec.train.iter().flat_map(|train| &train.groups) {
        if !optimizers.contains(&group.optimizer.as_str()) {
            optimizers.push(&group.optimizer);
        }
    }
    optimizers
}

/// What the lines say, as keys of the JSON of `start`.
pub(super) fn json(spec: &Spec, given: &Given) -> Value {
    let train = spec.train.as_ref();
    let (steps, epochs) = match (given.steps, train.and_then(|train| train.until)) {
        (Some(steps), _) | (None, Some(TrainEnd::Steps(steps))) => (Some(steps), None),
        (None, Some(TrainEnd::Epochs(epochs))) => (None, Some(epochs)),
        (None, None) => (None, None),
    };
    json!({
        "optimizers": optimizers(spec),
        "steps": steps,
        "epochs": epochs,
        "accumulate": train.map_or(1, |train| train.accumulate),
        "threads": given.threads,
        "dir": folder(spec, given),
    })
}

/// The folder that a run writes to.
fn folder(spec: &Spec, given: &Given) -> Option<String> {
    let given = given.dir.as_ref().map(|dir| dir.display().to_string());
    let dir = |hook: &Hook| match &hook.kind {
        HookKind::Checkpoint { dir, .. } => Some(dir.clone()),
        HookKind::Summary { dir, .. } => dir.clone(),
        _ => None,
    };
    given.or_else(|| spec.hooks.iter().find_map(dir))
}

/// `train adam: 300 steps, on 2 threads`
pub(super) fn train_line(spec: &Spec, given: &Given) -> String {
    let train = spec.train.as_ref();
    let end = match (given.steps, train.and_then(|train| train.until)) {
        (Some(steps), _) | (None, Some(TrainEnd::Steps(steps))) => count(steps as usize, "step"),
        (None, Some(TrainEnd::Epochs(epochs))) => count(epochs as usize, "epoch"),
        (None, None) => "to the end of the data".to_owned(),
    };
    let parts = match train.map_or(1, |train| train.accumulate) {
        1 => String::new(),
        n => format!(" of {n} micro-batches"),
    };
    let engine = match given.threads {
        0 => "by the interpreter".to_owned(),
        n => format!("on {}", count(n, "thread")),
    };
    format!(
        "train {}: {end}{parts}, {engine}",
        optimizers(spec).join(", ")
    )
}

/// `writes runs/iris: checkpoints every 100 steps, events every 10 steps`
pub(super) fn writes_line(spec: &Spec, given: &Given) -> String {
    let mut written = Vec::new();
    for hook in &spec.hooks {
        match &hook.kind {
            HookKind::Checkpoint { every, .. } => {
                written.insert(0, format!("checkpoints {}", interval(*every)));
            }
            HookKind::Summary { every, .. } => written.push(format!("events {}", interval(*every))),
            _ => {}
        }
    }
    match (folder(spec, given), given.is_unwritable) {
        (Some(folder), _) => format!("writes {folder}: {}", written.join(", ")),
        (None, true) => "writes nothing".to_owned(),
        (None, false) => "writes nothing: no `checkpoint` hook, and no `--dir`".to_owned(),
    }
}

/// `every step`, `every 100 steps`, `every 10 min`.
fn interval(every: Interval) -> String {
    match every {
        Interval::Steps(1) => "every step".to_owned(),
        Interval::Epochs(1) => "every epoch".to_owned(),
        Interval::Seconds(s) if s >= 60.0 && s % 60.0 == 0.0 => format!("every {} min", s / 60.0),
        other => format!("every {other}"),
    }
}
