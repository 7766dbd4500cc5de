//! What a program registers for its specs: hooks, feeds and data written in Rust, by name; listeners of checkpoints, and what runs after
//! initialization.
//!
//! In: factories, and the `hook "name" (...)` and `feed "name" (...)` of a spec. Out: hooks and feeds, made for each training. What the
//! spec names and the program lacks, what the program registers and the spec does not name, and arguments that do not fit are one error,
//! before anything is opened.

mod arguments;
mod data;
mod feeds;
mod named_hook;

pub use arguments::{Argument, Arguments, Parameter};
pub(crate) use data::ProgramData;
pub use data::{Record, RecordIterator};
pub(crate) use feeds::Feeds;
/// An interval, as an argument of a hook: `every: 10 steps`.
pub use trainspec_compiler::typed::Interval;

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_compiler::diag::{self, Diagnostic};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{Hook, HookKind, Registered, Spec};

use crate::Error;
use crate::hooks::{CheckpointSaverListener, FeedFn, SessionRunHook};
use crate::monitored::guarded;
use crate::session::{EventQueue, Session};
use crate::supervisor::InitFn;
use named_hook::NamedHook;

type Factory<T> = Arc<dyn Fn(&Arguments) -> Result<T, Error> + Send + Sync>;

/// What is registered under a name.
struct Entry<T> {
    parameters: Vec<Parameter>,
    factory: Factory<T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Entry<T> {
        Entry {
            parameters: self.parameters.clone(),
            factory: self.factory.clone(),
        }
    }
}

/// Factories of hooks and feeds, by name. Each training makes its hooks and feeds with them, so that none is used twice.
///
/// ```
/// use trainspec::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
/// use trainspec::registry::{Parameter, Registry};
/// use trainspec::session::Options;
/// use trainspec::Error;
///
/// /// Ends the training at a step: `hook "stop_after" (steps: 100);`
/// struct StopAfter(i64);
///
/// impl SessionRunHook for StopAfter {
///     fn after_run(&mut self, context: &mut SessionRunContext<'_>, _: &SessionRunValues) -> Result<(), Error> {
///         if context.session.global_step() as i64 >= self.0 {
///             context.request_stop();
///         }
///         Ok(())
///     }
/// }
///
/// let registry = Registry::default().hook("stop_after", &[Parameter::required::<i64>("steps")], |arguments| {
///     Ok(Box::new(StopAfter(arguments.get("steps")?)))
/// });
/// let options = Options { registry, ..Options::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    hooks: BTreeMap<String, Entry<Box<dyn SessionRunHook>>>,
    feeds: BTreeMap<String, Entry<FeedFn>>,
    pub(crate) data: ProgramData,
    listeners: Vec<ListenerFactory>,
    init_fn: Option<InitFn>,
}

type ListenerFactory =
    Arc<dyn Fn() -> Result<Box<dyn CheckpointSaverListener>, Error> + Send + Sync>;

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("hooks", &self.hooks.keys().collect::<Vec<_>>())
            .field("feeds", &self.feeds.keys().collect::<Vec<_>>())
            .field("data", &self.data)
            .field("listeners", &self.listeners.len())
            .field("has_init_fn", &self.init_fn.is_some())
            .finish()
    }
}

impl Registry {
    /// Adds a hook, which a spec has as `hook "name" (constants);`.
    pub fn hook(
        mut self,
        name: impl Into<String>,
        parameters: &[Parameter],
        factory: impl Fn(&Arguments) -> Result<Box<dyn SessionRunHook>, Error> + Send + Sync + 'static,
    ) -> Registry {
        let entry = Entry {
            parameters: parameters.to_vec(),
            factory: Arc::new(factory) as Factory<_>,
        };
        self.hooks.insert(name.into(), entry);
        self
    }

    /// Adds a feed, which a spec has as `feed "name" (constants);`. Its function gives the inputs of the model that the data lacks, once
    /// for each update and for each batch of an evaluation.
    ///
    /// ```
    /// use trainspec::registry::{Parameter, Registry};
    /// use trainspec::Tensor;
    ///
    /// let registry = Registry::default().feed("temperature", &[Parameter::required::<f64>("start")], |arguments| {
    ///     let mut temperature = arguments.get::<f64>("start")? as f32;
    ///     Ok(Box::new(move || {
    ///         temperature *= 0.99;
    ///         Ok(vec![("temperature".to_owned(), Tensor::scalar(temperature))])
    ///     }))
    /// });
    /// # let _ = registry;
    /// ```
    pub fn feed(
        mut self,
        name: impl Into<String>,
        parameters: &[Parameter],
        factory: impl Fn(&Arguments) -> Result<FeedFn, Error> + Send + Sync + 'static,
    ) -> Registry {
        let entry = Entry {
            parameters: parameters.to_vec(),
            factory: Arc::new(factory) as Factory<_>,
        };
        self.feeds.insert(name.into(), entry);
        self
    }

