//! The environment: files and clock of the host, as TensorFlow's `Env`.
//!
//! Nothing else in this crate touches either, so that a test can pass an environment of its own.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use trainspec_formats::clock::SystemClock;
use trainspec_formats::storage;

use crate::saver::SharedClock;

pub use trainspec_formats::clock::Clock;
pub use trainspec_formats::files::ReadAt;
pub use trainspec_formats::storage::Storage;

/// The file system and the clock; several threads may use it at once.
pub trait Env: Debug + Send + Sync {
    /// Opens a data file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>>;

    /// The names of a folder's entries, sorted.
    fn list_dir(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Where checkpoints and event files are written.
    fn storage(&self) -> Arc<dyn Storage>;

    /// The clock.
    fn clock(&self) -> SharedClock;
}

/// The files and the clock of this machine.
#[derive(Debug, Clone)]
pub struct System {
    clock: SystemClock,
    storage: Arc<dyn Storage>,
}

impl Default for System {
    fn default() -> System {
        System::with_storage(storage::local())
    }
}

impl System {
    /// Files of another storage, and the clock of this machine.
    pub fn with_storage(storage: Arc<dyn Storage>) -> System {
        System {
            clock: SystemClock::default(),
            storage,
        }
    }
}

impl Env for System {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        self.storage.open(path)
    }

    fn list_dir(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.storage.list(folder)
    }

    fn storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    fn clock(&self) -> SharedClock {
        Arc::new(self.clock)
    }
}
