//! Commands that a sweep starts or proposes: their arguments, and their text for a shell.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::trial::{Trial, argument_text};

/// What all runs of a sweep are given.
#[derive(Debug, Clone)]
pub(super) struct RunOptions {
    pub(super) file: PathBuf,
    pub(super) set: Vec<(String, String)>,
    pub(super) steps: Option<u64>,
    pub(super) save_every: Option<u64>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) warm_start: Option<PathBuf>,
}

impl RunOptions {
    /// The arguments that say which spec a trial trains, with the values of its constants.
    fn spec(&self, trial: &Trial) -> Vec<String> {
        let mut arguments = vec![self.file.display().to_string()];
        for (name, value) in self.set.iter().chain(&trial.values) {
            let value = argument_text(value);
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        if let Some(folder) = &self.data_dir {
            arguments.extend(["--data-dir".to_owned(), folder.display().to_string()]);
        }
        arguments
    }

    /// The run of a trial, as a process of this program that reports events and stops when its standard input is closed.
    pub(super) fn run(&self, program: &Path, trial: &Trial, dir: &Path, threads: usize) -> Command {
        let mut command = Command::new(program);
        command.arg("run").arg(&self.file);
        for (name, value) in self.set.iter().chain(&trial.values) {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        let numbers = [("--steps", self.steps), ("--save-every", self.save_every)];
        for (option, number) in numbers {
            if let Some(number) = number {
                command.arg(option).arg(number.to_string());
            }
        }
        let paths = [
            ("--data-dir", &self.data_dir),
            ("--warm-start", &self.warm_start),
        ];
        for (option, path) in paths {
            if let Some(path) = path {
                command.arg(option).arg(path);
            }
        }
        command.arg("--threads").arg(threads.to_string());
        command.arg("--dir").arg(dir);
        command.args(["--format", "json", "--stop-at-eof"]);
        command
    }

    /// The command that evaluates a trial.
    pub(super) fn evaluate(&self, trial: &Trial, dir: &Path) -> String {
        let mut words = vec!["eval".to_owned()];
        words.extend(self.spec(trial));
        words.extend(["--checkpoint".to_owned(), dir.display().to_string()]);
        shell_text(&words)
    }

    /// The command that trains on from a trial, to this many steps.
    pub(super) fn go_on(&self, trial: &Trial, dir: &Path, steps: u64) -> String {
        let mut words = vec!["run".to_owned()];
        words.extend(self.spec(trial));
        words.extend(["--dir".to_owned(), dir.display().to_string()]);
        words.extend(["--steps".to_owned(), steps.to_string()]);
        shell_text(&words)
    }
}

/// The command with which this process was called, as it is called again: without what starts over.
pub(super) fn called_again(more: &[&str]) -> String {
    let given = std::env::args_os().skip(1);
    let given = given.map(|word| word.to_string_lossy().into_owned());
    let given = given.filter(|word| word != "--fresh" && word != "--retry");
    let words: Vec<String> = given.chain(more.iter().map(ToString::to_string)).collect();
    shell_text(&words)
}

/// The command line of this program with some arguments.
pub(super) fn shell_text(arguments: &[String]) -> String {
    let words = arguments.iter().map(|word| shell_word(word));
    let words: Vec<String> = ["trainspec".to_owned()].into_iter().chain(words).collect();
    words.join(" ")
}

/// A word that a POSIX shell reads as this text.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        for (text, word) in [
            ("LR=1e-3", "LR=1e-3"),
            ("", "''"),
            ("my run", "'my run'"),
            ("A=\"x\"", "'A=\"x\"'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
