//! Which tensors of a state a checkpoint holds, and under which names.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_compiler::check::matches;
use trainspec_formats::checkpoint::object::OBJECT_GRAPH_KEY;

use crate::saver::records::RECORDS_KEY;
use crate::{Code, Error, State};

/// The variables of a `Saver` (`var_list`).
///
/// ```
/// use trainspec::saver::VarList;
///
/// let some = VarList::Names(vec!["dense/kernel".into(), "dense/bias".into()]);
/// // The variable `w` is called `old/w` in the checkpoint.
/// let renamed = VarList::Map([("old/w".to_owned(), "w".to_owned())].into());
/// assert_ne!(some, renamed);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VarList {
    /// All of the state but scratch values, whose names begin with `#`.
    #[default]
    All,
    /// Those that one of some patterns matches (`dense/*`, `**/kernel`).
    Matching(Vec<String>),
    /// Those of these names.
    Names(Vec<String>),
    /// From the name in the checkpoint to the variable.
    Map(BTreeMap<String, String>),
}

/// Whether a name of the state is a scratch value, which no checkpoint holds.
pub(crate) fn is_scratch(name: &str) -> bool {
    name.starts_with('#')
}

impl VarList {
    /// The pairs of a key in the checkpoint and a variable of the state, in the order of the list.
    pub(super) fn resolve(&self, state: &State) -> Result<Vec<(String, String)>, Error> {
        let mut seen = BTreeSet::new();
        let mut pairs: Vec<(String, String)> = match self {
            VarList::All => {
                let names = state.names().iter().filter(|name| !is_scratch(name));
                names.map(|name| (name.clone(), name.clone())).collect()
            }
            VarList::Matching(patterns) => {
                let names = state.names().iter().filter(|name| !is_scratch(name));
                let names = names.filter(|name| patterns.iter().any(|one| matches(one, name)));
                names.map(|name| (name.clone(), name.clone())).collect()
            }
            VarList::Names(names) => names.iter().map(|n| (n.clone(), n.clone())).collect(),
            VarList::Map(map) => map.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        };
        for (key, variable) in &mut pairs {
            if let VarList::Names(_) | VarList::Map(_) = self {
                // As TensorFlow calls the output of a variable.
                for name in [&mut *key, &mut *variable] {
                    if let Some(bare) = name.strip_suffix(":0") {
                        *name = bare.to_owned();
                    }
                }
            }
            check(state, variable)?;
            if key == RECORDS_KEY || key == OBJECT_GRAPH_KEY || is_scratch(key) || key.is_empty() {
                return Err(Error::new(
                    Code::InvalidArgument,
                    format!("`{key}` is a reserved name in a checkpoint"),
                ));
            }
            if !seen.insert(key.clone()) {
                return Err(Error::new(
                    Code::InvalidArgument,
                    format!("at least two variables have the name `{key}` in the checkpoint"),
                ));
            }
        }
        Ok(pairs)
    }
}

/// Checks that a name is a variable that may be saved or restored.
pub(super) fn check(state: &State, variable: &str) -> Result<(), Error> {
    if is_scratch(variable) {
        return Err(Error::new(
            Code::InvalidArgument,
            format!("`{variable}` is a scratch value, which no checkpoint holds"),
        ));
    }
    if state.index_of(variable).is_some() {
        return Ok(());
    }
    let error = Error::new(
        Code::NotFound,
        format!("the state has no variable `{variable}`"),
    );
    match nearest(variable, state.names().iter().map(String::as_str)) {
        Some(near) => Err(error.help(format!("did you mean `{near}`?"))),
        None => Err(error),
    }
}

/// Longer names are not compared: the edit distance takes quadratic time.
const MAX_NAME_BYTES: usize = 256;

/// The candidate nearest to a name by edit distance (optimal string alignment), where one is near enough.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (name.len() / 3).max(1);
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let near = candidates
        .into_iter()
        .filter(|other| other.len().abs_diff(name.len()) <= limit && !is_scratch(other));
    let scored = near.map(|other| (strsim::osa_distance(name, other), other));
    let best = scored.filter(|(distance, _)| *distance <= limit).min()?;
    Some(best.1)
}
