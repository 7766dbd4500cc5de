//! Raw memory: the buffer arena, pointers to tensors, copies of strided views.

use trainspec_ir::DType;
use trainspec_ir::Tensor;
use trainspec_ir::kernel::View;

use crate::exec::allocate::{self, Zeroed};
use crate::exec::huge_pages::{self, HUGE_PAGE_BYTES, MIN_ADVISED_BYTES};
use crate::library::{Slice, SliceMut};

/// The arena of a program's buffers: zeroed bytes, aligned to a cache line, and to a huge page where they are as many.
#[derive(Debug, Default)]
pub(super) struct Arena {
    bytes: Vec<u8>,
    /// The index of the first aligned byte.
    first: usize,
    size: usize,
}

impl Arena {
    pub(super) fn new(size: usize) -> Arena {
        let (bytes, first) = zeroed_aligned(size);
        Arena { bytes, first, size }
    }

    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.bytes[self.first..].as_mut_ptr()
    }

    /// The bytes that were asked for.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

/// A list with `count` zeros (or values whose default is all zeros), and the index of the first of them, which is aligned to a cache
/// line, and to a huge page where there are enough of them. Others lie before and after.
///
/// The memory comes zeroed from the system (`calloc`) and is not written, so a page exists when it is first used; large ones are advised
/// to be huge pages before that.
pub(crate) fn zeroed_aligned<T: Zeroed>(count: usize) -> (Vec<T>, usize) {
    const CACHE_LINE_BYTES: usize = 64;
    let bytes = count * size_of::<T>();
    let alignment = match bytes < MIN_ADVISED_BYTES {
        true => CACHE_LINE_BYTES,
        false => HUGE_PAGE_BYTES,
    };
    let mut zeros = allocate::zeros::<T>(count + alignment / size_of::<T>());
    let first = zeros.as_ptr().align_offset(alignment);
    assert!(first + count <= zeros.len(), "the list has room to align");
    huge_pages::advise(zeros[first..].as_mut_ptr().cast(), bytes);
    (zeros, first)
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
        .expect("the dtype was matched")
    };
}

/// The bytes of a tensor.
pub(super) fn bytes_of(tensor: &Tensor) -> usize {
    tensor.data().len() * tensor.dtype().bytes()
}

/// A pointer to the first element of a tensor, to read it.
pub(super) fn pointer(tensor: &Tensor) -> *mut u8 {
    fn first<T>(values: &[T]) -> *mut u8 {
        values.as_ptr().cast_mut().cast()
    }
    each_type!(tensor, values, first)
}

/// A pointer to the first element of a tensor, to write it.
pub(super) fn pointer_mut(tensor: &mut Tensor) -> *mut u8 {
    fn first<T>(values: &mut [T]) -> *mut u8 {
        values.as_mut_ptr().cast()
    }
    each_type!(tensor, values_mut, first)
}

/// `n` elements as a typed slice.
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

/// `n` elements as a typed mutable slice.
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

/// Copies the elements of a strided view to a contiguous buffer, in row-major order.
///
/// # Safety
///
/// `from` is the beginning of the view's buffer, all elements of the view lie inside it and are initialised; `to` has the size of the view's
/// elements; the two do not overlap.
pub(super) unsafe fn copy(view: &View, bytes: usize, from: *const u8, to: *mut u8) {
    if view.elements() == 0 {
        return;
    }
    // SAFETY: the caller's promise. Strides of a buffer fit an isize.
    unsafe {
        let first = from.add(view.offset * bytes);
        copy_strided(
            &view.shape,
            |axis| view.strides[axis] as isize,
            bytes,
            first,
            to,
        );
    }
}

