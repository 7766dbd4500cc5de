//! Records: the texts beside the tensors that a run needs to resume exactly.
//!
//! In: named texts, such as the position of the input. Out: one deterministic text, which a checkpoint holds as one string; and the
//! reverse. Leaves alone: what a record says, and its own version.

use std::collections::BTreeMap;

use crate::{Code, Error};

/// The name of the string tensor, or of the metadata entry, that holds the records of a checkpoint.
pub const RECORDS_KEY: &str = "_trainspec/records";

/// The first words of the text.
const MAGIC: &str = "trainspec-records";

/// The version of the text.
const VERSION: &str = "1";

/// Named texts that a checkpoint holds beside its tensors: the position of the input, the counters of hooks.
///
/// ```
/// use trainspec::saver::Records;
///
/// let mut records = Records::default();
/// records.insert("input", "v1 epoch 3 record 17");
/// let text = records.to_text();
/// assert_eq!(text, "trainspec-records 1 1\n5 20\ninputv1 epoch 3 record 17\n");
/// assert_eq!(Records::parse(&text)?, records);
/// assert!(Records::parse("trainspec-records 2 0\n").is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    entries: BTreeMap<String, String>,
}

impl Records {
    /// Sets a record; returns what it was before.
    pub fn insert(&mut self, name: impl Into<String>, text: impl Into<String>) -> Option<String> {
        self.entries.insert(name.into(), text.into())
    }

    /// Removes a record; returns what it was.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.entries.remove(name)
    }

    /// The text of a record.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.get(name).map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and texts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.entries.iter();
        entries.map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The records as one text: a line with the version and the number of records, then for each a line with the bytes of its name and of
    /// its text, followed by both and a line feed.
    pub fn to_text(&self) -> String {
        let mut out = format!("{MAGIC} {VERSION} {}\n", self.entries.len());
        for (name, text) in &self.entries {
            out.push_str(&format!("{} {}\n{name}{text}\n", name.len(), text.len()));
        }
        out
    }

    /// Parses the text of [`to_text`](Records::to_text). Anything else is [`Code::DataLoss`], another version [`Code::Unimplemented`].
    pub fn parse(text: &str) -> Result<Records, Error> {
        let (head, mut rest) = line(text).ok_or_else(|| damaged("there is no first line"))?;
        let words: Vec<&str> = head.split(' ').collect();
        let count = match words[..] {
            [MAGIC, VERSION, count] => number(count)?,
            [MAGIC, version, ..] => {
                let cause =
                    format!("the records have version `{version}`, and version {VERSION} is known");
                return Err(Error::new(Code::Unimplemented, cause).help(
                    "use the version of trainspec that wrote the checkpoint, or a newer one",
                ));
            }
            _ => return Err(damaged("the first line names no version")),
        };
        let mut records = Records::default();
        for _ in 0..count {
            let (lengths, after) = line(rest).ok_or_else(|| damaged("a record is missing"))?;
            let (name, text) = lengths
                .split_once(' ')
                .ok_or_else(|| damaged("a record does not begin with two lengths"))?;
            let (name, after) = take(after, number(name)?)?;
            let (text, after) = take(after, number(text)?)?;
            rest = after
                .strip_prefix('\n')
                .ok_or_else(|| damaged("a record does not end where it should"))?;
            let last = records.entries.last_key_value();
            if last.is_some_and(|(last, _)| last.as_str() >= name) {
                return Err(damaged("the records are not sorted by name"));
            }
            records.insert(name, text);
        }
        match rest.is_empty() {
            true => Ok(records),
            false => Err(damaged("there is more after the last record")),
        }
    }
}

impl From<BTreeMap<String, String>> for Records {
    fn from(entries: BTreeMap<String, String>) -> Records {
        Records { entries }
    }
}

/// A line, and what comes after it.
fn line(text: &str) -> Option<(&str, &str)> {
    text.split_once('\n')
}

/// That many bytes, and what comes after them.
fn take(text: &str, bytes: usize) -> Result<(&str, &str), Error> {
    text.split_at_checked(bytes)
        .ok_or_else(|| damaged("a record is shorter than it says"))
}

/// A number without sign and leading zeros.
fn number(text: &str) -> Result<usize, Error> {
    let parsed = text.parse::<usize>().ok();
    parsed
        .filter(|number| number.to_string() == text)
        .ok_or_else(|| damaged("a length is not a number"))
}

fn damaged(cause: &str) -> Error {
    Error::new(
        Code::DataLoss,
        format!("the records of the checkpoint are damaged: {cause}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_that_is_not_canonical_is_an_error() {
        let mut records = Records::default();
        records.insert("b", "two\nlines");
        records.insert("a", "é");
        records.insert("", "");
        let text = records.to_text();
        assert_eq!(Records::parse(&text).unwrap(), records);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(Records::parse(&text[..end]).is_err(), "{end} bytes");
        }
        for wrong in [
            "trainspec-records 1 0\nx",
            "trainspec-records 1 01\n1 1\nab\n",
            "trainspec-records 1 +1\n1 1\nab\n",
            "trainspec-records 1 1\n1 18446744073709551615\nab\n",
            "trainspec-records 1 99999999999999999999\n",
            "trainspec-records 1 18446744073709551615\n",
            "trainspec-records 1 1\n1 1\nab",
            "trainspec-records 1 1\n1 1 \nab\n",
            "trainspec-records 1 1\n1 1\né\n",
            "trainspec-records 1 2\n1 1\nbx\n1 1\nay\n",
            "trainspec-records 1 2\n1 1\nax\n1 1\nay\n",
            "records 1 0\n",
        ] {
            assert_eq!(
                Records::parse(wrong).unwrap_err().code(),
                Code::DataLoss,
                "{wrong}"
            );
        }
    }
}
