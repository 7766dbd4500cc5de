//! A file as a stream of bytes, after decompression (gzip, zlib).

use std::io::{BufReader, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use crate::error::{FileKind, FormatError, Result};
use crate::files::{ReadAt, SequentialFile};
use crate::records::{Compression, ExpectedCompression};

/// The bytes that are read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The bytes of a file from its start, decompressed, with the compression that was found. Only gzip is detected: the first two bytes
/// of a zlib stream may be those of a text.
///
/// ```
/// use std::io::Read;
/// use trainspec_formats::files;
/// use trainspec_formats::records::{Compression, ExpectedCompression};
///
/// let file = Box::new(b"plain".to_vec());
/// let (found, mut bytes) = files::decompressed(file, ExpectedCompression::Detect)?;
/// let mut text = String::new();
/// bytes.read_to_string(&mut text).unwrap();
/// assert_eq!((found, text.as_str()), (Compression::None, "plain"));
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn decompressed(
    file: Box<dyn ReadAt>,
    expected: ExpectedCompression,
) -> Result<(Compression, Box<dyn Read + Send>)> {
    let failed = |e| FormatError::io(FileKind::Other, "read it", e);
    let mut start = [0; 2];
    let has_start = file.length().map_err(failed)? >= 2;
    if has_start {
        file.read_exact_at(0, &mut start).map_err(failed)?;
    }
    let compression = match expected {
        ExpectedCompression::Detect if start == [0x1f, 0x8b] => Compression::Gzip,
        ExpectedCompression::Detect => Compression::None,
        // An empty file is no compressed stream, but it is an empty text.
        ExpectedCompression::Is(_) if !has_start => Compression::None,
        ExpectedCompression::Is(compression) => compression,
    };
    let plain = BufReader::with_capacity(BUFFER_BYTES, SequentialFile::new(file));
    Ok((
        compression,
        match compression {
            Compression::None => Box::new(plain),
            Compression::Gzip => Box::new(MultiGzDecoder::new(plain)),
            Compression::Zlib => Box::new(ZlibDecoder::new(plain)),
        },
    ))
}
