//! The files of a source: paths and glob patterns (`tf.io.gfile.glob`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::FilePattern;
use trainspec_formats::glob;

use crate::DataError;
use crate::data::DataContext;
use crate::env::ReadAt;

/// The files of a source, in the order in which they are read: as listed, and those of one pattern by name.
pub(super) fn files(
    cx: DataContext<'_>,
    listed: &[FilePattern],
) -> Result<Vec<Arc<Path>>, DataError> {
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
    cx: DataContext<'_>,
    files: &[Arc<Path>],
    count: impl Fn(Box<dyn ReadAt>) -> Option<u64>,
) -> Option<u64> {
    let (mut bytes, mut records) = (0_u64, 0);
    for path in files {
        let file = cx.env.open(path).ok()?;
        bytes = bytes.checked_add(file.length().ok()?)?;
        if bytes > MAX_COUNTED_BYTES {
            return None;
        }
        records += count(file)?;
    }
    Some(records)
}

fn expand(cx: DataContext<'_>, pattern: &str, span: Span) -> Result<Vec<PathBuf>, DataError> {
    let path = cx.folder.join(pattern);
    // A file whose name looks like a pattern is still a file.
    if !glob::is_pattern(pattern) || cx.env.open(&path).is_ok() {
        return Ok(vec![path]);
    }
    let matched = glob::expand(cx.folder, pattern, |folder| cx.env.list_dir(folder))
        .map_err(|e| DataError::new(e.to_string()).at(span))?;
    match matched.is_empty() {
        true => {
            let message = format!("no file matches `{}`", path.display());
            Err(DataError::new(message).at(span))
        }
        false => Ok(matched),
    }
}
