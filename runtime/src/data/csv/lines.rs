//! CSV tokenizer: the lines of a file, split into fields (RFC 4180 quoting).

use std::io;
use std::ops::Range;

use csv_core::ReadRecordResult;

use crate::env::RandomAccessFile;

/// The longest line that is accepted, in bytes of its fields; a quote that is never closed would extend it to the end of the file.
const MAX_LINE_BYTES: usize = 64 << 20;

/// The byte order mark (BOM) of UTF-8.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// Reads line after line.
pub(super) struct Lines {
    file: Box<dyn RandomAccessFile>,
    parser: csv_core::Reader,
    /// A read buffer, its part that is not parsed yet, and the file offset of its end.
    buffer: Vec<u8>,
    rest: Range<usize>,
    offset: u64,
    /// The fields of the current line, concatenated, and the end of each.
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// The number of fields.
    count: usize,
    /// The number of the line, counted from 1.
    pub(super) line: u64,
}

impl Lines {
    pub(super) fn new(file: Box<dyn RandomAccessFile>, delimiter: u8) -> Lines {
        Lines {
            file,
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            buffer: vec![0; 64 << 10],
            rest: 0..0,
            offset: 0,
            fields: vec![0; 1024],
            ends: vec![0; 64],
            count: 0,
            line: 0,
        }
    }

    /// The number of fields of the line.
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
        // The last byte that was parsed.
        let mut last = None;
        loop {
            if self.rest.is_empty() {
                self.fill()?;
            }
            let input = &self.buffer[self.rest.clone()];
            let (result, read, wrote, ends) = self.parser.read_record(
                input,
                &mut self.fields[written..],
                &mut self.ends[ended..],
            );
            // Empty input is the end of the file, which ends a line too.
            last = match read {
                0 => last.filter(|_| !input.is_empty()),
                n => Some(input[n - 1]),
            };
            self.rest.start += read;
            written += wrote;
            ended += ends;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if written >= MAX_LINE_BYTES => {
                    let message = format!(
                        "the line that begins before line {} has more than {MAX_LINE_BYTES} bytes; a closing quote may be missing",
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

    /// Refills the buffer; leaves it empty at the end of the file.
    fn fill(&mut self) -> io::Result<()> {
        let mut n = self.read_into(0)?;
        let mut start = 0;
        if self.offset == n as u64 {
            // The beginning of the file, where a byte order mark may stand: no part of the first field.
            while n <= BOM.len() {
                match self.read_into(n)? {
                    0 => break,
                    more => n += more,
                }
            }
            if self.buffer[..n].starts_with(BOM) {
                start = BOM.len();
            }
        }
        self.rest = start..n;
        Ok(())
    }

    /// Reads into the buffer from `start` on; gives the number of bytes.
    fn read_into(&mut self, start: usize) -> io::Result<usize> {
        loop {
            match self.file.read_at(self.offset, &mut self.buffer[start..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(n) => {
                    self.offset += n as u64;
                    return Ok(n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose reads give at most that many bytes.
    struct ShortReads(Vec<u8>, usize);

    impl RandomAccessFile for ShortReads {
        fn length(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.0[offset as usize..];
            let n = rest.len().min(self.1).min(buffer.len());
            buffer[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
    }

    fn numbered(text: &str, piece: usize) -> Vec<(u64, String)> {
        let mut lines = Lines::new(Box::new(ShortReads(text.into(), piece)), b',');
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
