//! Deterministic serialization of examples, as TensorFlow does it: sorted keys, packed numbers, and a value after every key.
//!
//! A map entry with an empty value is written with its value. Other writers omit the value, and TensorFlow refuses such an entry.

use super::{Example, Feature, Features, SequenceExample};
use crate::proto::feature::Kind;

/// The bytes of an example.
pub fn encode(example: &Example) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(example, &mut bytes);
    bytes
}

/// Appends the bytes of an example.
pub fn encode_into(example: &Example, bytes: &mut Vec<u8>) {
    if let Some(features) = &example.features {
        field(1, bytes, |bytes| write_features(features, bytes));
    }
}

/// The bytes of a sequence example.
pub fn encode_sequence(example: &SequenceExample) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_sequence_into(example, &mut bytes);
    bytes
}

/// Appends the bytes of a sequence example.
pub fn encode_sequence_into(example: &SequenceExample, bytes: &mut Vec<u8>) {
    if let Some(context) = &example.context {
        field(1, bytes, |bytes| write_features(context, bytes));
    }
    if let Some(lists) = &example.feature_lists {
        field(2, bytes, |bytes| {
            for (name, list) in &lists.feature_list {
                entry(name, bytes, |bytes| {
                    for feature in &list.feature {
                        field(1, bytes, |bytes| write_feature(feature, bytes));
                    }
                });
            }
        });
    }
}

fn write_features(features: &Features, bytes: &mut Vec<u8>) {
    for (name, feature) in &features.feature {
        entry(name, bytes, |bytes| write_feature(feature, bytes));
    }
}

/// Writes a map entry.
fn entry(name: &str, bytes: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    field(1, bytes, |bytes| {
        field(1, bytes, |bytes| bytes.extend_from_slice(name.as_bytes()));
        field(2, bytes, value);
    });
}

fn write_feature(feature: &Feature, bytes: &mut Vec<u8>) {
    match &feature.kind {
        None => {}
        Some(Kind::BytesList(list)) => field(1, bytes, |bytes| {
            for value in &list.value {
                field(1, bytes, |bytes| bytes.extend_from_slice(value));
            }
        }),
        Some(Kind::FloatList(list)) => field(2, bytes, |bytes| {
            if !list.value.is_empty() {
                field(1, bytes, |bytes| {
                    bytes.extend(list.value.iter().flat_map(|value| value.to_le_bytes()));
                });
            }
        }),
        Some(Kind::Int64List(list)) => field(3, bytes, |bytes| {
            if !list.value.is_empty() {
                field(1, bytes, |bytes| {
                    list.value
                        .iter()
                        .for_each(|value| varint(*value as u64, bytes));
                });
            }
        }),
    }
}

/// Writes a length-delimited field, whose length is known once its content is written.
fn field(number: u8, bytes: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    bytes.push(number << 3 | 2);
    // Most are short: one byte is reserved for the length, and more are inserted if necessary.
    bytes.push(0);
    let start = bytes.len();
    content(bytes);
    let length = bytes.len() - start;
    if length < 0x80 {
        bytes[start - 1] = length as u8;
        return;
    }
    let mut written = Vec::with_capacity(10);
    varint(length as u64, &mut written);
    bytes.splice(start - 1..start, written);
}

fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
