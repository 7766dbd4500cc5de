//! `init_from_checkpoint`: initial values of variables from a checkpoint, by an assignment map.

use std::collections::BTreeMap;
use std::path::Path;

use trainspec_compiler::ir::graph::Type;
use trainspec_formats::checkpoint::CheckpointReader;

use crate::saver::files::Files;
use crate::saver::tensors::{self, file_type, type_text};
use crate::saver::var_list::{is_scratch, nearest};
use crate::{Code, Error, State};

/// Sets variables of an initial state to values of a checkpoint (`tf.compat.v1.train.init_from_checkpoint`).
///
/// The map is from what is in the checkpoint to what is in the state: a name to a name, or a scope to a scope, `"old/"` to `"new/"`, where
/// `"/"` is the root. A scope stands for those of the `variables` below it, usually the model's own without slots, and all of them must be
/// in the checkpoint. A checkpoint that is restored later replaces these values. If it fails, the state is as it was. Returns the names of
/// the variables that were set.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Records, Saver, SaverOptions, init_from_checkpoint};
/// use trainspec_compiler::ir::Tensor;
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
) -> Result<Vec<String>, Error> {
    let reader = Files.open(path)?;
    let at = path.display();
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
            if !reader.has_tensor(&key) {
                return Err(not_found(
                    &reader,
                    format!(
                        "tensor `{key}` (`{rest}` in `{stored}`) is not in the checkpoint {at}"
                    ),
                    &key,
                ));
            }
            pairs.push((key, name.clone()));
        }
    }
    for (key, _) in &pairs {
        if !reader.has_tensor(key) {
            return Err(not_found(
                &reader,
                format!("tensor `{key}` is not in the checkpoint {at}"),
                key,
            ));
        }
    }
    assign(state, &reader, &pairs)
}

/// Reads the value of each key and then sets the variable of each; a type that differs is an error before anything is read.
pub(super) fn assign(
    state: &mut State,
    reader: &CheckpointReader,
    pairs: &[(String, String)],
) -> Result<Vec<String>, Error> {
    let mut requests: Vec<(&str, Type)> = Vec::new();
    for (key, variable) in pairs {
        let value = super::var_list::check(state, variable).map(|()| state.get(variable))?;
        let value = value.expect("the variable was checked");
        let Some((dtype, shape)) = reader.entry(key) else {
            let cause = format!("tensor `{key}` is not in the checkpoint");
            return Err(not_found(reader, cause, key));
        };
        if dtype != file_type(value.dtype()) || shape != value.shape() {
            return Err(Error::new(
                Code::InvalidArgument,
                format!(
                    "the variable `{variable}` is {}, and the tensor `{key}` of the checkpoint {}",
                    value.ty(),
                    type_text(dtype, shape)
                ),
            ));
        }
        requests.push((key, value.ty()));
    }
    let values = tensors::read(reader, &requests)?;
    for ((_, variable), value) in pairs.iter().zip(values) {
        let index = state.index_of(variable).expect("the variable was checked");
        state.set(index, value);
    }
    Ok(pairs.iter().map(|(_, variable)| variable.clone()).collect())
}

/// The error for a key that is missing, with the nearest one.
pub(super) fn not_found(reader: &CheckpointReader, cause: String, key: &str) -> Error {
    let error = Error::new(Code::NotFound, cause);
    match nearest(key, reader.names()) {
        Some(near) => error.help(format!("the nearest name there is `{near}`")),
        None => error,
    }
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
