//! Numbers too small to be normal become zero while a program runs.
//!
//! In: nothing. Out: a guard; while it lives, the results of this thread's operations on floats that would be subnormal are zeros of
//! the same sign. Leaves alone: subnormal numbers that are read, and other threads.
//!
//! Processors compute with subnormal numbers tens of times slower than with others, and training makes them: the moments of a gradient that
//! has become zero shrink with every step, and so does what a loss close to its minimum sends back. TensorFlow's threads run so too.

use std::marker::PhantomData;

/// Results are flushed on this thread until it is dropped. Programs and the threads of a pool begin so by themselves.
pub struct Flushing {
    before: Mode,
    /// The mode is the thread's.
    _here: PhantomData<*const ()>,
}

impl Flushing {
    /// Begins.
    pub fn begin() -> Flushing {
        let before = read();
        write(before | FLUSHED);
        Flushing {
            before,
            _here: PhantomData,
        }
    }
}

impl std::fmt::Debug for Flushing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flushing")
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        write(self.before);
    }
}

#[cfg(target_arch = "x86_64")]
mod mode {
    use std::arch::asm;

    /// The control word of SSE.
    pub(super) type Mode = u32;
    /// Its bit 15: flush to zero.
    pub(super) const FLUSHED: Mode = 1 << 15;

    pub(super) fn read() -> Mode {
        let mut mode: Mode = 0;
        // SAFETY: every x86-64 has the word; four bytes are written to a number of four bytes.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: the word was read on this machine, and but for one bit that all of them have is what it was, so nothing reserved is
        // set and no exception unmasked. Compiled code takes the default word for granted, but only to compute constants before it
        // runs: those may keep a subnormal value, which is what is read and not flushed anyway.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod mode {
    use std::arch::asm;

    /// The control register of floats.
    pub(super) type Mode = u64;
    /// Its bit 24: flush to zero.
    pub(super) const FLUSHED: Mode = 1 << 24;

    pub(super) fn read() -> Mode {
        let mode: Mode;
        // SAFETY: every aarch64 has the register, and reading it changes nothing.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nomem, nostack, preserves_flags)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: as for x86-64: what was read, but for one bit.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack, preserves_flags)) };
    }
}

/// Other machines keep small numbers.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod mode {
    pub(super) type Mode = u32;
    pub(super) const FLUSHED: Mode = 0;

    pub(super) fn read() -> Mode {
        0
    }

    pub(super) fn write(_: Mode) {}
}

use mode::{FLUSHED, Mode, read, write};

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn small_results_are_zero_as_long_as_it_lives() {
        let small = || black_box(1e-30_f32) * black_box(-1e-10_f32);
        let tiny = || black_box(1e-300_f64) * black_box(1e-10_f64);
        assert!(small().is_subnormal());
        {
            let _flushing = Flushing::begin();
            if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
                assert_eq!(small().to_bits(), (-0.0_f32).to_bits());
                assert_eq!(tiny().to_bits(), 0);
            }
            assert_eq!(black_box(1e-30_f32) * black_box(1e-7_f32), 1e-37);
        }
        assert!(small().is_subnormal() && tiny().is_subnormal());
    }
}
