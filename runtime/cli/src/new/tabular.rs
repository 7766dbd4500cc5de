//! A spec for a table: categories by vocabularies, numbers standardized, missing values with a column of their own (feature engineering).
//!
//! In: a profile and the name of the target. Out: the text of a spec that checks without a warning. Leaves alone: files.

use std::fmt::Write;
use std::path::Path;

use crate::failure::Failure;
use crate::new::profile::{Column, Kind, Table};

/// The most classes of a target of integers.
const MAX_INTEGER_CLASSES: usize = 20;

/// The most classes.
const MAX_CLASSES: usize = 1_000;

/// The most words of a category that becomes a vector of zeros and a one.
const MAX_ONE_HOT: usize = 32;

/// The most words of a vocabulary; more are hashed.
const MAX_VOCABULARY: usize = 10_000;

/// The buckets of hashed words.
const HASH_BUCKETS: usize = 4_096;

/// The records that are needed.
const MIN_RECORDS: u64 = 10;

/// The words that a comment shows.
const SHOWN_WORDS: usize = 4;

/// Columns that the spec does not use, and why.
type LeftOut = Vec<(String, String)>;

/// A spec that was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) left_out: LeftOut,
}

/// What is predicted.
enum Target {
    /// One of some words.
    Words(Vec<(String, u64)>),
    /// An integer from 0 to below a number.
    Classes(usize),
    /// A number, with its mean and standard deviation.
    Number(f64, f64),
}

/// How a column of words becomes numbers.
enum Category {
    OneHot(usize),
    Embedding(usize),
    Hashed,
}

/// A feature of the spec.
struct Feature<'t> {
    name: String,
    column: &'t Column,
    /// The number of columns of a table without a header that it takes.
    width: usize,
    role: Role,
}

enum Role {
    Number,
    Category(Category),
    Target,
    /// A table without a header has it, and nothing reads it.
    Unused,
}

/// The spec.
pub(super) fn spec(
    name: &str,
    data: &Path,
    table: &Table,
    target: &str,
) -> Result<Written, Failure> {
    if table.rows < MIN_RECORDS {
        let message = format!(
            "the table has {} records, and a training needs {MIN_RECORDS}",
            table.rows
        );
        return Err(Failure::input(message));
    }
    let index = find(table, target)?;
    let predicted = target_of(&table.columns[index])?;
    let (features, left_out) = features(table, index)?;
    let writer = Writer {
        name,
        data,
        table,
        features: &features,
        target: &predicted,
        out: String::new(),
    };
    Ok(Written {
        text: writer.spec(),
        left_out,
    })
}

/// The index of a column.
fn find(table: &Table, target: &str) -> Result<usize, Failure> {
    let names = || table.columns.iter().map(|column| column.name.as_str());
    let found: Vec<usize> = (names().enumerate())
        .filter(|(_, name)| *name == target)
        .map(|(i, _)| i)
        .collect();
    match found[..] {
        [one] => return Ok(one),
        [] => {}
        _ => {
            return Err(Failure::input(format!(
                "there are {} columns `{target}`",
                found.len()
            )));
        }
    }
    if !table.header {
        let message = format!("there is no column `{target}`");
        let help = format!(
            "the table has no header: a column is a number from 1 to {}",
            table.columns.len()
        );
        return Err(Failure::input(message).help(help));
    }
    let near = trainspec_compiler::diag::nearest(target, names());
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut shown: Vec<String> = names().take(12).map(|name| format!("`{name}`")).collect();
            if table.columns.len() > 12 {
                shown.push("...".to_owned());
            }
            format!("its columns are {}", shown.join(", "))
        }
    };
    Err(Failure::input(format!("there is no column `{target}`")).help(help))
}

