//! The sessions on the pages of the documentation: every command in a `console` block is typed, and what a person sees is compared.
//!
//! In: `README.md` and `docs/*.md`. The blocks of a page are one session, in a shell that begins in an empty folder. Lines that begin with
//! `$ ` are typed, those with `> ` go on with them; what follows is what is printed, standard output and standard error as they come. A line
//! `...` stands for any lines, and `^C` for the key: it is pressed when the lines before it are there. `BLESS=1` writes what is printed where
//! it differs by more than masks.
//!
//! `cargo run --release -- ` is what a clone types for `trainspec `.
//!
//! A comment `<!-- console` prepares the folder, with a directive in each line up to `-->`:
//!
//! - `copy: PATH as NAME`: copies a file or folder of the repository into the folder
//! - `file: NAME` up to `end`: writes a file
//! - `mask: REGEX => TEXT`: replaces what differs from run to run, from here on
//! - `mask here: REGEX => TEXT`: the same in the next block alone
//! - `late: REGEX`: lines that come from a thread, so that others may come before them
//! - `block: NAME`: writes the next block of another kind as a file
//! - `same: FILE as PATH`: a file that the session has written is that of the repository
//! - `fresh`: goes on in an empty folder, with the same masks

use std::path::PathBuf;

use regex_lite::Regex;

use crate::support::root;
use crate::support::terminal::{Terminal, mask};

/// Times and sizes that hang on the machine.
const MASKS: &[&str] = &[
    r" +\[\d[^\]]*s\] =>   [TIME]",
    r"\(\d[0-9.]* ms\) => (TIME)",
    r"on \d+ threads? => on N threads",
    r"[0-9.]+ [KMGT]iB are free => SIZE are free",
    r"\.tfevents\.\S+ => .tfevents.TIME",
];

