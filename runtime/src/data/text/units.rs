//! A stream of bytes cut into lines, words, characters or bytes.

use std::io::{self, Read};

use trainspec_compiler::typed::TextUnit;

/// The bytes that are read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The longest line or word; a compressed file could hold one that no memory has room for.
const MAX_RECORD_BYTES: usize = 1 << 28;

/// What stands for bytes that are not UTF-8.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// The parts of a stream.
pub(super) struct Units {
    from: Box<dyn Read + Send>,
    unit: TextUnit,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were taken.
    taken: usize,
    /// The bytes of the stream before the buffer.
    before: u64,
    is_at_end: bool,
}

impl Units {
    /// The parts of a stream that begins at that byte of the text.
    pub(super) fn new(from: Box<dyn Read + Send>, unit: TextUnit, start: u64) -> Units {
        Units {
            from,
            unit,
            buffer: Vec::new(),
            taken: 0,
            before: start,
            is_at_end: false,
        }
    }

    /// The byte after the last part that was read.
    pub(super) fn position(&self) -> u64 {
        self.before + self.taken as u64
    }

    /// Reads the next part; false at the end.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        match self.unit {
            TextUnit::Byte => {
                let Some(byte) = self.peek(1)?.first().copied() else {
                    return Ok(false);
                };
                record.push(byte);
                self.taken += 1;
                Ok(true)
            }
            TextUnit::Line => {
                let is_ended = self.until(record, |byte| byte == b'\n')?;
                if !is_ended && record.is_empty() {
                    return Ok(false);
                }
                if is_ended {
                    self.taken += 1;
                    if record.last() == Some(&b'\r') {
                        record.pop();
                    }
                }
                Ok(true)
            }
            TextUnit::Word => {
                loop {
                    let space = self.peek(1)?.iter();
                    let n = space.take_while(|byte| byte.is_ascii_whitespace()).count();
                    if n == 0 {
                        break;
                    }
                    self.taken += n;
                }
                self.until(record, |byte| byte.is_ascii_whitespace())?;
                Ok(!record.is_empty())
            }
            TextUnit::Character => {
                let (n, is_valid) = match self.peek(4)? {
                    [] => return Ok(false),
                    bytes => first_character(&bytes[..bytes.len().min(4)]),
                };
                match is_valid {
                    true => record.extend_from_slice(&self.buffer[self.taken..self.taken + n]),
                    false => record.extend_from_slice(REPLACEMENT),
                }
                self.taken += n;
                Ok(true)
            }
        }
    }

    /// Takes the bytes before the first one of a kind; false where the stream ends before.
    fn until(&mut self, record: &mut Vec<u8>, ends: impl Fn(u8) -> bool) -> io::Result<bool> {
        loop {
            let bytes = self.peek(1)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let end = bytes.iter().position(|byte| ends(*byte));
            let n = end.unwrap_or(bytes.len());
            if record.len() + n > MAX_RECORD_BYTES {
                let message =
                    format!("it has a line or word of more than {MAX_RECORD_BYTES} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            record.extend_from_slice(&bytes[..n]);
            self.taken += n;
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// The bytes that are not taken, at least `n` of them if there are as many.
    fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.taken < n && !self.is_at_end {
            self.buffer.drain(..self.taken);
            self.before += self.taken as u64;
            self.taken = 0;
            let kept = self.buffer.len();
            self.buffer.resize(kept + BUFFER_BYTES, 0);
            let read = loop {
                match self.from.read(&mut self.buffer[kept..]) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            self.buffer.truncate(kept + *read.as_ref().unwrap_or(&0));
            self.is_at_end = read? == 0;
        }
        Ok(&self.buffer[self.taken..])
    }
}

/// The length of the first character of up to four bytes, and whether it is one of UTF-8.
fn first_character(bytes: &[u8]) -> (usize, bool) {
    match str::from_utf8(bytes) {
        Ok(text) => (text.chars().next().map_or(0, char::len_utf8), true),
        Err(error) if error.valid_up_to() > 0 => {
            let valid = &bytes[..error.valid_up_to()];
            let text = str::from_utf8(valid).unwrap_or_default();
            (text.chars().next().map_or(1, char::len_utf8), true)
        }
        Err(error) => (error.error_len().unwrap_or(bytes.len()), false),
    }
}

/// Removes the line end of a line.
pub(super) fn strip_line_end(line: &mut Vec<u8>) {
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a text that is read a few bytes at a time, and the positions after them.
    fn all(text: &[u8], unit: TextUnit) -> Vec<(String, u64)> {
        struct Slow(Vec<u8>);
        impl Read for Slow {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let n = self.0.len().min(into.len()).min(3);
                into[..n].copy_from_slice(&self.0[..n]);
                self.0.drain(..n);
                Ok(n)
            }
        }
        let mut units = Units::new(Box::new(Slow(text.to_vec())), unit, 0);
        let (mut found, mut record) = (Vec::new(), Vec::new());
        while units.next(&mut record).unwrap() {
            found.push((
                String::from_utf8_lossy(&record).into_owned(),
                units.position(),
            ));
        }
        found
    }

    fn owned(parts: &[(&str, u64)]) -> Vec<(String, u64)> {
        parts
            .iter()
            .map(|(text, at)| ((*text).to_owned(), *at))
            .collect()
    }

    #[test]
    fn a_text_is_cut_into_its_parts() {
        let lines = all(b"one\r\n\ntwo\rthree\n", TextUnit::Line);
        assert_eq!(lines, owned(&[("one", 5), ("", 6), ("two\rthree", 16)]));
        assert_eq!(all(b"a\nb", TextUnit::Line), owned(&[("a", 2), ("b", 3)]));
        assert_eq!(all(b"", TextUnit::Line), []);
        let words = all(b"  to be,\tor\n\nnot  ", TextUnit::Word);
        assert_eq!(
            words,
            owned(&[("to", 4), ("be,", 8), ("or", 11), ("not", 16)])
        );
        let characters = all("aé€\u{1f600}".as_bytes(), TextUnit::Character);
        assert_eq!(
            characters,
            owned(&[("a", 1), ("é", 3), ("€", 6), ("\u{1f600}", 10)])
        );
        assert_eq!(all(b"ab", TextUnit::Byte), owned(&[("a", 1), ("b", 2)]));
    }

    #[test]
    fn bytes_that_are_no_characters_are_those_of_the_standard_library() {
        for text in [
            &b"a\xff\xfeb"[..],
            b"\xe2\x82",
            b"\xe2\x82x",
            b"\xf0\x9f\x98",
            b"\xc3\xc3\xa9",
            b"\xed\xa0\x80!",
        ] {
            let found: String = all(text, TextUnit::Character)
                .into_iter()
                .map(|(c, _)| c)
                .collect();
            assert_eq!(found, String::from_utf8_lossy(text), "{text:?}");
        }
    }
}
