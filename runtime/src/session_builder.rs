//! `SessionBuilder`: what a session is made of, given step by step: a spec, its constants, seed, threads, folders, hooks.
//!
//! In: a spec as text, as a file, or as a macro has embedded it. Out: a session, or a whole run. Everything is checked when the session is
//! built, and all that is missing or superfluous is one error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::Interface;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::source::{LoadError, Loader, NoFiles};
use trainspec_compiler::typed::Spec;

use crate::default_hooks::with_default_hooks;
use crate::hooks::{CheckpointSaverListener, FeedFn, SessionRunHook};
use crate::registry::{Arguments, Parameter, RecordIterator};
use crate::session::{Event, Observer, Options, Session};
use crate::spec::{SpecFolder, checked, read_spec};
use crate::unoptimised::advice_once;
use crate::{Cause, Code, Engine, Error, train};

/// A spec that a macro has embedded into a program.
#[doc(hidden)]
#[derive(Debug)]
pub struct EmbeddedSpec {
    /// The name of the Rust file, or of the spec file, as errors print it.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// The files that it uses: who uses it, by which path, its name, its text.
    pub files: &'static [(&'static str, &'static str, &'static str, &'static str)],
    /// The interface that the program was compiled against.
    pub interface: &'static str,
}

impl Loader for EmbeddedSpec {
    fn load(&self, from: &str, path: &str) -> Result<(String, String), LoadError> {
        let found = (self.files.iter()).find(|(user, used, ..)| (*user, *used) == (from, path));
        match found {
            Some((.., name, text)) => Ok(((*name).to_owned(), (*text).to_owned())),
            None => Err(LoadError::NotFound),
        }
    }
}

/// Where the spec of a session comes from.
#[derive(Debug, Clone)]
enum SpecSource {
    Text { name: String, text: String },
    File(PathBuf),
    Embedded(&'static EmbeddedSpec),
}

/// Makes sessions, or whole runs, of a spec.
///
/// ```
/// use trainspec::{InputView, SessionBuilder};
///
/// let text = "
///     spec line;
///     const RATE = 0.1;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(RATE); }
/// ";
/// let mut session = SessionBuilder::from_text("line", text).seed(7).threads(1).set("RATE", 0.05).build()?;
/// session.step(&[("x", InputView::new(&[2], &[1.0_f32, 2.0])), ("y", InputView::new(&[2], &[2.0_f32, 4.0]))])?;
/// assert_eq!(session.state().get("a").unwrap().to_f64s(), [0.5]);
///
/// let error = SessionBuilder::from_text("line", text).set("RAET", 0.05).build().unwrap_err();
/// assert!(error.to_string().contains("did you mean `RATE`?"), "{error}");
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone)]
pub struct SessionBuilder {
    source: SpecSource,
    constants: Vec<(String, String)>,
    restore: Option<PathBuf>,
    options: Options,
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("source", &self.source)
            .field("constants", &self.constants)
            .field("restore", &self.restore)
            .finish_non_exhaustive()
    }
}

impl SessionBuilder {
    fn of(source: SpecSource, folder: PathBuf) -> SessionBuilder {
        SessionBuilder {
            source,
            constants: Vec::new(),
            restore: None,
            options: Options {
                folder,
                ..Options::default()
            },
        }
    }