#[test]
fn sessions_on_pages_are_what_is_printed() {
    let only = std::env::var("GOLDEN").ok();
    let mut pages = vec![root().join("README.md")];
    let entries = std::fs::read_dir(root().join("docs")).expect("pages");
    pages.extend(entries.map(|entry| entry.unwrap().path()));
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.sort();
    let mut failures = Vec::new();
    for path in pages {
        let name = path
            .strip_prefix(root())
            .unwrap_or(&path)
            .display()
            .to_string();
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable page");
        let mut page = Page::new();
        let found = page.run(&text);
        if found != text && std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, found).expect("a writable page");
        } else if found != text {
            let diff = similar::TextDiff::from_lines(&text, &found);
            let diff = diff.unified_diff().header("expected", "found").to_string();
            page.failures.push(format!("{diff}(BLESS=1 rewrites it)"));
        }
        let own = page.failures.into_iter();
        failures.extend(own.map(|failure| format!("{name}: {failure}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Options in the examples of commands exist, whatever files they name.
#[test]
fn commands_on_pages_know_their_options() {
    let mut pages = vec![root().join("README.md")];
    let entries = std::fs::read_dir(root().join("docs")).expect("pages");
    pages.extend(entries.map(|entry| entry.unwrap().path()));
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    let terminal = Terminal::new();
    let mut helps = std::collections::BTreeMap::new();
    let mut wrong = Vec::new();
    for path in pages {
        let text = std::fs::read_to_string(&path).expect("a readable page");
        let mut is_shell = false;
        for line in text.lines() {
            if let Some(info) = line.strip_prefix("```") {
                is_shell = info == "sh";
                continue;
            }
            let command = line.split('#').next().unwrap_or_default();
            let Some(at) = command.find("trainspec ").filter(|_| is_shell) else {
                continue;
            };
            let words: Vec<&str> = command[at..].split_whitespace().skip(1).collect();
            let Some(name) = words.first().filter(|_| !command.contains("cargo ")) else {
                continue;
            };
            let help = helps.entry((*name).to_owned()).or_insert_with(|| {
                let output = terminal.shell(&format!("trainspec {name} --help")).output();
                let output = output.expect("sh");
                assert!(output.status.success(), "{}: {line}", path.display());
                String::from_utf8_lossy(&output.stdout).into_owned()
            });
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let option = option.split('=').next().unwrap_or_default();
                if !help.contains(option) {
                    wrong.push(format!("{}: `{name}` has no {option}", path.display()));
                }
            }
        }
    }
    assert!(helps.len() > 5, "pages show commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The table of commands has a row for each command, and options that it has.
#[test]
fn the_table_of_commands_is_complete() {
    let table = std::fs::read_to_string(root().join("docs/commands.md")).expect("a page");
    let terminal = Terminal::new();
    let help = |name: &str| {
        let output = terminal.shell(&format!("trainspec {name} --help")).output();
        String::from_utf8_lossy(&output.expect("sh").stdout).into_owned()
    };
    let all = help("");
    let listed = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let commands = listed.filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| !line.starts_with([' ', 'h']));
    let mut count = 0;
    let mut wrong = Vec::new();
    for name in commands.filter_map(|line| line.split(' ').next()) {
        count += 1;
        let row = table.lines().find(|line| {
            let cell = line.split('|').nth(1).unwrap_or_default();
            let mut words = cell.split(|c: char| !c.is_alphanumeric() && c != '-');
            line.starts_with('|') && words.any(|word| word == name)
        });
        let Some(row) = row else {
            wrong.push(format!("docs/commands.md lacks `{name}`"));
            continue;
        };
        let help = help(name);
        // In the rows of one command; what a row says of others stands in words.
        let code = row.split('`').skip(1).step_by(2);
        for option in code.filter(|code| code.starts_with("--")) {
            let option = option.split([' ', '=']).next().unwrap_or_default();
            if !help.contains(option) && !row.contains("`, `diff`") {
                wrong.push(format!("docs/commands.md: `{name}` has no {option}"));
            }
        }
    }
    assert!(count > 20, "{count} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A page as it is read.
struct Page {
    terminal: Terminal,
    /// Lines that come from a thread.
    late: Vec<Regex>,
    /// Masks of the next block.
    here: Vec<(Regex, String)>,
    /// The file that the next block of another kind is.
    block: Option<String>,
    failures: Vec<String>,
}

impl Page {
    fn new() -> Page {
        let mut terminal = Terminal::new();
        terminal.masks.extend(MASKS.iter().map(|text| mask(text)));
        Page {
            terminal,
            late: Vec::new(),
            here: Vec::new(),
            block: None,
            failures: Vec::new(),
        }
    }

    /// The page with what its commands print now.
    fn run(&mut self, text: &str) -> String {
        let mut found = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            found += &format!("{line}\n");
            match line {
                "<!-- console" => self.prepare(&mut lines, &mut found),
                "```console" => {
                    let block: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
                    let common = self.terminal.masks.len();
                    self.terminal.masks.append(&mut self.here);
                    found += &self.session(&block);
                    found += "```\n";
                    self.terminal.masks.truncate(common);
                }
                _ if line.starts_with("```") => {
                    // Another kind of block, up to its end.
                    let block: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
                    let text: String = block.iter().map(|line| format!("{line}\n")).collect();
                    if let Some(name) = self.block.take() {
                        self.terminal.folder.write(&name, &text);
                    }
                    found += &format!("{text}```\n");
                }
                _ => {}
            }
        }
        found
    }

    fn prepare<'t>(&mut self, lines: &mut impl Iterator<Item = &'t str>, found: &mut String) {
        while let Some(line) = lines.next() {
            *found += &format!("{line}\n");
            if line == "-->" {
                return;
            } else if let Some(text) = line.strip_prefix("mask here: ") {
                self.here.push(mask(text));
            } else if let Some(pattern) = line.strip_prefix("late: ") {
                self.late.push(Regex::new(pattern).expect("a pattern"));
            } else if let Some(files) = line.strip_prefix("same: ") {
                self.compare_files(files);
            } else if let Some(name) = line.strip_prefix("block: ") {
                self.block = Some(name.to_owned());
            } else if line == "fresh" {
                let masks = self.terminal.masks.split_off(1);
                self.terminal = Terminal::new();
                self.terminal.masks.extend(masks);
            } else if !self
                .terminal
                .obeys(line, lines, |line| *found += &format!("{line}\n"))
            {
                self.failures.push(format!("this is no directive: {line}"));
            }
        }
    }

    fn compare_files(&mut self, files: &str) {
        let (own, kept) = files.split_once(" as ").expect("`same` has two files");
        let kept: PathBuf = root().join(kept);
        let Ok(new) = std::fs::read(self.terminal.folder.0.join(own)) else {
            self.failures.push(format!("no command writes {own}"));
            return;
        };
        if std::fs::read(&kept).ok().as_ref() == Some(&new) {
            return;
        }
        match std::env::var_os("BLESS") {
            Some(_) => std::fs::write(&kept, new).expect("a writable file"),
            None => self.failures.push(format!(
                "{own} is not {} (BLESS=1 writes it)",
                kept.display()
            )),
        }
    }

    /// The lines of a block, as they are or as they are printed now.
    fn session(&mut self, block: &[&str]) -> String {
        let mut found = String::new();
        let mut lines = block.iter().copied().peekable();
        while let Some(line) = lines.next() {
            found += &format!("{line}\n");
            let Some(typed) = line.strip_prefix("$ ") else {
                self.failures
                    .push(format!("no command prints this: {line}"));
                continue;
            };
            let mut typed = typed.replacen("cargo run --release -- ", "trainspec ", 1);
            while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
                found += &format!("{more}\n");
                typed += &format!("\n{}", &more[2..]);
            }
            let mut expected = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                expected.push(line.to_owned());
            }
            let interrupt = expected.iter().position(|line| line == "^C");
            let mut new = self.terminal.typed(&typed, interrupt);
            new.iter_mut()
                .for_each(|line| *line = line.trim_end().to_owned());
            let shown = match self.agree(&expected, &new) {
                true => &expected,
                false => &new,
            };
            shown.iter().for_each(|line| found += &format!("{line}\n"));
        }
        found
    }

    /// Whether lines are the same but for what is masked.
    fn agree(&self, expected: &[String], found: &[String]) -> bool {
        let is_late = |line: &String| self.late.iter().any(|pattern| pattern.is_match(line));
        let split = |lines: &[String]| {
            let masked = lines.iter().map(|line| self.terminal.masked(line));
            masked.partition::<Vec<String>, _>(|line| !is_late(line))
        };
        let (expected, expected_late) = split(expected);
        let (found, found_late) = split(found);
        let late = match expected.iter().any(|line| line == "...") {
            true => {
                let mut found = found_late.iter();
                expected_late
                    .iter()
                    .all(|line| found.any(|other| other == line))
            }
            false => expected_late == found_late,
        };
        late && matches(&expected, &found)
    }
}

/// Whether lines are the same, where `...` stands for any.
fn matches(expected: &[String], found: &[String]) -> bool {
    let Some(at) = expected.iter().position(|line| line == "...") else {
        return expected == found;
    };
    let (before, after) = (&expected[..at], &expected[at + 1..]);
    found.starts_with(before)
        && (before.len()..=found.len()).any(|from| matches(after, &found[from..]))
}

#[test]
fn dots_stand_for_any_lines() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let found = lines("a\nb\nc\nd");
    for (expected, fits) in [
        ("a\nb\nc\nd", true),
        ("a\n...\nd", true),
        ("...", true),
        ("a\n...\nb\n...\nd", true),
        ("a\nb\nc", false),
        ("a\n...\nx", false),
    ] {
        assert_eq!(matches(&lines(expected), &found), fits, "{expected}");
    }
}
