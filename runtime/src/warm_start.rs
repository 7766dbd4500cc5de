//! The `warm_start` of a spec: values of an older checkpoint in a state that was just initialized.
//!
//! In: a checked spec, its initial state, a checkpoint. Out: the state with those values, and what was taken from where. Leaves alone: a
//! run that is resumed; its own checkpoint has all values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::Trainable;
use trainspec_compiler::typed::{self, Averaged, Role, Spec, WarmStartKind, WarmStartVars};

use crate::saver::{
    Backup, RestorePlan, VocabInfo, Vocabulary, WarmStart, WarmStartNames, init_from_checkpoint_in,
    warm_start_in,
};
use crate::session::{Options, the_train};
use crate::{Cause, Code, Error, State};

/// Warm-starts an initial state, if the spec or the options say so. Averages of variables begin with the new values.
///
/// If it fails, the state is as it was.
pub(crate) fn warm_start(
    spec: &Arc<Spec>,
    options: &Options,
    state: &mut State,
) -> Result<Option<RestorePlan>, Error> {
    let all;
    let warm = match (&spec.warm_start, &options.warm_start) {
        (Some(warm), _) => warm,
        (None, Some(path)) => {
            all = typed::WarmStart::all(path.display().to_string());
            &all
        }
        (None, None) => return Ok(None),
    };
    // As the folder of a run, a checkpoint is relative to the working directory.
    let path = match &options.warm_start {
        Some(path) => path.clone(),
        None => PathBuf::from(&warm.checkpoint),
    };
    let mut begun = state.clone();
    let mut plan = take(spec, options, &warm.kind, &path, &mut begun)
        .map_err(|error| explained(error, &path))?;
    follow_averages(spec, &plan, &mut begun);
    let others = (spec.variables.iter().map(|v| &v.name)).filter(|name| !takes(&plan, name));
    let others: Vec<String> = others.map(|name| format!("`{name}`")).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        plan.notes.push(format!("initial values remain: {others}"));
    }
    *state = begun;
    Ok(Some(plan))
}

/// Whether a variable takes a value of the checkpoint.
fn takes(plan: &RestorePlan, name: &str) -> bool {
    plan.restored.iter().any(|one| one.variable == name)
}

fn take(
    spec: &Arc<Spec>,
    options: &Options,
    kind: &WarmStartKind,
    path: &Path,
    state: &mut State,
) -> Result<RestorePlan, Error> {
    let storage = &options.env.storage;
    let (vars, previous, vocabularies) = match kind {
        WarmStartKind::Assign(pairs) => {
            let variables = spec.variables.iter().map(|v| v.name.clone());
            let variables: Vec<String> = variables.collect();
            let map: BTreeMap<String, String> = pairs.iter().cloned().collect();
            return init_from_checkpoint_in(storage, state, &variables, path, &map);
        }
        WarmStartKind::Variables {
            vars,
            previous,
            vocabularies,
        } => (vars, previous, vocabularies),
    };
    for info in vocabularies {
        set_backup(spec, options, info, state)?;
    }
    let named = |info: &typed::VocabInfo| {
        let name = spec.variables[info.variable.0 as usize].name.clone();
        (name, vocab_info(info, options))
    };
    let settings = WarmStart {
        vars_to_warm_start: match vars {
            WarmStartVars::Trainable(pattern) => WarmStartNames::Trainable(expression(pattern)),
            WarmStartVars::All(patterns) => {
                WarmStartNames::All(patterns.iter().map(|one| expression(one)).collect())
            }
            WarmStartVars::WithVocabulary => WarmStartNames::WithVocabulary,
        },
        var_name_to_vocab_info: vocabularies.iter().map(named).collect(),
        var_name_to_prev_var_name: previous.iter().cloned().collect(),
    };
    let trainable = spec.variables.iter().filter(|v| v.role == Role::Param);
    let trainable: Vec<String> = trainable.map(|v| v.name.clone()).collect();
    warm_start_in(storage, state, &trainable, path, &settings)
}

