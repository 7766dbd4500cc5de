//! Huge pages (2 MiB, `madvise`): large memory takes few TLB entries and few page faults.
//!
//! Large memory that is about to be used is advised ([`advise`]). Small tensors of the state share a huge page with their neighbours and
//! have their small pages already when a training begins, so those are collapsed ([`Collapse`]), one a step: no step waits for all of them.

use trainspec_ir::Tensor;
use trainspec_ir::graph::Type;

use crate::exec::memory;

/// The bytes of a huge page.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The least bytes that huge pages are advised for.
pub(super) const MIN_ADVISED_BYTES: usize = HUGE_PAGE_BYTES / 2;

/// An empty list with a capacity, on huge pages where it is large.
pub fn vec_on_huge_pages<T>(capacity: usize) -> Vec<T> {
    let mut list: Vec<T> = Vec::with_capacity(capacity);
    advise(list.as_mut_ptr().cast(), capacity * size_of::<T>());
    list
}

/// A zeroed tensor of numbers or bools, on huge pages where it is large.
pub(super) fn zeros_on_huge_pages(ty: &Type) -> Tensor {
    let mut zeros = Tensor::zeros(ty);
    let bytes = memory::bytes_of(&zeros);
    advise(memory::pointer_mut(&mut zeros), bytes);
    zeros
}

/// A copy of a tensor of numbers or bools, on huge pages where it is large: an input that is fed many times.
pub fn copy_on_huge_pages(tensor: &Tensor) -> Tensor {
    let mut copy = zeros_on_huge_pages(&tensor.ty());
    let (from, to) = (memory::pointer(tensor), memory::pointer_mut(&mut copy));
    // SAFETY: both are tensors of one type, and the copy was just made.
    unsafe { std::ptr::copy_nonoverlapping(from, to, memory::bytes_of(tensor)) };
    copy
}

/// Asks for huge pages (`MADV_HUGEPAGE`) under bytes that are about to be used for the first time. Few bytes are left alone. It is advice;
/// nothing is lost where it is not taken.
///
/// The pages may hold what belongs to others, too. Advice does not change what is in a page.
pub(super) fn advise(start: *mut u8, bytes: usize) {
    if bytes >= MIN_ADVISED_BYTES {
        let pages = pages_of(start.addr(), bytes);
        let first = start.wrapping_sub(start.addr() - pages.start);
        madvise(first, pages.len(), MADV_HUGEPAGE);
    }
}

/// Memory that is used step after step and that is to be moved into huge pages (`MADV_COLLAPSE`), where the system can.
#[derive(Debug, Default)]
pub(super) struct Collapse {
    /// The addresses of the huge pages that are left.
    pages: Vec<usize>,
}

impl Collapse {
    /// The bytes between two tensors that share pages.
    const MAX_GAP_BYTES: usize = 1 << 16;

    /// The pages under small tensors that lie near each other, each given by its address and bytes. Large ones have huge pages since they
    /// were allocated, and to collapse such a page takes a tenth of a millisecond all the same.
    pub(super) fn of(tensors: impl Iterator<Item = (*mut u8, usize)>) -> Collapse {
        let mut ranges: Vec<(usize, usize)> = tensors
            .filter(|(_, bytes)| *bytes < MIN_ADVISED_BYTES)
            .map(|(start, bytes)| (start.addr(), start.addr() + bytes))
            .collect();
        ranges.sort_unstable();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (start, end) in ranges {
            match runs.last_mut() {
                Some(run) if start <= run.1 + Self::MAX_GAP_BYTES => run.1 = run.1.max(end),
                _ => runs.push((start, end)),
            }
        }
        let large = runs
            .into_iter()
            .filter(|(start, end)| end - start >= MIN_ADVISED_BYTES);
        let mut pages: Vec<usize> = large
            .flat_map(|(start, end)| pages_of(start, end - start).step_by(HUGE_PAGE_BYTES))
            .collect();
        pages.dedup();
        pages.reverse();
        Collapse { pages }
    }

    /// Collapses one page.
    pub(super) fn one(&mut self) {
        if let Some(page) = self.pages.pop() {
            let page = std::ptr::without_provenance_mut(page);
            madvise(page, HUGE_PAGE_BYTES, MADV_HUGEPAGE);
            madvise(page, HUGE_PAGE_BYTES, MADV_COLLAPSE);
        }
    }
}

/// The addresses of all huge pages that hold some bytes.
fn pages_of(start: usize, bytes: usize) -> std::ops::Range<usize> {
    let first = start - start % HUGE_PAGE_BYTES;
    first..(start + bytes).next_multiple_of(HUGE_PAGE_BYTES)
}

const MADV_HUGEPAGE: i32 = 14;
/// Of Linux 6.1 and later; earlier ones refuse it.
const MADV_COLLAPSE: i32 = 25;

/// Gives the system advice on pages.
fn madvise(first: *mut u8, bytes: usize, advice: i32) {
    #[cfg(target_os = "linux")]
    {
        assert!(matches!(advice, MADV_HUGEPAGE | MADV_COLLAPSE));
        // SAFETY: nothing is read or written through the pointer, and these two neither change nor free what is in the pages; what is not
        // mapped is passed over.
        unsafe { libc::madvise(first.cast(), bytes, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, bytes, advice);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_tensors_share_pages_and_each_page_is_collapsed_once() {
        const P: usize = HUGE_PAGE_BYTES;
        let at = |address: usize, bytes: usize| (std::ptr::without_provenance_mut(address), bytes);
        let collapse = |tensors: Vec<(*mut u8, usize)>| Collapse::of(tensors.into_iter()).pages;
        assert_eq!(collapse(vec![]), [0; 0]);
        assert_eq!(collapse(vec![at(P, 100)]), [0; 0]);
        // Large tensors are not collapsed.
        assert_eq!(collapse(vec![at(5 * P, P), at(7 * P + 64, 3 * P)]), [0; 0]);
        // Two runs of small tensors, of which the second begins in the last page of the first.
        const HALF: usize = P / 2 - 64;
        let two = vec![
            at(5 * P + 64, HALF),
            at(5 * P + 128 + HALF, HALF),
            at(6 * P + (1 << 17), HALF),
            at(6 * P + (1 << 17) + HALF, HALF),
        ];
        assert_eq!(collapse(two), [7 * P, 6 * P, 5 * P]);
        let small = (0..200).map(|i| at(P + i * 20_016, 20_000)).collect();
        assert_eq!(collapse(small), [2 * P, P]);
    }
}