    /// Of a spec as text; `name` stands for it in messages. It can `use` no files.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>) -> SessionBuilder {
        let (name, text) = (name.into(), text.into());
        SessionBuilder::of(SpecSource::Text { name, text }, PathBuf::new())
    }

    /// Of a spec in a file. It can `use` files in its folder and below, and its data paths are relative to that folder.
    pub fn from_file(path: impl Into<PathBuf>) -> SessionBuilder {
        let path = path.into();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        SessionBuilder::of(SpecSource::File(path), folder)
    }

    /// Of a spec that a macro has embedded.
    #[doc(hidden)]
    pub fn embedded(spec: &'static EmbeddedSpec) -> SessionBuilder {
        SessionBuilder::of(SpecSource::Embedded(spec), PathBuf::new())
    }

    /// Another seed than that of the spec.
    pub fn seed(mut self, seed: i64) -> SessionBuilder {
        self.options.seed = Some(seed);
        self
    }

    /// The number of threads, but not more than the machine has; all of its cores otherwise. Results do not depend on it.
    pub fn threads(mut self, threads: usize) -> SessionBuilder {
        self.options.engine = Engine::compiled(threads);
        self
    }

    /// The folder of a run: checkpoints, event files, `run.json`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> SessionBuilder {
        self.options.dir = Some(dir.into());
        self
    }

    /// The base of relative data paths; otherwise the working folder, or that of the spec file.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> SessionBuilder {
        self.options.folder = dir.into();
        self
    }

    /// The number of steps of a run, instead of what the spec says.
    pub fn steps(mut self, steps: u64) -> SessionBuilder {
        self.options.steps = Some(steps);
        self
    }

    /// The checkpoint that the session starts from.
    pub fn restore(mut self, checkpoint: impl Into<PathBuf>) -> SessionBuilder {
        self.restore = Some(checkpoint.into());
        self
    }

    /// Another value of a constant of the spec, as `--set NAME=VALUE`.
    pub fn set(mut self, name: impl Into<String>, value: impl fmt::Display) -> SessionBuilder {
        self.constants.push((name.into(), value.to_string()));
        self
    }

    /// A hook of the program, which the spec has as `hook "name" (constants);`.
    pub fn hook(
        mut self,
        name: impl Into<String>,
        parameters: &[Parameter],
        factory: impl Fn(&Arguments) -> Result<Box<dyn SessionRunHook>, Error> + Send + Sync + 'static,
    ) -> SessionBuilder {
        self.options.registry = self.options.registry.hook(name, parameters, factory);
        self
    }

    /// A feed of the program, which the spec has as `feed "name" (constants);`.
    pub fn feed(
        mut self,
        name: impl Into<String>,
        parameters: &[Parameter],
        factory: impl Fn(&Arguments) -> Result<FeedFn, Error> + Send + Sync + 'static,
    ) -> SessionBuilder {
        self.options.registry = self.options.registry.feed(name, parameters, factory);
        self
    }

    /// Arrays, which the spec reads as `source memory("name");`: one for each feature, whose first dimension is the records.
    pub fn memory<K: Into<String>>(
        mut self,
        name: impl Into<String>,
        arrays: impl IntoIterator<Item = (K, Tensor)>,
    ) -> SessionBuilder {
        self.options.registry = self.options.registry.memory(name, arrays);
        self
    }

    /// A source of the program, which the spec has as `source "name" (constants);`: what gives the records of an epoch, the same ones
    /// each time.
    pub fn source(
        mut self,
        name: impl Into<String>,
        parameters: &[Parameter],
        factory: impl Fn(&Arguments) -> Result<RecordIterator, Error> + Send + Sync + 'static,
    ) -> SessionBuilder {
        self.options.registry = self.options.registry.source(name, parameters, factory);
        self
    }

    /// A listener of the `checkpoint` hook: it acts before and after every save, which is waited for then.
    pub fn listener(
        mut self,
        factory: impl Fn() -> Result<Box<dyn CheckpointSaverListener>, Error> + Send + Sync + 'static,
    ) -> SessionBuilder {
        self.options.registry = self.options.registry.listener(factory);
        self
    }

    /// Runs after variables have got their initial values, unless a checkpoint is restored.
    pub fn init_fn(
        mut self,
        init_fn: impl Fn(&mut Session) -> Result<(), Error> + Send + Sync + 'static,
    ) -> SessionBuilder {
        self.options.registry = self.options.registry.init_fn(init_fn);
        self
    }

    /// The other options of a run.
    ///
    /// ```
    /// use trainspec::SessionBuilder;
    ///
    /// let builder = SessionBuilder::from_file("digits.trainspec").options(|options| options.fresh = true);
    /// # let _ = builder;
    /// ```
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> SessionBuilder {
        change(&mut self.options);
        self
    }

    /// The checked spec, with the constants that are set.
    pub fn spec(&self) -> Result<Arc<Spec>, Error> {
        let constants: Vec<(&str, &str)> = (self.constants.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        match &self.source {
            SpecSource::Text { name, text } => checked(name, text, &NoFiles, &constants),
            SpecSource::File(path) => {
                let text = read_spec(path).map_err(|error| Cause::Spec(Box::new(error)))?;
                let name = path.display().to_string();
                checked(&name, &text, &SpecFolder::of(path), &constants)
            }
            SpecSource::Embedded(embedded) => {
                let spec = checked(embedded.name, embedded.text, *embedded, &constants)?;
                match Interface::of(&spec).difference(embedded.interface) {
                    None => Ok(spec),
                    Some((now, compiled)) => Err(self.other_interface(&now, &compiled)),
                }
            }
        }
    }

    /// The error of constants on which the types of the program depend.
    fn other_interface(&self, now: &str, compiled: &str) -> Error {
        let names: Vec<String> = (self.constants.iter())
            .map(|(name, value)| format!("`{name} = {value}`"))
            .collect();
        let message = format!(
            "with {} the spec has `{now}`, but the program was compiled with `{compiled}`",
            names.join(", ")
        );
        let help = "change the constant in the spec and build again, or load the spec at run time with `SessionBuilder::from_file`";
        Error::new(Code::InvalidArgument, message).help(help)
    }

    /// The spec, where the program has registered all that it names, and nothing else. A session that reads no data needs none.
    fn complete_spec(&self, reads_data: bool) -> Result<Arc<Spec>, Error> {
        let spec = self.spec()?;
        let registry = &self.options.registry;
        let complete = with_default_hooks(&spec, &self.options);
        let problems = match reads_data {
            true => registry.check(&complete),
            false => registry.check_session(&complete),
        };
        match problems {
            None => Ok(spec),
            Some(diagnostic) => Err(diagnostic.into()),
        }
    }

    /// Makes the session: initial values, or those of the checkpoint. Advice about a build without optimisation goes to standard error,
    /// once.
    pub fn build(self) -> Result<Session, Error> {
        let spec = self.complete_spec(false)?;
        if let Some(advice) = advice_once(&spec) {
            eprintln!("warning: {advice}");
        }
        match &self.restore {
            None => Session::new(&spec, &self.options),
            Some(checkpoint) => {
                let mut session = Session::uninitialized(&spec, &self.options)?;
                session.restore(checkpoint)?;
                session.initialize_slots()?;
                Ok(session)
            }
        }
    }

    /// Runs the spec as it says, with its data, evaluations and hooks; gives a session with the trained state.
    pub fn run(self, observer: &mut dyn Observer) -> Result<Session, Error> {
        if let Some(checkpoint) = &self.restore {
            let message = format!(
                "a run goes on from the newest checkpoint of its folder, and not from {}",
                checkpoint.display()
            );
            let help = "give its folder as `dir`, or start from it with `warm_start`";
            return Err(Error::new(Code::InvalidArgument, message).help(help));
        }
        let spec = self.complete_spec(true)?;
        if let Some(advice) = advice_once(&spec) {
            observer.event(&Event::Note(advice));
        }
        let state = train(&spec, &self.options, observer)?;
        let mut session = Session::uninitialized(&spec, &self.options)?;
        *session.state_mut() = state;
        Ok(session)
    }
}