    /// Adds arrays, which a spec reads as `source memory("name");`: a feature is an array, whose first dimension is the records.
    ///
    /// ```
    /// use trainspec::registry::Registry;
    /// use trainspec::{Options, Tensor};
    ///
    /// let text = "spec line;
    ///     data points { source memory(\"points\"); feature x: f32; feature y: f32; repeat; batch 2; }
    ///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
    ///     train { data points; optimizer gradient_descent(0.05); steps 50; }";
    /// let registry = Registry::default().memory(
    ///     "points",
    ///     [
    ///         ("x", Tensor::new(&[4], vec![1.0_f32, 2.0, 3.0, 4.0])),
    ///         ("y", Tensor::new(&[4], vec![2.0_f32, 4.0, 6.0, 8.0])),
    ///     ],
    /// );
    /// let options = Options { registry, ..Options::default() };
    /// let state = trainspec::train(&trainspec::check("line", text)?, &options, &mut |_: &_| {})?;
    /// assert!((state.get("a").unwrap().to_f64s()[0] - 2.0).abs() < 1e-3);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn memory<K: Into<String>>(
        mut self,
        name: impl Into<String>,
        arrays: impl IntoIterator<Item = (K, Tensor)>,
    ) -> Registry {
        let arrays = arrays.into_iter();
        let arrays = arrays
            .map(|(key, array)| (key.into(), Arc::new(array)))
            .collect();
        self.data.arrays.insert(name.into(), Arc::new(arrays));
        self
    }

    /// Adds a source, which a spec has as `source "name" (constants);`. Its factory gives the records of an epoch, from the first one
    /// on: each epoch calls it, and so does a run that is resumed, which passes over the records that it has read. So it has to give the
    /// same records each time, or a resumed run is not what it would have been.
    ///
    /// ```
    /// use trainspec::registry::{Parameter, Record, Registry};
    /// use trainspec::{Error, Tensor};
    ///
    /// let registry = Registry::default().source("squares", &[Parameter::required::<i64>("count")], |arguments| {
    ///     let count = arguments.get::<i64>("count")?;
    ///     let record = |i: i64| -> Result<Record, Error> {
    ///         let (x, y) = (i as f32, (i * i) as f32);
    ///         Ok(vec![("x".to_owned(), Tensor::scalar(x)), ("y".to_owned(), Tensor::scalar(y))])
    ///     };
    ///     Ok(Box::new((0..count).map(record)))
    /// });
    /// # let _ = registry;
    /// ```
    pub fn source(
        mut self,
        name: impl Into<String>,
        parameters: &[Parameter],
        factory: impl Fn(&Arguments) -> Result<RecordIterator, Error> + Send + Sync + 'static,
    ) -> Registry {
        let entry = Entry {
            parameters: parameters.to_vec(),
            factory: Arc::new(factory) as Factory<_>,
        };
        self.data.sources.insert(name.into(), entry);
        self
    }

    /// Adds a listener of the `checkpoint` hook: it acts before and after every save, which is waited for then.
    ///
    /// ```
    /// use trainspec::hooks::CheckpointSaverListener;
    /// use trainspec::registry::Registry;
    ///
    /// struct Quiet;
    ///
    /// impl CheckpointSaverListener for Quiet {}
    ///
    /// let registry = Registry::default().listener(|| Ok(Box::new(Quiet)));
    /// # let _ = registry;
    /// ```
    pub fn listener(
        mut self,
        factory: impl Fn() -> Result<Box<dyn CheckpointSaverListener>, Error> + Send + Sync + 'static,
    ) -> Registry {
        self.listeners.push(Arc::new(factory));
        self
    }

    /// Runs after variables have got their initial values, unless a checkpoint is restored (`init_fn`).
    ///
    /// ```
    /// use trainspec::registry::Registry;
    /// use trainspec::{Options, Session, Tensor};
    ///
    /// let text = "spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
    ///     train { optimizer gradient_descent(0.5); }";
    /// let registry = Registry::default().init_fn(|session: &mut Session| {
    ///     let a = session.state().index_of("a").unwrap();
    ///     session.state_mut().set(a, Tensor::scalar(7.0_f32));
    ///     Ok(())
    /// });
    /// let session = Session::new(&trainspec::check("line", text)?, &Options { registry, ..Options::default() })?;
    /// assert_eq!(session.state().get("a").unwrap().to_f64s(), [7.0]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn init_fn(
        mut self,
        init_fn: impl Fn(&mut Session) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Registry {
        self.init_fn = Some(Arc::new(init_fn));
        self
    }

    /// Runs the function that was given for it on a session with initial values.
    pub(crate) fn initialized(&self, session: &mut Session) -> Result<(), Error> {
        match &self.init_fn {
            Some(init_fn) => guarded("function", "init_fn", "init_fn", || init_fn(session)),
            None => Ok(()),
        }
    }

    /// What keeps a spec from being run with this registry, all in one error; the command line has an empty one.
    pub fn check(&self, spec: &Spec) -> Option<Diagnostic> {
        self.bind(spec, true).err().map(|diagnostic| *diagnostic)
    }

    /// As [`Registry::check`] for a session that reads no data: the program need not have any.
    pub(crate) fn check_session(&self, spec: &Spec) -> Option<Diagnostic> {
        self.bind(spec, false).err().map(|diagnostic| *diagnostic)
    }

    /// The arguments of each registered hook and feed of a spec, in its order.
    fn bind(&self, spec: &Spec, needs_data: bool) -> Result<Vec<Arguments>, Box<Diagnostic>> {
        let (mut problems, mut bound) = (Vec::new(), Vec::new());
        let mut span = None;
        let (mut hooks, mut feeds) = (Vec::new(), Vec::new());
        for hook in &spec.hooks {
            let (registered, parameters) = match &hook.kind {
                HookKind::Registered(registered) => {
                    hooks.push(&registered.name);
                    let entry = self.hooks.get(&registered.name);
                    (registered, entry.map(|e| &e.parameters))
                }
                HookKind::Feed(registered) => {
                    feeds.push(&registered.name);
                    let entry = self.feeds.get(&registered.name);
                    (registered, entry.map(|e| &e.parameters))
                }
                _ => continue,
            };
            let what = format!("`{}`", label(hook.kind.word(), registered));
            let before = problems.len();
            match parameters {
                None => problems.push(format!("{what} is not registered")),
                Some(parameters) => {
                    let arguments = Arguments::bind(&what, registered, parameters, &mut problems);
                    bound.push(arguments);
                }
            }
            if problems.len() > before {
                span.get_or_insert(hook.span);
            }
        }
        let unused = |word: &str, name: &String| {
            format!("`{word} \"{name}\"` is registered, and the spec has none")
        };
        let superfluous = self.hooks.keys().filter(|name| !hooks.contains(name));
        problems.extend(superfluous.map(|name| unused("hook", name)));
        let superfluous = self.feeds.keys().filter(|name| !feeds.contains(name));
        problems.extend(superfluous.map(|name| unused("feed", name)));
        let without_data = problems.len();
        if let Some(set) = self.data.check(spec, needs_data, &mut problems) {
            span.get_or_insert(set.source.span);
        }
        let is_data = problems.len() > without_data;
        let saves = |hook: &Hook| matches!(hook.kind, HookKind::Checkpoint { .. });
        if !self.listeners.is_empty() && !spec.hooks.iter().any(saves) {
            let message =
                "a listener of checkpoints is registered, and the spec has no `checkpoint`";
            problems.push(message.to_owned());
        }
        if problems.is_empty() {
            return Ok(bound);
        }
        let what = match (is_data, without_data) {
            (false, _) => "hooks and feeds",
            (true, 0) => "data",
            (true, _) => "hooks, feeds and data",
        };
        let message = format!(
            "the program registers other {what} than the spec has: {}",
            problems.join("; ")
        );
        let code = diag::Code::UnknownName;
        let diagnostic = match span {
            Some(span) => Diagnostic::new(code, span, message),
            None => Diagnostic::without_span(code, message),
        };
        Err(Box::new(diagnostic.help(
            "a Rust program registers them in its `Options` (`trainspec::registry::Registry`); `trainspec run` has none, and refuses them",
        )))
    }

    /// Makes the hooks and feeds of a spec. A hook that ends the run says so in the events.
    pub(crate) fn make(&self, spec: &Spec, events: &EventQueue) -> Result<Made, Error> {
        let mut arguments = self
            .bind(spec, true)
            .map_err(|diagnostic| *diagnostic)?
            .into_iter();
        let (mut hooks, mut feeds) = (Vec::new(), Vec::new());
        for hook in &spec.hooks {
            match &hook.kind {
                HookKind::Registered(registered) => {
                    let name = registered.name.clone();
                    let factory = &self.hooks[&name].factory;
                    let arguments = arguments.next().unwrap_or_default();
                    let hook = guarded("hook", &name, "its factory", || factory(&arguments))?;
                    let hook = NamedHook::new(name, hook, events.clone());
                    hooks.push(Box::new(hook) as Box<dyn SessionRunHook>);
                }
                HookKind::Feed(registered) => {
                    let name = registered.name.clone();
                    let factory = &self.feeds[&name].factory;
                    let arguments = arguments.next().unwrap_or_default();
                    let feed = guarded("feed", &name, "its factory", || factory(&arguments))?;
                    feeds.push((name, feed));
                }
                _ => {}
            }
        }
        let listeners = self
            .listeners
            .iter()
            .map(|factory| guarded("listener", "checkpoint", "its factory", || factory()));
        Ok(Made {
            hooks,
            feeds: Feeds::new(feeds),
            listeners: listeners.collect::<Result<_, Error>>()?,
        })
    }
}

/// `hook "name"`, as errors call it.
fn label(word: &str, registered: &Registered) -> String {
    format!("{word} \"{}\"", registered.name)
}

/// What the factories of a registry made for a spec.
pub(crate) struct Made {
    pub(crate) hooks: Vec<Box<dyn SessionRunHook>>,
    pub(crate) feeds: Feeds,
    pub(crate) listeners: Vec<Box<dyn CheckpointSaverListener>>,
}
