//! Goldens of the command: `golden/*.console` hold what a person types and what is printed.
//!
//! A file is a session in a folder of its own. Lines that begin with `$ ` are typed into `sh`, where `trainspec` is the command; below each
//! stand its standard output after `//>`, its standard error after `//!`, and after `//=` its exit code where it is not 0. Everything else
//! belongs to the author. `BLESS=1` rewrites the expected lines.
//!
//! - `// copy: PATH`: copies a file or folder of the repository into the folder, under its own name
//! - `// file: NAME` up to `// end`: writes a file
//! - `// mask: REGEX => TEXT`: replaces what differs from run to run, such as times

use std::path::{Path, PathBuf};

use crate::support::terminal::Terminal;
use crate::support::{code, err, out, trainspec};

#[test]
fn goldens_of_the_command_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(&folder).expect("goldens");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "console"));
    paths.sort();
    assert!(!paths.is_empty());
    let only = std::env::var("GOLDEN").ok();
    let chosen = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        only.as_ref().is_none_or(|only| name.contains(only))
    };
    let failures: Vec<String> = paths.iter().filter(chosen).filter_map(verify).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Every command has a golden that shows its help.
#[test]
fn every_command_shows_its_help_in_a_golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let help = out(&trainspec(&["help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let path = folder.join(format!("{name}.console"));
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|e| panic!("`{name}` has no golden: {e}"));
        assert!(
            text.contains(&format!("$ trainspec {name} --help")),
            "{name}"
        );
    }
}

/// Runs a golden; says what differs.
fn verify(path: &PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("a readable golden");
    let found = run(&text);
    if found == text {
        return None;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, found).expect("a writable golden");
        return None;
    }
    let diff = similar::TextDiff::from_lines(&text, &found);
    let diff = diff.unified_diff().header("expected", "found").to_string();
    Some(format!("{} (BLESS=1 rewrites it):\n{diff}", path.display()))
}

/// The golden with what its commands print now.
fn run(text: &str) -> String {
    let mut terminal = Terminal::new();
    let mut found = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        found += &format!("{line}\n");
        if let Some(typed) = line.strip_prefix("$ ") {
            while lines.next_if(|line| is_expected(line)).is_some() {}
            found += &printed(typed, &terminal);
        } else if let Some(directive) = line.strip_prefix("// ") {
            terminal.obeys(directive, &mut lines, |line| found += &format!("{line}\n"));
        }
    }
    found
}

fn is_expected(line: &str) -> bool {
    ["//>", "//!", "//="]
        .iter()
        .any(|mark| line.starts_with(mark))
}

/// What a command prints, marked.
fn printed(typed: &str, terminal: &Terminal) -> String {
    let output = terminal.shell(typed).output().expect("sh");
    let mut text = String::new();
    for (mark, stream) in [("//>", out(&output)), ("//!", err(&output))] {
        for line in terminal.masked(&stream).lines() {
            text += format!("{mark} {line}").trim_end();
            text.push('\n');
        }
    }
    match code(&output) {
        0 => text,
        code => format!("{text}//= {code}\n"),
    }
}
