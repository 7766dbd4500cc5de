//! Resuming a run: strict about all that its checkpoint should hold.
//!
//! In: a checkpoint of the folder of a run. Out: the state with the values that were saved, and the plan where that is not all of the state.
//! Leaves alone: the initial values of what the checkpoint left out on purpose.

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::check::matches;
use trainspec_formats::storage::Storage;

use crate::saver::files::{self, Files};
use crate::saver::{Records, RestoreOptions, RestorePlan, Restored};
use crate::{Error, State};

/// The record of the patterns of the state that a checkpoint holds, one in each line. Without it, it holds all of the state.
pub(crate) const HELD_RECORD: &str = "vars/1";

/// What to do about a checkpoint that a spec does not fit.
pub(crate) const OTHER_MODEL: &str =
    "the spec has changed since the checkpoint was saved, or it is one of another model";

/// Restores the state of a run from one of its checkpoints. What the checkpoint says it holds must be there; what it left out stays as it
/// was, and the plan lists it as missing. If it fails, the state is as it was.
pub(crate) fn restore_run_in(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    path: &Path,
) -> Result<Restored, Error> {
    let reader = Files(storage).open(path)?;
    let records = files::records(&reader)?;
    let plan = RestorePlan::of(state, path, &reader, &RestoreOptions::default())?;
    let mut required = plan.clone();
    if let Some(held) = records.get(HELD_RECORD) {
        let is_held = |name: &str| held.lines().any(|pattern| matches(pattern, name));
        required.missing.retain(|one| is_held(&one.variable));
    }
    required.require(OTHER_MODEL)?;
    plan.run(state, &reader)?;
    Ok(Restored { plan, records })
}

/// The records of a checkpoint.
pub(crate) fn records_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<Records, Error> {
    files::records(&Files(storage).open(path)?)
}

impl RestorePlan {
    /// What to say of a restore that was not exact: what stays as it was, and what the checkpoint has besides.
    pub(crate) fn inexact(&self) -> Option<String> {
        if self.is_complete() && self.left_over.is_empty() && self.notes.is_empty() {
            return None;
        }
        let shown = RestorePlan {
            restored: Vec::new(),
            ..self.clone()
        };
        let mut text = format!(
            "{}: {} of {} values are restored",
            self.path.display(),
            self.restored.len(),
            self.restored.len() + self.missing.len() + self.changed.len()
        );
        if !self.missing.is_empty() {
            text += ", the others start over, so that the run does not go on with the same bits";
        }
        Some(format!("{text}\n{}", shown.to_string().trim_end()))
    }
}
