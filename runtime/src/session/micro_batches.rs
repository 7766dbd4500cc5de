//! The results of an update of several micro-batches (gradient accumulation): their means.

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::Spec;

use crate::program::Fetched;
use crate::session::tree_sum::TreeSum;
use crate::session::{Mean, value_type};

/// Means over micro-batches, of losses, metrics and what else the model computes; of schedules and of gradients, which are means
/// already, the last value.
#[derive(Debug, Default)]
pub(super) struct MicroBatchMean {
    sums: TreeSum<Sums>,
    results: Fetched,
    metrics: Vec<(Fetch, Mean)>,
}

/// The results of one micro-batch, or of several as sums.
#[derive(Debug)]
struct Sums {
    /// Sums of float scalars of the model; of all else the last value.
    results: Fetched,
    /// The elements of metrics.
    metrics: Vec<(Fetch, Mean)>,
}

impl MicroBatchMean {
    /// Begins an update.
    pub(super) fn begin(&mut self) {
        self.sums.clear();
    }

    /// Adds the results of a micro-batch.
    pub(super) fn add(&mut self, spec: &Spec, fetched: &Fetched) {
        let metrics = spec.model.iter().flat_map(|model| &model.train.metrics);
        let metrics = metrics.filter_map(|(name, _)| {
            let fetch = Fetch::Metric(name.clone());
            let mean = Mean::of(fetched, &fetch, value_type(spec, &fetch)?)?;
            Some((fetch, mean))
        });
        let metrics = metrics.collect();
        let results = fetched.clone();
        self.sums.push(Sums { results, metrics }, Sums::add);
    }

    /// Divides the sums.
    pub(super) fn finish(&mut self) {
        let Some((sums, count)) = self.sums.finish(Sums::add) else {
            return;
        };
        self.results = sums.results;
        for (name, value) in &mut self.results.0 {
            if is_summed(name, value) {
                let mean = value.to_f64s()[0] / count as f64;
                *value = Tensor::from_f64s(&value.ty(), [mean]);
            }
        }
        self.metrics = sums.metrics;
    }

    /// The means of the last update.
    pub(super) fn results(&self) -> &Fetched {
        &self.results
    }

    /// The mean over the elements of a metric in all micro-batches of the last update.
    pub(super) fn metric(&self, fetch: &Fetch) -> Option<Mean> {
        let found = self.metrics.iter().find(|(known, _)| known == fetch);
        found.map(|(_, mean)| *mean)
    }
}

impl Sums {
    fn add(&mut self, newer: Sums) {
        for (name, value) in newer.results.0 {
            match self.results.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) if is_summed(&name, &value) => {
                    let added = sum.to_f64s()[0] + value.to_f64s()[0];
                    *sum = Tensor::from_f64s(&value.ty(), [added]);
                }
                Some((_, last)) => *last = value,
                None => self.results.0.push((name, value)),
            }
        }
        for ((_, sum), (_, mean)) in self.metrics.iter_mut().zip(newer.metrics) {
            sum.add(mean);
        }
    }
}

/// Whether the values of micro-batches are summed: float scalars that the model computes.
fn is_summed(name: &str, value: &Tensor) -> bool {
    let of_model = match name.parse() {
        Ok(Fetch::Loss(_) | Fetch::Metric(_) | Fetch::Output(_) | Fetch::Let(_)) => true,
        Ok(Fetch::Schedule(_) | Fetch::Check(_) | Fetch::Gradient { .. }) | Err(_) => false,
    };
    of_model && value.shape().is_empty() && value.dtype().is_float()
}
