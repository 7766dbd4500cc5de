//! Glob expansion, as in a shell: `*` is any characters, `?` one, `[a-c]` a character class, `[!a-c]` a negated one.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{FileKind, FormatError, Result};

/// Whether a string is a glob pattern rather than a name.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// The paths that match, sorted. No wildcard matches `/`, nor a leading dot.
pub(super) fn paths(pattern: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in Path::new(pattern).components() {
        let part = component.as_os_str().to_string_lossy();
        match component {
            Component::Normal(_) if is_pattern(&part) => {}
            _ => {
                found.iter_mut().for_each(|path| path.push(component));
                continue;
            }
        }
        let part: Vec<char> = part.chars().collect();
        let mut next = Vec::new();
        for folder in &found {
            names(folder, &part, &mut next)?;
        }
        found = next;
    }
    // Components after the last pattern need not exist.
    found.retain(|path| path.exists());
    found.sort();
    Ok(found)
}

/// Adds the entries of a folder that match.
fn names(folder: &Path, pattern: &[char], into: &mut Vec<PathBuf>) -> Result<()> {
    let listed = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let entries = match fs::read_dir(listed) {
        Ok(entries) => entries,
        // What is no folder has no matches.
        Err(e) => match FormatError::io(FileKind::Record, "list it", e).in_file(listed) {
            error if error.source.as_ref().is_some_and(is_absence) => return Ok(()),
            error => return Err(error),
        },
    };
    for entry in entries {
        let entry =
            entry.map_err(|e| FormatError::io(FileKind::Record, "list it", e).in_file(listed))?;
        let name = entry.file_name();
        let chars: Vec<char> = name.to_string_lossy().chars().collect();
        let hidden = chars.first() == Some(&'.');
        if hidden == (pattern.first() == Some(&'.')) && matches_glob(pattern, &chars) {
            into.push(folder.join(name));
        }
    }
    Ok(())
}

fn is_absence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Whether a name matches a glob pattern.
fn matches_glob(pattern: &[char], name: &[char]) -> bool {
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
    use super::matches_glob;

    #[test]
    fn patterns_match_full_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*.csv", "a.csv", true),
            ("a*.csv", "a-b.csv2", false),
            ("*b*b", "abcb", true),
            ("*b*b", "abc", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("[a-]", "-", true),
            ("*[0-9]", "a-7", true),
            ("*[0-9]", "a7b", false),
        ] {
            let (p, n): (Vec<char>, Vec<char>) =
                (pattern.chars().collect(), name.chars().collect());
            assert_eq!(matches_glob(&p, &n), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_match_in_linear_time() {
        let pattern: Vec<char> = "*a".repeat(60).chars().collect();
        let name: Vec<char> = "a".repeat(59).chars().chain(['b'; 200]).collect();
        assert!(!matches_glob(&pattern, &name));
    }
}
