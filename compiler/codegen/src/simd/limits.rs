//! Roofline limits, measured: the peak FLOP/s and the memory bandwidth of the machine.
//!
//! In: threads. Out: rates that a kernel can be compared with. The best of several short trials counts, because whatever else
//! the machine does can only slow them down.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

#[cfg(target_arch = "x86_64")]
use crate::cpu::Cpu;
use crate::exec::pool::Pool;

/// The roofline of a machine with a number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Peak f32 FLOP/s, in registers alone; a fused multiply-add counts two.
    pub flops: f64,
    /// Read bandwidth of memory, in bytes per second.
    pub read: f64,
    /// Copy bandwidth: bytes per second that a copy reads and writes together.
    pub copy: f64,
    /// Update bandwidth: bytes per second that an in-place update reads and writes together.
    pub update: f64,
}

/// The bytes that the memory probes access: more than caches hold.
const PROBE_BYTES: usize = 64 << 20;
/// The trials of a probe, of which the best counts.
const TRIALS: usize = 6;

impl Limits {
    /// Measures; takes a few tenths of a second.
    pub fn measure(pool: &Pool) -> Limits {
        let threads = pool.threads();
        let rounds = 1 << 17;
        let flops = best(|| {
            let operations = AtomicUsize::new(0);
            pool.run(threads, &|_| {
                operations.fetch_add(run_fma_chains(rounds), Relaxed);
            });
            operations.into_inner() as f64
        });
        // Each thread has a chunk of its own, under a lock without contention.
        let length = PROBE_BYTES / 8 / threads;
        let chunk = |_| Mutex::new(vec![1_u64; length]);
        let chunks: Vec<Mutex<Vec<u64>>> = (0..threads).map(chunk).collect();
        let each = |work: &(dyn Fn(&mut [u64]) + Sync)| {
            pool.run(threads, &|i| {
                work(&mut chunks[i].lock().expect("no probe panics"));
            });
        };
        let bytes = (PROBE_BYTES / 8 / threads * threads * 8) as f64;
        let read = best(|| {
            each(&|chunk| {
                std::hint::black_box(sum(chunk));
            });
            bytes
        });
        let copy = best(|| {
            each(&|chunk| {
                let (from, to) = chunk.split_at_mut(chunk.len() / 2);
                to[..from.len()].copy_from_slice(from);
                std::hint::black_box(to);
            });
            bytes
        });
        let update = best(|| {
            each(&|chunk| {
                chunk.iter_mut().for_each(|x| *x = x.wrapping_add(1));
                std::hint::black_box(chunk);
            });
            2.0 * bytes
        });
        Limits {
            flops,
            read,
            copy,
            update,
        }
    }

    /// The best memory bandwidth, in bytes per second.
    pub fn bytes(&self) -> f64 {
        self.read.max(self.copy).max(self.update)
    }

    /// The roofline bound: the shortest time for these bytes and operations, in seconds.
    pub fn seconds(&self, bytes: u64, flops: u64) -> f64 {
        (bytes as f64 / self.bytes()).max(flops as f64 / self.flops)
    }
}

/// The best rate of several trials, each of which returns how much it did.
fn best(mut work: impl FnMut() -> f64) -> f64 {
    let mut rate = |()| {
        let start = Instant::now();
        let done = work();
        done / start.elapsed().as_secs_f64()
    };
    rate(());
    (0..TRIALS).map(|_| rate(())).fold(0.0, f64::max)
}

fn sum(chunk: &[u64]) -> u64 {
    // Several accumulators hide the latency of additions.
    let mut sums = [0_u64; 16];
    for block in chunk.chunks_exact(16) {
        sums.iter_mut()
            .zip(block)
            .for_each(|(s, x)| *s = s.wrapping_add(*x));
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// Independent dependency chains of multiply-adds, enough to keep two FMA units busy.
const CHAINS: usize = 12;

/// Runs rounds of multiply-adds in registers alone; returns their FLOPs.
pub fn run_fma_chains(rounds: usize) -> usize {
    let (sum, lanes) = fma_chains(rounds);
    std::hint::black_box(sum);
    2 * CHAINS * lanes * rounds
}

/// Runs rounds of multiply-adds; returns their sum, and the lanes of the machine's widest vectors.
fn fma_chains(rounds: usize) -> (f32, usize) {
    #[cfg(target_arch = "x86_64")]
    let cpu = Cpu::host();
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx512() {
        // SAFETY: the machine has it, as was just detected.
        return (unsafe { fma_chains_avx512(rounds) }, 16);
    }
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx2_fma() {
        // SAFETY: the machine has both, as was just detected.
        return (unsafe { fma_chains_avx2(rounds) }, 8);
    }
    let mut chains = [[1.0_f32; 8]; CHAINS];
    let (a, b) = std::hint::black_box((0.5_f32, 0.5_f32));
    for _ in 0..rounds {
        for chain in &mut chains {
            chain.iter_mut().for_each(|x| *x = *x * a + b);
        }
    }
    (chains.iter().flatten().sum(), 8)
}

/// # Safety
///
/// The machine must have AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn fma_chains_avx512(rounds: usize) -> f32 {
    use std::arch::x86_64::*;
    let (a, b) = std::hint::black_box((0.5_f32, 0.5_f32));
    let (a, b) = (_mm512_set1_ps(a), _mm512_set1_ps(b));
    let mut chains = [_mm512_set1_ps(1.0); CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm512_fmadd_ps(*chain, a, b);
        }
    }
    let total = chains.into_iter().reduce(|a, b| _mm512_add_ps(a, b));
    _mm512_reduce_add_ps(total.expect("there are chains"))
}

/// # Safety
///
/// The machine must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn fma_chains_avx2(rounds: usize) -> f32 {
    use std::arch::x86_64::*;
    let (a, b) = std::hint::black_box((0.5_f32, 0.5_f32));
    let (a, b) = (_mm256_set1_ps(a), _mm256_set1_ps(b));
    let mut chains = [_mm256_set1_ps(1.0); CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm256_fmadd_ps(*chain, a, b);
        }
    }
    let mut total = _mm256_setzero_ps();
    for chain in chains {
        total = _mm256_add_ps(total, chain);
    }
    let mut lanes = [0.0; 8];
    // SAFETY: the array has eight elements.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), total) };
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_above_zero() {
        let limits = Limits::measure(&Pool::new(2));
        for rate in [limits.flops, limits.read, limits.copy, limits.update] {
            assert!(rate.is_finite() && rate > 0.0, "{limits:?}");
        }
        assert!(limits.seconds(1 << 30, 0) > 0.0);
    }

    #[test]
    fn all_vector_widths_give_the_same_sums() {
        let (sum, lanes) = fma_chains(100);
        assert_eq!(sum, (CHAINS * lanes) as f32);
        if lanes < 16 {
            println!("skipped: needs AVX-512");
        }
        if !crate::cpu::Cpu::host().has_avx2_fma() {
            println!("skipped: needs AVX2");
        }
        #[cfg(target_arch = "x86_64")]
        if Cpu::host().has_avx2_fma() {
            // SAFETY: the machine has both, as was just detected.
            assert_eq!(unsafe { fma_chains_avx2(100) }, CHAINS as f32 * 8.0);
        }
    }
}
