//! Function multiversioning: loops compiled a second time with target features (AVX2, FMA, AVX-512) and chosen at run time.

use crate::cpu::Cpu;

/// A loop for the autovectoriser. `run` must be `#[inline(always)]`, and so must what it calls in its loops.
pub trait Work {
    /// The result.
    type Out;
    /// Runs the loop.
    fn run(self) -> Self::Out;
}

/// Runs the AVX2 version of a loop where the machine has it, else the baseline version. Both give the same bits: no multiply-add is
/// contracted.
#[inline]
pub fn dispatch<W: Work>(cpu: Cpu, work: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx2() {
        // SAFETY: the machine has AVX2.
        return unsafe { with_avx2(work) };
    }
    let _ = cpu;
    work.run()
}

/// # Safety
///
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<W: Work>(work: W) -> W::Out {
    work.run()
}

/// SIMD vectors of f32 with fused multiply-add. A value of such a type is a proof that the machine has the vectors; [`dispatch_fma`] makes
/// it.
#[cfg(target_arch = "x86_64")]
pub trait Simd: Copy {
    /// A vector.
    type Vector: Copy;
    /// How many elements it has.
    const WIDTH: usize;
    /// All lanes 0.
    fn zero(self) -> Self::Vector;
    /// The first elements of a slice.
    fn load(self, from: &[f32]) -> Self::Vector;
    /// Writes the first elements of a slice.
    fn store(self, x: Self::Vector, to: &mut [f32]);
    /// a + b.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a - b.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a × factor.
    fn mul(self, a: Self::Vector, factor: f32) -> Self::Vector;
    /// Fused multiply-add: a × factor + b, rounded once.
    fn fma(self, a: Self::Vector, factor: f32, b: Self::Vector) -> Self::Vector;
}

#[cfg(target_arch = "x86_64")]
mod simd {
    use std::arch::x86_64::*;

    use super::Simd;

    /// AVX2 and FMA.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Avx2Fma(pub(super) ());

    /// AVX-512.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Avx512(pub(super) ());

    macro_rules! simd {
        ($name:ident, $vector:ty, $width:literal, $zero:ident, $load:ident, $store:ident, $add:ident, $subtract:ident, $multiply:ident,
         $fma:ident, $splat:ident) => {
            impl Simd for $name {
                type Vector = $vector;
                const WIDTH: usize = $width;

                #[inline(always)]
                fn zero(self) -> $vector {
                    // SAFETY: the machine has the vectors, because there is a `self`; so below.
                    unsafe { $zero() }
                }

                #[inline(always)]
                fn load(self, from: &[f32]) -> $vector {
                    let from = &from[..$width];
                    // SAFETY: as above, and there are `$width` elements.
                    unsafe { $load(from.as_ptr()) }
                }

                #[inline(always)]
                fn store(self, x: $vector, to: &mut [f32]) {
                    let to = &mut to[..$width];
                    // SAFETY: as above.
                    unsafe { $store(to.as_mut_ptr(), x) }
                }

                #[inline(always)]
                fn add(self, a: $vector, b: $vector) -> $vector {
                    // SAFETY: as above.
                    unsafe { $add(a, b) }
                }

                #[inline(always)]
                fn sub(self, a: $vector, b: $vector) -> $vector {
                    // SAFETY: as above.
                    unsafe { $subtract(a, b) }
                }

                #[inline(always)]
                fn mul(self, a: $vector, factor: f32) -> $vector {
                    // SAFETY: as above.
                    unsafe { $multiply(a, $splat(factor)) }
                }

                #[inline(always)]
                fn fma(self, a: $vector, factor: f32, b: $vector) -> $vector {
                    // SAFETY: as above.
                    unsafe { $fma(a, $splat(factor), b) }
                }
            }
        };
    }

    simd!(
        Avx2Fma,
        __m256,
        8,
        _mm256_setzero_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_set1_ps
    );
    simd!(
        Avx512,
        __m512,
        16,
        _mm512_setzero_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_set1_ps
    );
}

/// A loop on SIMD vectors of f32. `run`, and what it calls in its loops, must be `#[inline(always)]`.
#[cfg(target_arch = "x86_64")]
pub trait FmaWork {
    /// The result.
    type Out;
    /// Runs the loop with one vector width.
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// Runs the version with the widest vectors that the machine has, where it has FMA; the width changes no bit.
///
/// # Panics
///
/// Unless the CPU has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn dispatch_fma<W: FmaWork>(cpu: Cpu, work: W) -> W::Out {
    assert!(cpu.has_avx2_fma(), "the CPU has AVX2 and FMA");
    // SAFETY: the machine has the target features of the functions.
    unsafe {
        match cpu.has_avx512() {
            true => with_avx512(work),
            false => with_avx2_fma(work),
        }
    }
}

/// Runs the 256-bit version, even where the machine has AVX-512.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn dispatch_fma_256<W: FmaWork>(cpu: Cpu, work: W) -> W::Out {
    assert!(cpu.has_avx2_fma(), "the CPU has AVX2 and FMA");
    // SAFETY: the machine has the target features of the function.
    unsafe { with_avx2_fma(work) }
}

/// # Safety
///
/// The machine has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2_fma<W: FmaWork>(work: W) -> W::Out {
    work.run(simd::Avx2Fma(()))
}

/// # Safety
///
/// The machine has AVX-512 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn with_avx512<W: FmaWork>(work: W) -> W::Out {
    work.run(simd::Avx512(()))
}
