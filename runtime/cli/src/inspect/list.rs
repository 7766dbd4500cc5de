//! A list of checkpoints (`CheckpointState`), and whether each exists.

use std::path::Path;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::{CheckpointLocation, CheckpointState, locate_checkpoint};

use crate::Format;
use crate::artifacts::CHECKPOINT_LIST;
use crate::columns::{self, Align};
use crate::output::{print, say};

pub(crate) fn show(path: &Path, format: Format) -> Result<(), FormatError> {
    let state = CheckpointState::read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let all: Vec<(String, CheckpointLocation)> = state
        .listed()
        .into_iter()
        .map(|prefix| (prefix.clone(), locate_checkpoint(folder, &prefix)))
        .collect();
    let newest = &state.model_checkpoint_path;
    match format {
        Format::Text => {
            say(format_args!("{}: {CHECKPOINT_LIST}", path.display()));
            let rows: Vec<_> = all
                .into_iter()
                .map(|(prefix, status)| {
                    let files = match status {
                        CheckpointLocation::Present => "there",
                        CheckpointLocation::Missing => "missing",
                        CheckpointLocation::Outside => "outside",
                    };
                    let mark = if prefix == *newest { "newest" } else { "" };
                    vec![prefix, files.to_owned(), mark.to_owned()]
                })
                .collect();
            let head = [
                ("prefix", Align::Left),
                ("files", Align::Left),
                ("", Align::Left),
            ];
            columns::lines(&head, &rows).for_each(say);
        }
        Format::Json => {
            let of = |status: CheckpointLocation| -> Vec<&str> {
                let those = all.iter().filter(|(_, found)| *found == status);
                those.map(|(prefix, _)| prefix.as_str()).collect()
            };
            print(json!({
                "kind": CHECKPOINT_LIST,
                "path": path.display().to_string(),
                "newest": newest,
                "all": state.all_model_checkpoint_paths,
                "missing": of(CheckpointLocation::Missing),
                "outside": of(CheckpointLocation::Outside),
            }));
        }
    }
    Ok(())
}
