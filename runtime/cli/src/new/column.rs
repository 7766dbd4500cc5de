//! A column of a table: its type, words and gaps (data profiling).
//!
//! In: field after field. Out: statistics, and what kind of column it is. Leaves alone: what a spec makes of it.

use std::collections::HashMap;

use crate::new::fields::{Style, is_date, is_missing_number, is_missing_word, style};

/// More distinct words of a column are not counted.
const MAX_COUNTED_WORDS: usize = 100_000;

/// The distinct words of all columns that are kept, so that a wide table fits into memory.
const MAX_KEPT_WORDS: usize = 4_000_000;

/// The fewest distinct words of a column that are counted.
const MIN_COUNTED_WORDS: usize = 1_000;

/// The most distinct fields among numbers that are read as missing.
const MAX_ODD_FIELDS: usize = 5;

/// The most distinct values of a column whose integers may be classes.
pub(super) const MAX_INTEGER_CLASSES: usize = 20;

/// The fewest records of a word among integers that is a class of its own.
const MIN_CLASS_RECORDS: u64 = 5;

/// A column of a table.
#[derive(Debug, Default)]
pub(super) struct Column {
    /// As the header has it; its number, from 1, without one.
    pub(super) name: String,
    /// Its number, from 1.
    pub(super) number: usize,
    /// Whether a header has a name for it.
    pub(super) is_named: bool,
    /// How often the header has its name.
    pub(super) name_count: usize,
    /// The distinct fields that are not missing, as a reader gives them, in the order of their first appearance, each with its count;
    /// `None` where they are too many.
    words: Option<Vec<(String, u64)>>,
    indices: HashMap<String, usize>,
    /// The distinct words that are counted at most.
    max_words: usize,
    /// Where they became too many, their number then, and that of the fields.
    distinct_at_limit: u64,
    filled_at_limit: u64,
    /// The fields that are not empty and not missing in a column of numbers.
    filled: u64,
    /// Those of them that are numbers, those that have no decimals, and those that are written without a point.
    numbers: u64,
    integral: u64,
    integers: u64,
    /// The empty fields, and those of them that are white space.
    pub(super) empty: u64,
    pub(super) blank: u64,
    /// What else stands for a missing value, each with its count.
    missing: Vec<(String, u64)>,
    /// The first distinct fields that are no numbers, each with its count and its first line.
    odd: Vec<(String, u64, u64)>,
    has_more_odd: bool,
    /// The fields that are dates.
    dates: u64,
    /// The fields that are numbers in another style: their number, and for each style an example and its line.
    styled: u64,
    styles: Vec<(Style, String, u64)>,
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
    /// Numbers in a style that is not read.
    Styled,
    /// Numbers, and several other fields.
    Mixed,
    /// Dates and times.
    Date,
    Words,
    /// Words that seldom come twice.
    Distinct,
    /// Sentences.
    Text,
}

impl Column {
    /// A column of a number from 1 on; `name_count` is how often the header has its name, of `width` names.
    pub(super) fn new(
        number: usize,
        name: Option<String>,
        name_count: usize,
        width: usize,
    ) -> Column {
        Column {
            is_named: name.as_ref().is_some_and(|name| !name.is_empty()),
            name: name.unwrap_or_else(|| number.to_string()),
            number,
            name_count,
            words: Some(Vec::new()),
            max_words: (MAX_KEPT_WORDS / width).clamp(MIN_COUNTED_WORDS, MAX_COUNTED_WORDS),
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            counts_up: true,
            ..Column::default()
        }
    }

