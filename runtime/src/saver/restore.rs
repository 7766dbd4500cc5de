//! Restoring: a plan that says for each variable where its value comes from, and its execution.
//!
//! In: an open checkpoint of any format and a state. Out: what is restored, missing, changed or left over; and the state with new values,
//! or as it was if anything fails. Element types are never converted. Leaves alone: scratch values of the state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::ir::graph::Type;
use trainspec_formats::checkpoint::CheckpointReader;
use trainspec_formats::checkpoint::object::{OBJECT_GRAPH_KEY, VARIABLE_VALUE, value_key};
use trainspec_formats::storage::Storage;
use trainspec_formats::tensor::DType as FileType;

use crate::saver::files::{self, Files};
use crate::saver::records::{RECORDS_KEY, Records};
use crate::saver::tensors::{self, file_type, type_text};
use crate::saver::var_list::{VarList, nearest};
use crate::train::ExponentialMovingAverage;
use crate::{Code, Error, State, memory};

/// For more variables no nearest name is looked up: comparing all with all takes quadratic time.
const MAX_SUGGESTIONS: usize = 16;

/// Whether a variable may be missing in the checkpoint, or changed.
///
/// ```
/// use trainspec::saver::Strictness;
///
/// assert_eq!(Strictness::default(), Strictness::Strict);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strictness {
    /// All variables are restored, or none.
    #[default]
    Strict,
    /// What cannot be restored keeps its value, and the plan lists it.
    Partial,
}

/// How a checkpoint is restored.
///
/// ```
/// use trainspec::saver::{RestoreOptions, Strictness};
///
/// // The moving averages, for an evaluation; new variables keep their initial values.
/// let options = RestoreOptions {
///     averages: true,
///     strictness: Strictness::Partial,
///     ..RestoreOptions::default()
/// };
/// assert!(!options.reshape);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// What is restored. In [`VarList::Map`] several keys may be restored into one variable: the last in the order of names wins.
    pub var_list: VarList,
    /// Whether something may be missing or changed.
    pub strictness: Strictness,
    /// Whether a variable may take a value of another shape with as many elements.
    pub reshape: bool,
    /// Whether a variable takes the value of its moving average where the checkpoint has one
    /// ([`ExponentialMovingAverage::variables_to_restore`]). For averages of another name pass that map as the `var_list`.
    pub averages: bool,
}

/// A variable and the key of its value.
///
/// ```
/// use trainspec::saver::Assignment;
///
/// let average = Assignment { variable: "w".into(), key: "w/ExponentialMovingAverage".into() };
/// assert_ne!(average.variable, average.key);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The name in the state.
    pub variable: String,
    /// The key in the checkpoint.
    pub key: String,
}

/// A variable without a value in the checkpoint.
///
/// ```
/// use trainspec::saver::MissingKey;
///
/// let one = MissingKey { variable: "kernal".into(), key: "kernal".into(), nearest: Some("kernel".into()) };
/// assert_eq!(one.to_string(), "`kernal` is not in the checkpoint; the nearest name there is `kernel`");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKey {
    /// The name in the state.
    pub variable: String,
    /// The key that is not in the checkpoint.
    pub key: String,
    /// The nearest name among the keys that are left over.
    pub nearest: Option<String>,
}

/// A variable whose value in the checkpoint has another shape or element type.
///
/// ```
/// use trainspec::saver::ChangedType;
///
/// let one = ChangedType { variable: "b".into(), key: "b".into(), here: "f32[2]".into(), stored: "f32[3]".into() };
/// assert_eq!(one.to_string(), "`b` is f32[2], and in the checkpoint f32[3]");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedType {
    /// The name in the state.
    pub variable: String,
    /// The key in the checkpoint.
    pub key: String,
    /// The type of the variable, such as `f32[2, 3]`.
    pub here: String,
    /// The type in the checkpoint.
    pub stored: String,
}

