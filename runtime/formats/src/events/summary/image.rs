//! Image summaries: images as PNG files.

use half::f16;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::events::summary::{
    DisplayMetadata, MAX_OUTPUTS, batch_tag, clean_tag, count, of_plugin, refused,
};
use crate::memory::zeros;
use crate::proto::Summary;
use crate::proto::summary::Image;
use crate::proto::summary::Value;
use crate::proto::summary::value::Value as Kind;
use crate::tensor::Tensor;

/// The default color of pixels that are not finite: red.
pub const BAD_COLOR: [u8; 4] = [255, 0, 0, 255];

/// The pixels of a batch, channels last.
#[derive(Debug, Clone, Copy)]
pub enum Pixels<'a> {
    /// Bytes, unscaled.
    U8(&'a [u8]),
    /// `f16` floats.
    F16(&'a [f16]),
    /// `f32` floats.
    F32(&'a [f32]),
    /// `f64` floats.
    F64(&'a [f64]),
}

/// A batch of images: `[images, height, width, channels]`.
#[derive(Debug, Clone, Copy)]
pub struct Images<'a> {
    /// Its shape.
    pub shape: &'a [usize],
    /// Its pixels.
    pub pixels: Pixels<'a>,
}

/// The options of [`image`].
#[derive(Debug, Clone, Copy)]
pub struct ImageOptions<'a> {
    /// The maximum number of images of the batch that are kept.
    pub max_outputs: usize,
    /// The channels of a pixel that is not finite; as many as the images have, or more.
    pub bad_color: &'a [u8],
}

impl Default for ImageOptions<'_> {
    fn default() -> Self {
        ImageOptions {
            max_outputs: MAX_OUTPUTS,
            bad_color: &BAD_COLOR,
        }
    }
}

/// Images with 1, 3 or 4 channels (`tf.compat.v1.summary.image`), each a value of its own: `tag/image/0` and so on, or `tag/image` if
/// only one is kept.
///
/// Floats are scaled, each image on its own: a pixel is `trunc(v * scale + offset)`. If a value is negative, the offset is
/// 128 and the scale 127 / max|v|; otherwise they are 0 and 255 / max v. A scale for values below 1e-6 is 0.
pub fn image(tag: &str, images: Images<'_>, options: ImageOptions<'_>) -> Result<Summary> {
    let CheckedBatch { kept, size } = batch(images, options.max_outputs, &[1, 3, 4])?;
    let [height, width, channels] = size;
    let Some(bad) = options.bad_color.get(..channels) else {
        let cause = format!(
            "the color of bad pixels has {} channels and images have {channels}",
            options.bad_color.len()
        );
        return Err(refused(cause));
    };
    let tag = clean_tag(tag);
    let mut summary = Summary::default();
    for i in 0..kept {
        let range = i * height * width * channels..(i + 1) * height * width * channels;
        let bytes = match images.pixels {
            Pixels::U8(all) => all[range].to_vec(),
            Pixels::F16(all) => scaled_f16(&all[range], channels, bad),
            Pixels::F32(all) => scaled_floats(&all[range], channels, bad),
            Pixels::F64(all) => scaled_doubles(&all[range], channels, bad),
        };
        let image = Image {
            height: extent(height)?,
            width: extent(width)?,
            colorspace: extent(channels)?,
            encoded_image_string: png(&bytes, size)?,
        };
        summary.value.push(Value {
            tag: batch_tag(&tag, "image", options.max_outputs, i),
            value: Some(Kind::Image(image)),
            ..Default::default()
        });
    }
    Ok(summary)
}

