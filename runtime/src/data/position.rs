//! Positions of an input pipeline: what a checkpoint keeps, so that a resumed training reads the same batches in the same order.
//!
//! A position is a list of versioned records, one per stage that has state, the source first. It is a few integers: buffers are
//! rebuilt from the data, not stored. As text it has a line per record: the word of the stage, the version of the record, its
//! numbers.
//!
//! ```
//! use trainspec::internals::data::Position;
//!
//! let text = "tfrecord/1 0 37 5120\nmap/1 37";
//! let position: Position = text.parse().unwrap();
//! assert_eq!(position.to_string(), text);
//! assert!("tfrecord 0 37".parse::<Position>().is_err());
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::{Code, Error};

/// The most records that a position may have as text.
const MAX_RECORDS: usize = 4096;

/// The most numbers that a record may have as text.
const MAX_NUMBERS: usize = 16;

/// The largest number that is taken for a count or an offset; sums of a few of them do not overflow.
const MAX_NUMBER: u64 = 1 << 60;

/// The longest word of a stage in bytes.
const MAX_WORD_BYTES: usize = 32;

/// The position of an input pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    records: Vec<Record>,
    /// The numbers of all records, in order.
    numbers: Vec<u64>,
}

/// The head of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    word: Cow<'static, str>,
    version: u32,
    /// How many numbers it has.
    count: usize,
}

impl Position {
    /// Appends the record of a stage.
    pub fn push(&mut self, word: &'static str, version: u32, numbers: &[u64]) {
        self.records.push(Record {
            word: Cow::Borrowed(word),
            version,
            count: numbers.len(),
        });
        self.numbers.extend_from_slice(numbers);
    }

