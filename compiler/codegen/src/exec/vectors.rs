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
