//! Fetches: what a run gives, by name or as a [`Target`], in the shape in which it is asked for (`fetches` of `tf.Session.run`).

use std::collections::{BTreeMap, BTreeSet};

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::Spec;

use crate::program::Fetched;
use crate::session::{RunOptions, Session};
use crate::{Code, Error, State};

/// The name of the training step among fetches.
pub const TRAIN_OP: &str = "train_op";

/// Something that a run does or gives.
///
/// ```
/// use trainspec::session::Target;
/// use trainspec::{Options, Session};
///
/// let text = "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); }";
/// let spec = trainspec::check("line", text)?;
/// let session = Session::new(&spec, &Options::default())?;
/// assert_eq!(Target::named(&session, "train_op")?, Target::TrainOp);
/// assert_eq!(Target::named(&session, "a")?, Target::Variable("a".to_owned()));
/// assert!(Target::named(&session, "lost").is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The training step itself: it gives nothing.
    TrainOp,
    /// A value that a program computes. In a training step it is from before the update; a gradient is not clipped.
    Value(Fetch),
    /// A variable, slot, average or scalar after the run, such as `global_step`.
    Variable(String),
}

/// What a run is asked for, put together from all who ask.
///
/// ```
/// use trainspec::session::{Request, Target};
///
/// let mut request = Request::default();
/// request.add(&Target::TrainOp);
/// assert!(request.train);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether the training step is run.
    pub train: bool,
    /// The values that are computed.
    pub values: BTreeSet<Fetch>,
    /// What is asked of the run itself.
    pub options: RunOptions,
}

impl Request {
    /// Adds a target.
    pub fn add(&mut self, target: &Target) {
        match target {
            Target::TrainOp => self.train = true,
            Target::Value(fetch) => drop(self.values.insert(fetch.clone())),
            Target::Variable(_) => {}
        }
    }
}

impl Target {
    /// What a name stands for: `train_op`, a result of the model or a schedule (`loss`, or in full `loss/loss`, `gradient/loss/w`), or a
    /// variable.
    pub fn named(session: &Session, name: &str) -> Result<Target, Error> {
        Target::find(session.spec(), session.state().names(), name)
    }

    /// As [`Target::named`], with the names of the state.
    pub(crate) fn find(spec: &Spec, state: &[String], name: &str) -> Result<Target, Error> {
        if name == TRAIN_OP {
            return Ok(Target::TrainOp);
        }
        if let Some(fetch) = Fetch::find(spec, name) {
            return Ok(Target::Value(fetch));
        }
        if state.iter().any(|known| known == name) {
            return Ok(Target::Variable(name.to_owned()));
        }
        if let Ok(fetch) = name.parse::<Fetch>() {
            return Ok(Target::Value(fetch));
        }
        let message = format!("there is nothing to fetch that is called `{name}`");
        let known = known_names(spec, state);
        let help = match trainspec_compiler::diag::nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        Err(Error::new(Code::InvalidArgument, message).help(help))
    }

    /// The value after a run; `None` for the training step.
    pub(crate) fn value(&self, fetched: &Fetched, state: &State) -> Result<Option<Tensor>, Error> {
        let (value, name) = match self {
            Target::TrainOp => return Ok(None),
            Target::Value(fetch) => (fetched.value(fetch), fetch.to_string()),
            Target::Variable(name) => (state.get(name), name.clone()),
        };
        match value {
            Some(tensor) => Ok(Some(tensor.clone())),
            None => {
                let message = format!("the run gives no `{name}`");
                Err(Error::new(Code::NotFound, message))
            }
        }
    }
}

/// All names that can be fetched without a prefix.
fn known_names(spec: &Spec, state: &[String]) -> Vec<String> {
    let mut names = vec![TRAIN_OP.to_owned()];
    for mode in spec.model.iter().map(|m| &m.train) {
        let lists = [&mode.losses, &mode.metrics, &mode.outputs, &mode.lets];
        names.extend(lists.into_iter().flatten().map(|(name, _)| name.clone()));
    }
    let schedules = spec.train.iter().flat_map(|t| &t.schedules);
    names.extend(schedules.map(|(name, _)| name.clone()));
    let variables = state.iter();
    names.extend(variables.filter(|name| !name.starts_with('#')).cloned());
    names
}

/// A shape of fetches: one, a list, a map, a tuple or any nesting of them. The results have the same shape; an operation gives `None`.
///
/// ```
/// use trainspec::session::{FetchShape, Target};
///
/// // `("train_op", ["loss", "global_step"])` gives a pair of nothing and two tensors.
/// fn shape<F: FetchShape<Output = (Option<T>, [Option<T>; 2])>, T>(_: F) {}
/// shape::<_, trainspec::Tensor>(("train_op", ["loss", "global_step"]));
/// ```
pub trait FetchShape {
    /// The results.
    type Output;

    /// Appends the targets, in order.
    fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error>;

    /// Takes as many values as there are targets, in order, and puts them into the shape.
    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> Self::Output;
}

impl FetchShape for Target {
    type Output = Option<Tensor>;

    fn targets(&self, _: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
        targets.push(self.clone());
        Ok(())
    }

    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> Option<Tensor> {
        values.next().flatten()
    }
}

impl FetchShape for &str {
    type Output = Option<Tensor>;

    fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
        targets.push(Target::named(session, self)?);
        Ok(())
    }

    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> Option<Tensor> {
        values.next().flatten()
    }
}

impl FetchShape for String {
    type Output = Option<Tensor>;

    fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
        self.as_str().targets(session, targets)
    }

    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> Option<Tensor> {
        values.next().flatten()
    }
}

impl<F: FetchShape> FetchShape for Vec<F> {
    type Output = Vec<F::Output>;

    fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
        self.iter().try_for_each(|f| f.targets(session, targets))
    }

    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> Vec<F::Output> {
        self.iter().map(|f| f.shape(values)).collect()
    }
}

impl<F: FetchShape, const N: usize> FetchShape for [F; N] {
    type Output = [F::Output; N];

    fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
        self.iter().try_for_each(|f| f.targets(session, targets))
    }

    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> [F::Output; N] {
        self.each_ref().map(|f| f.shape(values))
    }
}

impl<K: Ord + Clone, F: FetchShape> FetchShape for BTreeMap<K, F> {
    type Output = BTreeMap<K, F::Output>;

    fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
        self.values().try_for_each(|f| f.targets(session, targets))
    }

    fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> BTreeMap<K, F::Output> {
        let shaped = self.iter().map(|(key, f)| (key.clone(), f.shape(values)));
        shaped.collect()
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: FetchShape),*> FetchShape for ($($name,)*) {
            type Output = ($($name::Output,)*);

            fn targets(&self, session: &Session, targets: &mut Vec<Target>) -> Result<(), Error> {
                $(self.$index.targets(session, targets)?;)*
                Ok(())
            }

            fn shape(&self, values: &mut dyn Iterator<Item = Option<Tensor>>) -> Self::Output {
                ($(self.$index.shape(values),)*)
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
