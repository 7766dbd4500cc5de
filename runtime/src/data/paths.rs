//! The files of a source: paths and glob patterns (`tf.io.gfile.glob`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::FilePattern;

use crate::DataError;
use crate::data::DataContext;
use crate::env::RandomAccessFile;

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
    count: impl Fn(Box<dyn RandomAccessFile>) -> Option<u64>,
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

/// Whether a path component is a glob pattern: `*` matches any characters of a name and `?` one of them.
fn is_pattern(component: &str) -> bool {
    component.contains(['*', '?'])
}

fn expand(cx: DataContext<'_>, pattern: &str, span: Span) -> Result<Vec<PathBuf>, DataError> {
    if !is_pattern(pattern) {
        return Ok(vec![cx.folder.join(pattern)]);
    }
    let mut matched = vec![cx.folder.to_owned()];
    for component in Path::new(pattern).components() {
        let part = component.as_os_str().to_string_lossy();
        if !is_pattern(&part) {
            matched.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for folder in &matched {
            // A folder that cannot be read matches nothing; a pattern without any match is an error.
            let names = cx.env.list_dir(folder).unwrap_or_default();
            let same_hidden = |name: &String| name.starts_with('.') == part.starts_with('.');
            let names = names.into_iter().filter(same_hidden);
            next.extend(names.filter(|n| matches(&part, n)).map(|n| folder.join(n)));
        }
        matched = next;
    }
    match matched.is_empty() {
        true => Err(DataError::new(format!(
            "no file matches `{}`",
            cx.folder.join(pattern).display()
        ))
        .at(span)),
        false => Ok(matched),
    }
}

/// Whether a name matches a glob pattern, with backtracking to the last `*`.
fn matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut i, mut j) = (0, 0);
    // The position of the last `*`, and the end of its match so far.
    let mut star: Option<(usize, usize)> = None;
    while j < n.len() {
        if i < p.len() && p[i] == '*' {
            star = Some((i, j));
            i += 1;
        } else if i < p.len() && (p[i] == '?' || p[i] == n[j]) {
            (i, j) = (i + 1, j + 1);
        } else if let Some((at, reach)) = star {
            star = Some((at, reach + 1));
            (i, j) = (at + 1, reach + 1);
        } else {
            return false;
        }
    }
    p[i..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_entire_names() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("a*.csv", "a.csv", true),
            ("a*.csv", "a-b.csv", true),
            ("a*.csv", "a-b.csv2", false),
            ("*b*b", "abcb", true),
            ("*b*b", "abc", false),
            ("?", "é", true),
            ("?", "", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
