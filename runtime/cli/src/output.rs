//! Printing: results to standard output, diagnostics and failures to standard error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use trainspec_compiler::diag::{Diagnostic, Style, render, to_json};
use trainspec_compiler::source::Sources;

use crate::Format;

/// Whether writing a result to standard output failed.
static WRITE_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether whoever read standard output has closed it (EPIPE).
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints a result, with control characters other than line ends and tabs escaped as in JSON, whose values they leave as they are.
pub(crate) fn print(text: impl Display) {
    let text = text.to_string();
    check_write(writeln!(io::stdout(), "{}", escape_controls(&text)));
}

/// Prints a result as it is, without a line end of its own.
pub(crate) fn print_raw(text: &str) {
    put(text.as_bytes());
}

/// Writes bytes as they are.
pub(crate) fn put(bytes: &[u8]) {
    let mut out = io::stdout();
    check_write(out.write_all(bytes).and_then(|()| out.flush()));
}

/// The text with control characters and bidirectional overrides escaped as in JSON, except for line ends and tabs.
///
/// JSON text means the same afterwards: it has such characters in strings alone. A terminal may act on them (U+007F to U+009F), and
/// JSON does not require that they are escaped.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_control(c) && c != '\n' && c != '\t';
    match text.contains(is_escaped) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(
            text.chars()
                .map(|c| match is_escaped(c) {
                    true => format!("\\u{:04x}", u32::from(c)),
                    false => c.to_string(),
                })
                .collect(),
        ),
    }
}

/// Prints a line about a file, with control characters escaped: whatever its names contain, it stays one line and changes no colour.
pub(crate) fn say(text: impl Display) {
    print(plain(text));
}

/// Prints a line with colours of our own, which are left out where the output is no terminal or NO_COLOR is set. Whatever comes from files
/// has been through [`plain`].
pub(crate) fn print_line(text: impl Display) {
    check_write(writeln!(anstream::stdout(), "{text}"));
}

/// Whether a terminal may act on a character instead of showing it.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with control characters and bidirectional overrides escaped.
pub(crate) fn plain(text: impl Display) -> String {
    let text = text.to_string();
    match text.contains(is_control) {
        false => text,
        true => text
            .chars()
            .map(|c| match is_control(c) {
                true => c.escape_default().to_string(),
                false => c.to_string(),
            })
            .collect(),
    }
}

/// Reports a failed write, once; a closed pipe (EPIPE) is no failure.
fn check_write(done: io::Result<()>) {
    match done {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => CLOSED.store(true, Ordering::Relaxed),
        Err(e) if !WRITE_FAILED.swap(true, Ordering::Relaxed) => {
            note(format_args!("error: cannot print the result: {e}"));
        }
        Err(_) => {}
    }
}

/// Whether standard output was found closed: nobody reads what is printed from now on.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Whether all results were printed.
pub(crate) fn is_complete() -> bool {
    !WRITE_FAILED.load(Ordering::Relaxed)
}

/// Prints a remark or a failure.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints diagnostics, rendered as text or as lines of JSON.
pub(crate) fn diagnostics(sources: &Sources, list: &[Diagnostic], format: Format) {
    for diagnostic in list {
        match format {
            // anstream strips colour where the output is no terminal or NO_COLOR is set.
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
    fn escapes_in_json_text_keep_its_values() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        let value = serde_json::json!({ all.as_str(): all });
        let text = value.to_string();
        let escaped = escape_controls(&text);
        assert!(!escaped.contains(is_control), "{escaped}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            value
        );
        assert!(matches!(escape_controls("a\n\tb"), Cow::Borrowed(_)));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("layer/ä `w`"), "layer/ä `w`");
        assert_eq!(
            plain("\u{1b}[31mred\n\u{202e}x"),
            "\\u{1b}[31mred\\n\\u{202e}x"
        );
    }
}
