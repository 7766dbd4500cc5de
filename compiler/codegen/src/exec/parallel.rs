//! Parallel for over the chunks of a slice (as rayon's `par_chunks_mut`), and a parallel scatter of rows.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::exec::pool::Pool;
use crate::simd;

/// The base pointer of a slice, for tasks that each take a chunk of their own.
#[derive(Clone, Copy)]
struct BasePtr<T>(*mut T);

// SAFETY: the pointer is only used to make the disjoint chunks of a slice of `T: Send` that is borrowed for as long as the
// tasks run.
unsafe impl<T: Send> Sync for BasePtr<T> {}

impl<T> BasePtr<T> {
    /// The pointer to element `i`, which must be in the slice or one past its end.
    ///
    /// # Safety
    ///
    /// As for [`pointer::add`].
    unsafe fn at(&self, i: usize) -> *mut T {
        // SAFETY: the caller says so.
        unsafe { self.0.add(i) }
    }
}

/// Calls `work` with each chunk of `data` of `size` elements (the last may be shorter) and its index, on the threads of the
/// pool. The chunks depend on the sizes alone.
///
/// # Panics
///
/// When `size` is 0 though there is data.
pub fn chunks_mut<T: Send>(
    pool: &Pool,
    data: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let group = data.len();
    grouped_chunks_mut(pool, data, group, size, |_, i, chunk| work(i, chunk));
}

/// Calls `work` with each chunk of each group of `group` elements of `data`: the last chunk of a group may be shorter. `work` is called with
/// the index of the group and that of the chunk in it.
///
/// # Panics
///
/// When a size is 0 though there is data, or the length of the data is no multiple of `group`.
pub fn grouped_chunks_mut<T: Send>(
    pool: &Pool,
    data: &mut [T],
    group: usize,
    size: usize,
    work: impl Fn(usize, usize, &mut [T]) + Sync,
) {
    if data.is_empty() {
        return;
    }
    assert!(size > 0 && group > 0, "chunks have elements");
    assert!(
        data.len().is_multiple_of(group),
        "the length is a multiple of the group"
    );
    if data.len() <= size && data.len() == group {
        return work(0, 0, data);
    }
    let (length, chunks) = (data.len(), group.div_ceil(size));
    let start = BasePtr(data.as_mut_ptr());
    pool.run(length / group * chunks, &|i| {
        let (group_index, chunk) = (i / chunks, i % chunks);
        let begin = group_index * group + chunk * size;
        assert!(begin < length, "the pool counts up to the number of tasks");
        let end = begin + size.min(group - chunk * size);
        // SAFETY: `begin..end` lies in `data`, which is borrowed until the pool has returned. The pool calls with each
        // index once, and chunks of different indices do not overlap.
        let elements = unsafe { std::slice::from_raw_parts_mut(start.at(begin), end - begin) };
        work(group_index, chunk, elements);
    });
}

mod sealed {
    pub trait Sealed {}
}

/// An element type of tensors: a value without padding, so that all its bytes are initialised and may be read as an integer.
///
/// Sealed: implemented for the element types of tensors alone. `bool` is the only one for which not every bit pattern is a value; what is
/// written are the bits of values, so none is ever made of other bits.
pub trait Plain: sealed::Sealed + Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($ty:ty),*) => {
        $(
            impl sealed::Sealed for $ty {}
            impl Plain for $ty {}
        )*
    };
}

plain!(half::f16, half::bf16, f32, f64, i8, i16, i32, i64, u8, bool);

/// How many places ahead the cells to write are prefetched, because places are random accesses.
const PREFETCH_DISTANCE_PLACES: usize = 24;

/// How many rows one task writes.
const ROWS_PER_TASK: usize = 1 << 11;

/// Parallel scatter: writes rows of `width` elements into `data` at places, on the threads of the pool; a place outside of the data is
/// ignored. Of rows with the same place any one wins.
pub fn put_rows<T: Plain>(pool: &Pool, data: &mut [T], width: usize, places: &[i64], rows: &[T]) {
    let count = places.len();
    assert!(
        count.saturating_mul(width) <= rows.len(),
        "there is a row for each place"
    );
    let length = data.len() as i64 / width.max(1) as i64;
    let is_word =
        size_of::<T>() == size_of::<AtomicU32>() && align_of::<T>() >= align_of::<AtomicU32>();
    if !is_word || width == 0 {
        for (place, row) in places.iter().zip(rows.chunks_exact(width.max(1))) {
            if (0..length).contains(place) {
                data[*place as usize * width..][..width].copy_from_slice(row);
            }
        }
        return;
    }
    // SAFETY: `is_word` says that an element has the size of an `AtomicU32` and is aligned at least as strictly, so the elements of `data`
    // are as many aligned words. A `Plain` element has no padding, so they are initialised, and every bit pattern is a u32. `data` is
    // borrowed exclusively until all tasks are done, and is not used but through `cells`. What is stored are the bits of a `T`, so
    // `data` holds values of `T` again afterwards.
    let cells: &[AtomicU32] =
        unsafe { std::slice::from_raw_parts(data.as_mut_ptr().cast(), data.len()) };
    pool.run(count.div_ceil(ROWS_PER_TASK), &|task| {
        let own = task * ROWS_PER_TASK..((task + 1) * ROWS_PER_TASK).min(count);
        if width == 1 {
            for (i, (place, x)) in places[own.clone()]
                .iter()
                .zip(&rows[own.clone()])
                .enumerate()
            {
                if let Some(later) = places.get(own.start + i + PREFETCH_DISTANCE_PLACES) {
                    simd::prefetch_to_write(cells, *later as usize);
                }
                // A negative place becomes an index past the end.
                if let Some(to) = cells.get(*place as usize) {
                    // SAFETY: both have four bytes (`is_word`), all of which are initialised: `Plain` has no padding.
                    to.store(unsafe { std::mem::transmute_copy::<T, u32>(x) }, Relaxed);
                }
            }
            return;
        }
        for (place, row) in places[own.clone()]
            .iter()
            .zip(rows[own.start * width..].chunks_exact(width))
        {
            if !(0..length).contains(place) {
                continue;
            }
            let to = &cells[*place as usize * width..][..width];
            for (to, x) in to.iter().zip(row) {
                // SAFETY: both have four bytes (`is_word`), all of which are initialised: `Plain` has no padding.
                to.store(unsafe { std::mem::transmute_copy::<T, u32>(x) }, Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_visited_once() {
        let pool = Pool::new(3);
        let mut data = vec![0_usize; 1000];
        chunks_mut(&pool, &mut data, 7, |i, chunk| {
            for x in chunk.iter_mut() {
                *x += i + 1;
            }
        });
        for (i, x) in data.iter().enumerate() {
            assert_eq!(*x, i / 7 + 1);
        }
        chunks_mut(&pool, &mut data[..0], 0, |_, _| panic!("nothing to visit"));
    }

    #[test]
    fn chunks_do_not_cross_groups() {
        let pool = Pool::new(3);
        let mut data = vec![0_usize; 60];
        grouped_chunks_mut(&pool, &mut data, 15, 6, |group, i, chunk| {
            chunk.iter_mut().for_each(|x| *x += 100 * group + i + 1);
        });
        for (i, x) in data.iter().enumerate() {
            assert_eq!(*x, i / 15 * 100 + i % 15 / 6 + 1);
        }
    }
}
