//! `trainspec fmt`: specs in their canonical layout.

use std::io::Write;
use std::path::{Path, PathBuf};

use trainspec_compiler::fmt;
use trainspec_compiler::source::Sources;

use crate::output::{count, diagnostics, note, print, print_raw};
use crate::{BAD_INPUT, FAILED, FINE, Format, files};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Specs, or folders to look for specs in; `-` formats standard input [default: the specs in this folder]
    files: Vec<PathBuf>,
    /// Change nothing; list the files that would change, and exit with 1 if there are any
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let specs = match files::specs(&arguments.files) {
        Ok(specs) => specs,
        Err(message) => {
            note(format_args!("error: {message}"));
            return BAD_INPUT;
        }
    };
    let mut code = FINE;
    let mut changed = 0;
    for path in &specs {
        match one(path, arguments.check) {
            Ok(false) => {}
            Ok(true) => {
                changed += 1;
                if arguments.check {
                    print(format_args!("would reformat {}", path.display()));
                    code = code.max(FAILED);
                }
            }
            Err(()) => code = BAD_INPUT,
        }
    }
    if !arguments.check && code == FINE && changed > 0 {
        note(format_args!("{} reformatted", count(changed, "spec")));
    }
    code
}

/// Whether the file changed (or would change).
fn one(path: &Path, check: bool) -> Result<bool, ()> {
    let mut sources = Sources::default();
    let text = files::read(path).map_err(|d| diagnostics(&sources, &[d], Format::Text))?;
    sources.add(&path.display().to_string(), &text);
    let formatted =
        fmt::format(&text).map_err(|list| diagnostics(&sources, &list, Format::Text))?;
    if path == Path::new(files::STDIN) {
        if !check {
            print_raw(&formatted);
        }
        return Ok(check && formatted != text);
    }
    if formatted == text {
        return Ok(false);
    }
    if !check {
        replace(path, &formatted).map_err(|error| {
            note(format_args!(
                "error: cannot write `{}`: {error}",
                path.display()
            ));
        })?;
    }
    Ok(true)
}

/// Replaces a file atomically: a reader, even after a crash, finds the old text or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A symbolic link stays one: its target is replaced.
    let path = path.canonicalize()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = (|| {
        let mut file = std::fs::File::create_new(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(std::fs::metadata(&path)?.permissions())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
