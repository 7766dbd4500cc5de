//! `trainspec check`: diagnostics of specs.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;
use trainspec::SpecFolder;
use trainspec::registry::Registry;
use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::source::Sources;
use trainspec_compiler::{Binding, Compilation, Footprint, MAX_REPORTED, readable_bytes};

use crate::output::{count, diagnostics, note, print};
use crate::{BAD_INPUT, FINE, Format, files};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Specs, or folders to look for specs in; `-` is standard input [default: the specs in this folder]
    files: Vec<PathBuf>,
    /// Give a constant of the specs another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// Treat warnings as errors
    #[arg(long)]
    deny_warnings: bool,
    /// How diagnostics are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let specs = match files::specs(&arguments.files) {
        Ok(specs) => specs,
        Err(message) => {
            note(format_args!("error: {message}"));
            return BAD_INPUT;
        }
    };
    let start = Instant::now();
    let (mut errors, mut warnings) = (0, 0);
    let mut cut = false;
    let mut memory = Vec::new();
    for path in &specs {
        let (sources, list) = match files::read(path) {
            Err(diagnostic) => (Sources::default(), vec![diagnostic]),
            Ok(text) => {
                let loader = SpecFolder::of(path);
                let name = path.display().to_string();
                let compilation =
                    Compilation::check(&name, &text, &loader, &files::options(&arguments.set));
                // A library of definitions takes no memory.
                let models = compilation.spec.as_ref();
                let models = models.filter(|spec| !spec.variables.is_empty());
                let footprint =
                    models.and_then(|spec| Some((name, Footprint::of(spec, &Binding::new())?)));
                memory.extend(footprint);
                let mut list = compilation.diagnostics;
                // What only a Rust program can run is fine, but not for `trainspec run`.
                let unregistered = compilation.spec.as_ref();
                let unregistered = unregistered.and_then(|spec| Registry::default().check(spec));
                list.extend(unregistered.map(Diagnostic::as_warning));
                (compilation.sources, list)
            }
        };
        diagnostics(&sources, &list, arguments.format);
        let bad = list.iter().filter(|d| d.is_error()).count();
        errors += bad;
        cut |= bad.max(list.len() - bad) >= MAX_REPORTED;
        warnings += list.len() - bad;
    }
    if cut && arguments.format == Format::Text {
        note(format_args!(
            "at most {MAX_REPORTED} errors and {MAX_REPORTED} warnings of a spec are reported at once"
        ));
    }
    let failed = errors > 0 || (arguments.deny_warnings && warnings > 0);
    let what = count(specs.len(), "spec");
    match arguments.format {
        Format::Json => {
            let memory = memory.iter().map(|(name, footprint)| {
                json!({ "spec": name, "state_bytes": footprint.state, "step_bytes": footprint.step })
            });
            print(json!({
                "checked": specs.len(),
                "errors": errors,
                "warnings": warnings,
                "memory": memory.collect::<Vec<_>>(),
            }))
        }
        Format::Text if failed || warnings > 0 => {
            note(format_args!(
                "{what} checked: {}, {}",
                count(errors, "error"),
                count(warnings, "warning")
            ));
        }
        Format::Text => {
            let time = start.elapsed().as_secs_f64() * 1e3;
            print(format_args!("{what} checked, no errors ({time:.1} ms)"));
        }
    }
    if arguments.format == Format::Text {
        for (name, Footprint { state, step, .. }) in &memory {
            let step = step.map_or_else(String::new, |step| {
                format!(", a step {}", readable_bytes(step))
            });
            print(format_args!(
                "{name}: state {}{step}",
                readable_bytes(*state)
            ));
        }
    }
    if failed { BAD_INPUT } else { FINE }
}
