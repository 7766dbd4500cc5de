//! A slice cut into parts, each given to one task of a pool.

use crate::exec::pool::Pool;

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
