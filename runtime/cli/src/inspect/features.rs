//! Features of Examples and SequenceExamples: what is known of each, and their values for people and for programs.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use trainspec_formats::examples::{self, Feature};
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::proto::{FeatureLists, Features};

use crate::columns::Side;
use crate::tensors::{json_bytes, json_short};

/// How many values of a feature are shown.
const VALUES: usize = 8;

/// How many features of a record are shown.
const FEATURES: usize = 20;

/// What a record holds.
#[derive(Debug)]
pub(super) enum Content {
    /// Features.
    Example(Features),
    /// Features of the whole, and lists with features for every step.
    Sequence(Features, FeatureLists),
    /// How it begins.
    Other(Vec<u8>),
}

/// What is known of a feature.
#[derive(Debug, Default)]
pub(super) struct Seen {
    kind: Option<&'static str>,
    /// The fewest and the most steps, if it is a list.
    steps: Option<(usize, usize)>,
    /// The fewest and the most values.
    values: Option<(usize, usize)>,
    /// The shortest and the longest of its strings.
    lengths: Option<(usize, usize)>,
    records: u64,
}

/// What is known of all features, by name.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) features: BTreeMap<String, Seen>,
    pub(super) lists: BTreeMap<String, Seen>,
}

impl Content {
    /// What a record holds. Both messages begin alike; one with lists is a sequence.
    pub(super) fn of(record: &[u8]) -> Content {
        let decoded = examples::decode_sequence(record).ok();
        let parts =
            decoded.map(|message| (message.context.unwrap_or_default(), message.feature_lists));
        match parts {
            Some((context, Some(lists))) if !lists.feature_list.is_empty() => {
                Content::Sequence(context, lists)
            }
            Some((features, _)) if !features.feature.is_empty() => Content::Example(features),
            _ => Content::Other(beginning_of(record).to_vec()),
        }
    }

    /// A line for each feature, or one for the first bytes.
    pub(super) fn lines(&self) -> Vec<String> {
        let (features, lists) = match self {
            Content::Example(features) => (features, None),
            Content::Sequence(features, lists) => (features, Some(lists)),
            Content::Other(start) => return vec![format!("  begins with {}", beginning(start))],
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
            let steps = list.feature.iter().take(VALUES).map(values);
            let more = if all > VALUES { ", ..." } else { "" };
            let steps = steps.collect::<Vec<_>>().join(", ");
            format!("  {name}: {all} steps: {steps}{more}")
        }));
        let more = lines.len().saturating_sub(FEATURES);
        if more > 0 {
            lines.truncate(FEATURES);
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
pub(super) fn head(name: &'static str) -> [(&'static str, Side); 6] {
    [
        (name, Side::Left),
        ("kind", Side::Left),
        ("steps", Side::Right),
        ("values", Side::Right),
        ("length", Side::Right),
        ("records", Side::Right),
    ]
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
    }

    pub(super) fn cells(&self, name: &str, looked_at: u64) -> Vec<String> {
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
            format!("{} of {looked_at}", self.records),
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

/// All values of a feature.
fn json_values(feature: &Feature) -> Json {
    match &feature.kind {
        Some(Kind::BytesList(list)) => list.value.iter().map(|s| json_bytes(s)).collect(),
        Some(Kind::FloatList(list)) => list.value.iter().map(|x| json_short(*x)).collect(),
        Some(Kind::Int64List(list)) => json!(list.value),
        None => Json::Null,
    }
}

/// Of how many letters a string is shown.
const SHOWN: usize = 40;

/// The first bytes of a record, which end where a letter does if they are text.
fn beginning_of(record: &[u8]) -> &[u8] {
    let start = &record[..record.len().min(SHOWN)];
    match std::str::from_utf8(start) {
        Err(e) if e.error_len().is_none() && start.len() < record.len() => {
            &start[..e.valid_up_to()]
        }
        _ => start,
    }
}

/// Bytes as text if they are, else as they are.
fn beginning(start: &[u8]) -> String {
    match std::str::from_utf8(start) {
        Ok(text) => format!("{text:?}"),
        Err(_) => {
            let hex = start.iter().take(SHOWN / 2).map(|b| format!("{b:02x}"));
            format!("the bytes {}", hex.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A string as text if it is one, else its first bytes.
fn string(bytes: &[u8]) -> String {
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
