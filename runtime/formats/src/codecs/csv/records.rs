//! The records of a CSV file, each with its line number.

use std::io::{self, Read};

use crate::codecs::csv::fields::{split, split_plain};
use crate::error::{FileKind, FormatError, Result};
use crate::memory;
use crate::tensor::BytesColumn;

/// The longest record that is accepted, in bytes; a quote that is never closed would extend it to the end of the file.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// The first size of the read buffer: a small file needs no more.
const MIN_BUFFER: usize = 4 << 10;

/// The size up to which the read buffer grows while reads fill it; a longer record makes it larger.
const MAX_BUFFER: usize = 64 << 10;

/// The byte order mark (BOM) of UTF-8.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// Reads record after record, as TensorFlow's `CsvDataset`: a record ends with its line, except inside quotes.
///
/// A line ends in `\n`, `\r\n` or `\r`; empty lines are no records, and a byte order mark is no part of the first field.
///
/// ```
/// use trainspec_formats::codecs::CsvReader;
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let mut reader = CsvReader::new(&b"1,\"a\nb\"\n2,c\n"[..], b',');
/// assert!(reader.read()?);
/// assert_eq!((reader.line(), &reader.fields()[1]), (1, &b"a\nb"[..]));
/// assert!(reader.read()?);
/// assert_eq!((reader.line(), &reader.fields()[1]), (3, &b"c"[..]));
/// assert!(!reader.read()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CsvReader<R> {
    source: R,
    delimiter: u8,
    /// A read buffer, and the part of it that is not parsed yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The fields of the current record.
    fields: BytesColumn,
    /// The line of the current record, and of the next.
    line: u64,
    next_line: u64,
    /// The offset of `start` in the file.
    position: u64,
    /// Whether the last record was wrong in a way that leaves open where the next one begins.
    is_lost: bool,
}

impl<R: Read> CsvReader<R> {
    /// A reader at the beginning of a file.
    pub fn new(source: R, delimiter: u8) -> CsvReader<R> {
        CsvReader {
            source,
            delimiter,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            fields: BytesColumn::default(),
            line: 0,
            next_line: 1,
            position: 0,
            is_lost: false,
        }
    }

