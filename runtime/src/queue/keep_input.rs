//! `KeepInput`: which inputs the `maybe_` batch functions put into their queue.

use std::fmt;
use std::sync::Arc;

use crate::queue::{Cancellation, Queue, Value};
use crate::{Code, Error};

/// Whether an input is kept (`keep_input`): one answer for all that is enqueued at once, or one for each row of `enqueue_many`. It is a
/// function of the values that are evaluated together with it.
///
/// ```
/// use trainspec::queue::KeepInput;
///
/// let even = KeepInput::scalar(|values| Ok(values[0].tensor().unwrap().to_i64s()[0] % 2 == 0));
/// let always = KeepInput::from(true);
/// let first_two = KeepInput::from(vec![true, true, false]);
/// # let _ = (even, always, first_two);
/// ```
#[derive(Clone)]
pub struct KeepInput(Rank);

type OneAnswer = dyn Fn(&[Value]) -> Result<bool, Error> + Send + Sync;
type ManyAnswers = dyn Fn(&[Value]) -> Result<Vec<bool>, Error> + Send + Sync;

#[derive(Clone)]
enum Rank {
    Scalar(Arc<OneAnswer>),
    Vector(Arc<ManyAnswers>),
}

impl fmt::Debug for KeepInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Rank::Scalar(_) => "KeepInput(scalar)",
            Rank::Vector(_) => "KeepInput(vector)",
        })
    }
}

impl From<bool> for KeepInput {
    fn from(keep: bool) -> KeepInput {
        KeepInput::scalar(move |_| Ok(keep))
    }
}

impl From<Vec<bool>> for KeepInput {
    fn from(keep: Vec<bool>) -> KeepInput {
        KeepInput::vector(move |_| Ok(keep.clone()))
    }
}

impl KeepInput {
    /// One answer for each evaluation.
    pub fn scalar(
        keep: impl Fn(&[Value]) -> Result<bool, Error> + Send + Sync + 'static,
    ) -> KeepInput {
        KeepInput(Rank::Scalar(Arc::new(keep)))
    }

    /// One answer for each row of an evaluation.
    pub fn vector(
        keep: impl Fn(&[Value]) -> Result<Vec<bool>, Error> + Send + Sync + 'static,
    ) -> KeepInput {
        KeepInput(Rank::Vector(Arc::new(keep)))
    }

    pub(super) fn check(&self, enqueue_many: bool) -> Result<(), Error> {
        match (&self.0, enqueue_many) {
            (Rank::Vector(_), false) => {
                let message = "`keep_input` cannot be a vector when `enqueue_many=False`.";
                Err(Error::new(Code::InvalidArgument, message))
            }
            _ => Ok(()),
        }
    }

    /// Puts what is kept into a queue.
    pub(super) fn enqueue(
        &self,
        queue: &Queue,
        values: Vec<Value>,
        enqueue_many: bool,
        cancellation: &Cancellation,
    ) -> Result<(), Error> {
        let queue = queue.cancelled_by(cancellation);
        match &self.0 {
            Rank::Scalar(keep) => match (keep(&values)?, enqueue_many) {
                (false, _) => Ok(()),
                (true, false) => queue.enqueue(values),
                (true, true) => queue.enqueue_many(values),
            },
            Rank::Vector(keep) => {
                let keep = keep(&values)?;
                let kept = values.iter().map(|value| selected(value, &keep));
                queue.enqueue_many(kept.collect::<Result<Vec<_>, Error>>()?)
            }
        }
    }
}

/// The rows of a value for which the mask is true (`tf.boolean_mask`).
fn selected(value: &Value, mask: &[bool]) -> Result<Value, Error> {
    let spec = value.spec();
    let rows = spec.shape.0.as_ref().and_then(|dims| dims.first().copied());
    if rows.flatten() != Some(mask.len()) {
        let message = format!(
            "`keep_input` has {} elements for a value of shape {}",
            mask.len(),
            spec.shape
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let kept = mask.iter().enumerate().filter(|(_, keep)| **keep);
    let kept: Vec<usize> = kept.map(|(i, _)| i).collect();
    match value {
        Value::Dense(tensor) => Ok(Value::Dense(super::value::pick(tensor, &kept))),
        Value::Sparse(_) => {
            let all = value.rows();
            let rows: Vec<Value> = kept.iter().map(|i| all[*i].clone()).collect();
            let mut component = spec;
            component.shape = component.shape.row()?;
            Value::stack(&rows, &component)
        }
    }
}
