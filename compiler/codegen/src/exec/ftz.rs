//! Flush-to-zero (FTZ) guard: sets the FTZ bit of MXCSR (x86-64) or FPCR (aarch64) on this thread while a program runs.
//!
//! In: nothing. Out: a guard; while it lives, denormal results of this thread's float operations are zeros of the same sign. Leaves
//! alone: denormal operands (denormals-are-zero is not set), and other threads.
//!
//! Processors compute with denormals tens of times slower than with normal numbers, and training makes them: Adam's moments of a gradient
//! that has become zero decay with every step, and gradients of a loss close to its minimum vanish. TensorFlow's threads set FTZ too.

use std::marker::PhantomData;

/// Sets FTZ on this thread until it is dropped. Programs and the threads of a pool set it themselves.
pub struct FtzGuard {
    before: Mode,
    /// Not `Send`: the mode is the thread's.
    _here: PhantomData<*const ()>,
}

impl FtzGuard {
    /// Sets FTZ, and keeps the mode that was set before.
    pub fn enable() -> FtzGuard {
        let before = read();
        write(before | FTZ);
        FtzGuard {
            before,
            _here: PhantomData,
        }
    }
}

impl std::fmt::Debug for FtzGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FtzGuard")
    }
}

impl Drop for FtzGuard {
    fn drop(&mut self) {
        write(self.before);
    }
}

#[cfg(target_arch = "x86_64")]
mod mode {
    use std::arch::asm;

    /// MXCSR, the control and status register of SSE.
    pub(super) type Mode = u32;
    /// Its bit 15: flush to zero.
    pub(super) const FTZ: Mode = 1 << 15;

    pub(super) fn read() -> Mode {
        let mut mode: Mode = 0;
        // SAFETY: every x86-64 has the register; four bytes are written to a u32.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: the value was read from MXCSR and differs at most in FTZ, which every x86-64 has, so no reserved bit is set and no
        // exception unmasked. The compiler assumes the default MXCSR, but only when it folds constants: those may be denormals, as
        // operands may be anyway.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod mode {
    use std::arch::asm;

    /// FPCR, the floating-point control register.
    pub(super) type Mode = u64;
    /// Its bit 24: flush to zero.
    pub(super) const FTZ: Mode = 1 << 24;

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

/// Other machines keep denormals.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod mode {
    pub(super) type Mode = u32;
    pub(super) const FTZ: Mode = 0;

    pub(super) fn read() -> Mode {
        0
    }

    pub(super) fn write(_: Mode) {}
}

use mode::{FTZ, Mode, read, write};

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn denormal_results_are_zero_while_the_guard_lives() {
        let small = || black_box(1e-30_f32) * black_box(-1e-10_f32);
        let tiny = || black_box(1e-300_f64) * black_box(1e-10_f64);
        assert!(small().is_subnormal());
        {
            let _ftz = FtzGuard::enable();
            if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
                assert_eq!(small().to_bits(), (-0.0_f32).to_bits());
                assert_eq!(tiny().to_bits(), 0);
            } else {
                println!("skipped: needs MXCSR or FPCR");
            }
            assert_eq!(black_box(1e-30_f32) * black_box(1e-7_f32), 1e-37);
        }
        assert!(small().is_subnormal() && tiny().is_subnormal());
    }
}
