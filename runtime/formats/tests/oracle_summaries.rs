//! Histogram, image and audio summaries equal TensorFlow's.

use crate::support::messages::{extents, fields, number, numbers};
use crate::support::{bytes, json};
use half::f16;
use serde_json::Value as Json;
use trainspec_formats::events::summary::{self, AudioClips, ImageOptions, Images, Pixels};
use trainspec_formats::proto::Summary;
use trainspec_formats::proto::summary::value::Value as Kind;
use trainspec_formats::{Code, Result};

fn cases(file: &str) -> Vec<Json> {
    let all = json(format!("events/{file}.json"));
    fields(&all, &["format", "cases"]);
    let cases = all["cases"].as_array().expect("cases").clone();
    println!("{file}: {} cases", cases.len());
    cases
}

/// That a refusal is of the class that is stated.
fn assert_refused(made: Result<Summary>, stated: &Json) {
    fields(stated, &["type", "message"]);
    assert_eq!(stated["type"], "InvalidArgumentError");
    assert_eq!(made.unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn oracle_histograms_are_exactly_those_of_tensorflow() {
    let known = [
        "name",
        "kind",
        "dtype",
        "input",
        "rtol",
        "atol",
        "expected",
        "expected_error",
    ];
    for case in cases("histograms") {
        let name = case["name"].as_str().unwrap();
        fields(&case, &known);
        assert_eq!(case["kind"], "histogram");
        let input = fields(&case["input"], &["dtype", "shape", "data"]);
        assert_eq!(input["dtype"], case["dtype"]);
        let rounded = |v: f64| match case["dtype"].as_str().unwrap() {
            "float32" => f64::from(v as f32),
            "float64" | "int32" | "int64" | "uint8" => v,
            other => panic!("{other}"),
        };
        let values: Vec<f64> = numbers(&input["data"]).into_iter().map(rounded).collect();
        let made = summary::histogram("h", values);
        if let Some(stated) = case.get("expected_error") {
            assert_refused(made, stated);
            continue;
        }
        let made = made.unwrap();
        let Some(Kind::Histo(histogram)) = &made.value[0].value else {
            panic!("{name}: {made:?}");
        };
        let fields_ = [
            "min",
            "max",
            "num",
            "sum",
            "sum_squares",
            "bucket_limit",
            "bucket",
        ];
        let stated = fields(&case["expected"], &fields_);
        assert_eq!(
            histogram.bucket_limit,
            numbers(&stated["bucket_limit"]),
            "{name}"
        );
        assert_eq!(histogram.bucket, numbers(&stated["bucket"]), "{name}");
        for (field, value) in [
            ("min", histogram.min),
            ("max", histogram.max),
            ("num", histogram.num),
            ("sum", histogram.sum),
            ("sum_squares", histogram.sum_squares),
        ] {
            assert_eq!(value, number(&stated[field]), "{name}: {field}");
        }
    }
}

#[test]
fn oracle_images_have_the_pixels_of_tensorflow() {
    let known = [
        "name",
        "kind",
        "dtype",
        "tensor",
        "args",
        "expected",
        "expected_error",
    ];
    for case in cases("images") {
        let name = case["name"].as_str().unwrap();
        fields(&case, &known);
        assert_eq!(case["kind"], "image");
        let tensor = fields(&case["tensor"], &["dtype", "shape", "data"]);
        let args = fields(&case["args"], &["max_outputs", "bad_color"]);
        let bad_color: Option<Vec<u8>> = args
            .get("bad_color")
            .map(|color| numbers(color).into_iter().map(|v| v as u8).collect());
        let options = ImageOptions {
            max_outputs: args["max_outputs"].as_u64().unwrap() as usize,
            bad_color: bad_color.as_deref().unwrap_or(&summary::BAD_COLOR),
        };
        let shape = extents(&case["tensor"]);
        let values = numbers(&tensor["data"]);
        let bytes: Vec<u8> = values.iter().map(|&v| v as u8).collect();
        let f16s: Vec<f16> = values.iter().map(|&v| f16::from_f64(v)).collect();
        let floats: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        let pixels = match tensor["dtype"].as_str().unwrap() {
            "uint8" => Pixels::U8(&bytes),
            "float16" => Pixels::F16(&f16s),
            "float32" => Pixels::F32(&floats),
            "float64" => Pixels::F64(&values),
            other => panic!("{other}"),
        };
        let shape = &shape[..];
        let made = summary::image("pic", Images { shape, pixels }, options);
        if let Some(stated) = case.get("expected_error") {
            assert_refused(made, stated);
            continue;
        }
        let made = made.unwrap();
        let stated = fields(&case["expected"], &["images"])["images"]
            .as_array()
            .unwrap();
        assert_eq!(made.value.len(), stated.len(), "{name}");
        for (value, stated) in made.value.iter().zip(stated) {
            fields(stated, &["tag", "height", "width", "colorspace", "pixels"]);
            let Some(Kind::Image(image)) = &value.value else {
                panic!("{name}: {value:?}");
            };
            assert_eq!(value.tag, stated["tag"], "{name}");
            assert_eq!(stated["height"], image.height, "{name}");
            assert_eq!(stated["width"], image.width, "{name}");
            assert_eq!(stated["colorspace"], image.colorspace, "{name}");
            let (size, pixels) = summary::decode_png(&image.encoded_image_string, 1 << 20).unwrap();
            assert_eq!(size.to_vec(), extents(&stated["pixels"]), "{name}");
            let pixels: Vec<f64> = pixels.into_iter().map(f64::from).collect();
            assert_eq!(pixels, numbers(&stated["pixels"]["data"]), "{name}");
        }
    }
}

#[test]
fn oracle_audio_has_the_bytes_of_tensorflow() {
    for case in cases("audio") {
        let name = case["name"].as_str().unwrap();
        fields(
            &case,
            &["name", "kind", "dtype", "tensor", "sample_rate", "expected"],
        );
        assert_eq!(
            (&case["kind"], &case["dtype"]),
            (&"audio".into(), &"float32".into())
        );
        let samples: Vec<f32> = numbers(&case["tensor"]["data"])
            .into_iter()
            .map(|v| v as f32)
            .collect();
        let sounds = AudioClips {
            shape: &extents(&case["tensor"]),
            samples: &samples,
            sample_rate: number(&case["sample_rate"]) as f32,
        };
        let made = summary::audio("sound", sounds, summary::MAX_OUTPUTS).unwrap();
        let stated = case["expected"].as_array().unwrap();
        assert_eq!(made.value.len(), stated.len(), "{name}");
        for (value, stated) in made.value.iter().zip(stated) {
            fields(stated, &["tag", "kind", "audio"]);
            assert_eq!(value.tag, stated["tag"], "{name}");
            let Some(Kind::Audio(audio)) = &value.value else {
                panic!("{name}: {value:?}");
            };
            let stated = &stated["audio"];
            let known = [
                "sample_rate",
                "num_channels",
                "length_frames",
                "content_type",
                "wav_hex",
            ];
            fields(stated, &known);
            assert_eq!(
                f64::from(audio.sample_rate),
                number(&stated["sample_rate"]),
                "{name}"
            );
            assert_eq!(stated["num_channels"], audio.num_channels, "{name}");
            assert_eq!(stated["length_frames"], audio.length_frames, "{name}");
            assert_eq!(stated["content_type"], audio.content_type, "{name}");
            assert_eq!(
                audio.encoded_audio_string,
                bytes(&stated["wav_hex"]),
                "{name}"
            );
        }
    }
}
