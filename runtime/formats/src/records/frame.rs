//! TFRecord framing: `u64` length, masked CRC-32C of the length, data, masked CRC-32C of the data.

use crate::crc;

/// The bytes before the data: the length and its checksum.
pub const HEADER_SIZE: usize = 12;

/// The bytes after the data: its checksum.
pub const FOOTER_SIZE: usize = 4;

/// The size of the frame of a record; `None` on overflow.
pub fn framed_length(data: u64) -> Option<u64> {
    data.checked_add((HEADER_SIZE + FOOTER_SIZE) as u64)
}

/// The header of a record of some length.
pub(crate) fn header(length: u64) -> [u8; HEADER_SIZE] {
    let length = length.to_le_bytes();
    let mut header = [0; HEADER_SIZE];
    header[..8].copy_from_slice(&length);
    header[8..].copy_from_slice(&crc::masked(&length).to_le_bytes());
    header
}

/// The footer of a record.
pub(crate) fn footer(data: &[u8]) -> [u8; FOOTER_SIZE] {
    crc::masked(data).to_le_bytes()
}

/// The length that a header states, if its checksum is right.
#[inline]
pub(crate) fn length(header: &[u8; HEADER_SIZE]) -> Option<u64> {
    let (length, stored) = header.split_first_chunk::<8>()?;
    let stored = u32::from_le_bytes(*stored.first_chunk()?);
    (crc::masked(length) == stored).then(|| u64::from_le_bytes(*length))
}

/// Whether the checksum in the footer is that of the data.
#[inline]
pub(crate) fn is_intact(data: &[u8], footer: &[u8; FOOTER_SIZE]) -> bool {
    is_checksum(crc::of(data), footer)
}

/// Whether the footer has this CRC-32C.
#[inline]
pub(crate) fn is_checksum(sum: u32, footer: &[u8; FOOTER_SIZE]) -> bool {
    crc::mask(sum) == u32::from_le_bytes(*footer)
}
