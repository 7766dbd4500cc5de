//! Checksums as TensorFlow stores them: CRC-32C, turned and shifted so that a checksum of checksums stays a good one.
//!
//! ```
//! use trainspec_formats::crc;
//!
//! assert_eq!(crc::of(b"123456789"), 0xe306_9283);
//! assert_eq!(crc::unmask(crc::mask(7)), 7);
//! ```

/// What is added after turning.
const MASK_DELTA: u32 = 0xa282_ead8;

/// The plain CRC-32C (Castagnoli) of some bytes.
pub fn of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC-32C of bytes that follow others whose checksum is known.
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The CRC-32C of two pieces after each other, from theirs and the length of the second.
pub fn combine(first: u32, second: u32, length: usize) -> u32 {
    crc32c::crc32c_combine(first, second, length)
}

/// The form that is stored.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The plain checksum of a stored one.
pub fn unmask(stored: u32) -> u32 {
    stored.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// The stored form of the checksum of some bytes.
pub fn masked(bytes: &[u8]) -> u32 {
    mask(of(bytes))
}
