//! What the machine can do at most, to measure products against.

use super::lanes;

/// Chains of sums that do not wait for each other.
const CHAINS: usize = 12;

/// Multiplies and adds in registers alone, `rounds` times 12 vectors of 8; how many products of numbers that were. 0 where the machine
/// lacks AVX2 or FMA.
pub fn registers(rounds: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if lanes::present() {
        // SAFETY: the machine has the vectors.
        std::hint::black_box(unsafe { chains(rounds) });
        return rounds * CHAINS * 8;
    }
    let _ = (rounds, CHAINS, lanes::present());
    0
}

/// # Safety
///
/// The machine has the vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn chains(rounds: usize) -> f32 {
    use lanes::Lanes;
    let (a, b) = (
        std::hint::black_box(0.5_f32),
        std::hint::black_box(0.25_f32),
    );
    // SAFETY: the machine has the vectors; both elements are there.
    unsafe {
        let (a, b) = (f32::splat(&a), f32::splat(&b));
        let mut sums = [a; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = f32::fma(*sum, a, b);
            }
        }
        sums.iter().map(|sum| f32::sum(*sum)).sum()
    }
}
