//! What can be typed after a run: commands that concern the same run, quoted for a shell.

use std::path::Path;

use trainspec::session::End;
use trainspec_compiler::typed::{Hook, HookKind, Spec, TrainEnd};

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

    /// What can be done after a run that ended at `step`: pairs of a word and a command.
    pub(super) fn after(
        &self,
        spec: &Spec,
        folder: &Path,
        step: u64,
        why: &End,
    ) -> Vec<(&'static str, String)> {
        let mut commands = Vec::new();
        let until = spec.train.as_ref().and_then(|train| train.until);
        match (why, until) {
            (End::Stopped, _) => commands.push(("go on", self.go_on())),
            (End::Steps, Some(TrainEnd::Steps(_))) => {
                let more = format!("{} --steps {}", self.go_on(), step.saturating_mul(2));
                commands.push(("go on", more));
            }
            // Goes on when the spec says so: more epochs, more patience, more data.
            _ => {}
        }
        let keeps_best =
            |hook: &Hook| matches!(&hook.kind, HookKind::Checkpoint { best: Some(_), .. });
        let best = match spec.hooks.iter().any(keeps_best) {
            true => " --checkpoint best",
            false => "",
        };
        if !spec.evals.is_empty() {
            commands.push(("evaluate", format!("trainspec eval {}{best}", self.target)));
        }
        let model = spec.model.as_ref();
        if spec
            .train
            .as_ref()
            .is_some_and(|train| train.data.is_some())
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
