//! The AVX2 and FMA form of [`Vectors`]: 256 bits, as AVX2 and FMA have them.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::avx512::V512;
use super::{Lanes, Vectors};

/// Vectors of 256 bits.
#[derive(Debug)]
pub struct V256<T>(PhantomData<T>);

/// Eight lanes of ones, then eight of zeros: the mask of the first n lanes begins at 8 - n.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// The mask of the first `n` lanes of 32 bits.
///
/// # Safety
///
/// As for [`Vectors`]; `n` is at most 8.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn mask(n: usize) -> __m256i {
    debug_assert!(n <= 8);
    // SAFETY: eight numbers lie from 8 - n on.
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()) }
}

impl Vectors for V256<f32> {
    type Element = f32;
    type Vector = __m256;
    const WIDTH: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn zero() -> __m256 {
        _mm256_setzero_ps()
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn splat(at: *const f32) -> __m256 {
        // SAFETY: the caller has an element there.
        unsafe { _mm256_broadcast_ss(&*at) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load(at: *const f32) -> __m256 {
        // SAFETY: the caller has the elements there.
        unsafe { _mm256_loadu_ps(at) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_masked(at: *const f32, n: usize) -> __m256 {
        // SAFETY: the caller has the elements there; masked-off lanes are not read.
        unsafe { _mm256_maskload_ps(at, mask(n)) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn store(at: *mut f32, x: __m256) {
        // SAFETY: the caller may write there.
        unsafe { _mm256_storeu_ps(at, x) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn store_masked(at: *mut f32, x: __m256, n: usize) {
        // SAFETY: the caller may write there; masked-off lanes are not written.
        unsafe { _mm256_maskstore_ps(at, mask(n), x) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }
}

impl Lanes for f32 {
    type V256 = V256<f32>;
    type V512 = V512<f32>;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn reduce_add(a: __m256) -> f32 {
        let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_add_ps(half, _mm_movehl_ps(half, half));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn transpose(x: *const f32, from: usize, y: *mut f32, to: usize) {
        // SAFETY: the caller has eight rows of eight elements at both.
        unsafe {
            let row = |i: usize| _mm256_loadu_ps(x.add(i * from));
            let low = |i: usize| _mm256_unpacklo_ps(row(2 * i), row(2 * i + 1));
            let high = |i: usize| _mm256_unpackhi_ps(row(2 * i), row(2 * i + 1));
            let (l0, l1, l2, l3) = (low(0), low(1), low(2), low(3));
            let (h0, h1, h2, h3) = (high(0), high(1), high(2), high(3));
            // Four elements of a column, from the rows 0..4 and 4..8: columns 0 and 4, 1 and 5, and so on.
            let a = [
                _mm256_shuffle_ps::<0x44>(l0, l1),
                _mm256_shuffle_ps::<0xEE>(l0, l1),
                _mm256_shuffle_ps::<0x44>(h0, h1),
                _mm256_shuffle_ps::<0xEE>(h0, h1),
            ];
            let b = [
                _mm256_shuffle_ps::<0x44>(l2, l3),
                _mm256_shuffle_ps::<0xEE>(l2, l3),
                _mm256_shuffle_ps::<0x44>(h2, h3),
                _mm256_shuffle_ps::<0xEE>(h2, h3),
            ];
            for i in 0..4 {
                _mm256_storeu_ps(y.add(i * to), _mm256_permute2f128_ps::<0x20>(a[i], b[i]));
                _mm256_storeu_ps(
                    y.add((i + 4) * to),
                    _mm256_permute2f128_ps::<0x31>(a[i], b[i]),
                );
            }
        }
    }
}

impl Vectors for V256<f64> {
    type Element = f64;
    type Vector = __m256d;
    const WIDTH: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn zero() -> __m256d {
        _mm256_setzero_pd()
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn splat(at: *const f64) -> __m256d {
        // SAFETY: the caller has an element there.
        unsafe { _mm256_broadcast_sd(&*at) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load(at: *const f64) -> __m256d {
        // SAFETY: the caller has the elements there.
        unsafe { _mm256_loadu_pd(at) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_masked(at: *const f64, n: usize) -> __m256d {
        // SAFETY: the caller has the elements there; masked-off lanes are not read.
        unsafe { _mm256_maskload_pd(at, mask(2 * n)) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn store(at: *mut f64, x: __m256d) {
        // SAFETY: the caller may write there.
        unsafe { _mm256_storeu_pd(at, x) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn store_masked(at: *mut f64, x: __m256d, n: usize) {
        // SAFETY: the caller may write there; masked-off lanes are not written.
        unsafe { _mm256_maskstore_pd(at, mask(2 * n), x) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn add(a: __m256d, b: __m256d) -> __m256d {
        _mm256_add_pd(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn fma(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        _mm256_fmadd_pd(a, b, c)
    }
}

impl Lanes for f64 {
    type V256 = V256<f64>;
    type V512 = V512<f64>;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn reduce_add(a: __m256d) -> f64 {
        let half = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
        _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn transpose(x: *const f64, from: usize, y: *mut f64, to: usize) {
        // SAFETY: the caller has four rows of four elements at both.
        unsafe {
            let row = |i: usize| _mm256_loadu_pd(x.add(i * from));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (cd, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            _mm256_storeu_pd(y, _mm256_permute2f128_pd::<0x20>(ab, cd));
            _mm256_storeu_pd(y.add(to), _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd));
            _mm256_storeu_pd(y.add(2 * to), _mm256_permute2f128_pd::<0x31>(ab, cd));
            _mm256_storeu_pd(
                y.add(3 * to),
                _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
            );
        }
    }
}
