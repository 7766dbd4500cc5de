//! Paths of checkpoints: glob patterns and relative paths.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The files that a path means, sorted by name: itself, or where its last component has `*`, `?` or `[...]`, all matches in the folder.
pub(crate) fn matching(pattern: &Path) -> Vec<PathBuf> {
    if fs::metadata(pattern).is_ok_and(|found| !found.is_dir()) {
        return vec![pattern.to_owned()];
    }
    let Some(name) = pattern.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    if !name.contains(['*', '?', '[', '\\']) {
        return Vec::new();
    }
    let folder = pattern.parent().unwrap_or(Path::new(""));
    let listed = match folder.as_os_str().is_empty() {
        true => fs::read_dir("."),
        false => fs::read_dir(folder),
    };
    let name: Vec<char> = name.chars().collect();
    let mut found: Vec<PathBuf> = listed
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|file| matches_glob(&name, &file.chars().collect::<Vec<_>>()))
        .map(|file| folder.join(file))
        .collect();
    found.sort();
    found
}

/// Whether a name matches a glob pattern.
fn matches_glob(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The last `*`, and the position in the name to backtrack to.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
            continue;
        }
        match n < name.len() {
            true => {
                if let Some(next) = one(pattern, p, name[n]) {
                    (p, n) = (next, n + 1);
                    continue;
                }
            }
            false if p == pattern.len() => return true,
            false => {}
        }
        match star {
            Some((at, reach)) if reach < name.len() => {
                star = Some((at, reach + 1));
                (p, n) = (at + 1, reach + 1);
            }
            _ => return false,
        }
    }
}

/// The position in the pattern after it matched one character, if it did.
fn one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match *pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => {
            let close = (p + 2..pattern.len()).find(|&i| pattern[i] == ']')?;
            let set = &pattern[p + 1..close];
            let (negated, set) = match set.first() {
                Some('!' | '^') => (true, &set[1..]),
                _ => (false, set),
            };
            let mut inside = false;
            let mut i = 0;
            while i < set.len() {
                match set.get(i + 1..i + 3) {
                    Some(&['-', high]) => {
                        inside |= (set[i]..=high).contains(&c);
                        i += 3;
                    }
                    _ => {
                        inside |= set[i] == c;
                        i += 1;
                    }
                }
            }
            (inside != negated).then_some(close + 1)
        }
        '\\' if p + 1 < pattern.len() => (pattern[p + 1] == c).then_some(p + 2),
        literal => (literal == c).then_some(p + 1),
    }
}

/// A path without `.` and `..`, normalized lexically.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match out.components().next_back() {
                Some(Component::Normal(_)) => {
                    out.pop();
                }
                Some(Component::RootDir | Component::Prefix(_)) => {}
                _ => out.push(".."),
            },
            other => out.push(other),
        }
    }
    match out.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => out,
    }
}

/// A path relative to a folder (`os.path.relpath`). Both are relative, or both absolute.
pub(crate) fn relative_to(path: &Path, folder: &Path) -> PathBuf {
    let (mut path, mut folder) = (normalize(path), normalize(folder));
    // A path above the working folder can only be compared with an absolute one.
    let up = |path: &Path| path.starts_with("..");
    if up(&path) || up(&folder) || path.is_absolute() != folder.is_absolute() {
        let here = std::env::current_dir().unwrap_or_default();
        (path, folder) = (normalize(&here.join(path)), normalize(&here.join(folder)));
    }
    let parts = |path: &Path| -> Vec<PathBuf> {
        path.components()
            .filter(|part| *part != Component::CurDir)
            .map(|part| PathBuf::from(part.as_os_str()))
            .collect()
    };
    let (path, folder) = (parts(&path), parts(&folder));
    let shared = path.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let mut out: PathBuf = folder[shared..].iter().map(|_| "..").collect();
    out.extend(&path[shared..]);
    match out.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_shells_do() {
        let matches_glob = |pattern: &str, name: &str| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            super::matches_glob(&chars(pattern), &chars(name))
        };
        for (pattern, name, expected) in [
            ("m-?????-of-00002", "m-00001-of-00002", true),
            ("m-?????-of-00002", "m-0001-of-00002", false),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyyd", false),
            ("[a-c]1", "b1", true),
            ("[!a-c]1", "b1", false),
            ("[]a]", "]", true),
            ("a[", "a[", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("***a", "bbba", true),
        ] {
            assert_eq!(matches_glob(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn relative_paths_match_relpath() {
        // As os.path.relpath has it.
        for (path, folder, expected) in [
            ("run/model", "run", "model"),
            ("run/model", "run/", "model"),
            ("other/m", "run", "../other/m"),
            ("elsewhere/m", "run/deep", "../../elsewhere/m"),
            ("m", "", "m"),
            ("run", "run", "."),
            ("./run/a/../m", "run", "m"),
            ("/a/b/c", "/a/d", "../b/c"),
        ] {
            let found = relative_to(Path::new(path), Path::new(folder));
            assert_eq!(found, Path::new(expected), "{path} from {folder}");
        }
    }
}
