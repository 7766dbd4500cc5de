//! `trainspec inspect`: the contents of checkpoints, TFRecord files and event files.

mod events;
mod features;
mod last;
mod list;
mod records;
mod statistics;
mod tensors;

use std::path::PathBuf;

use crate::artifacts::{Artifact, shown};
use crate::failure::Failure;
use crate::output::print;
use crate::{FINE, Format};
use trainspec_formats::FormatError;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A folder shows the newest checkpoint of every folder in it, and its event and record files. A glob\n\
                  pattern, or `name@5` for `name-00000-of-00005` and so on, shows what it matches. A line of JSON is\n\
                  one checkpoint, record file, record, log directory or list of checkpoints; `kind` says which. Names\n\
                  of more than 256 characters are cut in tables, not in JSON."
)]
pub(crate) struct Arguments {
    /// A checkpoint (its prefix or its folder), a record file, an event file, a log directory, a safetensors or npz file
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Show at most this many records of a record file
    #[arg(long, value_name = "N", default_value_t = 3)]
    records: u64,
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
                code = Failure::from(e).report(arguments.format);
                continue;
            }
        };
        found.report_skipped(arguments.format);
        for error in found.damaged {
            code = Failure::from(error).report(arguments.format);
        }
        for artifact in found.artifacts {
            if !std::mem::take(&mut is_first) && arguments.format == Format::Text {
                print("");
            }
            for e in show(arguments, &artifact) {
                let e = e.in_file(artifact.path());
                code = Failure::from(e).report(arguments.format);
            }
        }
    }
    code
}

/// Shows an artifact; gives its damage.
fn show(arguments: &Arguments, artifact: &Artifact) -> Vec<FormatError> {
    let format = arguments.format;
    let first = |shown: Result<(), FormatError>| shown.err().into_iter().collect();
    match artifact {
        Artifact::Checkpoint(path) => first(tensors::show(path, !arguments.no_values, format)),
        Artifact::Records(path) => first(records::show(path, arguments.records, format)),
        Artifact::Events(path) => events::show(path, format).unwrap_or_else(|e| vec![e]),
        Artifact::State(path) => first(list::show(path, format)),
    }
}
