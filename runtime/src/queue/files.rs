//! `match_filenames_once` (`tf.train.match_filenames_once`): the files that match patterns, looked up once.

use std::sync::{Arc, Mutex, PoisonError};

use std::path::Path;

use trainspec_formats::glob;

use crate::graph::Graph;
use crate::queue::{LocalVariable, Output, TensorSpec};
use crate::{DType, Error, Tensor};

/// The names of the files that match patterns, as a vector of strings: those of each pattern in turn, sorted. They are looked up at the
/// first evaluation and kept in a local variable, so that files which appear later are not seen. No match gives no names.
///
/// ```
/// use trainspec::queue::match_filenames_once;
/// use trainspec::{Graph, Tensor};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let mut graph = Graph::new(&trainspec::check("s", text)?);
/// let files = match_filenames_once(&mut graph, &["no-such-folder/*.csv"], None)?;
/// assert_eq!(files.evaluate()?[0].tensor(), Some(&Tensor::new::<Vec<u8>>(&[0], Vec::new())));
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn match_filenames_once(
    graph: &mut Graph,
    patterns: &[&str],
    name: Option<&str>,
) -> Result<Output, Error> {
    let name = graph.unique_name(name.unwrap_or("matching_filenames"))?;
    let found = Arc::<Mutex<Option<Tensor>>>::default();
    let own = found.clone();
    let initialize = move || *own.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let variable = LocalVariable::new(name, initialize);
    graph.collections_mut()?.local_variables.push(variable);
    let storage = graph.storage().clone();
    let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
    let specs = vec![TensorSpec::partial(DType::String, &[None])];
    Ok(Output::new(specs, move || {
        let known = || found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = known().clone() {
            return Ok(vec![names.into()]);
        }
        // Folders are listed without the lock.
        let mut names: Vec<Vec<u8>> = Vec::new();
        for pattern in &patterns {
            let matched = glob::expand(Path::new(""), pattern, |folder| match folder {
                here if here == Path::new("") => storage.list(Path::new(".")),
                folder => storage.list(folder),
            })?;
            // What is no pattern names a file that may not be there.
            let there = |path: &&std::path::PathBuf| {
                glob::is_pattern(pattern) || storage.open(path).is_ok()
            };
            let texts = matched.iter().filter(there);
            names.extend(texts.map(|path| path.to_string_lossy().into_owned().into_bytes()));
        }
        let names = Tensor::new(&[names.len()], names);
        // Of two threads the first decides.
        Ok(vec![known().get_or_insert(names).clone().into()])
    }))
}
