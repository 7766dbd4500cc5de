//! The environment: files and clock of the host, as TensorFlow's `Env`.
//!
//! Nothing else in this crate touches either, so that a test can pass an environment of its own.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;

use trainspec_formats::clock::SystemClock;
use trainspec_formats::files;

pub use trainspec_formats::clock::Clock;
pub use trainspec_formats::files::ReadAt;

/// The file system and the clock; several threads may use it at once.
pub trait Env: Debug + Send + Sync {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>>;

    /// The names of a folder's entries, sorted.
    fn list_dir(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// The clock.
    fn clock(&self) -> &dyn Clock;
}

/// The files and the clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct System {
    clock: SystemClock,
}

impl Env for System {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(File::open(path)?))
    }

    fn list_dir(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        files::list(folder)
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}
