//! Scratch memory of routines, reused from call to call: best-fit buffer pools and tables.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::exec::allocate::{self, Zeroed};
use crate::exec::memory;

/// Scratch memory of routines. It grows to the size of the largest call and is never released.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) f32s: BufferPool<f32>,
    pub(super) f64s: BufferPool<f64>,
    pub(super) i64s: BufferPool<i64>,
    pub(super) bools: BufferPool<bool>,
    /// Element offsets in a tensor.
    pub(super) offsets: BufferPool<usize>,
    /// Row indices.
    pub(super) row_indices: Vec<usize>,
    /// Sizes and strides of dimensions.
    pub(super) dims: Vec<Dim>,
    /// Sizes and strides of reduced dimensions.
    pub(super) reduced_dims: Vec<Dim>,
    /// The hash table of `unique`.
    pub(super) hash_table: Vec<u32>,
    /// Repeated indices of `sum_rows`.
    pub(super) duplicates: Vec<Duplicate>,
    /// The unique number of each row, for `sum_rows`.
    pub(super) numbering: RowNumbering,
}

/// A repeated index: its position, and the number of its first occurrence among the unique indices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Duplicate {
    pub(super) at: u32,
    pub(super) number: u32,
}

/// Numbers assigned to rows, cleared in constant time by epochs: an entry below the base of the current call is stale.
#[derive(Debug, Default)]
pub(super) struct RowNumbering {
    /// The next base: greater than all numbers so far.
    next: u32,
    /// The number of each row plus the base of its call; entries begin at `first`, the start of a huge page.
    rows: Vec<u32>,
    first: usize,
}

impl RowNumbering {
    /// Begins an epoch for `length` rows, of which at most `count` are given numbers; gives its base, which is above 0, and the entries.
    ///
    /// # Panics
    ///
    /// When there are more numbers than a u32 can represent.
    pub(super) fn begin(&mut self, length: usize, count: usize) -> (u32, &mut [u32]) {
        if self.rows.len() - self.first < length {
            // Random access all over the table: huge pages save TLB misses.
            (self.rows, self.first) = memory::zeroed_aligned(length);
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
                self.next = count.checked_add(1).expect("a u32 can number one call");
                1
            }
        }
    }
}

/// A dimension of a strided view: its size and stride.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dim {
    pub(super) size: usize,
    pub(super) stride: isize,
}

/// A pool of buffers that tasks borrow, each for exclusive use.
#[derive(Debug)]
pub struct BufferPool<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for BufferPool<T> {
    fn default() -> BufferPool<T> {
        BufferPool(Mutex::new(Vec::new()))
    }
}

/// The alignment of buffers: a cache line.
const CACHE_LINE_BYTES: usize = 64;

impl<T: Zeroed> BufferPool<T> {
    /// Reserves `buffers` buffers of `length` elements, so that they can be borrowed at once without an allocation.
    pub fn prepare(&self, buffers: usize, length: usize) {
        let length = padded::<T>(length);
        let mut pool = self.lock();
        let available = pool.iter().filter(|b| b.len() >= length).count();
        for _ in available..buffers {
            // The largest buffer that is too small is replaced, which holds the least memory.
            let too_small = pool.iter_mut().filter(|b| b.len() < length);
            match too_small.max_by_key(|b| b.len()) {
                Some(buffer) => *buffer = allocate::zeros(length),
                None => pool.push(allocate::zeros(length)),
            }
        }
    }

    /// Calls `work` with a buffer, whose contents are arbitrary. A task borrows one at a time where buffers must have been reserved by
    /// [`BufferPool::prepare`].
    pub fn with<R>(&self, length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
        let mut buffer = self.take_best_fit(padded::<T>(length));
        let start = buffer.as_ptr().align_offset(CACHE_LINE_BYTES);
        let start = start.min(buffer.len() - length);
        let result = work(&mut buffer[start..][..length]);
        self.lock().push(buffer);
        result
    }

    /// Calls `work` with a buffer as [`BufferPool::with`] does, but borrows none for a length of 0.
    pub fn with_or_empty<R>(&self, length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
        match length {
            0 => work(&mut []),
            _ => self.with(length, work),
        }
    }

    /// Best fit: the smallest buffer that is large enough, so that a repeated sequence of calls never allocates.
    fn take_best_fit(&self, length: usize) -> Vec<T> {
        let mut pool = self.lock();
        let best = |fits: fn(usize, usize) -> bool| {
            let own = pool
                .iter()
                .enumerate()
                .filter(|(_, b)| fits(b.len(), length));
            own.min_by_key(|(_, b)| b.len().abs_diff(length))
                .map(|(i, _)| i)
        };
        let found = best(|size, requested| size >= requested).or_else(|| best(|_, _| true));
        let buffer = found.map(|i| pool.swap_remove(i));
        drop(pool);
        match buffer {
            Some(buffer) if buffer.len() >= length => buffer,
            _ => allocate::zeros(length),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A length padded for alignment to a cache line.
fn padded<T>(length: usize) -> usize {
    length + CACHE_LINE_BYTES / size_of::<T>().max(1)
}

/// An element type that scratch memory has a buffer pool for.
pub trait Pooled: Zeroed + Send + Sync + 'static {
    /// Its buffer pool.
    fn buffers(scratch: &Scratch) -> &BufferPool<Self>;
}

macro_rules! pooled {
    ($($ty:ty: $field:ident),*) => {
        $(impl Pooled for $ty {
            fn buffers(scratch: &Scratch) -> &BufferPool<$ty> {
                &scratch.$field
            }
        })*
    };
}

pooled!(f32: f32s, f64: f64s, i64: i64s, bool: bools, usize: offsets);
