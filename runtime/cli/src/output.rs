//! Printing: results to standard output, diagnostics and failures to standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use trainspec_compiler::diag::{Diagnostic, Style, render, to_json};
use trainspec_compiler::source::Sources;

use crate::Format;

/// Whether a result could not be printed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a result.
pub(crate) fn print(text: impl Display) {
    told(writeln!(anstream::stdout(), "{text}"));
}

/// Prints a result without a line end of its own.
pub(crate) fn print_raw(text: &str) {
    told(anstream::stdout().write_all(text.as_bytes()));
}

/// Prints a line about a file. Whatever its names hold, it stays one line and changes no colour.
pub(crate) fn say(text: impl Display) {
    print(plain(text));
}

/// The text with what a terminal would obey, and what would change the order of letters, written as escapes.
pub(crate) fn plain(text: impl Display) -> String {
    let obeyed =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text = text.to_string();
    match text.contains(obeyed) {
        false => text,
        true => text
            .chars()
            .map(|c| match obeyed(c) {
                true => c.escape_default().to_string(),
                false => c.to_string(),
            })
            .collect(),
    }
}

/// A reader that has gone away is no failure of ours; a disk that is full is.
fn told(done: io::Result<()>) {
    if let Err(e) = done
        && e.kind() != io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        note(format_args!("error: cannot print the result: {e}"));
    }
}

/// Whether all results were printed.
pub(crate) fn is_whole() -> bool {
    !LOST.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(plain("layer/ä `w`"), "layer/ä `w`");
        assert_eq!(
            plain("\u{1b}[31mred\n\u{202e}x"),
            "\\u{1b}[31mred\\n\\u{202e}x"
        );
    }
}
