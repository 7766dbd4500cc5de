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

/// Shows the file, then each of its first records. It is read twice up to the last of them, so that none is held.
pub(crate) fn show(path: &Path, first: u64, format: Format) -> Result<(), FormatError> {
    // A truncated file is damaged, however little is missing.
    let options = ReaderOptions {
        ending: Ending::Strict,
        ..ReaderOptions::default()
    };
    let mut reader = RecordReader::open(path, &options)?;
    let mut table = Table::default();
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
        if number < MAX_SCANNED_RECORDS {
            table.add(&Content::of(record));
        }
    };
    drop(progress);
    let compression = match reader.compression() {
        Compression::None => "not compressed",
        Compression::Gzip => "GZIP",
        Compression::Zlib => "ZLIB",
    };
    let (records, scanned) = (reader.records(), reader.records().min(MAX_SCANNED_RECORDS));
    match format {
        Format::Text => {
            let end = match &damage {
                Some(_) => ", up to the first damage",
                None => "",
            };
            say(format_args!(
                "{}: records, {compression}, {} of {}{end}",
                path.display(),
                count(records as usize, "record"),
                columns::bytes(bytes)
            ));
            if scanned < records && !table.is_empty() {
                say(format_args!(
                    "features of the first {scanned} records, not of all {records}:"
                ));
            }
            rows("feature", &table.features, scanned);
            rows("feature list", &table.lists, scanned);
        }
        Format::Json => {
            let statistics = |all: &BTreeMap<String, FeatureStatistics>| -> serde_json::Value {
                let each = |(name, one): (&String, &FeatureStatistics)| one.json(name);
                all.iter().map(each).collect()
            };
            print(json!({
                "kind": "records",
                "path": path.display().to_string(),
                "compression": compression,
                "records": records,
                "bytes": bytes,
                "damage": damage.as_ref().map(|e| json!({ "offset": e.offset, "cause": e.cause })),
                "scanned": scanned,
                "features": statistics(&table.features),
                "feature_lists": statistics(&table.lists),
            }));
        }
    }
    let mut reader = RecordReader::open(path, &options)?;
    for number in 0..first.min(records) {
        let Some(record) = reader.next()? else {
            break;
        };
        let (content, bytes) = (Content::of(record), record.len());
        match format {
            Format::Text => {
                say(format_args!("record {number}, {bytes} bytes"));
                content.lines().into_iter().for_each(say);
            }
            Format::Json => {
                let mut record = content.json();
                record["kind"] = json!("record");
                record["path"] = json!(path.display().to_string());
                record["record"] = json!(number);
                record["bytes"] = json!(bytes);
                print(record);
            }
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
    columns::lines(&head, &cells).for_each(say);
}
