//! `init_from_checkpoint`: initial values of variables from a checkpoint, by an assignment map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use trainspec_formats::storage::Storage;

use crate::saver::RestorePlan;
use crate::saver::files::Files;
use crate::saver::var_list::{is_scratch, nearest};
use crate::{Code, Error, State};

/// Sets variables of an initial state to values of a checkpoint (`tf.compat.v1.train.init_from_checkpoint`).
///
/// The map is from what is in the checkpoint to what is in the state: a name to a name, or a scope to a scope, `"old/"` to `"new/"`, where
/// `"/"` is the root. A scope stands for those of the `variables` below it, usually the model's own without slots, and all of them must be
/// in the checkpoint. A checkpoint that is restored later replaces these values. If it fails, the state is as it was. Returns which variable
/// took which value.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Records, Saver, SaverOptions, init_from_checkpoint};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-init-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let old: State = [("old/w".to_owned(), Tensor::scalar(2.0_f32))].into_iter().collect();
/// let path = Saver::new(SaverOptions::default())?.save(&old, &Records::default(), &folder.join("model"), None)?;
/// let mut new: State = [("new/w".to_owned(), Tensor::scalar(0.0_f32))].into_iter().collect();
/// let names = new.names().to_vec();
/// init_from_checkpoint(&mut new, &names, &path, &[("old/".to_owned(), "new/".to_owned())].into())?;
/// assert_eq!(new.get("new/w"), old.get("old/w"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn init_from_checkpoint(
    state: &mut State,
    variables: &[String],
    path: &Path,
    assignment_map: &BTreeMap<String, String>,
) -> Result<RestorePlan, Error> {
    init_from_checkpoint_in(Files::local().0, state, variables, path, assignment_map)
}

/// As [`init_from_checkpoint`], from a checkpoint in another storage.
pub fn init_from_checkpoint_in(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    variables: &[String],
    path: &Path,
    assignment_map: &BTreeMap<String, String>,
) -> Result<RestorePlan, Error> {
    let reader = Files(storage).open(path)?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (stored, current) in assignment_map {
        if state.index_of(current).is_some() && !is_scratch(current) {
            pairs.push((stored.clone(), current.clone()));
            continue;
        }
        if !stored.ends_with('/') || !current.ends_with('/') {
            return Err(not_scopes(state, stored, current));
        }
        let scope = match current.as_str() {
            "/" => "",
            other => other,
        };
        let mut below: Vec<&String> = variables
            .iter()
            .filter(|name| name.starts_with(scope) && !is_scratch(name))
            .collect();
        below.sort();
        for name in below {
            let rest = &name[scope.len()..];
            let key = match stored.as_str() {
                "/" => rest.to_owned(),
                _ => format!("{stored}{rest}"),
            };
            pairs.push((key, name.clone()));
        }
    }
    let plan = RestorePlan::of_pairs(state, path, &reader, &pairs, |_| false);
    plan.require("the map is from names of the checkpoint to names of variables")?;
    plan.run(state, &reader)?;
    Ok(plan)
}

fn not_scopes(state: &State, stored: &str, current: &str) -> Error {
    let error = Error::new(
        Code::InvalidArgument,
        format!("the state has no variable `{current}`, to which `{stored}` is assigned"),
    );
    match nearest(current, state.names().iter().map(String::as_str)) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help("to assign scopes, end both with a slash: `scope/` to `other_scope/`"),
    }
}
