//! What is in a table of comma-separated values: its separator and header, and for each column its type, words and gaps (data profiling).
//!
//! In: a file. Out: statistics of its columns, after one pass. Leaves alone: what a spec makes of them.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use trainspec_formats::codecs::CsvReader;

use crate::failure::Failure;

/// More distinct words of a column are not counted.
const MAX_COUNTED_WORDS: usize = 100_000;

/// The lines by which separator and header are found.
const SAMPLE_LINES: usize = 50;

/// What stands for a missing value in a column of numbers, besides an empty field.
const MISSING_NUMBERS: [&str; 10] = [
    "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none", "?", "-",
];

/// What stands for a missing value in a column of words.
const MISSING_WORDS: [&str; 7] = ["NA", "N/A", "NaN", "nan", "null", "NULL", "?"];

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) delimiter: u8,
    /// Whether the first line names the columns.
    pub(super) header: bool,
    pub(super) columns: Vec<Column>,
    pub(super) rows: u64,
}

/// A column of a table.
#[derive(Debug, Default)]
pub(super) struct Column {
    /// As the header has it; its number, from 1, without one.
    pub(super) name: String,
    /// The distinct fields that are not missing, in the order of their first appearance, each with its count; `None` where they are too many.
    pub(super) words: Option<Vec<(String, u64)>>,
    indices: HashMap<String, usize>,
    /// The fields that are not empty and not missing in a column of numbers.
    filled: u64,
    /// Those of them that are numbers, and integers.
    numbers: u64,
    integers: u64,
    /// The empty fields.
    pub(super) empty: u64,
    /// What else stands for a missing value, each with its count.
    missing: Vec<(String, u64)>,
    pub(super) least: f64,
    pub(super) greatest: f64,
    sum: f64,
    squares: f64,
    /// Whether each integer is one more than that before.
    counts_up: bool,
    last: Option<i64>,
    /// The words of all fields, between white space.
    parts: u64,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing but missing values, or one value.
    Constant,
    /// A number for each record, without a meaning.
    Id,
    Integer,
    Number,
    Words,
    /// Sentences.
    Text,
}

impl Table {
    /// Reads a file.
    pub(super) fn of_file(path: &Path) -> Result<Table, Failure> {
        let failed =
            |e: std::io::Error| Failure::input(format!("{}: cannot be read: {e}", path.display()));
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(4 << 20).read_to_end(&mut bytes).map_err(failed)?;
        let table = Table::sampled(&bytes, &path.display().to_string())?;
        let file = std::fs::File::open(path).map_err(failed)?;
        table.read(file, &path.display().to_string())
    }

    /// Reads a table in memory.
    pub(super) fn of_bytes(bytes: &[u8], name: &str) -> Result<Table, Failure> {
        Table::sampled(bytes, name)?.read(bytes, name)
    }

    /// The separator and the header, by the first lines.
    fn sampled(bytes: &[u8], name: &str) -> Result<Table, Failure> {
        if bytes.trim_ascii().is_empty() {
            return Err(Failure::input(format!("{name} is empty")));
        }
        if bytes.contains(&0) {
            let message = format!("{name} is no text: it has NUL bytes");
            return Err(Failure::input(message).help("a table is comma-separated values"));
        }
        let (delimiter, lines) = (b",;\t|".iter())
            .map(|delimiter| (*delimiter, sample(bytes, *delimiter)))
            .max_by_key(|(delimiter, lines)| {
                let width = lines.first().map_or(0, Vec::len);
                let is_even = lines.iter().all(|line| line.len() == width);
                // Of equals the first: a comma.
                (
                    is_even && width > 1,
                    width,
                    std::cmp::Reverse(b",;\t|".iter().position(|d| d == delimiter)),
                )
            })
            .expect("there are four separators");
        let Some((first, rest)) = lines.split_first() else {
            return Err(Failure::input(format!("{name} has no lines")));
        };
        let header = is_header(first, rest);
        let column = |(i, field): (usize, &String)| Column {
            name: match header {
                true => field.trim().to_owned(),
                false => (i + 1).to_string(),
            },
            words: Some(Vec::new()),
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            counts_up: true,
            ..Column::default()
        };
        Ok(Table {
            delimiter,
            header,
            columns: first.iter().enumerate().map(column).collect(),
            rows: 0,
        })
    }

    /// Reads all records.
    fn read(mut self, source: impl Read, name: &str) -> Result<Table, Failure> {
        let mut lines = CsvReader::new(source, self.delimiter);
        let mut skip = self.header;
        loop {
            let read = lines.read();
            match read.map_err(|e| Failure::input(format!("{name}:{}: {e}", lines.line())))? {
                false => break,
                true if std::mem::take(&mut skip) => continue,
                true => {}
            }
            let (found, width) = (lines.fields().len(), self.columns.len());
            if found != width {
                return Err(Failure::input(format!(
                    "{name}:{}: there are {found} fields, and the first line has {width}",
                    lines.line()
                )));
            }
            self.rows += 1;
            for (column, field) in self.columns.iter_mut().zip(lines.fields().iter()) {
                column.add(String::from_utf8_lossy(field).trim());
            }
        }
        if self.rows == 0 {
            return Err(Failure::input(format!(
                "{name} has a header and no records"
            )));
        }
        Ok(self)
    }

