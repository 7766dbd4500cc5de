//! The lines of a CSV file, split into fields.

use std::io;
use std::ops::Range;

use csv_core::ReadRecordResult;

use crate::outside::Bytes;

/// The longest line that is accepted, in bytes of its fields; a quote that is never closed would take in the whole file.
const MAX_LINE: usize = 64 << 20;

/// The byte order mark of UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads line after line.
pub(super) struct Lines {
    bytes: Box<dyn Bytes>,
    parser: csv_core::Reader,
    /// A piece of the file, the part of it that was not looked at yet, and where in the file the piece ends.
    piece: Vec<u8>,
    rest: Range<usize>,
    position: u64,
    /// The fields of the line that was read, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// How many there are.
    count: usize,
    /// The number of the line, counted from 1.
    pub(super) line: u64,
}

impl Lines {
    pub(super) fn new(bytes: Box<dyn Bytes>, delimiter: u8) -> Lines {
        Lines {
            bytes,
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            piece: vec![0; 64 << 10],
            rest: 0..0,
            position: 0,
            fields: vec![0; 1024],
            ends: vec![0; 64],
            count: 0,
            line: 0,
        }
    }

    /// How many fields the line has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A field of the line.
    pub(super) fn field(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.fields[start..self.ends[i]]
    }

    /// Reads the next line that is not empty; false at the end.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        let (mut written, mut ended) = (0, 0);
        // The last byte that was looked at.
        let mut last = None;
        loop {
            if self.rest.is_empty() {
                self.fill()?;
            }
            let input = &self.piece[self.rest.clone()];
            let (result, read, wrote, ends) = self.parser.read_record(
                input,
                &mut self.fields[written..],
                &mut self.ends[ended..],
            );
            // Nothing left to look at is the end of the file, which ends a line too.
            last = match read {
                0 => last.filter(|_| !input.is_empty()),
                n => Some(input[n - 1]),
            };
            self.rest.start += read;
            written += wrote;
            ended += ends;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if written >= MAX_LINE => {
                    let message = format!(
                        "the line that begins before line {} has more than {MAX_LINE} bytes; a closing quote may be missing",
                        self.parser.line()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::Record => break,
            }
        }
        self.count = ended;
        // The parser counts the line ends it has seen. That of this line is among them unless the file just ended or it is
        // the first half of two characters; those inside quotes are.
        let own = u64::from(last == Some(b'\n'));
        let inside = self.fields[..written].iter().filter(|b| **b == b'\n');
        self.line = self.parser.line() - own - inside.count() as u64;
        Ok(true)
    }

    /// Reads the next piece; none at the end.
    fn fill(&mut self) -> io::Result<()> {
        let mut n = self.some(0)?;
        let mut start = 0;
        if self.position == n as u64 {
            // The beginning of the file, where a byte order mark may stand: no part of the first field.
            while n <= MARK.len() {
                match self.some(n)? {
                    0 => break,
                    more => n += more,
                }
            }
            if self.piece[..n].starts_with(MARK) {
                start = MARK.len();
            }
        }
        self.rest = start..n;
        Ok(())
    }

    /// Reads into the piece, behind what it holds; how much.
    fn some(&mut self, behind: usize) -> io::Result<usize> {
        loop {
            match self.bytes.read_at(self.position, &mut self.piece[behind..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(n) => {
                    self.position += n as u64;
                    return Ok(n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a file in pieces of so many bytes.
    struct Pieces(Vec<u8>, usize);

    impl Bytes for Pieces {
        fn length(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.0[position as usize..];
            let n = rest.len().min(self.1).min(buffer.len());
            buffer[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
    }

    fn numbered(text: &str, piece: usize) -> Vec<(u64, String)> {
        let mut lines = Lines::new(Box::new(Pieces(text.into(), piece)), b',');
        let mut found = Vec::new();
        while lines.read().unwrap() {
            let fields: Vec<&str> = (0..lines.count())
                .map(|i| str::from_utf8(lines.field(i)).unwrap())
                .collect();
            found.push((lines.line, fields.join("|")));
        }
        found
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
            ("x\n\"a\n", &[(1, "x"), (2, "a\n")]),
            ("x\n\"a\nb", &[(1, "x"), (2, "a\nb")]),
            ("", &[]),
            ("\n\r\n", &[]),
            ("\u{feff}a\n", &[(1, "a")]),
            (",\n\"\"\n", &[(1, "|"), (2, "")]),
        ] {
            let expected: Vec<(u64, String)> = expected
                .iter()
                .map(|(n, s)| (*n, (*s).to_owned()))
                .collect();
            for piece in [1, 2, 3, 4, 5, 1000] {
                assert_eq!(
                    numbered(text, piece),
                    expected,
                    "{text:?} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn long_lines_and_many_fields_fit() {
        let long = "7".repeat(100_000);
        assert_eq!(
            numbered(&format!("{long},1\n"), 777),
            [(1, format!("{long}|1"))]
        );
        let many = vec!["1"; 5000];
        assert_eq!(numbered(&many.join(","), 100), [(1, many.join("|"))]);
    }
}
