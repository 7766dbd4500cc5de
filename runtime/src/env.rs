//! The environment: files and clock of the host, as TensorFlow's `Env` and `RandomAccessFile`.
//!
//! Nothing else in this crate touches either, so that a test can pass an environment of its own. Files are read at an offset, never
//! memory-mapped: a file that shrinks while it is mapped would kill the process (SIGBUS).

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The file system and the clock.
pub trait Env {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccessFile>>;

    /// The names of a folder's entries, sorted.
    fn list_dir(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Monotonic time since a fixed origin.
    fn now(&self) -> Duration;
}

/// A file that is read at any offset.
pub trait RandomAccessFile {
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads at an offset, perhaps less than requested; 0 bytes at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The files and the clock of this machine.
#[derive(Debug, Clone, Copy)]
pub struct System {
    start: Instant,
}

impl Default for System {
    fn default() -> System {
        System {
            start: Instant::now(),
        }
    }
}

impl Env for System {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccessFile>> {
        Ok(Box::new(SystemFile(std::fs::File::open(path)?)))
    }

    fn list_dir(&self, folder: &Path) -> io::Result<Vec<String>> {
        let folder = match folder == Path::new("") {
            true => Path::new("."),
            false => folder,
        };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            // A name that is not UTF-8 cannot be written in a spec either.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

struct SystemFile(std::fs::File);

impl RandomAccessFile for SystemFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset)
    }
}
