//! TFRecord framing in a file that may still grow.
//!
//! In: a file. Out: the bytes of one record after the other, or that the next is not complete yet. A
//! [`RecordReader`](crate::records::RecordReader) reads ahead and takes a truncated record for the end or for damage;
//! here it is read again when the file has grown. The framing is the one of [`records`](crate::records).

use std::io;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::files::ReadAt;
use crate::memory;
use crate::records::frame::{self, FOOTER_SIZE, HEADER_SIZE};

/// The bytes of one read.
const CHUNK_BYTES: usize = 1 << 16;

/// Appends a framed record; what `write` appends are its data.
pub(super) fn append(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend([0; HEADER_SIZE]);
    write(to);
    let body = &to[start + HEADER_SIZE..];
    let (header, footer) = (frame::header(body.len() as u64), frame::footer(body));
    to[start..start + HEADER_SIZE].copy_from_slice(&header);
    to.extend(footer);
}

/// A sequential reader of records that may not be complete yet.
pub(super) struct FrameReader {
    source: Box<dyn ReadAt>,
    /// The offset of the next record.
    position: u64,
    buffer: Vec<u8>,
    /// The offset of the buffer in the file.
    start: u64,
}

impl FrameReader {
    /// Starts at the offset of a record.
    pub(super) fn new(source: Box<dyn ReadAt>, position: u64) -> FrameReader {
        FrameReader {
            source,
            position,
            buffer: Vec::new(),
            start: position,
        }
    }

    /// The offset of the next record, present or future.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes after the last complete record.
    pub(super) fn rest(&self) -> Result<u64> {
        let length = self.source.length().map_err(failed)?;
        Ok(length.saturating_sub(self.position))
    }

    /// The offset and the data of the next record; `None` while it is not complete. One that is longer than `max_length` is an
    /// error and is skipped.
    pub(super) fn next(&mut self, max_length: u64) -> Result<Option<(u64, &[u8])>> {
        let at = self.position;
        let header = self.peek(HEADER_SIZE as u64)?;
        let Some(header) = header.and_then(<[u8]>::first_chunk) else {
            return Ok(None);
        };
        let damaged = |cause: &str| Err(FormatError::data_loss(FileKind::Events, cause).at(at));
        let Some(length) = frame::length(header) else {
            return damaged("the checksum of the length of a record is wrong");
        };
        let Some(whole) = frame::framed_length(length) else {
            return damaged("a record is longer than any file");
        };
        if length > max_length && self.rest()? >= whole {
            self.position += whole;
            (self.start, self.buffer) = (self.position, Vec::new());
            let cause = format!("a record of {length} bytes is longer than {max_length}");
            let error = FormatError::new(Code::ResourceExhausted, FileKind::Events, cause);
            return Err(error.at(at));
        }
        let record = self.peek(whole)?;
        let Some((framed, footer)) = record.and_then(<[u8]>::split_last_chunk::<FOOTER_SIZE>)
        else {
            return Ok(None);
        };
        let end = framed.len();
        if !frame::is_intact(&framed[HEADER_SIZE..], footer) {
            return damaged("the checksum of the bytes of a record is wrong");
        }
        self.position += whole;
        let from = (at - self.start) as usize;
        Ok(Some((at, &self.buffer[from + HEADER_SIZE..from + end])))
    }

    /// Whether a complete record follows, which [`next`](FrameReader::next) returns.
    pub(super) fn has_next(&mut self) -> Result<bool> {
        let at = self.position;
        let found = self.next(u64::MAX)?.is_some();
        self.position = at;
        Ok(found)
    }

    /// The next `count` bytes, if the file has as many; nothing is allocated for bytes that it does not have.
    fn peek(&mut self, count: u64) -> Result<Option<&[u8]>> {
        let from = self.position - self.start;
        let held = self.buffer.len() as u64 - from;
        if held < count {
            let length = self.source.length().map_err(failed)?;
            let Some(left) = length.checked_sub(self.position) else {
                let cause = "the file became shorter than what was read of it";
                return Err(FormatError::data_loss(FileKind::Events, cause).at(self.position));
            };
            if left < count {
                return Ok(None);
            }
            let size = usize::try_from(count.max(left.min(CHUNK_BYTES as u64)))
                .map_err(|_| FormatError::data_loss(FileKind::Events, "a record does not fit"))?;
            // All of it is read again, also what was there before: it may have been incomplete.
            memory::resize(FileKind::Events, &mut self.buffer, size)
                .map_err(|e| e.at(self.position))?;
            self.start = self.position;
            if let Err(e) = self.source.read_exact_at(self.start, &mut self.buffer) {
                self.buffer.clear();
                return match e.kind() {
                    io::ErrorKind::UnexpectedEof => Ok(None),
                    _ => Err(failed(e).at(self.position)),
                };
            }
        }
        let from = (self.position - self.start) as usize;
        Ok(self.buffer.get(from..from + count as usize))
    }
}

impl std::fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameReader")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

fn failed(e: io::Error) -> FormatError {
    FormatError::io(FileKind::Events, "read it", e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Bytes that grow meanwhile.
    #[derive(Clone, Default)]
    struct Growing(Arc<Mutex<Vec<u8>>>);

    impl ReadAt for Growing {
        fn length(&self) -> io::Result<u64> {
            self.0.lock().unwrap().length()
        }

        fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.lock().unwrap().read_at(position, buffer)
        }
    }

    #[test]
    fn a_record_is_returned_once_its_last_byte_is_written() {
        let mut bytes = Vec::new();
        append(&mut bytes, |to| to.extend(b"first"));
        append(&mut bytes, |_| {});
        append(&mut bytes, |to| to.extend([7; 100_000]));
        let file = Growing::default();
        let mut frames = FrameReader::new(Box::new(file.clone()), 0);
        let mut seen = Vec::new();
        for byte in &bytes {
            assert_eq!(frames.next(1 << 20).unwrap(), None);
            file.0.lock().unwrap().push(*byte);
            if let Some((at, record)) = frames.next(1 << 20).unwrap() {
                seen.push((at, record.len()));
            }
        }
        assert_eq!(seen, [(0, 5), (21, 0), (37, 100_000)]);
        assert_eq!(frames.rest().unwrap(), 0);
    }

    #[test]
    fn a_length_beyond_the_file_allocates_nothing() {
        for length in [1 << 40, u64::MAX - 16, u64::MAX] {
            let bytes = frame::header(length).to_vec();
            let mut frames = FrameReader::new(Box::new(bytes), 0);
            match frames.next(1 << 20) {
                Ok(next) => assert_eq!(next, None),
                Err(e) => assert_eq!(e.offset, Some(0)),
            }
            assert!(frames.buffer.len() <= CHUNK_BYTES);
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let mut bytes = Vec::new();
        append(&mut bytes, |to| to.extend(b"first"));
        let file = Growing(Arc::new(Mutex::new(bytes)));
        let mut frames = FrameReader::new(Box::new(file.clone()), 0);
        assert!(frames.next(1 << 20).unwrap().is_some());
        file.0.lock().unwrap().clear();
        assert!(frames.next(1 << 20).is_err());
    }
}
