//! Vocabularies: words to ids and back (`tf.lookup.StaticVocabularyTable`).
//!
//! In: words in their order, from a file, a list, or counted in the training data. Out: the id of a word; of one that it does not have, a
//! bucket by its fingerprint; the word of an id.

use std::cmp::Reverse;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;

use crate::data::tables::fingerprint64;
use crate::data::tables::word_table::{MAX_WORDS, WordTable};
use crate::{Code, Error};

/// Words with ids: n words have 0..n, and buckets of other words n..n + `oov`.
///
/// ```
/// use trainspec::Vocabulary;
///
/// let species = Vocabulary::new(["Adelie", "Gentoo"], 1)?;
/// assert_eq!(species.id(b"Gentoo"), Some(1));
/// assert_eq!(species.id(b"Chinstrap"), Some(2));
/// assert_eq!(species.word(0), Some(&b"Adelie"[..]));
/// assert_eq!(species.word(2), None);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Vocabulary {
    words: WordTable,
    oov: u64,
}

impl PartialEq for Vocabulary {
    fn eq(&self, other: &Vocabulary) -> bool {
        self.oov == other.oov && self.words.words().eq(other.words.words())
    }
}

impl Vocabulary {
    /// Of distinct words, in the order of their ids, with a number of buckets for others.
    pub fn new<W: AsRef<[u8]>>(
        words: impl IntoIterator<Item = W>,
        oov: u64,
    ) -> Result<Vocabulary, Error> {
        let mut table = WordTable::default();
        for word in words {
            if table.len() == MAX_WORDS {
                let message = format!("a vocabulary has at most {MAX_WORDS} words");
                return Err(Error::new(Code::InvalidArgument, message));
            }
            let word = word.as_ref();
            let next = table.len();
            if let (first, false) = table.insert(word) {
                let shown = String::from_utf8_lossy(word);
                let message = format!(
                    "the word {shown:?} is there twice, as number {} and {}",
                    first + 1,
                    next + 1
                );
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        Ok(Vocabulary { words: table, oov })
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether it has no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of buckets for other words.
    pub fn oov(&self) -> u64 {
        self.oov
    }

    /// The id of a word, or of its bucket; `None` for another word where there are no buckets.
    pub fn id(&self, word: &[u8]) -> Option<u64> {
        match self.words.find(word) {
            Some(id) => Some(id as u64),
            None if self.oov == 0 => None,
            None => Some(self.len() as u64 + fingerprint64(word) % self.oov),
        }
    }

    /// The word of an id; `None` for that of a bucket, and for any other number.
    pub fn word(&self, id: i64) -> Option<&[u8]> {
        self.words.word(usize::try_from(id).ok()?)
    }

    /// All words, by their ids.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.words.words()
    }

    /// The words of a tensor of ids, as strings of its shape: an empty one where an id has no word.
    ///
    /// ```
    /// use trainspec::Vocabulary;
    /// use trainspec::Tensor;
    ///
    /// let species = Vocabulary::new(["Adelie", "Gentoo"], 1)?;
    /// let words = species.words(&Tensor::new(&[3], vec![1_i64, 0, 2]))?;
    /// assert_eq!(words.values::<Vec<u8>>().unwrap(), [b"Gentoo".to_vec(), b"Adelie".to_vec(), vec![]]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn words(&self, ids: &Tensor) -> Result<Tensor, Error> {
        if !ids.dtype().is_int() {
            let message = format!("the ids of words are integers, and these are {}", ids.ty());
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let word = |id: i64| self.word(id).unwrap_or_default().to_vec();
        let words = ids.to_i64s().into_iter().map(word).collect();
        Ok(Tensor::of(ids.shape(), Data::String(words)))
    }
}

/// Counts of words.
#[derive(Debug, Default)]
pub(super) struct WordCounts {
    words: WordTable,
    counts: Vec<u64>,
}

impl WordCounts {
    /// Counts a word; an empty one is a missing one, and is left out. Fails where there are too many.
    pub(super) fn add(&mut self, word: &[u8]) -> Result<(), Error> {
        if word.is_empty() {
            return Ok(());
        }
        if self.words.len() == MAX_WORDS {
            let message = format!("there are more than {MAX_WORDS} different words");
            return Err(Error::new(Code::ResourceExhausted, message));
        }
        match self.words.insert(word) {
            (_, true) => self.counts.push(1),
            (id, false) => self.counts[id] += 1,
        }
        Ok(())
    }

    /// The bytes that they take, and will take where they grow next.
    pub(super) fn memory(&self) -> u64 {
        self.words.memory() + 2 * 8 * self.counts.capacity() as u64
    }

    /// The most frequent `size` words, by falling frequency; of equally frequent ones the lesser bytes come first.
    pub(super) fn most_frequent(&self, size: u64) -> Vec<&[u8]> {
        let mut all: Vec<(Reverse<u64>, &[u8])> = (self.counts.iter().map(|n| Reverse(*n)))
            .zip(self.words.words())
            .collect();
        all.sort_unstable();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        all.into_iter().take(size).map(|(_, word)| word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_words_come_first_and_then_lesser_bytes() {
        let mut counts = WordCounts::default();
        for word in ["b", "c", "a", "b", "", "z", "c", "", ""] {
            counts.add(word.as_bytes()).unwrap();
        }
        assert_eq!(counts.most_frequent(10), [b"b", b"c", b"a", b"z"]);
        assert_eq!(counts.most_frequent(3), [b"b", b"c", b"a"]);
        let error = Vocabulary::new(["a", "b", "a"], 1).unwrap_err();
        assert!(error.to_string().contains("number 1 and 3"), "{error}");
    }

    #[test]
    fn without_buckets_another_word_has_no_id() {
        let vocabulary = Vocabulary::new(["a"], 0).unwrap();
        assert_eq!((vocabulary.id(b"a"), vocabulary.id(b"b")), (Some(0), None));
        assert_eq!((vocabulary.word(-1), vocabulary.word(1)), (None, None));
    }
}
