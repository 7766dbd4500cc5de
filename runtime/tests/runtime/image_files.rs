//! Image files as records.

use trainspec_compiler::ir::tensor::Data;

use crate::support::{MemoryEnv, check_errors, ints, read};

/// A baseline JPEG file of blocks of 8 x 8 pixels in a row, each of one value for each component: one (gray) or three (Y, Cb, Cr).
fn jpeg(blocks: &[&[i32]]) -> Vec<u8> {
    let components = blocks[0].len();
    let mut bytes = vec![0xff, 0xd8];
    let mut segment = |marker: u8, contents: &[u8]| {
        bytes.extend([0xff, marker]);
        bytes.extend((contents.len() as u16 + 2).to_be_bytes());
        bytes.extend(contents);
    };
    let mut quantization = vec![0];
    quantization.extend([1; 64]);
    segment(0xdb, &quantization);
    let width = 8 * blocks.len() as u8;
    let mut frame = vec![8, 0, 8, 0, width, components as u8];
    (1..=components).for_each(|id| frame.extend([id as u8, 0x11, 0]));
    segment(0xc0, &frame);
    // Twelve codes of 4 bits for the lengths of differences, and one of 1 bit for the end of a block.
    let mut dc = vec![0x00, 0, 0, 0, 12];
    dc.extend([0; 12]);
    dc.extend(0..12);
    segment(0xc4, &dc);
    let mut ac = vec![0x10, 1];
    ac.extend([0; 16]);
    segment(0xc4, &ac);
    let mut scan = vec![components as u8];
    (1..=components).for_each(|id| scan.extend([id as u8, 0x00]));
    scan.extend([0, 63, 0]);
    segment(0xda, &scan);
    let mut bits = String::new();
    let mut last = vec![0; components];
    for block in blocks {
        for (value, last) in block.iter().zip(&mut last) {
            // The first coefficient is eight times the mean of the block.
            let coefficient = 8 * (value - 128);
            let difference: i32 = coefficient - *last;
            *last = coefficient;
            let length = 32 - difference.unsigned_abs().leading_zeros();
            bits += &format!("{length:04b}");
            if length > 0 {
                let shown = match difference < 0 {
                    true => difference + (1 << length) - 1,
                    false => difference,
                };
                bits += &format!("{shown:0width$b}", width = length as usize);
            }
            bits += "0";
        }
    }
    while !bits.len().is_multiple_of(8) {
        bits += "1";
    }
    for byte in bits.as_bytes().chunks(8) {
        let byte = u8::from_str_radix(str::from_utf8(byte).unwrap(), 2).unwrap();
        bytes.push(byte);
        if byte == 0xff {
            bytes.push(0);
        }
    }
    bytes.extend([0xff, 0xd9]);
    bytes
}

