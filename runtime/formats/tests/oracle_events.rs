//! Event files of TensorFlow read as TensorFlow reads them, and our summaries of the same values equal TensorFlow's.

use std::sync::Arc;

use crate::support::messages::{assert_tensor, extents, fields, number, numbers, same};
use crate::support::sha256;
use crate::support::{Folder, bytes, json, oracle};
use prost::Message;
use serde_json::Value as Json;
use trainspec_formats::FileKind;
use trainspec_formats::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use trainspec_formats::clock::FixedClock;
use trainspec_formats::events::summary::{
    self, AudioClips, DisplayMetadata, ImageOptions, Images, Pixels,
};
use trainspec_formats::events::{SummaryWriter, WriterOptions, summary_iterator};
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::summary::Value;
use trainspec_formats::proto::summary::value::Value as Kind;
use trainspec_formats::proto::{
    DataClass, Event, GraphDef, HistogramProto, MetaGraphDef, RunMetadata, SummaryMetadata,
};
use trainspec_formats::tensor::{DType, Elements, Tensor};

fn read(file: &str) -> Vec<Event> {
    let path = oracle().join("events").join(file);
    let events = summary_iterator(&path).unwrap();
    events.map(|event| event.unwrap()).collect()
}

#[test]
fn oracle_every_event_reads_as_stated() {
    for file in ["v1", "v2"] {
        let stated = json(format!("events/{file}.json"));
        fields(&stated, &["format", "file", "num_records", "events"]);
        let events = read(stated["file"].as_str().unwrap());
        let expected = stated["events"].as_array().unwrap();
        assert_eq!(events.len(), expected.len());
        assert_eq!(stated["num_records"].as_u64(), Some(events.len() as u64));
        let mut values = 0;
        for (event, expected) in events.iter().zip(expected) {
            values += assert_event(event, expected);
        }
        println!("{file}: {} events, {values} values", events.len());
    }
}

/// Compares all that is stated; returns how many values there are.
fn assert_event(event: &Event, expected: &Json) -> usize {
    let common = ["what", "step", "wall_time"];
    let known = |more: &[&str]| {
        fields(expected, &[&common, more].concat());
    };
    assert_eq!(Some(event.step), expected["step"].as_i64());
    match &expected["wall_time"] {
        Json::Null => assert!(event.wall_time > 1.7e9),
        time => assert_eq!(event.wall_time, number(time)),
    }
    let what = expected["what"].as_str().unwrap();
    match (event.what.as_ref().expect("something"), what) {
        (What::FileVersion(version), "file_version") => {
            known(&["file_version", "source_metadata_writer"]);
            assert_eq!(version, &expected["file_version"]);
            let source = event.source_metadata.as_ref().unwrap();
            assert_eq!(source.writer, expected["source_metadata_writer"]);
            assert_eq!(event.wall_time.fract(), 0.0);
        }
        (What::GraphDef(graph), "graph_def") => {
            known(&["nodes"]);
            let graph: GraphDef = lossless(graph);
            assert_nodes(&graph, &expected["nodes"]);
        }
        (What::MetaGraphDef(graph), "meta_graph_def") => {
            known(&["nodes", "collections"]);
            let graph: MetaGraphDef = lossless(graph);
            assert_nodes(graph.graph_def.as_ref().unwrap(), &expected["nodes"]);
            let collections: Vec<&String> = graph.collection_def.keys().collect();
            assert_eq!(
                Json::from_iter(collections.into_iter().cloned()),
                expected["collections"]
            );
        }
        (What::SessionLog(log), "session_log") => {
            known(&["status", "checkpoint_path", "msg"]);
            assert_eq!(log.status().as_str_name(), expected["status"]);
            assert_eq!(log.checkpoint_path, expected["checkpoint_path"]);
            assert_eq!(log.msg, expected["msg"]);
        }
        (What::TaggedRunMetadata(tagged), "tagged_run_metadata") => {
            known(&["tag", "devices"]);
            assert_eq!(tagged.tag, expected["tag"]);
            let run: RunMetadata = lossless(&tagged.run_metadata);
            let devices = run.step_stats.unwrap().dev_stats;
            let devices = devices.into_iter().map(|device| device.device);
            assert_eq!(Json::from_iter(devices), expected["devices"]);
        }
        (What::LogMessage(log), "log_message") => {
            known(&["level", "message"]);
            assert_eq!(log.level().as_str_name(), expected["level"]);
            assert_eq!(log.message, expected["message"]);
        }
        (What::Summary(summary), "summary") => {
            known(&["values"]);
            let stated = expected["values"].as_array().unwrap();
            assert_eq!(summary.value.len(), stated.len());
            for (value, stated) in summary.value.iter().zip(stated) {
                assert_value(value, stated);
            }
            return stated.len();
        }
        (other, what) => panic!("{other:?} is not {what}"),
    }
    0
}

