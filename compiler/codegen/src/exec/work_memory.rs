//! The work memory of programs that run one after another: one arena and one set of scratch buffers for all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::exec::memory::Arena;
use crate::library::Scratch;

/// An arena, as large as the largest of its programs needs, and the scratch buffers of library routines. Clones share them. Programs that
/// run at the same time do not wait for each other: the second allocates its own.
#[derive(Debug, Clone, Default)]
pub struct WorkMemory(Arc<Mutex<Buffers>>);

/// What a run has alone.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) arena: Arena,
    pub(super) scratch: Scratch,
}

impl WorkMemory {
    /// Allocates the arena, if it is not as large yet.
    pub(super) fn reserve(&self, bytes: usize) {
        let buffers = self.take(bytes);
        self.give_back(buffers);
    }

    /// The buffers for one run, with an arena of at least as many bytes.
    pub(super) fn take(&self, bytes: usize) -> Buffers {
        // Also a buffer without elements has an aligned address.
        let bytes = bytes.max(1);
        let Buffers { arena, scratch } = std::mem::take(&mut *self.idle());
        let arena = match arena.size() < bytes {
            true => {
                // Freed before the larger one is allocated.
                drop(arena);
                Arena::new(bytes)
            }
            false => arena,
        };
        Buffers { arena, scratch }
    }

    /// Ends a run.
    pub(super) fn give_back(&self, buffers: Buffers) {
        let mut idle = self.idle();
        if buffers.arena.size() >= idle.arena.size() {
            *idle = buffers;
        }
    }

    fn idle(&self) -> MutexGuard<'_, Buffers> {
        // A run that panicked has not given its buffers back; what is here is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
