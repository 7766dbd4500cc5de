//! `OrderedCode` keys of tensor slices (`EncodeTensorNameSlice`): they sort by name, rank, and extents.
//!
//! Strings end with the bytes 0 and 1, so that none is a prefix of another; numbers begin with their length.

use crate::checkpoint::slice::{Extent, Slice};

/// The key of a slice of a tensor.
pub(crate) fn of_slice(name: &str, slice: &Slice) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 8 + 4 * slice.0.len());
    // Keys of slices begin with a zero byte, which no name does.
    write_num_increasing(&mut key, 0);
    write_string(&mut key, name.as_bytes());
    write_num_increasing(&mut key, slice.0.len() as u64);
    for extent in &slice.0 {
        let (start, length) = match *extent {
            Extent::Full => (0, -1),
            Extent::Part { start, length } => (start as i64, length as i64),
        };
        write_signed_num_increasing(&mut key, start);
        write_signed_num_increasing(&mut key, length);
    }
    key
}

/// Whether a key is that of a slice, and not the name of a tensor.
pub(crate) fn is_slice(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

/// A key for people: the name of a tensor, or a name and a slice, `w, slice 0,3:-`. What is neither is escaped.
pub(crate) fn readable(key: &[u8]) -> String {
    match decode(key) {
        Some((name, slice)) => format!("{}, slice {slice}", name.escape_ascii()),
        None => key.escape_ascii().to_string(),
    }
}

/// The name and the slice of a key of a slice; `None` if it is none.
fn decode(key: &[u8]) -> Option<(Vec<u8>, Slice)> {
    let (mut rest, mut name) = (key.strip_prefix(&[0])?, Vec::new());
    loop {
        let (byte, taken) = match rest {
            [0, 1, ..] => break,
            [0, 0xff, ..] => (0, 2),
            [0xff, 0, ..] => (0xff, 2),
            [0 | 0xff, ..] | [] => return None,
            [byte, ..] => (*byte, 1),
        };
        name.push(byte);
        rest = &rest[taken..];
    }
    let (&length, digits) = rest[2..].split_first()?;
    let (rank, mut rest) = digits.split_at_checked(length.into())?;
    let rank = rank.iter().try_fold(0_usize, |rank, digit| {
        rank.checked_mul(256)?.checked_add((*digit).into())
    })?;
    let mut extents = Vec::new();
    while !rest.is_empty() {
        let start = read_signed_num_increasing(&mut rest)?;
        let length = read_signed_num_increasing(&mut rest)?;
        extents.push(match length {
            -1 => Extent::Full,
            _ => Extent::Part {
                start: start.try_into().ok()?,
                length: length.try_into().ok()?,
            },
        });
    }
    (extents.len() == rank).then_some((name, Slice(extents)))
}

/// The number at the start of the bytes, which it is taken from.
fn read_signed_num_increasing(bytes: &mut &[u8]) -> Option<i64> {
    // The leading bits are as many as there are bytes; at most two bytes have some.
    let leading = u16::from_be_bytes([*bytes.first()?, bytes.get(1).copied().unwrap_or(0)]);
    let is_negative = leading & 0x8000 == 0;
    let length = match is_negative {
        true => leading.leading_zeros(),
        false => leading.leading_ones(),
    };
    let (coded, rest) = bytes.split_at_checked(length as usize)?;
    let mut wide = if is_negative { [0xff; 16] } else { [0; 16] };
    let start = wide.len() - coded.len();
    wide[start..].copy_from_slice(coded);
    for bit in 0..coded.len() {
        wide[start + bit / 8] ^= 0x80 >> (bit % 8);
    }
    *bytes = rest;
    i64::try_from(i128::from_be_bytes(wide)).ok()
}

/// `OrderedCode::WriteString`: the bytes 0 and 255 are escaped by another one after them; 0 and 1 are the end.
fn write_string(out: &mut Vec<u8>, string: &[u8]) {
    for &byte in string {
        match byte {
            0 => out.extend([0, 0xff]),
            0xff => out.extend([0xff, 0]),
            _ => out.push(byte),
        }
    }
    out.extend([0, 1]);
}

/// `OrderedCode::WriteNumIncreasing`: the number of bytes, then the bytes in big-endian order without leading zeros.
fn write_num_increasing(out: &mut Vec<u8>, number: u64) {
    let skipped = number.leading_zeros() as usize / 8;
    out.push((8 - skipped) as u8);
    out.extend(&number.to_be_bytes()[skipped..]);
}

/// `OrderedCode::WriteSignedNumIncreasing`: as few bytes as possible, in big-endian order. The leading bits are the inverted sign, one
/// per byte, and then the sign once; after them come the low bits of the number.
fn write_signed_num_increasing(out: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number };
    let bits = (64 - magnitude.leading_zeros()) as usize;
    // Each byte holds seven bits; the sign takes one of all.
    let length = bits / 7 + 1;
    let wide = i128::from(number).to_be_bytes();
    let start = out.len();
    out.extend(&wide[wide.len() - length..]);
    for bit in 0..length {
        out[start + bit / 8] ^= 0x80 >> (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_published_ordered_code() {
        let coded = |number| {
            let mut out = Vec::new();
            write_signed_num_increasing(&mut out, number);
            out
        };
        assert_eq!(coded(0), [0x80]);
        assert_eq!(coded(-1), [0x7f]);
        assert_eq!(coded(63), [0xbf]);
        assert_eq!(coded(64), [0xc0, 0x40]);
        assert_eq!(coded(-64), [0x40]);
        assert_eq!(coded(-65), [0x3f, 0xbf]);
        assert_eq!(coded(-0x800), [0x38, 0x00]);
        assert_eq!(coded(0x42_4242), [0xf0, 0x42, 0x42, 0x42]);
        assert_eq!(coded(i64::MAX).len(), 10);
        assert_eq!(coded(i64::MAX)[..3], [0xff, 0xc0, 0x7f]);
    }

    #[test]
    fn keys_sort_as_numbers_do() {
        let mut numbers: Vec<i64> = (0..63)
            .flat_map(|bit| {
                let power = 1_i64 << bit;
                [power - 1, power, -power, !power]
            })
            .chain([i64::MAX, i64::MIN])
            .collect();
        numbers.sort();
        numbers.dedup();
        let coded: Vec<Vec<u8>> = numbers
            .iter()
            .map(|&number| {
                let mut out = Vec::new();
                write_signed_num_increasing(&mut out, number);
                out
            })
            .collect();
        assert!(coded.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn numbers_and_keys_are_read_back() {
        let powers = (0..63).map(|bit| 1_i64 << bit);
        let numbers = powers.flat_map(|power| [power - 1, power, -power, !power]);
        for number in numbers.chain([i64::MAX, i64::MIN]) {
            let mut coded = Vec::new();
            write_signed_num_increasing(&mut coded, number);
            coded.push(7);
            let mut rest = &coded[..];
            assert_eq!(read_signed_num_increasing(&mut rest), Some(number));
            assert_eq!(rest, [7]);
        }
        let slice: Slice = "3,2:-:100000,7".parse().unwrap();
        let key = of_slice("a/b", &slice);
        assert_eq!(readable(&key), "a/b, slice 3,2:-:100000,7");
        assert_eq!(readable(&of_slice("a", &Slice(Vec::new()))), "a, slice ");
        assert_eq!(decode(&of_slice("a\0\u{ff}b", &slice)).unwrap().1, slice);
        for end in 0..key.len() {
            assert_eq!(decode(&key[..end]), None, "{end}");
        }
        assert_eq!(readable(b"a/b"), "a/b");
        assert_eq!(readable(b"\0a"), "\\x00a");
    }

    #[test]
    fn special_bytes_of_names_are_escaped() {
        let slice = Slice(vec![
            Extent::Part {
                start: 3,
                length: 2,
            },
            Extent::Full,
        ]);
        assert_eq!(
            of_slice("a\0b", &slice),
            [0, b'a', 0, 0xff, b'b', 0, 1, 1, 2, 0x83, 0x82, 0x80, 0x7f]
        );
    }
}
