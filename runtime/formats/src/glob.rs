//! Glob patterns over file names, as in a shell and in `tf.io.gfile.glob`.
//!
//! `*` is any characters, `?` one, `[a-c]` a character class, `[!a-c]` a negated one, `\` takes the next character literally. No
//! wildcard matches `/`, nor a leading dot. A bracket that is never closed stands for itself.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{FileKind, FormatError, Result};

/// Whether a string is a glob pattern rather than a name.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[', '\\'])
}

/// Whether the name of a file matches the pattern of one path component.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    (n.first() == Some(&'.')) == (p.first() == Some(&'.')) && matches_chars(&p, &n)
}

/// The paths that match, sorted. The pattern is relative to `root`; `list` gives the names in a folder. A component whose text is
/// the name of an entry means that entry too, so that a folder called `[1]` can be named.
pub fn expand(
    root: &Path,
    pattern: &str,
    list: impl Fn(&Path) -> io::Result<Vec<OsString>>,
) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut is_listed = false;
    for component in Path::new(pattern).components() {
        let part = component.as_os_str().to_string_lossy();
        is_listed |= is_pattern(&part);
        // What follows the first pattern need not exist, and what precedes it is taken as it is.
        if !is_listed || !matches!(component, Component::Normal(_)) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            let names = match list(folder) {
                Ok(names) => names,
                Err(e) if is_absence(&e) => continue,
                Err(e) => {
                    return Err(FormatError::io(FileKind::Other, "list it", e).in_file(folder));
                }
            };
            let is_match = |name: &OsString| {
                name.as_os_str() == component.as_os_str() || matches(&part, &name.to_string_lossy())
            };
            let names = names.into_iter().filter(is_match);
            next.extend(names.map(|name| folder.join(name)));
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

/// What is no folder has no matches.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn matches_chars(pattern: &[char], name: &[char]) -> bool {
    let (mut i, mut j) = (0, 0);
    // The last `*`, and the position in the name to backtrack to.
    let mut star: Option<(usize, usize)> = None;
    while j < name.len() {
        if pattern.get(i) == Some(&'*') {
            star = Some((i, j));
            i += 1;
        } else if let Some(taken) = one(&pattern[i..], name[j]) {
            (i, j) = (i + taken, j + 1);
        } else if let Some((at, reach)) = star {
            star = Some((at, reach + 1));
            (i, j) = (at + 1, reach + 1);
        } else {
            return false;
        }
    }
    pattern[i..].iter().all(|c| *c == '*')
}

/// The number of pattern characters that match a character of the name, if they do.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', inside @ ..] => {
            let (others, inside) = match inside {
                ['!' | '^', inside @ ..] => (true, inside),
                _ => (false, inside),
            };
            // A bracket that comes first is literal; one that is never closed, too.
            let Some(end) = inside.iter().skip(1).position(|c| *c == ']') else {
                return (c == '[').then_some(1);
            };
            let set = &inside[..end + 1];
            let length = 1 + usize::from(others) + set.len() + 1;
            (among(set, c) != others).then_some(length)
        }
        ['\\', literal, ..] => (*literal == c).then_some(2),
        [first, ..] if *first == c => Some(1),
        _ => None,
    }
}

fn among(mut set: &[char], c: char) -> bool {
    while let [first, rest @ ..] = set {
        if let ['-', last, rest @ ..] = rest {
            if (*first..=*last).contains(&c) {
                return true;
            }
            set = rest;
        } else {
            if *first == c {
                return true;
            }
            set = rest;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_full_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*.csv", "a.csv", true),
            ("a*.csv", "a-b.csv", true),
            ("a*.csv", "a-b.csv2", false),
            ("a", "ab", false),
            ("*b*b", "abcb", true),
            ("*b*b", "abc", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyyd", false),
            ("***a", "bbba", true),
            ("m-?????-of-00002", "m-00001-of-00002", true),
            ("m-?????-of-00002", "m-0001-of-00002", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]1", "b1", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("a[", "a[", true),
            ("[a-]", "-", true),
            ("*[0-9]", "a-7", true),
            ("*[0-9]", "a7b", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*", ".a", false),
            (".*", ".a", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_match_in_linear_time() {
        let name = "a".repeat(59) + &"b".repeat(200);
        assert!(!matches(&"*a".repeat(60), &name));
    }

    #[test]
    fn every_component_may_be_a_pattern() {
        let list = |folder: &Path| match folder.to_str().unwrap() {
            "r" => Ok(vec!["[1]".into(), "1".into(), "2".into(), "file".into()]),
            "r/1" | "r/[1]" => Ok(vec!["a".into()]),
            "r/2" => Ok(vec!["b".into()]),
            "r/file" => Err(io::ErrorKind::NotADirectory.into()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        };
        let found = |pattern: &str| expand(Path::new("r"), pattern, list).map_err(|e| e.path);
        assert_eq!(
            found("*/a").unwrap(),
            ["r/1/a", "r/[1]/a"].map(PathBuf::from)
        );
        assert_eq!(
            found("[1]/*").unwrap(),
            ["r/1/a", "r/[1]/a"].map(PathBuf::from)
        );
        assert_eq!(found("*/c").unwrap(), [] as [PathBuf; 0]);
        assert_eq!(found("locked/*"), Err(Some(PathBuf::from("r/locked"))));
    }
}
