//! The results of an update of several micro-batches (gradient accumulation): their means.

use trainspec_compiler::ir::Tensor;

use crate::program::Fetched;

/// Means of float scalars over micro-batches; of all else the last value stays.
#[derive(Debug, Default)]
pub(super) struct MicroBatchMean {
    count: u64,
    mean: Fetched,
}

impl MicroBatchMean {
    /// Begins an update.
    pub(super) fn begin(&mut self) {
        self.count = 0;
        self.mean.0.clear();
    }

    /// Adds the results of a micro-batch.
    pub(super) fn add(&mut self, fetched: &Fetched) {
        self.count += 1;
        for (name, value) in &fetched.0 {
            match self.mean.0.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) if is_float_scalar(value) => {
                    let added = sum.to_f64s()[0] + value.to_f64s()[0];
                    *sum = Tensor::from_f64s(&value.ty(), [added]);
                }
                Some((_, last)) => last.clone_from(value),
                None => self.mean.0.push((name.clone(), value.clone())),
            }
        }
    }

    /// Divides the sums.
    pub(super) fn finish(&mut self) {
        for (_, value) in &mut self.mean.0 {
            if is_float_scalar(value) {
                let mean = value.to_f64s()[0] / self.count as f64;
                *value = Tensor::from_f64s(&value.ty(), [mean]);
            }
        }
    }

    /// The means of the last update.
    pub(super) fn results(&self) -> &Fetched {
        &self.mean
    }
}

fn is_float_scalar(value: &Tensor) -> bool {
    value.shape().is_empty() && value.dtype().is_float()
}
