//! Remapping of a matrix whose rows or columns stand for words, when the vocabulary changed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;

use crate::data::word_lines;
use crate::saver::files::Files;
use crate::{Code, Error};

/// The words of a vocabulary, in the order of their rows.
///
/// ```
/// use trainspec::saver::Vocabulary;
///
/// let words = Vocabulary::Words(vec!["cat".into(), "dog".into()]);
/// let file = Vocabulary::File("words.txt".into());
/// assert_ne!(words, file);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vocabulary {
    /// A text file with one word in each line.
    File(PathBuf),
    /// The words themselves.
    Words(Vec<String>),
}

/// The value of a row or column that the old vocabulary does not have (`backup_initializer`).
///
/// ```
/// use trainspec::saver::Backup;
///
/// assert_eq!(Backup::default(), Backup::Constant(0.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backup {
    /// All its elements are this number.
    Constant(f64),
    /// It keeps the values that the variable has, which its own initializer gave it.
    Initial,
}

impl Default for Backup {
    fn default() -> Backup {
        Backup::Constant(0.0)
    }
}

/// How the vocabulary of a variable changed (`tf.train.VocabInfo`).
///
/// ```
/// use trainspec::saver::{VocabInfo, Vocabulary};
///
/// let words = |words: &[&str]| Vocabulary::Words(words.iter().map(|w| (*w).to_owned()).collect());
/// let info = VocabInfo::new(words(&["dog", "cat", "bird"]), 3, words(&["cat", "dog"]));
/// assert_eq!((info.num_oov_buckets, info.old_vocab_size, info.axis), (0, None, 0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VocabInfo {
    /// The words of the variable.
    pub new_vocab: Vocabulary,
    /// How many of them are used.
    pub new_vocab_size: usize,
    /// How many rows after those of the words stand for unknown words; they take the backup.
    pub num_oov_buckets: usize,
    /// The words of the value in the checkpoint.
    pub old_vocab: Vocabulary,
    /// How many of them are used; `None` (TensorFlow's -1) uses all. Only for axis 0: TensorFlow ignores it for axis 1.
    pub old_vocab_size: Option<usize>,
    /// The value of new words.
    pub backup_initializer: Backup,
    /// The dimension that stands for words: 0 or 1.
    pub axis: usize,
}

impl VocabInfo {
    /// A change of vocabulary with TensorFlow's defaults.
    pub fn new(new_vocab: Vocabulary, new_vocab_size: usize, old_vocab: Vocabulary) -> VocabInfo {
        VocabInfo {
            new_vocab,
            new_vocab_size,
            num_oov_buckets: 0,
            old_vocab,
            old_vocab_size: None,
            backup_initializer: Backup::default(),
            axis: 0,
        }
    }