/// The error of a warm start in the words of a spec.
fn explained(error: Error, path: &Path) -> Error {
    let code = error.code();
    match &error.cause {
        Cause::Message { message, help, .. } => {
            let help = match code {
                Code::NotFound => Some(
                    "`vars` says which variables are taken, `rename` what they are called there"
                        .to_owned(),
                ),
                Code::InvalidArgument if message.contains("does not fit") => Some(
                    "`vars` says which variables are taken, `vocab` how their vocabularies changed"
                        .to_owned(),
                ),
                _ => help.clone(),
            };
            let error = Error::new(code, format!("the warm start fails: {message}"));
            help.into_iter().fold(error, Error::help)
        }
        Cause::File(file) if code == Code::NotFound => {
            let message = format!("the warm start from {} fails: {file}", path.display());
            let help = "train it first, or name another: `--warm-start CHECKPOINT`";
            Error::new(code, message).help(help)
        }
        _ => error,
    }
}

/// Sets a variable to its backup, whose rows and columns remain for words that the checkpoint does not have.
fn set_backup(
    spec: &Arc<Spec>,
    options: &Options,
    info: &typed::VocabInfo,
    state: &mut State,
) -> Result<(), Error> {
    let Some(backup) = &info.backup else {
        return Ok(());
    };
    let index = info.variable.0 as usize;
    let mut with_backup = Spec::clone(spec);
    with_backup.variables[index].init = backup.clone();
    let seed = options.seed.unwrap_or(the_train(spec)?.seed);
    let trainable = Trainable::from(Arc::new(with_backup));
    let initial = State::initial(&trainable, seed, &options.pipeline, &options.engine)?;
    let name = &spec.variables[index].name;
    if let (Some(at), Some(value)) = (state.index_of(name), initial.get(name)) {
        state.set(at, value.clone());
    }
    Ok(())
}

fn vocab_info(info: &typed::VocabInfo, options: &Options) -> VocabInfo {
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let file = |path: &str| Vocabulary::File(options.folder.join(path));
    VocabInfo {
        new_vocab: file(&info.new_vocab),
        new_vocab_size: size(info.new_vocab_size),
        num_oov_buckets: size(info.num_oov_buckets),
        old_vocab: file(&info.old_vocab),
        old_vocab_size: info.old_vocab_size.map(size),
        backup_initializer: match info.backup {
            Some(_) => Backup::Initial,
            None => Backup::Constant(0.0),
        },
        axis: info.axis,
    }
}

/// An average begins with the value of its variable.
fn follow_averages(spec: &Spec, plan: &RestorePlan, state: &mut State) {
    for average in spec.train.iter().flat_map(|train| &train.averages) {
        let Averaged::Variable(variable) = average.source else {
            continue;
        };
        let variable = &spec.variables[variable.0 as usize].name;
        for own in &average.state {
            if takes(plan, variable)
                && !takes(plan, &own.name)
                && let (Some(at), Some(value)) = (state.index_of(&own.name), state.get(variable))
            {
                state.set(at, value.clone());
            }
        }
    }
}

/// A pattern over names as a regular expression that matches all of a name.
fn expression(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (piece, length) = match c {
            '*' if rest.starts_with("**/") => ("(?:.*/)?".to_owned(), 3),
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            c => (regex_lite::escape(&c.to_string()), c.len_utf8()),
        };
        out += &piece;
        rest = &rest[length..];
    }
    out + "$"
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainspec_compiler::check::matches;

    #[test]
    fn expressions_match_what_patterns_match() {
        let names = [
            "kernel",
            "a/kernel",
            "a/b/kernel",
            "a/mykernel",
            "a/kernel/Adam",
            "dense_1/bias",
            "dense_/bias",
            "a.b",
            "axb",
            "dense",
            "dense/x",
        ];
        let patterns = [
            "**",
            "*",
            "**/kernel",
            "a/*",
            "a/**",
            "dense_?/bias",
            "a.b",
            "dense",
            "dense/**",
            "a/**/kernel",
            "*/kernel*",
        ];
        for pattern in patterns {
            let expression =
                regex_lite::Regex::new(&format!("^(?:{})", expression(pattern))).unwrap();
            for name in names {
                let found = expression.is_match(name);
                assert_eq!(found, matches(pattern, name), "{pattern} {name}");
            }
        }
    }
}
