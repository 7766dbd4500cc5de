//! Reports what one dispatch of the pool costs. Asserts nothing.
//!
//! `empty` is what a caller pays for two tasks that do nothing. `meet` is the time until every thread is at work: each
//! task waits for all others to begin, so it includes the wake-up of workers that sleep.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use trainspec_codegen::exec::pool::Pool;

fn main() {
    // Without `--bench` this is a check that the program runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let mut threads = vec![1, 2, Pool::new(usize::MAX).threads()];
    threads.dedup();
    println!("threads  work   gap us   median us     best us");
    for threads in threads {
        let pool = Pool::exactly(threads);
        for (gap, samples) in [(0, 100_000), (200, 5000), (5000, 300)] {
            let samples = if full { samples } else { 10 };
            let gap = Duration::from_micros(gap);
            report(
                threads,
                "empty",
                gap,
                &times(samples, gap, || pool.run(2, &|_| ())),
            );
            report(threads, "meet", gap, &times(samples, gap, || meet(&pool)));
        }
    }
}

fn meet(pool: &Pool) {
    let present = AtomicUsize::new(0);
    pool.run(pool.threads(), &|_| {
        present.fetch_add(1, Relaxed);
        while present.load(Relaxed) < pool.threads() {
            std::hint::spin_loop();
        }
    });
}

/// Nanoseconds per call, sorted. Back-to-back calls are timed ten at a time, so that the clock costs little.
fn times(samples: usize, gap: Duration, call: impl Fn()) -> Vec<f64> {
    let calls = if gap.is_zero() { 10 } else { 1 };
    let mut times: Vec<f64> = (0..samples / calls)
        .map(|_| {
            let idle = Instant::now();
            while idle.elapsed() < gap {
                std::hint::spin_loop();
            }
            let begin = Instant::now();
            (0..calls).for_each(|_| call());
            begin.elapsed().as_nanos() as f64 / calls as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn report(threads: usize, work: &str, gap: Duration, times: &[f64]) {
    let (median, best) = (times[times.len() / 2] / 1e3, times[0] / 1e3);
    println!(
        "{threads:7}  {work:5}  {:6}  {median:10.3}  {best:10.3}",
        gap.as_micros()
    );
}
