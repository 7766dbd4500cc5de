//! Means and variances of the elements of a feature, in one pass (Welford, 1962).
//!
//! In: numbers, record by record. Out: the mean and the variance of each element. The order of summation is that of the records, so that
//! neither blocks nor threads change a bit. NaN is a missing number, and is left out.

/// The least standard deviation that is divided by, as in `tf.keras.layers.Normalization`.
const MIN_DEVIATION: f64 = 1e-7;

/// The running moments of the elements of a feature.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RunningMoments {
    elements: Vec<Running>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Running {
    count: u64,
    mean: f64,
    /// The sum of squared differences from the mean.
    squares: f64,
}

/// The mean and the variance of each element of a feature.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// The means; NaN of an element that was always missing.
    pub mean: Vec<f64>,
    /// The variances: mean((x - mean)²).
    pub variance: Vec<f64>,
}

impl RunningMoments {
    /// Adds a record: its elements in order.
    pub(super) fn add(&mut self, record: &[f64]) {
        if self.elements.len() < record.len() {
            self.elements.resize(record.len(), Running::default());
        }
        for (running, x) in self.elements.iter_mut().zip(record) {
            if x.is_nan() {
                continue;
            }
            running.count += 1;
            let before = x - running.mean;
            running.mean += before / running.count as f64;
            running.squares += before * (x - running.mean);
        }
    }

    pub(super) fn moments(&self) -> Moments {
        let elements = self.elements.iter();
        let of = |running: &Running, value: f64| match running.count {
            0 => f64::NAN,
            _ => value,
        };
        Moments {
            mean: elements.clone().map(|r| of(r, r.mean)).collect(),
            variance: elements
                .map(|r| of(r, r.squares / r.count as f64))
                .collect(),
        }
    }
}

impl Moments {
    /// Standardizes the elements of a record: (x - mean) / max(sqrt(variance), 1e-7).
    pub(super) fn standardize(&self, record: &mut [f64]) {
        let moments = self.mean.iter().zip(&self.variance);
        for (x, (mean, variance)) in record.iter_mut().zip(moments) {
            *x = (*x - mean) / variance.sqrt().max(MIN_DEVIATION);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_each_element_and_nan_is_left_out() {
        let mut running = RunningMoments::default();
        for record in [[1.0, f64::NAN, 7.0], [2.0, f64::NAN, 7.0], [6.0, 4.0, 7.0]] {
            running.add(&record);
        }
        let moments = running.moments();
        assert_eq!(moments.mean, [3.0, 4.0, 7.0]);
        assert!((moments.variance[0] - 14.0 / 3.0).abs() < 1e-15);
        assert_eq!(moments.variance[1..], [0.0, 0.0]);
        let mut record = [3.0, f64::NAN, 7.0];
        moments.standardize(&mut record);
        assert_eq!(record[0], 0.0);
        assert!(record[1].is_nan());
        assert_eq!(record[2], 0.0);
    }
}
