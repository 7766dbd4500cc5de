//! Truncated, damaged and hostile record files.

use trainspec_formats::records::{
    Compression, Ending, ExpectedCompression, ReaderOptions, RecordReader, Recovering,
};
use trainspec_formats::{Code, FormatError};

use crate::support::records::framed;

fn samples() -> Vec<Vec<u8>> {
    let lengths = [0, 5, 40, 0, 200, 3];
    let record =
        |(i, length): (usize, usize)| (0..length).map(|j| (i * 31 + j * j) as u8).collect();
    lengths.into_iter().enumerate().map(record).collect()
}

/// The records before the end or an error, which must be those that were written.
fn read(
    bytes: &[u8],
    expected: ExpectedCompression,
    ending: Ending,
) -> (usize, Option<FormatError>) {
    let options = ReaderOptions {
        compression: expected,
        ending,
        ..Default::default()
    };
    let records = samples();
    let mut count = 0;
    let mut reader = match RecordReader::new(bytes, &options) {
        Ok(reader) => reader,
        Err(error) => return (0, Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => assert_eq!(Some(record), records.get(count).map(Vec::as_slice)),
            Ok(None) => return (count, None),
            Err(error) => {
                // A further call fails in the same way, or says that reading failed before.
                let again = reader.next().unwrap_err();
                assert!(again.code == error.code || again.code == Code::FailedPrecondition);
                return (count, Some(error));
            }
        }
        count += 1;
    }
}

#[test]
fn a_file_truncated_anywhere_gives_the_records_before() {
    let records = samples();
    let mut ends = vec![0];
    for record in &records {
        ends.push(ends.last().unwrap() + record.len() + 16);
    }
    let bytes = framed(&records, Compression::None);
    for cut in 0..bytes.len() {
        let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
        let inside = cut - ends[whole];
        let (count, error) = read(&bytes[..cut], ExpectedCompression::Detect, Ending::Strict);
        assert_eq!(count, whole, "cut at {cut}");
        assert_eq!(
            error.map(|e| e.code),
            (inside > 0).then_some(Code::DataLoss),
            "cut at {cut}"
        );
        let (count, error) = read(&bytes[..cut], ExpectedCompression::Detect, Ending::Lenient);
        assert_eq!(count, whole, "cut at {cut}");
        assert_eq!(
            error.map(|e| e.code),
            (inside >= 12).then_some(Code::DataLoss),
            "cut at {cut}"
        );
    }
}

#[test]
fn a_compressed_file_truncated_anywhere_is_damaged() {
    for compression in [Compression::Gzip, Compression::Zlib] {
        let bytes = framed(&samples(), compression);
        for cut in 1..bytes.len() {
            let given = ExpectedCompression::Is(compression);
            let (_, error) = read(&bytes[..cut], given, Ending::Strict);
            assert_eq!(
                error.map(|e| e.code),
                Some(Code::DataLoss),
                "{compression:?} cut at {cut}"
            );
            read(&bytes[..cut], given, Ending::Lenient);
            read(&bytes[..cut], ExpectedCompression::Detect, Ending::Lenient);
        }
    }
}

#[test]
fn a_changed_byte_is_never_a_changed_record() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let bytes = framed(&samples(), compression);
        for place in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[place] ^= change;
                for ending in [Ending::Strict, Ending::Lenient] {
                    for expected in [
                        ExpectedCompression::Is(compression),
                        ExpectedCompression::Detect,
                    ] {
                        let (count, error) = read(&damaged, expected, ending);
                        // Some bytes of gzip's header do not affect the content.
                        let harmless = compression == Compression::Gzip && place < 10;
                        // Where the last block of a stream loses its final-block flag, it looks truncated.
                        let cut = compression != Compression::None && ending == Ending::Lenient;
                        if !harmless && !cut {
                            assert!(
                                error.is_some(),
                                "{compression:?} {place} {change} {ending:?}"
                            );
                        }
                        assert!(error.is_some() || count == samples().len() || cut || count == 0);
                    }
                }
                let mut recovering = Recovering::new(damaged).unwrap();
                while recovering.next().unwrap().is_some() {}
            }
        }
    }
}
