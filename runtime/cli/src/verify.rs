//! `trainspec verify`: every checksum of checkpoints, TFRecord files and event files.

use std::path::{Path, PathBuf};

use serde_json::json;
use trainspec_formats::checkpoint::{
    self, CheckpointLocation, CheckpointReader, CheckpointState, locate_checkpoint,
};
use trainspec_formats::events::{EventReader, ReaderOptions as EventOptions, Tail, is_event_file};
use trainspec_formats::records::Recovering;
use trainspec_formats::{Code, FileKind, FormatError};

use crate::artifacts::{Artifact, CHECKPOINT_LIST, all, kind_of};
use crate::failure::Failure;
use crate::output::{note, plain, print, say};
use crate::progress::{Progress, Spinner};
use crate::{BAD_INPUT, FINE, Format};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads everything and compares every checksum. Of a folder, all checkpoints, record files and event\n\
                  files in it and below it are checked; a file that is not of the format its name implies is damaged. Exit\n\
                  code 2 if anything is damaged. A line of JSON is one file or checkpoint: `path`, `kind`, and\n\
                  `damage` with file, offset and cause of each; or `path` and `skipped`, where it is no file or the\n\
                  model of another program. In a compressed file, offsets count the bytes after decompression."
)]
pub(crate) struct Arguments {
    /// Checkpoints, record files, event files, or folders of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print nothing about what is intact
    #[arg(long)]
    quiet: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let (mut checked, mut damaged, mut code) = (0, 0, FINE);
    for path in &arguments.paths {
        let found = match all(path) {
            Ok(found) => found,
            Err(e) => {
                code = Failure::from(e).report(arguments.format);
                continue;
            }
        };
        found.report_skipped(arguments.format);
        for error in found.damaged {
            checked += 1;
            damaged += 1;
            let file = error.path.clone().unwrap_or_else(|| path.clone());
            report(arguments, &file, "unknown", &[error]);
        }
        for artifact in found.artifacts {
            let (kind, damage) = check(&artifact);
            let damage = damage.into_iter().map(|e| e.in_file(artifact.path()));
            let damage: Vec<FormatError> = damage.collect();
            checked += 1;
            damaged += usize::from(!damage.is_empty());
            report(arguments, artifact.path(), kind, &damage);
        }
    }
    if checked > 1 && arguments.format == Format::Text && !arguments.quiet {
        say(format_args!(
            "{checked} checked: {} intact, {damaged} damaged",
            checked - damaged
        ));
    }
    match damaged {
        0 => code,
        _ => BAD_INPUT,
    }
}

fn report(arguments: &Arguments, path: &Path, kind: &str, damage: &[FormatError]) {
    match arguments.format {
        Format::Text => {
            if damage.is_empty() && !arguments.quiet {
                say(format_args!("{}: {kind}, intact", path.display()));
            }
            for error in damage {
                note(format_args!("error: {}", plain(error)));
            }
        }
        Format::Json => print(json!({
            "path": path.display().to_string(),
            "kind": kind,
            "damage": damage.iter().map(|e| json!({
                "file": e.path.as_ref().map(|p| p.display().to_string()),
                "offset": e.offset,
                "cause": match &e.source {
                    Some(source) => format!("{}: {source}", e.cause),
                    None => e.cause.clone(),
                },
            })).collect::<Vec<_>>(),
        })),
    }
}

/// The kind of an artifact, and its damage.
fn check(artifact: &Artifact) -> (&'static str, Vec<FormatError>) {
    match artifact {
        Artifact::Checkpoint(path) => {
            let _spinner = Spinner::new("verifying", path);
            match CheckpointReader::open_prefix(path) {
                Ok(reader) => (kind_of(&reader), reader.verify()),
                Err(_) => ("checkpoint", checkpoint::verify(path)),
            }
        }
        Artifact::State(path) => (CHECKPOINT_LIST, list(path).unwrap_or_else(|e| vec![e])),
        Artifact::Records(path) => ("records", records(path).unwrap_or_else(|e| vec![e])),
        Artifact::Events(path) if path.is_dir() => {
            ("events", folder(path).unwrap_or_else(|e| vec![e]))
        }
        Artifact::Events(path) => ("events", events(path)),
    }
}

/// The damage of a list of checkpoints: entries that are missing or outside the folder.
fn list(path: &Path) -> Result<Vec<FormatError>, FormatError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let listed = CheckpointState::read(path)?.listed();
    let wrong = listed.into_iter().filter_map(|prefix| {
        let cause = match locate_checkpoint(folder, &prefix) {
            CheckpointLocation::Present => return None,
            CheckpointLocation::Missing => format!("the checkpoint `{prefix}` is missing"),
            CheckpointLocation::Outside => format!("the path `{prefix}` leads out of the folder"),
        };
        Some(FormatError::not_found(FileKind::CheckpointState, cause).in_file(path))
    });
    Ok(wrong.collect())
}

fn records(path: &Path) -> Result<Vec<FormatError>, FormatError> {
    let mut reader = Recovering::open(path)?;
    let progress = Progress::of_file(path);
    while reader.check_next()?.is_some() {
        progress.to(reader.bytes_read());
    }
    let error = |skipped: &trainspec_formats::records::Skipped| {
        let cause = match skipped.to {
            Some(to) => format!(
                "{} ({} bytes)",
                skipped.cause,
                to.saturating_sub(skipped.from)
            ),
            // The rest of a compressed file.
            None => skipped.cause.clone(),
        };
        FormatError::data_loss(FileKind::Record, cause)
            .at(skipped.from)
            .in_file(path)
    };
    Ok(reader.skipped().iter().map(error).collect())
}

/// The event files of a folder.
fn folder(path: &Path) -> Result<Vec<FormatError>, FormatError> {
    let failed = |e| FormatError::io(FileKind::Events, "list the folder", e).in_file(path);
    let mut damage = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if is_event_file(&entry.file_name().to_string_lossy()) && entry.path().is_file() {
            damage.extend(events(&entry.path()));
        }
    }
    Ok(damage)
}

/// The damage of an event file. Unlike a reader that follows a run, a truncated last event counts, unless it is being written.
fn events(path: &Path) -> Vec<FormatError> {
    let mut damage = Vec::new();
    let mut read = || -> Result<(), FormatError> {
        let mut reader = EventReader::open(path, EventOptions::default())?;
        let progress = Progress::of_file(path);
        loop {
            let before = reader.position();
            let next = reader.poll();
            progress.add(reader.position() - before);
            match next {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // After a record that is no event there may be others.
                Err(e) if reader.position() > before => damage.push(e),
                Err(e) => return Err(e),
            }
        }
        match reader.tail()? {
            Tail::Complete | Tail::BeingWritten { .. } => Ok(()),
            Tail::Torn { bytes } => {
                let cause =
                    format!("the file ends inside an event, of which {bytes} bytes are there");
                let error = FormatError::new(Code::DataLoss, FileKind::Events, cause);
                Err(error.at(reader.position()).in_file(path))
            }
        }
    };
    let last = read().err();
    damage.extend(last);
    damage
}