    /// What stands for missing values in the columns that are used, as a csv source has it.
    pub(super) fn missing(&self, used: &[usize]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for column in used.iter().map(|i| &self.columns[*i]) {
            if column.is_numeric() && column.empty > 0 && !words.contains(&String::new()) {
                words.push(String::new());
            }
            for (word, _) in &column.missing {
                let counts = column.is_numeric() || MISSING_WORDS.contains(&word.as_str());
                if counts && !words.contains(word) {
                    words.push(word.clone());
                }
            }
        }
        words.sort();
        words
    }
}

fn sample(bytes: &[u8], delimiter: u8) -> Vec<Vec<String>> {
    let mut reader = CsvReader::new(bytes, delimiter);
    let mut lines = Vec::new();
    while lines.len() < SAMPLE_LINES && reader.read().unwrap_or(false) {
        let fields = reader.fields().iter();
        lines.push(
            fields
                .map(|field| String::from_utf8_lossy(field).into_owned())
                .collect(),
        );
    }
    lines
}

/// Whether a first line names columns: it has no number, no name twice, and no field that comes again in its column.
fn is_header(first: &[String], rest: &[Vec<String>]) -> bool {
    let is_number = |field: &String| field.trim().parse::<f64>().is_ok();
    let mut names: Vec<&str> = first.iter().map(|name| name.trim()).collect();
    names.sort_unstable();
    let is_unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    let recurs = first.iter().enumerate().any(|(i, field)| {
        rest.iter()
            .any(|line| line.get(i).is_some_and(|other| other == field))
    });
    is_unique && !recurs && !first.iter().any(is_number)
}

impl Column {
    fn add(&mut self, field: &str) {
        if field.is_empty() {
            self.empty += 1;
            return;
        }
        if MISSING_NUMBERS.contains(&field) {
            match self.missing.iter_mut().find(|(word, _)| word == field) {
                Some((_, count)) => *count += 1,
                None => self.missing.push((field.to_owned(), 1)),
            }
            return;
        }
        self.filled += 1;
        self.parts += field.split_ascii_whitespace().count() as u64;
        self.count_word(field);
        let Some(x) = field.parse::<f64>().ok().filter(|x| x.is_finite()) else {
            return;
        };
        self.numbers += 1;
        self.least = self.least.min(x);
        self.greatest = self.greatest.max(x);
        self.sum += x;
        self.squares += x * x;
        if let Ok(n) = field.parse::<i64>() {
            self.integers += 1;
            self.counts_up &= self.last.is_none_or(|last| last.checked_add(1) == Some(n));
            self.last = Some(n);
        }
    }

    fn count_word(&mut self, word: &str) {
        let Some(words) = &mut self.words else {
            return;
        };
        match self.indices.get(word) {
            Some(index) => words[*index].1 += 1,
            None if words.len() == MAX_COUNTED_WORDS => self.words = None,
            None => {
                self.indices.insert(word.to_owned(), words.len());
                words.push((word.to_owned(), 1));
            }
        }
    }

    /// Whether all of it that is not missing is numbers.
    pub(super) fn is_numeric(&self) -> bool {
        self.filled > 0 && self.numbers == self.filled
    }

    /// The number of missing values.
    pub(super) fn gaps(&self) -> u64 {
        let words = self.missing.iter();
        let words =
            words.filter(|(word, _)| self.is_numeric() || MISSING_WORDS.contains(&word.as_str()));
        self.empty + words.map(|(_, count)| count).sum::<u64>()
    }

    /// The distinct words, with those that would be missing among numbers and are none here.
    pub(super) fn all_words(&self) -> Option<Vec<(String, u64)>> {
        let mut words = self.words.clone()?;
        let own = self.missing.iter();
        let own =
            own.filter(|(word, _)| !self.is_numeric() && !MISSING_WORDS.contains(&word.as_str()));
        words.extend(own.cloned());
        Some(words)
    }

    /// Mean and standard deviation.
    pub(super) fn moments(&self) -> (f64, f64) {
        let n = self.numbers.max(1) as f64;
        let mean = self.sum / n;
        (mean, (self.squares / n - mean * mean).max(0.0).sqrt())
    }

    /// What it holds.
    pub(super) fn kind(&self) -> Kind {
        let distinct = self
            .all_words()
            .map_or(MAX_COUNTED_WORDS, |words| words.len());
        let is_unique = distinct as u64 == self.filled && self.filled >= 10;
        if distinct <= 1 {
            return Kind::Constant;
        }
        if self.is_numeric() {
            let is_integer = self.integers == self.filled;
            let name = self.name.to_lowercase();
            let is_named = name.is_empty()
                || name.starts_with("unnamed")
                || ["id", "index", "key", "uuid", "rownames"].contains(&name.as_str())
                || name.ends_with("_id");
            return match (is_integer, is_unique && (self.counts_up || is_named)) {
                (true, true) => Kind::Id,
                (true, false) => Kind::Integer,
                (false, _) => Kind::Number,
            };
        }
        let is_sentence = self.parts >= 4 * self.filled;
        match (is_sentence && distinct as u64 * 2 > self.filled, is_unique) {
            (true, _) => Kind::Text,
            (false, true) => Kind::Id,
            (false, false) => Kind::Words,
        }
    }
}
