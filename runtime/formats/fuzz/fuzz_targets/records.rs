//! Arbitrary bytes: records or an error, never a crash. Records round-trip, and recovery accounts for every byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainspec_formats::records::{
    Compression, Ending, ExpectedCompression, IndexedRecords, ReaderOptions, RecordIndex,
    RecordReader, RecordWriter, Recovering,
};

/// The maximum length of a record in bytes, which bounds what a small compressed input inflates to.
const MAX_RECORD_BYTES: u64 = 1 << 20;

fn options(compression: ExpectedCompression, ending: Ending, buffer: usize) -> ReaderOptions {
    ReaderOptions {
        compression,
        ending,
        buffer,
        max_length: MAX_RECORD_BYTES,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let ending = match choice & 1 {
        0 => Ending::Lenient,
        _ => Ending::Strict,
    };
    let buffer = 1 << (choice >> 1 & 7);
    // With any expected compression.
    let expected = match choice >> 4 & 3 {
        0 => ExpectedCompression::Detect,
        1 => ExpectedCompression::Is(Compression::Gzip),
        2 => ExpectedCompression::Is(Compression::Zlib),
        _ => ExpectedCompression::Is(Compression::None),
    };
    if let Ok(mut reader) = RecordReader::new(bytes, &options(expected, ending, buffer)) {
        while let Ok(Some(_)) = reader.next() {}
    }

    // Uncompressed: the records, written again, are a prefix of the bytes.
    let plain = options(ExpectedCompression::Is(Compression::None), ending, buffer);
    let mut reader = RecordReader::new(bytes, &plain).expect("bytes can be read");
    let mut writer = RecordWriter::new(Vec::new(), &Default::default());
    let mut records = Vec::new();
    let ended = loop {
        match reader.next() {
            Ok(Some(record)) => {
                writer.write(record).expect("memory can be written");
                records.push(record.to_vec());
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let written = writer.finish().expect("memory can be written");
    assert!(bytes.starts_with(&written));
    assert_eq!(reader.position(), written.len() as u64);

    // By number, if the headers are right.
    if let Ok(index) = RecordIndex::from_headers(bytes) {
        let indexed = IndexedRecords::new(bytes.to_vec(), index);
        let mut buffer = Vec::new();
        for (number, record) in records.iter().enumerate() {
            assert_eq!(
                indexed
                    .read(number, &mut buffer)
                    .expect("it was read before"),
                record
            );
        }
        for number in 0..indexed.index.len() {
            let _ = indexed.read(number, &mut buffer);
        }
    }

    // Recovery: these records and more, and all bytes are either records or skipped.
    let mut recovering = Recovering::new(bytes.to_vec()).expect("memory can be read");
    let mut found = Vec::new();
    while let Some(record) = recovering.next().expect("memory can be read") {
        found.push(record.to_vec());
    }
    assert!(found.starts_with(&records));
    let kept: usize = found.iter().map(|record| record.len() + 16).sum();
    let mut skipped = 0;
    let mut last = 0;
    for part in recovering.skipped() {
        let to = part.to.expect("it is not compressed");
        assert!(last <= part.from && part.from < to);
        skipped += to - part.from;
        last = to;
    }
    assert_eq!(kept as u64 + skipped, bytes.len() as u64);
    if ended && written.len() == bytes.len() {
        assert!(recovering.skipped().is_empty());
    }
});
