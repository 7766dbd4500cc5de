//! The protocol-buffer wire format, read without decoding messages (varints, fixed and length-delimited fields).
//!
//! In: bytes. Out: fields, one after the other, each a number or a subslice. Nothing is allocated, so a hostile length cannot
//! exhaust memory.

/// A cursor over bytes in the wire format.
#[derive(Debug, Clone, Copy)]
pub struct WireReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The value of a field, by wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint (wire type 0).
    Varint(u64),
    /// Eight bytes (wire type 1).
    Fixed64(u64),
    /// Length-delimited bytes (wire type 2): a string, a message, a packed list.
    Bytes(&'a [u8]),
    /// Four bytes (wire type 5).
    Fixed32(u32),
}

/// Malformed bytes: what is wrong, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireError {
    /// The offset.
    pub at: usize,
    /// The cause.
    pub cause: &'static str,
}

impl<'a> WireReader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> WireReader<'a> {
        WireReader { bytes, at: 0 }
    }

    /// The current offset.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether all bytes are consumed.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn broken(&self, cause: &'static str) -> WireError {
        WireError { at: self.at, cause }
    }

    /// A varint (LEB128): seven bits per byte, the lowest first.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, WireError> {
        // Most take one byte.
        if let Some(&first) = self.bytes.get(self.at)
            && first < 0x80
        {
            self.at += 1;
            return Ok(u64::from(first));
        }
        let mut value = 0_u64;
        for (i, &byte) in self.bytes[self.at..].iter().take(10).enumerate() {
            if i == 9 && byte > 1 {
                return Err(self.broken("a varint has more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        Err(self.broken(match self.bytes.len() - self.at < 10 {
            true => "a varint is cut off",
            false => "a varint has more than 64 bits",
        }))
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..count)) {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(self.broken("a field is longer than what is left")),
        }
    }

    /// A length-delimited value: a varint length, then the bytes.
    #[inline]
    pub fn length_delimited(&mut self) -> Result<&'a [u8], WireError> {
        let count = self.varint()?;
        // A length that overflows `usize` is more than there is.
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The next field and its number; `None` at the end. Groups, which no message here has, are skipped.
    pub fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, WireError> {
        let mut depth = 0_u32;
        while !self.is_empty() {
            let start = self.at;
            let tag = self.varint()?;
            let broken = |cause| WireError { at: start, cause };
            let number = u32::try_from(tag >> 3).map_err(|_| broken("a field has no number"))?;
            if number == 0 || number > (1 << 29) - 1 {
                return Err(broken("a field has no number"));
            }
            let value = match tag & 7 {
                0 => Value::Varint(self.varint()?),
                1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
                2 => Value::Bytes(self.length_delimited()?),
                3 => {
                    depth += 1;
                    continue;
                }
                4 => {
                    depth = match depth.checked_sub(1) {
                        Some(depth) => depth,
                        None => return Err(broken("a group ends that did not begin")),
                    };
                    continue;
                }
                5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
                _ => return Err(broken("a field has a type that does not exist")),
            };
            if depth == 0 {
                return Ok(Some((number, value)));
            }
        }
        match depth {
            0 => Ok(None),
            _ => Err(self.broken("a group does not end")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let taken = self.take(N)?;
        Ok(std::array::from_fn(|i| taken[i]))
    }
}

/// Appends a varint.
///
/// ```
/// let mut bytes = Vec::new();
/// trainspec_formats::wire::put_varint(&mut bytes, 300);
/// assert_eq!(bytes, [0xac, 0x02]);
/// ```
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_groups_are_skipped() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: 150
            0x13, 0x08, 0x01, 0x14, // 2: a group
            0x1a, 0x02, b'h', b'i', // 3: "hi"
            0x25, 1, 0, 0, 0, // 4: four bytes
        ];
        let mut wire = WireReader::new(&bytes);
        assert_eq!(wire.field(), Ok(Some((1, Value::Varint(150)))));
        assert_eq!(wire.field(), Ok(Some((3, Value::Bytes(b"hi")))));
        assert_eq!(wire.field(), Ok(Some((4, Value::Fixed32(1)))));
        assert_eq!(wire.field(), Ok(None));
    }

    #[test]
    fn numbers_are_bounded() {
        assert_eq!(WireReader::new(&[0xff; 11]).varint().unwrap_err().at, 0);
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(WireReader::new(&largest).varint(), Ok(u64::MAX));
        assert_eq!(
            WireReader::new(&[0x80]).varint().unwrap_err().cause,
            "a varint is cut off"
        );
        assert!(
            WireReader::new(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f])
                .field()
                .is_err()
        );
    }
}