/// Images with 1 to 4 channels as one tensor (`tf.summary.image`): the width, the height and the PNG files.
///
/// Floats are in the range 0 to 1: a pixel is `trunc(v * 255.5)`, saturated.
pub fn image_tensor(
    tag: &str,
    images: Images<'_>,
    max_outputs: usize,
    about: DisplayMetadata<'_>,
) -> Result<Summary> {
    let CheckedBatch { kept, size } = batch(images, max_outputs, &[1, 2, 3, 4])?;
    let [height, width, channels] = size;
    let mut strings = vec![width.to_string().into(), height.to_string().into()];
    for i in 0..kept {
        let range = i * height * width * channels..(i + 1) * height * width * channels;
        // The cast saturates, and turns NaN into zero.
        let bytes: Vec<u8> = match images.pixels {
            Pixels::U8(all) => all[range].to_vec(),
            Pixels::F16(all) => all[range]
                .iter()
                .map(|&v| (v * f16::from_f32(255.5)).to_f32() as u8)
                .collect(),
            Pixels::F32(all) => all[range].iter().map(|v| (v * 255.5) as u8).collect(),
            Pixels::F64(all) => all[range].iter().map(|v| (v * 255.5) as u8).collect(),
        };
        strings.push(png(&bytes, size)?);
    }
    let value = Tensor::strings(&[strings.len()], strings)?;
    Ok(of_plugin(
        tag,
        value.into_message()?,
        "images",
        Vec::new(),
        about,
    ))
}

/// The extents of a PNG file (height, width, channels) and its pixels, at most `limit` bytes.
pub fn decode_png(bytes: &[u8], limit: usize) -> Result<([usize; 3], Vec<u8>)> {
    let damaged = |e: png::DecodingError| {
        let code = match &e {
            png::DecodingError::LimitsExceeded => Code::ResourceExhausted,
            _ => Code::DataLoss,
        };
        FormatError::new(
            code,
            FileKind::Events,
            format!("an image cannot be read: {e}"),
        )
    };
    let limits = png::Limits { bytes: limit };
    let mut decoder = png::Decoder::new_with_limits(std::io::Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = reader.output_buffer_size().filter(|&size| size <= limit);
    let Some(size) = size else {
        return Err(damaged(png::DecodingError::LimitsExceeded));
    };
    let mut pixels = zeros(FileKind::Events, size)?;
    let info = reader.next_frame(&mut pixels).map_err(damaged)?;
    pixels.truncate(info.buffer_size());
    let extents = [
        info.height as usize,
        info.width as usize,
        info.color_type.samples(),
    ];
    Ok((extents, pixels))
}

/// The number and size of the images that are kept of a valid batch.
struct CheckedBatch {
    kept: usize,
    size: [usize; 3],
}

fn batch(images: Images<'_>, max_outputs: usize, channels: &[usize]) -> Result<CheckedBatch> {
    let shape = images.shape;
    let size = match shape {
        &[_, height, width, depth] if channels.contains(&depth) => [height, width, depth],
        _ => {
            let cause = format!(
                "images have 4 dimensions, of which the last is one of {channels:?}, not {shape:?}"
            );
            return Err(refused(cause));
        }
    };
    let held = match images.pixels {
        Pixels::U8(all) => all.len(),
        Pixels::F16(all) => all.len(),
        Pixels::F32(all) => all.len(),
        Pixels::F64(all) => all.len(),
    };
    if count(shape) != Some(held) {
        return Err(refused(format!(
            "{held} values do not have shape {shape:?}"
        )));
    }
    let kept = shape[0].min(max_outputs);
    if kept > 0 && (size[0] == 0 || size[1] == 0) {
        return Err(refused(format!("images of shape {shape:?} are empty")));
    }
    Ok(CheckedBatch { kept, size })
}

fn extent(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| refused(format!("an image cannot have an extent of {n}")))
}

/// The scale and the offset that map values to bytes; pixels that are not finite are ignored.
fn scale(finite: impl Iterator<Item = f32>) -> (f32, f32) {
    let (min, max) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), v| {
        (min.min(v), max.max(v))
    });
    let divided = |by: f32, max: f32| if max < 1e-6 { 0.0 } else { by / max };
    match min < 0.0 {
        true => (divided(127.0, min.abs().max(max.abs())), 128.0),
        false => (divided(255.0, max), 0.0),
    }
}

