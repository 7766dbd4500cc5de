//! A spec for a table: categories by vocabularies, numbers standardized, missing values with a column of their own.
//!
//! In: a profile and the name of the target. Out: the text of a spec that checks without a warning. Leaves alone: files.

use std::fmt::Write;
use std::path::Path;

use crate::failure::Failure;
use crate::new::column::short;
use crate::new::counted;
use crate::new::features::{self, Category, Feature, Features, Role, Target};
use crate::new::profile::Table;

/// The buckets of hashed words.
const HASH_BUCKETS: u64 = 4_096;

/// The words that a comment shows.
const SHOWN_WORDS: usize = 4;

/// The least steps of a training, and the most unless the records take more.
const STEPS: (u64, u64) = (300, 5_000);

/// The passes over the records that a training makes, and the least.
const PASSES: (u64, u64) = (30, 3);

/// The largest batch.
const MAX_BATCH: u64 = 1_024;

/// A spec that was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) left_out: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
}

/// The spec; it predicts a number, even of few values, where `regression` says so.
pub(super) fn spec(
    name: &str,
    data: &Path,
    table: &Table,
    target: &str,
    regression: bool,
) -> Result<Written, Failure> {
    let index = features::find(table, target)?;
    let column = &table.columns[index];
    let predicted = features::target_of(table, index, regression)?;
    let Features {
        all,
        left_out,
        mut notes,
    } = features::features(table, index, &predicted)?;
    if let Some(classes) = predicted.classes()
        && column.is_numeric()
        && classes > 2
    {
        notes.push(format!(
            "{} has {classes} distinct integers, which are classes; with `--regression` it is a number",
            column.label()
        ));
    }
    let writer = Writer {
        name,
        data,
        table,
        features: &all,
        target: &predicted,
        out: String::new(),
    };
    Ok(Written {
        text: writer.spec(),
        left_out,
        notes,
    })
}

/// The batch and the steps for a number of records: larger batches before more steps.
fn batch_and_steps(records: u64, trained: u64) -> (u64, u64) {
    let (passes, min_passes) = PASSES;
    let (min_steps, max_steps) = STEPS;
    let mut batch = if records < 300 { 16 } else { 32 };
    while batch < MAX_BATCH && min_passes * trained > max_steps * batch {
        batch *= 2;
    }
    let steps = (passes * trained / batch).clamp(min_steps, max_steps);
    let steps = steps.max((min_passes * trained).div_ceil(batch));
    (batch, steps.next_multiple_of(100))
}

