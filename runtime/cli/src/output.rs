//! Printing: results to standard output, diagnostics and failures to standard error.

use std::fmt::Display;
use std::io::Write;

use trainspec_compiler::diag::{Diagnostic, Style, render, to_json};
use trainspec_compiler::source::Sources;

use crate::Format;

/// Prints a result. A reader that has gone away is no failure of ours.
pub(crate) fn print(text: impl Display) {
    let _ = writeln!(anstream::stdout(), "{text}");
}

/// Prints a result without a line end of its own.
pub(crate) fn print_raw(text: &str) {
    let _ = anstream::stdout().write_all(text.as_bytes());
}

/// Prints a remark or a failure.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints diagnostics, drawn for people or as lines of JSON for programs.
pub(crate) fn diagnostics(sources: &Sources, list: &[Diagnostic], format: Format) {
    for diagnostic in list {
        match format {
            // anstream removes the colour where the reader is no terminal or does not want it.
            Format::Text => note(format_args!(
                "{}\n",
                render(sources, diagnostic, Style::Colour)
            )),
            Format::Json => print(to_json(sources, diagnostic)),
        }
    }
}

/// `1 error`, `3 errors`.
pub(crate) fn count(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