/// What a restore does with every variable.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Records, RestoreOptions, RestorePlan, Saver, SaverOptions};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-plan-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let old: State = [("kernel".to_owned(), Tensor::scalar(1.0_f32))].into_iter().collect();
/// let mut saver = Saver::new(SaverOptions::default())?;
/// let path = saver.save(&old, &Records::default(), &folder.join("model"), Some(1))?;
/// let new: State = [("kernal".to_owned(), Tensor::scalar(0.0_f32))].into_iter().collect();
/// let plan = RestorePlan::new(&new, &path, &RestoreOptions::default())?;
/// assert_eq!(plan.missing[0].nearest.as_deref(), Some("kernel"));
/// assert!(plan.to_string().contains("missing in the checkpoint:\n  kernal (the nearest is kernel)"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestorePlan {
    /// The checkpoint.
    pub path: PathBuf,
    /// The variables that take a value.
    pub restored: Vec<Assignment>,
    /// The variables that are missing in the checkpoint.
    pub missing: Vec<MissingKey>,
    /// The variables with another type in the checkpoint.
    pub changed: Vec<ChangedType>,
    /// The keys of the checkpoint that no variable takes.
    pub left_over: Vec<String>,
    /// What else a user should know, such as that an object-based checkpoint is restored by names.
    pub notes: Vec<String>,
}

impl RestorePlan {
    /// The plan for a checkpoint; nothing is restored.
    pub fn new(state: &State, path: &Path, options: &RestoreOptions) -> Result<RestorePlan, Error> {
        let reader = Files::local().open(path)?;
        RestorePlan::of(state, path, &reader, options)
    }

    /// The plan for an open checkpoint.
    pub(super) fn of(
        state: &State,
        path: &Path,
        reader: &CheckpointReader,
        options: &RestoreOptions,
    ) -> Result<RestorePlan, Error> {
        let mut plan = RestorePlan {
            path: path.to_owned(),
            ..RestorePlan::default()
        };
        let keys = Keys::new(reader)?;
        if keys.by_name.is_some() {
            let note = "the checkpoint is object-based: variables are found by their names";
            plan.notes.push(note.to_owned());
        }
        let ema = ExponentialMovingAverage::default();
        let mut averages = 0;
        let mut missing = Vec::new();
        for (mut name, variable) in options.var_list.resolve(state)? {
            let average = ema.average_name(&name);
            if options.averages && keys.find(&average).is_some() {
                name = average;
                averages += 1;
            }
            let Some(key) = keys.find(&name) else {
                missing.push((variable, name));
                continue;
            };
            let value = state.get(&variable).expect("the list names variables");
            let (dtype, shape) = reader.entry(key).expect("the key is there");
            let same_shape = match options.reshape {
                true => count(shape) == Some(value.data().len()),
                false => shape == value.shape(),
            };
            plan.add(&variable, key, value.ty(), (dtype, shape), same_shape);
        }
        if options.averages && averages == 0 {
            return Err(Error::new(
                Code::NotFound,
                format!("{} has no moving averages", path.display()),
            )
            .help("restore it without `averages`"));
        }
        plan.finish(keys.all, missing);
        Ok(plan)
    }

    /// The plan for pairs of a key and a variable. A vocabulary changes the shape of a `remapped` variable, so that it is not compared.
    pub(super) fn of_pairs(
        state: &State,
        path: &Path,
        reader: &CheckpointReader,
        pairs: &[(String, String)],
        remapped: impl Fn(&str) -> bool,
    ) -> RestorePlan {
        let mut plan = RestorePlan {
            path: path.to_owned(),
            ..RestorePlan::default()
        };
        let mut missing = Vec::new();
        for (key, variable) in pairs {
            let value = state.get(variable).expect("the pairs name variables");
            let Some((dtype, shape)) = reader.entry(key) else {
                missing.push((variable.clone(), key.clone()));
                continue;
            };
            let same_shape = shape == value.shape() || remapped(variable);
            plan.add(variable, key, value.ty(), (dtype, shape), same_shape);
        }
        let is_internal = |name: &str| name == RECORDS_KEY || name == OBJECT_GRAPH_KEY;
        let names = reader.names().into_iter();
        let names = names.filter(|name| !is_internal(name)).map(str::to_owned);
        plan.finish(names.collect(), missing);
        plan
    }

