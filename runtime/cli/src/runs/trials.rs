//! Runs that are trials of a sweep: the constants in which they differ.

use std::collections::BTreeMap;
use std::path::Path;

use trainspec::runs::RunSummary;

use crate::sweep::varied_constants;

/// For each run that is a trial, the names and values of the constants that vary in its sweep.
pub(super) fn varied(runs: &[RunSummary]) -> Vec<Option<Vec<(String, String)>>> {
    let mut sweeps: BTreeMap<&Path, Option<Vec<String>>> = BTreeMap::new();
    let constants = runs.iter().map(|run| {
        let folder = run.path.parent()?;
        let names = sweeps.entry(folder);
        let names = names.or_insert_with(|| varied_constants(folder));
        let value = |name: &String| {
            let setting = format!("const {name}");
            let mut settings = run.settings.iter();
            let (_, value) = settings.find(|(known, _)| *known == setting)?;
            Some((name.clone(), value.clone()))
        };
        Some(names.as_ref()?.iter().filter_map(value).collect())
    });
    constants.collect()
}
