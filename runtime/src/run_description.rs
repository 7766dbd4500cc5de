//! Which training a run is: what its folder and its checkpoints say of it.
//!
//! In: a spec, the options of a run, and its data files. Out: a description, which a run that goes on is compared with. Leaves alone: hooks
//! and evaluations that decide nothing, which may change.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use trainspec_compiler::Identity;
use trainspec_compiler::typed::{HookKind, Spec, TrainEnd};

use crate::Error;
use crate::machine;
use crate::session::{Options, the_train};

/// What a run is: what must be equal where it is resumed.
#[derive(Debug, Clone)]
pub(crate) struct RunDescription {
    /// The name of the spec.
    pub(crate) spec: String,
    /// The canonical typed form, and its hash.
    pub(crate) identity: Identity,
    /// Its text.
    pub(crate) text: Arc<str>,
    /// The values of its constants, as printed.
    pub(crate) constants: Vec<(String, String)>,
    /// The seed.
    pub(crate) seed: i64,
    /// What its `checkpoint` hook calls the best.
    pub(crate) best: Option<Value>,
    /// When it ends, as a text. It may change.
    pub(crate) until: Option<String>,
    /// The folder in which relative paths of data begin.
    pub(crate) data_folder: PathBuf,
    /// The data files of the training, and of the evaluations whose metrics decide what it does.
    pub(crate) files: Vec<PathBuf>,
    /// The data files of the other evaluations.
    pub(crate) evaluated: Vec<PathBuf>,
    /// What generated code depends on besides: the vector width of the machine.
    pub(crate) machine: String,
    /// The number of threads. It may change: the bits do not depend on it.
    pub(crate) threads: usize,
}

/// The record of the identity of a training and of its seed, for a checkpoint whose folder has lost its `run.json`.
pub(crate) const IDENTITY_RECORD: &str = "identity/1";

impl RunDescription {
    /// Of a spec that is run; `files` are those of its data, `evaluated` those of each evaluation.
    pub(crate) fn of(
        spec: &Spec,
        options: &Options,
        mut files: Vec<PathBuf>,
        evaluated: &[Vec<PathBuf>],
    ) -> Result<RunDescription, Error> {
        // `best` and `early_stop` decide by evaluations.
        let decides = |at: usize| {
            spec.hooks.iter().any(|hook| match &hook.kind {
                HookKind::EarlyStop(settings) => settings.eval == at,
                HookKind::Checkpoint { best, .. } => {
                    (best.iter()).any(|best| best.eval == spec.evals[at].name)
                }
                _ => false,
            })
        };
        let mut others = Vec::new();
        for (at, evaluated) in evaluated.iter().enumerate() {
            match decides(at) {
                true => files.extend_from_slice(evaluated),
                false => others.extend_from_slice(evaluated),
            }
        }
        Ok(RunDescription {
            spec: spec.name.clone(),
            identity: Identity::of(spec)?,
            text: spec.text.clone(),
            constants: spec.constants.clone(),
            seed: options.seed.unwrap_or(the_train(spec)?.seed),
            best: spec.hooks.iter().find_map(|hook| match &hook.kind {
                HookKind::Checkpoint { best, .. } => best.as_ref().map(|best| {
                    serde_json::json!({ "metric": best.metric, "eval": best.eval, "mode": best.mode.word() })
                }),
                _ => None,
            }),
            until: match (options.steps, the_train(spec)?.until) {
                (Some(n), _) | (None, Some(TrainEnd::Steps(n))) => Some(format!("{n} steps")),
                (None, Some(TrainEnd::Epochs(n))) => Some(format!("{n} epochs")),
                (None, None) => None,
            },
            data_folder: options.folder.clone(),
            files,
            evaluated: others,
            machine: machine::machine(&options.engine),
            threads: options.engine.threads(),
        })
    }

    /// The text of [`IDENTITY_RECORD`].
    pub(crate) fn identity_record(&self) -> String {
        format!("{} {}", self.identity.hash, self.seed)
    }
}
