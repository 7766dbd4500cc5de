//! Record files written, read, resumed, indexed and recovered.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trainspec_formats::files::Durability;
use trainspec_formats::records::{
    Check, Compression, Ending, ExpectedCompression, IndexedRecords, MultiFileReader, Permutation,
    Position, ReaderOptions, RecordIndex, RecordReader, RecordWriter, Recovering, ResumePoint,
    Skipped, WriterOptions, expand,
};
use trainspec_formats::{Code, FormatError, Result};

use crate::support::Folder;
use crate::support::records::framed;

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

/// Records of many lengths.
fn samples() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 5, 11, 12, 13, 16, 100, 0, 4096, 70_000, 3];
    let record =
        |(i, length): (usize, usize)| (0..length).map(|j| (i * 31 + j * 7) as u8).collect();
    lengths.into_iter().enumerate().map(record).collect()
}

#[test]
fn progress_counts_bytes_of_the_file() {
    for compression in ALL {
        let bytes = framed(&samples(), compression);
        let mut reader = RecordReader::new(&bytes[..], &Default::default()).unwrap();
        let mut before = 0;
        while reader.next().unwrap().is_some() {
            assert!(before <= reader.bytes_read() && reader.bytes_read() <= bytes.len() as u64);
            before = reader.bytes_read();
        }
        assert_eq!(reader.bytes_read(), bytes.len() as u64, "{compression:?}");
    }
}

fn drain<R: io::Read>(mut reader: RecordReader<R>) -> Result<Vec<Vec<u8>>> {
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record.to_vec());
    }
    Ok(records)
}

fn write(path: &Path, records: &[Vec<u8>], compression: Compression) {
    std::fs::write(path, framed(records, compression)).unwrap();
}

#[test]
fn records_round_trip_with_any_buffer_size() {
    let records = samples();
    for compression in ALL {
        let bytes = framed(&records, compression);
        for buffer in [0, 1, 17, 4096, 1 << 20] {
            for expected in [
                ExpectedCompression::Detect,
                ExpectedCompression::Is(compression),
            ] {
                let options = ReaderOptions {
                    compression: expected,
                    buffer,
                    ending: Ending::Strict,
                    ..Default::default()
                };
                let reader = RecordReader::new(bytes.as_slice(), &options).unwrap();
                assert_eq!(reader.compression(), compression);
                assert_eq!(drain(reader).unwrap(), records);
            }
        }
    }
}

#[test]
fn levels_of_compression_change_the_size_alone() {
    let records = vec![b"abcabcabd".repeat(1000); 3];
    let sizes = [0, 1, 9].map(|level| {
        let options = WriterOptions {
            compression: Compression::Zlib,
            level: Some(level),
            ..Default::default()
        };
        let mut writer = RecordWriter::new(Vec::new(), &options);
        records
            .iter()
            .for_each(|record| writer.write(record).unwrap());
        assert_eq!((writer.records(), writer.position()), (3, 3 * 9016));
        let bytes = writer.finish().unwrap();
        let reader = RecordReader::new(bytes.as_slice(), &Default::default()).unwrap();
        assert_eq!(drain(reader).unwrap(), records);
        bytes.len()
    });
    assert!(
        sizes[0] > 27_000 && sizes[1] < 1000 && sizes[2] <= sizes[1],
        "{sizes:?}"
    );
}

#[test]
fn several_gzip_streams_are_one_file() {
    let bytes = [
        framed(&samples(), Compression::Gzip),
        framed(&samples(), Compression::Gzip),
    ]
    .concat();
    let reader = RecordReader::new(bytes.as_slice(), &Default::default()).unwrap();
    assert_eq!(drain(reader).unwrap(), [samples(), samples()].concat());
}

#[test]
fn bytes_after_a_zlib_stream_are_an_error() {
    let bytes = [
        framed(&samples(), Compression::Zlib),
        framed(&samples(), Compression::Zlib),
    ]
    .concat();
    let reader = RecordReader::new(bytes.as_slice(), &Default::default()).unwrap();
    assert_eq!(drain(reader).unwrap_err().code, Code::DataLoss);
}

