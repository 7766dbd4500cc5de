//! The only door to files and to the clock.
//!
//! Everything else in this crate is handed one of these, so that a test can pass a world of its own. Files are read at a
//! position, never mapped: a file that shrinks under a map would kill the process.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// What lies outside the program.
pub trait Outside {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Bytes>>;

    /// The names of what a folder holds, sorted.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// The time since some fixed moment.
    fn now(&self) -> Duration;
}

/// A file that can be read anywhere.
pub trait Bytes {
    /// How many bytes there are.
    fn length(&self) -> io::Result<u64>;

    /// Reads at a position, perhaps less than asked for; nothing at the end.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The machine's own files and clock.
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

impl Outside for System {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Bytes>> {
        Ok(Box::new(Disk(std::fs::File::open(path)?)))
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let folder = match folder == Path::new("") {
            true => Path::new("."),
            false => folder,
        };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            // A name that is no text cannot be written in a spec either.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

struct Disk(std::fs::File);

impl Bytes for Disk {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, position)
    }

    #[cfg(windows)]
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, buffer, position)
    }
}