/// Writes a spec.
struct Writer<'a> {
    name: &'a str,
    data: &'a Path,
    table: &'a Table,
    features: &'a [Feature<'a>],
    target: &'a Target,
    out: String,
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    fn target_feature(&self) -> &Feature<'_> {
        (self.features.iter())
            .find(|feature| matches!(feature.role, Role::Target))
            .expect("the target is a feature")
    }

    fn numbers(&self) -> impl Iterator<Item = &Feature<'_>> {
        (self.features.iter()).filter(|feature| matches!(feature.role, Role::Number))
    }

    fn categories(&self) -> impl Iterator<Item = (&Feature<'_>, Category)> {
        self.features
            .iter()
            .filter_map(|feature| match &feature.role {
                Role::Category(category) => Some((feature, *category)),
                Role::Number | Role::Target | Role::Unused => None,
            })
    }

    /// The numbers of a record, those for missing values among them.
    fn number_count(&self) -> usize {
        self.numbers()
            .map(|feature| match feature.missing_name {
                Some(_) => 2 * feature.columns.len(),
                None => feature.columns.len(),
            })
            .sum()
    }

    fn spec(mut self) -> String {
        let target = self.target_feature().name.clone();
        let holdout = self.table.rows / 5;
        let trained = self.table.rows - holdout;
        let (batch, steps) = batch_and_steps(self.table.rows, trained);
        let inputs = self.features.iter().filter(|feature| feature.is_input());
        let inputs: usize = inputs.map(|feature| feature.columns.len()).sum();
        self.line(format!(
            "//! {}: `{target}` from {} of {}.",
            self.name,
            counted(inputs as u64, "column"),
            self.data.display()
        ));
        self.line("//!");
        self.line(format!("//! Written by `trainspec new`, and yours to edit. `trainspec data {0}.trainspec train_set` shows what the data set gives,", self.name));
        self.line(format!(
            "//! `trainspec predict {0}.trainspec --input new.csv` predicts new records.",
            self.name
        ));
        self.line(format!("spec {}, edition 1;\n", self.name));
        self.line("const HIDDEN = 32; // units of the hidden layer: `--set HIDDEN=64` tries another number");
        self.line(format!(
            "const STEPS = {steps}; // about {} passes over the data",
            steps * batch / trained
        ));
        self.target_constants(&target);
        self.table(&target);
        self.line("data train_set {\n    source  table;");
        self.line("    split   (part: train, holdout: 0.2, seed: 1);");
        self.maps(&target);
        self.line(format!(
            "    shuffle (buffer: {}, seed: 2);",
            trained.clamp(100, 10_000)
        ));
        self.line("    repeat;");
        self.line(format!("    batch   {batch};\n}}\n"));
        self.line("/// The records that the training does not see: the same maps, without shuffling and repeating.");
        self.line("data test_set {\n    source  table;");
        self.line("    split   (part: holdout, holdout: 0.2, seed: 1);");
        self.maps(&target);
        self.line(format!(
            "    batch   (size: {}, remainder: keep);\n}}\n",
            batch.max(100)
        ));
        self.model(&target);
        self.line("train {");
        self.line("    data      train_set;");
        self.line("    // Ends at a tenth, so that more `--steps` go on learning. A longer schedule is a larger STEPS, from the start: `--fresh`.");
        self.line("    schedule  lr = cosine_decay(0.01, decay_steps: STEPS, alpha: 0.1);");
        self.line("    optimizer adam(learning_rate: lr);");
        self.line("    clip      global_norm(5.0);");
        self.line("    steps     STEPS;");
        self.line("    seed      1;\n}\n");
        let every = (steps / 5).max(1);
        let (metric, mode) = match self.target {
            Target::Words(_) | Target::Integers(..) | Target::Classes(_) => ("accuracy", ""),
            Target::Number(..) => ("absolute_error", ", mode: min"),
        };
        self.line(format!("eval {{ data test_set; every {every} steps; }}\n"));
        self.line("hooks {");
        self.line(format!("    checkpoint (dir: \"runs/{}\", every: {every} steps, keep: 3, best: {metric}{mode});", self.name));
        self.line(format!(
            "    log        ([loss, {metric}], every: {every} steps);\n}}"
        ));
        self.out
    }

    fn target_constants(&mut self, name: &str) {
        let (words, counts): (Vec<String>, Vec<u64>) = match self.target {
            Target::Words(words) => words.iter().cloned().unzip(),
            Target::Integers(integers, _) => {
                let integers = integers.iter();
                integers.map(|(n, count)| (n.to_string(), *count)).unzip()
            }
            Target::Classes(_) => return self.line(""),
            Target::Number(mean, deviation) => {
                let (mean, deviation) = (rounded(*mean), rounded(*deviation));
                self.line(format!("\n// Mean and standard deviation of `{name}`: the model predicts in these units."));
                self.line(format!("const TARGET_MEAN = {mean};"));
                return self.line(format!("const TARGET_SCALE = {deviation};\n"));
            }
        };
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let shown: Vec<String> = counts.iter().take(20).map(u64::to_string).collect();
        let more = if counts.len() > 20 { ", ..." } else { "" };
        self.line(format!(
            "\n// The classes, with {}{more} records.",
            shown.join(", ")
        ));
        self.line(format!("const CLASSES = [{}];\n", words.join(", ")));
    }

    /// The data set that the others take parts of.
    fn table(&mut self, target: &str) {
        self.line("/// The columns that are used.");
        self.line("data table {");
        let used = self.features.iter();
        let used = used.filter(|feature| !matches!(feature.role, Role::Unused));
        let used = used.flat_map(|feature| &feature.columns);
        let missing = self.table.missing(used.copied());
        let mut source = format!(
            "    source  csv({}",
            quoted(&self.data.display().to_string())
        );
        if self.table.header {
            source += ", header: true";
        }
        if self.table.delimiter != b',' {
            let shown = char::from(self.table.delimiter)
                .escape_default()
                .to_string();
            let _ = write!(source, ", delimiter: \"{shown}\"");
        }
        let missing: Vec<String> = missing.iter().map(|word| quoted(word)).collect();
        match missing.as_slice() {
            [] => {}
            [one] => {
                let _ = write!(source, ", missing: {one}");
            }
            several => {
                let _ = write!(source, ", missing: [{}]", several.join(", "));
            }
        }
        self.line(format!("{source});"));
        for feature in self.features {
            let line = self.feature(feature);
            self.line(line);
        }
        if self.target_feature().columns[0].gaps() > 0 {
            self.line(format!(
                "    filter  !is_missing({target}); // a record without it teaches nothing"
            ));
        }
        self.line("}\n");
    }

    fn feature(&self, feature: &Feature<'_>) -> String {
        let (dtype, bounds) = match (&feature.role, self.target) {
            (Role::Category(_) | Role::Unused, _) | (Role::Target, Target::Words(_)) => {
                ("string", String::new())
            }
            (Role::Target, Target::Classes(n)) => ("i64", format!(" in 0..{n}")),
            (Role::Target, Target::Integers(_, dtype)) => (*dtype, String::new()),
            (Role::Target, Target::Number(..)) | (Role::Number, _) => ("f32", String::new()),
        };
        let shape = match feature.columns.len() {
            1 => String::new(),
            n => format!("[{n}]"),
        };
        let key = match (self.table.header, feature.columns.as_slice()) {
            (false, _) => String::new(),
            (true, [one]) if one.name == feature.name => String::new(),
            (true, [one]) => format!(" as {}", quoted(&one.name)),
            (true, several) => {
                let names = several.iter().map(|column| quoted(&column.name));
                format!(" as [{}]", names.collect::<Vec<_>>().join(", "))
            }
        };
        let mut line = format!("    feature {}: {dtype}{shape}{key}{bounds};", feature.name);
        let note = note(feature, self.target);
        if !note.is_empty() {
            let _ = write!(line, " // {note}");
        }
        line
    }

    /// What a model reads of the columns. Each part of the table says it after its `split`, so that words and moments are of the training
    /// records alone.
    fn maps(&mut self, target: &str) {
        let mut maps = Vec::new();
        for (feature, category) in self.categories() {
            let name = &feature.name;
            maps.push(match category {
                Category::OneHot(n) | Category::Embedding(n) => {
                    format!(
                        "    map     {name} = vocabulary({name}, from: data, size: {n}, oov: 1);"
                    )
                }
                Category::Hashed => {
                    format!("    map     {name} = hash_bucket({name}, buckets: {HASH_BUCKETS});")
                }
            });
        }
        let mut vectors = Vec::new();
        let mut scalars = Vec::new();
        for feature in self.numbers() {
            let name = &feature.name;
            let list = match feature.columns.len() {
                1 => &mut scalars,
                _ => &mut vectors,
            };
            list.push(name.clone());
            match &feature.missing_name {
                Some(missing) => {
                    maps.push(format!(
                        "    map     {missing} = cast(is_missing({name}), f32);"
                    ));
                    maps.push(format!(
                        "    map     {name} = where(is_missing({name}), 0.0, standardize({name}));"
                    ));
                    list.push(missing.clone());
                }
                None => maps.push(format!("    map     {name} = standardize({name});")),
            }
        }
        if !scalars.is_empty() {
            vectors.push(format!("stack([{}])", scalars.join(", ")));
        }
        match vectors.as_slice() {
            [] => {}
            [one] if one == "numbers" => {}
            [one] => maps.push(format!("    map     numbers = {one};")),
            several => maps.push(format!(
                "    map     numbers = concat([{}], axis: 0);",
                several.join(", ")
            )),
        }
        let word = match self.target {
            Target::Words(_) => Some(target.to_owned()),
            Target::Integers(..) => Some(format!("cast({target}, i64)")),
            Target::Classes(_) | Target::Number(..) => None,
        };
        maps.extend(word.map(|word| {
            format!("    map     {target} = vocabulary({word}, from: CLASSES, oov: 0);")
        }));
        maps.into_iter().for_each(|map| self.line(map));
    }

    fn model(&mut self, target: &str) {
        let mut inputs = Vec::new();
        let mut parts = Vec::new();
        for (feature, category) in self.categories() {
            let name = &feature.name;
            let (ids, part) = match category {
                Category::OneHot(n) => (n + 1, format!("one_hot({name}, {})", n + 1)),
                Category::Embedding(n) => (
                    n + 1,
                    format!("{name} |> embedding({}, {})", n + 1, width_of(n + 1)),
                ),
                Category::Hashed => (
                    HASH_BUCKETS,
                    format!(
                        "{name} |> embedding({HASH_BUCKETS}, {})",
                        width_of(HASH_BUCKETS)
                    ),
                ),
            };
            inputs.push(format!("{name}: i64[batch] in 0..{ids}"));
            parts.push(part);
        }
        let numbers = self.number_count();
        if numbers > 0 {
            inputs.push(format!("numbers: f32[batch, {numbers}]"));
            parts.push("numbers".to_owned());
        }
        let classes = self.target.classes();
        inputs.push(match classes {
            Some(n) => format!("{target}: i64[batch] in 0..{n}"),
            None => format!("{target}: f32[batch]"),
        });
        self.line(format!("model ({}) {{", inputs.join(", ")));
        if parts.len() > 1 {
            self.line("    // Categories as vectors, beside the numbers.");
        }
        match parts.as_slice() {
            [one] => self.line(format!("    let x = {one};")),
            several => self.line(format!(
                "    let x = concat([{}], axis: 1);",
                several.join(", ")
            )),
        }
        self.line("    let h = x |> dense(HIDDEN, activation: relu) |> dropout(0.1);");
        match (classes, self.target) {
            (Some(n), target_kind) => {
                self.line(format!("    let logits = h |> dense({n});"));
                self.line(format!(
                    "    loss sparse_softmax_cross_entropy(labels: {target}, logits: logits);"
                ));
                self.line(format!("    metric accuracy = sparse_categorical_accuracy(labels: {target}, predictions: logits);"));
                self.line(match target_kind {
                    Target::Words(_) | Target::Integers(..) => {
                        format!("    output guess = words_of(argmax(logits, axis: 1), {target});")
                    }
                    Target::Classes(_) | Target::Number(..) => {
                        "    output guess = argmax(logits, axis: 1);".to_owned()
                    }
                });
                self.line("    output probabilities = softmax(logits);");
            }
            (None, _) => {
                self.line("    let guessed = TARGET_MEAN + TARGET_SCALE * dense(h, 1)[_, 0];");
                self.line(format!(
                    "    loss mean(square((guessed - {target}) / TARGET_SCALE));"
                ));
                self.line(format!(
                    "    metric absolute_error = abs(guessed - {target});"
                ));
                self.line("    output guess = guessed;");
            }
        }
        self.line("}\n");
    }
}

