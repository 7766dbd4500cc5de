//! Holds the explanations of the codes to what the compiler does.

use trainspec_compiler::diag::{Code, Diagnostic, Style, explain, render};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};

/// The indented lines after `Wrong:` or `Right:`, as a spec.
fn snippet(text: &str, title: &str) -> Option<String> {
    let after = text.split_once(&format!("\n{title}:\n"))?.1;
    let lines = after
        .lines()
        .take_while(|l| l.is_empty() || l.starts_with("    "));
    let spec: Vec<&str> = lines.map(|l| l.strip_prefix("    ").unwrap_or(l)).collect();
    let spec = format!("{}\n", spec.join("\n").trim());
    Some(match spec.starts_with("spec ") {
        true => spec,
        false => format!("spec example;\n{spec}"),
    })
}

fn check(spec: &str) -> (Vec<Diagnostic>, String) {
    let compilation = Compilation::check("example.trainspec", spec, &NoFiles, &Options::default());
    let drawn: Vec<String> = compilation
        .diagnostics
        .iter()
        .map(|d| render(&compilation.sources, d, Style::Plain))
        .collect();
    (compilation.diagnostics, drawn.join("\n"))
}

#[test]
fn what_is_called_wrong_has_its_error() {
    for code in Code::ALL {
        let Some(spec) = snippet(explain(*code), "Wrong") else {
            continue;
        };
        let (found, drawn) = check(&spec);
        assert!(
            found.iter().any(|d| d.code == *code),
            "{}:\n{spec}\n{drawn}",
            code.name()
        );
    }
}

#[test]
fn what_is_called_right_has_no_errors() {
    for code in Code::ALL {
        let Some(spec) = snippet(explain(*code), "Right") else {
            continue;
        };
        let (found, drawn) = check(&spec);
        let odd = found.iter().any(|d| d.is_error() || d.code == *code);
        assert!(!odd, "{}:\n{spec}\n{drawn}", code.name());
    }
}

#[test]
fn every_explanation_begins_with_a_short_summary() {
    for code in Code::ALL {
        let text = explain(*code);
        let summary = text
            .split_once(". ")
            .map(|(summary, _)| summary.replace('\n', " "));
        let summary = summary.unwrap_or_else(|| panic!("{} has no summary", code.name()));
        assert!(summary.len() <= 100, "{}: {summary}", code.name());
        assert!(text.ends_with('\n'), "{}", code.name());
    }
}
