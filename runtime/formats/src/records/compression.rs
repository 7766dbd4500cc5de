//! Compression of record files (gzip, zlib) and its detection by magic bytes.

use std::io::{BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use super::frame::{self, HEADER_SIZE};
use crate::error::{FileKind, FormatError, Result};

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Gzip (RFC 1952).
    Gzip,
    /// Zlib (RFC 1950).
    Zlib,
}

impl Compression {
    /// The compression of TensorFlow's name for it: `""`, `"NONE"`, `"GZIP"` or `"ZLIB"`.
    ///
    /// ```
    /// use trainspec_formats::records::Compression;
    ///
    /// assert_eq!(Compression::from_name("GZIP").unwrap(), Compression::Gzip);
    /// assert!(Compression::from_name("LZ4").is_err());
    /// ```
    pub fn from_name(name: &str) -> Result<Compression> {
        match name {
            "" | "NONE" => Ok(Compression::None),
            "GZIP" => Ok(Compression::Gzip),
            "ZLIB" => Ok(Compression::Zlib),
            _ => Err(FormatError::invalid(
                FileKind::Record,
                format!(
                    "a record file is compressed with `GZIP`, `ZLIB` or not at all, not with `{name}`"
                ),
            )),
        }
    }

    /// Detects the compression by the first bytes of a file. A record header with a right checksum means none.
    pub fn detect(start: &[u8]) -> Compression {
        if let Some(header) = start.first_chunk::<HEADER_SIZE>()
            && frame::length(header).is_some()
        {
            return Compression::None;
        }
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A zlib header: method 8, window at most 32 KiB, no preset dictionary, and both bytes a multiple of 31.
            [cmf, flags, ..]
                if cmf & 15 == 8
                    && cmf >> 4 <= 7
                    && flags & 0x20 == 0
                    && (u16::from(*cmf) << 8 | u16::from(*flags)) % 31 == 0 =>
            {
                Compression::Zlib
            }
            _ => Compression::None,
        }
    }
}

/// The compression that a reader expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExpectedCompression {
    /// Detected by the first bytes.
    #[default]
    Detect,
    /// This one.
    Is(Compression),
}

/// The first bytes, which were read for detection, chained with the rest.
type PeekedSource<R> = Chain<Cursor<Vec<u8>>, CountingReader<R>>;

/// A reader that counts the bytes read.
pub(super) struct CountingReader<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(into)?;
        self.count += read as u64;
        Ok(read)
    }
}

/// The bytes of a file after decompression.
pub(super) enum Source<R> {
    Plain(PeekedSource<R>),
    Gzip(Box<MultiGzDecoder<BufReader<PeekedSource<R>>>>),
    Zlib(Box<ZlibDecoder<BufReader<PeekedSource<R>>>>),
}

impl<R: Read> Source<R> {
    pub(super) fn new(expected: ExpectedCompression, inner: R, buffer: usize) -> Result<Source<R>> {
        let mut inner = CountingReader { inner, count: 0 };
        let mut start = Vec::with_capacity(HEADER_SIZE);
        inner
            .by_ref()
            .take(HEADER_SIZE as u64)
            .read_to_end(&mut start)
            .map_err(|e| FormatError::io(FileKind::Record, "read it", e).at(0))?;
        let compression = match expected {
            ExpectedCompression::Detect => Compression::detect(&start),
            // An empty file is no compressed stream, but it is a file without records.
            ExpectedCompression::Is(_) if start.is_empty() => Compression::None,
            ExpectedCompression::Is(compression) => compression,
        };
        let inner = Cursor::new(start).chain(inner);
        let buffered = |inner| BufReader::with_capacity(buffer, inner);
        Ok(match compression {
            Compression::None => Source::Plain(inner),
            Compression::Gzip => Source::Gzip(Box::new(MultiGzDecoder::new(buffered(inner)))),
            Compression::Zlib => Source::Zlib(Box::new(ZlibDecoder::new(buffered(inner)))),
        })
    }

    /// The number of bytes read, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        let peeked = match self {
            Source::Plain(inner) => inner,
            Source::Gzip(inner) => inner.get_ref().get_ref(),
            Source::Zlib(inner) => inner.get_ref().get_ref(),
        };
        peeked.get_ref().1.count
    }

    pub(super) fn compression(&self) -> Compression {
        match self {
            Source::Plain(_) => Compression::None,
            Source::Gzip(_) => Compression::Gzip,
            Source::Zlib(_) => Compression::Zlib,
        }
    }

    /// Reads the next bytes; zero at the end of a complete stream.
    pub(super) fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = match self {
                Source::Plain(inner) => inner.read(into),
                Source::Gzip(inner) => inner.read(into),
                Source::Zlib(inner) => match inner.read(into) {
                    Ok(0) if !into.is_empty() && !inner.get_mut().fill_buf()?.is_empty() => {
                        let cause = "bytes follow the end of the compressed stream";
                        Err(std::io::Error::new(std::io::ErrorKind::InvalidData, cause))
                    }
                    read => read,
                },
            };
            match read {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}
