//! Arbitrary bytes: an SSTable or an error, never a crash; and arbitrary entries round-trip.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use trainspec_formats::Result;
use trainspec_formats::table::{Compression, Options, Table, TableBuilder};

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes.to_vec());
    // The input as entries: the first bytes are the options of the builder.
    let [size, interval, packed, rest @ ..] = bytes else {
        return;
    };
    let entries: BTreeMap<&[u8], &[u8]> = rest
        .split(|&b| b == 0)
        .map(|entry| entry.split_at(entry.len() / 2))
        .collect();
    let options = Options {
        block_size: usize::from(*size) * 8,
        restart_interval: usize::from(*interval),
        compression: match packed % 2 {
            0 => Compression::None,
            _ => Compression::Snappy,
        },
    };
    let mut builder = TableBuilder::with_options(Vec::new(), options);
    for (key, value) in &entries {
        builder.add(key, value).expect("keys in order");
    }
    let mut written = builder.finish().expect("memory does not fail");
    let found = read(written.clone()).expect("what was written");
    let expected: Vec<_> = entries
        .iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect();
    assert_eq!(found, expected);
    let table = Table::open(written.clone()).expect("what was written");
    for (key, value) in &entries {
        assert_eq!(
            table.get(key).expect("a whole table").as_deref(),
            Some(*value)
        );
    }
    // A changed bit is detected, or has no effect.
    let at = usize::from(*size) * 251 % written.len();
    written[at] ^= 1 << (interval % 8);
    if let Ok(found) = read(written) {
        assert_eq!(found, expected);
    }
});

fn read(bytes: Vec<u8>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let table = Table::open(bytes)?;
    table.verify(&mut drop);
    let mut cursor = table.cursor();
    let mut found = Vec::new();
    let mut length = 0;
    while cursor.advance()? {
        // Prefix-compressed keys can be far longer together than the file.
        length += cursor.key().len();
        if length > 1 << 24 {
            break;
        }
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    for (key, value) in found.iter().take(64) {
        if let Ok(again) = table.get(key) {
            // A damaged index may hide a key, but not change a value.
            assert!(again.is_none_or(|again| again == *value));
        }
    }
    Ok(found)
}
