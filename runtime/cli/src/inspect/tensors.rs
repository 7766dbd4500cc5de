//! A checkpoint, safetensors or npz file: its tensors with types, shapes and statistics.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use trainspec_formats::checkpoint::object::OBJECT_GRAPH_KEY;
use trainspec_formats::checkpoint::{CheckpointReader, Elements};
use trainspec_formats::{Code, FormatError};

use super::statistics::Statistics;
use crate::Format;
use crate::artifacts::kind_of;
use crate::columns::{self, Align};
use crate::output::{count, print, say};
use crate::progress::Progress;
use crate::tensors::{Number, elements, json_of, size};

/// A tensor in the table.
struct Row {
    name: String,
    /// The full name of the variable, in an object-based checkpoint.
    variable: String,
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Option<u64>,
    statistics: Option<Statistics>,
    /// Why it could not be read: in a word or two, and in full.
    unread: Option<(&'static str, String)>,
}

pub(crate) fn show(path: &Path, values: bool, format: Format) -> Result<(), FormatError> {
    let reader = CheckpointReader::open_prefix(path)?;
    let kind = kind_of(&reader);
    let about = match &reader {
        CheckpointReader::Bundle(bundle) => {
            let shards = bundle.header().shards;
            let objects = reader.has_tensor(OBJECT_GRAPH_KEY);
            let of = if objects { " of objects" } else { "" };
            let files = count(shards as usize, "data file");
            format!("checkpoint{of}, version 2, {files}")
        }
        CheckpointReader::Table(_) => "checkpoint, version 1".to_owned(),
        CheckpointReader::Safetensors(_) | CheckpointReader::Npz(_) => kind.to_owned(),
    };
    let mut variables = match values {
        true => variables(&reader),
        false => BTreeMap::new(),
    };
    let (mut rows, mut damage) = (Vec::new(), None);
    let in_file = |e: FormatError| e.in_file(path);
    let progress = Progress::of_tensors(&reader);
    for (name, dtype, shape) in reader.entries() {
        let (mut bytes, mut statistics) = (size(dtype, shape), None);
        let mut unread = None;
        if values {
            let read = reader.get_tensor(name).map_err(in_file).and_then(|tensor| {
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
                    unread = Some((why(&e), e.to_string()));
                    damage.get_or_insert(e);
                }
            }
        }
        progress.add(bytes.unwrap_or(0));
        rows.push(Row {
            name: name.to_owned(),
            variable: variables.remove(name).unwrap_or_default(),
            dtype: dtype.name(),
            shape: shape.to_vec(),
            bytes,
            statistics,
            unread,
        });
    }
    drop(progress);
    let left: Vec<(&str, &str)> = reader
        .unsupported()
        .into_iter()
        .map(|(name, why)| (name, why.cause.as_str()))
        .collect();
    let metadata = match &reader {
        CheckpointReader::Safetensors(file) => file.metadata().clone(),
        CheckpointReader::Bundle(_) | CheckpointReader::Table(_) | CheckpointReader::Npz(_) => {
            BTreeMap::new()
        }
    };
    match format {
        Format::Text => {
            text(path, &about, &rows, values);
            for (name, why) in left {
                say(format_args!("{name}: not read: {why}"));
            }
            for (name, value) in &metadata {
                say(format_args!("metadata {name}: {value}"));
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
            if !metadata.is_empty() {
                all["metadata"] = json!(metadata);
            }
            print(all);
        }
    }
    damage.map_or(Ok(()), Err)
}

/// The full names of the variables of an object graph, by their checkpoint keys.
fn variables(reader: &CheckpointReader) -> BTreeMap<String, String> {
    let graph = reader.object_graph().ok().flatten().unwrap_or_default();
    let values = graph.nodes.into_iter().flat_map(|node| node.values);
    let named = values.filter(|value| !value.full_name.is_empty());
    named.map(|value| (value.key, value.full_name)).collect()
}

const DAMAGED: &str = "damaged";

/// Why a tensor could not be read, in a word or two.
fn why(error: &FormatError) -> &'static str {
    match error.code {
        Code::NotFound => "missing",
        Code::PermissionDenied => "not allowed",
        Code::ResourceExhausted => "too large",
        Code::Unimplemented => "not known",
        Code::Internal => "unreadable",
        _ => DAMAGED,
    }
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
        ("name", Align::Left),
        ("dtype", Align::Left),
        ("shape", Align::Left),
        ("bytes", Align::Right),
    ];
    let has_variables = rows.iter().any(|row| !row.variable.is_empty());
    if has_variables {
        head.insert(1, ("variable", Align::Left));
    }
    if values {
        head.extend(["min", "mean", "max", "nan"].map(|name| (name, Align::Right)));
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
        if has_variables {
            cells.insert(1, row.variable.clone());
        }
        if values {
            cells.extend(match (row.statistics, &row.unread) {
                (Some(s), _) => {
                    let [min, mean, max] = match s.range {
                        Some(r) => [r.min, Number::Real(r.mean), r.max].map(cell),
                        None => [const { String::new() }; 3],
                    };
                    [min, mean, max, s.nan.to_string()]
                }
                (None, Some((why, _))) => [*why, "", "", ""].map(str::to_owned),
                (None, None) => [const { String::new() }; 4],
            });
        }
        cells
    });
    for line in columns::lines(&head, &cells.collect::<Vec<_>>()) {
        say(line);
    }
}

/// A bound or a mean; integers have all their digits.
fn cell(number: Number) -> String {
    match number {
        Number::Integer(n) => n.to_string(),
        Number::Real(x) => columns::number(x),
        Number::Complex(..) => String::new(),
    }
}

fn to_json(path: &Path, kind: &str, about: &str, rows: &[Row]) -> serde_json::Value {
    let tensors: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut tensor = json!({
                "name": row.name, "dtype": row.dtype, "shape": row.shape, "bytes": row.bytes,
                "damaged": row.unread.as_ref().is_some_and(|(why, _)| *why == DAMAGED),
            });
            if !row.variable.is_empty() {
                tensor["variable"] = json!(row.variable);
            }
            if let Some((why, cause)) = &row.unread {
                tensor["unread"] = json!(why);
                tensor["cause"] = json!(cause);
            }
            if let Some(s) = row.statistics {
                if let Some(range) = s.range {
                    tensor["min"] = json_of(range.min);
                    tensor["mean"] = json_of(Number::Real(range.mean));
                    tensor["max"] = json_of(range.max);
                }
                tensor["nan"] = json!(s.nan);
                tensor["infinite"] = json!(s.infinite);
            }
            tensor
        })
        .collect();
    json!({ "kind": kind, "path": path.display().to_string(), "about": about, "tensors": tensors })
}
