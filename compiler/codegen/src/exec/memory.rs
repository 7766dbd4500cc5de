//! Raw memory: an arena, pointers to tensors, copies of views.

use std::mem::MaybeUninit;
use std::ops::Range;

use trainspec_ir::DType;
use trainspec_ir::Tensor;
use trainspec_ir::kernel::View;

use crate::library::{Slice, SliceMut};

/// The bytes of a large page.
const PAGE: usize = 2 << 20;

/// Bytes that begin at a multiple of 64.
#[derive(Debug, Default)]
pub(super) struct Arena(Vec<Line>);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]); // read and written through pointers

impl Arena {
    pub(super) fn new(bytes: usize) -> Arena {
        let lines = bytes.div_ceil(64).max(1);
        let mut arena = Vec::with_capacity(lines);
        advise_huge_pages(arena.spare_capacity_mut());
        arena.resize(lines, Line([0; 64]));
        Arena(arena)
    }

    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Asks for large pages under memory that is about to be used for the first time: a large arena then needs few of them, and few
/// faults. It is advice; nothing is lost where it is not taken.
fn advise_huge_pages(room: &mut [MaybeUninit<Line>]) {
    advise(room.as_mut_ptr().cast(), size_of_val(room), false);
}

/// So many zeros, and where they begin in the list: at a large page, where there are enough of them. Others may lie before and behind.
pub(crate) fn on_large_pages(count: usize) -> (Vec<u32>, usize) {
    if count * size_of::<u32>() < PAGE / 2 {
        return (vec![0; count], 0);
    }
    let all = (count + PAGE / size_of::<u32>()).next_multiple_of(PAGE / size_of::<u32>());
    // Zeros that were never touched have no pages yet.
    let mut zeros = vec![0_u32; all];
    let first = zeros.as_ptr().align_offset(PAGE).min(all - count);
    advise(
        zeros[first..].as_mut_ptr().cast(),
        count * size_of::<u32>(),
        false,
    );
    (zeros, first)
}

/// Asks for large pages under tensors that are used step after step, which have their small ones already: small tensors that lie near each
/// other are one. It is advice, too.
pub(super) fn gather_pages(state: &mut [Tensor], places: &[usize]) {
    /// What may lie between two tensors.
    const NEAR: usize = 1 << 16;
    let mut all: Vec<(*mut u8, usize)> = Vec::with_capacity(places.len());
    for place in places {
        let tensor = &mut state[*place];
        all.push((pointer_mut(tensor), bytes_of(tensor)));
    }
    all.sort_unstable_by_key(|(first, _)| first.addr());
    let mut run: Option<(*mut u8, usize)> = None;
    for (first, bytes) in all.into_iter().chain([(std::ptr::null_mut(), 0)]) {
        if let Some((start, length)) = &mut run {
            let end = start.addr() + *length;
            if first.addr() >= end && first.addr() - end <= NEAR {
                *length = first.addr() + bytes - start.addr();
                continue;
            }
            advise(*start, *length, true);
        }
        run = Some((first, bytes));
    }
}

/// The same for one tensor.
pub(super) fn gather_pages_of(tensor: &Tensor) {
    advise(pointer(tensor), bytes_of(tensor), true);
}

fn bytes_of(tensor: &Tensor) -> usize {
    tensor.shape().iter().product::<usize>() * tensor.dtype().bytes()
}

/// Advice on the large pages that hold some bytes; with `now` what is there is moved into them at once. Few bytes are left alone.
///
/// The pages may hold what belongs to others, too. Advice does not change what is in a page.
fn advise(start: *mut u8, bytes: usize, now: bool) {
    #[cfg(target_os = "linux")]
    {
        /// Of Linux 6.1 and later; earlier ones refuse it.
        const MADV_COLLAPSE: i32 = 25;
        if bytes >= PAGE / 2 {
            let before = start.addr() % PAGE;
            let length = (before + bytes).next_multiple_of(PAGE);
            let first = start.wrapping_sub(before);
            // SAFETY: nothing is read or written through the pointer, and the advice neither changes nor frees what is in the pages; what
            // is not mapped is passed over.
            unsafe {
                libc::madvise(first.cast(), length, libc::MADV_HUGEPAGE);
                if now {
                    libc::madvise(first.cast(), length, MADV_COLLAPSE);
                }
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, now);
}

macro_rules! each_type {
    ($tensor:expr, $method:ident, $cast:expr) => {
        match $tensor.dtype() {
            DType::F16 => $tensor.$method::<half::f16>().map($cast),
            DType::Bf16 => $tensor.$method::<half::bf16>().map($cast),
            DType::F32 => $tensor.$method::<f32>().map($cast),
            DType::F64 => $tensor.$method::<f64>().map($cast),
            DType::I8 => $tensor.$method::<i8>().map($cast),
            DType::I16 => $tensor.$method::<i16>().map($cast),
            DType::I32 => $tensor.$method::<i32>().map($cast),
            DType::I64 => $tensor.$method::<i64>().map($cast),
            DType::U8 => $tensor.$method::<u8>().map($cast),
            DType::Bool => $tensor.$method::<bool>().map($cast),
            DType::String => panic!("strings are not computed with"),
        }
        .expect("the type was asked for")
    };
}

/// The first element of a tensor, to read it.
pub(super) fn pointer(tensor: &Tensor) -> *mut u8 {
    fn first<T>(values: &[T]) -> *mut u8 {
        values.as_ptr().cast_mut().cast()
    }
    each_type!(tensor, values, first)
}

/// The first element of a tensor, to write it.
pub(super) fn pointer_mut(tensor: &mut Tensor) -> *mut u8 {
    fn first<T>(values: &mut [T]) -> *mut u8 {
        values.as_mut_ptr().cast()
    }
    each_type!(tensor, values_mut, first)
}

/// Elements as a slice.
///
/// # Safety
///
/// `n` initialised elements of the type lie from `first` on, aligned for it, and nobody writes to them while the slice is in use.
pub(super) unsafe fn slice<'a>(dtype: DType, first: *const u8, n: usize) -> Slice<'a> {
    macro_rules! of {
        ($($variant:ident),*) => {
            match dtype {
                // SAFETY: the caller's promise.
                $(DType::$variant => Slice::$variant(unsafe { std::slice::from_raw_parts(first.cast(), n) }),)*
                DType::String => panic!("strings are not computed with"),
            }
        };
    }
    of!(F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool)
}

/// The same, to write.
///
/// # Safety
///
/// As for [`slice`], and nobody else reads the elements either.
pub(super) unsafe fn slice_mut<'a>(dtype: DType, first: *mut u8, n: usize) -> SliceMut<'a> {
    macro_rules! of {
        ($($variant:ident),*) => {
            match dtype {
                // SAFETY: the caller's promise.
                $(DType::$variant => SliceMut::$variant(unsafe { std::slice::from_raw_parts_mut(first.cast(), n) }),)*
                DType::String => panic!("strings are not computed with"),
            }
        };
    }
    of!(F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool)
}

/// Copies the elements of a view, row after row.
///
/// # Safety
///
/// `from` is the beginning of the view's buffer, all elements of the view lie inside it and are initialised; `to` has room for the view's
/// elements; the two do not overlap.
pub(super) unsafe fn copy(view: &View, bytes: usize, from: *const u8, to: *mut u8) {
    let n = view.elements();
    if n == 0 {
        return;
    }
    if view.is_contiguous() {
        // SAFETY: the caller's promise; the elements lie one behind the other.
        unsafe { std::ptr::copy_nonoverlapping(from.add(view.offset * bytes), to, n * bytes) };
        return;
    }
    // The last dimensions that lie one behind the other, or are one element again and again, are done in one go.
    let (run, repeated) = run(view);
    let (rank, length) = (run.start, view.shape[run].iter().product::<usize>());
    // Tensors of more dimensions are rare enough to ask for memory.
    let (mut few, mut many) = ([0; 8], Vec::new());
    let index = match rank {
        0..=8 => &mut few[..rank],
        _ => {
            many.resize(rank, 0);
            &mut many[..]
        }
    };
    for i in (0..n).step_by(length) {
        let steps = index.iter().zip(&view.strides).map(|(i, s)| i * s);
        let place = view.offset + steps.sum::<usize>();
        // SAFETY: `place` is that of an element of the view, the next `length` of which lie behind it or are the same; `i` and as many behind
        // it are below the number of elements.
        unsafe {
            let (from, to) = (from.add(place * bytes), to.add(i * bytes));
            match repeated {
                true => fill(from, to, bytes, length),
                false => std::ptr::copy_nonoverlapping(from, to, length * bytes),
            }
        }
        for axis in (0..rank).rev() {
            index[axis] += 1;
            if index[axis] < view.shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The last dimensions of a view whose elements lie one behind the other, or that are one element repeated, and which of the two it is.
fn run(view: &View) -> (Range<usize>, bool) {
    let rank = view.shape.len();
    let repeated = view.strides.last() == Some(&0);
    let (mut first, mut length) = (rank, 1);
    while first > 0 && view.strides[first - 1] == if repeated { 0 } else { length } {
        first -= 1;
        length *= view.shape[first];
    }
    (first..rank, repeated)
}

/// Writes one element many times.
///
/// # Safety
///
/// `from` is an element of so many bytes, `to` has room for `count` of them; the two do not overlap.
unsafe fn fill(from: *const u8, to: *mut u8, bytes: usize, count: usize) {
    /// So many bytes are copied again and again, which stay in the cache.
    const BLOCK: usize = 1 << 12;
    let all = bytes * count;
    // SAFETY: all copies end within `all` bytes, those from `to` to `to` read what was written before and lie apart.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bytes);
        let mut done = bytes;
        while done < all {
            let some = done.min(BLOCK).min(all - done);
            std::ptr::copy_nonoverlapping(to, to.add(done), some);
            done += some;
        }
    }
}

#[cfg(test)]
mod tests {
    use trainspec_ir::kernel::BufferId;

    use super::*;

    /// The elements of a view, one after another, as it defines them.
    fn one_by_one(view: &View, buffer: &[u32]) -> Vec<u32> {
        let n = view.elements();
        let mut index = vec![0; view.shape.len()];
        let mut all = Vec::new();
        for _ in 0..n {
            let steps = index.iter().zip(&view.strides).map(|(i, s)| i * s);
            all.push(buffer[view.offset + steps.sum::<usize>()]);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < view.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        all
    }

    #[test]
    fn views_of_all_kinds_are_copied() {
        let buffer: Vec<u32> = (0..6000).map(|i| i * 7 + 1).collect();
        let cases: [(&[usize], &[usize], usize); 12] = [
            (&[3, 4, 5], &[20, 5, 1], 7), // one behind the other
            (&[3, 4, 5], &[40, 5, 1], 0), // the last two are
            (&[3, 4, 5], &[20, 10, 1], 1),
            (&[5, 4, 3], &[1, 5, 20], 0),  // turned
            (&[3, 4, 5], &[0, 0, 0], 9),   // one element
            (&[3, 4, 5], &[1, 0, 0], 2),   // an element for each row
            (&[3, 4, 5], &[0, 5, 1], 2),   // the same rows again
            (&[3, 4, 5], &[20, 0, 1], 2),  // rows repeated in between
            (&[3, 4, 5], &[20, 5, 0], 2),  // columns repeated
            (&[1, 5000], &[0, 0], 3),      // longer than what is copied in one go
            (&[2, 1, 3], &[3, 900, 1], 0), // a size of 1 has any stride
            (&[], &[], 4),
        ];
        for (shape, strides, offset) in cases {
            let view = View {
                buffer: BufferId(0),
                offset,
                shape: shape.to_vec(),
                strides: strides.to_vec(),
            };
            let mut found = vec![0_u32; view.elements()];
            // SAFETY: all views lie inside the buffer, and there is room for each.
            unsafe { copy(&view, 4, buffer.as_ptr().cast(), found.as_mut_ptr().cast()) };
            assert_eq!(found, one_by_one(&view, &buffer), "{view:?}");
        }
    }
}