/// Decodes a message; that it encodes to as many bytes shows that no field is unknown.
fn lossless<M: Message + prost::Name + Default + PartialEq>(bytes: &[u8]) -> M {
    let message: M = decode(FileKind::Other, bytes, DEFAULT_MEMORY_LIMIT).unwrap();
    let again = message.encode_to_vec();
    assert_eq!(again.len(), bytes.len());
    assert!(decode::<M>(FileKind::Other, &again, DEFAULT_MEMORY_LIMIT).unwrap() == message);
    message
}

fn assert_nodes(graph: &GraphDef, expected: &Json) {
    let nodes = graph
        .node
        .iter()
        .map(|node| vec![node.name.clone(), node.op.clone()]);
    assert_eq!(&Json::from_iter(nodes), expected);
}

fn assert_value(value: &Value, expected: &Json) {
    let kind = expected["kind"].as_str().unwrap();
    let known = ["tag", "kind", "metadata", "pixels", kind];
    fields(expected, &known);
    assert_eq!(value.tag, expected["tag"]);
    match expected.get("metadata") {
        Some(stated) => assert_metadata(value.metadata.as_ref().unwrap(), stated),
        None => assert_eq!(value.metadata, None),
    }
    let stated = &expected[kind];
    match (value.value.as_ref().expect("a value"), kind) {
        (Kind::SimpleValue(number_), "simple_value") => {
            let stated = number(stated) as f32;
            assert!(
                same((*number_).into(), stated.into()),
                "{number_} and {stated}"
            );
        }
        (Kind::Histo(histogram), "histo") => assert_eq!(histogram, &histogram_of(stated)),
        (Kind::Image(image), "image") => {
            fields(
                stated,
                &["height", "width", "colorspace", "png_sha256", "pixels"],
            );
            let file = &image.encoded_image_string;
            assert_eq!(sha256::of(file), stated["png_sha256"]);
            assert_eq!(stated["height"], image.height);
            assert_eq!(stated["width"], image.width);
            assert_eq!(stated["colorspace"], image.colorspace);
            assert_pixels(file, &stated["pixels"]);
        }
        (Kind::Audio(audio), "audio") => {
            let known = [
                "sample_rate",
                "num_channels",
                "length_frames",
                "content_type",
                "wav_hex",
            ];
            fields(stated, &known);
            assert_eq!(f64::from(audio.sample_rate), number(&stated["sample_rate"]));
            assert_eq!(stated["num_channels"], audio.num_channels);
            assert_eq!(stated["length_frames"], audio.length_frames);
            assert_eq!(stated["content_type"], audio.content_type);
            assert_eq!(audio.encoded_audio_string, bytes(&stated["wav_hex"]));
        }
        (Kind::Tensor(tensor), "tensor") => {
            assert_tensor(tensor, stated);
            if let Some(pixels) = expected.get("pixels") {
                let pixels = pixels.as_array().unwrap();
                assert_eq!(tensor.string_val.len(), 2 + pixels.len());
                for (file, pixels) in tensor.string_val[2..].iter().zip(pixels) {
                    assert_pixels(file, pixels);
                }
            }
        }
        (other, kind) => panic!("{other:?} is not {kind}"),
    }
}

fn assert_metadata(metadata: &SummaryMetadata, expected: &Json) {
    let known = [
        "plugin_name",
        "plugin_content_hex",
        "display_name",
        "description",
        "data_class",
    ];
    fields(expected, &known);
    let plugin = metadata.plugin_data.clone().unwrap_or_default();
    assert_eq!(plugin.plugin_name, expected["plugin_name"]);
    assert_eq!(plugin.content, bytes(&expected["plugin_content_hex"]));
    assert_eq!(metadata.display_name, expected["display_name"]);
    assert_eq!(metadata.summary_description, expected["description"]);
    let class = DataClass::try_from(metadata.data_class).unwrap();
    assert_eq!(class.as_str_name(), expected["data_class"]);
}

