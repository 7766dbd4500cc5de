//! A slice cut into parts, each given to one task of a pool.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::exec::pool::Pool;
use crate::simd;

/// Where a slice starts, for tasks that each take a part of their own.
#[derive(Clone, Copy)]
struct Start<T>(*mut T);

// SAFETY: the pointer is only used to make the disjoint parts of a slice of `T: Send` that is borrowed for as long as the
// tasks run.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// The place `i` elements further on, which must be in or right behind the slice.
    ///
    /// # Safety
    ///
    /// As for [`pointer::add`].
    unsafe fn at(&self, i: usize) -> *mut T {
        // SAFETY: the caller says so.
        unsafe { self.0.add(i) }
    }
}

/// Calls `work` with each part of `data` of `size` elements (the last may be shorter) and its number, on the threads of the
/// pool. The parts depend on the sizes alone.
///
/// # Panics
///
/// When `size` is 0 though there is data.
pub fn each<T: Send>(
    pool: &Pool,
    data: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let group = data.len();
    each_of(pool, data, group, size, |_, i, part| work(i, part));
}

/// The same with groups of `group` elements that are cut by themselves: the last part of each group may be shorter. `work` is called with
/// the number of the group and that of the part in it.
///
/// # Panics
///
/// When a size is 0 though there is data, or the data has no whole number of groups.
pub fn each_of<T: Send>(
    pool: &Pool,
    data: &mut [T],
    group: usize,
    size: usize,
    work: impl Fn(usize, usize, &mut [T]) + Sync,
) {
    if data.is_empty() {
        return;
    }
    assert!(size > 0 && group > 0, "parts have elements");
    assert!(data.len().is_multiple_of(group), "groups are whole");
    if data.len() <= size && data.len() == group {
        return work(0, 0, data);
    }
    let (length, parts) = (data.len(), group.div_ceil(size));
    let start = Start(data.as_mut_ptr());
    pool.run(length / group * parts, &|i| {
        let (number, part) = (i / parts, i % parts);
        let begin = number * group + part * size;
        assert!(begin < length, "the pool counts up to the number of tasks");
        let end = begin + size.min(group - part * size);
        // SAFETY: `begin..end` lies in `data`, which is borrowed until the pool has returned. The pool calls with each
        // number once, and parts of different numbers do not overlap.
        let part = unsafe { std::slice::from_raw_parts_mut(start.at(begin), end - begin) };
        work(number, i % parts, part);
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

/// How many places ahead what will be written is fetched, because places are all over the memory.
const AHEAD: usize = 24;

/// How many rows are put by one task.
const ROWS: usize = 1 << 11;

/// Puts rows of `width` elements into `data` at places, on the threads of the pool; a place behind the data is passed over. Of rows with
/// the same place one wins, any one.
pub fn put_rows<T: Plain>(
    pool: &Pool,
    data: &mut [T],
    width: usize,
    places: &[i64],
    rows: &[T],
) {
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
    pool.run(count.div_ceil(ROWS), &|task| {
        let own = task * ROWS..((task + 1) * ROWS).min(count);
        if width == 1 {
            for (i, (place, x)) in places[own.clone()]
                .iter()
                .zip(&rows[own.clone()])
                .enumerate()
            {
                if let Some(later) = places.get(own.start + i + AHEAD) {
                    simd::prefetch_to_write(cells, *later as usize);
                }
                // A negative place is far behind the last.
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
    fn each_part_is_visited_once() {
        let pool = Pool::new(3);
        let mut data = vec![0_usize; 1000];
        each(&pool, &mut data, 7, |i, part| {
            for x in part.iter_mut() {
                *x += i + 1;
            }
        });
        for (i, x) in data.iter().enumerate() {
            assert_eq!(*x, i / 7 + 1);
        }
        each(&pool, &mut data[..0], 0, |_, _| panic!("nothing to visit"));
    }

    #[test]
    fn parts_of_groups_do_not_reach_into_the_next() {
        let pool = Pool::new(3);
        let mut data = vec![0_usize; 60];
        each_of(&pool, &mut data, 15, 6, |group, i, part| {
            part.iter_mut().for_each(|x| *x += 100 * group + i + 1);
        });
        for (i, x) in data.iter().enumerate() {
            assert_eq!(*x, i / 15 * 100 + i % 15 / 6 + 1);
        }
    }
}
