//! Record files in memory.

use trainspec_formats::records::{Compression, RecordWriter, WriterOptions};

/// The bytes of a record file.
pub fn framed(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let options = WriterOptions {
        compression,
        ..Default::default()
    };
    let mut writer = RecordWriter::new(Vec::new(), &options);
    records
        .iter()
        .for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap()
}
