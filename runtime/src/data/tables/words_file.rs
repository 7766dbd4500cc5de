//! Files of words, one in each line (`tf.lookup.TextFileInitializer`).

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::typed::{self, FilePattern};

use crate::data::DataContext;
use crate::data::tables::{Table, Vocabulary, word_lines};
use crate::{DataError, Error};

/// The path of a file of words.
pub(in crate::data) fn words_path(cx: &DataContext, file: &FilePattern) -> Arc<Path> {
    Arc::from(cx.folder.join(&file.pattern))
}

/// The vocabulary of a file. Fails where it has more words than `size`, or one twice.
pub(in crate::data) fn words_of_file(
    cx: &DataContext,
    file: &FilePattern,
    settings: &typed::Vocabulary,
) -> Result<Table, Error> {
    let path = words_path(cx, file);
    let wrong = |message: String| DataError::new(message).in_file(&path).at(file.span);
    let bytes = cx.storage.read(&path);
    let bytes = bytes.map_err(|e| wrong(format!("the words cannot be read: {e}")))?;
    let (count, size) = (word_lines(&bytes).count() as u64, settings.size);
    if count > size {
        let error = wrong(format!("the file has {count} words, and `size` is {size}"));
        return Err(error.help(format!("say `size: {count}`")).into());
    }
    if count == 0 {
        return Err(wrong("the file has no words".to_owned()).into());
    }
    let vocabulary = Vocabulary::new(word_lines(&bytes), settings.oov);
    let vocabulary = vocabulary.map_err(|error| wrong(error.diagnostic().message))?;
    Ok(Table::Vocabulary(Arc::new(vocabulary)))
}