    /// Appends all records of another position.
    pub fn append(&mut self, other: &Position) {
        self.records.extend_from_slice(&other.records);
        self.numbers.extend_from_slice(&other.numbers);
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has no records, as no pipeline has.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The words of its stages, for messages.
    fn words(&self) -> String {
        let words: Vec<&str> = self.records.iter().map(|r| &*r.word).collect();
        match words.is_empty() {
            true => "nothing".to_owned(),
            false => words.join(", "),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.numbers.iter();
        for (i, record) in self.records.iter().enumerate() {
            let line_end = if i == 0 { "" } else { "\n" };
            write!(f, "{line_end}{}/{}", record.word, record.version)?;
            for number in numbers.by_ref().take(record.count) {
                write!(f, " {number}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Position, Error> {
        let mut position = Position::default();
        for (i, line) in text.lines().enumerate() {
            if i == MAX_RECORDS {
                let message = format!("a data position has more than {MAX_RECORDS} records");
                return Err(Error::new(Code::DataLoss, message));
            }
            let record = parse_record(line, &mut position.numbers).ok_or_else(|| {
                let shown: String = line.chars().take(40).collect();
                let message = format!(
                    "line {} of a data position is `{}`, and not a stage, its version and numbers as in `take/1 12`",
                    i + 1,
                    shown.escape_debug()
                );
                Error::new(Code::DataLoss, message)
            })?;
            position.records.push(record);
        }
        Ok(position)
    }
}

/// Parses `tfrecord/1 0 37 5120`, and appends its numbers.
fn parse_record(line: &str, numbers: &mut Vec<u64>) -> Option<Record> {
    let mut parts = line.split(' ');
    let (word, version) = parts.next()?.split_once('/')?;
    let is_word = |b: u8| b.is_ascii_lowercase() || b == b'_';
    if word.is_empty() || word.len() > MAX_WORD_BYTES || !word.bytes().all(is_word) {
        return None;
    }
    let before = numbers.len();
    for part in parts {
        if numbers.len() - before == MAX_NUMBERS {
            return None;
        }
        numbers.push(parse_number(part)?);
    }
    Some(Record {
        word: Cow::Owned(word.to_owned()),
        version: u32::try_from(parse_number(version)?).ok()?,
        count: numbers.len() - before,
    })
}

/// A number as it is printed: digits alone, and no zeros before them.
fn parse_number(text: &str) -> Option<u64> {
    let is_printed =
        text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_printed.then(|| text.parse().ok())?
}

/// The records of a position that no stage has taken yet, from the last stage to the source.
pub struct Records<'a> {
    position: &'a Position,
    /// How many records and numbers are left.
    records: usize,
    numbers: usize,
    /// How many records of the data were read again.
    reread: u64,
    /// Is told of each number of them.
    watch: Option<&'a mut dyn FnMut(u64)>,
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("position", self.position)
            .field("records", &self.records)
            .field("numbers", &self.numbers)
            .field("reread", &self.reread)
            .finish_non_exhaustive()
    }
}

impl<'a> Records<'a> {
    /// All records of a position.
    pub fn new(position: &'a Position) -> Records<'a> {
        Records {
            position,
            records: position.records.len(),
            numbers: position.numbers.len(),
            reread: 0,
            watch: None,
        }
    }

    /// Tells a function how many records were read again so far, whenever there are more.
    pub(crate) fn watched(mut self, watch: &'a mut dyn FnMut(u64)) -> Records<'a> {
        self.watch = Some(watch);
        self
    }

    /// Counts records that were read again.
    pub fn read_again(&mut self, count: u64) {
        self.reread += count;
        if let Some(watch) = &mut self.watch {
            watch(self.reread);
        }
    }

    /// How many records were read again.
    pub fn reread(&self) -> u64 {
        self.reread
    }

    /// Takes the last record, which must be of that stage and version, with as many numbers.
    pub fn pop<const N: usize>(&mut self, word: &str, version: u32) -> Result<[u64; N], Error> {
        let Some(last) = self.records.checked_sub(1) else {
            let message = format!(
                "the position has no record for `{word}`: it has {}",
                self.position.words()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let record = &self.position.records[last];
        if record.word != word {
            let message = format!(
                "the position has `{}` where the data set has `{word}`",
                record.word
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if record.version != version {
            let message = format!(
                "the position has version {} of `{word}`, and version {version} is read here",
                record.version
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let start = self.numbers - record.count;
        let found = &self.position.numbers[start..self.numbers];
        let Ok(numbers) = found.try_into() else {
            return Err(damaged(
                word,
                format!("has {} numbers, and not {N}", found.len()),
            ));
        };
        if let Some(large) = found.iter().find(|n| **n > MAX_NUMBER) {
            return Err(damaged(word, format!("has {large}, which is no count")));
        }
        (self.records, self.numbers) = (last, start);
        Ok(numbers)
    }

    /// Takes as many records as `found` has, which must be equal to them: what was read again is what was read before.
    pub fn expect(&mut self, found: &Position) -> Result<(), Error> {
        let left = self.records.checked_sub(found.records.len());
        let left = left.zip(self.numbers.checked_sub(found.numbers.len()));
        if let Some((records, numbers)) = left
            && self.position.records[records..self.records] == found.records
            && self.position.numbers[numbers..self.numbers] == found.numbers
        {
            (self.records, self.numbers) = (records, numbers);
            return Ok(());
        }
        let expected = Position {
            records: self.position.records[..self.records].to_vec(),
            numbers: self.position.numbers[..self.numbers].to_vec(),
        };
        let message = format!(
            "what was read again ends at `{}`, and the position has `{}`",
            one_line(found),
            one_line(&expected)
        );
        Err(Error::new(Code::DataLoss, message).help(CHANGED))
    }

    /// Checks that all records were taken.
    pub fn finish(&self) -> Result<(), Error> {
        match self.records {
            0 => Ok(()),
            n => {
                let message = format!(
                    "the position has {n} records more than the data set has stages: {}",
                    self.position.words()
                );
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }
}

fn one_line(position: &Position) -> String {
    position.to_string().replace('\n', ", ")
}

/// The help where the data is not as the position says.
pub(super) const CHANGED: &str = "the data files may have changed since the position was taken";

/// The error for a record of a position that cannot be one of its stage.
pub(super) fn damaged(word: &str, fact: impl fmt::Display) -> Error {
    let message = format!("the position of `{word}` {fact}");
    Error::new(Code::DataLoss, message)
}

/// A flag of a record: 0 or 1.
pub(super) fn flag(word: &str, number: u64) -> Result<bool, Error> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        n => Err(damaged(word, format!("has {n} for a flag, and not 0 or 1"))),
    }
}
