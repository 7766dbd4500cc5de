//! `trainspec recover`: the intact records of a damaged TFRecord file.

use std::path::PathBuf;

use serde_json::json;
use trainspec_formats::files::Durability;
use trainspec_formats::records::{Compression, RecordWriter, Recovering, WriterOptions};

use crate::failure::Failure;
use crate::output::{count, print, say};
use crate::progress::Progress;
use crate::{FINE, Format};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "After damage, reading resumes at the next offset where both checksums of a record are right. Of a\n\
                  compressed file, what is before the first damage is saved, and offsets count the bytes after\n\
                  decompression. JSON is one object: `input`, `output` (null if nothing is written), `records`, and\n\
                  `skipped` with `from`, `to` (null in a compressed file) and `cause` of each damaged part. Exit codes:\n\
                  0 done; 1 nothing can be saved, or it could not be written; 2 bad input."
)]
pub(crate) struct Arguments {
    /// The record file that may be damaged; it is not changed
    input: PathBuf,
    /// The file that the intact records are written to, which appears when it is complete
    output: PathBuf,
    /// How the new file is compressed
    #[arg(long, value_enum, default_value_t = OutputCompression::None)]
    compression: OutputCompression,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputCompression {
    None,
    Gzip,
    Zlib,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    match recover(arguments) {
        Ok(()) => FINE,
        Err(failure) => failure.report(arguments.format),
    }
}

fn recover(arguments: &Arguments) -> Result<(), Failure> {
    let (input, output) = (&arguments.input, &arguments.output);
    let mut reader = Recovering::open(input)?;
    if output.exists() {
        if let (Ok(from), Ok(to)) = (input.canonicalize(), output.canonicalize())
            && from == to
        {
            let message = format!("{} would be written over itself", input.display());
            return Err(Failure::input(message).help("name another file to write"));
        }
        if !arguments.force {
            let message = format!("{} is there already", output.display());
            return Err(
                Failure::input(message).help("`--force` replaces it, when the new one is complete")
            );
        }
    }
    let options = WriterOptions {
        compression: match arguments.compression {
            OutputCompression::None => Compression::None,
            OutputCompression::Gzip => Compression::Gzip,
            OutputCompression::Zlib => Compression::Zlib,
        },
        ..WriterOptions::default()
    };
    let mut writer = RecordWriter::replacing(output, &options).map_err(Failure::output)?;
    let progress = Progress::of_file(input);
    while let Some(record) = reader.next()? {
        writer.write(record).map_err(Failure::output)?;
        progress.to(reader.bytes_read());
    }
    drop(progress);
    let saved = reader.records();
    // A file without records and without damage is intact.
    let is_written = saved > 0 || reader.skipped().is_empty();
    if is_written {
        writer.commit(Durability::Synced).map_err(Failure::output)?;
    }
    match arguments.format {
        Format::Text => {
            for skipped in reader.skipped() {
                let (from, cause) = (skipped.from, &skipped.cause);
                match skipped.to {
                    Some(to) => say(format_args!("skipped {from} to {to}: {cause}")),
                    // The rest of a compressed file.
                    None => say(format_args!("skipped {from} to the end: {cause}")),
                }
            }
            if is_written {
                say(format_args!(
                    "{}: {} saved, {} skipped",
                    arguments.output.display(),
                    count(saved as usize, "record"),
                    count(reader.skipped().len(), "damaged part")
                ));
            }
        }
        Format::Json => print(json!({
            "input": arguments.input.display().to_string(),
            "output": is_written.then(|| arguments.output.display().to_string()),
            "records": saved,
            "skipped": reader.skipped().iter().map(|s| json!({
                "from": s.from, "to": s.to, "cause": s.cause,
            })).collect::<Vec<_>>(),
        })),
    }
    match is_written {
        true => Ok(()),
        false => Err(Failure::output(format!(
            "{}: no record is intact, and nothing is written",
            input.display()
        ))),
    }
}
