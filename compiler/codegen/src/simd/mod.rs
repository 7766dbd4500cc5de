//! Vector instructions of the machine, where the compiler does not find them itself.
#![allow(unsafe_code)] // instructions beyond the base of the architecture are unsafe to call

pub mod limits;

/// Lets the machine fetch an element that will soon be needed.
#[inline]
pub fn prefetch<T>(data: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(x) = data.get(i) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of the base of the architecture, and changes nothing that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(x).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, i);
}

/// Lets the machine fetch an element that will soon be written.
#[inline]
pub fn prefetch_to_write<T>(data: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(x) = data.get(i) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as for `prefetch`; where a machine does not know of writing it does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(x).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, i);
}
