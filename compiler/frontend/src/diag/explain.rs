//! Explanations of error codes, for `trainspec explain CODE`.
//!
//! In: the code's page, `explain/CODE.md`: a heading, a paragraph whose first sentence is also shown in the list of all codes,
//! and, where a few lines can show it, a spec under `Wrong` and one under `Right`. Out: the page as plain text for a
//! terminal. A test checks both specs.

use std::fmt::Write;

use crate::diag::Code;

/// A paragraph on the code, with an example, as plain text.
pub fn explain(code: Code) -> String {
    let mut text = String::new();
    let mut in_fence = false;
    // The first heading repeats the code.
    for line in code.page().lines().skip(2) {
        if line.starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        let _ = match (line.strip_prefix("## "), in_fence) {
            (Some(title), false) => writeln!(text, "{title}:"),
            (_, true) if !line.is_empty() => writeln!(text, "    {line}"),
            (_, true | false) => writeln!(text, "{line}"),
        };
    }
    text
}
