//! The elements of a queue, in the order in which its kind gives them back.

use std::collections::{BTreeMap, VecDeque};

use trainspec_compiler::ir::philox::Key;

use crate::data::draw;
use crate::queue::Value;

/// One element of a queue: a value for each component.
pub(super) type Tuple = Vec<Value>;

/// The kind of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Fifo,
    PaddingFifo,
    RandomShuffle {
        /// This many elements stay until the queue is closed, to be mixed with what follows.
        min_after_dequeue: usize,
        seed: i64,
    },
    Priority,
}

impl Kind {
    /// The name of the type in messages.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Kind::Fifo => "FIFOQueue",
            Kind::PaddingFifo => "PaddingFIFOQueue",
            Kind::RandomShuffle { .. } => "RandomShuffleQueue",
            Kind::Priority => "PriorityQueue",
        }
    }

    /// The name of a queue that is given none.
    pub(super) fn default_name(self) -> &'static str {
        match self {
            Kind::Fifo => "fifo_queue",
            Kind::PaddingFifo => "padding_fifo_queue",
            Kind::RandomShuffle { .. } => "random_shuffle_queue",
            Kind::Priority => "priority_queue",
        }
    }
}

/// The elements.
pub(super) enum Items {
    /// First in, first out.
    Fifo(VecDeque<Tuple>),
    /// Drawn at random.
    Shuffled {
        tuples: Vec<Tuple>,
        key: Key,
        drawn: u64,
        min_after_dequeue: usize,
    },
    /// The lowest priority first, and of one priority in the order in which they came.
    ByPriority {
        tuples: BTreeMap<(i64, i64), Tuple>,
        /// The order of the next that comes, and of the next that is put back before all others.
        next: i64,
        front: i64,
    },
}

impl Items {
    /// No elements. The draws of a queue depend on its seed and its name.
    pub(super) fn new(kind: Kind, name: &str) -> Items {
        match kind {
            Kind::Fifo | Kind::PaddingFifo => Items::Fifo(VecDeque::new()),
            Kind::RandomShuffle {
                min_after_dequeue,
                seed,
            } => Items::Shuffled {
                tuples: Vec::new(),
                key: Key::new(seed, name),
                drawn: 0,
                min_after_dequeue,
            },
            Kind::Priority => Items::ByPriority {
                tuples: BTreeMap::new(),
                next: 0,
                front: -1,
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Items::Fifo(tuples) => tuples.len(),
            Items::Shuffled { tuples, .. } => tuples.len(),
            Items::ByPriority { tuples, .. } => tuples.len(),
        }
    }

    /// How many can be taken now.
    pub(super) fn available(&self, is_closed: bool) -> usize {
        match self {
            Items::Shuffled {
                tuples,
                min_after_dequeue,
                ..
            } if !is_closed => tuples.len().saturating_sub(*min_after_dequeue),
            Items::Fifo(_) | Items::Shuffled { .. } | Items::ByPriority { .. } => self.len(),
        }
    }

    pub(super) fn push(&mut self, tuple: Tuple) {
        match self {
            Items::Fifo(tuples) => tuples.push_back(tuple),
            Items::Shuffled { tuples, .. } => tuples.push(tuple),
            Items::ByPriority { tuples, next, .. } => {
                tuples.insert((priority(&tuple), *next), tuple);
                *next += 1;
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Tuple> {
        match self {
            Items::Fifo(tuples) => tuples.pop_front(),
            Items::Shuffled {
                tuples, key, drawn, ..
            } => {
                if tuples.is_empty() {
                    return None;
                }
                let index = draw(*key, *drawn, tuples.len());
                *drawn += 1;
                Some(tuples.swap_remove(index))
            }
            Items::ByPriority { tuples, .. } => tuples.pop_first().map(|(_, tuple)| tuple),
        }
    }

    /// Puts back what was taken, so that it comes next again, in its order.
    pub(super) fn restore(&mut self, taken: Vec<Tuple>) {
        for tuple in taken.into_iter().rev() {
            match self {
                Items::Fifo(tuples) => tuples.push_front(tuple),
                Items::Shuffled { tuples, .. } => tuples.push(tuple),
                Items::ByPriority { tuples, front, .. } => {
                    tuples.insert((priority(&tuple), *front), tuple);
                    *front -= 1;
                }
            }
        }
    }
}

/// The priority of an element: its first component.
fn priority(tuple: &Tuple) -> i64 {
    let first = tuple.first().and_then(Value::tensor);
    let numbers = first.and_then(|tensor| tensor.values::<i64>());
    numbers.expect("the first component of a priority queue is an i64")[0]
}
