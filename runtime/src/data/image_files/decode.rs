//! PNG and JPEG files as pixels: 8 bits for each of one to four channels, row by row from the top (`tf.io.decode_image`).
//!
//! An image of another number of channels is converted as TensorFlow's decoders do: gray is repeated, an alpha channel is left out, or
//! opaque where the file has none, and of colors the luma is the gray (ITU-R BT.601). Of 16 bits the upper 8 count.

use std::io::Cursor;

use trainspec_compiler::typed::Resize;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::DataError;
use crate::data::image_files::resize::resized;

/// The most pixels of an image that is decoded.
const MAX_PIXELS: usize = 1 << 28;

/// The most bytes that a byte of a compressed file can stand for (DEFLATE).
const MAX_RATIO: usize = 1032;

/// A decoded image.
pub(super) struct Image {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub pixels: Vec<u8>,
}

/// The pixels of a file as an image of that height, width and number of channels.
pub(super) fn image(
    bytes: &[u8],
    [height, width, channels]: [usize; 3],
    resize: Option<Resize>,
) -> Result<Vec<u8>, DataError> {
    // Without resizing an image of another size is not decoded at all.
    let fits = |h: usize, w: usize| match resize {
        Some(_) if h.saturating_mul(w) > MAX_PIXELS => {
            let message = format!("is an image of {h} x {w} pixels, and {MAX_PIXELS} are the most");
            Err(DataError::new(message))
        }
        Some(_) => Ok(()),
        None if (h, w) == (height, width) => Ok(()),
        None => {
            let message =
                format!("is an image of {h} x {w} pixels, and the feature is {height} x {width}");
            let help = "declare its size, or say how it is brought to that of the feature: `resize: bilinear` in the source";
            Err(DataError::new(message).help(help))
        }
    };
    let decoded = match bytes {
        [0x89, b'P', b'N', b'G', ..] => png(bytes, fits)?,
        [0xff, 0xd8, 0xff, ..] => jpeg(bytes, fits)?,
        _ => {
            let error = DataError::new("is neither a PNG nor a JPEG file");
            return Err(error.help("other files are read as they are: `feature bytes: string;`"));
        }
    };
    let converted = with_channels(decoded, channels);
    Ok(match resize {
        Some(way) if (converted.height, converted.width) != (height, width) => {
            resized(&converted, height, width, way)
        }
        Some(_) | None => converted.pixels,
    })
}

fn png(
    bytes: &[u8],
    fits: impl Fn(usize, usize) -> Result<(), DataError>,
) -> Result<Image, DataError> {
    let failed = |e: png::DecodingError| DataError::new(format!("is a damaged PNG file: {e}"));
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(failed)?;
    let info = reader.info();
    let (height, width) = (info.height as usize, info.width as usize);
    fits(height, width)?;
    let raw = info.raw_row_length().saturating_mul(height);
    if raw > bytes.len().saturating_mul(MAX_RATIO) {
        let message = format!(
            "says that it has {height} x {width} pixels, which its {} bytes cannot hold",
            bytes.len()
        );
        return Err(DataError::new(message));
    }
    let size = reader.output_buffer_size();
    let size = size.ok_or_else(|| DataError::new("is too large"))?;
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels).map_err(failed)?;
    pixels.truncate(frame.buffer_size());
    Ok(Image {
        height,
        width,
        channels: frame.color_type.samples(),
        pixels,
    })
}

fn jpeg(
    bytes: &[u8],
    fits: impl Fn(usize, usize) -> Result<(), DataError>,
) -> Result<Image, DataError> {
    let failed = |e: zune_jpeg::errors::DecodeErrors| {
        DataError::new(format!("is a damaged JPEG file: {e:?}"))
    };
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        // The vector code of each machine may round in another way.
        .set_use_unsafe(false)
        .set_max_width(1 << 16)
        .set_max_height(1 << 16);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(failed)?;
    let (width, height) = decoder
        .dimensions()
        .ok_or_else(|| DataError::new("is a damaged JPEG file: it has no size"))?;
    fits(height, width)?;
    let is_gray = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (space, channels) = match is_gray {
        true => (ColorSpace::Luma, 1),
        false => (ColorSpace::RGB, 3),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let pixels = decoder.decode().map_err(failed)?;
    if pixels.len() != height * width * channels {
        return Err(DataError::new(
            "is a JPEG file with colors that are not read",
        ));
    }
    Ok(Image {
        height,
        width,
        channels,
        pixels,
    })
}

/// An image with another number of channels.
fn with_channels(image: Image, channels: usize) -> Image {
    if image.channels == channels {
        return image;
    }
    let mut pixels = Vec::with_capacity(image.height * image.width * channels);
    for own in image.pixels.chunks_exact(image.channels) {
        let (color, alpha) = match own {
            [gray] => ([*gray; 3], 255),
            [gray, alpha] => ([*gray; 3], *alpha),
            [r, g, b] => ([*r, *g, *b], 255),
            [r, g, b, alpha, ..] => ([*r, *g, *b], *alpha),
            [] => ([0; 3], 255),
        };
        let gray = || match own.len() {
            1 | 2 => color[0],
            _ => luma(color),
        };
        match channels {
            1 => pixels.push(gray()),
            2 => pixels.extend([gray(), alpha]),
            3 => pixels.extend(color),
            _ => pixels.extend([color[0], color[1], color[2], alpha]),
        }
    }
    Image {
        channels,
        pixels,
        ..image
    }
}

/// The luma of a color: 0.299 R + 0.587 G + 0.114 B, rounded.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b);
    ((sum + 500) / 1000) as u8
}
