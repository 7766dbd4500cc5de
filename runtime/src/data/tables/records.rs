//! Tables as text: the record of a checkpoint that holds what was made of the training data.
//!
//! In: tables. Out: one text, the same for the same tables; and the reverse. A table is a line with its kind, its name and its sizes,
//! then a line for each word, or for each element. Words are bytes: `\`, line ends and what is not UTF-8 are escaped.

use std::fmt::Write;
use std::sync::Arc;

use crate::data::tables::{Moments, Table, Tables, Vocabulary};
use crate::{Code, Error};

/// The name of the record.
pub const TABLES_RECORD: &str = "tables/1";

impl Tables {
    /// The tables as text.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trainspec::Vocabulary;
    /// use trainspec::internals::data::tables::{Table, Tables};
    ///
    /// let mut tables = Tables::default();
    /// tables.insert("species", Table::Vocabulary(Arc::new(Vocabulary::new(["a", "b\n"], 1)?)));
    /// let text = tables.to_text();
    /// assert_eq!(text, "vocabulary species 2 1\na\nb\\n\n");
    /// assert_eq!(Tables::parse(&text)?, tables);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for (name, table) in self.iter() {
            // Writing to a string cannot fail.
            let _ = match table {
                Table::Vocabulary(words) => {
                    let _ = writeln!(out, "vocabulary {name} {} {}", words.len(), words.oov());
                    words.iter().for_each(|word| escape(&mut out, word));
                    Ok(())
                }
                Table::Moments(moments) => {
                    let _ = writeln!(out, "moments {name} {}", moments.mean.len());
                    let pairs = moments.mean.iter().zip(&moments.variance);
                    pairs
                        .into_iter()
                        .try_for_each(|(mean, variance)| writeln!(out, "{mean:?} {variance:?}"))
                }
            };
        }
        out
    }

    /// Parses the text of [`Tables::to_text`]. Anything else is [`Code::DataLoss`].
    pub fn parse(text: &str) -> Result<Tables, Error> {
        let mut tables = Tables::default();
        let mut lines = text.split_terminator('\n');
        while let Some(head) = lines.next() {
            let mut line = || {
                let missing = || damaged("a table is shorter than it says");
                lines.next().ok_or_else(missing)
            };
            let words: Vec<&str> = head.split(' ').collect();
            let (name, table) = match words[..] {
                ["vocabulary", name, count, oov] => {
                    let mut words = Vec::new();
                    for _ in 0..number(count)? {
                        words.push(unescape(line()?)?);
                    }
                    let table = Vocabulary::new(words, number(oov)?)?;
                    (name, Table::Vocabulary(Arc::new(table)))
                }
                ["moments", name, count] => {
                    let (mut mean, mut variance) = (Vec::new(), Vec::new());
                    for _ in 0..number(count)? {
                        let line = line()?;
                        let pair = line.split_once(' ');
                        let pair = pair.and_then(|(a, b)| Some((float(a)?, float(b)?)));
                        let Some((a, b)) = pair else {
                            return Err(damaged("a mean and a variance are no two numbers"));
                        };
                        mean.push(a);
                        variance.push(b);
                    }
                    (name, Table::Moments(Arc::new(Moments { mean, variance })))
                }
                _ => return Err(damaged("a table begins with an unknown line")),
            };
            if tables.get(name).is_some() {
                return Err(damaged(&format!("the table `{name}` is there twice")));
            }
            tables.insert(name, table);
        }
        Ok(tables)
    }
}

fn float(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn number(text: &str) -> Result<u64, Error> {
    let parsed = text.parse::<u64>().ok();
    let parsed = parsed.filter(|number| number.to_string() == text);
    parsed.ok_or_else(|| damaged("a size of a table is no number"))
}

/// Appends a line with a word.
fn escape(out: &mut String, word: &[u8]) {
    for chunk in word.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('\n');
}

fn unescape(line: &str) -> Result<Vec<u8>, Error> {
    let mut word = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((plain, after)) = rest.split_once('\\') {
        word.extend_from_slice(plain.as_bytes());
        rest = if let Some(after) = after.strip_prefix('\\') {
            word.push(b'\\');
            after
        } else if let Some(after) = after.strip_prefix('n') {
            word.push(b'\n');
            after
        } else {
            let hex = after.strip_prefix('x').and_then(|after| after.get(..2));
            let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            word.push(byte.ok_or_else(|| damaged("a word has an unknown escape"))?);
            &after[3..]
        };
    }
    word.extend_from_slice(rest.as_bytes());
    Ok(word)
}

fn damaged(cause: &str) -> Error {
    let message = format!("the tables of the checkpoint are damaged: {cause}");
    Error::new(Code::DataLoss, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_they_were_written() {
        let words: [&[u8]; 6] = [
            b"",
            b"a\\b",
            b"line\nend",
            b"\xff\xc3",
            "é\r".as_bytes(),
            b"\\n",
        ];
        let mut tables = Tables::default();
        let vocabulary = Vocabulary::new(words, 3).unwrap();
        tables.insert("words", Table::Vocabulary(Arc::new(vocabulary)));
        let moments = Moments {
            mean: vec![0.1 + 0.2, -1e-300, f64::INFINITY],
            variance: vec![0.0, f64::MIN_POSITIVE, 1.0 / 3.0],
        };
        tables.insert("price", Table::Moments(Arc::new(moments)));
        let text = tables.to_text();
        assert_eq!(Tables::parse(&text).unwrap(), tables);
        assert_eq!(Tables::parse("").unwrap(), Tables::default());
        for wrong in [
            "words a 1 1\nx\n",
            "vocabulary a 2 1\nx\n",
            "vocabulary a 01 1\nx\n",
            "vocabulary a 1 1\n\\q\n",
            "vocabulary a 1 1\n\\x4\n",
            "vocabulary a 1 1\n\\xé\n",
            "moments a 1\n0.5\n",
            "moments a 18446744073709551615\n0.5 0.5\n",
            "moments a 0\nmoments a 0\n",
        ] {
            assert_eq!(
                Tables::parse(wrong).unwrap_err().code(),
                Code::DataLoss,
                "{wrong}"
            );
        }
    }
}