    /// The value of a variable: the rows or columns of `old` by word, those of new words from the backup.
    pub(super) fn remap(
        &self,
        files: Files<'_>,
        variable: &str,
        now: &Tensor,
        old: &Tensor,
    ) -> Result<Tensor, Error> {
        let wrong = |cause: String| {
            Err(Error::new(
                Code::InvalidArgument,
                format!("the vocabulary of `{variable}`: {cause}"),
            ))
        };
        if self.axis > 1 {
            return wrong(format!("the axis is {}, and must be 0 or 1", self.axis));
        }
        if self.new_vocab_size == 0 {
            return wrong("`new_vocab_size` is 0".to_owned());
        }
        if self.axis == 1 && self.old_vocab_size.is_some() {
            let error = wrong("`old_vocab_size` is set for axis 1".to_owned());
            return error.map_err(|e| e.help("leave it out: TensorFlow ignores it for axis 1"));
        }
        let (&[rows, columns], &[old_rows, old_columns]) = (now.shape(), old.shape()) else {
            return wrong(format!(
                "the variable is {} and the tensor of the checkpoint {}, and both must be matrices",
                now.ty(),
                old.ty()
            ));
        };
        let expected = self.new_vocab_size.saturating_add(self.num_oov_buckets);
        let (words, others, old_words, old_others) = match self.axis {
            0 => (rows, columns, old_rows, old_columns),
            _ => (columns, rows, old_columns, old_rows),
        };
        if words != expected {
            return wrong(format!(
                "dimension {} of {} is {words}, and there are {} words and {} buckets for others",
                self.axis,
                now.ty(),
                self.new_vocab_size,
                self.num_oov_buckets
            ));
        }
        if others != old_others || now.dtype() != old.dtype() {
            return wrong(format!(
                "the variable is {}, and the tensor of the checkpoint {}",
                now.ty(),
                old.ty()
            ));
        }
        let origin = self.origins(files, variable, old_words)?;
        let backup = match self.backup_initializer {
            Backup::Constant(number) if now.dtype().is_float() => {
                let numbers = std::iter::repeat_n(number, now.data().len());
                Tensor::from_f64s(&now.ty(), numbers)
            }
            Backup::Constant(_) => {
                return wrong(format!(
                    "the variable is {}, and a constant backup needs floats",
                    now.ty()
                ));
            }
            Backup::Initial => now.clone(),
        };
        let source = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            match self.axis {
                0 => origin[row].map(|from| from * old_columns + column),
                _ => origin[column].map(|from| row * old_columns + from),
            }
        };
        Ok(Tensor::of(
            now.shape(),
            pick(old.data(), backup.data(), source),
        ))
    }

    /// For each row or column of the variable the one in the checkpoint; `None` takes the backup.
    fn origins(
        &self,
        files: Files<'_>,
        variable: &str,
        old_words: usize,
    ) -> Result<Vec<Option<usize>>, Error> {
        let new = words(files, &self.new_vocab)?;
        let old = words(files, &self.old_vocab)?;
        let wrong = |cause: String| {
            Error::new(
                Code::InvalidArgument,
                format!("the vocabulary of `{variable}`: {cause}"),
            )
        };
        let new = new.get(..self.new_vocab_size).ok_or_else(|| {
            let size = self.new_vocab_size;
            wrong(format!(
                "`new_vocab_size` is {size}, and the new one has {} words",
                new.len()
            ))
        })?;
        let size = self.old_vocab_size.unwrap_or(old.len());
        let old = old.get(..size).ok_or_else(|| {
            wrong(format!(
                "`old_vocab_size` is {size}, and the old one has {} words",
                old.len()
            ))
        })?;
        let mut index = BTreeMap::new();
        for (at, word) in old.iter().enumerate() {
            if index.insert(word, at).is_some() {
                let word = String::from_utf8_lossy(word);
                return Err(wrong(format!("the old one has `{word}` twice")));
            }
        }
        let mut origins: Vec<Option<usize>> = Vec::with_capacity(new.len() + self.num_oov_buckets);
        for word in new {
            let from = index.get(word).copied();
            if from.is_some_and(|from| from >= old_words) {
                let word = String::from_utf8_lossy(word);
                return Err(wrong(format!(
                    "`{word}` is word {} of the old one, and the tensor of the checkpoint has {old_words}",
                    from.unwrap_or_default()
                )));
            }
            origins.push(from);
        }
        origins.extend(std::iter::repeat_n(None, self.num_oov_buckets));
        Ok(origins)
    }
}

/// The words of a vocabulary.
fn words<'v>(files: Files<'_>, vocabulary: &'v Vocabulary) -> Result<Vec<Cow<'v, [u8]>>, Error> {
    match vocabulary {
        Vocabulary::Words(words) => Ok(words.iter().map(|w| Cow::Borrowed(w.as_bytes())).collect()),
        Vocabulary::File(path) => {
            let bytes = files.read(path)?;
            let lines = word_lines(&bytes).map(|line| Cow::Owned(line.to_vec()));
            Ok(lines.collect())
        }
    }
}

/// For each element of `backup` the element of `old` at its source, or itself. Both have the same type.
fn pick(old: &Data, backup: &Data, source: impl Fn(usize) -> Option<usize>) -> Data {
    macro_rules! pick {
        ($($variant:ident),*) => {
            match (old, backup) {
                $((Data::$variant(old), Data::$variant(backup)) => {
                    let picked = backup.iter().enumerate().map(|(i, own)| match source(i) {
                        Some(from) => old[from].clone(),
                        None => own.clone(),
                    });
                    Data::$variant(picked.collect())
                })*
                _ => unreachable!("the types were compared"),
            }
        };
    }
    pick!(F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool, String)
}
