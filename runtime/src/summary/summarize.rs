//! A tensor as a summary: numbers, distributions, pictures, sound, strings.

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::typed::SummaryKind;
use trainspec_formats::FormatError;
use trainspec_formats::events::summary::{
    self, AudioClips, DisplayMetadata, ImageOptions, Images, Pixels,
};
use trainspec_formats::proto::Summary;

use crate::{Code, Error};

/// The summary of one tensor: a scalar is the mean of its elements.
pub(crate) fn summarize(tag: &str, value: &Tensor, kind: SummaryKind) -> Result<Summary, Error> {
    make(tag, value, kind).map_err(|e| {
        let message = format!("`{tag}` ({}) cannot be summarized: {}", value.ty(), e.cause);
        Error::new(Code::InvalidArgument, message)
    })
}

fn make(tag: &str, value: &Tensor, kind: SummaryKind) -> Result<Summary, FormatError> {
    match kind {
        SummaryKind::Scalar => {
            let numbers = value.to_f64s();
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            Ok(summary::scalar(tag, mean as f32))
        }
        SummaryKind::Histogram => summary::histogram(tag, value.to_f64s()),
        SummaryKind::Image { max_outputs } => {
            let floats;
            let pixels = match value.data() {
                Data::U8(bytes) => Pixels::U8(bytes),
                Data::F32(values) => Pixels::F32(values),
                _ => {
                    floats = value.to_f64s();
                    Pixels::F64(&floats)
                }
            };
            let images = Images {
                shape: value.shape(),
                pixels,
            };
            let options = ImageOptions {
                max_outputs: max_outputs as usize,
                ..ImageOptions::default()
            };
            summary::image(tag, images, options)
        }
        SummaryKind::Audio {
            sample_rate,
            max_outputs,
        } => {
            let samples: Vec<f32> = value.to_f64s().iter().map(|x| *x as f32).collect();
            let clips = AudioClips {
                shape: value.shape(),
                samples: &samples,
                sample_rate: sample_rate as f32,
            };
            summary::audio(tag, clips, max_outputs as usize)
        }
        SummaryKind::Text => {
            let strings: Vec<String> = match value.data() {
                Data::String(strings) => (strings.iter())
                    .map(|s| String::from_utf8_lossy(s).into_owned())
                    .collect(),
                _ => vec![value.to_string()],
            };
            let shape = match value.data() {
                Data::String(_) => value.shape(),
                _ => &[],
            };
            summary::text(tag, shape, &strings, DisplayMetadata::default())
        }
    }
}