#[test]
fn reading_resumes_at_any_record() {
    let folder = Folder::new();
    let records = samples();
    for compression in ALL {
        let path = folder.file("records");
        write(&path, &records, compression);
        let mut reader = RecordReader::open(&path, &Default::default()).unwrap();
        for number in 0..=records.len() {
            let by_count = Position::Record(number as u64);
            let later = RecordReader::open_at(&path, by_count, &Default::default()).unwrap();
            assert_eq!(drain(later).unwrap(), records[number..]);
            let by_byte = Position::Byte(reader.position());
            let later = RecordReader::open_at(&path, by_byte, &Default::default());
            match compression {
                Compression::None => assert_eq!(drain(later.unwrap()).unwrap(), records[number..]),
                _ => assert_eq!(later.unwrap_err().code, Code::InvalidArgument),
            }
            assert_eq!(reader.next().unwrap().is_some(), number < records.len());
        }
        let beyond = Position::Record(records.len() as u64 + 1);
        let error = RecordReader::open_at(&path, beyond, &Default::default()).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
    }
    let path = folder.file("plain");
    write(&path, &records, Compression::None);
    let beyond = Position::Byte(1 << 40);
    let error = RecordReader::open_at(&path, beyond, &Default::default()).unwrap_err();
    assert_eq!(error.code, Code::OutOfRange);
}

#[test]
fn a_file_that_grows_is_read_on() {
    let folder = Folder::new();
    let path = folder.file("log");
    let mut writer = RecordWriter::create(&path, &Default::default()).unwrap();
    let mut reader = RecordReader::open(&path, &Default::default()).unwrap();
    assert!(reader.next().unwrap().is_none());
    for record in samples() {
        writer.write(&record).unwrap();
        writer.flush().unwrap();
        assert_eq!(reader.next().unwrap(), Some(record.as_slice()));
        assert!(reader.next().unwrap().is_none());
    }
    writer.sync().unwrap();
    writer.close(Durability::Synced).unwrap();
}

#[test]
fn missing_files_and_folders_are_errors() {
    let folder = Folder::new();
    let error = RecordReader::open(&folder.file("none"), &Default::default()).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    let error = RecordReader::open(&folder.0, &Default::default()).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    let error = RecordWriter::create(&folder.0, &Default::default()).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
}

/// A sink that fails after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
            None => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_failed_stays_failed() {
    for compression in ALL {
        let options = WriterOptions {
            compression,
            level: Some(0),
            buffer: 64,
        };
        let mut writer = RecordWriter::new(Full(2000), &options);
        let failed = (0..100)
            .find_map(|_| writer.write(&[7; 1000]).err())
            .unwrap();
        assert_eq!(failed.code, Code::ResourceExhausted, "{failed}");
        assert_eq!(
            writer.write(b"more").unwrap_err().code,
            Code::FailedPrecondition
        );
        assert_eq!(writer.flush().unwrap_err().code, Code::FailedPrecondition);
        assert_eq!(
            writer.finish().map(|_| ()).unwrap_err().code,
            Code::FailedPrecondition
        );
    }
    let mut writer = RecordWriter::new(Full(10), &Default::default());
    writer.write(b"buffered").unwrap();
    assert_eq!(
        writer.finish().map(|_| ()).unwrap_err().code,
        Code::ResourceExhausted
    );
}

