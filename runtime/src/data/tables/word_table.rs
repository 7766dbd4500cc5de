//! Words numbered in the order in which they come: byte strings in one buffer, found by open addressing.

use crate::data::tables::fingerprint64;

/// A slot without a word.
const EMPTY: u32 = u32::MAX;

/// The most words: ids fit a slot.
pub(super) const MAX_WORDS: usize = EMPTY as usize;

/// Distinct words, each with an id: 0, 1, 2 and so on.
#[derive(Debug, Clone, Default)]
pub(super) struct WordTable {
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
    /// Ids by fingerprint; at most half of them are used, and their number is a power of 2.
    slots: Vec<u32>,
}

impl WordTable {
    /// The number of words.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The word of an id.
    pub(super) fn word(&self, id: usize) -> Option<&[u8]> {
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// All words, by their ids.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|id| self.word(id))
    }

    /// The id of a word.
    pub(super) fn find(&self, word: &[u8]) -> Option<usize> {
        match self.slot(word) {
            Some(slot) if self.slots[slot] != EMPTY => Some(self.slots[slot] as usize),
            Some(_) | None => None,
        }
    }

    /// The id of a word, which is added where it is new; whether it is new. There must be fewer than [`MAX_WORDS`].
    pub(super) fn insert(&mut self, word: &[u8]) -> (usize, bool) {
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow();
        }
        let slot = self.slot(word).expect("it has slots");
        if self.slots[slot] != EMPTY {
            return (self.slots[slot] as usize, false);
        }
        let id = self.len();
        self.slots[slot] = id as u32;
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
        (id, true)
    }

    /// The bytes that it takes, and will take where it grows next.
    pub(super) fn memory(&self) -> u64 {
        let bytes = self.bytes.capacity() + self.ends.capacity() * 8 + self.slots.len() * 4;
        2 * bytes as u64
    }

    /// The slot that holds a word, or the one that it would take; `None` where there are no slots.
    fn slot(&self, word: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = fingerprint64(word) as usize & mask;
        loop {
            match self.slots[slot] {
                EMPTY => return Some(slot),
                id if self.word(id as usize) == Some(word) => return Some(slot),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Doubles the slots.
    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(16);
        self.slots = vec![EMPTY; slots];
        for id in 0..self.len() {
            let word = self.word(id).expect("it is one of the words");
            let mut slot = fingerprint64(word) as usize & (slots - 1);
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) & (slots - 1);
            }
            self.slots[slot] = id as u32;
        }
    }
}

/// The lines of a file of words. The last one may end in a line feed or not, and each in a carriage return before it.
pub(crate) fn word_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = bytes.split(|byte| *byte == b'\n');
    let is_empty = bytes.is_empty();
    let lines = lines.take_while(move |_| !is_empty);
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_bytes() {
        let mut table = WordTable::default();
        assert_eq!(table.find(b"a"), None);
        let words: Vec<Vec<u8>> = (0..5000)
            .map(|i| format!("word {i}").into_bytes())
            .collect();
        for (id, word) in words.iter().enumerate() {
            assert_eq!(table.insert(word), (id, true));
            assert_eq!(table.insert(word), (id, false));
        }
        assert_eq!(table.insert(b""), (5000, true));
        for (id, word) in words.iter().enumerate() {
            assert_eq!(
                (table.find(word), table.word(id)),
                (Some(id), Some(&word[..]))
            );
        }
        assert_eq!(table.find(b"word"), None);
        assert_eq!(table.word(5001), None);
    }

    #[test]
    fn lines_are_words() {
        let words = |text: &'static str| -> Vec<&[u8]> { word_lines(text.as_bytes()).collect() };
        assert_eq!(words("a\nb\n"), [&b"a"[..], b"b"]);
        assert_eq!(words("a\r\n\nb"), [&b"a"[..], b"", b"b"]);
        assert_eq!(words("\n"), Vec::<&[u8]>::new());
        assert_eq!(words(""), Vec::<&[u8]>::new());
    }
}
