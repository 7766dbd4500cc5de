//! `warm_start`: initial values from a checkpoint of another training, with changed names and vocabularies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use regex_lite::Regex;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::Type;
use trainspec_formats::storage::Storage;

use crate::saver::RestorePlan;
use crate::saver::files::Files;
use crate::saver::tensors;
use crate::saver::var_list::is_scratch;
use crate::saver::vocabulary::VocabInfo;
use crate::{Code, Error, State};

/// Which variables are warm-started (`vars_to_warm_start`). Expressions are anchored at the start of a name, not at its end.
///
/// A glob of the language maps to an expression: `dense/*` is `dense/[^/]*$`, `dense/**` is `dense/`.
///
/// ```
/// use trainspec::saver::WarmStartNames;
///
/// assert_eq!(WarmStartNames::default(), WarmStartNames::Trainable(".*".to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmStartNames {
    /// The trainable variables that a regular expression matches; a text in TensorFlow.
    Trainable(String),
    /// All variables that one of some regular expressions matches; a list in TensorFlow.
    All(Vec<String>),
    /// The trainable variables with a vocabulary; `None` in TensorFlow.
    WithVocabulary,
}

impl Default for WarmStartNames {
    fn default() -> WarmStartNames {
        WarmStartNames::Trainable(".*".to_owned())
    }
}

/// The arguments of `tf.compat.v1.train.warm_start`.
///
/// ```
/// use trainspec::saver::{WarmStart, WarmStartNames};
///
/// let settings = WarmStart {
///     vars_to_warm_start: WarmStartNames::Trainable("encoder/".to_owned()),
///     var_name_to_prev_var_name: [("encoder/w".to_owned(), "old/w".to_owned())].into(),
///     ..WarmStart::default()
/// };
/// assert!(settings.var_name_to_vocab_info.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WarmStart {
    /// Which variables.
    pub vars_to_warm_start: WarmStartNames,
    /// How the vocabulary of a variable changed.
    pub var_name_to_vocab_info: BTreeMap<String, VocabInfo>,
    /// The name in the checkpoint of a variable that had another one.
    pub var_name_to_prev_var_name: BTreeMap<String, String>,
}

/// Sets variables of an initial state to values of a checkpoint, a prefix or the newest of a folder (`tf.compat.v1.train.warm_start`).
///
/// Every variable that is selected must be in the checkpoint, and every name of the settings must be used; an error lists all that are not.
/// If it fails, the state is as it was. Returns which variable took which value.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Records, Saver, SaverOptions, VocabInfo, Vocabulary, WarmStart, warm_start};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-warm-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let table = |rows: usize, values: Vec<f32>| [("words".to_owned(), Tensor::new(&[rows, 1], values))];
/// let old: State = table(2, vec![1.0, 2.0]).into_iter().collect();
/// let path = Saver::new(SaverOptions::default())?.save(&old, &Records::default(), &folder.join("model"), None)?;
/// let words = |words: &[&str]| Vocabulary::Words(words.iter().map(|w| (*w).to_owned()).collect());
/// let info = VocabInfo::new(words(&["dog", "bird", "cat"]), 3, words(&["cat", "dog"]));
/// let settings = WarmStart {
///     var_name_to_vocab_info: [("words".to_owned(), info)].into(),
///     ..WarmStart::default()
/// };
/// let mut new: State = table(3, vec![9.0; 3]).into_iter().collect();
/// warm_start(&mut new, &["words".to_owned()], &path, &settings)?;
/// assert_eq!(new.get("words").unwrap().values::<f32>(), Some(&[2.0, 0.0, 1.0][..]));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn warm_start(
    state: &mut State,
    trainable: &[String],
    path: &Path,
    settings: &WarmStart,
) -> Result<RestorePlan, Error> {
    warm_start_in(Files::local().0, state, trainable, path, settings)
}

