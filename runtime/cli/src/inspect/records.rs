//! A file of records: how many there are, what features they have, and the first of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::examples::{self, Feature};
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::records::{Compression, ReaderOptions, RecordReader};

use crate::Format;
use crate::columns::{self, Side};
use crate::output::{count, print, say};
use crate::progress::{Progress, framed};

/// Of how many records the features are looked at.
const LOOKED_AT: u64 = 1000;

/// How many values of a feature are shown.
const VALUES: usize = 8;

/// What is known of a feature.
#[derive(Debug, Default)]
struct Seen {
    kind: Option<&'static str>,
    /// The fewest and the most values.
    values: Option<(usize, usize)>,
    /// The shortest and the longest of its strings.
    lengths: Option<(usize, usize)>,
    records: u64,
}

pub(crate) fn show(path: &Path, first: usize, format: Format) -> Result<(), FormatError> {
    let mut reader = RecordReader::open(path, &ReaderOptions::default())?;
    let (mut features, mut shown) = (BTreeMap::<String, Seen>::new(), Vec::new());
    let (mut bytes, mut examples_seen) = (0, 0);
    let progress = Progress::of_file(path);
    let damage = loop {
        let number = reader.records();
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break None,
            Err(e) => break Some(e),
        };
        bytes += record.len() as u64;
        progress.add(framed(record));
        if number >= LOOKED_AT.max(first as u64) {
            continue;
        }
        let example = examples::decode(record).ok();
        let named = example
            .and_then(|e| e.features)
            .filter(|f| !f.feature.is_empty());
        if let Some(all) = &named {
            examples_seen += 1;
            for (name, feature) in &all.feature {
                features.entry(name.clone()).or_default().add(feature);
            }
        }
        if shown.len() < first {
            shown.push((record.len(), named));
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
            say(format_args!(
                "{}: records, {compression}, {} of {}",
                path.display(),
                count(reader.records() as usize, "record"),
                columns::bytes(bytes)
            ));
            let looked_at = reader.records().min(LOOKED_AT.max(first as u64));
            if examples_seen > 0 {
                let head = [
                    ("feature", Side::Left),
                    ("kind", Side::Left),
                    ("values", Side::Right),
                    ("length", Side::Right),
                    ("records", Side::Right),
                ];
                let rows: Vec<_> = features
                    .iter()
                    .map(|(name, seen)| seen.cells(name, looked_at))
                    .collect();
                columns::lines(&head, &rows).into_iter().for_each(print);
            }
            for (number, (length, features)) in shown.iter().enumerate() {
                say(format_args!("record {number}, {length} bytes"));
                for (name, feature) in features.iter().flat_map(|f| &f.feature) {
                    say(format_args!("  {name}: {}", values(feature)));
                }
            }
        }
        Format::Json => print(json!({
            "kind": "records",
            "path": path.display().to_string(),
            "compression": compression,
            "records": reader.records(),
            "bytes": bytes,
            "features": features.iter().map(|(name, seen)| json!({
                "name": name, "kind": seen.kind, "values": seen.values, "lengths": seen.lengths, "records": seen.records,
            })).collect::<Vec<_>>(),
            "first": shown.iter().map(|(length, features)| json!({
                "bytes": length,
                "features": features.iter().flat_map(|f| &f.feature)
                    .map(|(name, feature)| (name.clone(), json!(values(feature))))
                    .collect::<serde_json::Map<_, _>>(),
            })).collect::<Vec<_>>(),
        })),
    }
    damage.map_or(Ok(()), Err)
}

impl Seen {
    fn add(&mut self, feature: &Feature) {
        let (kind, values) = match &feature.kind {
            Some(Kind::BytesList(list)) => ("bytes", list.value.len()),
            Some(Kind::FloatList(list)) => ("float", list.value.len()),
            Some(Kind::Int64List(list)) => ("int64", list.value.len()),
            None => ("none", 0),
        };
        if let Some(Kind::BytesList(list)) = &feature.kind {
            list.value
                .iter()
                .for_each(|s| widen(&mut self.lengths, s.len()));
        }
        self.kind = match self.kind {
            Some(other) if other != kind => Some("several"),
            _ => Some(kind),
        };
        widen(&mut self.values, values);
        self.records += 1;
    }

    fn cells(&self, name: &str, looked_at: u64) -> Vec<String> {
        let range = |range: Option<(usize, usize)>| match range {
            Some((least, most)) if least == most => least.to_string(),
            Some((least, most)) => format!("{least} to {most}"),
            None => String::new(),
        };
        vec![
            name.to_owned(),
            self.kind.unwrap_or("none").to_owned(),
            range(self.values),
            range(self.lengths),
            format!("{} of {looked_at}", self.records),
        ]
    }
}

fn widen(range: &mut Option<(usize, usize)>, n: usize) {
    let (least, most) = range.unwrap_or((n, n));
    *range = Some((least.min(n), most.max(n)));
}

/// The first values of a feature.
fn values(feature: &Feature) -> String {
    let some = |all: usize, shown: Vec<String>| match all > VALUES {
        true => format!("[{}, ...] of {all}", shown.join(", ")),
        false => format!("[{}]", shown.join(", ")),
    };
    match &feature.kind {
        Some(Kind::BytesList(list)) => {
            let shown = list.value.iter().take(VALUES).map(|s| string(s));
            some(list.value.len(), shown.collect())
        }
        Some(Kind::FloatList(list)) => {
            let shown = list.value.iter().take(VALUES).map(ToString::to_string);
            some(list.value.len(), shown.collect())
        }
        Some(Kind::Int64List(list)) => {
            let shown = list.value.iter().take(VALUES).map(ToString::to_string);
            some(list.value.len(), shown.collect())
        }
        None => "nothing".to_owned(),
    }
}

/// A string as text if it is one, else its first bytes.
fn string(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            let short: String = text.chars().take(SHOWN).collect();
            let more = if short.len() < text.len() { "..." } else { "" };
            format!("{short:?}{more}")
        }
        _ => {
            let shown: String = bytes
                .iter()
                .take(SHOWN / 4)
                .map(|b| format!("\\x{b:02x}"))
                .collect();
            let more = if bytes.len() > SHOWN / 4 { "..." } else { "" };
            format!("b\"{shown}\"{more} ({} bytes)", bytes.len())
        }
    }
}
