//! SIMD and prefetch intrinsics, where the compiler does not emit them itself.
#![allow(unsafe_code)] // intrinsics beyond the baseline of the architecture are unsafe to call

pub mod limits;

/// Prefetches an element that will soon be read into the L1 cache.
#[inline]
pub fn prefetch<T>(data: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(x) = data.get(i) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of the x86-64 baseline, and changes nothing that a program can observe.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(x).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, i);
}

/// Prefetches an element that will soon be written (PREFETCHW).
#[inline]
pub fn prefetch_to_write<T>(data: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(x) = data.get(i) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as for `prefetch`; a machine without PREFETCHW ignores it.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(x).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, i);
}