/// As [`warm_start`], from a checkpoint and vocabularies in another storage.
pub fn warm_start_in(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    trainable: &[String],
    path: &Path,
    settings: &WarmStart,
) -> Result<RestorePlan, Error> {
    let files = Files(storage);
    let reader = files.open(path)?;
    let only_vocabularies = settings.vars_to_warm_start.is_none();
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut selected = BTreeSet::new();
    for variable in settings.vars_to_warm_start.select(state, trainable)? {
        selected.insert(variable.clone());
        let previous = settings.var_name_to_prev_var_name.get(&variable);
        let key = previous.unwrap_or(&variable).clone();
        if settings.var_name_to_vocab_info.contains_key(&variable) || !only_vocabularies {
            pairs.push((key, variable));
        }
    }
    let names = settings.var_name_to_prev_var_name.keys();
    unused("var_name_to_prev_var_name", names, &selected)?;
    let names = settings.var_name_to_vocab_info.keys();
    unused("var_name_to_vocab_info", names, &selected)?;
    let infos = &settings.var_name_to_vocab_info;
    let plan = RestorePlan::of_pairs(state, path, &reader, &pairs, |variable| {
        infos.contains_key(variable)
    });
    plan.require(
        "say by `vars_to_warm_start` which variables are taken, by `var_name_to_prev_var_name` what they are called there",
    )?;
    let mut same = plan.clone();
    let mut remapped: Vec<(usize, Tensor)> = Vec::new();
    for one in &plan.restored {
        let Some(info) = infos.get(&one.variable) else {
            continue;
        };
        let index = state
            .index_of(&one.variable)
            .expect("the plan names variables");
        let now = &state.values()[index];
        let (_, shape) = reader.entry(&one.key).expect("the plan names keys");
        let ty = Type::new(now.dtype(), shape);
        let old = tensors::read(&reader, &[(&one.key, ty)])?.remove(0);
        remapped.push((index, info.remap(files, &one.variable, now, &old)?));
        same.restored.retain(|other| other != one);
    }
    same.run(state, &reader)?;
    for (index, value) in remapped {
        state.set(index, value);
    }
    Ok(plan)
}

impl WarmStartNames {
    /// Whether only variables with a vocabulary are meant. TensorFlow takes the empty text for nothing.
    fn is_none(&self) -> bool {
        match self {
            WarmStartNames::WithVocabulary => true,
            WarmStartNames::Trainable(pattern) => pattern.is_empty(),
            WarmStartNames::All(_) => false,
        }
    }

    /// The variables that are selected, in the order of the state.
    fn select(&self, state: &State, trainable: &[String]) -> Result<Vec<String>, Error> {
        for name in trainable {
            super::var_list::check(state, name)?;
        }
        let patterns = match self {
            WarmStartNames::WithVocabulary => vec![anchored("")?],
            WarmStartNames::Trainable(pattern) => vec![anchored(pattern)?],
            WarmStartNames::All(patterns) => {
                let patterns = patterns.iter().map(|pattern| anchored(pattern));
                patterns.collect::<Result<_, Error>>()?
            }
        };
        let among: BTreeSet<&String> = match self {
            WarmStartNames::All(_) => state.names().iter().collect(),
            WarmStartNames::Trainable(_) | WarmStartNames::WithVocabulary => {
                trainable.iter().collect()
            }
        };
        // TensorFlow's names end in the number of the output.
        let matches = |name: &str| {
            let output = format!("{name}:0");
            let mut patterns = patterns.iter();
            patterns.any(|one| one.is_match(name) || one.is_match(&output))
        };
        let names = state.names().iter();
        let names = names.filter(|name| among.contains(name) && !is_scratch(name) && matches(name));
        Ok(names.cloned().collect())
    }
}

/// A regular expression that matches from the start of a name (`re.match`).
fn anchored(pattern: &str) -> Result<Regex, Error> {
    // By itself first, so that an unbalanced parenthesis is not balanced by the group around it.
    let parsed = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})")));
    parsed.map_err(|e| {
        Error::new(
            Code::InvalidArgument,
            format!("`{pattern}` is no regular expression: {e}"),
        )
    })
}

/// Names that were given and not used are a mistake.
fn unused<'a>(
    setting: &str,
    names: impl Iterator<Item = &'a String>,
    selected: &BTreeSet<String>,
) -> Result<(), Error> {
    let others: Vec<String> = names
        .filter(|name| !selected.contains(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = selected.iter().map(|name| format!("`{name}`")).collect();
    Err(Error::new(
        Code::InvalidArgument,
        format!(
            "`{setting}` names variables that are not warm-started: {}",
            others.join(", ")
        ),
    )
    .help(match known.is_empty() {
        true => "no variable is selected".to_owned(),
        false => format!("those that are: {}", known.join(", ")),
    }))
}
