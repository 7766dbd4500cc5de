//! Images of another size (`tf.image.resize`): pixels are squares, whose centers are at half coordinates.
//!
//! Nearest takes the pixel that the center lies in; bilinear interpolates between the four around it; area takes the mean of what a new
//! pixel covers. Computed in f64 in one order, and rounded to the nearest integer, so that the bits are the same everywhere.

use trainspec_compiler::typed::Resize;

use crate::data::image_files::decode::Image;

/// The pixels of an image with another size.
pub(super) fn resized(image: &Image, height: usize, width: usize, way: Resize) -> Vec<u8> {
    let rows = weights(image.height, height, way);
    let columns = weights(image.width, width, way);
    let channels = image.channels;
    let mut pixels = Vec::with_capacity(height * width * channels);
    let at = |y: usize, x: usize, c: usize| image.pixels[(y * image.width + x) * channels + c];
    for row in &rows {
        for column in &columns {
            for c in 0..channels {
                let mut sum = 0.0;
                for (y, vertical) in row {
                    let mut line = 0.0;
                    for (x, horizontal) in column {
                        line += horizontal * f64::from(at(*y, *x, c));
                    }
                    sum += vertical * line;
                }
                pixels.push((sum + 0.5).floor().clamp(0.0, 255.0) as u8);
            }
        }
    }
    pixels
}

/// For each new coordinate the old ones and their weights, whose sum is 1.
fn weights(from: usize, to: usize, way: Resize) -> Vec<Vec<(usize, f64)>> {
    let scale = from as f64 / to as f64;
    let last = from.saturating_sub(1);
    (0..to)
        .map(|i| match way {
            Resize::Nearest => {
                // The quotient of integers is exact where a product of floats is not.
                let nearest = (2 * i + 1) * from / (2 * to);
                vec![(nearest.min(last), 1.0)]
            }
            Resize::Bilinear => {
                let center = ((i as f64 + 0.5) * scale - 0.5).max(0.0);
                let low = (center.floor() as usize).min(last);
                let high = (low + 1).min(last);
                let part = (center - low as f64).clamp(0.0, 1.0);
                match low == high || part == 0.0 {
                    true => vec![(low, 1.0)],
                    false => vec![(low, 1.0 - part), (high, part)],
                }
            }
            Resize::Area => {
                let (start, end) = (i * from, (i + 1) * from);
                let covered = start / to..end.div_ceil(to);
                let weight = |old: usize| {
                    let overlap = end.min((old + 1) * to) - start.max(old * to);
                    (old, overlap as f64 / from as f64)
                };
                covered.map(weight).collect()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(rows: &[&[u8]]) -> Image {
        Image {
            height: rows.len(),
            width: rows[0].len(),
            channels: 1,
            pixels: rows.concat(),
        }
    }

    #[test]
    fn sizes_change_as_in_tensorflow() {
        let image = gray(&[&[0, 100], &[100, 200]]);
        // `tf.image.resize([[0, 100], [100, 200]], [4, 4])`, rounded.
        let bilinear = resized(&image, 4, 4, Resize::Bilinear);
        assert_eq!(bilinear[..4], [0, 25, 75, 100]);
        assert_eq!(bilinear[4..8], [25, 50, 100, 125]);
        assert_eq!(bilinear[12..], [100, 125, 175, 200]);
        assert_eq!(resized(&image, 1, 1, Resize::Area), [100]);
        assert_eq!(resized(&image, 1, 1, Resize::Bilinear), [100]);
        assert_eq!(resized(&image, 1, 4, Resize::Nearest), [100, 100, 200, 200]);
        let wide = gray(&[&[0, 30, 60]]);
        assert_eq!(resized(&wide, 1, 2, Resize::Area), [10, 50]);
        assert_eq!(resized(&wide, 1, 3, Resize::Area), [0, 30, 60]);
    }
}
