//! Writes one summary of every kind into a folder: `cargo run -p trainspec-formats --example write_events -- DIR`.
//!
//! `tests/interop/events.py` compares what TensorFlow and TensorBoard read. Next to the events it puts the values that
//! they were made of, so that nothing is stated twice.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use prost::Message;
use serde_json::json;
use trainspec_formats::FileKind;
use trainspec_formats::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use trainspec_formats::clock::FixedClock;
use trainspec_formats::events::summary::hparams::{self, HParam};
use trainspec_formats::events::summary::{
    self, AudioClips, DisplayMetadata, ImageOptions, Images, Pixels,
};
use trainspec_formats::events::{SummaryWriter, WriterOptions, summary_iterator};
use trainspec_formats::proto::attr_value::Value as Attr;
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::hparams::{
    DataType as HParamType, Experiment, HParamInfo, Interval, MetricInfo, MetricName, Status,
    h_param_info::Domain,
};
use trainspec_formats::proto::session_log::SessionStatus;
use trainspec_formats::proto::{
    AttrValue, DataType, DeviceStepStats, GraphDef, MetaGraphDef, NodeDef, NodeExecStats,
    RunMetadata, SessionLog, StepStats, VersionDef,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: write_events DIR")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let values = Values::new();
    std::fs::write(folder.join("values.json"), values.json().to_string())?;
    plain(&folder.join("plain"), &values)?;
    tensors(&folder.join("tensors"), &values)?;
    table(&folder.join("hparams"))?;
    restarted(&folder.join("restarted"))?;
    copies(folder)?;
    Ok(())
}

/// The values of the summaries.
struct Values {
    floats: Vec<f64>,
    pixels: Vec<f32>,
    samples: Vec<f32>,
}

const IMAGE_SHAPE: [usize; 4] = [2, 5, 7, 3];
const AUDIO_SHAPE: [usize; 3] = [2, 100, 2];

impl Values {
    fn new() -> Values {
        // Arbitrary numbers with some spread.
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let mut list = |count: usize, scale: f32, shift: f32| -> Vec<f32> {
            (0..count).map(|_| draw() * scale + shift).collect()
        };
        let floats = list(500, 9.0, -4.0);
        Values {
            floats: floats.into_iter().map(f64::from).collect(),
            pixels: list(IMAGE_SHAPE.iter().product(), 1.3, -0.1),
            samples: list(AUDIO_SHAPE.iter().product(), 2.2, -1.1),
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "floats": self.floats,
            "pixels": self.pixels, "pictures": IMAGE_SHAPE,
            "samples": self.samples, "sounds": AUDIO_SHAPE,
        })
    }

    fn images(&self) -> Images<'_> {
        Images {
            shape: &IMAGE_SHAPE,
            pixels: Pixels::F32(&self.pixels),
        }
    }

    fn sounds(&self) -> AudioClips<'_> {
        AudioClips {
            shape: &AUDIO_SHAPE,
            samples: &self.samples,
            sample_rate: 8000.0,
        }
    }
}

fn open(folder: &Path) -> Result<SummaryWriter, Box<dyn Error>> {
    let options = WriterOptions {
        clock: Arc::new(FixedClock {
            unix_seconds: 1_700_000_000.25,
        }),
        ..Default::default()
    };
    Ok(SummaryWriter::open(folder, options)?)
}

/// Summaries in the style of `tf.compat.v1.summary`.
fn plain(folder: &Path, values: &Values) -> Result<(), Box<dyn Error>> {
    let writer = open(folder)?;
    writer.add_graph(&graph(), 0)?;
    let whole = MetaGraphDef {
        graph_def: Some(graph()),
        ..Default::default()
    };
    writer.add_meta_graph(&whole, 0)?;
    for step in 0..5 {
        writer.add_summary(summary::scalar("train/loss", 1.0 / (step + 1) as f32), step)?;
    }
    let all = summary::merge([
        summary::histogram("values", values.floats.iter().copied())?,
        summary::image("pic", values.images(), ImageOptions::default())?,
        summary::audio("sound", values.sounds(), 3)?,
        summary::text("note", &[2], &["one", "zwölf"], DisplayMetadata::default())?,
    ])?;
    writer.add_summary(all, 7)?;
    let node = NodeExecStats {
        node_name: "x".to_owned(),
        all_end_rel_micros: 12,
        ..Default::default()
    };
    let run = RunMetadata {
        step_stats: Some(StepStats {
            dev_stats: vec![DeviceStepStats {
                device: "/device:CPU:0".to_owned(),
                node_stats: vec![node],
                ..Default::default()
            }],
        }),
        ..Default::default()
    };
    writer.add_run_metadata(&run, "step_7", 7)?;
    writer.close()?;
    Ok(())
}

