//! A session that several threads share: the loop of a program and the services of a supervisor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::program::FeedDict;
use crate::session::{FetchShape, Session};

/// A session under a lock. Clones share it.
///
/// ```
/// use trainspec::session::{Options, Session};
/// use trainspec::supervisor::SharedSession;
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// let session = SharedSession::new(Session::new(&spec, &Options::default())?);
/// let other = session.clone();
/// std::thread::spawn(move || assert_eq!(other.lock().global_step(), 0)).join().unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SharedSession(Arc<Mutex<Session>>);

impl SharedSession {
    /// Shares a session.
    pub fn new(session: Session) -> SharedSession {
        SharedSession(Arc::new(Mutex::new(session)))
    }

    /// The session, for as long as the guard lives; other threads wait.
    pub fn lock(&self) -> MutexGuard<'_, Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs once, as [`Session::run`].
    pub fn run<F: FetchShape>(&self, fetches: F, feeds: &dyn FeedDict) -> Result<F::Output, Error> {
        self.lock().run(fetches, feeds)
    }
}
