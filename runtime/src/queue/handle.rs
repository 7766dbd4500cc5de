//! `Queue` (`tf.QueueBase`): the operations that all queues have. Threads wait for space and for elements under one lock, and nothing of a
//! program's own runs under it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::queue::attempts::Attempts;
use crate::queue::cancellation::Wake;
use crate::queue::items::{Kind, Tuple};
use crate::queue::value::{check, check_shape};
use crate::queue::{Cancellation, TensorSpec, Value};
use crate::{Code, Error};

/// What every kind of queue is made from.
///
/// ```
/// use trainspec::DType;
/// use trainspec::queue::{FifoQueue, QueueOptions, TensorSpec};
///
/// let components = vec![TensorSpec::new(DType::F32, &[2]), TensorSpec::new(DType::I64, &[])];
/// let options = QueueOptions {
///     names: vec!["image".to_owned(), "label".to_owned()],
///     name: Some("examples".to_owned()),
///     ..QueueOptions::new(Some(100), components)
/// };
/// assert_eq!(FifoQueue::new(options)?.name(), "examples");
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueOptions {
    /// How many elements it holds; `None` for any number.
    pub capacity: Option<usize>,
    /// The components of an element (`dtypes`, `shapes`).
    pub components: Vec<TensorSpec>,
    /// The names of the components, for [`Queue::enqueue_map`] and [`Queue::dequeue_map`]; none, or one for each.
    pub names: Vec<String>,
    /// The name of the queue; `None` for that of its kind, such as `fifo_queue`.
    pub name: Option<String>,
}

impl QueueOptions {
    /// A queue without names.
    pub fn new(capacity: Option<usize>, components: Vec<TensorSpec>) -> QueueOptions {
        QueueOptions {
            capacity,
            components,
            ..QueueOptions::default()
        }
    }
}

/// A queue of any kind. Clones share it.
///
/// ```
/// use trainspec::queue::{FifoQueue, Queue, QueueOptions, TensorSpec};
/// use trainspec::{Code, DType, Tensor};
///
/// let components = vec![TensorSpec::new(DType::F32, &[])];
/// let queue: Queue = FifoQueue::new(QueueOptions::new(Some(10), components))?.into();
/// queue.enqueue_many([Tensor::new(&[3], vec![1.0_f32, 2.0, 3.0])])?;
/// let first = queue.dequeue()?;
/// assert_eq!(first[0].tensor(), Some(&Tensor::scalar(1.0_f32)));
/// queue.close(false)?;
/// let rest = queue.dequeue_up_to(5)?;
/// assert_eq!(rest[0].tensor(), Some(&Tensor::new(&[2], vec![2.0_f32, 3.0])));
/// let end = queue.dequeue().unwrap_err();
/// assert_eq!(end.code(), Code::OutOfRange);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
    cancellation: Option<Cancellation>,
}

struct Shared {
    kind: Kind,
    options: QueueOptions,
    name: String,
    attempts: Mutex<Attempts>,
    changed: Condvar,
}

impl Shared {
    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        let attempts = self.attempts.lock();
        attempts.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Shared {
    fn wake(&self) {
        let attempts = self.attempts();
        self.changed.notify_all();
        drop(attempts);
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.shared.kind.type_name(), self.name())
    }
}