    /// Adds a variable whose key is in the checkpoint.
    fn add(
        &mut self,
        variable: &str,
        key: &str,
        here: Type,
        (dtype, shape): (FileType, &[usize]),
        same_shape: bool,
    ) {
        let (variable, key) = (variable.to_owned(), key.to_owned());
        match dtype == file_type(here.dtype) && same_shape {
            true => self.restored.push(Assignment { variable, key }),
            false => self.changed.push(ChangedType {
                variable,
                key,
                here: here.to_string(),
                stored: type_text(dtype, shape),
            }),
        }
    }

    /// Adds the keys that no variable takes, and the variables that are missing, with the nearest of those.
    fn finish(&mut self, keys: Vec<String>, missing: Vec<(String, String)>) {
        let restored = self.restored.iter().map(|one| one.key.as_str());
        let used: BTreeSet<&str> = restored
            .chain(self.changed.iter().map(|one| one.key.as_str()))
            .collect();
        let unused = keys.into_iter().filter(|key| !used.contains(key.as_str()));
        self.left_over = unused.collect();
        for (i, (variable, key)) in missing.into_iter().enumerate() {
            let candidates = self.left_over.iter().map(String::as_str);
            let near = (i < MAX_SUGGESTIONS)
                .then(|| nearest(&key, candidates))
                .flatten()
                .map(str::to_owned);
            self.missing.push(MissingKey {
                variable,
                key,
                nearest: near,
            });
        }
    }

    /// Whether every variable is restored. Keys may be left over.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.changed.is_empty()
    }

    /// Everything that keeps a strict restore from being done, as one error: [`Code::NotFound`] if something is missing, else
    /// [`Code::InvalidArgument`].
    pub fn require_complete(&self) -> Result<(), Error> {
        self.require("restore it partially to keep the values of what does not fit, or name variables by `var_list`")
    }

    /// As [`RestorePlan::require_complete`], with other help.
    pub(crate) fn require(&self, help: &str) -> Result<(), Error> {
        if self.is_complete() {
            return Ok(());
        }
        let code = match self.missing.is_empty() {
            true => Code::InvalidArgument,
            false => Code::NotFound,
        };
        let mut message = format!(
            "{} does not fit the state: {} missing, {} changed",
            self.path.display(),
            self.missing.len(),
            self.changed.len()
        );
        for one in &self.missing {
            message.push_str(&format!("\n  {one}"));
        }
        for one in &self.changed {
            message.push_str(&format!("\n  {one}"));
        }
        Err(Error::new(code, message).help(help))
    }

    /// Reads all values of the plan and then sets them; if one cannot be read, the state stays as it was.
    pub(super) fn run(&self, state: &mut State, reader: &CheckpointReader) -> Result<(), Error> {
        let requests: Vec<(&str, Type)> = self
            .restored
            .iter()
            .map(|one| {
                let value = state.get(&one.variable).expect("the plan names variables");
                (one.key.as_str(), value.ty())
            })
            .collect();
        let buffers = requests.iter().map(|(key, ty)| memory::tensor(key, ty));
        memory::ensure("the restored values", buffers.collect())?;
        let values = tensors::read(reader, &requests)?;
        for (one, value) in self.restored.iter().zip(values) {
            let index = state.index_of(&one.variable);
            state.set(index.expect("the plan names variables"), value);
        }
        Ok(())
    }
}

/// What was restored.
///
/// ```
/// use trainspec::State;
/// use trainspec::saver::{Records, RestoreOptions, Saver, SaverOptions, restore};
/// use trainspec::Tensor;
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-restored-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let state: State = [("w".to_owned(), Tensor::scalar(2.0_f32))].into_iter().collect();
/// let mut records = Records::default();
/// records.insert("input", "record 17");
/// let path = Saver::new(SaverOptions::default())?.save(&state, &records, &folder.join("model"), None)?;
/// let mut other: State = [("w".to_owned(), Tensor::scalar(0.0_f32))].into_iter().collect();
/// let restored = restore(&mut other, &path, &RestoreOptions::default())?;
/// assert_eq!(other, state);
/// assert_eq!(restored.records, records);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was done with every variable.
    pub plan: RestorePlan,
    /// The records of the checkpoint; none where another program wrote it.
    pub records: Records,
}

