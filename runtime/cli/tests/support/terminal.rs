//! A shell in a folder of its own, where `trainspec` is the command, and what its output looks like once what differs from run to run is
//! masked.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex_lite::Regex;

use super::{Folder, root};

/// A shell in an empty folder, with an empty home.
pub struct Terminal {
    pub folder: Folder,
    home: Folder,
    /// What differs from run to run, and what stands in its place.
    pub masks: Vec<(Regex, String)>,
    /// Where the next command is typed.
    at: PathBuf,
    /// The exit code of the last command.
    last: i32,
}

impl Terminal {
    pub fn new() -> Terminal {
        let folder = Folder::new();
        let escaped = regex_lite::escape(&folder.0.display().to_string());
        Terminal {
            masks: vec![(
                Regex::new(&escaped).expect("a pattern"),
                "FOLDER".to_owned(),
            )],
            at: folder.0.clone(),
            folder,
            home: Folder::new(),
            last: 0,
        }
    }

    /// Obeys a line such as `copy: PATH`, `file: NAME` or `mask: REGEX => TEXT`; `false` where it is none of them. A file is in the lines
    /// after it, up to one that ends in `end`; they are given to `seen`.
    pub fn obeys<'t>(
        &mut self,
        line: &str,
        lines: &mut impl Iterator<Item = &'t str>,
        mut seen: impl FnMut(&str),
    ) -> bool {
        if let Some(path) = line.strip_prefix("copy: ") {
            // `copy: PATH as NAME`
            let (path, name) = path.split_once(" as ").unwrap_or((path, ""));
            let from = root().join(path);
            let name = match name {
                "" => from.file_name().expect("a name").to_owned(),
                name => name.into(),
            };
            let to = self.folder.0.join(name);
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            copy(&from, &to);
        } else if let Some(name) = line.strip_prefix("file: ") {
            let mut content = String::new();
            for line in lines.by_ref() {
                seen(line);
                if line == "// end" || line == "end" {
                    break;
                }
                content += &format!("{line}\n");
            }
            self.folder.write(name, content);
        } else if let Some(text) = line.strip_prefix("mask: ") {
            self.masks.push(mask(text));
        } else {
            return false;
        }
        true
    }

    /// A shell that runs `script` here.
    pub fn shell(&self, script: &str) -> Command {
        let command = Path::new(env!("CARGO_BIN_EXE_trainspec"));
        let own = command.parent().expect("a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .current_dir(&self.at)
            .env("PATH", format!("{own}:{path}"))
            .env("HOME", &self.home.0)
            .env("TZ", "UTC")
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        shell
    }

    /// Types a command; what a person sees, in lines. The next one is typed where this one has gone to, and knows its exit code.
    ///
    /// With `interrupt_after: N` Ctrl-C is pressed when N lines are there, and `^C` stands after them.
    pub fn typed(&mut self, typed: &str, interrupt_after: Option<usize>) -> Vec<String> {
        let left = self.home.0.join("at");
        let script = format!(
            "(exit {})\n{typed}\ncode=$?; pwd > '{}'; exit $code",
            self.last,
            left.display()
        );
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut shell = self.shell(&script);
        shell.stdout(writer.try_clone().expect("a pipe"));
        shell.stderr(writer);
        shell.process_group(0);
        let mut child = shell.spawn().expect("sh");
        // Its ends of the pipe are closed with it.
        drop(shell);
        let mut reader = BufReader::new(reader);
        let mut lines = Vec::new();
        if let Some(count) = interrupt_after {
            lines.extend(
                reader
                    .by_ref()
                    .lines()
                    .take(count)
                    .map(|line| line.expect("text")),
            );
            let group = format!("-{}", child.id());
            let sent = Command::new("kill").args(["-INT", "--", &group]).status();
            assert!(sent.is_ok_and(|status| status.success()), "kill");
            lines.push("^C".to_owned());
        }
        lines.extend(reader.lines().map(|line| line.expect("text")));
        self.last = child.wait().expect("an end").code().unwrap_or(130);
        if let Ok(at) = std::fs::read_to_string(&left) {
            self.at = PathBuf::from(at.trim_end_matches('\n'));
        }
        lines
    }

    /// A text with what differs from run to run masked.
    pub fn masked(&self, text: &str) -> String {
        let masks = self.masks.iter();
        masks.fold(text.to_owned(), |text, (pattern, instead)| {
            pattern.replace_all(&text, instead.as_str()).into_owned()
        })
    }
}

/// `REGEX => TEXT`
pub fn mask(text: &str) -> (Regex, String) {
    let (pattern, instead) = text.split_once(" => ").expect("a mask has two parts");
    (Regex::new(pattern).expect("a pattern"), instead.to_owned())
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("a readable folder") {
            let entry = entry.expect("a readable entry");
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).expect("a copy");
    }
}
