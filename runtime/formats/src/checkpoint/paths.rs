//! Paths of checkpoints: glob patterns and relative paths.

use std::path::{Component, Path, PathBuf};

use crate::glob;
use crate::storage::{FileType, Storage};

/// The files that a path means, sorted by name: itself, or where its last component is a [`glob`] pattern, all matches in the folder.
pub(crate) fn matching(storage: &dyn Storage, pattern: &Path) -> Vec<PathBuf> {
    let found = storage.metadata(pattern);
    if found.is_ok_and(|found| found.file_type != FileType::Dir) {
        return vec![pattern.to_owned()];
    }
    let Some(name) = pattern.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    if !glob::is_pattern(name) {
        return Vec::new();
    }
    let folder = pattern.parent().unwrap_or(Path::new(""));
    // They are sorted by name.
    let found = storage.list(folder).into_iter().flatten();
    let found = found.filter(|file| glob::matches(name, &file.to_string_lossy()));
    let paths = found.map(|file| folder.join(file));
    paths.filter(|path| !storage.is_dir(path)).collect()
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
