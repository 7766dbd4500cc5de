//! Raw memory: an arena, pointers to tensors, copies of views.

use std::mem::MaybeUninit;

use trainspec_ir::DType;
use trainspec_ir::Tensor;
use trainspec_ir::kernel::View;

use crate::library::{Slice, SliceMut};

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
        const PAGE: usize = 2 << 20;
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
    let rank = view.shape.len();
    // Tensors of more dimensions are rare enough to ask for memory.
    let (mut few, mut many) = ([0; 8], Vec::new());
    let index = match rank {
        0..=8 => &mut few[..rank],
        _ => {
            many.resize(rank, 0);
            &mut many[..]
        }
    };
    for i in 0..n {
        let place: usize = view.offset
            + index
                .iter()
                .zip(&view.strides)
                .map(|(i, s)| i * s)
                .sum::<usize>();
        // SAFETY: `place` is that of an element of the view, and `i` is below the number of its elements.
        unsafe { std::ptr::copy_nonoverlapping(from.add(place * bytes), to.add(i * bytes), bytes) };
        for axis in (0..rank).rev() {
            index[axis] += 1;
            if index[axis] < view.shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}