fn target_of(column: &Column) -> Result<Target, Failure> {
    let name = &column.name;
    let kind = column.kind();
    let words = column.all_words();
    match (kind, words) {
        (Kind::Constant, _) => {
            let message = format!("`{name}` is constant: there is nothing to learn");
            Err(Failure::input(message))
        }
        (Kind::Number, _) => {
            let (mean, deviation) = column.moments();
            Ok(Target::Number(mean, deviation))
        }
        (Kind::Integer | Kind::Id, Some(words)) if column.is_numeric() => {
            if words.len() > MAX_INTEGER_CLASSES {
                let (mean, deviation) = column.moments();
                return Ok(Target::Number(mean, deviation));
            }
            let mut sorted = words;
            sorted.sort_by_key(|(word, _)| word.parse::<i64>().unwrap_or_default());
            let is_range = (sorted.iter().enumerate()).all(|(i, (word, _))| *word == i.to_string());
            match is_range && column.gaps() == 0 {
                true => Ok(Target::Classes(sorted.len())),
                false => Ok(Target::Words(sorted)),
            }
        }
        (Kind::Integer, _) => {
            let (mean, deviation) = column.moments();
            Ok(Target::Number(mean, deviation))
        }
        (Kind::Words, Some(mut words)) if words.len() <= MAX_CLASSES => {
            words.sort();
            Ok(Target::Words(words))
        }
        (Kind::Words | Kind::Text | Kind::Id, _) => {
            let message = format!(
                "`{name}` has another value in almost every record, which cannot be learnt as classes"
            );
            Err(Failure::input(message).help("choose a column of numbers, or of few words"))
        }
    }
}

/// The features of all columns, and those that are left out.
fn features(table: &Table, target: usize) -> Result<(Vec<Feature<'_>>, LeftOut), Failure> {
    let mut all: Vec<Feature<'_>> = Vec::new();
    let mut left_out = Vec::new();
    let mut names: Vec<String> = vec!["numbers".to_owned(), "x".to_owned(), "h".to_owned()];
    for (i, column) in table.columns.iter().enumerate() {
        let shown = match table.header {
            true => format!("`{}`", column.name),
            false => format!("column {}", column.name),
        };
        let is_twice = table.header
            && table
                .columns
                .iter()
                .filter(|other| other.name == column.name)
                .count()
                > 1;
        let words = column.all_words().map(|words| words.len());
        let (role, why) = match (column.kind(), words) {
            _ if i == target => (Role::Target, None),
            _ if is_twice => (Role::Unused, Some("another column has this name")),
            // Among numbers without names, such as pixels, a constant does no harm.
            (Kind::Constant, _) if !table.header && column.is_numeric() => (Role::Number, None),
            (Kind::Constant, _) => (Role::Unused, Some("it is constant")),
            (Kind::Id, _) => (
                Role::Unused,
                Some("it is different in each record, like an id"),
            ),
            (Kind::Text, _) => (
                Role::Unused,
                Some("it is free text; `words` and `vocabulary` make ids of it"),
            ),
            (Kind::Integer | Kind::Number, _) => (Role::Number, None),
            (Kind::Words, Some(n)) if n <= MAX_ONE_HOT => {
                (Role::Category(Category::OneHot(n)), None)
            }
            (Kind::Words, Some(n)) if n <= MAX_VOCABULARY => {
                (Role::Category(Category::Embedding(n)), None)
            }
            (Kind::Words, _) => (Role::Category(Category::Hashed), None),
        };
        if let Some(why) = why {
            left_out.push((shown, why.to_owned()));
            if table.header {
                continue;
            }
        }
        // Numbers beside each other are one feature, where no header names them.
        if !table.header
            && let (Role::Number, 0, Some(last)) = (&role, column.gaps(), all.last_mut())
            && matches!(last.role, Role::Number)
            && last.column.gaps() == 0
        {
            last.width += 1;
            continue;
        }
        let own = match (table.header, &role) {
            (true, _) => identifier(&column.name),
            (false, Role::Number) => "values".to_owned(),
            (false, Role::Category(_)) => "word".to_owned(),
            (false, Role::Target) => "target".to_owned(),
            (false, Role::Unused) => "unused".to_owned(),
        };
        all.push(Feature {
            name: unique(own, &mut names),
            column,
            width: 1,
            role,
        });
    }
    let is_input = |feature: &Feature<'_>| matches!(feature.role, Role::Number | Role::Category(_));
    if !all.iter().any(is_input) {
        let message = "no column is left to predict from";
        return Err(Failure::input(message));
    }
    Ok((all, left_out))
}

/// A name that is not taken.
fn unique(name: String, names: &mut Vec<String>) -> String {
    let mut candidates = (1..).map(|i| match i {
        1 => name.clone(),
        i => format!("{name}_{i}"),
    });
    let free = candidates
        .find(|one| !names.contains(one))
        .expect("numbers go on");
    names.push(free.clone());
    free
}

/// The words that a name cannot be, and those that mean something in a data set or a model.
const RESERVED: [&str; 30] = [
    "as",
    "batch",
    "cluster",
    "const",
    "data",
    "else",
    "export",
    "false",
    "filter",
    "fn",
    "for",
    "if",
    "in",
    "int",
    "let",
    "loss",
    "map",
    "metric",
    "none",
    "output",
    "param",
    "precision",
    "quantize",
    "scan",
    "state",
    "step",
    "training",
    "true",
    "use",
    "yield",
];