#[test]
fn a_replacement_that_is_not_committed_leaves_what_was_there() {
    let folder = Folder::new();
    let path = folder.file("records");
    write(&path, &samples(), Compression::None);
    let mut writer = RecordWriter::replacing(&path, &Default::default()).unwrap();
    writer.write(b"new").unwrap();
    drop(writer);
    let reader = RecordReader::open(&path, &Default::default()).unwrap();
    assert_eq!(drain(reader).unwrap(), samples());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn names_expand_to_files() {
    let folder = Folder::new();
    for name in [
        "b-00001-of-00002.rec",
        "b-00000-of-00002.rec",
        "c.rec",
        "a.rec",
        ".hidden.rec",
    ] {
        std::fs::write(folder.file(name), b"").unwrap();
    }
    std::fs::create_dir(folder.file("sub")).unwrap();
    std::fs::write(folder.file("sub/d.rec"), b"").unwrap();
    let names = |text: &str| -> std::result::Result<Vec<String>, Code> {
        let found = expand(folder.file(text).to_str().unwrap()).map_err(|e| e.code)?;
        let name = |path: PathBuf| {
            path.strip_prefix(&folder.0)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        Ok(found.into_iter().map(name).collect())
    };
    let set = ["b-00000-of-00002.rec", "b-00001-of-00002.rec"];
    assert_eq!(names("b@2.rec").unwrap(), set);
    assert_eq!(names("b-*").unwrap(), set);
    assert_eq!(names("b-0000[1-9]-of-*").unwrap(), [set[1]]);
    assert_eq!(names("*.rec").unwrap(), ["a.rec", set[0], set[1], "c.rec"]);
    assert_eq!(names("?.rec").unwrap(), ["a.rec", "c.rec"]);
    assert_eq!(names("s*/*.rec").unwrap(), ["sub/d.rec"]);
    assert_eq!(names("*/d.rec").unwrap(), ["sub/d.rec"]);
    assert_eq!(names("a.rec").unwrap(), ["a.rec"]);
    for missing in ["b@3.rec", "z*", "z", "a.rec/*"] {
        assert_eq!(names(missing), Err(Code::NotFound), "{missing}");
    }
}

#[test]
fn several_files_are_read_in_order_and_resumed_anywhere() {
    let folder = Folder::new();
    let records = samples();
    let parts = [&records[..4], &records[4..4], &records[4..9], &records[9..]];
    for (number, part) in parts.into_iter().enumerate() {
        let compression = ALL[number % 3];
        write(
            &folder.file(&format!("r-0000{number}-of-00004")),
            part,
            compression,
        );
    }
    let name = folder.file("r@4");
    let mut all = MultiFileReader::expand(&[name.to_str().unwrap()], &Default::default()).unwrap();
    let mut places = Vec::new();
    for record in &records {
        places.push(all.resume_point());
        assert_eq!(all.next().unwrap(), Some(record.as_slice()));
    }
    places.push(all.resume_point());
    assert_eq!(all.next().unwrap(), None);
    assert_eq!((all.resume_point().file, all.current()), (4, None));
    for (number, place) in places.into_iter().enumerate() {
        all.seek(place).unwrap();
        assert_eq!(all.resume_point(), place);
        for record in &records[number..] {
            assert_eq!(
                all.next().unwrap(),
                Some(record.as_slice()),
                "from {place:?}"
            );
        }
        assert_eq!(all.next().unwrap(), None);
    }
    let beyond = ResumePoint {
        file: 5,
        ..ResumePoint::default()
    };
    assert_eq!(all.seek(beyond).unwrap_err().code, Code::OutOfRange);
}

#[test]
fn any_record_is_read_by_its_number() {
    let folder = Folder::new();
    let path = folder.file("records");
    let records = samples();
    write(&path, &records, Compression::None);
    let by_headers = RecordIndex::build(&path, Check::Headers).unwrap();
    assert_eq!(by_headers, RecordIndex::build(&path, Check::All).unwrap());
    assert_eq!(by_headers.len(), records.len());
    let indexed = IndexedRecords::open(&path, Check::Headers).unwrap();
    let mut buffer = Vec::new();
    for number in Permutation::new(records.len() as u64, 1, 2).iter() {
        let number = number as usize;
        assert_eq!(indexed.read(number, &mut buffer).unwrap(), records[number]);
        assert_eq!(
            indexed.index.length(number),
            Some(records[number].len() as u64)
        );
    }
    assert_eq!(
        indexed.read(records.len(), &mut buffer).unwrap_err().code,
        Code::OutOfRange
    );
    assert_eq!(indexed.index.offset(records.len()), None);
    assert_eq!(indexed.index.length(usize::MAX), None);

    write(&path, &records, Compression::Gzip);
    assert_eq!(
        RecordIndex::build(&path, Check::Headers).unwrap_err().code,
        Code::InvalidArgument
    );
}

#[test]
fn an_index_is_valid_until_the_records_change() {
    let folder = Folder::new();
    let path = folder.file("records");
    write(&path, &samples(), Compression::None);
    let beside = RecordIndex::beside(&path);
    let index = RecordIndex::load_or_build(&path, Check::All).unwrap();
    assert_eq!(RecordIndex::load(&beside, &path).unwrap(), index);
    let kept = std::fs::read(&beside).unwrap();
    for length in 0..kept.len() {
        std::fs::write(&beside, &kept[..length]).unwrap();
        assert_eq!(
            RecordIndex::load(&beside, &path).unwrap_err().code,
            Code::DataLoss,
            "{length}"
        );
    }
    for place in 0..kept.len() {
        let mut damaged = kept.clone();
        damaged[place] ^= 1;
        std::fs::write(&beside, &damaged).unwrap();
        assert_eq!(
            RecordIndex::load(&beside, &path).unwrap_err().code,
            Code::DataLoss,
            "{place}"
        );
    }
    std::fs::write(&beside, &kept).unwrap();
    write(&path, &samples()[..3], Compression::None);
    let error = RecordIndex::load(&beside, &path).unwrap_err();
    assert_eq!(error.code, Code::FailedPrecondition);
    assert_eq!(
        RecordIndex::load_or_build(&path, Check::Headers)
            .unwrap()
            .len(),
        3
    );
    assert_eq!(RecordIndex::load(&beside, &path).unwrap().len(), 3);
}

fn recover(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<Skipped>) {
    let mut recovering = Recovering::new(bytes.to_vec()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = recovering.next().unwrap() {
        records.push(record.to_vec());
    }
    assert_eq!(recovering.records(), records.len() as u64);
    (records, recovering.skipped().to_vec())
}

#[test]
fn recovery_loses_the_damaged_record_alone() {
    let records: Vec<Vec<u8>> = (0..12_u8).map(|i| vec![i; 7 * i as usize]).collect();
    let bytes = framed(&records, Compression::None);
    let mut start = 0;
    for (number, record) in records.iter().enumerate() {
        let end = start + record.len() + 16;
        for place in start..end {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x40;
            let (found, skipped) = recover(&damaged);
            let mut rest = records.clone();
            rest.remove(number);
            assert_eq!(found, rest, "byte {place}");
            let [one] = skipped.as_slice() else {
                panic!("byte {place}: {skipped:?}");
            };
            assert_eq!((one.from, one.to), (start as u64, Some(end as u64)));
        }
        start = end;
    }
}

#[test]
fn recovery_resumes_after_lost_or_added_bytes() {
    let records = samples();
    let bytes = framed(&records, Compression::None);
    let ends: Vec<usize> = records
        .iter()
        .scan(0, |end, record| {
            *end += record.len() + 16;
            Some(*end)
        })
        .collect();
    // Bytes are missing in the tenth record.
    let lost = [&bytes[..ends[8] + 100], &bytes[ends[8] + 200..]].concat();
    let (found, skipped) = recover(&lost);
    assert_eq!(found, [&records[..9], &records[10..]].concat());
    assert_eq!(skipped.len(), 1);
    // Others stand between two.
    let added = [&bytes[..ends[3]], &[0xff; 1000], &bytes[ends[3]..]].concat();
    let (found, skipped) = recover(&added);
    assert_eq!(found, records);
    assert_eq!(
        (skipped[0].from, skipped[0].to),
        (ends[3] as u64, Some(ends[3] as u64 + 1000))
    );
    // The file ends too early.
    let (found, skipped) = recover(&bytes[..ends[10] - 5]);
    assert_eq!(found, records[..10]);
    assert_eq!(skipped[0].cause, "the file ends inside the record");
    let (found, skipped) = recover(&bytes[..ends[10] + 5]);
    assert_eq!(found, records[..11]);
    assert_eq!(skipped[0].cause, "the file ends inside the header");
    assert_eq!(recover(&[]), (vec![], vec![]));
    assert_eq!(
        recover(b"no records at all, but some text").0,
        Vec::<Vec<u8>>::new()
    );
}

#[test]
fn records_inside_damaged_data_are_not_taken_for_records_of_the_file() {
    let inside = framed(&[b"inner".to_vec()], Compression::None);
    let outside = [
        b"first".to_vec(),
        [b"damaged".to_vec(), inside].concat(),
        b"last".to_vec(),
    ];
    let mut bytes = framed(&outside, Compression::None);
    // The first byte of the second record's data.
    bytes[21 + 12] ^= 1;
    let (found, _) = recover(&bytes);
    assert_eq!(found, [b"first".to_vec(), b"last".to_vec()]);
}

#[test]
fn a_hostile_file_does_not_hold_up_recovery() {
    // After a byte of damage, valid headers, each of which claims all the rest as its data.
    let count = 20_000_u64;
    let mut bytes = vec![0xff];
    for i in 0..count {
        let length = (count - i) * 12 - 16;
        let header = framed(&[Vec::new()], Compression::None);
        let mut header = header[..12].to_vec();
        header[..8].copy_from_slice(&length.to_le_bytes());
        let sum = trainspec_formats::crc::masked(&length.to_le_bytes());
        header[8..].copy_from_slice(&sum.to_le_bytes());
        bytes.extend(header);
        if length < 100 {
            break;
        }
    }
    bytes.resize(1 + count as usize * 12, 0);
    let (found, skipped) = recover(&bytes);
    assert!(found.is_empty());
    let last = skipped.last().unwrap();
    assert_eq!(last.to, Some(bytes.len() as u64));
    // The search was given up: it may hash each byte a bounded number of times on average.
    let given_up = "too much after it looks like a record and is none";
    assert!(last.cause.contains(given_up), "{}", last.cause);
}

#[test]
fn a_compressed_file_is_recovered_up_to_its_damage() {
    let folder = Folder::new();
    let path = folder.file("records");
    let records: Vec<Vec<u8>> = (0..2000_u32)
        .map(|i| i.wrapping_mul(2654435761).to_le_bytes().to_vec())
        .collect();
    let bytes = framed(&records, Compression::Gzip);
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let mut recovering = Recovering::open(&path).unwrap();
    let mut count = 0;
    while let Some(record) = recovering.next().unwrap() {
        assert_eq!(record, records[count]);
        count += 1;
    }
    assert!(count > 100, "{count}");
    let [skipped] = recovering.skipped() else {
        panic!()
    };
    assert_eq!((skipped.from, skipped.to), (count as u64 * 20, None));
}

#[test]
fn an_error_says_where_and_why() {
    let folder = Folder::new();
    let path = folder.file("records");
    let mut bytes = framed(&samples(), Compression::None);
    bytes[16 + 12] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let reader = RecordReader::open(&path, &Default::default()).unwrap();
    let error: FormatError = drain(reader).unwrap_err();
    let expected = format!(
        "{}: at byte 16: the checksum of the data is wrong",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_index_is_of_the_file_that_was_read() {
    let folder = Folder::new();
    let path = folder.file("a.tfrecord");
    write(&path, &samples(), Compression::None);
    let index = RecordIndex::build(&path, Check::Headers).unwrap();
    let mut more = std::fs::read(&path).unwrap();
    more.extend(framed(&samples(), Compression::None));
    std::fs::write(&path, &more).unwrap();
    // The records added meanwhile are not in it, so it is stale.
    let beside = RecordIndex::beside(&path);
    index.save(&beside, &path).unwrap();
    let error = RecordIndex::load(&beside, &path).unwrap_err();
    assert_eq!(error.code, Code::FailedPrecondition);
    let indexed = IndexedRecords::open(&path, Check::Headers).unwrap();
    assert_eq!(indexed.index.len(), 2 * samples().len());

    // An index of headers alone is not enough where data are to be checked.
    let last = more.len() - 5;
    more[last] ^= 1;
    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, &more).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(written).unwrap();
    assert!(IndexedRecords::open(&path, Check::Headers).is_ok());
    assert!(IndexedRecords::open(&path, Check::All).is_err());

    // A file that is no index is not replaced.
    std::fs::write(&beside, "not an index").unwrap();
    assert!(index.save(&beside, &path).is_err());
    assert_eq!(std::fs::read(&beside).unwrap(), b"not an index");
}