/// Restores a state from a checkpoint of any format: a prefix, a file, or a folder whose newest checkpoint is taken.
///
/// If it fails, the state is as it was.
pub fn restore(
    state: &mut State,
    path: &Path,
    options: &RestoreOptions,
) -> Result<Restored, Error> {
    restore_in(Files::local().0, state, path, options)
}

/// As [`restore`], from a checkpoint in another storage.
pub fn restore_in(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    path: &Path,
    options: &RestoreOptions,
) -> Result<Restored, Error> {
    let reader = Files(storage).open(path)?;
    let plan = RestorePlan::of(state, path, &reader, options)?;
    if options.strictness == Strictness::Strict {
        plan.require_complete()?;
    }
    let records = files::records(&reader)?;
    plan.run(state, &reader)?;
    Ok(Restored { plan, records })
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not in the checkpoint", self.variable)?;
        if self.key != self.variable {
            write!(f, " as `{}`", self.key)?;
        }
        match &self.nearest {
            Some(near) => write!(f, "; the nearest name there is `{near}`"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ChangedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is {}, and in the checkpoint {}",
            self.variable, self.here, self.stored
        )
    }
}

impl fmt::Display for RestorePlan {
    /// One section for each kind, without those that are empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = |title: &str, lines: Vec<String>| {
            if lines.is_empty() {
                return Ok(());
            }
            writeln!(f, "{title}:")?;
            lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
        };
        let source = |variable: &str, key: &str| match variable == key {
            true => variable.to_owned(),
            false => format!("{variable} from {key}"),
        };
        let restored = self.restored.iter();
        let restored = restored.map(|one| source(&one.variable, &one.key));
        let missing = self.missing.iter().map(|one| {
            let name = source(&one.variable, &one.key);
            match &one.nearest {
                Some(near) => format!("{name} (the nearest is {near})"),
                None => name,
            }
        });
        let changed = self.changed.iter().map(|one| {
            let name = source(&one.variable, &one.key);
            format!("{name}: {} here, {} there", one.here, one.stored)
        });
        let from = format!("restored from {}", self.path.display());
        section(&from, restored.collect())?;
        section("missing in the checkpoint", missing.collect())?;
        section("another type in the checkpoint", changed.collect())?;
        section("left over in the checkpoint", self.left_over.clone())?;
        section("note", self.notes.clone())
    }
}

/// The keys of a checkpoint.
struct Keys<'a> {
    reader: &'a CheckpointReader,
    /// Those that a variable may take.
    all: Vec<String>,
    /// In an object-based checkpoint, the key of each variable by its name in a graph, and by its path.
    by_name: Option<BTreeMap<String, String>>,
}

impl<'a> Keys<'a> {
    fn new(reader: &'a CheckpointReader) -> Result<Keys<'a>, Error> {
        let internal = [
            RECORDS_KEY.to_owned(),
            OBJECT_GRAPH_KEY.to_owned(),
            value_key("save_counter", VARIABLE_VALUE),
        ];
        let names = reader.names().into_iter().map(str::to_owned);
        let all = names.filter(|name| !internal.contains(name)).collect();
        let by_name = reader.object_graph()?.map(|graph| {
            let variables = graph.variables();
            let mut times: BTreeMap<&str, usize> = BTreeMap::new();
            for variable in &variables {
                *times.entry(&variable.value.full_name).or_default() += 1;
            }
            let paths = variables.iter().map(|one| (one.path.as_str(), one));
            // A name in a graph is what TensorFlow goes by, unless several objects have the same.
            let names = variables
                .iter()
                .map(|one| (one.value.full_name.as_str(), one));
            let names = names.filter(|(name, _)| !name.is_empty() && times[name] == 1);
            let keys = paths.chain(names);
            let keys = keys.filter(|(_, one)| reader.has_tensor(&one.value.key));
            keys.map(|(name, one)| (name.to_owned(), one.value.key.clone()))
                .collect()
        });
        Ok(Keys {
            reader,
            all,
            by_name,
        })
    }

    /// The key of a name.
    fn find<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        if self.reader.has_tensor(name) {
            return Some(name);
        }
        self.by_name.as_ref()?.get(name).map(String::as_str)
    }
}

/// The number of elements; `None` if it overflows.
fn count(shape: &[usize]) -> Option<usize> {
    match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d)),
    }
}
