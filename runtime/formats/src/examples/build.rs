//! Construction of `Example` and `SequenceExample` messages from Rust values.

use super::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List,
    SequenceExample,
};
use crate::proto::feature::Kind;

/// An example of named features.
///
/// A feature is made of a number or a byte string, or of an array, a slice or a vector of them:
///
/// ```
/// use trainspec_formats::examples::example;
///
/// let example = example([
///     ("label", 3_i64.into()),
///     ("image", [0.5_f32, 1.0].into()),
///     ("name", "seven".into()),
///     ("ids", vec![1_i64, 2, 3].into()),
/// ]);
/// assert_eq!(example.features.unwrap().feature.len(), 4);
/// ```
pub fn example<K: Into<String>>(features: impl IntoIterator<Item = (K, Feature)>) -> Example {
    Example {
        features: Some(features.into_iter().collect()),
    }
}

/// A sequence example: a context, whose features hold for all steps, and feature lists with a feature for every step.
///
/// ```
/// use trainspec_formats::examples::sequence_example;
///
/// let example = sequence_example(
///     [("id", 78_i64.into())],
///     [("tokens", vec![[1_i64, 2].as_slice().into(), [3_i64].as_slice().into()])],
/// );
/// assert_eq!(example.feature_lists.unwrap().feature_list["tokens"].feature.len(), 2);
/// ```
pub fn sequence_example<K: Into<String>, L: Into<String>>(
    context: impl IntoIterator<Item = (K, Feature)>,
    lists: impl IntoIterator<Item = (L, Vec<Feature>)>,
) -> SequenceExample {
    let lists = lists.into_iter();
    SequenceExample {
        context: Some(context.into_iter().collect()),
        feature_lists: Some(FeatureLists {
            feature_list: lists
                .map(|(name, feature)| (name.into(), FeatureList { feature }))
                .collect(),
        }),
    }
}

impl<K: Into<String>> FromIterator<(K, Feature)> for Features {
    fn from_iter<I: IntoIterator<Item = (K, Feature)>>(features: I) -> Features {
        let features = features.into_iter();
        Features {
            feature: features
                .map(|(name, feature)| (name.into(), feature))
                .collect(),
        }
    }
}

/// A Rust type of feature values.
trait FeatureValue: Sized {
    fn list(values: Vec<Self>) -> Kind;
}

impl FeatureValue for f32 {
    fn list(value: Vec<f32>) -> Kind {
        Kind::FloatList(FloatList { value })
    }
}

impl FeatureValue for i64 {
    fn list(value: Vec<i64>) -> Kind {
        Kind::Int64List(Int64List { value })
    }
}

impl FeatureValue for Vec<u8> {
    fn list(value: Vec<Vec<u8>>) -> Kind {
        Kind::BytesList(BytesList { value })
    }
}

impl FeatureValue for String {
    fn list(values: Vec<String>) -> Kind {
        Vec::<u8>::list(values.into_iter().map(String::into_bytes).collect())
    }
}

impl FeatureValue for &str {
    fn list(values: Vec<&str>) -> Kind {
        Vec::<u8>::list(values.into_iter().map(|v| v.as_bytes().to_vec()).collect())
    }
}

impl FeatureValue for &[u8] {
    fn list(values: Vec<&[u8]>) -> Kind {
        Vec::<u8>::list(values.into_iter().map(<[u8]>::to_vec).collect())
    }
}

fn feature<T: FeatureValue>(values: Vec<T>) -> Feature {
    Feature {
        kind: Some(T::list(values)),
    }
}

macro_rules! features {
    ($($value:ty),* $(,)?) => {
        $(
            impl From<$value> for Feature {
                fn from(value: $value) -> Feature {
                    feature(vec![value])
                }
            }

            impl From<Vec<$value>> for Feature {
                fn from(values: Vec<$value>) -> Feature {
                    feature(values)
                }
            }

            impl From<&[$value]> for Feature {
                fn from(values: &[$value]) -> Feature {
                    feature(values.to_vec())
                }
            }

            impl<const N: usize> From<[$value; N]> for Feature {
                fn from(values: [$value; N]) -> Feature {
                    feature(values.into())
                }
            }
        )*
    };
}

features!(f32, i64, Vec<u8>, String, &str, &[u8]);
