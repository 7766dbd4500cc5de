//! What can be typed after a run: commands that concern the same run, quoted for a shell.

use std::path::Path;

use trainspec_compiler::typed::{HookKind, Spec};

use super::Arguments;

/// Ordinary characters of a word of a shell.
const PLAIN: &str = "_-./=,:+@%^";

/// The commands of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct NextCommands {
    /// The spec, and what `run`, `eval` and `predict` must be given alike: constants and folders.
    target: String,
    /// What `run` alone must be given again, because it counts for the identity of the run.
    seed: String,
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
        let seed = arguments.seed;
        NextCommands {
            target,
            seed: seed.map_or(String::new(), |seed| format!(" --seed {seed}")),
        }
    }

    /// The command that goes on with the run.
    pub(super) fn go_on(&self) -> String {
        format!("trainspec run {}{}", self.target, self.seed)
    }

    /// What can be done after a run that ended by itself at `step`, or was stopped: pairs of a word and a command.
    pub(super) fn after(
        &self,
        spec: &Spec,
        folder: &Path,
        step: u64,
        stopped: bool,
    ) -> Vec<(&'static str, String)> {
        let more = match stopped {
            true => String::new(),
            false => format!(" --steps {}", step.saturating_mul(2)),
        };
        let mut commands = vec![("go on", self.go_on() + &more)];
        if !spec.evals.is_empty() {
            commands.push(("evaluate", format!("trainspec eval {}", self.target)));
        }
        let model = spec.model.as_ref();
        if spec
            .train
            .as_ref()
            .is_some_and(|train| train.data.is_some())
            && model.is_some_and(|model| !model.eval.outputs.is_empty())
        {
            let command = format!("trainspec predict {} --input FILE", self.target);
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
fn word(text: &str) -> String {
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
