//! The state of a queue: its elements, and the operations that wait for space or for elements, in the order in which they came.
//!
//! An operation is an attempt that is completed as far as possible whenever the state changes; only the oldest enqueue and the oldest
//! dequeue make progress. So a batch may be larger than the capacity, and a close comes after the enqueues that were there before it.

use std::collections::{BTreeMap, VecDeque};

use crate::queue::items::{Items, Kind, Tuple};
use crate::{Code, Error};

/// The result of a completed attempt: the elements that a dequeue took, nothing for the others.
type Completed = Result<Vec<Tuple>, Error>;

/// The elements and the pending attempts.
pub(super) struct Attempts {
    kind: Kind,
    name: String,
    capacity: usize,
    items: Items,
    is_closed: bool,
    enqueues: VecDeque<Enqueue>,
    dequeues: VecDeque<Dequeue>,
    next_ticket: u64,
    /// What its thread has not fetched yet.
    completed: BTreeMap<u64, Completed>,
}

/// A pending enqueue or close.
struct Enqueue {
    ticket: u64,
    work: EnqueueWork,
}

enum EnqueueWork {
    /// The elements that are not in the queue yet.
    Elements(VecDeque<Tuple>),
    Close,
}

/// A pending dequeue.
struct Dequeue {
    ticket: u64,
    /// How many elements are missing.
    requested: usize,
    taken: Vec<Tuple>,
    /// Whether fewer will do once the queue is closed.
    allow_fewer: bool,
}

impl Attempts {
    pub(super) fn new(kind: Kind, name: &str, capacity: usize) -> Attempts {
        Attempts {
            kind,
            name: name.to_owned(),
            capacity,
            items: Items::new(kind, name),
            is_closed: false,
            enqueues: VecDeque::new(),
            dequeues: VecDeque::new(),
            next_ticket: 0,
            completed: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(super) fn enqueue(&mut self, elements: VecDeque<Tuple>) -> u64 {
        let ticket = self.ticket();
        let work = EnqueueWork::Elements(elements);
        self.enqueues.push_back(Enqueue { ticket, work });
        ticket
    }

    pub(super) fn close(&mut self) -> u64 {
        let ticket = self.ticket();
        let work = EnqueueWork::Close;
        self.enqueues.push_back(Enqueue { ticket, work });
        ticket
    }

    pub(super) fn dequeue(&mut self, requested: usize, allow_fewer: bool) -> u64 {
        let ticket = self.ticket();
        self.dequeues.push_back(Dequeue {
            ticket,
            requested,
            taken: Vec::new(),
            allow_fewer,
        });
        ticket
    }

    /// The result of an attempt, once.
    pub(super) fn fetch(&mut self, ticket: u64) -> Option<Completed> {
        self.completed.remove(&ticket)
    }

    /// Whether there are results that threads have not fetched yet.
    pub(super) fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Closes the queue and cancels the enqueues that wait.
    pub(super) fn close_and_cancel(&mut self) {
        self.is_closed = true;
        for attempt in std::mem::take(&mut self.enqueues) {
            self.completed
                .insert(attempt.ticket, Err(cancelled("Enqueue")));
        }
    }

    /// Cancels one attempt; what a dequeue has taken is put back.
    pub(super) fn cancel(&mut self, ticket: u64) -> Error {
        self.enqueues.retain(|attempt| attempt.ticket != ticket);
        let at = self.dequeues.iter().position(|one| one.ticket == ticket);
        match at.and_then(|at| self.dequeues.remove(at)) {
            Some(dequeue) => {
                self.items.restore(dequeue.taken);
                cancelled("Dequeue")
            }
            None => cancelled("Enqueue"),
        }
    }

    /// The state of a new queue: open and empty. What waits is cancelled.
    pub(super) fn reset(&mut self) {
        self.close_and_cancel();
        for attempt in std::mem::take(&mut self.dequeues) {
            self.completed
                .insert(attempt.ticket, Err(cancelled("Dequeue")));
        }
        self.items = Items::new(self.kind, &self.name);
        self.is_closed = false;
    }

    /// Completes what can be completed.
    pub(super) fn advance(&mut self) {
        loop {
            let progress = self.advance_enqueue();
            if !(self.advance_dequeue() || progress) {
                break;
            }
        }
    }

    /// Lets the oldest enqueue put in what fits; whether anything changed.
    fn advance_enqueue(&mut self) -> bool {
        let Some(attempt) = self.enqueues.front_mut() else {
            return false;
        };
        let mut progress = false;
        let result = match &mut attempt.work {
            EnqueueWork::Close if self.is_closed => {
                let message = format!("Queue '{}' is already closed.", self.name);
                Err(Error::new(Code::Cancelled, message))
            }
            EnqueueWork::Close => {
                self.is_closed = true;
                Ok(Vec::new())
            }
            EnqueueWork::Elements(_) if self.is_closed => {
                let message = format!("{} '{}' is closed.", self.kind.type_name(), self.name);
                Err(Error::new(Code::Cancelled, message))
            }
            EnqueueWork::Elements(elements) => {
                while self.items.len() < self.capacity
                    && let Some(tuple) = elements.pop_front()
                {
                    self.items.push(tuple);
                    progress = true;
                }
                if !elements.is_empty() {
                    return progress;
                }
                Ok(Vec::new())
            }
        };
        let ticket = attempt.ticket;
        self.enqueues.pop_front();
        self.completed.insert(ticket, result);
        true
    }

    /// Lets the oldest dequeue take what there is; whether anything changed.
    fn advance_dequeue(&mut self) -> bool {
        let Some(attempt) = self.dequeues.front_mut() else {
            return false;
        };
        let size = self.items.len();
        if self.is_closed && size < attempt.requested {
            self.items.restore(std::mem::take(&mut attempt.taken));
            let rest = self.items.len();
            if attempt.allow_fewer && rest > 0 {
                attempt.requested = rest;
            } else if attempt.allow_fewer && !self.enqueues.is_empty() {
                // They fail first, since the queue is closed.
                return false;
            } else {
                let message = format!(
                    "{} '{}' is closed and has insufficient elements (requested {}, current size {size})",
                    self.kind.type_name(),
                    self.name,
                    attempt.requested
                );
                let error = Error::new(Code::OutOfRange, message);
                let ticket = attempt.ticket;
                self.dequeues.pop_front();
                self.completed.insert(ticket, Err(error));
                return true;
            }
        }
        let mut progress = false;
        let mut available = self.items.available(self.is_closed);
        while attempt.requested > 0
            && available > 0
            && let Some(tuple) = self.items.pop()
        {
            attempt.taken.push(tuple);
            attempt.requested -= 1;
            available -= 1;
            progress = true;
        }
        if attempt.requested == 0
            && let Some(done) = self.dequeues.pop_front()
        {
            self.completed.insert(done.ticket, Ok(done.taken));
            progress = true;
        }
        progress
    }
}

fn cancelled(operation: &str) -> Error {
    let message = format!("{operation} operation was cancelled");
    Error::new(Code::Cancelled, message)
}