    /// A field of a line, as it stands in the file.
    pub(super) fn add(&mut self, raw: &str, line: u64) {
        // Numbers and what stands for a missing value are read without white space, words with it.
        let field = raw.trim_ascii();
        if field.is_empty() {
            self.empty += 1;
            self.blank += u64::from(!raw.is_empty());
            return;
        }
        if is_missing_number(field) {
            match self.missing.iter_mut().find(|(word, _)| word == raw) {
                Some((_, count)) => *count += 1,
                None => self.missing.push((raw.to_owned(), 1)),
            }
            return;
        }
        self.filled += 1;
        self.parts += field.split_ascii_whitespace().count() as u64;
        self.count_word(raw);
        // Those that an f32 has no value for are as good as words.
        let number = field.parse::<f64>().ok();
        let Some(x) = number.filter(|x| (*x as f32).is_finite()) else {
            return self.add_odd(field, line);
        };
        self.numbers += 1;
        self.integral += u64::from(x.fract() == 0.0);
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

    /// A field that is no number.
    fn add_odd(&mut self, field: &str, line: u64) {
        let is_full = self.odd.len() == MAX_ODD_FIELDS;
        match self.odd.iter_mut().find(|(odd, ..)| odd == field) {
            Some((_, count, _)) => *count += 1,
            None if is_full => self.has_more_odd = true,
            None => self.odd.push((field.to_owned(), 1, line)),
        }
        self.dates += u64::from(is_date(field));
        if let Some(style) = style(field) {
            self.styled += 1;
            if self.styles.iter().all(|(other, ..)| *other != style) {
                self.styles.push((style, field.to_owned(), line));
            }
        }
    }

    fn count_word(&mut self, word: &str) {
        let Some(words) = &mut self.words else {
            return;
        };
        if let Some(index) = self.indices.get(word) {
            words[*index].1 += 1;
            return;
        }
        // Of numbers with decimals a few are enough: they are neither classes nor ids.
        let has_decimals = self.numbers + 1 == self.filled && self.integral < self.numbers;
        let max = match has_decimals {
            true => MIN_COUNTED_WORDS.min(self.max_words),
            false => self.max_words,
        };
        if words.len() >= max {
            self.distinct_at_limit = words.len() as u64;
            self.filled_at_limit = self.filled;
            self.words = None;
            self.indices = HashMap::new();
            return;
        }
        self.indices.insert(word.to_owned(), words.len());
        words.push((word.to_owned(), 1));
    }

    /// What messages call it.
    pub(super) fn label(&self) -> String {
        match self.is_named {
            true => format!("`{}`", self.name),
            false => format!("column {}", self.number),
        }
    }

    /// Whether it is read as numbers: all of it that is not missing is numbers, or nearly all of it.
    pub(super) fn is_numeric(&self) -> bool {
        self.filled > 0
            && self.numbers > 0
            && (self.numbers == self.filled || self.is_nearly_numeric())
    }

    /// Whether a few fields among its numbers are something else.
    fn is_nearly_numeric(&self) -> bool {
        let is_odd = |count: u64| count < MIN_CLASS_RECORDS;
        let are_classes = self.distinct() <= MAX_INTEGER_CLASSES as u64
            && self.odd.iter().all(|(_, count, _)| !is_odd(*count));
        self.is_mostly_numbers() && !self.has_more_odd && self.styled == 0 && !are_classes
    }

    /// Whether nine in ten of its fields are numbers, and not all.
    fn is_mostly_numbers(&self) -> bool {
        self.numbers < self.filled && self.numbers * 10 >= self.filled * 9
    }

    /// What is read as missing among its numbers, and is no common way to say so: the number of its numbers and fields, and each with
    /// its first line.
    pub(super) fn odd_fields(&self) -> Option<String> {
        (self.is_numeric() && self.numbers < self.filled).then(|| self.oddity())
    }

    /// The number of its numbers, and what else there is.
    fn oddity(&self) -> String {
        let mut odd: Vec<String> = (self.odd.iter())
            .map(|(field, _, line)| format!("line {line} has `{}`", short(field)))
            .collect();
        if self.has_more_odd {
            odd.truncate(2);
            odd.push("and others".to_owned());
        }
        let (numbers, filled) = (self.numbers, self.filled);
        format!("{numbers} of {filled} are numbers; {}", odd.join(", "))
    }

    /// What its numbers look like, and what is to be done about it.
    fn styling(&self, delimiter: u8) -> String {
        let style_of = |one: Style| self.styles.iter().find(|(style, ..)| *style == one);
        // `4,165` is one of both.
        let (style, field, line) = (style_of(Style::DecimalComma))
            .or(self.styles.first())
            .expect("a styled column has a style");
        let (what, instead) = match style {
            Style::DecimalComma => ("a decimal comma", "replace it by a point"),
            Style::Thousands if delimiter == b';' => {
                ("a comma", "replace it by a point, or leave it out")
            }
            Style::Thousands => ("commas between thousands", "leave the commas out"),
            Style::Percent => ("a percent sign", "leave it out"),
            Style::Currency if field.contains(',') => (
                "a sign of a currency and commas",
                "leave both out, with a point before decimals",
            ),
            Style::Currency => ("a sign of a currency", "leave it out"),
        };
        format!(
            "numbers with {what}: {instead}; line {line} has `{}`",
            short(field)
        )
    }

    /// What stands for a missing value in it, besides nothing.
    pub(super) fn missing_words(&self) -> impl Iterator<Item = &str> {
        let is_numeric = self.is_numeric();
        let common = self.missing.iter().map(|(word, _)| word.trim_ascii());
        let odd = self.odd.iter().map(|(field, ..)| field.as_str());
        let common = common.filter(move |word| is_numeric || is_missing_word(word));
        common.chain(odd.take(if is_numeric { MAX_ODD_FIELDS } else { 0 }))
    }

    /// The number of values that are not missing.
    pub(super) fn values(&self) -> u64 {
        match self.is_numeric() {
            true => self.numbers,
            false => self.filled + self.own_words().map(|(_, count)| count).sum::<u64>(),
        }
    }

    /// The number of missing values.
    pub(super) fn gaps(&self) -> u64 {
        let is_numeric = self.is_numeric();
        let words = self.missing.iter();
        let words = words.filter(|(word, _)| is_numeric || is_missing_word(word.trim_ascii()));
        let odd = match is_numeric {
            true => self.filled - self.numbers,
            false => 0,
        };
        self.empty + odd + words.map(|(_, count)| count).sum::<u64>()
    }

    /// The fields that would be missing among numbers and are words here.
    fn own_words(&self) -> impl Iterator<Item = &(String, u64)> {
        let is_numeric = self.is_numeric();
        let words = self.missing.iter();
        words.filter(move |(word, _)| !is_numeric && !is_missing_word(word.trim_ascii()))
    }

    /// The distinct fields that are not missing, each with its count; `None` where they are too many.
    pub(super) fn all_words(&self) -> Option<Vec<(String, u64)>> {
        let is_numeric = self.is_numeric();
        let is_odd = |word: &str| self.odd.iter().any(|(odd, ..)| odd == word.trim_ascii());
        let words = self.words.as_ref()?.iter();
        let words = words.filter(|(word, _)| !(is_numeric && is_odd(word)));
        Some(words.chain(self.own_words()).cloned().collect())
    }

    /// The distinct integers, each with its count, in order, where it has nothing else and they are few.
    pub(super) fn few_integers(&self) -> Option<Vec<(i64, u64)>> {
        if !self.is_numeric() || self.integral < self.numbers {
            return None;
        }
        // An f64 has all integers up to there.
        if self.least.abs().max(self.greatest.abs()) > (1_u64 << 53) as f64 {
            return None;
        }
        let mut counts = std::collections::BTreeMap::new();
        for (word, count) in self.all_words()? {
            *counts
                .entry(word.trim_ascii().parse::<f64>().ok()? as i64)
                .or_default() += count;
            if counts.len() > MAX_INTEGER_CLASSES {
                return None;
            }
        }
        Some(counts.into_iter().collect())
    }

    /// Whether each number is written as an integer, without a point.
    pub(super) fn has_plain_integers(&self) -> bool {
        self.integers == self.numbers
    }

    /// The number of distinct words; a lower limit where they are too many.
    pub(super) fn distinct_words(&self) -> u64 {
        self.distinct() + self.own_words().count() as u64
    }

    /// The number of distinct fields that would not be missing among numbers.
    fn distinct(&self) -> u64 {
        let words = self.words.as_ref();
        words.map_or(self.distinct_at_limit, |words| words.len() as u64)
    }

    /// Mean and standard deviation.
    pub(super) fn moments(&self) -> (f64, f64) {
        let n = self.numbers.max(1) as f64;
        let mean = self.sum / n;
        (mean, (self.squares / n - mean * mean).max(0.0).sqrt())
    }

    /// Why its fields are no words and no numbers.
    pub(super) fn unreadable(&self, delimiter: u8) -> Option<String> {
        match self.kind() {
            Kind::Date => Some(
                "it has dates or times: only numbers of them, such as the month, are read"
                    .to_owned(),
            ),
            Kind::Styled => Some(self.styling(delimiter)),
            Kind::Mixed => Some(self.oddity()),
            Kind::Constant
            | Kind::Id
            | Kind::Integer
            | Kind::Number
            | Kind::Words
            | Kind::Distinct
            | Kind::Text => None,
        }
    }

    /// What it holds.
    pub(super) fn kind(&self) -> Kind {
        let is_numeric = self.is_numeric();
        let distinct = self.distinct_words();
        let is_unique = distinct == self.filled && self.filled >= 10;
        if distinct <= 1 {
            return Kind::Constant;
        }
        if is_numeric {
            let is_integer = self.integers == self.filled;
            let name = self.name.to_lowercase();
            let is_named = name.is_empty()
                || name.starts_with("unnamed")
                || ["id", "index", "key", "uuid", "rownames"].contains(&name.as_str())
                || name.ends_with("_id");
            let counts_up = self.counts_up && self.filled >= 10;
            return match (is_integer, counts_up || (is_unique && is_named)) {
                (true, true) => Kind::Id,
                (true, false) => Kind::Integer,
                (false, _) => Kind::Number,
            };
        }
        if self.dates * 10 >= self.filled * 9 {
            return Kind::Date;
        }
        if self.styled > 0 && (self.numbers + self.styled) * 10 >= self.filled * 9 {
            return Kind::Styled;
        }
        if self.is_mostly_numbers() && self.distinct() > MAX_INTEGER_CLASSES as u64 {
            return Kind::Mixed;
        }
        let is_mostly_distinct = match &self.words {
            Some(_) => distinct * 2 > self.filled,
            None => self.distinct_at_limit * 2 > self.filled_at_limit,
        };
        let is_sentence = self.parts >= 4 * self.filled;
        match (is_mostly_distinct, is_unique) {
            (true, _) if is_sentence => Kind::Text,
            (_, true) => Kind::Id,
            (true, false) if distinct > MAX_INTEGER_CLASSES as u64 => Kind::Distinct,
            (_, false) => Kind::Words,
        }
    }
}

/// The beginning of a field, as messages quote it.
pub(super) fn short(field: &str) -> String {
    let shown = field.chars().filter(|c| !c.is_control());
    let mut text: String = shown.take(20).collect();
    if field.chars().count() > 20 {
        text.push_str("...");
    }
    text
}
