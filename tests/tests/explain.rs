//! Holds the explanations of the codes to what the compiler does.

use trainspec_compiler::diag::{Code, Diagnostic, Style, explain, render};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};

/// The fenced lines under the heading `title` of a page, as a spec.
fn snippet(page: &str, title: &str) -> Option<String> {
    let section = page
        .split_once(&format!("\n## {title}\n\n```trainspec\n"))?
        .1;
    let (spec, _) = section.split_once("```\n").expect("a closed fence");
    Some(match spec.starts_with("spec ") {
        true => spec.to_owned(),
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
fn wrong_examples_are_reported_with_their_code() {
    for code in Code::ALL {
        let Some(spec) = snippet(code.page(), "Wrong") else {
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
fn right_examples_have_no_errors() {
    for code in Code::ALL {
        let Some(spec) = snippet(code.page(), "Right") else {
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

#[test]
fn a_page_is_headed_by_its_code_and_printed_as_plain_text() {
    for code in Code::ALL {
        let heading = format!("# {}\n\n", code.name());
        assert!(code.page().starts_with(&heading), "{}", code.name());
    }
    let text = explain(Code::BlockComment);
    let example = "\n\nWrong:\n\n    /* The width of all layers. */\n    const WIDTH = 64;\n\nRight:\n\n    // The width of all layers.\n    const WIDTH = 64;\n";
    assert!(text.starts_with("A comment was opened with `/*`. "));
    assert!(text.ends_with(example), "{text}");
}

#[test]
fn every_example_of_a_page_is_run() {
    for code in Code::ALL {
        let titles = ["Wrong", "Right"].iter();
        let found = titles.filter(|t| snippet(code.page(), t).is_some()).count();
        let fences = code.page().matches("```").count();
        assert_eq!(2 * found, fences, "{}", code.name());
    }
}
