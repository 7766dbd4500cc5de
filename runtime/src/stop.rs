//! The stop token: how a program, a thread or a signal handler asks a training to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a training to stop after the current step. Clones share one request.
///
/// ```
/// use trainspec::StopToken;
///
/// let token = StopToken::default();
/// let handler = token.clone();
/// handler.request_stop();
/// assert!(token.should_stop());
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopToken(Arc<AtomicBool>);

impl StopToken {
    /// Asks to stop. It may be called from any thread, and many times.
    pub fn request_stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked.
    pub fn should_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for signal handlers.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
