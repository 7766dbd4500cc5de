//! What differs between two runs: settings, and lines of their specs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use trainspec::runs::RunSummary;

use crate::Format;
use crate::columns::{self, Align};
use crate::failure::Failure;
use crate::output::{plain, print, say};

/// A setting by its name, and its values in both runs.
type Difference = (String, Option<String>, Option<String>);

/// Prints what differs.
pub(super) fn show(a: &RunSummary, b: &RunSummary, format: Format) -> Result<(), Failure> {
    let settings = settings(a, b);
    let lines = lines(a, b);
    match format {
        Format::Json => print(json!({
            "a": a.path.display().to_string(),
            "b": b.path.display().to_string(),
            "settings": settings.iter().map(setting_json).collect::<Vec<_>>(),
            "spec": lines,
        })),
        Format::Text => {
            if settings.is_empty() && lines.is_empty() {
                say("the settings and the specs of the two runs are the same");
            }
            if !settings.is_empty() {
                let names = [plain(a.path.display()), plain(b.path.display())];
                let head = [
                    ("setting", Align::Left),
                    (names[0].as_str(), Align::Left),
                    (names[1].as_str(), Align::Left),
                ];
                let shown = |value: &Option<String>| value.as_deref().map_or("-".to_owned(), plain);
                let row = |(name, a, b): &Difference| vec![plain(name), shown(a), shown(b)];
                let rows: Vec<Vec<String>> = settings.iter().map(row).collect();
                columns::lines(&head, &rows).for_each(say);
            }
            if !lines.is_empty() {
                if !settings.is_empty() {
                    print("");
                }
                say(format_args!("--- {}/spec.trainspec", a.path.display()));
                say(format_args!("+++ {}/spec.trainspec", b.path.display()));
                lines.iter().for_each(say);
            }
        }
    }
    Ok(())
}

fn setting_json((name, a, b): &Difference) -> Value {
    json!({ "setting": name, "a": a, "b": b })
}

/// The settings that differ, by name.
fn settings(a: &RunSummary, b: &RunSummary) -> Vec<Difference> {
    let mut both: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
    for (name, value) in &a.settings {
        both.entry(name).or_default().0 = Some(value);
    }
    for (name, value) in &b.settings {
        both.entry(name).or_default().1 = Some(value);
    }
    let differing = both.into_iter().filter(|(_, (a, b))| a != b);
    let owned = |value: Option<&str>| value.map(ToOwned::to_owned);
    differing
        .map(|(name, (a, b))| (name.to_owned(), owned(a), owned(b)))
        .collect()
}

/// The lines of the specs that differ, after `-` and `+`.
fn lines(a: &RunSummary, b: &RunSummary) -> Vec<String> {
    let diff = TextDiff::from_lines(&a.text, &b.text);
    let changes = diff.iter_all_changes().filter_map(|change| {
        let sign = match change.tag() {
            ChangeTag::Equal => return None,
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        Some(format!("{sign}{}", change.value().trim_end()))
    });
    changes.collect()
}
