//! A thread that prepares batches ahead, in a bounded queue (producer and consumer).
//!
//! Waking a thread takes longer than a small batch, so the consumer of small batches is woken when there are a few.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Lookahead, Prepared};
use crate::data::Element;
use crate::{Code, Error};

/// The memory that batches which wait may take, where the spec does not say how many they are.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// Their number, where the spec does not say.
const MAX_WAITING: usize = 64;

/// How many small batches are there before a consumer that waits is woken.
const WAKE_AT: usize = 8;

/// A batch that takes longer to prepare is given at once.
const SLOW: Duration = Duration::from_micros(50);

/// A pipeline on a thread of its own.
#[derive(Debug)]
pub(super) struct Prefetch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Box<Lookahead>>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// There are batches, or the end.
    filled: Condvar,
    /// There is room.
    drained: Condvar,
    name: String,
}

#[derive(Debug)]
struct Queue {
    batches: VecDeque<Prepared>,
    /// How many may wait.
    capacity: usize,
    /// What comes after them, once it is known: the end, or an error.
    end: Option<Result<(), Error>>,
    /// Whether the thread ends before its next batch.
    stop: bool,
    consumer_waits: bool,
    producer_waits: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prefetch {
    /// Starts the thread. `count` batches wait at most; as many as take little memory, where it is `None`.
    pub(super) fn start(lookahead: Box<Lookahead>, count: Option<u64>) -> Prefetch {
        let count = count.map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1));
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                batches: VecDeque::new(),
                capacity: count.unwrap_or(1),
                end: None,
                stop: false,
                consumer_waits: false,
                producer_waits: false,
            }),
            filled: Condvar::new(),
            drained: Condvar::new(),
            name: lookahead.pipeline.name.clone(),
        });
        let own = shared.clone();
        let builder = std::thread::Builder::new().name(format!("data {}", shared.name));
        let thread = builder.spawn(move || produce(lookahead, &own, count.is_none()));
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                let message = format!("the thread of the input cannot be started: {error}");
                shared.lock().end = Some(Err(Error::new(Code::ResourceExhausted, message)));
                None
            }
        };
        Prefetch { shared, thread }
    }

    /// The next batch. Adds the time that it had to be waited for.
    pub(super) fn next(&self, waited: &mut Duration) -> Result<Option<Prepared>, Error> {
        let mut queue = self.filled(waited);
        match queue.batches.pop_front() {
            Some(batch) => {
                if queue.producer_waits && queue.batches.len() <= queue.capacity / 2 {
                    self.shared.drained.notify_one();
                }
                Ok(Some(batch))
            }
            None => match queue.end.clone() {
                Some(Err(error)) => Err(error),
                Some(Ok(())) | None => Ok(None),
            },
        }
    }

    /// The element of the next batch.
    pub(super) fn peek(&self, waited: &mut Duration) -> Result<Option<Element>, Error> {
        let queue = self.filled(waited);
        match (queue.batches.front(), &queue.end) {
            (Some(prepared), _) => Ok(Some(prepared.batch.element.clone())),
            (None, Some(Err(error))) => Err(error.clone()),
            (None, Some(Ok(())) | None) => Ok(None),
        }
    }

    /// The queue, once it has a batch or an end.
    fn filled(&self, waited: &mut Duration) -> MutexGuard<'_, Queue> {
        let mut queue = self.shared.lock();
        if !queue.batches.is_empty() || queue.end.is_some() {
            return queue;
        }
        let start = Instant::now();
        queue.consumer_waits = true;
        while queue.batches.is_empty() && queue.end.is_none() {
            let woken = self.shared.filled.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        queue.consumer_waits = false;
        *waited += start.elapsed();
        queue
    }

    /// Ends the thread; gives the pipeline back, wherever it is.
    pub(super) fn stop(mut self) -> Result<Box<Lookahead>, Error> {
        let thread = self.end();
        match thread.map(JoinHandle::join) {
            Some(Ok(lookahead)) => Ok(lookahead),
            Some(Err(_)) | None => Err(lost(&self.shared.name)),
        }
    }

    fn end(&mut self) -> Option<JoinHandle<Box<Lookahead>>> {
        self.shared.lock().stop = true;
        self.shared.drained.notify_all();
        self.thread.take()
    }
}

impl Drop for Prefetch {
    /// No thread outlives its input.
    fn drop(&mut self) {
        if let Some(thread) = self.end() {
            let _ = thread.join();
        }
    }
}

/// The error of an input whose pipeline was lost with its thread.
pub(super) fn lost(name: &str) -> Error {
    let message = format!("the thread that reads the data set `{name}` has ended");
    Error::new(Code::Internal, message)
}

/// Prepares batches until the end, an error or the stop.
fn produce(mut lookahead: Box<Lookahead>, shared: &Shared, sized_by_bytes: bool) -> Box<Lookahead> {
    let mut is_first = true;
    loop {
        let start = Instant::now();
        let next = lookahead.next();
        let took = start.elapsed();
        let mut queue = shared.lock();
        match next {
            Ok(Some(prepared)) => {
                if is_first && sized_by_bytes {
                    let bytes: usize = prepared.batch.element.values.values().map(bytes_of).sum();
                    queue.capacity = (MAX_WAITING_BYTES / bytes.max(1)).clamp(2, MAX_WAITING);
                }
                is_first = false;
                queue.batches.push_back(prepared);
            }
            Ok(None) => queue.end = Some(Ok(())),
            Err(error) => queue.end = Some(Err(error)),
        }
        let wake_at = WAKE_AT.min(queue.capacity);
        let is_worth_it = took >= SLOW || queue.batches.len() >= wake_at || queue.end.is_some();
        if queue.consumer_waits && is_worth_it {
            shared.filled.notify_one();
        }
        while !queue.stop && queue.batches.len() >= queue.capacity {
            queue.producer_waits = true;
            let woken = shared.drained.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        queue.producer_waits = false;
        if queue.stop || queue.end.is_some() {
            return lookahead;
        }
    }
}

fn bytes_of(tensor: &trainspec_compiler::ir::Tensor) -> usize {
    usize::try_from(crate::memory::tensor_bytes(tensor)).unwrap_or(usize::MAX)
}
