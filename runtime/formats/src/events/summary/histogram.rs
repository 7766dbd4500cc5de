//! Histogram summaries with TensorFlow's default buckets (`histogram::Histogram`), whose limits grow by a factor of 1.1.

use std::sync::LazyLock;

use crate::error::Result;
use crate::events::summary::{clean_tag, one, refused};
use crate::proto::summary::value::Value as Kind;
use crate::proto::{HistogramProto, Summary};

/// A histogram of all values (`tf.compat.v1.summary.histogram`). The tag is [cleaned](clean_tag); a value that is not finite is an error.
pub fn histogram(tag: &str, values: impl IntoIterator<Item = f64>) -> Result<Summary> {
    let tag = clean_tag(tag);
    let mut histogram = Histogram::new();
    for value in values {
        if !value.is_finite() {
            return Err(not_finite(&tag, value));
        }
        histogram.add(value);
    }
    Ok(one(&tag, Kind::Histo(histogram.to_message()), None))
}

pub(super) fn not_finite(tag: &str, value: f64) -> crate::FormatError {
    refused(match value.is_nan() {
        true => format!("a value of the histogram `{tag}` is not a number"),
        false => format!("a value of the histogram `{tag}` is infinite"),
    })
}

/// Counts of values in TensorFlow's default buckets.
///
/// The limits are `1e-12 * 1.1^k`, multiplied one after the other in `f64`, while they are below `1e20`; then `f64::MAX`; their
/// negatives; and zero. A bucket has the values from the limit before it on and below its own.
///
/// ```
/// use trainspec_formats::events::summary::Histogram;
///
/// let mut histogram = Histogram::new();
/// histogram.add(0.5);
/// histogram.add(-0.25);
/// let message = histogram.to_message();
/// assert_eq!((message.num, message.sum), (2.0, 0.25));
/// ```
#[derive(Debug, Clone)]
pub struct Histogram {
    min: f64,
    max: f64,
    num: f64,
    sum: f64,
    sum_squares: f64,
    buckets: Vec<f64>,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram {
            min: f64::MAX,
            max: f64::MIN,
            num: 0.0,
            sum: 0.0,
            sum_squares: 0.0,
            buckets: vec![0.0; LIMITS.bucket_count()],
        }
    }

    /// Counts a value, which must be finite: others have no bucket and are left out.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.buckets[LIMITS.bucket(value)] += 1.0;
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        self.num += 1.0;
        self.sum += value;
        self.sum_squares += value * value;
    }

    /// The `HistogramProto`: of every run of empty buckets, only the last limit is kept.
    pub fn to_message(&self) -> HistogramProto {
        let mut message = HistogramProto {
            min: self.min,
            max: self.max,
            num: self.num,
            sum: self.sum,
            sum_squares: self.sum_squares,
            ..Default::default()
        };
        let last = self.buckets.len() - 1;
        for (i, &count) in self.buckets.iter().enumerate() {
            let run_goes_on = count == 0.0 && i < last && self.buckets[i + 1] == 0.0;
            if !run_goes_on {
                message.bucket_limit.push(LIMITS.limit(i));
                message.bucket.push(count);
            }
        }
        message
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::new);

/// The positive limits, and a table of start positions for the search.
struct Limits {
    /// The positive limits, without `f64::MAX`.
    above: Vec<f64>,
    /// For each exponent and leading mantissa bits (a cell), the number of limits below all numbers of the cell.
    below: Vec<u16>,
}

/// The leading mantissa bits of a cell: a cell has at most two limits.
const MANTISSA_BITS: u32 = 3;

/// The first cell of the table: below this power of two there is no limit.
const FIRST_CELL: usize = (1023 - 40) << MANTISSA_BITS;

impl Limits {
    fn new() -> Limits {
        let mut above = Vec::new();
        let mut limit = 1.0e-12;
        while limit < 1.0e20 {
            above.push(limit);
            limit *= 1.1;
        }
        let highest = cell(f64::MAX).min(cell(2.0e20));
        let below = (FIRST_CELL..=highest)
            .map(|cell| {
                let first = f64::from_bits((cell as u64) << (52 - MANTISSA_BITS));
                above.partition_point(|&limit| limit < first) as u16
            })
            .collect();
        Limits { above, below }
    }

    /// Two for every positive limit, two for `f64::MAX`, and one for zero.
    fn bucket_count(&self) -> usize {
        2 * (self.above.len() + 1) + 1
    }

    /// The upper limit of a bucket.
    fn limit(&self, bucket: usize) -> f64 {
        let middle = self.above.len() + 1;
        let size = |i: usize| self.above.get(i).copied().unwrap_or(f64::MAX);
        match bucket.cmp(&middle) {
            std::cmp::Ordering::Less => -size(middle - 1 - bucket),
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => size(bucket - middle - 1),
        }
    }

    /// The bucket of a finite value: the first whose limit is greater.
    #[inline]
    fn bucket(&self, value: f64) -> usize {
        let size = value.abs();
        let mut count = match cell(size).checked_sub(FIRST_CELL) {
            Some(i) => self.below.get(i).map_or(self.above.len(), |&n| n.into()),
            None => 0,
        };
        if value < 0.0 {
            while self.above.get(count).is_some_and(|&limit| limit < size) {
                count += 1;
            }
            // Below zero the limits of smaller magnitude come after the value.
            1 + self.above.len() - count
        } else {
            while self.above.get(count).is_some_and(|&limit| limit <= size) {
                count += 1;
            }
            // `f64::MAX` has no limit above it; it goes into the last bucket.
            (self.above.len() + 2 + count).min(self.bucket_count() - 1)
        }
    }
}

/// The cell (exponent and leading mantissa bits) of a number that is not negative.
#[inline]
fn cell(size: f64) -> usize {
    (size.to_bits() >> (52 - MANTISSA_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lookup_agrees_with_a_linear_search() {
        let limits: Vec<f64> = (0..LIMITS.bucket_count())
            .map(|i| LIMITS.limit(i))
            .collect();
        assert!(limits.is_sorted());
        assert_eq!(limits[0], f64::MIN);
        assert_eq!(limits[limits.len() - 1], f64::MAX);
        let plain = |value: f64| limits.partition_point(|&limit| limit <= value);
        let mut values = vec![0.0, -0.0, f64::MIN_POSITIVE, 1e-300, 5e-324, 1e200, 1e20];
        for &limit in &limits {
            values.extend([limit, limit.next_up(), limit.next_down()]);
        }
        for exponent in -50..80 {
            for part in 0..64 {
                values.push((1.0 + f64::from(part) / 64.0) * 2.0_f64.powi(exponent));
            }
        }
        for value in values.into_iter().filter(|value| value.is_finite()) {
            for value in [value, -value] {
                let expected = plain(value).min(limits.len() - 1);
                assert_eq!(LIMITS.bucket(value), expected, "{value:e}");
            }
        }
    }

    #[test]
    fn values_that_are_not_finite_are_refused_by_name() {
        let cause = |value| histogram("h", [1.0, value]).unwrap_err().cause;
        assert_eq!(
            cause(f64::NAN),
            "a value of the histogram `h` is not a number"
        );
        assert_eq!(
            cause(f64::INFINITY),
            "a value of the histogram `h` is infinite"
        );
    }
}
