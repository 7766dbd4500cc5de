//! The encoding of string and variant tensors in data files.
//!
//! Strings: all lengths as varints, a masked CRC-32C of the lengths, then all strings. The checksum of lengths covers each as a
//! `u32`, or as a `u64` where it does not fit. Variants: each as its length, its bytes, and a masked CRC-32C of all before it, where
//! every length counts as a `u64`.

use crate::checkpoint::bundle::Endianness;
use crate::crc;
use crate::error::{FileKind, FormatError, Result};
use crate::tensor::BytesColumn;
use crate::wire::{WireError, WireReader, put_varint};

/// Encoded strings and their checksum.
#[derive(Debug, Default)]
pub(super) struct EncodedStrings {
    /// The bytes before the strings themselves: lengths and their checksum.
    pub(super) head: Vec<u8>,
    /// The checksum of everything, unmasked.
    pub(super) crc: u32,
}

/// Encodes strings: the head, after which the strings follow unchanged.
pub(super) fn encode(strings: &BytesColumn) -> EncodedStrings {
    let mut coded = EncodedStrings {
        head: Vec::with_capacity(strings.len() + 4),
        crc: 0,
    };
    for string in strings {
        put_varint(&mut coded.head, string.len() as u64);
        coded.crc = with_length(coded.crc, string.len() as u64, Endianness::Little);
    }
    let sum = crc::mask(coded.crc).to_le_bytes();
    coded.head.extend(sum);
    coded.crc = crc::append(coded.crc, &sum);
    for string in strings {
        coded.crc = crc::append(coded.crc, string);
    }
    coded
}

/// Encodes variants completely.
pub(super) fn encode_variants(variants: &BytesColumn) -> EncodedStrings {
    let mut coded = EncodedStrings::default();
    for variant in variants {
        let length = variant.len() as u64;
        put_varint(&mut coded.head, length);
        coded.head.extend_from_slice(variant);
        coded.crc = crc::append(coded.crc, &length.to_le_bytes());
        coded.crc = crc::append(coded.crc, variant);
        let sum = crc::mask(coded.crc).to_le_bytes();
        coded.head.extend(sum);
        coded.crc = crc::append(coded.crc, &sum);
    }
    coded
}

/// Decodes strings and computes their checksum. Offsets of errors count from the first byte.
pub(super) fn decode(bytes: &[u8], count: usize, order: Endianness) -> Result<(BytesColumn, u32)> {
    let mut strings = BytesColumn::default();
    // Each string has a byte or more for its length.
    let kind = FileKind::CheckpointData;
    strings.try_reserve(
        kind,
        count.min(bytes.len()),
        bytes.len().saturating_sub(count),
    )?;
    let crc = walk(bytes, count, order, |string| strings.try_push(kind, string))?;
    Ok((strings, crc))
}

/// Calls a function for each string and returns the checksum. Nothing is allocated.
pub(super) fn walk(
    bytes: &[u8],
    count: usize,
    order: Endianness,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u32> {
    // An empty tensor may have no bytes at all.
    if bytes.is_empty() && count == 0 {
        return Ok(0);
    }
    if count > bytes.len() {
        return Err(loss(format!(
            "{count} strings do not fit into {} bytes",
            bytes.len()
        )));
    }
    let mut wire = WireReader::new(bytes);
    let mut crc = 0;
    for _ in 0..count {
        crc = with_length(crc, wire.varint().map_err(broken)?, order);
    }
    let at = wire.position() as u64;
    let stored = wire.take(4).map_err(broken)?;
    check(stored, crc, order, "the lengths of strings").map_err(|e| e.at(at))?;
    crc = crc::append(crc, stored);
    // Lengths are decoded a second time with the strings, which takes no memory.
    let mut lengths = WireReader::new(bytes);
    for _ in 0..count {
        let length = lengths.varint().map_err(broken)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let string = wire.take(length).map_err(broken)?;
        crc = crc::append(crc, string);
        each(string)?;
    }
    ended(&wire)?;
    Ok(crc)
}

/// Decodes variants and computes their checksum.
pub(super) fn decode_variants(bytes: &[u8], count: usize) -> Result<(BytesColumn, u32)> {
    let mut variants = BytesColumn::default();
    let kind = FileKind::CheckpointData;
    let crc = walk_variants(bytes, count, |variant| variants.try_push(kind, variant))?;
    Ok((variants, crc))
}

/// Calls a function for each variant and returns the checksum. Nothing is allocated.
pub(super) fn walk_variants(
    bytes: &[u8],
    count: usize,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u32> {
    if count > bytes.len() {
        return Err(loss(format!(
            "{count} variants do not fit into {} bytes",
            bytes.len()
        )));
    }
    let mut wire = WireReader::new(bytes);
    let mut crc = 0;
    for _ in 0..count {
        let length = wire.varint().map_err(broken)?;
        crc = crc::append(crc, &length.to_le_bytes());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let variant = wire.take(length).map_err(broken)?;
        crc = crc::append(crc, variant);
        let at = wire.position() as u64;
        let stored = wire.take(4).map_err(broken)?;
        check(stored, crc, Endianness::Little, "a variant").map_err(|e| e.at(at))?;
        crc = crc::append(crc, stored);
        each(variant)?;
    }
    ended(&wire)?;
    Ok(crc)
}

fn with_length(crc: u32, length: u64, order: Endianness) -> u32 {
    match (u32::try_from(length), order) {
        (Ok(short), Endianness::Little) => crc::append(crc, &short.to_le_bytes()),
        (Ok(short), Endianness::Big) => crc::append(crc, &short.to_be_bytes()),
        (Err(_), Endianness::Little) => crc::append(crc, &length.to_le_bytes()),
        (Err(_), Endianness::Big) => crc::append(crc, &length.to_be_bytes()),
    }
}

fn check(stored: &[u8], found: u32, order: Endianness, what: &str) -> Result<()> {
    let bytes: [u8; 4] = std::array::from_fn(|i| stored[i]);
    let stored = crc::unmask(match order {
        Endianness::Little => u32::from_le_bytes(bytes),
        Endianness::Big => u32::from_be_bytes(bytes),
    });
    match stored == found {
        true => Ok(()),
        false => Err(loss(format!(
            "the checksum of {what} is {found:#010x} instead of {stored:#010x}"
        ))),
    }
}

fn ended(wire: &WireReader<'_>) -> Result<()> {
    match wire.is_empty() {
        true => Ok(()),
        false => Err(loss("bytes are left after the last element").at(wire.position() as u64)),
    }
}

fn broken(broken: WireError) -> FormatError {
    loss(broken.cause).at(broken.at as u64)
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::CheckpointData, cause)
}