/// Copies strided elements to a contiguous buffer, in row-major order. `stride` has the elements from one index of an axis to the next.
///
/// # Safety
///
/// `from` is the first element, by index; all elements of the shape, of `bytes` bytes each, lie in one allocation, aligned for their type
/// and initialised. `to` has their size and alignment; the two do not overlap.
pub(super) unsafe fn copy_strided(
    shape: &[usize],
    stride: impl Fn(usize) -> isize,
    bytes: usize,
    from: *const u8,
    to: *mut u8,
) {
    let n = shape.iter().product::<usize>();
    if n == 0 {
        return;
    }
    // The innermost dimensions that are one run of evenly spaced elements are one copy.
    let (rank, step) = innermost_run(shape, &stride);
    let length = shape[rank..].iter().product::<usize>();
    // More dimensions are rare enough to allocate.
    let (mut inline, mut heap) = ([0; 8], Vec::new());
    let index: &mut [usize] = match rank {
        0..=8 => &mut inline[..rank],
        _ => {
            heap.resize(rank, 0);
            &mut heap[..]
        }
    };
    for i in (0..n).step_by(length) {
        let steps = index.iter().enumerate();
        let offset = steps
            .map(|(axis, i)| *i as isize * stride(axis))
            .sum::<isize>();
        // SAFETY: `offset` is that of an element, from which `length` follow at equal distances; `i + length` is at most the number of
        // elements.
        unsafe {
            let (from, to) = (from.offset(offset * bytes as isize), to.add(i * bytes));
            match (step, bytes) {
                (1, _) => std::ptr::copy_nonoverlapping(from, to, length * bytes),
                (0, _) => fill(from, to, bytes, length),
                (_, 1) => copy_run::<u8>(from, step, to, length),
                (_, 2) => copy_run::<u16>(from, step, to, length),
                (_, 4) => copy_run::<u32>(from, step, to, length),
                (_, 8) => copy_run::<u64>(from, step, to, length),
                _ => unreachable!("elements of {bytes} bytes"),
            }
        }
        for axis in (0..rank).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// How many dimensions lie outside the innermost run of evenly spaced elements, and the stride of the run.
fn innermost_run(shape: &[usize], stride: &impl Fn(usize) -> isize) -> (usize, isize) {
    let mut outside = shape.len();
    let (mut step, mut length) = (1, 1);
    while outside > 0 {
        let axis = outside - 1;
        match shape[axis] {
            // It is never stepped along.
            1 => {}
            _ if length == 1 => step = stride(axis),
            _ if stride(axis) != step * length => break,
            _ => {}
        }
        length *= shape[axis] as isize;
        outside = axis;
    }
    (outside, step)
}

/// Copies evenly spaced elements.
///
/// # Safety
///
/// `count` elements lie `step` elements apart from `from` on, aligned and initialised; `to` has their size and alignment.
unsafe fn copy_run<T: Copy>(from: *const u8, step: isize, to: *mut u8, count: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.add(i) = *from.offset(i as isize * step) };
    }
}

/// Writes one element many times.
///
/// # Safety
///
/// `from` is an element of `bytes` bytes, `to` has the size of `count` of them; the two do not overlap.
unsafe fn fill(from: *const u8, to: *mut u8, bytes: usize, count: usize) {
    /// The bytes of a copy, which stay in the L1 cache.
    const BLOCK_BYTES: usize = 1 << 12;
    let all = bytes * count;
    // SAFETY: all copies end within `all` bytes, those from `to` to `to` read what was written before and do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bytes);
        let mut done = bytes;
        while done < all {
            let some = done.min(BLOCK_BYTES).min(all - done);
            std::ptr::copy_nonoverlapping(to, to.add(done), some);
            done += some;
        }
    }
}

#[cfg(test)]
mod tests {
    use trainspec_ir::kernel::BufferId;

    use super::*;

    /// The elements of a view, one after another: the reference for [`copy`].
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
        let cases: [(&[usize], &[usize], usize); 15] = [
            (&[3, 4, 5], &[20, 5, 1], 7), // contiguous
            (&[3, 4, 5], &[40, 5, 1], 0), // the last two are contiguous
            (&[3, 4, 5], &[20, 10, 1], 1),
            (&[5, 4, 3], &[1, 5, 20], 0),  // transposed
            (&[3, 4, 5], &[0, 0, 0], 9),   // one element broadcast
            (&[3, 4, 5], &[1, 0, 0], 2),   // an element for each row, broadcast
            (&[3, 4, 5], &[0, 5, 1], 2),   // rows broadcast
            (&[3, 4, 5], &[20, 0, 1], 2),  // middle dimension broadcast
            (&[3, 4, 5], &[20, 5, 0], 2),  // columns broadcast
            (&[1, 5000], &[0, 0], 3),      // longer than a block
            (&[2, 1, 3], &[3, 900, 1], 0), // a size of 1 has any stride
            (&[5, 7], &[70, 2], 1),        // every second element
            (&[3, 2, 1], &[4, 2, 9], 0),   // evenly spaced across dimensions
            (&[4, 1], &[3, 1], 2),
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
            // SAFETY: all views lie inside the buffer, and `found` has the size of each.
            unsafe { copy(&view, 4, buffer.as_ptr().cast(), found.as_mut_ptr().cast()) };
            assert_eq!(found, one_by_one(&view, &buffer), "{view:?}");
        }
    }

    #[test]
    fn negative_strides_read_backwards() {
        let buffer: Vec<u16> = (0..12).collect();
        let mut found = vec![0_u16; 12];
        // SAFETY: the last element of the last row is the first element, and all lie before it.
        unsafe {
            let first = buffer.as_ptr().add(11).cast();
            let stride = |axis: usize| [-4, -1][axis];
            copy_strided(&[3, 4], stride, 2, first, found.as_mut_ptr().cast());
        }
        assert!(found.iter().rev().eq(&buffer));
        // SAFETY: rows backwards, columns forwards.
        unsafe {
            let first = buffer.as_ptr().add(8).cast();
            let stride = |axis: usize| [-4, 1][axis];
            copy_strided(&[3, 4], stride, 2, first, found.as_mut_ptr().cast());
        }
        assert_eq!(found, [8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3]);
    }
}
