//! Files: positioned reads, listings of folders, and atomic replacement (temporary file, `fsync`, rename).

mod decompressed;
mod read_at;

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{FileKind, FormatError, Result};
use crate::storage::{self, FileType, Storage, WriteFile};

pub use decompressed::decompressed;
pub use read_at::{ReadAt, SequentialFile};

/// Opens a file for random access; only regular files are.
pub fn open(kind: FileKind, path: &Path) -> Result<Box<dyn ReadAt>> {
    open_in(&storage::local(), kind, path)
}

/// [`open`] in any storage.
pub fn open_in(storage: &Arc<dyn Storage>, kind: FileKind, path: &Path) -> Result<Box<dyn ReadAt>> {
    let opened = storage.open(path);
    opened.map_err(|e| FormatError::io(kind, "open it", e).in_file(path))
}

/// The names of a folder's entries, sorted; the empty path is the working directory. In another storage it is [`Storage::list`].
pub fn list(folder: &Path) -> io::Result<Vec<OsString>> {
    storage::local().list(folder)
}

/// A temporary file that replaces another by a rename when it is complete, so that a failure leaves what was there before.
///
/// Dropping it without [`commit`](Replacement::commit) removes what was written.
///
/// ```
/// use std::io::Write;
/// use trainspec_formats::FileKind;
/// use trainspec_formats::files::{Durability, Replacement};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-replacement-{}", std::process::id()));
/// let mut file = Replacement::create(FileKind::Other, path)?;
/// file.write_all(b"complete").unwrap();
/// assert!(!path.exists());
/// file.commit(Durability::Synced)?;
/// assert_eq!(std::fs::read(path).unwrap(), b"complete");
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug)]
pub struct Replacement {
    storage: Arc<dyn Storage>,
    kind: FileKind,
    path: PathBuf,
    temporary: PathBuf,
    file: Option<Box<dyn WriteFile>>,
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

/// What stands between the name of a file and the numbers of the process and of the temporary file that will replace it.
const TEMPORARY: &str = ".tmp-";

/// Whether a name is one of a temporary file that was to become another: its process was killed, or is still writing it.
///
/// ```
/// use trainspec_formats::files::is_temporary;
///
/// assert!(is_temporary("model.ckpt-4.index.tmp-12266-1".as_ref()));
/// assert!(!is_temporary("model.ckpt-4.index".as_ref()));
/// assert!(!is_temporary("model.tmp-4".as_ref()));
/// ```
pub fn is_temporary(name: &OsStr) -> bool {
    let numbers = name.to_str().and_then(|name| name.rsplit_once(TEMPORARY));
    let numbers = numbers.and_then(|(_, numbers)| numbers.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(process, count)| is_number(process) && is_number(count))
}

impl Replacement {
    /// Creates a temporary file beside the one it replaces.
    pub fn create(kind: FileKind, path: &Path) -> Result<Replacement> {
        Replacement::create_in(&storage::local(), kind, path)
    }

    /// [`create`](Replacement::create) in any storage.
    pub fn create_in(
        storage: &Arc<dyn Storage>,
        kind: FileKind,
        path: &Path,
    ) -> Result<Replacement> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // A device or another special file must not be replaced.
        let found = storage.metadata(path);
        if found.is_ok_and(|found| found.file_type != FileType::File) {
            let cause = "this is not a file that could be replaced";
            return Err(FormatError::invalid(kind, cause).in_file(path));
        }
        loop {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            let unique = COUNT.fetch_add(1, Ordering::Relaxed);
            name.push(format!("{TEMPORARY}{}-{unique}", std::process::id()));
            let temporary = path.with_file_name(name);
            // Another machine that shares the folder may have a process of this id.
            match storage.create_new(&temporary) {
                Ok(file) => {
                    return Ok(Replacement {
                        storage: Arc::clone(storage),
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

    /// The path of the temporary file.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// The temporary file.
    pub(crate) fn file(&mut self) -> &mut dyn WriteFile {
        &mut **self.file.as_mut().expect("it is taken by `rename` alone")
    }

    /// Renames the temporary file to its final name.
    pub fn commit(self, durability: Durability) -> Result<()> {
        let (storage, kind, path) = (Arc::clone(&self.storage), self.kind, self.path.clone());
        self.rename(durability)?;
        sync_name(&storage, kind, &path, durability)
    }

    /// Syncs the temporary file and renames it to its final name, which is durable after [`sync_name`]. After an error, what was there
    /// before is there.
    pub(crate) fn rename(mut self, durability: Durability) -> Result<()> {
        let mut file = self.file.take().expect("it is taken here alone");
        let synced = match durability {
            Durability::Synced => file.sync(),
            Durability::Unsynced => Ok(()),
        };
        drop(file);
        let renamed = synced.and_then(|()| self.storage.rename(&self.temporary, &self.path));
        renamed.map_err(|e| {
            let _ = self.storage.remove_file(&self.temporary);
            FormatError::io(self.kind, "write it", e).in_file(&self.path)
        })
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = self.storage.remove_file(&self.temporary);
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
pub(crate) fn sync_name(
    storage: &Arc<dyn Storage>,
    kind: FileKind,
    path: &Path,
    durability: Durability,
) -> Result<()> {
    let synced = match durability {
        Durability::Synced => storage.sync(path.parent().unwrap_or(Path::new(""))),
        Durability::Unsynced => Ok(()),
    };
    synced.map_err(|e| FormatError::io(kind, "write it", e).in_file(path))
}

/// Creates a folder and those above it, where they do not exist. Each new one is safe from a power failure, which would lose all that is
/// in it: the folders that hold them are synced.
pub fn create_dir_in(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    durability: Durability,
) -> io::Result<()> {
    let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !storage.exists(folder);
    let made: Vec<&Path> = folder.ancestors().take_while(missing).collect();
    storage.create_dir_all(folder)?;
    if durability == Durability::Synced {
        for folder in made {
            storage.sync(folder.parent().unwrap_or(Path::new("")))?;
        }
    }
    Ok(())
}

/// Replaces the contents of a file atomically.
pub fn replace(kind: FileKind, path: &Path, bytes: &[u8], durability: Durability) -> Result<()> {
    replace_in(&storage::local(), kind, path, bytes, durability)
}

/// [`replace`] in any storage.
pub fn replace_in(
    storage: &Arc<dyn Storage>,
    kind: FileKind,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<()> {
    let mut file = Replacement::create_in(storage, kind, path)?;
    file.write_all(bytes)
        .map_err(|e| FormatError::io(kind, "write it", e).in_file(path))?;
    file.commit(durability)
}

/// Whether a relative path stays below its folder (no path traversal): lexically, and by the symbolic links on its way.
pub fn stays_inside(folder: &Path, path: &Path) -> bool {
    stays_inside_in(&storage::local(), folder, path)
}

/// [`stays_inside`] in any storage.
pub fn stays_inside_in(storage: &Arc<dyn Storage>, folder: &Path, path: &Path) -> bool {
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
    by_text && leads_inside(&**storage, folder, path)
}

/// Whether the existing part of a path is in the folder, with symbolic links resolved.
fn leads_inside(storage: &dyn Storage, folder: &Path, path: &Path) -> bool {
    let Ok(root) = storage.canonicalize(folder) else {
        return true;
    };
    // The last component may be a prefix of file names and not a file.
    let full = folder.join(path);
    let mut found = full.ancestors().map(|path| storage.canonicalize(path));
    found
        .find_map(io::Result::ok)
        .is_none_or(|real| real.starts_with(root))
}

#[cfg(test)]
mod tests {
    use std::fs;

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
