//! `trainspec recover`

use std::path::PathBuf;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::files::Durability;
use trainspec_formats::records::{Compression, RecordWriter, Recovering, WriterOptions};

use crate::output::{count, note, print};
use crate::progress::{Progress, framed};
use crate::{BAD_INPUT, FAILED, FINE, Format};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Behind damage, reading goes on at the next place where both checksums of a record are right. Of a\n\
                  compressed file, what is before the first damage is saved. Exit code 1 if nothing can be saved."
)]
pub(crate) struct Arguments {
    /// The record file that may be damaged; it is not changed
    input: PathBuf,
    /// The file that the intact records are written to, which appears when it is complete
    output: PathBuf,
    /// How the new file is compressed
    #[arg(long, value_enum, default_value_t = Packing::None)]
    compression: Packing,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Packing {
    None,
    Gzip,
    Zlib,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    if arguments.output.exists() && !arguments.force {
        note(format_args!(
            "error: {} is there already; `--force` writes over it",
            arguments.output.display()
        ));
        return BAD_INPUT;
    }
    match recover(arguments) {
        Ok(0) => {
            note(format_args!(
                "error: {}: no record is intact",
                arguments.input.display()
            ));
            FAILED
        }
        Ok(_) => FINE,
        Err(e) => {
            note(format_args!("error: {e}"));
            BAD_INPUT
        }
    }
}

/// Gives how many records were saved.
fn recover(arguments: &Arguments) -> Result<u64, FormatError> {
    let mut reader = Recovering::open(&arguments.input)?;
    let options = WriterOptions {
        compression: match arguments.compression {
            Packing::None => Compression::None,
            Packing::Gzip => Compression::Gzip,
            Packing::Zlib => Compression::Zlib,
        },
        ..WriterOptions::default()
    };
    let mut writer = RecordWriter::replacing(&arguments.output, &options)?;
    let progress = Progress::of_file(&arguments.input);
    while let Some(record) = reader.next()? {
        writer.write(record)?;
        progress.add(framed(record));
    }
    drop(progress);
    let saved = reader.records();
    if saved > 0 {
        writer.commit(Durability::Synced)?;
    }
    match arguments.format {
        Format::Text => {
            for skipped in reader.skipped() {
                let to = skipped
                    .to
                    .map_or_else(|| "the end".to_owned(), |to| to.to_string());
                print(format_args!(
                    "passed over {} to {to}: {}",
                    skipped.from, skipped.cause
                ));
            }
            print(format_args!(
                "{}: {} saved, {} passed over",
                arguments.output.display(),
                count(saved as usize, "record"),
                count(reader.skipped().len(), "damaged part")
            ));
        }
        Format::Json => print(json!({
            "input": arguments.input.display().to_string(),
            "output": arguments.output.display().to_string(),
            "records": saved,
            "skipped": reader.skipped().iter().map(|s| json!({
                "from": s.from, "to": s.to, "cause": s.cause,
            })).collect::<Vec<_>>(),
        })),
    }
    Ok(saved)
}