/// What a comment says of a column.
fn note(feature: &Feature<'_>, target: &Target) -> String {
    let [column] = feature.columns[..] else {
        let gaps: u64 = feature.columns.iter().map(|column| column.gaps()).sum();
        return match (&feature.role, gaps) {
            (Role::Unused, _) => "not used".to_owned(),
            (_, 0) => String::new(),
            (_, gaps) => format!("{gaps} missing"),
        };
    };
    let gaps = match column.gaps() {
        0 => String::new(),
        n => format!(", {n} missing"),
    };
    match (&feature.role, target) {
        (Role::Unused, _) => "not used".to_owned(),
        (Role::Number, _) | (Role::Target, Target::Number(..)) => {
            format!(
                "{} to {}{gaps}",
                rounded(column.least),
                rounded(column.greatest)
            )
        }
        (Role::Target, _) => "what is predicted".to_owned(),
        (Role::Category(_), _) => {
            let words = column.all_words().unwrap_or_default();
            let shown = words.iter().take(SHOWN_WORDS);
            let mut shown: Vec<String> = shown.map(|(word, _)| short(word)).collect();
            if words.len() > SHOWN_WORDS {
                shown.push(format!("... {} words", words.len()));
            }
            format!("{}{gaps}", shown.join(", "))
        }
    }
}

/// The width of an embedding.
fn width_of(ids: u64) -> u64 {
    ((ids as f64).sqrt().round() as u64)
        .next_power_of_two()
        .clamp(4, 32)
}

/// A number with six significant digits, as a float of the language.
fn rounded(x: f64) -> String {
    let text = format!("{x:.5e}");
    let rounded: f64 = text.parse().unwrap_or(x);
    format!("{rounded:?}")
}

/// A string of the language.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&c.escape_unicode().to_string()),
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::batch_and_steps;

    #[test]
    fn a_training_sees_each_record_three_times_or_more() {
        for records in [10, 100, 344, 20_000, 500_000, 5_000_000, 100_000_000] {
            let trained = records - records / 5;
            let (batch, steps) = batch_and_steps(records, trained);
            assert!(batch <= 1_024, "{records}: {batch}");
            assert!(
                steps * batch >= 3 * trained,
                "{records}: {steps} of {batch}"
            );
        }
        assert_eq!(batch_and_steps(344, 276), (32, 300));
        assert_eq!(batch_and_steps(500_000, 400_000), (256, 5_000));
    }
}
