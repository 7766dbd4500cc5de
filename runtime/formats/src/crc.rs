//! Masked CRC-32C (Castagnoli), the checksum of TFRecord, SSTables and bundles: rotated and offset, so that a CRC of CRCs stays a good one.
//!
//! ```
//! use trainspec_formats::crc;
//!
//! assert_eq!(crc::of(b"123456789"), 0xe306_9283);
//! assert_eq!(crc::unmask(crc::mask(7)), 7);
//! ```

/// The constant that is added after the rotation (`kMaskDelta`).
const MASK_DELTA: u32 = 0xa282_ead8;

/// The unmasked CRC-32C (Castagnoli) of some bytes.
pub fn of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Extends a CRC-32C by more bytes.
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The CRC-32C of a concatenation, from those of both pieces and the length of the second.
pub fn combine(first: u32, second: u32, length: usize) -> u32 {
    crc32c::crc32c_combine(first, second, length)
}

/// The masked form that is stored.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The unmasked CRC-32C of a stored one.
pub fn unmask(stored: u32) -> u32 {
    stored.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// The masked CRC-32C of some bytes.
pub fn masked(bytes: &[u8]) -> u32 {
    mask(of(bytes))
}
