//! Memory that routines compute in, kept from call to call.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::exec::memory;

/// Memory that routines compute in. It grows to what the largest call needs and stays so.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) f32s: Shelf<f32>,
    pub(super) f64s: Shelf<f64>,
    pub(super) i64s: Shelf<i64>,
    pub(super) bools: Shelf<bool>,
    /// Where things are in a tensor.
    pub(super) offsets: Shelf<usize>,
    /// Numbers of rows.
    pub(super) places: Vec<usize>,
    /// Sizes and steps of dimensions.
    pub(super) steps: Vec<Step>,
    /// Those of other dimensions.
    pub(super) others: Vec<Step>,
    /// Where things are found by their key.
    pub(super) table: Vec<u32>,
    /// What came before.
    pub(super) repeated: Vec<Repeated>,
    /// Which rows were seen.
    pub(super) seen: Seen,
}

/// A thing that came before: where it comes again, and its number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repeated {
    pub(super) at: u32,
    pub(super) number: u32,
}

/// The numbers of rows, without forgetting them row by row: what is below the base of a call is old.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// More than all numbers so far.
    next: u32,
    /// The number of each row, and the base of its call; from `first` on.
    rows: Vec<u32>,
    first: usize,
}

impl Seen {
    /// Begins a call for `length` rows, of which at most `count` are given numbers; gives its base, which is above 0, and the rows.
    ///
    /// # Panics
    ///
    /// When there are more numbers than a u32 can tell apart.
    pub(super) fn begin(&mut self, length: usize, count: usize) -> (u32, &mut [u32]) {
        if self.rows.len() - self.first < length {
            // Rows are looked up all over the table, each in another small page.
            (self.rows, self.first) = memory::zeroed_on_huge_pages(length);
            self.next = 0;
        }
        let base = self.base(count);
        (base, &mut self.rows[self.first..][..length])
    }

    fn base(&mut self, count: usize) -> u32 {
        let count = u32::try_from(count).expect("positions are counted by an i32 elsewhere");
        let base = self.next.max(1);
        match base.checked_add(count) {
            Some(next) => {
                self.next = next;
                base
            }
            None => {
                self.rows.fill(0);
                self.next = count.checked_add(1).expect("there is room for one call");
                1
            }
        }
    }
}

/// A dimension: its size, and how far apart its elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) size: usize,
    pub(super) step: isize,
}

/// Buffers that tasks borrow, each one for itself.
#[derive(Debug)]
pub struct Shelf<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf(Mutex::new(Vec::new()))
    }
}

/// Buffers begin at multiples of so many bytes: a line of the cache.
const LINE: usize = 64;

impl<T: Copy + Default> Shelf<T> {
    /// Makes sure that so many buffers of so many elements can be lent at once without an allocation.
    pub fn prepare(&self, buffers: usize, length: usize) {
        let length = with_line::<T>(length);
        let mut shelf = self.lock();
        let enough = shelf.iter().filter(|b| b.len() >= length).count();
        for _ in enough..buffers {
            // The largest that is too small grows, so that the least memory is held.
            let short = shelf.iter_mut().filter(|b| b.len() < length);
            match short.max_by_key(|b| b.len()) {
                Some(buffer) => *buffer = vec![T::default(); length],
                None => shelf.push(vec![T::default(); length]),
            }
        }
    }

    /// Lends a buffer, whose contents are arbitrary. A task takes one at a time where what it takes must have been prepared.
    pub fn lend<R>(&self, length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
        let mut buffer = self.take(with_line::<T>(length));
        let start = buffer.as_ptr().align_offset(LINE);
        let start = start.min(buffer.len() - length);
        let result = work(&mut buffer[start..][..length]);
        self.lock().push(buffer);
        result
    }

    /// The same, but for nothing no buffer is taken.
    pub fn lend_some<R>(&self, length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
        match length {
            0 => work(&mut []),
            _ => self.lend(length, work),
        }
    }

    /// The smallest buffer that is large enough: then the same calls find room again, whatever they were lent before.
    fn take(&self, length: usize) -> Vec<T> {
        let mut shelf = self.lock();
        let place = |fits: fn(usize, usize) -> bool| {
            let own = shelf
                .iter()
                .enumerate()
                .filter(|(_, b)| fits(b.len(), length));
            own.min_by_key(|(_, b)| b.len().abs_diff(length))
                .map(|(i, _)| i)
        };
        let found = place(|has, wants| has >= wants).or_else(|| place(|_, _| true));
        let buffer = found.map(|i| shelf.swap_remove(i));
        drop(shelf);
        match buffer {
            Some(buffer) if buffer.len() >= length => buffer,
            _ => vec![T::default(); length],
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A length with room to begin at the next line.
fn with_line<T>(length: usize) -> usize {
    length + LINE / size_of::<T>().max(1)
}

/// An element that scratch memory has buffers of.
pub trait Kept: Copy + Default + Send + Sync + 'static {
    /// Its buffers.
    fn shelf(scratch: &Scratch) -> &Shelf<Self>;
}

macro_rules! kept {
    ($($ty:ty: $field:ident),*) => {
        $(impl Kept for $ty {
            fn shelf(scratch: &Scratch) -> &Shelf<$ty> {
                &scratch.$field
            }
        })*
    };
}

kept!(f32: f32s, f64: f64s, i64: i64s, bool: bools, usize: offsets);
