//! Data that a program gives to its specs: arrays in memory, and sources that are iterators over records.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{DataSet, Registered, SourceKind, Spec};

use crate::monitored::guarded;
use crate::registry::{Arguments, Entry, label};
use crate::{DataError, Error};

/// A record of a registered source: its features by name, each without a dimension for the records.
///
/// ```
/// use trainspec::Tensor;
/// use trainspec::registry::Record;
///
/// let record: Record = vec![("x".to_owned(), Tensor::scalar(0.5_f32)), ("label".to_owned(), Tensor::scalar(1_i64))];
/// assert_eq!(record[1].1.to_i64s(), [1]);
/// ```
pub type Record = Vec<(String, Tensor)>;

/// The records of an epoch, from the first one on. Each call of its factory gives the same ones, so that a run that is resumed reads on
/// where it was.
///
/// ```
/// use trainspec::Tensor;
/// use trainspec::registry::RecordIterator;
///
/// let mut records: RecordIterator = Box::new((0..3).map(|i| Ok(vec![("x".to_owned(), Tensor::scalar(i as f32))])));
/// assert_eq!(records.next().unwrap()?[0].1.to_f64s(), [0.0]);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub type RecordIterator = Box<dyn Iterator<Item = Result<Record, Error>> + Send>;

/// Arrays by name.
pub(crate) type Arrays = Arc<Vec<(String, Arc<Tensor>)>>;

/// Arrays and sources of a program, by name.
#[derive(Clone, Default)]
pub(crate) struct ProgramData {
    pub(super) arrays: BTreeMap<String, Arrays>,
    pub(super) sources: BTreeMap<String, Entry<RecordIterator>>,
}

impl std::fmt::Debug for ProgramData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramData")
            .field("arrays", &self.arrays.keys().collect::<Vec<_>>())
            .field("sources", &self.sources.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl ProgramData {
    /// Appends what the data sets of a spec name and the program lacks, unless it need not have it, and the reverse. Gives the first
    /// data set that lacks something.
    pub(super) fn check<'s>(
        &self,
        spec: &'s Spec,
        needs_all: bool,
        problems: &mut Vec<String>,
    ) -> Option<&'s DataSet> {
        let mut first = None;
        let (mut arrays, mut sources) = (Vec::new(), Vec::new());
        for set in &spec.data {
            let before = problems.len();
            match &set.source.kind {
                SourceKind::Memory { name } if !arrays.contains(&name) => {
                    arrays.push(name);
                    if needs_all && !self.arrays.contains_key(name) {
                        problems.push(format!("`memory(\"{name}\")` is not registered"));
                    }
                }
                SourceKind::Registered(registered) => {
                    let is_known = sources.contains(&&registered.name);
                    sources.push(&registered.name);
                    let what = format!("`{}`", label("source", registered));
                    match self.sources.get(&registered.name) {
                        Some(entry) => {
                            Arguments::bind(&what, registered, &entry.parameters, problems);
                        }
                        None if needs_all && !is_known => {
                            problems.push(format!("{what} is not registered"));
                        }
                        None => {}
                    }
                }
                _ => {}
            }
            if problems.len() > before {
                first.get_or_insert(set);
            }
        }
        let superfluous = self.arrays.keys().filter(|name| !arrays.contains(name));
        problems.extend(
            superfluous
                .map(|name| format!("`memory(\"{name}\")` is registered, and the spec has none")),
        );
        let superfluous = self.sources.keys().filter(|name| !sources.contains(name));
        problems.extend(
            superfluous
                .map(|name| format!("`source \"{name}\"` is registered, and the spec has none")),
        );
        first
    }

    /// The arrays of that name.
    pub(crate) fn arrays(&self, name: &str) -> Result<Arrays, DataError> {
        let found = self.arrays.get(name).cloned();
        found.ok_or_else(|| only_in_programs(format!("`memory(\"{name}\")` is not registered")))
    }

    /// What makes the iterator of a registered source, from the first record on.
    pub(crate) fn records(
        &self,
        registered: &Registered,
    ) -> Result<impl Fn() -> Result<RecordIterator, Error> + Send + use<>, DataError> {
        let what = format!("`{}`", label("source", registered));
        let entry = self.sources.get(&registered.name).cloned();
        let entry = entry.ok_or_else(|| only_in_programs(format!("{what} is not registered")))?;
        let mut problems = Vec::new();
        let arguments = Arguments::bind(&what, registered, &entry.parameters, &mut problems);
        if !problems.is_empty() {
            return Err(DataError::new(problems.join("; ")));
        }
        let name = registered.name.clone();
        Ok(move || {
            guarded("source", &name, "its factory", || {
                (entry.factory)(&arguments)
            })
        })
    }
}

fn only_in_programs(message: String) -> DataError {
    DataError::new(message).help(
        "a Rust program registers it (`trainspec::registry::Registry`); the command has no such data",
    )
}
