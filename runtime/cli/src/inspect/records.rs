//! A file of records: how many there are, what features they have, and the first of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::records::{Compression, Ending, ReaderOptions, RecordReader};

use super::features::{Content, Seen, Table, head};
use crate::Format;
use crate::columns;
use crate::output::{count, print, say};
use crate::progress::Progress;

/// Of how many records the features are looked at.
const LOOKED_AT: u64 = 1000;

pub(crate) fn show(path: &Path, first: usize, format: Format) -> Result<(), FormatError> {
    // A file that ends too early is damaged, however little is missing.
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
        if number >= LOOKED_AT.max(first as u64) {
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
            let looked_at = reader.records().min(LOOKED_AT.max(first as u64));
            rows("feature", &table.features, looked_at);
            rows("feature list", &table.lists, looked_at);
            for (number, (length, content)) in shown.iter().enumerate() {
                say(format_args!("record {number}, {length} bytes"));
                content.lines().into_iter().for_each(say);
            }
        }
        Format::Json => {
            let seen = |all: &BTreeMap<String, Seen>| -> serde_json::Value {
                all.iter().map(|(name, seen)| seen.json(name)).collect()
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
                "features": seen(&table.features),
                "feature_lists": seen(&table.lists),
                "first": first.collect::<Vec<_>>(),
            }));
        }
    }
    damage.map_or(Ok(()), Err)
}

/// A table of features, without the columns that say nothing of any.
fn rows(name: &'static str, all: &BTreeMap<String, Seen>, looked_at: u64) {
    if all.is_empty() {
        return;
    }
    let cells: Vec<Vec<String>> = all
        .iter()
        .map(|(name, seen)| seen.cells(name, looked_at))
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