fn assert_pixels(file: &[u8], expected: &Json) {
    let (size, pixels) = summary::decode_png(file, 1 << 20).unwrap();
    assert_eq!(expected["dtype"], "uint8");
    assert_eq!(size.to_vec(), extents(expected));
    let pixels: Vec<f64> = pixels.into_iter().map(f64::from).collect();
    assert_eq!(pixels, numbers(&expected["data"]));
}

fn histogram_of(json: &Json) -> HistogramProto {
    let known = [
        "min",
        "max",
        "num",
        "sum",
        "sum_squares",
        "bucket_limit",
        "bucket",
    ];
    fields(json, &known);
    HistogramProto {
        min: number(&json["min"]),
        max: number(&json["max"]),
        num: number(&json["num"]),
        sum: number(&json["sum"]),
        sum_squares: number(&json["sum_squares"]),
        bucket_limit: numbers(&json["bucket_limit"]),
        bucket: numbers(&json["bucket"]),
    }
}

/// All events of a file, written again by us, are the same bytes.
#[test]
fn oracle_our_writer_makes_the_same_file() {
    for file in ["v1.tfevents", "v2.tfevents"] {
        let path = oracle().join("events").join(file);
        let folder = Folder::new();
        let events = read(file);
        let time = events[0].wall_time;
        let options = WriterOptions {
            clock: Arc::new(FixedClock { unix_seconds: time }),
            ..Default::default()
        };
        let writer = SummaryWriter::open(&folder.0, options).unwrap();
        for event in events.into_iter().skip(1) {
            writer.add_event(event).unwrap();
        }
        writer.close().unwrap();
        let ours = std::fs::read(writer.path()).unwrap();
        assert!(ours == std::fs::read(path).unwrap(), "{file}");
    }
}

