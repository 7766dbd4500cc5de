//! A checkpoint, or another file of named tensors.

use std::path::Path;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::object::OBJECT_GRAPH_KEY;
use trainspec_formats::checkpoint::{CheckpointReader, Elements};

use super::statistics::Statistics;
use crate::Format;
use crate::columns::{self, Side};
use crate::output::{count, print, say};
use crate::progress::Progress;
use crate::tensors::{elements, size};

/// What is known of a tensor.
struct Row {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Option<u64>,
    statistics: Option<Statistics>,
    /// It could not be read.
    damaged: bool,
}

pub(crate) fn show(path: &Path, values: bool, format: Format) -> Result<(), FormatError> {
    let reader = CheckpointReader::open(path)?;
    let (kind, about) = match &reader {
        CheckpointReader::Bundle(bundle) => {
            let shards = bundle.header().shards;
            let objects = reader.has_tensor(OBJECT_GRAPH_KEY);
            let of = if objects { " of objects" } else { "" };
            (
                "checkpoint",
                format!(
                    "checkpoint{of}, version 2, {}",
                    count(shards as usize, "data file")
                ),
            )
        }
        CheckpointReader::Table(_) => ("checkpoint", "checkpoint, version 1".to_owned()),
        CheckpointReader::Safetensors(_) => ("safetensors", "safetensors".to_owned()),
        CheckpointReader::Npz(_) => ("npz", "npz".to_owned()),
    };
    let (mut rows, mut damage) = (Vec::new(), None);
    let progress = Progress::of_tensors(&reader);
    for (name, dtype, shape) in reader.entries() {
        let (mut bytes, mut statistics) = (size(dtype, shape), None);
        let mut damaged = false;
        if values {
            let read = reader.get_tensor(name).and_then(|tensor| {
                let statistics = Statistics::of(&tensor).map_err(|e| FormatError {
                    cause: format!("tensor `{name}`: {}", e.cause),
                    ..e.in_file(path)
                })?;
                Ok((tensor, statistics))
            });
            match read {
                Ok((tensor, found)) => {
                    statistics = found;
                    if let Elements::Strings(strings) = tensor.elements() {
                        bytes = Some(strings.iter().map(|s| s.len() as u64).sum());
                    }
                }
                Err(e) => {
                    damaged = true;
                    damage.get_or_insert(e);
                }
            }
        }
        progress.add(bytes.unwrap_or(0));
        rows.push(Row {
            name: name.to_owned(),
            dtype: dtype.name(),
            shape: shape.to_vec(),
            bytes,
            statistics,
            damaged,
        });
    }
    drop(progress);
    let left: Vec<(&str, &str)> = match &reader {
        CheckpointReader::Npz(archive) => archive
            .left_alone()
            .map(|(name, why)| (name, why.cause.as_str()))
            .collect(),
        CheckpointReader::Bundle(_)
        | CheckpointReader::Table(_)
        | CheckpointReader::Safetensors(_) => Vec::new(),
    };
    match format {
        Format::Text => {
            text(path, &about, &rows, values);
            for (name, why) in left {
                say(format_args!("{name}: not read: {why}"));
            }
        }
        Format::Json => {
            let mut all = to_json(path, kind, &about, &rows);
            if !left.is_empty() {
                let left = left.into_iter();
                all["not_read"] = left
                    .map(|(name, why)| json!({ "name": name, "cause": why }))
                    .collect();
            }
            print(all);
        }
    }
    damage.map_or(Ok(()), Err)
}

fn text(path: &Path, about: &str, rows: &[Row], values: bool) {
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
    let bytes = sum(&mut rows.iter().filter_map(|row| row.bytes));
    let elements = sum(&mut rows.iter().map(|row| elements(&row.shape)));
    say(format_args!(
        "{}: {about}, {} with {}, {}",
        path.display(),
        count(rows.len(), "tensor"),
        count(elements as usize, "element"),
        columns::bytes(bytes)
    ));
    let mut head = vec![
        ("name", Side::Left),
        ("dtype", Side::Left),
        ("shape", Side::Left),
        ("bytes", Side::Right),
    ];
    if values {
        head.extend(["min", "mean", "max", "nan"].map(|name| (name, Side::Right)));
    }
    let cells = rows.iter().map(|row| {
        let bytes = row
            .bytes
            .map_or_else(String::new, |bytes| bytes.to_string());
        let mut cells = vec![
            row.name.clone(),
            row.dtype.to_owned(),
            format!("{:?}", row.shape),
            bytes,
        ];
        if values {
            cells.extend(match row.statistics {
                Some(s) => [
                    columns::number(s.min),
                    columns::number(s.mean),
                    columns::number(s.max),
                    s.nan.to_string(),
                ],
                None if row.damaged => ["damaged", "", "", ""].map(str::to_owned),
                None => [const { String::new() }; 4],
            });
        }
        cells
    });
    for line in columns::lines(&head, &cells.collect::<Vec<_>>()) {
        say(line);
    }
}

fn to_json(path: &Path, kind: &str, about: &str, rows: &[Row]) -> serde_json::Value {
    let tensors: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut tensor = json!({
                "name": row.name, "dtype": row.dtype, "shape": row.shape, "bytes": row.bytes, "damaged": row.damaged,
            });
            if let Some(s) = row.statistics {
                // What JSON has no number for is null.
                tensor["min"] = json!(s.min);
                tensor["mean"] = json!(s.mean);
                tensor["max"] = json!(s.max);
                tensor["nan"] = json!(s.nan);
                tensor["infinite"] = json!(s.infinite);
            }
            tensor
        })
        .collect();
    json!({ "kind": kind, "path": path.display().to_string(), "about": about, "tensors": tensors })
}
