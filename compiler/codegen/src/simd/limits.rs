//! What the machine can do at most, measured: operations on floats, and bytes to and from memory.
//!
//! In: threads. Out: rates that a kernel can be held against. The best of several short tries counts, because whatever else
//! the machine does can only slow them down.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::exec::pool::Pool;

/// The limits of a machine on some threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Operations on f32 per second, a product and a sum counting two, in registers alone.
    pub flops: f64,
    /// Bytes per second that are read from memory.
    pub read: f64,
    /// Bytes per second that a copy reads and writes together.
    pub copy: f64,
    /// Bytes per second that are read and written where numbers change in place.
    pub update: f64,
}

/// How many bytes the memory is asked for: more than caches hold.
const BYTES: usize = 64 << 20;
const TRIES: usize = 6;

impl Limits {
    /// Measures; takes a few tenths of a second.
    pub fn measure(pool: &Pool) -> Limits {
        let threads = pool.threads();
        let rounds = 1 << 17;
        let flops = best(|| {
            let operations = AtomicUsize::new(0);
            pool.run(threads, &|_| {
                operations.fetch_add(multiply_in_registers(rounds), Relaxed);
            });
            operations.into_inner() as f64
        });
        // Each thread has a part of its own, under a lock that nobody else asks for.
        let part = BYTES / 8 / threads;
        let part = |_| Mutex::new(vec![1_u64; part]);
        let parts: Vec<Mutex<Vec<u64>>> = (0..threads).map(part).collect();
        let each = |work: &(dyn Fn(&mut [u64]) + Sync)| {
            pool.run(threads, &|i| {
                work(&mut parts[i].lock().expect("no probe panics"));
            });
        };
        let bytes = (BYTES / 8 / threads * threads * 8) as f64;
        let read = best(|| {
            each(&|part| {
                std::hint::black_box(sum(part));
            });
            bytes
        });
        let copy = best(|| {
            each(&|part| {
                let (from, to) = part.split_at_mut(part.len() / 2);
                to[..from.len()].copy_from_slice(from);
                std::hint::black_box(to);
            });
            bytes
        });
        let update = best(|| {
            each(&|part| {
                part.iter_mut().for_each(|x| *x = x.wrapping_add(1));
                std::hint::black_box(part);
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

    /// The most bytes per second that memory gave.
    pub fn bytes(&self) -> f64 {
        self.read.max(self.copy).max(self.update)
    }

    /// The shortest time in which so many bytes and operations are possible, in seconds.
    pub fn seconds(&self, bytes: u64, flops: u64) -> f64 {
        (bytes as f64 / self.bytes()).max(flops as f64 / self.flops)
    }
}

/// The best rate of several tries, each of which says how much it did.
fn best(mut work: impl FnMut() -> f64) -> f64 {
    let mut rate = |()| {
        let start = Instant::now();
        let done = work();
        done / start.elapsed().as_secs_f64()
    };
    rate(());
    (0..TRIES).map(|_| rate(())).fold(0.0, f64::max)
}

fn sum(part: &[u64]) -> u64 {
    // Several sums, so that none waits for the one before.
    let mut sums = [0_u64; 16];
    for chunk in part.chunks_exact(16) {
        sums.iter_mut()
            .zip(chunk)
            .for_each(|(s, x)| *s = s.wrapping_add(*x));
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// Chains of products and sums that do not wait for each other, enough to keep two units busy.
const CHAINS: usize = 12;

/// So many rounds of products and sums in registers alone; how many operations that were.
pub fn multiply_in_registers(rounds: usize) -> usize {
    let (sum, lanes) = products(rounds);
    std::hint::black_box(sum);
    2 * CHAINS * lanes * rounds
}

/// So many rounds of products and sums, and how many lanes the machine's longest vectors have.
fn products(rounds: usize) -> (f32, usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has it, as was just asked.
        return (unsafe { products_avx512(rounds) }, 16);
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the machine has both, as was just asked.
        return (unsafe { products_avx2(rounds) }, 8);
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
unsafe fn products_avx512(rounds: usize) -> f32 {
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
unsafe fn products_avx2(rounds: usize) -> f32 {
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
    // SAFETY: the array has room for the eight lanes.
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
    fn all_ways_to_multiply_give_the_same() {
        let (sum, lanes) = products(100);
        assert_eq!(sum, (CHAINS * lanes) as f32);
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            // SAFETY: the machine has both, as was just asked.
            assert_eq!(unsafe { products_avx2(100) }, CHAINS as f32 * 8.0);
        }
    }
}
