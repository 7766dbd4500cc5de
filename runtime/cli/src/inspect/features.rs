//! Features of `tf.train.Example` and `SequenceExample` records: statistics per feature, and values as text and as JSON.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use trainspec_formats::examples::{self, Feature};
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::proto::{FeatureLists, Features};

use crate::columns::Align;
use crate::tensors::{json_bytes, json_short};

/// The most values of a feature that are shown.
const MAX_VALUES: usize = 8;

/// The most features of a record that are shown.
const MAX_FEATURES: usize = 20;

/// The content of a record.
#[derive(Debug)]
pub(super) enum Content {
    /// Features.
    Example(Features),
    /// Context features, and feature lists.
    Sequence(Features, FeatureLists),
    /// The first bytes of another message.
    Other(Vec<u8>),
}

/// Statistics of a feature over the scanned records.
#[derive(Debug, Default)]
pub(super) struct FeatureStatistics {
    kind: Option<&'static str>,
    /// The fewest and the most steps, if it is a list.
    steps: Option<(usize, usize)>,
    /// The fewest and the most values.
    values: Option<(usize, usize)>,
    /// The shortest and the longest of its strings.
    lengths: Option<(usize, usize)>,
    records: u64,
}

/// Statistics of all features, by name.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) features: BTreeMap<String, FeatureStatistics>,
    pub(super) lists: BTreeMap<String, FeatureStatistics>,
}

impl Content {
    /// Decodes a record. An `Example` is a prefix of a `SequenceExample`; one with feature lists is the latter.
    pub(super) fn of(record: &[u8]) -> Content {
        let decoded = examples::decode_sequence(record).ok();
        let fields =
            decoded.map(|message| (message.context.unwrap_or_default(), message.feature_lists));
        match fields {
            Some((context, Some(lists))) if !lists.feature_list.is_empty() => {
                Content::Sequence(context, lists)
            }
            Some((features, _)) if !features.feature.is_empty() => Content::Example(features),
            _ => Content::Other(prefix_of(record).to_vec()),
        }
    }

    /// A line for each feature, or one for the first bytes.
    pub(super) fn lines(&self) -> Vec<String> {
        let (features, lists) = match self {
            Content::Example(features) => (features, None),
            Content::Sequence(features, lists) => (features, Some(lists)),
            Content::Other(start) => {
                return vec![format!("  begins with {}", format_prefix(start))];
            }
        };
        let mut named: Vec<(&String, &Feature)> = features.feature.iter().collect();
        named.sort_by_key(|(name, _)| *name);
        let mut lines: Vec<String> = named
            .into_iter()
            .map(|(name, feature)| format!("  {name}: {}", values(feature)))
            .collect();
        let mut named: Vec<_> = lists.iter().flat_map(|l| &l.feature_list).collect();
        named.sort_by_key(|(name, _)| *name);
        lines.extend(named.into_iter().map(|(name, list)| {
            let all = list.feature.len();
            let steps = list.feature.iter().take(MAX_VALUES).map(values);
            let more = if all > MAX_VALUES { ", ..." } else { "" };
            let steps = steps.collect::<Vec<_>>().join(", ");
            format!("  {name}: {all} steps: {steps}{more}")
        }));
        let more = lines.len().saturating_sub(MAX_FEATURES);
        if more > 0 {
            lines.truncate(MAX_FEATURES);
            lines.push(format!("  … {more} more"));
        }
        lines
    }

    /// An object with `features` and `feature_lists`, or with `start`, the first bytes.
    pub(super) fn json(&self) -> Json {
        let features = |features: &Features| -> Json {
            let all = features.feature.iter();
            all.map(|(name, feature)| (name.clone(), json_values(feature)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        match self {
            Content::Example(all) => json!({ "features": features(all) }),
            Content::Sequence(all, lists) => {
                let lists = lists.feature_list.iter().map(|(name, list)| {
                    let steps: Json = list.feature.iter().map(json_values).collect();
                    (name.clone(), steps)
                });
                let lists: serde_json::Map<_, _> = lists.collect();
                json!({ "features": features(all), "feature_lists": lists })
            }
            Content::Other(start) => json!({ "start": json_bytes(start) }),
        }
    }
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.features.is_empty() && self.lists.is_empty()
    }

    pub(super) fn add(&mut self, content: &Content) {
        let (features, lists) = match content {
            Content::Example(features) => (features, None),
            Content::Sequence(features, lists) => (features, Some(lists)),
            Content::Other(_) => return,
        };
        for (name, feature) in &features.feature {
            let seen = self.features.entry(name.clone()).or_default();
            seen.records += 1;
            seen.add(feature);
        }
        for (name, list) in lists.iter().flat_map(|l| &l.feature_list) {
            let seen = self.lists.entry(name.clone()).or_default();
            seen.records += 1;
            widen(&mut seen.steps, list.feature.len());
            list.feature.iter().for_each(|feature| seen.add(feature));
        }
    }
}

/// The columns of a table of features, or of lists of them.
pub(super) fn head(name: &'static str) -> [(&'static str, Align); 6] {
    [
        (name, Align::Left),
        ("kind", Align::Left),
        ("steps", Align::Right),
        ("values", Align::Right),
        ("length", Align::Right),
        ("records", Align::Right),
    ]
}

impl FeatureStatistics {
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
    }

