//! Why a data set gives nothing: it is read once more, and the elements of each stage are counted.

use std::path::PathBuf;

use trainspec_compiler::typed::{DataSet, StageKind};

use crate::DataError;
use crate::data::{DataContext, Pipeline};

/// How many files an error names.
const MAX_NAMED: usize = 3;

/// The error of a data set without a first element; `purpose` says what it was read for, such as ` to train on`.
pub(crate) fn gives_nothing(cx: &DataContext, set: &DataSet, purpose: &str) -> DataError {
    let message = format!("the data set `{}` gives nothing{purpose}", set.name);
    let error = DataError::new(&message).at(set.source.span);
    let Ok((mut pipeline, times)) = Pipeline::open_timed(cx, set) else {
        return error;
    };
    if !matches!(pipeline.next(), Ok(None)) {
        return error;
    }
    let files = named(&pipeline.files());
    let counts: Vec<(String, u64)> = times.counts().collect();
    let stages = set.stages_in(cx.training);
    // The source comes first.
    let Some(first) = counts.iter().position(|(_, count)| *count == 0) else {
        return error;
    };
    let Some((before, stage)) = first.checked_sub(1).map(|i| (counts[i].1, &stages[i])) else {
        let reason = match pipeline.left_out() {
            Some(left_out) => format!("{left_out}"),
            None if files.is_empty() => "its source has no records".to_owned(),
            None => format!("there are no records in {files}"),
        };
        return DataError::new(format!("{message}: {reason}")).at(set.source.span);
    };
    let of = match files.is_empty() {
        true => String::new(),
        false => format!(" (of {files})"),
    };
    let its = match before {
        1 => "its one record".to_owned(),
        n => format!("its {n} records"),
    };
    let (reason, help) = match &stage.kind {
        StageKind::Batch(batch) => (
            format!("{its} do not fill a batch of {}{of}", batch.size),
            Some("`remainder: keep` takes what there is"),
        ),
        StageKind::Window { size, .. } => {
            (format!("{its} do not fill a window of {size}{of}"), None)
        }
        StageKind::Filter { .. } => (format!("`filter` keeps none of {its}{of}"), None),
        _ => (
            format!("`{}` keeps none of {its}{of}", counts[first].0),
            None,
        ),
    };
    let error = DataError::new(format!("{message}: {reason}")).at(stage.span);
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

fn named(files: &[PathBuf]) -> String {
    let shown = files.iter().take(MAX_NAMED);
    let mut shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
    if files.len() > MAX_NAMED {
        shown.push(format!("{} others", files.len() - MAX_NAMED));
    }
    shown.join(", ")
}
