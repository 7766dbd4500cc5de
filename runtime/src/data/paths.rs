//! The files that a path or a pattern of paths means.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::{Constant, Setting};

use crate::DataError;
use crate::data::Opening;
use crate::outside::Bytes;

/// The files of a source, in the order in which they are read: as listed, and those of one pattern by name.
pub(super) fn files(cx: Opening<'_>, source: &Setting) -> Result<Vec<Arc<Path>>, DataError> {
    let listed = match source.get("path") {
        Some(Constant::List(list)) => list.as_slice(),
        _ => &[],
    };
    let mut files = Vec::new();
    for path in listed {
        if let Constant::Str(path) = path {
            files.extend(expand(cx, path, source.span)?.into_iter().map(Arc::from));
        }
    }
    match files.is_empty() {
        true => Err(DataError::new("the source names no file").at(source.span)),
        false => Ok(files),
    }
}

/// Files of up to so many bytes together are counted when they are opened.
const COUNTED_BYTES: u64 = 16 << 20;

/// How many records files have together, each counted by `count`; `None` where they are large, or one cannot be read.
pub(super) fn counted(
    cx: Opening<'_>,
    files: &[Arc<Path>],
    count: impl Fn(Box<dyn Bytes>) -> Option<u64>,
) -> Option<u64> {
    let (mut bytes, mut records) = (0_u64, 0);
    for path in files {
        let file = cx.outside.open(path).ok()?;
        bytes = bytes.checked_add(file.length().ok()?)?;
        if bytes > COUNTED_BYTES {
            return None;
        }
        records += count(file)?;
    }
    Some(records)
}

/// `*` stands for any characters of a name and `?` for one of them.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn expand(cx: Opening<'_>, pattern: &str, span: Span) -> Result<Vec<PathBuf>, DataError> {
    if !is_pattern(pattern) {
        return Ok(vec![cx.folder.join(pattern)]);
    }
    let mut found = vec![cx.folder.to_owned()];
    for component in Path::new(pattern).components() {
        let part = component.as_os_str().to_string_lossy();
        if !is_pattern(&part) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            // A folder that cannot be read matches nothing; where nothing matches at all, that is told.
            let names = cx.outside.names(folder).unwrap_or_default();
            let fits = |name: &String| name.starts_with('.') == part.starts_with('.');
            let names = names.into_iter().filter(fits);
            next.extend(names.filter(|n| matches(&part, n)).map(|n| folder.join(n)));
        }
        found = next;
    }
    match found.is_empty() {
        true => Err(DataError::new(format!(
            "no file matches `{}`",
            cx.folder.join(pattern).display()
        ))
        .at(span)),
        false => Ok(found),
    }
}

/// Whether a name fits a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut i, mut j) = (0, 0);
    // The last `*`, and how far into the name it reaches so far.
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
    fn patterns_match_whole_names() {
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
