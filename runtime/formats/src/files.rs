//! Files: positioned reads, listings of folders, and atomic replacement (temporary file, `fsync`, rename).

mod read_at;

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use crate::error::{FileKind, FormatError, Result};

pub use read_at::{ReadAt, SequentialFile};

/// Opens a file for random access. What is no regular file is refused: a folder opens on some systems and fails later, and a pipe has
/// no length and cannot be read twice.
pub fn open(kind: FileKind, path: &Path) -> Result<File> {
    let failed = |e| FormatError::io(kind, "open it", e).in_file(path);
    let refused = |about: fs::Metadata| match about {
        about if about.is_file() => Ok(()),
        about if about.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
        _ => {
            let cause = "this is no regular file, and only those can be read at any place";
            Err(FormatError::invalid(kind, cause).in_file(path))
        }
    };
    // Before it is opened, since opening a pipe waits for its writer.
    refused(fs::metadata(path).map_err(failed)?)?;
    let file = File::open(path).map_err(failed)?;
    refused(file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// The names of a folder's entries, sorted; the empty path is the working directory.
pub fn list(folder: &Path) -> io::Result<Vec<OsString>> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<OsString>>>()?;
    names.sort();
    Ok(names)
}

/// Marks a file as being written, as long as it is open (an advisory lock). Where there are no such locks, it is not marked.
pub(crate) fn lock(file: &File) {
    // Elsewhere, a lock keeps others from reading.
    if cfg!(unix) {
        let _ = file.try_lock();
    }
}

/// Whether someone on this machine has a file open that is [locked](lock).
pub(crate) fn is_locked(path: &Path) -> bool {
    cfg!(unix)
        && File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A temporary file that replaces another by a rename when it is complete, so that a failure leaves what was there before.
///
/// Dropping it without [`commit`](Replacement::commit) removes what was written.
#[derive(Debug)]
pub struct Replacement {
    kind: FileKind,
    path: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

/// Whether a file is synced to the disk (`fsync`) before it counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It is: a power failure afterwards loses nothing.
    #[default]
    Synced,
    /// It is not: a crash of the process loses nothing, one of the machine may.
    Unsynced,
}

impl Replacement {
    /// Creates a temporary file beside the one it replaces.
    pub fn create(kind: FileKind, path: &Path) -> Result<Replacement> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // A device or another special file must not be replaced.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let cause = "this is not a file that could be replaced";
            return Err(FormatError::invalid(kind, cause).in_file(path));
        }
        loop {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            let unique = COUNT.fetch_add(1, Ordering::Relaxed);
            name.push(format!(".tmp-{}-{unique}", std::process::id()));
            let temporary = path.with_file_name(name);
            // Another machine that shares the folder may have a process of this id.
            let file = File::options()
                .write(true)
                .create_new(true)
                .open(&temporary);
            match file {
                Ok(file) => {
                    return Ok(Replacement {
                        kind,
                        path: path.to_owned(),
                        temporary,
                        file: Some(file),
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(FormatError::io(kind, "create it", e).in_file(&temporary)),
            }
        }
    }

    /// The temporary file.
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("it is taken by `commit` alone")
    }

    /// The path of the temporary file.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Renames the temporary file to its final name.
    pub fn commit(mut self, durability: Durability) -> Result<()> {
        let file = self.file.take().expect("it is taken here alone");
        let fail = |e| FormatError::io(self.kind, "write it", e).in_file(&self.path);
        let done = match durability {
            Durability::Synced => file.sync_all(),
            Durability::Unsynced => Ok(()),
        };
        drop(file);
        let renamed = done.and_then(|()| fs::rename(&self.temporary, &self.path));
        if renamed.is_err() {
            let _ = fs::remove_file(&self.temporary);
        }
        renamed.map_err(fail)?;
        if durability == Durability::Synced {
            sync_folder(&self.path).map_err(fail)?;
        }
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Syncs the folder of a file, so that its name is durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        // On other systems a folder cannot be opened; a rename is as durable as the system makes it.
        false => Ok(()),
    }
}

/// Replaces the contents of a file atomically.
pub fn replace(kind: FileKind, path: &Path, bytes: &[u8], durability: Durability) -> Result<()> {
    let mut file = Replacement::create(kind, path)?;
    file.write_all(bytes)
        .map_err(|e| FormatError::io(kind, "write it", e).in_file(path))?;
    file.commit(durability)
}

/// Whether a relative path stays below its folder (no path traversal): lexically, and by the symbolic links on its way.
pub fn stays_inside(folder: &Path, path: &Path) -> bool {
    let mut depth = 0_usize;
    let by_text = path.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir => {
            depth = depth.wrapping_sub(1);
            depth != usize::MAX
        }
        Component::RootDir | Component::Prefix(_) => false,
    });
    by_text && leads_inside(folder, path)
}

/// Whether the existing part of a path is in the folder, with symbolic links resolved.
fn leads_inside(folder: &Path, path: &Path) -> bool {
    let here = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let Ok(root) = here.canonicalize() else {
        return true;
    };
    // The last component may be a prefix of file names and not a file.
    let whole = here.join(path);
    let mut found = whole.ancestors().map(Path::canonicalize);
    found
        .find_map(io::Result::ok)
        .is_none_or(|real| real.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_that_is_dropped_leaves_what_was_there() {
        let folder = std::env::temp_dir().join(format!("trainspec-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        replace(FileKind::Other, &path, b"old", Durability::Synced).unwrap();
        let mut file = Replacement::create(FileKind::Other, &path).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        replace(FileKind::Other, &path, b"new", Durability::Unsynced).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_path_that_leaves_its_folder_is_seen() {
        for (path, inside) in [
            ("a/b", true),
            ("./a", true),
            ("a/../b", true),
            ("../a", false),
            ("a/../../b", false),
            ("/a", false),
        ] {
            let found = stays_inside(Path::new("nowhere"), Path::new(path));
            assert_eq!(found, inside, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leaves_its_folder_is_seen() {
        let folder = std::env::temp_dir().join(format!("trainspec-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("run/sub")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("run/out")).unwrap();
        std::os::unix::fs::symlink("sub", folder.join("run/in")).unwrap();
        for (path, inside) in [
            ("sub/model", true),
            ("in/model", true),
            ("out/model", false),
        ] {
            let found = stays_inside(&folder.join("run"), Path::new(path));
            assert_eq!(found, inside, "{path}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