/// Scales pixels in the arithmetic of their type: each operation rounds.
macro_rules! scaled {
    ($name:ident, $type:ty, $from:expr, $finite:expr, $to_f32:expr, $to_u8:expr) => {
        fn $name(values: &[$type], channels: usize, bad: &[u8]) -> Vec<u8> {
            let is_finite = |pixel: &&[$type]| pixel.iter().all($finite);
            let finite = values.chunks_exact(channels).filter(is_finite);
            let (scale, offset) = scale(finite.flatten().map($to_f32));
            let (scale, offset) = ($from(scale), $from(offset));
            let mut bytes = Vec::with_capacity(values.len());
            for pixel in values.chunks_exact(channels) {
                match is_finite(&pixel) {
                    true => bytes.extend(pixel.iter().map(|&v| $to_u8(v * scale + offset))),
                    false => bytes.extend(bad),
                }
            }
            bytes
        }
    };
}

scaled!(
    scaled_floats,
    f32,
    f32::from,
    |v| v.is_finite(),
    |&v| v,
    |v| v as u8
);
scaled!(
    scaled_doubles,
    f64,
    f64::from,
    |v| v.is_finite(),
    |&v| v as f32,
    |v| v as u8
);
scaled!(
    scaled_f16,
    f16,
    f16::from_f32,
    |v| v.is_finite(),
    |v| v.to_f32(),
    |v: f16| v.to_f32() as u8
);

fn png(bytes: &[u8], [height, width, channels]: [usize; 3]) -> Result<Vec<u8>> {
    let extents = (extent(height)? as u32, extent(width)? as u32);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, extents.1, extents.0);
    encoder.set_color(match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(bytes)?;
        writer.finish()
    });
    written.map_err(|e| refused(format!("an image cannot be written: {e}")))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatched_shape_is_refused() {
        let of = |shape: &[usize], values: &[u8]| {
            let pixels = Pixels::U8(values);
            image("a", Images { shape, pixels }, ImageOptions::default()).map(|s| s.value.len())
        };
        assert_eq!(of(&[2, 1, 1, 3], &[0; 6]).unwrap(), 2);
        assert_eq!(of(&[0, 2, 2, 3], &[]).unwrap(), 0);
        assert!(of(&[2, 1, 1, 3], &[0; 5]).is_err());
        assert!(of(&[1, 0, 3, 1], &[]).is_err());
        assert!(of(&[usize::MAX, usize::MAX, 1, 1], &[0; 1]).is_err());
    }

    #[test]
    fn images_come_back_and_their_size_is_bounded() {
        let values: Vec<u8> = (0..24).collect();
        let file = png(&values, [2, 3, 4]).unwrap();
        assert_eq!(decode_png(&file, 1 << 20).unwrap(), ([2, 3, 4], values));
        let large = png(&vec![0; 1 << 20], [1 << 10, 1 << 10, 1]).unwrap();
        assert_eq!(
            decode_png(&large, 1 << 16).unwrap_err().code,
            Code::ResourceExhausted
        );
        assert!(decode_png(&file[..20], 1 << 20).is_err());
    }

    #[test]
    fn a_bad_color_needs_all_channels() {
        let images = Images {
            shape: &[1, 1, 1, 3],
            pixels: Pixels::F32(&[f32::NAN, 0.0, 0.0]),
        };
        let options = ImageOptions {
            bad_color: &[1, 2],
            ..Default::default()
        };
        assert!(image("a", images, options).is_err());
    }

    #[test]
    fn floats_from_zero_to_one_are_not_rescaled() {
        let values = [0.0_f32, 0.5, 1.0, 2.0, -1.0, f32::NAN];
        let images = Images {
            shape: &[1, 1, 6, 1],
            pixels: Pixels::F32(&values),
        };
        let summary = image_tensor("a", images, 1, DisplayMetadata::default()).unwrap();
        let Some(Kind::Tensor(tensor)) = &summary.value[0].value else {
            panic!("{summary:?}");
        };
        let (_, pixels) = decode_png(&tensor.string_val[2], 100).unwrap();
        assert_eq!(pixels, [0, 127, 255, 255, 0, 0]);
    }
}
