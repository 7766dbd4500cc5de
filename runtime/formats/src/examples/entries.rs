//! Lookup of features in the `Features` map on the wire, without decoding them.
//!
//! In: the bytes of an `Example`. Out: the span of each requested key's value. Records of one file mostly have the same keys in the same
//! order, so the key at each entry index is cached.

use std::collections::HashMap;
use std::ops::Range;

use crate::wire::{Value, WireError, WireReader};

/// The maximum number and size of cached keys. Others are looked up in the hash table each time.
const MAX_CACHED_KEYS: usize = 1024;
const MAX_CACHED_KEY_BYTES: usize = 256;

/// The requested keys, each with a number, and the spans of their values in the last message.
#[derive(Debug, Clone)]
pub(super) struct FeatureFinder {
    numbers: HashMap<Vec<u8>, usize>,
    cached_keys: Vec<CachedKey>,
    /// The span of each value; [`Span::ABSENT`] before its key is found.
    found: Vec<Span>,
}

/// A byte range of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    const ABSENT: Span = Span {
        start: u32::MAX,
        end: 0,
    };

    #[inline]
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }
}

/// The key at an entry index of the last message.
#[derive(Debug, Clone)]
struct CachedKey {
    key: Vec<u8>,
    number: Option<usize>,
    /// The prefix of an entry with this key, with its lengths masked.
    head: Option<EntryPrefix>,
}

/// The prefix of an entry in the common encoding, the key first, with lengths of one byte each: `0a length 0a length key 12
/// length value`. It is compared word by word; the bytes of the first and the last length are masked.
#[derive(Debug, Clone, Copy)]
struct EntryPrefix {
    expected: [u128; 2],
    mask: [u128; 2],
    /// The offset of the value.
    value: usize,
}

impl EntryPrefix {
    fn new(key: &[u8]) -> Option<EntryPrefix> {
        let mut bytes = [0; 32];
        let mut mask = [0; 32];
        let value = key.len() + 6;
        if value > bytes.len() {
            return None;
        }
        let shown = [0x0a, 0, 0x0a, key.len() as u8];
        let all = shown.iter().chain(key).chain(&[0x12]);
        for (index, byte) in all.enumerate() {
            bytes[index] = *byte;
            mask[index] = if index == 1 { 0 } else { 0xff };
        }
        let words = |bytes: [u8; 32]| {
            let (words, _) = bytes.as_chunks::<16>();
            [u128::from_le_bytes(words[0]), u128::from_le_bytes(words[1])]
        };
        Some(EntryPrefix {
            expected: words(bytes),
            mask: words(mask),
            value,
        })
    }

    /// The length of the value of an entry with this prefix.
    #[inline(always)]
    fn value_length(&self, entry: &[u8]) -> Option<usize> {
        let (first, rest) = entry.split_first_chunk::<16>()?;
        let mut differs = u128::from_le_bytes(*first) & self.mask[0] ^ self.expected[0];
        if self.mask[1] != 0 {
            let second = rest.first_chunk::<16>()?;
            differs |= u128::from_le_bytes(*second) & self.mask[1] ^ self.expected[1];
        }
        let (all, value) = (first[1] as usize, usize::from(*entry.get(self.value - 1)?));
        // A byte above 127 begins a longer varint, which is not the common encoding.
        let usual = all < 0x80 && self.value + value == all + 2 && all + 2 <= entry.len();
        (differs == 0 && usual).then_some(value)
    }
}

