//! The entries of a map of features, found without decoding them.
//!
//! In: the bytes of an `Example`. Out: where the value of each wanted key is. Records of one file mostly have the same keys in the same
//! order, so each place remembers the key that was there last.

use std::collections::HashMap;
use std::ops::Range;

use crate::wire::{Broken, Value, Wire};

/// How many places are remembered, and how long a key may be for that. More are looked up each time.
const PLACES: usize = 1024;
const LONGEST_KEY: usize = 256;

/// The wanted keys, each with a number, and where their values are in the message that was read last.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    numbers: HashMap<Vec<u8>, usize>,
    places: Vec<Place>,
    /// Where each value is; before its key is met, nowhere.
    pub(super) found: Vec<Option<Span>>,
}

/// A piece of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.range()]
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start..self.end
    }

    pub(super) fn start(self) -> usize {
        self.start
    }
}

/// What was found at a place of the last message.
#[derive(Debug, Clone)]
struct Place {
    key: Vec<u8>,
    number: Option<usize>,
}

impl Finder {
    pub(super) fn new<'k>(keys: impl Iterator<Item = &'k str>) -> Finder {
        let numbers: HashMap<Vec<u8>, usize> = keys
            .enumerate()
            .map(|(number, key)| (key.as_bytes().to_vec(), number))
            .collect();
        Finder {
            places: Vec::new(),
            found: vec![None; numbers.len()],
            numbers,
        }
    }

    /// Forgets what was found.
    pub(super) fn clear(&mut self) {
        self.found.fill(None);
    }

    /// Finds the wanted values in the map that a field of a message holds.
    pub(super) fn find(&mut self, message: &[u8], field: u32) -> Result<(), Broken> {
        self.clear();
        let mut place = 0;
        // Mostly the map is all there is.
        let mut wire = Wire::new(message);
        while let Some((number, value)) = wire.field()? {
            if let Value::Bytes(map) = value
                && number == field
            {
                let start = wire.position() - map.len();
                self.entries(message, start..wire.position(), &mut place)?;
            }
        }
        Ok(())
    }

    /// Finds the wanted values in a map. Those that are met later win.
    pub(super) fn entries(
        &mut self,
        message: &[u8],
        map: Range<usize>,
        place: &mut usize,
    ) -> Result<(), Broken> {
        let (mut at, end) = (map.start, map.end);
        let message = &message[..end];
        while at < end {
            let (key, value, next) = match short_entry(&message[at..]) {
                Some((key, value)) => {
                    let start = at + 6 + key;
                    (at + 4..at + 4 + key, start..start + value, start + value)
                }
                None => match entry(message, at)? {
                    Entry::Pair { key, value, next } => (key, value, next),
                    Entry::Unknown { next } => {
                        at = next;
                        continue;
                    }
                },
            };
            let number = match self.places.get(*place) {
                Some(last) if last.key == message[key.clone()] => last.number,
                _ => self.look_up(&message[key], *place),
            };
            if let Some(number) = number {
                self.found[number] = Some(Span {
                    start: value.start,
                    end: value.end,
                });
            }
            *place += 1;
            at = next;
        }
        Ok(())
    }

    /// The number of a key that is not the one of the last message, and remembers it.
    #[cold]
    fn look_up(&mut self, key: &[u8], place: usize) -> Option<usize> {
        let number = self.numbers.get(key).copied();
        if key.len() <= LONGEST_KEY {
            if let Some(last) = self.places.get_mut(place) {
                last.key.clear();
                last.key.extend_from_slice(key);
                last.number = number;
            } else if place == self.places.len() && place < PLACES {
                let key = key.to_vec();
                self.places.push(Place { key, number });
            }
        }
        number
    }
}

/// The lengths of the key and the value of an entry that is written as usual, the key first, with lengths of one byte each:
/// `0a length 0a length key 12 length value`.
#[inline(always)]
fn short_entry(bytes: &[u8]) -> Option<(usize, usize)> {
    let [0x0a, all, 0x0a, key, rest @ ..] = bytes else {
        return None;
    };
    let (all, key) = (*all as usize, *key as usize);
    let [0x12, value, rest @ ..] = rest.get(key..)? else {
        return None;
    };
    let value = *value as usize;
    // A byte above 127 goes on in the next, and then this is not so.
    let usual = all < 0x80 && key + value + 4 == all && value <= rest.len();
    usual.then_some((key, value))
}

enum Entry {
    Pair {
        key: Range<usize>,
        value: Range<usize>,
        next: usize,
    },
    /// A field that a map does not have.
    Unknown { next: usize },
}

/// The entry that begins at a byte, however it is written.
fn entry(message: &[u8], at: usize) -> Result<Entry, Broken> {
    let moved = |by: usize| {
        move |broken: Broken| Broken {
            at: broken.at + by,
            ..broken
        }
    };
    let mut wire = Wire::new(&message[at..]);
    let field = wire.field().map_err(moved(at))?;
    let next = at + wire.position();
    let Some((1, Value::Bytes(bytes))) = field else {
        return Ok(Entry::Unknown { next });
    };
    let start = next - bytes.len();
    let mut wire = Wire::new(bytes);
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
    Ok(Entry::Pair { key, value, next })
}
