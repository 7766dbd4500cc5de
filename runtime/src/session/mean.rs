//! Streaming means: sum and count over the elements of many tensors (`tf.metrics.mean`).

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::{DType, Tensor, TensorType};

use crate::program::Fetched;

/// A sum and a count, so that a short last batch is weighted by its number of elements.
///
/// ```
/// use trainspec::session::Mean;
///
/// let mut accuracy = Mean { sum: 30.0, count: 32.0, is_bool: true };
/// accuracy.add(Mean { sum: 2.0, count: 8.0, is_bool: true });
/// assert_eq!(accuracy.value(), 0.8);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mean {
    /// The sum of all elements; bools count as 0 and 1.
    pub sum: f64,
    /// The number of elements.
    pub count: f64,
    /// Whether the elements are bools.
    pub is_bool: bool,
}

impl Mean {
    /// The mean; NaN where there are no elements.
    pub fn value(self) -> f64 {
        self.sum / self.count
    }

    /// Adds the elements of another.
    pub fn add(&mut self, other: Mean) {
        self.sum += other.sum;
        self.count += other.count;
        self.is_bool = other.is_bool;
    }

    /// This mean with the count `weight`.
    pub fn with_weight(self, weight: f64) -> Mean {
        Mean {
            sum: self.value() * weight,
            count: weight,
            is_bool: self.is_bool,
        }
    }

    /// The elements of a result, without the padding past its run-time counts.
    pub(crate) fn of(fetched: &Fetched, fetch: &Fetch, ty: &TensorType) -> Option<Mean> {
        let tensor = fetched.without_padding(fetch, ty)?;
        Some(Mean::elements(&tensor))
    }

    /// The elements of a tensor; none of strings.
    fn elements(tensor: &Tensor) -> Mean {
        let mut mean = Mean {
            is_bool: tensor.dtype() == DType::Bool,
            ..Mean::default()
        };
        if tensor.dtype() == DType::String {
            return mean;
        }
        for x in tensor.to_f64s() {
            mean.sum += x;
            mean.count += 1.0;
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_count_by_their_elements() {
        let mut mean = Mean::default();
        mean.add(Mean::elements(&Tensor::new(&[3], vec![true, true, false])));
        mean.add(Mean::elements(&Tensor::new(&[1], vec![false])));
        assert_eq!((mean.value(), mean.is_bool), (0.5, true));
        assert_eq!(mean.with_weight(8.0).sum, 4.0);
    }
}