impl FeatureFinder {
    pub(super) fn new<'k>(keys: impl Iterator<Item = &'k str>) -> FeatureFinder {
        let numbers: HashMap<Vec<u8>, usize> = keys
            .enumerate()
            .map(|(number, key)| (key.as_bytes().to_vec(), number))
            .collect();
        FeatureFinder {
            cached_keys: Vec::new(),
            found: vec![Span::ABSENT; numbers.len()],
            numbers,
        }
    }

    /// The span of a key's value, if it was found.
    #[inline]
    pub(super) fn found(&self, number: usize) -> Option<Span> {
        let span = self.found[number];
        (span != Span::ABSENT).then_some(span)
    }

    /// Finds the requested values in the map that a field of a message holds. Later entries win.
    pub(super) fn find(&mut self, message: &[u8], field: u32) -> Result<(), WireError> {
        self.found.fill(Span::ABSENT);
        // The maximum size of a serialized message is 2 GiB.
        if message.len() > i32::MAX as usize {
            let cause = "it is longer than any message";
            return Err(WireError { at: 0, cause });
        }
        let mut index = 0;
        let mut wire = WireReader::new(message);
        while let Some((number, value)) = wire.field()? {
            if let Value::Bytes(map) = value
                && number == field
            {
                let start = wire.position() - map.len();
                index = self.entries(&message[..wire.position()], start, index)?;
            }
        }
        Ok(())
    }

    /// Finds the requested values in a map that is the end of a message. Returns the next entry index.
    fn entries(
        &mut self,
        message: &[u8],
        start: usize,
        mut index: usize,
    ) -> Result<usize, WireError> {
        let mut at = start;
        while at < message.len() {
            if let Some(last) = self.cached_keys.get(index)
                && let Some(head) = &last.head
                && let Some(length) = head.value_length(&message[at..])
            {
                let start = at + head.value;
                at = start + length;
                if let Some(number) = last.number {
                    self.found[number] = Span {
                        start: start as u32,
                        end: at as u32,
                    };
                }
                index += 1;
                continue;
            }
            let (entry, next) = entry(message, at)?;
            at = next;
            if let Entry::Pair { key, value } = entry {
                if let Some(number) = self.look_up(&message[key], index) {
                    self.found[number] = Span {
                        start: value.start as u32,
                        end: value.end as u32,
                    };
                }
                index += 1;
            }
        }
        Ok(index)
    }

    /// The number of a key, which is cached at its entry index.
    fn look_up(&mut self, key: &[u8], index: usize) -> Option<usize> {
        match self.cached_keys.get_mut(index) {
            Some(last) if last.key == key => last.number,
            Some(last) => {
                let number = self.numbers.get(key).copied();
                if key.len() <= MAX_CACHED_KEY_BYTES {
                    last.key.clear();
                    last.key.extend_from_slice(key);
                    (last.number, last.head) = (number, EntryPrefix::new(key));
                }
                number
            }
            None => {
                let number = self.numbers.get(key).copied();
                if index == self.cached_keys.len()
                    && index < MAX_CACHED_KEYS
                    && key.len() <= MAX_CACHED_KEY_BYTES
                {
                    self.cached_keys.push(CachedKey {
                        key: key.to_vec(),
                        number,
                        head: EntryPrefix::new(key),
                    });
                }
                number
            }
        }
    }
}

enum Entry {
    Pair {
        key: Range<usize>,
        value: Range<usize>,
    },
    /// An unknown field.
    Unknown,
}

/// The entry at an offset, in any encoding, and the offset of the next.
fn entry(message: &[u8], at: usize) -> Result<(Entry, usize), WireError> {
    let moved = |by: usize| {
        move |broken: WireError| WireError {
            at: broken.at + by,
            ..broken
        }
    };
    let mut wire = WireReader::new(&message[at..]);
    let field = wire.field().map_err(moved(at))?;
    let next = at + wire.position();
    let Some((1, Value::Bytes(bytes))) = field else {
        return Ok((Entry::Unknown, next));
    };
    let start = next - bytes.len();
    let mut wire = WireReader::new(bytes);
    let (mut key, mut value) = (start..start, start..start);
    while let Some((number, piece)) = wire.field().map_err(moved(start))? {
        if let Value::Bytes(piece) = piece {
            let end = start + wire.position();
            match number {
                1 => key = end - piece.len()..end,
                2 => value = end - piece.len()..end,
                _ => {}
            }
        }
    }
    Ok((Entry::Pair { key, value }, next))
}
