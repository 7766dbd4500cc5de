//! Plain loops compiled a second time for wider vectors.

/// Work that gains from wider vectors. `run` must be `#[inline(always)]`, and so must what it calls in its loops.
pub trait Work {
    /// What comes of it.
    type Out;
    /// Does it.
    fn run(self) -> Self::Out;
}

/// Does the work with vectors of 256 bits where the machine has them. The results are the same bits: nothing is contracted.
#[inline]
pub fn wide<W: Work>(work: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { with_avx2(work) };
    }
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

/// Vectors of f32 that multiply and add in one instruction. Whoever has a value of such a type is on a machine that has the vectors,
/// inside of [`fused`].
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
    fn subtract(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a × factor.
    fn times(self, a: Self::Vector, factor: f32) -> Self::Vector;
    /// a × factor + b, rounded once.
    fn times_plus(self, a: Self::Vector, factor: f32, b: Self::Vector) -> Self::Vector;
}

#[cfg(target_arch = "x86_64")]
mod simd {
    use std::arch::x86_64::*;

    use super::Simd;

    /// AVX2 and FMA.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Short(pub(super) ());

    /// AVX-512.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Long(pub(super) ());

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
                    // SAFETY: as above, and there are so many elements.
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
                fn subtract(self, a: $vector, b: $vector) -> $vector {
                    // SAFETY: as above.
                    unsafe { $subtract(a, b) }
                }

                #[inline(always)]
                fn times(self, a: $vector, factor: f32) -> $vector {
                    // SAFETY: as above.
                    unsafe { $multiply(a, $splat(factor)) }
                }

                #[inline(always)]
                fn times_plus(self, a: $vector, factor: f32, b: $vector) -> $vector {
                    // SAFETY: as above.
                    unsafe { $fma(a, $splat(factor), b) }
                }
            }
        };
    }

    simd!(
        Short,
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
        Long,
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

/// Work on vectors of f32. `run`, and what it calls in its loops, must be `#[inline(always)]`.
#[cfg(target_arch = "x86_64")]
pub trait Fused {
    /// What comes of it.
    type Out;
    /// Does it.
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// Whether there is a machine for [`fused`].
pub fn fuses() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Does the work with the longest vectors that the machine has, where it has FMA; their length changes no bit.
///
/// # Panics
///
/// Unless [`fuses`].
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn fused<W: Fused>(work: W) -> W::Out {
    assert!(fuses(), "the machine has FMA");
    // SAFETY: the machine has what the functions need.
    unsafe {
        match is_x86_feature_detected!("avx512f") {
            true => fused_long(work),
            false => fused_short(work),
        }
    }
}

/// The same with vectors of 256 bits on any such machine.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn fused_by_short<W: Fused>(work: W) -> W::Out {
    assert!(fuses(), "the machine has FMA");
    // SAFETY: the machine has what the function needs.
    unsafe { fused_short(work) }
}

/// # Safety
///
/// The machine has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn fused_short<W: Fused>(work: W) -> W::Out {
    work.run(simd::Short(()))
}

/// # Safety
///
/// The machine has AVX-512 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn fused_long<W: Fused>(work: W) -> W::Out {
    work.run(simd::Long(()))
}
