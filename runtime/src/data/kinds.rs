//! Files of another kind than their source reads: known by their first bytes, so that errors say what they are.

/// The first bytes of a file that are looked at.
pub(super) const START_BYTES: usize = 16;

/// What a file is, and how it is read, by its first bytes; `None` where they say nothing.
pub(super) fn kind_of(start: &[u8]) -> Option<(&'static str, &'static str)> {
    const KINDS: &[(&[u8], &str, &str)] = &[
        (
            b"\x93NUMPY",
            "an array of NumPy",
            "`source npy(\"...\");` reads it",
        ),
        (
            b"PK\x03\x04",
            "a zip archive",
            "`source npz(\"...\");` reads NumPy's archives; write the sheets of an xlsx file as csv",
        ),
        (
            b"PAR1",
            "a Parquet file",
            "write it as csv, npy or TFRecords first",
        ),
        (
            b"ARROW1",
            "an Arrow file",
            "write it as csv, npy or TFRecords first",
        ),
        (
            b"\x89HDF",
            "an HDF5 file",
            "write it as npy or TFRecords first",
        ),
        (
            b"\x89PNG",
            "a PNG image",
            "`source files(\"*.png\");` reads images",
        ),
        (
            b"\xff\xd8\xff",
            "a JPEG image",
            "`source files(\"*.jpg\");` reads images",
        ),
        (
            b"\xff\xfe",
            "text in UTF-16",
            "write it as UTF-8: `iconv -f UTF-16 -t UTF-8`",
        ),
        (
            b"\xfe\xff",
            "text in UTF-16",
            "write it as UTF-8: `iconv -f UTF-16 -t UTF-8`",
        ),
        (
            b"\x1f\x8b",
            "compressed by gzip",
            "`compression: auto` finds that, where the source has it; `gunzip` undoes it",
        ),
    ];
    let known = KINDS.iter().find(|(magic, ..)| start.starts_with(magic));
    let is_text = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    match known {
        Some((_, what, help)) => Some((what, help)),
        None if !start.is_empty() && start.iter().all(is_text) => Some((
            "text",
            "comma-separated values are read by `source csv(\"...\");`",
        )),
        // The length of a first record has zeros, and the checksum of the length follows.
        None if start.len() > 8 && start[4..8] == [0; 4] => Some((
            "no text: it has NUL bytes",
            "TFRecord files are read by `source tfrecord(\"...\");`",
        )),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        assert_eq!(kind_of(b"PAR1\x15\0").unwrap().0, "a Parquet file");
        assert_eq!(kind_of(b"x,y\n1,2\n").unwrap().0, "text");
        assert_eq!(kind_of(b"\x00\x01"), None);
        assert_eq!(kind_of(b""), None);
    }
}
