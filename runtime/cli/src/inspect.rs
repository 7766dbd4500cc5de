//! `trainspec inspect`

mod events;
mod records;
mod statistics;
mod tensors;

use std::path::PathBuf;

use crate::artifacts::{Artifact, shown};
use crate::output::{note, print};
use crate::{BAD_INPUT, FINE, Format};
use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::CheckpointState;

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
        let artifacts = match shown(path) {
            Ok(artifacts) => artifacts,
            Err(e) => {
                note(format_args!("error: {e}"));
                code = BAD_INPUT;
                continue;
            }
        };
        for artifact in artifacts {
            if !std::mem::take(&mut is_first) && arguments.format == Format::Text {
                print("");
            }
            if let Err(e) = show(arguments, &artifact) {
                note(format_args!("error: {e}"));
                code = BAD_INPUT;
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
            match format {
                Format::Text => {
                    print(format_args!("{}: list of checkpoints", path.display()));
                    for prefix in &state.all_model_checkpoint_paths {
                        let newest = *prefix == state.model_checkpoint_path;
                        print(format_args!(
                            "  {prefix}{}",
                            if newest { "  newest" } else { "" }
                        ));
                    }
                }
                Format::Json => print(serde_json::json!({
                    "kind": "checkpoint_state",
                    "path": path.display().to_string(),
                    "newest": state.model_checkpoint_path,
                    "all": state.all_model_checkpoint_paths,
                })),
            }
            Ok(())
        }
    }
}