pub(crate) fn png(width: u32, height: u32, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

fn pets() -> MemoryEnv {
    let gray = png(2, 1, png::ColorType::Grayscale, &[10, 20]);
    let rgba = png(2, 1, png::ColorType::Rgba, &[1, 2, 3, 0, 4, 5, 6, 255]);
    MemoryEnv::new(&[("pets/cat/a.png", &gray), ("pets/dog/b.png", &rgba)])
}

#[test]
fn images_in_folders_are_records_with_their_class() {
    let settings = "source files(\"pets/*/*.png\");
        feature image: u8[1, 2, 3]; feature label: string as \"folder\"; feature path: string;
        map label = vocabulary(label, from: [\"cat\", \"dog\"], oov: 0);";
    let all = read(&pets(), settings, 9).unwrap();
    assert_eq!(ints(&all, "label"), [0, 1]);
    assert_eq!(
        ints(&all, "image"),
        [10, 10, 10, 20, 20, 20, 1, 2, 3, 4, 5, 6]
    );
    let path = Data::String(vec![b"pets/dog/b.png".to_vec()]);
    assert_eq!(*all[1].values["path"].data(), path);
    assert_eq!(all[1].location().unwrap().to_string(), "pets/dog/b.png");
    let shuffled = read(&pets(), &format!("{settings} shuffle; epochs 3;"), 9).unwrap();
    assert_eq!(shuffled.len(), 6);
}

#[test]
fn channels_are_converted() {
    let gray = |channels: &str| {
        let settings =
            format!("source files(\"pets/*/*.png\"); feature image: u8[1, 2, {channels}];");
        ints(&read(&pets(), &settings, 9).unwrap(), "image")
    };
    // 0.299 * 1 + 0.587 * 2 + 0.114 * 3 is 1.8.
    assert_eq!(gray("1"), [10, 20, 2, 5]);
    assert_eq!(gray("2"), [10, 255, 20, 255, 2, 0, 5, 255]);
    assert_eq!(gray("4")[8..], [1, 2, 3, 0, 4, 5, 6, 255]);
}

#[test]
fn jpeg_files_are_decoded() {
    let (color, gray) = (jpeg(&[&[100, 128, 200], &[60, 128, 128]]), jpeg(&[&[77]]));
    let env = MemoryEnv::new(&[("c.jpg", &color), ("g.jpg", &gray)]);
    let all = read(
        &env,
        "source files(\"c.jpg\"); feature image: u8[8, 16, 3];",
        9,
    )
    .unwrap();
    let pixels = ints(&all, "image");
    // R is Y + 1.402 (Cr - 128), and G is Y - 0.714 (Cr - 128).
    let near = |found: &[i64], expected: [i64; 3]| {
        found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 2)
    };
    assert!(near(&pixels[..3], [201, 49, 100]), "{:?}", &pixels[..3]);
    assert!(
        near(&pixels[15 * 3..16 * 3], [60, 60, 60]),
        "{:?}",
        &pixels[45..48]
    );
    let all = read(
        &env,
        "source files(\"g.jpg\"); feature image: u8[8, 8, 1];",
        9,
    )
    .unwrap();
    assert_eq!(ints(&all, "image"), [77; 64]);
}

#[test]
fn another_size_is_an_error_or_resized() {
    let env = MemoryEnv::new(&[("a.png", &png(2, 1, png::ColorType::Grayscale, &[10, 20]))]);
    let read = |settings: &str| read(&env, settings, 9);
    let wrong = read("source files(\"*.png\"); feature image: u8[2, 2, 1];").unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "a.png: is an image of 1 x 2 pixels, and the feature is 2 x 2"
    );
    let all = read("source files(\"*.png\", resize: nearest); feature image: u8[2, 2, 1];");
    assert_eq!(ints(&all.unwrap(), "image"), [10, 20, 10, 20]);
    let all = read("source files(\"*.png\", resize: area); feature image: u8[1, 1, 1];");
    assert_eq!(ints(&all.unwrap(), "image"), [15]);
}

#[test]
fn damaged_images_are_errors_that_name_the_file() {
    let good = png(2, 1, png::ColorType::Grayscale, &[10, 20]);
    let gray = jpeg(&[&[77]]);
    for (bytes, part) in [
        (&good[..good.len() - 20], "is a damaged PNG file"),
        (b"GIF89a", "is neither a PNG nor a JPEG file"),
        (b"", "is neither a PNG nor a JPEG file"),
        (&gray[..40], "is a damaged JPEG file"),
    ] {
        let env = MemoryEnv::new(&[("a.png", bytes)]);
        for size in ["1, 2", "8, 8"] {
            let settings =
                format!("source files(\"a.png\", resize: area); feature image: u8[{size}, 3];");
            let error = read(&env, &settings, 9).unwrap_err().to_string();
            assert!(
                error.starts_with("a.png: ") && error.contains(part),
                "{error}"
            );
        }
    }
    for (feature, message) in [
        (
            "image: f32[1, 2, 3]",
            "`image` of a file cannot be read as `f32[1, 2, 3]`",
        ),
        (
            "image: u8[2, 3]",
            "`image` of a file cannot be read as `u8[2, 3]`",
        ),
        (
            "image: u8[2, 3, 5]",
            "`image` of a file cannot be read as `u8[2, 3, 5]`",
        ),
        ("folder: i64", "`folder` of a file cannot be read as `i64`"),
        ("class: string", "a file has no `class`"),
    ] {
        let errors = check_errors(&format!(
            "spec t; data d {{ source files(\"a\"); feature {feature}; }}"
        ));
        assert_eq!(errors, [message]);
    }
}