    /// A reader that goes on where another one was: the source begins at its [`position`](CsvReader::position), in the line
    /// [`next_line`](CsvReader::next_line).
    ///
    /// ```
    /// use trainspec_formats::codecs::CsvReader;
    ///
    /// # fn main() -> trainspec_formats::Result<()> {
    /// let text = b"1,a\n\n2,b\n";
    /// let mut first = CsvReader::new(&text[..], b',');
    /// assert!(first.read()?);
    /// let rest = &text[first.position() as usize..];
    /// let mut second = CsvReader::resume(rest, b',', first.position(), first.next_line());
    /// assert!(second.read()?);
    /// assert_eq!((second.line(), second.position()), (3, 9));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(source: R, delimiter: u8, position: u64, next_line: u64) -> CsvReader<R> {
        CsvReader {
            // A byte order mark is skipped before the first line alone.
            line: next_line.max(1),
            next_line: next_line.max(1),
            position,
            ..CsvReader::new(source, delimiter)
        }
    }

    /// The byte offset after the record that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of the line at [`position`](CsvReader::position), counted from 1.
    pub fn next_line(&self) -> u64 {
        self.next_line
    }

    /// The fields of the record that was read.
    pub fn fields(&self) -> &BytesColumn {
        &self.fields
    }

    /// The number of the line in which the record begins, counted from 1; after an error, the line in which the field at fault
    /// begins: of one with quotes, the line of its opening quote.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether, after an error, it is not known where the next record begins: the file could not be read, or a quote that is wrong made
    /// lines after it part of its record.
    ///
    /// ```
    /// use trainspec_formats::codecs::CsvReader;
    ///
    /// let mut wrong = CsvReader::new(&b"1,\"a\"b\n2,c\n"[..], b',');
    /// assert!(wrong.read().is_err() && !wrong.is_lost());
    /// let mut unclosed = CsvReader::new(&b"1,\"a\n2,c\n"[..], b',');
    /// assert!(unclosed.read().is_err() && unclosed.is_lost());
    /// ```
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Reads the next record; false at the end.
    pub fn read(&mut self) -> Result<bool> {
        // Whatever fails before the end of the record is found leaves it open.
        self.is_lost = true;
        let read = self.read_record();
        self.is_lost &= read.is_err();
        read
    }

    fn read_record(&mut self) -> Result<bool> {
        if self.line == 0 {
            self.skip_byte_order_mark()?;
        }
        loop {
            self.line = self.next_line;
            let (length, has_quotes) = self.find_end()?;
            let record = self.start..self.start + length;
            let line_end = match record.end < self.end {
                true => Some(self.buffer[record.end]),
                false => None,
            };
            let next = record.end + usize::from(line_end.is_some());
            self.position += (next - self.start) as u64;
            self.start = next;
            let record = &self.buffer[record];
            self.next_line += u64::from(line_end == Some(b'\n'));
            match (record.is_empty(), line_end) {
                (true, None) => return Ok(false),
                // Also the second half of `\r\n`.
                (true, Some(_)) => continue,
                (false, _) => {}
            }
            // A field takes a byte or more, and four for its end.
            memory::check(FileKind::Other, record.len().saturating_mul(8))?;
            if !has_quotes {
                split_plain(record, self.delimiter, &mut self.fields);
                return Ok(true);
            }
            self.next_line += line_ends(record);
            let done = split(record, self.delimiter, true, usize::MAX, &mut self.fields);
            return match done {
                Ok(()) => Ok(true),
                Err(bad) => {
                    self.line += line_ends(&record[..bad.start]);
                    // The field at fault may have been meant to end before any of its line ends.
                    let field = record[bad.start..].trim_ascii_end();
                    self.is_lost = memchr::memchr2(b'\n', b'\r', field).is_some();
                    Err(FormatError::data_loss(FileKind::Other, bad.cause))
                }
            };
        }
    }

    /// The length of the next record, up to a line end outside of quotes or to the end of the file, and whether it has quotes.
    fn find_end(&mut self) -> Result<(usize, bool)> {
        let (mut length, mut in_quotes, mut has_quotes) = (0, false, false);
        // The offset of the quote that opened last.
        let mut opening = 0;
        loop {
            let rest = &self.buffer[self.start + length..self.end];
            // A quote that is written twice closes and opens.
            let found = match in_quotes {
                true => memchr::memchr(b'"', rest),
                false => memchr::memchr3(b'"', b'\n', b'\r', rest),
            };
            match found {
                Some(i) if rest[i] == b'"' => {
                    in_quotes = !in_quotes;
                    has_quotes = true;
                    if in_quotes {
                        opening = length + i;
                    }
                    length += i + 1;
                }
                Some(i) => return Ok((length + i, has_quotes)),
                None => {
                    length += rest.len();
                    if length >= MAX_RECORD_BYTES {
                        let before = &self.buffer[self.start..self.start + opening];
                        self.line += line_ends(before);
                        let cause = format!(
                            "the record has more than {MAX_RECORD_BYTES} bytes; a closing quote may be missing"
                        );
                        return Err(FormatError::data_loss(FileKind::Other, cause));
                    }
                    if self.fill()? == 0 {
                        return Ok((length, has_quotes));
                    }
                }
            }
        }
    }

    fn skip_byte_order_mark(&mut self) -> Result<()> {
        while self.end < BOM.len() && self.fill()? > 0 {}
        if self.buffer[..self.end].starts_with(BOM) {
            self.start = BOM.len();
            self.position = BOM.len() as u64;
        }
        Ok(())
    }

    /// Reads more after what is not parsed yet; returns the number of bytes, 0 at the end of the file.
    fn fill(&mut self) -> Result<usize> {
        let was_filled = self.end == self.buffer.len();
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let size = self.buffer.len();
        if self.end == size || (was_filled && size < MAX_BUFFER) {
            let size = (2 * size).max(MIN_BUFFER);
            memory::resize(FileKind::Other, &mut self.buffer, size)?;
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(FormatError::io(FileKind::Other, "read it", e)),
            }
        }
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes whose reads give at most that many at once.
    struct ShortReads<'a>(&'a [u8], usize);

    impl Read for ShortReads<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(buffer.len());
            self.0.read(&mut buffer[..n])
        }
    }

    fn numbered(
        text: &str,
        piece: usize,
    ) -> std::result::Result<Vec<(u64, String)>, (u64, String)> {
        let mut reader = CsvReader::new(ShortReads(text.as_bytes(), piece), b',');
        let mut found = Vec::new();
        while reader.read().map_err(|e| (reader.line(), e.cause))? {
            let fields: Vec<&str> = (reader.fields().iter())
                .map(|field| str::from_utf8(field).unwrap())
                .collect();
            found.push((reader.line(), fields.join("|")));
        }
        Ok(found)
    }

    #[test]
    fn lines_are_counted_as_an_editor_does() {
        for (text, expected) in [
            ("a,b\nc,d\n", &[(1, "a|b"), (2, "c|d")][..]),
            ("a,b\nc,d", &[(1, "a|b"), (2, "c|d")]),
            ("a\r\nb\r\nc\r\n", &[(1, "a"), (2, "b"), (3, "c")]),
            ("\n\na\n\n\nb\n\n", &[(3, "a"), (6, "b")]),
            ("\r\n\r\na\r\n\r\nb", &[(3, "a"), (5, "b")]),
            ("\"a\nb\",1\nc,2\n", &[(1, "a\nb|1"), (3, "c|2")]),
            ("\"a\r\nb\",1\r\nc,2\r\n", &[(1, "a\r\nb|1"), (3, "c|2")]),
            ("\"a\"\"b\",\"\"\n", &[(1, "a\"b|")]),
            ("a\rb", &[(1, "a"), (1, "b")]),
            ("", &[]),
            ("\n\r\n", &[]),
            ("\u{feff}a\n", &[(1, "a")]),
            ("\u{feff}", &[]),
            (",\n\"\"\n", &[(1, "|"), (2, "")]),
        ] {
            let expected: Vec<(u64, String)> = expected
                .iter()
                .map(|(n, s)| (*n, (*s).to_owned()))
                .collect();
            for piece in [1, 2, 3, 4, 5, 1000] {
                let found = numbered(text, piece);
                assert_eq!(found, Ok(expected.clone()), "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_resumed_reader_reads_the_same_records_of_the_same_lines() {
        for text in [
            "a,b\nc,d\n",
            "a\r\nb\r\nc",
            "\n\na\n\n\nb\n\n",
            "\"a\r\nb\",1\r\nc,2\r\n\"\n\n\",3\n4,4",
            "\u{feff}a\n\u{feff}b\nc",
        ] {
            let all = numbered(text, 3).unwrap();
            let mut reader = CsvReader::new(text.as_bytes(), b',');
            for read in 1..=all.len() {
                assert!(reader.read().unwrap());
                let at = reader.position();
                let rest = &text.as_bytes()[at as usize..];
                let mut resumed = CsvReader::resume(rest, b',', at, reader.next_line());
                for (line, fields) in &all[read..] {
                    assert!(resumed.read().unwrap());
                    let found = resumed.fields().iter().map(String::from_utf8_lossy);
                    let found: Vec<_> = found.collect();
                    assert_eq!((resumed.line(), found.join("|")), (*line, fields.clone()));
                }
                assert!(!resumed.read().unwrap());
                assert_eq!(resumed.position(), text.len() as u64);
            }
        }
    }

    #[test]
    fn misplaced_quotes_are_errors_of_their_line() {
        for (text, line, cause) in [
            ("x\n\"a\n", 2, "a field with quotes does not end with one"),
            (
                "x\n\n\"a\nb",
                3,
                "a field with quotes does not end with one",
            ),
            (
                "x\na\"b\"\n",
                2,
                "a field without quotes has a quote or a line end in it",
            ),
            ("\"a\"b\n", 1, "a quote inside a field is not written twice"),
            // The record begins before the line whose quote is not closed.
            (
                "\"a\nb\nc\",\"d\n1,2\n",
                3,
                "a field with quotes does not end with one",
            ),
            // The quotes of later lines pair up with it.
            (
                "\"a\nb\",\"c\n\"d\"\n",
                2,
                "a quote inside a field is not written twice",
            ),
        ] {
            for piece in [1, 3, 1000] {
                let found = numbered(text, piece);
                assert_eq!(found, Err((line, cause.to_owned())), "{text:?}");
            }
        }
    }

    #[test]
    fn long_records_and_many_fields_fit() {
        let long = "7".repeat(100_000);
        let found = numbered(&format!("{long},1\n"), 777);
        assert_eq!(found, Ok(vec![(1, format!("{long}|1"))]));
        let many = vec!["1"; 5000];
        assert_eq!(
            numbered(&many.join(","), 100),
            Ok(vec![(1, many.join("|"))])
        );
    }
}