    pub(super) fn cells(&self, name: &str, scanned: u64) -> Vec<String> {
        let range = |range: Option<(usize, usize)>| match range {
            Some((least, most)) if least == most => least.to_string(),
            Some((least, most)) => format!("{least} to {most}"),
            None => String::new(),
        };
        vec![
            name.to_owned(),
            self.kind.unwrap_or("none").to_owned(),
            range(self.steps),
            range(self.values),
            range(self.lengths),
            format!("{} of {scanned}", self.records),
        ]
    }

    pub(super) fn json(&self, name: &str) -> Json {
        let mut seen = json!({
            "name": name, "kind": self.kind, "values": self.values, "lengths": self.lengths, "records": self.records,
        });
        if let Some(steps) = self.steps {
            seen["steps"] = json!(steps);
        }
        seen
    }
}

fn widen(range: &mut Option<(usize, usize)>, n: usize) {
    let (least, most) = range.unwrap_or((n, n));
    *range = Some((least.min(n), most.max(n)));
}

/// The first values of a feature.
fn values(feature: &Feature) -> String {
    let list_of = |all: usize, shown: Vec<String>| match all > MAX_VALUES {
        true => format!("[{}, ...] of {all}", shown.join(", ")),
        false => format!("[{}]", shown.join(", ")),
    };
    match &feature.kind {
        Some(Kind::BytesList(list)) => {
            let shown = list.value.iter().take(MAX_VALUES).map(|s| string(s));
            list_of(list.value.len(), shown.collect())
        }
        Some(Kind::FloatList(list)) => {
            let shown = list.value.iter().take(MAX_VALUES).map(ToString::to_string);
            list_of(list.value.len(), shown.collect())
        }
        Some(Kind::Int64List(list)) => {
            let shown = list.value.iter().take(MAX_VALUES).map(ToString::to_string);
            list_of(list.value.len(), shown.collect())
        }
        None => "nothing".to_owned(),
    }
}

/// All values of a feature.
fn json_values(feature: &Feature) -> Json {
    match &feature.kind {
        Some(Kind::BytesList(list)) => list.value.iter().map(|s| json_bytes(s)).collect(),
        Some(Kind::FloatList(list)) => list.value.iter().map(|x| json_short(*x)).collect(),
        Some(Kind::Int64List(list)) => json!(list.value),
        None => Json::Null,
    }
}

/// The most characters of a string that are shown.
const MAX_CHARS: usize = 40;

/// The first bytes of a record, cut at a character boundary if they are UTF-8.
fn prefix_of(record: &[u8]) -> &[u8] {
    let start = &record[..record.len().min(MAX_CHARS)];
    match std::str::from_utf8(start) {
        Err(e) if e.error_len().is_none() && start.len() < record.len() => {
            &start[..e.valid_up_to()]
        }
        _ => start,
    }
}

/// Bytes as a quoted string if they are UTF-8, else in hexadecimal.
fn format_prefix(start: &[u8]) -> String {
    match std::str::from_utf8(start) {
        Ok(text) => format!("{text:?}"),
        Err(_) => {
            let hex = start.iter().take(MAX_CHARS / 2).map(|b| format!("{b:02x}"));
            format!("the bytes {}", hex.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A quoted string if it is UTF-8 without control characters, else its first bytes.
fn string(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            let short: String = text.chars().take(MAX_CHARS).collect();
            let more = if short.len() < text.len() { "..." } else { "" };
            format!("{short:?}{more}")
        }
        _ => {
            let shown: String = bytes
                .iter()
                .take(MAX_CHARS / 4)
                .map(|b| format!("\\x{b:02x}"))
                .collect();
            let more = if bytes.len() > MAX_CHARS / 4 {
                "..."
            } else {
                ""
            };
            format!("b\"{shown}\"{more} ({} bytes)", bytes.len())
        }
    }
}
