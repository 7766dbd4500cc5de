//! Summary messages (`tf.summary`, `tf.compat.v1.summary`).
//!
//! In: scalars, images, audio, strings, hyperparameters. Out: messages. There are two styles. [`scalar()`], [`histogram()`],
//! [`image()`] and [`audio()`] make what `tf.compat.v1.summary` makes: each kind has a field of its own. The functions that
//! end in `_tensor`, [`text`] and [`hparams`] make what `tf.summary` of TensorFlow 2 makes: tensors, with metadata that
//! name the TensorBoard plugin. TensorBoard shows both.
//!
//! ```
//! use trainspec_formats::events::summary;
//!
//! let both = summary::merge([
//!     summary::scalar("train/loss", 0.25),
//!     summary::histogram("weights", [0.5, -1.5])?,
//! ])?;
//! assert_eq!(both.value[1].tag, "weights");
//! # Ok::<(), trainspec_formats::FormatError>(())
//! ```

mod audio;
mod buckets;
mod histogram;
pub mod hparams;
mod image;

pub use audio::{AudioClips, audio, audio_tensor};
pub use buckets::{DEFAULT_BUCKET_COUNT, histogram_tensor};
pub use histogram::{Histogram, histogram};
pub use image::{BAD_COLOR, ImageOptions, Images, Pixels, decode_png, image, image_tensor};

use std::collections::HashSet;

use crate::error::{FileKind, FormatError, Result};
use crate::proto::summary::Value;
use crate::proto::summary::value::Value as Kind;
use crate::proto::summary_metadata::PluginData;
use crate::proto::{Summary, SummaryMetadata, TensorProto};
use crate::tensor::{BytesColumn, Element, Tensor, count};

/// The default number of images or audio clips of a batch that are kept.
pub const MAX_OUTPUTS: usize = 3;

/// The display metadata of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisplayMetadata<'a> {
    /// The name shown in place of the tag.
    pub display_name: &'a str,
    /// The description, in Markdown.
    pub description: &'a str,
}

/// A scalar (`tf.compat.v1.summary.scalar`). The tag is [cleaned](clean_tag).
pub fn scalar(tag: &str, value: f32) -> Summary {
    one(&clean_tag(tag), Kind::SimpleValue(value), None)
}

/// A scalar as a tensor (`tf.summary.scalar`).
pub fn scalar_tensor(tag: &str, value: f32, about: DisplayMetadata<'_>) -> Summary {
    of_plugin(tag, numbers(&[], &[value]), "scalars", Vec::new(), about)
}

/// Strings (`tf.summary.text`), which TensorBoard shows as Markdown: one for the shape `[]`, or a list or table of them.
pub fn text(
    tag: &str,
    shape: &[usize],
    strings: &[impl AsRef<str>],
    about: DisplayMetadata<'_>,
) -> Result<Summary> {
    if count(shape) != Some(strings.len()) {
        let cause = format!("{} strings do not have shape {shape:?}", strings.len());
        return Err(refused(cause));
    }
    let strings: BytesColumn = strings.iter().map(|s| s.as_ref().as_bytes()).collect();
    let value = Tensor::strings(shape, strings)?;
    Ok(of_plugin(
        tag,
        value.into_message()?,
        "text",
        Vec::new(),
        about,
    ))
}

/// Any tensor, with any metadata (`tf.summary.write`).
pub fn raw_tensor(tag: &str, value: TensorProto, metadata: Option<SummaryMetadata>) -> Summary {
    one(tag, Kind::Tensor(value), metadata)
}

/// The values of several summaries in one (`tf.compat.v1.summary.merge`). A tag that is there twice is an error.
pub fn merge(summaries: impl IntoIterator<Item = Summary>) -> Result<Summary> {
    let mut value: Vec<Value> = Vec::new();
    value.extend(summaries.into_iter().flat_map(|summary| summary.value));
    let mut tags = HashSet::new();
    match value.iter().find(|value| !tags.insert(&value.tag)) {
        Some(twice) => Err(refused(format!("the tag `{}` is there twice", twice.tag))),
        None => Ok(Summary { value }),
    }
}

/// A name as a tag: characters that TensorFlow's names cannot have become `_`, and leading slashes are dropped.
///
/// ```
/// use trainspec_formats::events::summary::clean_tag;
///
/// assert_eq!(clean_tag("/my loss (%)"), "my_loss____");
/// ```
pub fn clean_tag(name: &str) -> String {
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let clean: String = name
        .chars()
        .map(|c| if legal(c) { c } else { '_' })
        .collect();
    clean.trim_start_matches('/').to_owned()
}

/// The tag of a name in a family, whose tags TensorBoard groups.
pub fn family_tag(family: &str, name: &str) -> String {
    let (family, name) = (clean_tag(family), clean_tag(name));
    // TensorFlow puts the family before the scope, which has it already.
    format!("{family}/{family}/{name}")
}

/// A summary of one value.
fn one(tag: &str, kind: Kind, metadata: Option<SummaryMetadata>) -> Summary {
    let value = Value {
        tag: tag.to_owned(),
        metadata,
        value: Some(kind),
        ..Default::default()
    };
    Summary { value: vec![value] }
}

/// A summary of a tensor for a TensorBoard plugin.
fn of_plugin(
    tag: &str,
    value: TensorProto,
    plugin: &str,
    content: Vec<u8>,
    about: DisplayMetadata<'_>,
) -> Summary {
    let metadata = SummaryMetadata {
        plugin_data: Some(PluginData {
            plugin_name: plugin.to_owned(),
            content,
        }),
        display_name: about.display_name.to_owned(),
        summary_description: about.description.to_owned(),
        ..Default::default()
    };
    one(tag, Kind::Tensor(value), Some(metadata))
}

/// The tag of the `i`th of a batch.
fn batch_tag(tag: &str, kind: &str, max_outputs: usize, i: usize) -> String {
    match max_outputs {
        ..=1 => format!("{tag}/{kind}"),
        _ => format!("{tag}/{kind}/{i}"),
    }
}

/// A few numbers as a `TensorProto`; the shape must be theirs.
fn numbers<T: Element>(shape: &[usize], values: &[T]) -> TensorProto {
    let tensor = Tensor::from_values(shape, values).expect("as many as the shape has");
    tensor.into_message().expect("a small shape")
}

fn refused(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Events, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_is_there_twice_is_refused() {
        let error = merge([scalar("a", 1.0), scalar("b", 1.0), scalar("a", 2.0)]).unwrap_err();
        assert_eq!(error.code, crate::Code::InvalidArgument);
        assert_eq!(error.cause, "the tag `a` is there twice");
    }

    #[test]
    fn families_come_first() {
        assert_eq!(family_tag("fa m", "a b$/c"), "fa_m/fa_m/a_b_/c");
    }

    #[test]
    fn text_summaries_require_a_matching_shape() {
        assert!(text("t", &[2], &["one"], DisplayMetadata::default()).is_err());
        assert!(text("t", &[], &["one"], DisplayMetadata::default()).is_ok());
        assert!(text("t", &[usize::MAX, 2], &["one"], DisplayMetadata::default()).is_err());
    }
}
