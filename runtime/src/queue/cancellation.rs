//! `Cancellation` (TensorFlow's `CancellationManager`): ends the waits of a thread from another thread.
//!
//! In: queues whose operations wait. Out: on [`Cancellation::cancel`] each of these waits fails with [`Code::Cancelled`](crate::Code).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Ends the waits of queue operations. Clones share one request, and it is never taken back.
///
/// ```
/// use trainspec::queue::{Cancellation, FifoQueue, QueueOptions, TensorSpec};
/// use trainspec::{Code, DType};
///
/// let queue = FifoQueue::new(QueueOptions::new(Some(1), vec![TensorSpec::new(DType::F32, &[])]))?;
/// let cancellation = Cancellation::new();
/// let consumer = queue.cancelled_by(&cancellation);
/// let waiting = std::thread::spawn(move || consumer.dequeue());
/// cancellation.cancel();
/// assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Cancelled);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Shared>);

#[derive(Default)]
struct Shared {
    is_cancelled: AtomicBool,
    waits: Mutex<Waits>,
}

/// What is woken by a cancellation.
#[derive(Default)]
struct Waits {
    next: u64,
    by_number: BTreeMap<u64, Weak<dyn Wake>>,
}

/// Something whose waiting threads can be woken to look again.
pub(super) trait Wake: Send + Sync {
    fn wake(&self);
}

impl Cancellation {
    /// A cancellation that was not requested yet.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Ends all waits under this cancellation, and those that begin later.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        // They are woken without the lock: a wait that ends removes itself from the list.
        let waits: Vec<Weak<dyn Wake>> = self.waits().by_number.values().cloned().collect();
        for wait in waits.iter().filter_map(Weak::upgrade) {
            wait.wake();
        }
    }

    /// Whether it was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        let waits = self.0.waits.lock();
        waits.unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a wait until the registration is dropped. The caller looks at [`Cancellation::is_cancelled`] afterwards, and holds the
    /// lock that `wake` takes until it waits.
    pub(super) fn register(&self, wait: Weak<dyn Wake>) -> Registration {
        let mut waits = self.waits();
        let number = waits.next;
        waits.next += 1;
        waits.by_number.insert(number, wait);
        Registration {
            cancellation: self.clone(),
            number,
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation")
            .field(&self.is_cancelled())
            .finish()
    }
}

/// A registered wait.
pub(super) struct Registration {
    cancellation: Cancellation,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cancellation.waits().by_number.remove(&self.number);
    }
}
