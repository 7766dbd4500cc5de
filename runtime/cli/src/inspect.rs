//! `trainspec inspect`

mod events;
mod records;
mod statistics;
mod tensors;

use std::path::{Path, PathBuf};

use crate::artifacts::{Artifact, shown};
use crate::columns::Side;
use crate::failure::Failure;
use crate::output::{print, say};
use crate::{FINE, Format, columns};
use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::{CheckpointState, checkpoint_exists};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A folder shows its newest checkpoint, and the event and record files in it and below it. A line of\n\
                  JSON is one checkpoint, record file, log directory or list of checkpoints; `kind` says which."
)]
pub(crate) struct Arguments {
    /// A checkpoint (its prefix or its folder), a record file, an event file, a log directory, a safetensors or npz file
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Show at most this many records of a record file
    #[arg(long, value_name = "N", default_value_t = 3)]
    records: usize,
    /// Do not read the tensors of a checkpoint, only what its index says of them
    #[arg(long)]
    no_values: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let mut code = FINE;
    let mut is_first = true;
    for path in &arguments.paths {
        let found = match shown(path) {
            Ok(found) => found,
            Err(e) => {
                code = Failure::from(e).tell(arguments.format);
                continue;
            }
        };
        found.tell_passed_over(arguments.format);
        for error in found.broken {
            code = Failure::from(error).tell(arguments.format);
        }
        for artifact in found.artifacts {
            if !std::mem::take(&mut is_first) && arguments.format == Format::Text {
                print("");
            }
            if let Err(e) = show(arguments, &artifact) {
                code = Failure::from(e).tell(arguments.format);
            }
        }
    }
    code
}

fn show(arguments: &Arguments, artifact: &Artifact) -> Result<(), FormatError> {
    let format = arguments.format;
    match artifact {
        Artifact::Checkpoint(path) => tensors::show(path, !arguments.no_values, format),
        Artifact::Records(path) => records::show(path, arguments.records, format),
        Artifact::Events(path) => events::show(path, format),
        Artifact::State(path) => {
            let state = CheckpointState::read(path)?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let is_there = |prefix: &str| checkpoint_exists(&folder.join(prefix));
            let mut all = state.all_model_checkpoint_paths.clone();
            if !all.contains(&state.model_checkpoint_path) {
                all.push(state.model_checkpoint_path.clone());
            }
            match format {
                Format::Text => {
                    say(format_args!("{}: list of checkpoints", path.display()));
                    let rows: Vec<_> = all
                        .into_iter()
                        .map(|prefix| {
                            let newest = prefix == state.model_checkpoint_path;
                            let files = if is_there(&prefix) {
                                "there"
                            } else {
                                "missing"
                            };
                            let place = if newest { "newest" } else { "" };
                            vec![prefix, files.to_owned(), place.to_owned()]
                        })
                        .collect();
                    let head = [
                        ("prefix", Side::Left),
                        ("files", Side::Left),
                        ("", Side::Left),
                    ];
                    columns::lines(&head, &rows).into_iter().for_each(say);
                }
                Format::Json => print(serde_json::json!({
                    "kind": "checkpoint_state",
                    "path": path.display().to_string(),
                    "newest": state.model_checkpoint_path,
                    "all": state.all_model_checkpoint_paths,
                    "missing": all.iter().filter(|prefix| !is_there(prefix)).collect::<Vec<_>>(),
                })),
            }
            Ok(())
        }
    }
}