/// A name of the language that is like a text: letters, digits and `_`.
pub(super) fn identifier(text: &str) -> String {
    let mut name = String::new();
    for c in text.trim().chars() {
        match c.is_ascii_alphanumeric() {
            true => name.push(c.to_ascii_lowercase()),
            false if name.ends_with('_') || name.is_empty() => {}
            false => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_').to_owned();
    let is_function = trainspec_compiler::ir::ops::TABLE
        .iter()
        .any(|op| op.name == name || op.aliases.contains(&name.as_str()));
    match name.chars().next() {
        None => "column".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("c_{name}"),
        Some(_) if is_function || RESERVED.contains(&name.as_str()) => format!("{name}_value"),
        Some(_) => name,
    }
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

    fn categories(&self) -> impl Iterator<Item = (&Feature<'_>, &Category)> {
        self.features
            .iter()
            .filter_map(|feature| match &feature.role {
                Role::Category(category) => Some((feature, category)),
                Role::Number | Role::Target | Role::Unused => None,
            })
    }

    /// The numbers of a record, those for missing values among them.
    fn number_count(&self) -> usize {
        self.numbers()
            .map(|feature| feature.width + usize::from(feature.column.gaps() > 0))
            .sum()
    }

    fn spec(mut self) -> String {
        let target = self.target_feature().name.clone();
        let holdout = self.table.rows / 5;
        let trained = self.table.rows - holdout;
        let batch = if self.table.rows < 300 { 16 } else { 32 };
        let steps = (30 * trained / batch)
            .clamp(300, 5_000)
            .next_multiple_of(100);
        let inputs = self
            .features
            .iter()
            .filter(|f| matches!(f.role, Role::Number | Role::Category(_)));
        let inputs: usize = inputs.map(|feature| feature.width).sum();
        self.line(format!(
            "//! {}: `{target}` from {inputs} columns of {}.",
            self.name,
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
        self.data_set("train_set", "train", &target);
        self.line(format!(
            "    shuffle (buffer: {}, seed: 2);",
            trained.clamp(100, 10_000)
        ));
        self.line("    repeat;");
        self.line(format!("    batch   {batch};\n}}\n"));
        self.line("/// The records that the training does not see: the same maps, without shuffling and repeating.");
        self.data_set("test_set", "holdout", &target);
        self.line("    batch   (size: 100, remainder: keep);\n}\n");
        self.model(&target);
        self.line("train {");
        self.line("    data      train_set;");
        self.line("    schedule  lr = cosine_decay(0.01, decay_steps: STEPS);");
        self.line("    optimizer adam(learning_rate: lr);");
        self.line("    clip      global_norm(5.0);");
        self.line("    steps     STEPS;");
        self.line("    seed      1;\n}\n");
        let every = (steps / 5).max(1);
        let (metric, mode) = match self.target {
            Target::Words(_) | Target::Classes(_) => ("accuracy", ""),
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
        match self.target {
            Target::Words(words) => {
                let list: Vec<String> = words.iter().map(|(word, _)| quoted(word)).collect();
                let counts: Vec<String> = words
                    .iter()
                    .take(20)
                    .map(|(_, count)| count.to_string())
                    .collect();
                let more = if words.len() > 20 { ", ..." } else { "" };
                self.line(format!(
                    "\n// The classes, with {}{more} records.",
                    counts.join(", ")
                ));
                self.line(format!("const CLASSES = [{}];\n", list.join(", ")));
            }
            Target::Classes(_) => self.line(""),
            Target::Number(mean, deviation) => {
                let (mean, deviation) = (short(*mean), short(*deviation));
                self.line(format!("\n// Mean and standard deviation of `{name}`: the model predicts in these units."));
                self.line(format!("const TARGET_MEAN = {mean};"));
                self.line(format!("const TARGET_SCALE = {deviation};\n"));
            }
        }
    }

    fn data_set(&mut self, set: &str, part: &str, target: &str) {
        self.line(format!("data {set} {{"));
        let used: Vec<usize> = (self.table.columns.iter().enumerate())
            .filter(|(_, column)| {
                self.features
                    .iter()
                    .any(|f| std::ptr::eq(f.column, *column))
            })
            .map(|(i, _)| i)
            .collect();
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
        let missing: Vec<String> = self
            .table
            .missing(&used)
            .iter()
            .map(|word| quoted(word))
            .collect();
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
            let line = self.feature(feature, set == "train_set");
            self.line(line);
        }
        let target_feature = self.target_feature();
        if target_feature.column.gaps() > 0 {
            self.line(format!(
                "    filter  !is_missing({target}); // a record without it teaches nothing"
            ));
        }
        self.line(format!(
            "    split   (part: {part}, holdout: 0.2, seed: 1);"
        ));
        let maps = self.maps(target);
        maps.into_iter().for_each(|map| self.line(map));
    }

    fn feature(&self, feature: &Feature<'_>, comments: bool) -> String {
        let column = feature.column;
        let is_string = match (&feature.role, self.target) {
            (Role::Category(_) | Role::Unused, _) | (Role::Target, Target::Words(_)) => true,
            (Role::Target | Role::Number, _) => false,
        };
        let ty = match (&feature.role, self.target) {
            _ if is_string => "string".to_owned(),
            (Role::Target, Target::Classes(n)) => format!("i64 in 0..{n}"),
            _ if feature.width > 1 => format!("f32[{}]", feature.width),
            _ => "f32".to_owned(),
        };
        let key = match self.table.header && feature.name != column.name {
            true => format!(" as {}", quoted(&column.name)),
            false => String::new(),
        };
        // The key comes before the bounds.
        let (ty, bounds) = ty
            .split_once(" in ")
            .map_or((ty.as_str(), String::new()), |(ty, bounds)| {
                (ty, format!(" in {bounds}"))
            });
        let mut line = format!("    feature {}: {ty}{key}{bounds};", feature.name);
        if comments {
            let note = note(feature, self.target);
            if !note.is_empty() {
                let _ = write!(line, " // {note}");
            }
        }
        line
    }

    fn maps(&self, target: &str) -> Vec<String> {
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
            if feature.column.gaps() > 0 {
                maps.push(format!(
                    "    map     no_{name} = cast(is_missing({name}), f32);"
                ));
                maps.push(format!(
                    "    map     {name} = where(is_missing({name}), 0.0, standardize({name}));"
                ));
                scalars.push(name.clone());
                scalars.push(format!("no_{name}"));
                continue;
            }
            maps.push(format!("    map     {name} = standardize({name});"));
            match feature.width {
                1 => scalars.push(name.clone()),
                _ => vectors.push(name.clone()),
            }
        }
        if !scalars.is_empty() {
            vectors.push(format!("stack([{}])", scalars.join(", ")));
        }
        match vectors.as_slice() {
            [] => {}
            [one] => maps.push(format!("    map     numbers = {one};")),
            several => maps.push(format!(
                "    map     numbers = concat([{}], axis: 0);",
                several.join(", ")
            )),
        }
        if let Target::Words(_) = self.target {
            maps.push(format!(
                "    map     {target} = vocabulary({target}, from: CLASSES, oov: 0);"
            ));
        }
        maps
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
        let classes = match self.target {
            Target::Words(words) => Some(words.len()),
            Target::Classes(n) => Some(*n),
            Target::Number(..) => None,
        };
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
                    Target::Words(_) => {
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
    let column = feature.column;
    let gaps = match column.gaps() {
        0 => String::new(),
        n => format!(", {n} missing"),
    };
    match (&feature.role, target) {
        (Role::Unused, _) => "not used".to_owned(),
        (Role::Number, _) if feature.width > 1 => String::new(),
        (Role::Number, _) | (Role::Target, Target::Number(..)) => {
            format!(
                "{} to {}{gaps}",
                short(column.least),
                short(column.greatest)
            )
        }
        (Role::Target, _) => "what is predicted".to_owned(),
        (Role::Category(_), _) => {
            let words = column.all_words().unwrap_or_default();
            let mut shown: Vec<String> = (words.iter().take(SHOWN_WORDS))
                .map(|(word, _)| word.chars().filter(|c| !c.is_control()).take(20).collect())
                .collect();
            if words.len() > SHOWN_WORDS {
                shown.push(format!("... {} words", words.len()));
            }
            format!("{}{gaps}", shown.join(", "))
        }
    }
}

/// The width of an embedding.
fn width_of(ids: usize) -> usize {
    ((ids as f64).sqrt().round() as usize)
        .next_power_of_two()
        .clamp(4, 32)
}

/// A number with six significant digits, as a float of the language.
fn short(x: f64) -> String {
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
