//! Histogram tensors with buckets of equal width, as `tf.summary.histogram` of TensorFlow 2 makes them.

use crate::error::Result;
use crate::events::summary::histogram::not_finite;
use crate::events::summary::{DisplayMetadata, of_plugin, refused};
use crate::proto::Summary;
use crate::tensor::Tensor;

/// The default number of buckets.
pub const DEFAULT_BUCKET_COUNT: usize = 30;

/// A histogram as a tensor of shape `[buckets, 3]`: left edge, right edge and count of each bucket.
///
/// All buckets are equally wide, `(max - min) / buckets`. Without values all is zero. If all values are the same, so are
/// all edges, and the last bucket has the count. A value that is not finite is an error.
pub fn histogram_tensor(
    tag: &str,
    values: &[f64],
    buckets: usize,
    about: DisplayMetadata<'_>,
) -> Result<Summary> {
    if let Some(&value) = values.iter().find(|value| !value.is_finite()) {
        return Err(not_finite(tag, value));
    }
    let rows = match values.is_empty() {
        true => vec![[0.0; 3]; buckets],
        false => rows(tag, values, buckets)?,
    };
    let value = Tensor::from_values(&[buckets, 3], rows.as_flattened())?;
    Ok(of_plugin(
        tag,
        value.into_message()?,
        "histograms",
        Vec::new(),
        about,
    ))
}

fn rows(tag: &str, values: &[f64], buckets: usize) -> Result<Vec<[f64; 3]>> {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = max - min;
    if !range.is_finite() {
        let cause = format!("the values of the histogram `{tag}` are too far apart");
        return Err(refused(cause));
    }
    if buckets == 0 {
        return Ok(Vec::new());
    }
    let last = buckets - 1;
    if range == 0.0 {
        let mut rows = vec![[max, max, 0.0]; buckets];
        rows[last][2] = values.len() as f64;
        return Ok(rows);
    }
    let width = range / buckets as f64;
    let edge = |i: usize| match i {
        0 => min,
        _ if i == buckets => max,
        _ => min + width * i as f64,
    };
    let mut rows: Vec<[f64; 3]> = (0..buckets).map(|i| [edge(i), edge(i + 1), 0.0]).collect();
    for value in values {
        // The cast saturates.
        let bucket = ((value - min) / width).floor() as usize;
        rows[bucket.min(last)][2] += 1.0;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::summary::value::Value as Kind;

    fn of(values: &[f64], buckets: usize) -> Vec<f64> {
        let summary = histogram_tensor("h", values, buckets, DisplayMetadata::default()).unwrap();
        match summary.value[0].value.clone() {
            Some(Kind::Tensor(tensor)) => Tensor::from_message(tensor).unwrap().to_f64s().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_largest_value_is_in_the_last_bucket() {
        let expected = [0.0, 2.0, 1.0, 2.0, 4.0, 2.0];
        assert_eq!(of(&[0.0, 2.0, 4.0], 2), expected);
    }

    #[test]
    fn no_bucket_is_an_empty_tensor() {
        assert!(of(&[1.0, 2.0], 0).is_empty());
        assert_eq!(of(&[], 1), [0.0; 3]);
    }

    #[test]
    fn equal_edges_are_no_failure() {
        of(&[0.0, 5e-324], 30);
        assert!(
            histogram_tensor("h", &[f64::MIN, f64::MAX], 3, DisplayMetadata::default()).is_err()
        );
        assert!(histogram_tensor("h", &[f64::NAN], 3, DisplayMetadata::default()).is_err());
    }
}
