//! The files of a source: paths and glob patterns (`tf.io.gfile.glob`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::diag::nearest;
use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::{self, FilePattern};
use trainspec_formats::files::SequentialFile;
use trainspec_formats::glob;
use trainspec_formats::records::{Compression, ExpectedCompression};

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

/// How a file is compressed, as the spec says.
pub(super) fn expected_compression(compression: typed::Compression) -> ExpectedCompression {
    match compression {
        typed::Compression::Auto => ExpectedCompression::Detect,
        typed::Compression::None => ExpectedCompression::Is(Compression::None),
        typed::Compression::Gzip => ExpectedCompression::Is(Compression::Gzip),
        typed::Compression::Zlib => ExpectedCompression::Is(Compression::Zlib),
    }
}

/// Fails where a file is not compressed by gzip as its source says, or is although it says not.
pub(super) fn ensure_compression(
    file: &dyn ReadAt,
    expected: ExpectedCompression,
    path: &Arc<Path>,
) -> Result<(), DataError> {
    let mut start = [0; 2];
    if file.read_exact_at(0, &mut start).is_err() {
        // An empty file, or one whose error is said when it is read.
        return Ok(());
    }
    let fact = match (expected, start == [0x1f, 0x8b]) {
        (ExpectedCompression::Is(Compression::Gzip), false) => "is not compressed by gzip",
        (ExpectedCompression::Is(Compression::None), true) => "is compressed by gzip",
        _ => return Ok(()),
    };
    let help = "`compression: auto`, the default, finds out how each file is compressed";
    Err(DataError::new(fact).in_file(path).help(help))
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
    match cx.storage.open(&path) {
        Ok(_) => return Ok(vec![path]),
        Err(error) if !glob::is_pattern(pattern) => {
            return Err(unopened(cx, pattern, &path, &error).at(span));
        }
        Err(_) => {}
    }
    let matched = glob::expand(&cx.folder, pattern, |folder| cx.storage.list(folder))
        .map_err(|e| DataError::new(e.to_string()).at(span))?;
    match matched.is_empty() {
        true => {
            let message = format!("no file matches `{}`", path.display());
            Err(DataError::new(message).at(span).help(looked_for(cx)))
        }
        false => Ok(matched),
    }
}

/// In which folder relative paths were looked for.
fn looked_for(cx: &DataContext) -> String {
    match cx.folder.as_os_str().is_empty() {
        true => "it was looked for in the working folder".to_owned(),
        false => format!("it was looked for in {}", cx.folder.display()),
    }
}

/// The error of a file that is not there, with the nearest name beside it, or of a folder, with a pattern of its files.
fn unopened(cx: &DataContext, pattern: &str, path: &Path, error: &io::Error) -> DataError {
    let listed = |folder: &Path| cx.storage.list(folder).unwrap_or_default();
    let names = |folder: &Path| -> Vec<String> {
        let names = listed(folder).into_iter();
        names.filter_map(|name| name.into_string().ok()).collect()
    };
    let inside = names(path);
    if !inside.is_empty() {
        let written = pattern.trim_end_matches('/');
        let ending = |names: &[String]| {
            let endings = names.iter().filter_map(|name| Path::new(name).extension());
            endings
                .map(|ending| ending.to_string_lossy().into_owned())
                .next()
        };
        let below = || {
            inside
                .iter()
                .find_map(|name| ending(&names(&path.join(name))))
        };
        let files = match (ending(&inside), below()) {
            (Some(ending), _) => format!("{written}/*.{ending}"),
            (None, Some(ending)) => format!("{written}/*/*.{ending}"),
            (None, None) => format!("{written}/*"),
        };
        let message = format!("{}: is a folder, and no file", path.display());
        return DataError::new(message).help(format!("name its files: `{files}`"));
    }
    let failed = DataError::new(format!("cannot be read: {error}")).in_file(&Arc::from(path));
    if error.kind() != io::ErrorKind::NotFound {
        return failed;
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let beside = names(path.parent().unwrap_or(Path::new("")));
    let near = name.and_then(|name| {
        let same_stem = |own: &&String| Path::new(own).file_stem() == Path::new(&name).file_stem();
        let near = nearest(&name, beside.iter().map(String::as_str));
        near.or_else(|| beside.iter().find(same_stem).map(String::as_str))
            .map(str::to_owned)
    });
    failed.help(match near {
        Some(near) => {
            let near = Path::new(pattern).with_file_name(near);
            format!("did you mean `{}`? {}", near.display(), looked_for(cx))
        }
        None => looked_for(cx),
    })
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
