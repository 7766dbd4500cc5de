//! Storage: the file system as a trait, the one door to files of this crate and of a training runtime.
//!
//! In: paths and bytes. Out: files for positioned reads, files to write, and what a folder holds. [`LocalStorage`] is the file system of
//! this machine; [`faulty`] wraps any other and injects faults, for tests. Functions without a storage use [`local`]; beside each there is
//! one whose name ends in `_in` and which takes any. Leaves alone: time, which is [`clock`](crate::clock)'s; formats.

pub mod faulty;
mod local;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use crate::files::ReadAt;

pub use local::LocalStorage;
pub(crate) use local::host_name;

/// A file system.
///
/// A relative path is relative to the working folder, which the empty path means as a folder.
///
/// ```
/// use std::io::Write;
/// use trainspec_formats::storage::{self, Storage};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-storage-{}", std::process::id()));
/// let storage = storage::local();
/// storage.create_dir_all(&folder)?;
/// let mut file = storage.create_new(&folder.join("notes.tmp"))?;
/// file.write_all(b"lr 0.1")?;
/// file.sync()?;
/// storage.rename(&folder.join("notes.tmp"), &folder.join("notes"))?;
/// storage.sync(&folder)?;
/// assert_eq!(storage.list(&folder)?, ["notes"]);
/// assert_eq!(storage.read(&folder.join("notes"))?, b"lr 0.1");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens a file for positioned reads. What is no regular file is refused: a folder opens on some systems and fails later, and a pipe
    /// has no length and cannot be read twice.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>>;

    /// Creates a file that must not exist ([`AlreadyExists`](io::ErrorKind::AlreadyExists)).
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Creates a file, or truncates the one that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Opens a file to write after its end, and creates it if it does not exist. A file has one writer at a time.
    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Renames a file, and replaces the one at the new path atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and those above it, where they do not exist.
    fn create_dir_all(&self, folder: &Path) -> io::Result<()>;

    /// The names of a folder's entries, sorted.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// What is known of a file or a folder; symbolic links are followed.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// The absolute path of what exists, with symbolic links resolved.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Syncs a file or a folder to the disk by its path (`fsync`). A rename is durable once its folder is synced.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Takes an advisory lock on a file, which is created if it does not exist; `None` if another has it. It ends when it is dropped and
    /// when the process dies, however that happens. A file that serves as a lock is not removed: who waits for it has it open.
    ///
    /// ```
    /// use trainspec_formats::storage;
    ///
    /// # let path = std::env::temp_dir().join(format!("trainspec-doc-lock-{}", std::process::id()));
    /// let storage = storage::local();
    /// let mut lock = storage.try_lock(&path)?.expect("nobody else has it");
    /// lock.write(&std::process::id().to_string())?;
    /// assert!(storage.is_locked(&path));
    /// assert!(storage.try_lock(&path)?.is_none());
    /// assert_eq!(storage.read(&path)?, std::process::id().to_string().as_bytes());
    /// drop(lock);
    /// assert!(!storage.is_locked(&path));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;

    /// Whether someone on this machine has the [lock](Storage::try_lock) of a file. It needs no permission to write.
    fn is_locked(&self, path: &Path) -> bool;

    /// Reads all bytes of a small file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let length = usize::try_from(file.length()?).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length)?;
        bytes.resize(length, 0);
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether there is anything at a path.
    fn exists(&self, path: &Path) -> bool {
        self.metadata(path).is_ok()
    }

    /// Whether there is a regular file at a path.
    fn is_file(&self, path: &Path) -> bool {
        (self.metadata(path)).is_ok_and(|found| found.file_type == FileType::File)
    }

    /// Whether there is a folder at a path.
    fn is_dir(&self, path: &Path) -> bool {
        (self.metadata(path)).is_ok_and(|found| found.file_type == FileType::Dir)
    }
}

/// A file that is being written. Nothing is buffered here: every `write` goes to the storage.
pub trait WriteFile: Write + Send + Sync + fmt::Debug {
    /// Overwrites bytes that are there already; the next write goes to the end as before.
    fn overwrite(&mut self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to a length; the next write goes to its new end.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Syncs the file to the disk (`fsync`).
    fn sync(&mut self) -> io::Result<()>;
}

/// An advisory lock that is held; see [`Storage::try_lock`].
pub trait Lock: Send + Sync + fmt::Debug {
    /// Replaces the text of the locked file, which says for example who holds it. On Unix, others can read it meanwhile.
    fn write(&mut self, text: &str) -> io::Result<()>;
}

/// What is known of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a file.
    pub file_type: FileType,
    /// The size in bytes.
    pub length: u64,
    /// When it was last written, if that is known.
    pub modified: Option<SystemTime>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A pipe, a device or another special file.
    Other,
}

/// The file system of this machine, shared.
pub fn local() -> Arc<dyn Storage> {
    static LOCAL: LazyLock<Arc<dyn Storage>> = LazyLock::new(|| Arc::new(LocalStorage));
    Arc::clone(&LOCAL)
}
