//! What can be typed after a run: commands that concern the same run, quoted for a shell.

use std::path::Path;

use trainspec::session::End;
use trainspec_compiler::typed::{Hook, HookKind, Spec, TrainEnd};

use super::Arguments;
use crate::files::STDIN;

/// Ordinary characters of a word of a shell.
const PLAIN: &str = "_-./=,:+@%^";

/// The commands of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct NextCommands {
    /// The spec, and what `run`, `eval` and `predict` must be given alike: constants and folders.
    target: String,
    /// What `run` alone must be given again.
    options: String,
    /// The checkpoint that a first start begins with, until the run has one of its own.
    warm_start: Option<String>,
    /// The bound that this run was given.
    steps: Option<u64>,
    /// Whether the spec was read from standard input, where nobody can read it again.
    is_gone: bool,
}

impl NextCommands {
    pub(super) fn new(arguments: &Arguments) -> NextCommands {
        let mut target = word(&arguments.file.display().to_string());
        for (name, value) in &arguments.set {
            target += &format!(" --set {}", word(&format!("{name}={value}")));
        }
        let mut folder = |option: &str, path: &Option<std::path::PathBuf>| {
            if let Some(path) = path {
                target += &format!(" {option} {}", word(&path.display().to_string()));
            }
        };
        folder("--data-dir", &arguments.data_dir);
        folder("--dir", &arguments.dir);
        let mut options = String::new();
        let mut option = |name: &str, value: Option<String>| {
            options.extend(value.map(|value| format!(" {name} {value}")));
        };
        option("--seed", arguments.seed.map(|n| n.to_string()));
        option("--save-every", arguments.save_every.map(|n| n.to_string()));
        option("--threads", arguments.threads.map(|n| n.to_string()));
        NextCommands {
            target,
            options,
            warm_start: (arguments.warm_start.as_ref())
                .map(|path| word(&path.display().to_string())),
            steps: arguments.steps,
            is_gone: arguments.file == Path::new(STDIN),
        }
    }

    /// The command that goes on with the run.
    pub(super) fn go_on(&self, has_saved: bool) -> String {
        let warm_start = self.warm_start.iter().filter(|_| !has_saved);
        let warm_start: String = warm_start
            .map(|path| format!(" --warm-start {path}"))
            .collect();
        let steps = self.steps.map(|steps| format!(" --steps {steps}"));
        format!("{}{}{warm_start}", self.run(), steps.unwrap_or_default())
    }

    fn run(&self) -> String {
        format!("trainspec run {}{}", self.target, self.options)
    }

    /// What can be done after a run that ended at `step`: pairs of a word and a command.
    pub(super) fn after(
        &self,
        spec: &Spec,
        folder: &Path,
        step: u64,
        why: &End,
        learning_rates: &[(String, f64)],
    ) -> Vec<(&'static str, String)> {
        let mut commands = Vec::new();
        let until = spec.train.as_ref().and_then(|train| train.until);
        let ended = learning_rates.iter().find(|(_, value)| *value == 0.0);
        match (why, until, ended) {
            (End::Steps, Some(TrainEnd::Steps(_)), None) => {
                let more = format!("{} --steps {}", self.run(), step.saturating_mul(2));
                commands.push(("go on", more));
            }
            (End::Steps, Some(TrainEnd::Steps(_)), Some((name, _))) => {
                let said =
                    format!("`{name}` is 0 from here on: a longer schedule is another training");
                commands.push(("go on", said));
            }
            // Goes on when the spec says so: more epochs, more patience, more data. The last line of a run that was stopped says how.
            _ => {}
        }
        if self.is_gone {
            commands.clear();
        }
        let keeps_best =
            |hook: &Hook| matches!(&hook.kind, HookKind::Checkpoint { best: Some(_), .. });
        let best = match spec.hooks.iter().any(keeps_best) {
            true => " --checkpoint best",
            false => "",
        };
        if !self.is_gone && !spec.evals.is_empty() {
            commands.push(("evaluate", format!("trainspec eval {}{best}", self.target)));
        }
        let model = spec.model.as_ref();
        let train = spec.train.as_ref().filter(|_| !self.is_gone);
        if train.is_some_and(|train| train.data.is_some())
            && model.is_some_and(|model| !model.eval.outputs.is_empty())
        {
            let command = format!("trainspec predict {}{best} --input FILE", self.target);
            commands.push(("predict", command));
        }
        if (spec.hooks.iter()).any(|hook| matches!(hook.kind, HookKind::Summary { .. })) {
            let folder = word(&folder.display().to_string());
            commands.push(("plot", format!("trainspec plot {folder}")));
        }
        commands
    }
}

/// A word as a shell reads it.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || PLAIN.contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn words_with_other_characters_are_quoted() {
        assert_eq!(word("runs/a-1"), "runs/a-1");
        assert_eq!(word("my runs"), "'my runs'");
        assert_eq!(word("NAME=\"it's\""), r#"'NAME="it'\''s"'"#);
        assert_eq!(word(""), "''");
    }
}
