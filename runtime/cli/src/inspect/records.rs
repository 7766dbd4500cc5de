//! A TFRecord file: its number of records, statistics of their features, and the first records.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::records::{Compression, Ending, ReaderOptions, RecordReader};

use super::features::{Content, FeatureStatistics, Table, head};
use crate::Format;
use crate::columns;
use crate::output::{count, print, say};
use crate::progress::Progress;

/// The most records whose features are decoded for statistics.
const MAX_SCANNED_RECORDS: u64 = 1000;

pub(crate) fn show(path: &Path, first: usize, format: Format) -> Result<(), FormatError> {
    // A truncated file is damaged, however little is missing.
    let options = ReaderOptions {
        ending: Ending::Strict,
        ..ReaderOptions::default()
    };
    let mut reader = RecordReader::open(path, &options)?;
    let (mut table, mut shown) = (Table::default(), Vec::new());
    let mut bytes = 0;
    let progress = Progress::of_file(path);
    let damage = loop {
        let number = reader.records();
        progress.to(reader.bytes_read());
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break None,
            Err(e) => break Some(e),
        };
        bytes += record.len() as u64;
        if number >= MAX_SCANNED_RECORDS.max(first as u64) {
            continue;
        }
        let content = Content::of(record);
        table.add(&content);
        if shown.len() < first {
            shown.push((record.len(), content));
        }
    };
    drop(progress);
    let compression = match reader.compression() {
        Compression::None => "not compressed",
        Compression::Gzip => "GZIP",
        Compression::Zlib => "ZLIB",
    };
    match format {
        Format::Text => {
            let end = match &damage {
                Some(_) => ", up to the first damage",
                None => "",
            };
            say(format_args!(
                "{}: records, {compression}, {} of {}{end}",
                path.display(),
                count(reader.records() as usize, "record"),
                columns::bytes(bytes)
            ));
            let scanned = reader.records().min(MAX_SCANNED_RECORDS.max(first as u64));
            rows("feature", &table.features, scanned);
            rows("feature list", &table.lists, scanned);
            for (number, (length, content)) in shown.iter().enumerate() {
                say(format_args!("record {number}, {length} bytes"));
                content.lines().into_iter().for_each(say);
            }
        }
        Format::Json => {
            let statistics = |all: &BTreeMap<String, FeatureStatistics>| -> serde_json::Value {
                let each = |(name, one): (&String, &FeatureStatistics)| one.json(name);
                all.iter().map(each).collect()
            };
            let first = shown.iter().map(|(length, content)| {
                let mut record = content.json();
                record["bytes"] = json!(length);
                record
            });
            print(json!({
                "kind": "records",
                "path": path.display().to_string(),
                "compression": compression,
                "records": reader.records(),
                "bytes": bytes,
                "damage": damage.as_ref().map(|e| json!({ "offset": e.offset, "cause": e.cause })),
                "features": statistics(&table.features),
                "feature_lists": statistics(&table.lists),
                "first": first.collect::<Vec<_>>(),
            }));
        }
    }
    damage.map_or(Ok(()), Err)
}

/// A table of features, without empty columns.
fn rows(name: &'static str, all: &BTreeMap<String, FeatureStatistics>, scanned: u64) {
    if all.is_empty() {
        return;
    }
    let cells: Vec<Vec<String>> = all
        .iter()
        .map(|(name, one)| one.cells(name, scanned))
        .collect();
    let head = head(name);
    let is_used = |i: &usize| head[*i].0 != "steps" || cells.iter().any(|row| !row[*i].is_empty());
    let used: Vec<usize> = (0..head.len()).filter(is_used).collect();
    let head: Vec<_> = used.iter().map(|&i| head[i]).collect();
    let cells: Vec<Vec<String>> = cells
        .into_iter()
        .map(|row| used.iter().map(|&i| row[i].clone()).collect())
        .collect();
    columns::lines(&head, &cells).into_iter().for_each(say);
}