/// The graph of the file holds the images, the audio and the note of its summaries as constants.
#[test]
fn oracle_summaries_of_the_constants_of_a_graph_are_the_same() {
    let events = read("v1.tfevents");
    let Some(What::GraphDef(graph)) = &events[1].what else {
        panic!("no graph");
    };
    let graph: GraphDef = decode(FileKind::Other, graph, DEFAULT_MEMORY_LIMIT).unwrap();
    let constant = |name: &str| -> Tensor {
        use trainspec_formats::proto::attr_value::Value as Attr;
        let node = graph.node.iter().find(|node| node.name == name).unwrap();
        match node.attr["value"].value.clone() {
            Some(Attr::Tensor(tensor)) => Tensor::from_message(tensor).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let picture = |tag: &str, name: &str, max_outputs| {
        let tensor = constant(name);
        let shape = tensor.shape();
        let options = ImageOptions {
            max_outputs,
            ..Default::default()
        };
        let (bytes, floats): (Vec<u8>, Vec<f32>);
        let pixels = match tensor.dtype() {
            DType::UInt8 => {
                bytes = tensor.to_vec().unwrap();
                Pixels::U8(&bytes)
            }
            DType::Float32 => {
                floats = tensor.to_vec().unwrap();
                Pixels::F32(&floats)
            }
            other => panic!("{other:?}"),
        };
        summary::image(tag, Images { shape, pixels }, options).unwrap()
    };
    let floats = |name: &str| -> (Vec<usize>, Vec<f32>) {
        let tensor = constant(name);
        (tensor.shape().to_vec(), tensor.to_vec().unwrap())
    };
    let (shape, samples) = floats("Const_3");
    let sounds = AudioClips {
        shape: &shape,
        samples: &samples,
        sample_rate: floats("sound/sample_rate").1[0],
    };
    let Elements::Strings(note) = constant("Const_4").into_elements() else {
        panic!("no note");
    };
    let note: Vec<String> = note
        .into_iter()
        .map(|s| String::from_utf8(s.to_vec()).unwrap())
        .collect();
    let ours = summary::merge([
        picture("pic", "Const_1", 3),
        picture("gray", "Const_2", 1),
        summary::audio("sound", sounds, 3).unwrap(),
        summary::text("note", &[note.len()], &note, DisplayMetadata::default()).unwrap(),
    ])
    .unwrap();
    let stated = json("events/v1.json");
    let stated = stated["events"][4]["values"].as_array().unwrap();
    let mut compared = 0;
    for value in &ours.value {
        let stated = stated
            .iter()
            .find(|stated| stated["tag"] == value.tag.as_str());
        let mut stated = stated.unwrap().clone();
        // PNG compression may differ.
        if let Some(Kind::Image(image)) = &value.value {
            stated["image"]["png_sha256"] = sha256::of(&image.encoded_image_string).into();
        }
        assert_value(value, &stated);
        compared += 1;
    }
    println!("{compared} values");
    assert_eq!(compared, 5);
}

/// What the tensors of the second style were made of follows from the tensors.
#[test]
fn oracle_tensors_of_the_second_style_are_the_same() {
    let events = read("v2.tfevents");
    let mut compared = 0;
    for event in &events[1..] {
        let Some(What::Summary(summary)) = &event.what else {
            panic!("{event:?}");
        };
        let [value] = &summary.value[..] else {
            panic!("{summary:?}");
        };
        let Some(Kind::Tensor(tensor)) = &value.value else {
            panic!("{value:?}");
        };
        let tag = value.tag.as_str();
        let about = DisplayMetadata {
            description: value
                .metadata
                .as_ref()
                .map_or("", |m| &m.summary_description),
            ..Default::default()
        };
        let ours = match tag {
            "loss" => {
                let number = Tensor::from_message(tensor.clone()).unwrap();
                summary::scalar_tensor(tag, number.to_vec().unwrap()[0], about)
            }
            "constant" => summary::histogram_tensor(tag, &[2.5; 4], 4, about).unwrap(),
            "none" => summary::histogram_tensor(tag, &[], 4, about).unwrap(),
            "note" | "scalar_note" => {
                let strings = tensor.string_val.iter().map(|s| str::from_utf8(s).unwrap());
                let shape = Tensor::from_message(tensor.clone()).unwrap();
                summary::text(tag, shape.shape(), &strings.collect::<Vec<_>>(), about).unwrap()
            }
            "sound" => {
                let mut wav = hound::WavReader::new(&tensor.string_val[0][..]).unwrap();
                let spec = wav.spec();
                let samples = wav
                    .samples::<i16>()
                    .map(|s| f32::from(s.unwrap()) / 32768.0);
                let samples: Vec<f32> = samples.collect();
                let channels = spec.channels as usize;
                let sounds = AudioClips {
                    shape: &[1, samples.len() / channels, channels],
                    samples: &samples,
                    sample_rate: spec.sample_rate as f32,
                };
                summary::audio_tensor(tag, sounds, 3, about).unwrap()
            }
            "raw" => summary::raw_tensor(tag, tensor.clone(), None),
            "pic" => {
                let files = &tensor.string_val[2..];
                let files = files
                    .iter()
                    .map(|f| summary::decode_png(f, 1 << 20).unwrap());
                let images: Vec<_> = files.collect();
                let [height, width, channels] = images[0].0;
                let shape = [images.len(), height, width, channels];
                let values: Vec<u8> = images.iter().flat_map(|image| image.1.clone()).collect();
                let pixels = Pixels::U8(&values);
                let shape = &shape[..];
                let mut ours =
                    summary::image_tensor(tag, Images { shape, pixels }, 3, about).unwrap();
                // The pixels are equal; PNG compression may differ.
                let Some(Kind::Tensor(made)) = &mut ours.value[0].value else {
                    panic!("{ours:?}");
                };
                for (file, theirs) in made.string_val[2..].iter_mut().zip(&tensor.string_val[2..]) {
                    let decoded = |file: &[u8]| summary::decode_png(file, 1 << 20).unwrap();
                    assert_eq!(decoded(file), decoded(theirs));
                    *file = theirs.clone();
                }
                ours
            }
            // What it was made of cannot be known; `tests/interop/events.py` compares one with TensorFlow.
            "values" => continue,
            other => panic!("`{other}` is not compared"),
        };
        assert_eq!(&ours, summary, "{tag}");
        compared += 1;
    }
    println!("{compared} values");
}
