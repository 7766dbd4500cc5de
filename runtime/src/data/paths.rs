//! The files of a source: paths and glob patterns (`tf.io.gfile.glob`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::FilePattern;
use trainspec_formats::files::SequentialFile;
use trainspec_formats::glob;

use crate::data::DataContext;
use crate::data::position::damaged;
use crate::env::{ReadAt, Storage};
use crate::{DataError, Error};

/// The files of a source, in the order in which they are read: as listed, and those of one pattern by name.
pub(super) fn files(cx: &DataContext, listed: &[FilePattern]) -> Result<Vec<Arc<Path>>, DataError> {
    let mut files = Vec::new();
    for file in listed {
        let expanded = expand(cx, &file.pattern, file.span)?;
        files.extend(expanded.into_iter().map(Arc::from));
    }
    Ok(files)
}

/// Files of up to this many bytes together are read once to count their records.
const MAX_COUNTED_BYTES: u64 = 16 << 20;

/// The total number of records of files, each counted by `count`; `None` where they exceed [`MAX_COUNTED_BYTES`], or one cannot
/// be read.
pub(super) fn count_records(
    storage: &dyn Storage,
    files: &[Arc<Path>],
    count: impl Fn(Box<dyn ReadAt>) -> Option<u64>,
) -> Option<u64> {
    let (mut bytes, mut records) = (0_u64, 0);
    for path in files {
        let file = storage.open(path).ok()?;
        bytes = bytes.checked_add(file.length().ok()?)?;
        if bytes > MAX_COUNTED_BYTES {
            return None;
        }
        records += count(file)?;
    }
    Some(records)
}

fn expand(cx: &DataContext, pattern: &str, span: Span) -> Result<Vec<PathBuf>, DataError> {
    let path = cx.folder.join(pattern);
    // A file whose name looks like a pattern is still a file.
    if !glob::is_pattern(pattern) || cx.storage.open(&path).is_ok() {
        return Ok(vec![path]);
    }
    let matched = glob::expand(&cx.folder, pattern, |folder| cx.storage.list(folder))
        .map_err(|e| DataError::new(e.to_string()).at(span))?;
    match matched.is_empty() {
        true => {
            let message = format!("no file matches `{}`", path.display());
            Err(DataError::new(message).at(span))
        }
        false => Ok(matched),
    }
}

/// Opens a file at a byte offset, which must be in it.
pub(super) fn open_at(
    storage: &dyn Storage,
    path: &Arc<Path>,
    offset: u64,
) -> Result<SequentialFile, DataError> {
    let failed = |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
    let file = storage.open(path).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    match offset <= length {
        true => Ok(SequentialFile::at(file, offset)),
        false => {
            let message = format!("has {length} bytes, and the position is after {offset}");
            Err(changed(DataError::new(message), path))
        }
    }
}

/// The error for a file that is not as it was when the position was taken.
pub(super) fn changed(error: DataError, path: &Arc<Path>) -> DataError {
    error
        .in_file(path)
        .help("the file may have changed since the position was taken")
}

/// Checks the index of a file of a position; the one after the last is the end.
pub(super) fn check_index(word: &str, index: u64, files: &[Arc<Path>]) -> Result<usize, Error> {
    let n = files.len();
    match usize::try_from(index) {
        Ok(index) if index <= n => Ok(index),
        _ => {
            let error = damaged(word, format!("is after {index} files, and there are {n}"));
            Err(error.help("files may have been removed since the position was taken"))
        }
    }
}
