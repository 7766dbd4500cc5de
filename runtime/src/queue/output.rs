//! `Output`: a source of values in an input pipeline, where TensorFlow has the outputs of graph operations.
//!
//! In: constants, queues, or closures. Out: with each evaluation one list of values, or an error such as [`Code::OutOfRange`] at the end.
//! Several threads may evaluate one output at once; each evaluation stands for one `Session.run` of all values together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::queue::{Cancellation, Queue, TensorSpec, Value};
use crate::{Code, Error, Tensor};

/// A source of lists of values. Clones share it.
///
/// ```
/// use std::sync::atomic::{AtomicI32, Ordering};
/// use trainspec::queue::{Output, TensorSpec};
/// use trainspec::{Code, DType, Error, Tensor};
///
/// let next = AtomicI32::new(0);
/// let counter = Output::new(vec![TensorSpec::new(DType::I32, &[])], move || {
///     match next.fetch_add(1, Ordering::Relaxed) {
///         n @ 0..2 => Ok(vec![Tensor::scalar(n).into()]),
///         _ => Err(Error::new(Code::OutOfRange, "there are two")),
///     }
/// });
/// let doubled = counter.map(counter.specs().to_vec(), |values| {
///     let n = values[0].tensor().unwrap().to_i64s()[0] as i32;
///     Ok(vec![Tensor::scalar(2 * n).into()])
/// });
/// assert_eq!(doubled.evaluate()?[0].tensor(), Some(&Tensor::scalar(0_i32)));
/// assert_eq!(doubled.evaluate()?[0].tensor(), Some(&Tensor::scalar(2_i32)));
/// assert_eq!(doubled.evaluate().unwrap_err().code(), Code::OutOfRange);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Output(Arc<Node>);

type Evaluate = dyn Fn(&Cancellation) -> Result<Vec<Value>, Error> + Send + Sync;

struct Node {
    specs: Vec<TensorSpec>,
    /// The names of the values, sorted; none where they are a list.
    names: Vec<String>,
    evaluate: Box<Evaluate>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("specs", &self.0.specs)
            .field("names", &self.0.names)
            .finish_non_exhaustive()
    }
}

impl From<Tensor> for Output {
    fn from(tensor: Tensor) -> Output {
        Output::constant(vec![tensor])
    }
}

impl Output {
    /// A closure that gives values of these specs.
    pub fn new(
        specs: Vec<TensorSpec>,
        evaluate: impl Fn() -> Result<Vec<Value>, Error> + Send + Sync + 'static,
    ) -> Output {
        Output::cancellable(specs, move |_| evaluate())
    }

    /// A closure that may wait, and ends its waits when the cancellation is requested.
    pub fn cancellable(
        specs: Vec<TensorSpec>,
        evaluate: impl Fn(&Cancellation) -> Result<Vec<Value>, Error> + Send + Sync + 'static,
    ) -> Output {
        Output(Arc::new(Node {
            specs,
            names: Vec::new(),
            evaluate: Box::new(evaluate),
        }))
    }

    /// A constant: it gives these tensors at each evaluation.
    pub fn constant(tensors: Vec<Tensor>) -> Output {
        let specs = tensors.iter().map(TensorSpec::from).collect();
        let values: Vec<Value> = tensors.into_iter().map(Value::from).collect();
        Output::new(specs, move || Ok(values.clone()))
    }

    /// One element of a queue at each evaluation, under the names of its components where it has them.
    pub fn dequeue(queue: &Queue) -> Output {
        let own = queue.clone();
        let specs = queue.components().to_vec();
        let values = Output::cancellable(specs, move |cancellation| {
            own.cancelled_by(cancellation).dequeue()
        });
        let names: Vec<&str> = queue.names().iter().map(String::as_str).collect();
        match names.is_empty() {
            true => values,
            false => values.with_names(&names).unwrap_or(values),
        }
    }

    /// A function of the values of each evaluation, which gives values of these specs.
    pub fn map(
        &self,
        specs: Vec<TensorSpec>,
        function: impl Fn(Vec<Value>) -> Result<Vec<Value>, Error> + Send + Sync + 'static,
    ) -> Output {
        let own = self.clone();
        Output::cancellable(specs, move |cancellation| {
            function(own.evaluate_with(cancellation)?)
        })
    }

    /// The values under names, as a map of tensors: they are sorted by name. Fails where there are not as many names as values, or one
    /// occurs twice.
    pub fn with_names(&self, names: &[&str]) -> Result<Output, Error> {
        let known: BTreeSet<&str> = names.iter().copied().collect();
        if names.len() != self.specs().len() || known.len() != names.len() {
            let message = format!(
                "{} values cannot be called {names:?}: each has a name of its own",
                self.specs().len()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|i| names[*i]);
        let specs = order.iter().map(|i| self.specs()[*i].clone()).collect();
        let names = known.into_iter().map(str::to_owned).collect();
        let own = self.clone();
        let evaluate = move |cancellation: &Cancellation| {
            let values = own.evaluate_with(cancellation)?;
            Ok(order.iter().map(|i| values[*i].clone()).collect())
        };
        Ok(Output(Arc::new(Node {
            specs,
            names,
            evaluate: Box::new(evaluate),
        })))
    }

    /// Gives the values names that are sorted already.
    pub(super) fn under(self, names: Vec<String>) -> Output {
        let specs = self.0.specs.clone();
        let evaluate = move |cancellation: &Cancellation| self.evaluate_with(cancellation);
        Output(Arc::new(Node {
            specs,
            names,
            evaluate: Box::new(evaluate),
        }))
    }

    /// What is known of the values.
    pub fn specs(&self) -> &[TensorSpec] {
        &self.0.specs
    }

    /// The names of the values, sorted; none where they are a list.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// The next values.
    pub fn evaluate(&self) -> Result<Vec<Value>, Error> {
        self.evaluate_with(&Cancellation::new())
    }

    /// The next values; a wait for them ends with [`Code::Cancelled`] when the cancellation is requested.
    pub fn evaluate_with(&self, cancellation: &Cancellation) -> Result<Vec<Value>, Error> {
        let values = (self.0.evaluate)(cancellation)?;
        if values.len() != self.specs().len() {
            let message = format!(
                "an output of {} values was evaluated to {}",
                self.specs().len(),
                values.len()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(values)
    }

    /// The next values by name. Fails where they have none.
    pub fn evaluate_map(&self) -> Result<BTreeMap<String, Value>, Error> {
        if self.names().is_empty() {
            let message = "the values of this output have no names";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(self.names().iter().cloned().zip(self.evaluate()?).collect())
    }
}
