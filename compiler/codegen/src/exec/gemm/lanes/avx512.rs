//! The AVX-512 form of [`Vectors`]: 512 bits, as AVX-512 has them.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::Vectors;

/// Vectors of 512 bits.
#[derive(Debug)]
pub struct V512<T>(PhantomData<T>);

/// The mask of the first `n` lanes.
#[inline]
fn mask(n: usize) -> u32 {
    debug_assert!(n <= 16);
    (1 << n) - 1
}

impl Vectors for V512<f32> {
    type Element = f32;
    type Vector = __m512;
    const WIDTH: usize = 16;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn zero() -> Self::Vector {
        _mm512_setzero_ps()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn splat(at: *const f32) -> Self::Vector {
        // SAFETY: the caller has an element there.
        _mm512_set1_ps(unsafe { *at })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(at: *const f32) -> Self::Vector {
        // SAFETY: the caller has the elements there.
        unsafe { _mm512_loadu_ps(at) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_masked(at: *const f32, n: usize) -> Self::Vector {
        // SAFETY: the caller has the elements there; masked-off lanes are not read.
        unsafe { _mm512_maskz_loadu_ps(mask(n) as __mmask16, at) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(at: *mut f32, x: Self::Vector) {
        // SAFETY: the caller may write there.
        unsafe { _mm512_storeu_ps(at, x) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_masked(at: *mut f32, x: Self::Vector, n: usize) {
        // SAFETY: the caller may write there; masked-off lanes are not written.
        unsafe { _mm512_mask_storeu_ps(at, mask(n) as __mmask16, x) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector {
        _mm512_add_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn fma(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        _mm512_fmadd_ps(a, b, c)
    }
}

impl Vectors for V512<f64> {
    type Element = f64;
    type Vector = __m512d;
    const WIDTH: usize = 8;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn zero() -> Self::Vector {
        _mm512_setzero_pd()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn splat(at: *const f64) -> Self::Vector {
        // SAFETY: the caller has an element there.
        _mm512_set1_pd(unsafe { *at })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(at: *const f64) -> Self::Vector {
        // SAFETY: the caller has the elements there.
        unsafe { _mm512_loadu_pd(at) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_masked(at: *const f64, n: usize) -> Self::Vector {
        // SAFETY: the caller has the elements there; masked-off lanes are not read.
        unsafe { _mm512_maskz_loadu_pd(mask(n) as __mmask8, at) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(at: *mut f64, x: Self::Vector) {
        // SAFETY: the caller may write there.
        unsafe { _mm512_storeu_pd(at, x) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_masked(at: *mut f64, x: Self::Vector, n: usize) {
        // SAFETY: the caller may write there; masked-off lanes are not written.
        unsafe { _mm512_mask_storeu_pd(at, mask(n) as __mmask8, x) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector {
        _mm512_add_pd(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn fma(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        _mm512_fmadd_pd(a, b, c)
    }
}
