//! Waiting for checkpoints that another program writes (`tf.train.checkpoints_iterator`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::manage::latest_checkpoint_in;
use crate::clock::Clock;
use crate::error::Result;
use crate::storage::{self, Storage};

/// The interval at which a folder is polled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An iterator over the checkpoints of a folder as they appear.
///
/// A checkpoint that is replaced by a newer one between two polls is missed. The iterator ends after an error.
pub struct Checkpoints<'a, C> {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    clock: C,
    /// The minimum interval between two checkpoints.
    min_interval: Duration,
    /// The maximum time to wait for one.
    timeout: Option<Duration>,
    /// Called after every checkpoint and every timeout: whether to end (`timeout_fn`).
    ended: Option<Box<dyn FnMut() -> bool + 'a>>,
    last: Option<PathBuf>,
    /// The time at which the last one was returned.
    given: Option<Duration>,
    done: bool,
}

/// Waits for checkpoints in a folder.
///
/// ```no_run
/// use std::time::Duration;
/// use trainspec_formats::checkpoint::checkpoints_iterator;
/// use trainspec_formats::clock::SystemClock;
///
/// let clock = SystemClock::default();
/// for prefix in checkpoints_iterator("run".as_ref(), clock).timeout(Duration::from_secs(600)) {
///     println!("{}", prefix?.display());
/// }
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn checkpoints_iterator<'a, C: Clock>(folder: &Path, clock: C) -> Checkpoints<'a, C> {
    Checkpoints {
        storage: storage::local(),
        folder: folder.to_owned(),
        clock,
        min_interval: Duration::ZERO,
        timeout: None,
        ended: None,
        last: None,
        given: None,
        done: false,
    }
}

impl<'a, C: Clock> Checkpoints<'a, C> {
    /// Sets the storage that the folder is in.
    pub fn storage(mut self, storage: &Arc<dyn Storage>) -> Self {
        self.storage = Arc::clone(storage);
        self
    }

    /// Sets the minimum interval between two checkpoints.
    pub fn min_interval(mut self, time: Duration) -> Self {
        self.min_interval = time;
        self
    }

    /// Sets the maximum time to wait for one. Then it ends, unless [`until`](Checkpoints::until) says that there is more to come.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Sets a function that is called after every checkpoint and every timeout and says whether to end (`timeout_fn`).
    pub fn until(mut self, ended: impl FnMut() -> bool + 'a) -> Self {
        self.ended = Some(Box::new(ended));
        self
    }

    /// The next checkpoint; `None` after a timeout.
    fn wait(&self) -> Result<Option<PathBuf>> {
        // A deadline that overflows is never reached.
        let stop = self
            .timeout
            .and_then(|timeout| self.clock.now().checked_add(timeout));
        loop {
            let found = latest_checkpoint_in(&self.storage, &self.folder, None)?;
            if found.is_some() && found != self.last {
                return Ok(found);
            }
            if stop.is_some_and(|stop| self.clock.now().saturating_add(POLL_INTERVAL) > stop) {
                return Ok(None);
            }
            self.clock.sleep(POLL_INTERVAL);
        }
    }
}

impl<C: Clock> Iterator for Checkpoints<'_, C> {
    type Item = Result<PathBuf>;

    fn next(&mut self) -> Option<Result<PathBuf>> {
        if let Some(given) = self.given.take() {
            let next = given.saturating_add(self.min_interval);
            let now = self.clock.now();
            if next > now {
                self.clock.sleep(next - now);
            }
            self.done |= self.ended.as_mut().is_some_and(|ended| ended());
        }
        while !self.done {
            match self.wait() {
                Ok(Some(found)) => {
                    self.given = Some(self.clock.now());
                    self.last = Some(found.clone());
                    return Some(Ok(found));
                }
                Ok(None) => self.done = self.ended.as_mut().is_none_or(|ended| ended()),
                Err(e) => {
                    self.done = true;
                    return Some(Err(e));
                }
            }
        }
        None
    }
}