fn graph() -> GraphDef {
    let dtype = AttrValue {
        value: Some(Attr::Type(DataType::DtFloat.into())),
    };
    let node = |name: &str, op: &str, input: &[&str], attr: &str| NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        input: input.iter().map(|name| name.to_string()).collect(),
        attr: [(attr.to_owned(), dtype.clone())].into(),
        ..Default::default()
    };
    GraphDef {
        node: vec![
            node("x", "Placeholder", &[], "dtype"),
            node("y", "Square", &["x"], "T"),
        ],
        versions: Some(VersionDef {
            producer: 2000,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Summaries in the style of `tf.summary` of TensorFlow 2.
fn tensors(folder: &Path, values: &Values) -> Result<(), Box<dyn Error>> {
    let writer = open(folder)?;
    let about = DisplayMetadata {
        description: "the *loss*",
        display_name: "",
    };
    let plain = DisplayMetadata::default();
    for step in 0..5 {
        let value = 1.0 / (step + 1) as f32;
        writer.add_summary(summary::scalar_tensor("train/loss", value, about), step)?;
    }
    let all = summary::merge([
        summary::histogram_tensor(
            "values",
            &values.floats,
            summary::DEFAULT_BUCKET_COUNT,
            plain,
        )?,
        summary::image_tensor("pic", values.images(), 3, plain)?,
        summary::audio_tensor("sound", values.sounds(), 3, plain)?,
        summary::text("note", &[2], &["one", "zwölf"], plain)?,
    ])?;
    writer.add_summary(all, 7)?;
    writer.close()?;
    Ok(())
}

/// Two runs with hyperparameters, and their experiment in the folder above.
fn table(folder: &Path) -> Result<(), Box<dyn Error>> {
    let info = |name: &str, kind: HParamType, domain| HParamInfo {
        name: name.to_owned(),
        r#type: kind.into(),
        domain,
        ..Default::default()
    };
    let range = Interval {
        min_value: 0.0,
        max_value: 1.0,
    };
    let experiment = Experiment {
        hparam_infos: vec![
            info(
                "lr",
                HParamType::Float64,
                Some(Domain::DomainInterval(range)),
            ),
            info("optimizer", HParamType::String, None),
            info("warm", HParamType::Bool, None),
        ],
        metric_infos: vec![MetricInfo {
            name: Some(MetricName {
                group: String::new(),
                tag: "accuracy".to_owned(),
            }),
            ..Default::default()
        }],
        ..Default::default()
    };
    let writer = open(folder)?;
    writer.add_summary(hparams::experiment(experiment), 0)?;
    writer.close()?;
    for (name, lr) in [("a", 0.1), ("b", 0.01)] {
        let writer = open(&folder.join(name))?;
        let values = [
            ("lr", HParam::Number(lr)),
            ("optimizer", HParam::String("adam".to_owned())),
            ("warm", HParam::Bool(true)),
        ];
        writer.add_summary(hparams::session_start(values, None, 1.7e9), 0)?;
        writer.add_summary(
            summary::scalar_tensor("accuracy", 0.9, DisplayMetadata::default()),
            1,
        )?;
        writer.add_summary(hparams::session_end(Status::Success, 1.7e9 + 60.0), 0)?;
        writer.close()?;
    }
    Ok(())
}

/// A run that was killed at step 9 and resumed from step 5, in a second file.
fn restarted(folder: &Path) -> Result<(), Box<dyn Error>> {
    let writer = open(folder)?;
    let start = SessionLog {
        status: SessionStatus::Start.into(),
        ..Default::default()
    };
    for (from, to) in [(0, 10), (5, 12)] {
        writer.reopen()?;
        writer.add_session_log(start.clone(), from)?;
        for step in from..to {
            writer.add_summary(summary::scalar("loss", (100 * from + step) as f32), step)?;
        }
        writer.close()?;
    }
    Ok(())
}

/// Graphs that TensorFlow wrote, decoded and encoded by us, if any are given: `write_events DIR FILE.meta EVENTS ...`.
fn copies(folder: &Path) -> Result<(), Box<dyn Error>> {
    let folder = folder.join("copies");
    std::fs::create_dir_all(&folder)?;
    for (i, path) in std::env::args().skip(2).enumerate() {
        let path = Path::new(&path);
        let (from, to) = (
            folder.join(format!("{i}.from")),
            folder.join(format!("{i}.to")),
        );
        if path.extension().is_some_and(|end| end == "meta") {
            let bytes = std::fs::read(path)?;
            let graph: MetaGraphDef = decode(FileKind::Events, &bytes, DEFAULT_MEMORY_LIMIT)?;
            std::fs::write(from, &bytes)?;
            std::fs::write(to, graph.encode_to_vec())?;
            continue;
        }
        for event in summary_iterator(path)? {
            if let Some(What::MetaGraphDef(bytes)) = event?.what {
                let graph: MetaGraphDef = decode(FileKind::Events, &bytes, DEFAULT_MEMORY_LIMIT)?;
                std::fs::write(&from, &bytes)?;
                std::fs::write(&to, graph.encode_to_vec())?;
            }
        }
    }
    Ok(())
}
