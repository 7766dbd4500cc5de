//! `trainspec data`: what a data set gives, and where the time of reading goes.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use trainspec::{DataReport, Engine, Options, Tensor, data_report};

use crate::columns::{self, Align};
use crate::output::{diagnostics, escape_controls, print};

use crate::{BAD_INPUT, FAILED, FINE, Format, files};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads one epoch at most, on one thread. Times are those of this machine and this moment: what matters is which \
                  stage takes most."
)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// The data set; needed where the spec has several
    name: Option<String>,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The base folder of relative data paths [default: that of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Read at most N records, or batches
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    limit: u64,
    /// Read for at most N seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// How many elements of each feature are shown
    #[arg(long, value_name = "N", default_value_t = 8)]
    elements: usize,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let format = arguments.format;
    let compilation = match files::checked(&arguments.file, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    let options = Options {
        folder: files::data_folder(&arguments.file, arguments.data_dir.as_deref()),
        engine: Engine::compiled(1),
        ..Options::default()
    };
    let time = Duration::from_secs(arguments.seconds);
    let name = arguments.name.as_deref();
    match data_report(spec, name, &options, arguments.limit, time) {
        Ok(report) => {
            match format {
                Format::Text => text(&report, arguments.elements),
                Format::Json => print(as_json(&report, arguments.elements)),
            }
            FINE
        }
        Err(error) => {
            diagnostics(&compilation.sources, &[error.diagnostic()], format);
            if error.is_bad_input() {
                BAD_INPUT
            } else {
                FAILED
            }
        }
    }
}

fn text(report: &DataReport, elements: usize) {
    let size = report
        .size
        .map_or_else(String::new, |n| format!(" {n} records"));
    let batch = match report.batch {
        Some(n) => format!(", in batches of {n}"),
        None => String::new(),
    };
    print(format_args!("data {}:{size}{batch}", report.name));
    for file in &report.files {
        print(format_args!("  {}", file.display()));
    }
    print("");
    let rows = report.features.iter().map(|feature| {
        let number = |x: Option<f64>| x.map_or_else(String::new, columns::short_number);
        vec![
            feature.name.clone(),
            feature.ty.clone(),
            number(feature.range.map(|(low, _)| low)),
            number(feature.mean),
            number(feature.range.map(|(_, high)| high)),
            match feature.nans {
                0 => String::new(),
                n => n.to_string(),
            },
            report
                .first
                .get(&feature.name)
                .map_or_else(String::new, |t| shown(t, elements)),
        ]
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let mut head = vec![
        ("feature", Align::Left),
        ("type", Align::Left),
        ("least", Align::Right),
        ("mean", Align::Right),
        ("greatest", Align::Right),
        ("NaN", Align::Right),
        ("first", Align::Left),
    ];
    if rows.iter().all(|row| row[5].is_empty()) {
        head.remove(5);
        rows.iter_mut().for_each(|row| drop(row.remove(5)));
    }
    columns::lines(&head, &rows).for_each(print);
    let what = if report.batch.is_some() {
        "batches"
    } else {
        "records"
    };
    let all = if report.complete {
        ", the whole epoch"
    } else {
        ""
    };
    let seconds = report.time.as_secs_f64().max(1e-9);
    let rate = columns::scaled(report.records as f64 / seconds);
    print(format_args!(
        "\nread {} {what} ({} records{all}) in {:.1} ms: {}records/s",
        report.elements,
        report.records,
        seconds * 1e3,
        rate
    ));
    match report.unfilled {
        0 => {}
        1 => print("the last record does not fill a batch, and is left out"),
        n => print(format_args!(
            "the last {n} records do not fill a batch, and are left out"
        )),
    }
    for note in &report.notes {
        print(format_args!("note: {}", escape_controls(note)));
    }
    if let Some(left_out) = &report.left_out {
        print(escape_controls(&left_out.to_string()));
    }
    let rows: Vec<Vec<String>> = (report.stages.iter())
        .map(|(name, time)| {
            let own = time.as_secs_f64();
            let record = own * 1e9 / report.records.max(1) as f64;
            vec![
                name.clone(),
                format!("{:.0}%", 100.0 * own / seconds),
                format!("{record:.0}"),
            ]
        })
        .collect();
    let head = [
        ("stage", Align::Left),
        ("share", Align::Right),
        ("ns/record", Align::Right),
    ];
    print("");
    columns::lines(&head, &rows).for_each(print);
}

/// The first elements of a tensor.
fn shown(tensor: &Tensor, limit: usize) -> String {
    let all = tensor.data().len();
    let mut text: Vec<String> = (0..all.min(limit))
        .map(|i| tensor.element_text(i))
        .collect();
    if all > limit {
        text.push("...".to_owned());
    }
    escape_controls(&text.join(" ")).into_owned()
}

fn as_json(report: &DataReport, elements: usize) -> Value {
    let features = report.features.iter().map(|feature| {
        let first = report.first.get(&feature.name);
        json!({
            "name": feature.name,
            "type": feature.ty,
            "least": feature.range.map(|(low, _)| low),
            "mean": feature.mean,
            "greatest": feature.range.map(|(_, high)| high),
            "nans": feature.nans,
            "shape": first.map(Tensor::shape),
            "first": first.map(|tensor| {
                let shown = (0..tensor.data().len().min(elements)).map(|i| tensor.element_text(i));
                shown.collect::<Vec<_>>()
            }),
        })
    });
    let stages = (report.stages.iter())
        .map(|(name, time)| json!({ "stage": name, "seconds": time.as_secs_f64() }));
    json!({
        "data": report.name,
        "files": report.files,
        "batch": report.batch,
        "records_per_epoch": report.size,
        "features": features.collect::<Vec<_>>(),
        "elements": report.elements,
        "records": report.records,
        "complete": report.complete,
        "unfilled": report.unfilled,
        "notes": report.notes,
        "left_out": report.left_out.as_ref().map(|left_out| {
            json!({ "records": left_out.records, "first": left_out.first })
        }),
        "seconds": report.time.as_secs_f64(),
        "stages": stages.collect::<Vec<_>>(),
    })
}
