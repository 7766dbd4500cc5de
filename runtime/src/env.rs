//! The environment: files and clock of the host, as TensorFlow's `Env`.
//!
//! Nothing else in this crate touches either, so that a test can pass an environment of its own.

use std::sync::Arc;

use trainspec_formats::clock::SystemClock;
use trainspec_formats::storage;

use crate::saver::SharedClock;

pub use trainspec_formats::clock::Clock;
pub use trainspec_formats::files::ReadAt;
pub use trainspec_formats::storage::Storage;

/// The file system and the clock; several threads may use them at once. Those of this machine, unless others are given.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::env::Env;
/// use trainspec::Options;
/// use trainspec_formats::clock::FixedClock;
///
/// // Event files of a run with a fixed clock have the same bytes every time.
/// let env = Env { clock: Arc::new(FixedClock { unix_seconds: 1.5e9 }), ..Env::default() };
/// let options = Options { env, ..Options::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct Env {
    /// Where data is read, and checkpoints and event files are written.
    pub storage: Arc<dyn Storage>,
    /// The clock.
    pub clock: SharedClock,
}

impl Default for Env {
    fn default() -> Env {
        Env::with_storage(storage::local())
    }
}

impl Env {
    /// Files of another storage, and the clock of this machine.
    pub fn with_storage(storage: Arc<dyn Storage>) -> Env {
        Env {
            storage,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env")
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}