impl Queue {
    /// A queue, whose options have been checked by its kind.
    pub(super) fn of_kind(kind: Kind, options: QueueOptions) -> Result<Queue, Error> {
        let (components, names) = (options.components.len(), options.names.len());
        if names != 0 && names != components {
            let message = format!(
                "Queue names must have the same length as dtypes, received len(names)={names}, len(dtypes)={components}"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if components == 0 {
            let message = "a queue has at least one component";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if options.capacity == Some(0) {
            let message = "a queue has a capacity of at least one element";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let given = options.name.as_deref();
        let name = given.unwrap_or(kind.default_name()).to_owned();
        let capacity = options.capacity.unwrap_or(usize::MAX);
        let shared = Shared {
            attempts: Mutex::new(Attempts::new(kind, &name, capacity)),
            changed: Condvar::new(),
            kind,
            options,
            name,
        };
        Ok(Queue {
            shared: Arc::new(shared),
            cancellation: None,
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The components of an element.
    pub fn components(&self) -> &[TensorSpec] {
        &self.shared.options.components
    }

    /// The names of the components; none where they have none.
    pub fn names(&self) -> &[String] {
        &self.shared.options.names
    }

    /// How many elements it holds; `None` for any number.
    pub fn capacity(&self) -> Option<usize> {
        self.shared.options.capacity
    }

    pub(super) fn kind(&self) -> Kind {
        self.shared.kind
    }

    /// Whether both are one queue.
    pub fn is(&self, other: &Queue) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// A handle on this queue whose operations fail with [`Code::Cancelled`] once `cancellation` is requested, also while they wait. Elements that a cancelled dequeue had
    /// taken are put back.
    pub fn cancelled_by(&self, cancellation: &Cancellation) -> Queue {
        Queue {
            shared: self.shared.clone(),
            cancellation: Some(cancellation.clone()),
        }
    }

    /// Puts in one element; waits while the queue is full. Fails where the queue is closed, or a value is not what the component takes.
    pub fn enqueue<V: Into<Value>>(
        &self,
        values: impl IntoIterator<Item = V>,
    ) -> Result<(), Error> {
        let tuple: Tuple = values.into_iter().map(Into::into).collect();
        self.check_count(tuple.len())?;
        for (i, (value, component)) in tuple.iter().zip(self.components()).enumerate() {
            check(i, &value.spec(), component)?;
        }
        self.wait(|attempts| attempts.enqueue(VecDeque::from([tuple])))
            .map(drop)
    }

    /// Puts in the rows of values along their first dimension, one after the other; waits while the queue is full.
    pub fn enqueue_many<V: Into<Value>>(
        &self,
        values: impl IntoIterator<Item = V>,
    ) -> Result<(), Error> {
        let values: Tuple = values.into_iter().map(Into::into).collect();
        self.check_count(values.len())?;
        let mut count = None;
        for (i, (value, component)) in values.iter().zip(self.components()).enumerate() {
            let spec = value.spec();
            check(
                i,
                &TensorSpec {
                    shape: Default::default(),
                    ..spec.clone()
                },
                component,
            )?;
            check_shape(&spec.shape.row()?, &component.shape)?;
            let rows = spec.shape.0.and_then(|dims| dims[0]).unwrap_or(0);
            let expected = *count.get_or_insert(rows);
            if rows != expected {
                let message = format!(
                    "All input tensors must have the same size in the 0th dimension. Component {i} has {rows}, and should have {expected}"
                );
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        let count = count.unwrap_or(0);
        // Nothing is put in even where the queue is closed.
        if count == 0 {
            return Ok(());
        }
        let mut elements: VecDeque<Tuple> = (0..count).map(|_| Tuple::new()).collect();
        for value in &values {
            for (element, row) in elements.iter_mut().zip(value.rows()) {
                element.push(row);
            }
        }
        self.wait(|attempts| attempts.enqueue(elements)).map(drop)
    }

    /// As [`Queue::enqueue`], by the names of the components.
    pub fn enqueue_map<V: Into<Value>>(&self, values: BTreeMap<String, V>) -> Result<(), Error> {
        self.enqueue(self.by_name(values)?)
    }

    /// As [`Queue::enqueue_many`], by the names of the components.
    pub fn enqueue_many_map<V: Into<Value>>(
        &self,
        values: BTreeMap<String, V>,
    ) -> Result<(), Error> {
        self.enqueue_many(self.by_name(values)?)
    }

    /// Takes one element; waits for it. Fails with [`Code::OutOfRange`] where the queue is closed and empty.
    pub fn dequeue(&self) -> Result<Vec<Value>, Error> {
        let taken = self.wait(|attempts| attempts.dequeue(1, false))?;
        Ok(taken.into_iter().next().expect("one element was taken"))
    }

    /// Takes `n` elements, stacked along a new first dimension; waits for them. Where fewer are left in a closed queue, it fails with
    /// [`Code::OutOfRange`] and leaves them there.
    pub fn dequeue_many(&self, n: usize) -> Result<Vec<Value>, Error> {
        self.dequeue_stacked(n, false)
    }

    /// Takes `n` elements, or what is left once the queue is closed. Fails with [`Code::OutOfRange`] where that is nothing.
    pub fn dequeue_up_to(&self, n: usize) -> Result<Vec<Value>, Error> {
        self.dequeue_stacked(n, true)
    }

    /// As [`Queue::dequeue`], by the names of the components.
    pub fn dequeue_map(&self) -> Result<BTreeMap<String, Value>, Error> {
        self.named(self.dequeue()?)
    }

    fn dequeue_stacked(&self, n: usize, allow_fewer: bool) -> Result<Vec<Value>, Error> {
        if self
            .components()
            .iter()
            .any(|component| component.shape.0.is_none())
        {
            let message = format!(
                "{}'s DequeueMany and DequeueUpTo require the components to have specified shapes.",
                self.shared.kind.type_name()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let taken = match n {
            0 => Vec::new(),
            n => self.wait(|attempts| attempts.dequeue(n, allow_fewer))?,
        };
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); self.components().len()];
        for tuple in taken {
            for (column, value) in columns.iter_mut().zip(tuple) {
                column.push(value);
            }
        }
        let columns = columns.iter().zip(self.components());
        columns
            .map(|(column, component)| Value::stack(column, component))
            .collect()
    }

    /// How many elements are in it.
    pub fn size(&self) -> usize {
        self.shared.attempts().len()
    }

    /// Closes the queue: later enqueues fail with [`Code::Cancelled`], and dequeues once nothing is left. Enqueues that wait are finished
    /// first, for which this waits too; or they are cancelled, where `cancel_pending_enqueues`. Closing twice is an error, unless they are
    /// cancelled.
    pub fn close(&self, cancel_pending_enqueues: bool) -> Result<(), Error> {
        match cancel_pending_enqueues {
            false => self.wait(Attempts::close).map(drop),
            true => {
                let mut attempts = self.shared.attempts();
                attempts.close_and_cancel();
                attempts.advance();
                self.shared.changed.notify_all();
                Ok(())
            }
        }
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.attempts().is_closed()
    }

    /// Makes it a new queue, open and empty, as each session of TensorFlow has queues of its own.
    pub(super) fn reset(&self) {
        let mut attempts = self.shared.attempts();
        attempts.reset();
        self.shared.changed.notify_all();
    }

    /// Makes an attempt and waits until it is completed or cancelled.
    fn wait(&self, attempt: impl FnOnce(&mut Attempts) -> u64) -> Result<Vec<Tuple>, Error> {
        let shared = &*self.shared;
        let mut registration = None;
        let mut attempts = shared.attempts();
        let ticket = attempt(&mut attempts);
        let is_cancelled = |own: &Option<Cancellation>| {
            let own = own.as_ref();
            own.is_some_and(Cancellation::is_cancelled)
        };
        if is_cancelled(&self.cancellation) {
            return Err(attempts.cancel(ticket));
        }
        attempts.advance();
        let own = attempts.fetch(ticket);
        // Others may have been completed by the same change, even where this attempt is not.
        if attempts.has_completed() {
            shared.changed.notify_all();
        }
        if let Some(result) = own {
            return result;
        }
        loop {
            if let Some(cancellation) = &self.cancellation {
                registration.get_or_insert_with(|| {
                    let wake: Weak<Shared> = Arc::downgrade(&self.shared);
                    cancellation.register(wake)
                });
            }
            if is_cancelled(&self.cancellation) {
                let error = attempts.cancel(ticket);
                attempts.advance();
                shared.changed.notify_all();
                return Err(error);
            }
            let woken = shared.changed.wait(attempts);
            attempts = woken.unwrap_or_else(PoisonError::into_inner);
            if let Some(result) = attempts.fetch(ticket) {
                return result;
            }
        }
    }

    fn check_count(&self, got: usize) -> Result<(), Error> {
        let expected = self.components().len();
        if got == expected {
            return Ok(());
        }
        let message =
            format!("Wrong number of components in tuple. Expected {expected}, got {got}");
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Values in the order of the components.
    fn by_name<V: Into<Value>>(&self, mut values: BTreeMap<String, V>) -> Result<Tuple, Error> {
        self.ensure_names()?;
        let keys: Vec<&String> = values.keys().collect();
        let mut names: Vec<&String> = self.names().iter().collect();
        names.sort();
        if keys != names {
            let message = format!(
                "Keys in dictionary to enqueue do not match names of Queue. Dictionary: {keys:?}, Queue: {names:?}"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let names = self.names().iter();
        Ok(names
            .filter_map(|name| values.remove(name))
            .map(Into::into)
            .collect())
    }

    fn named(&self, values: Vec<Value>) -> Result<BTreeMap<String, Value>, Error> {
        self.ensure_names()?;
        Ok(self.names().iter().cloned().zip(values).collect())
    }

    fn ensure_names(&self) -> Result<(), Error> {
        match self.names().is_empty() {
            false => Ok(()),
            true => {
                let message = "Queue must have names to enqueue a dictionary";
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }
}
