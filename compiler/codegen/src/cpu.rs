//! CPU features: what the host has, detected once and handed down to code generation, GEMM and the loops with several versions.

/// Features of the host that the code of this crate uses. Only [`Cpu::host`] makes one, and [`Cpu::limited`] takes features away: a feature
/// that it has, the host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    fma: bool,
    avx2: bool,
    avx512: bool,
}

impl Cpu {
    /// The features of the machine that this runs on.
    pub fn host() -> Cpu {
        #[cfg(target_arch = "x86_64")]
        {
            Cpu {
                fma: is_x86_feature_detected!("fma"),
                avx2: is_x86_feature_detected!("avx2"),
                avx512: is_x86_feature_detected!("avx512f"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Cpu {
                // Part of the baseline.
                fma: cfg!(target_arch = "aarch64"),
                avx2: false,
                avx512: false,
            }
        }
    }

    /// These features without those that a machine lacks: library routines then round as its generated code does.
    pub fn limited(self, machine: Machine) -> Cpu {
        let fma = self.fma && machine.fma;
        let avx2 = self.avx2 && machine.vectors && machine.wide;
        Cpu {
            fma,
            avx2,
            avx512: self.avx512 && avx2 && fma,
        }
    }

    /// Whether it has fused multiply-add, for scalars at least.
    #[inline]
    pub fn has_fma(self) -> bool {
        self.fma
    }

    /// Whether it has AVX2: vectors of 256 bits.
    #[inline]
    pub fn has_avx2(self) -> bool {
        self.avx2
    }

    /// Whether it has AVX2 and FMA: fused multiply-add on vectors of 256 bits.
    #[inline]
    pub fn has_avx2_fma(self) -> bool {
        self.avx2 && self.fma
    }

    /// Whether it has AVX-512, too: vectors of 512 bits.
    #[inline]
    pub fn has_avx512(self) -> bool {
        self.avx512 && self.has_avx2_fma()
    }
}

/// The target of code generation, which need not be the host for a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Whether it has fused multiply-add.
    pub fma: bool,
    /// Whether loops are vectorized.
    pub vectors: bool,
    /// Whether loops are vectorized to 256 bits (AVX2), where the emitter supports them.
    pub wide: bool,
}

impl Machine {
    /// The machine that this runs on.
    pub fn host() -> Machine {
        let cpu = Cpu::host();
        Machine {
            fma: match cfg!(target_arch = "x86_64") {
                true => cpu.has_avx2_fma(),
                false => cpu.has_fma(),
            },
            vectors: true,
            // The emitter knows the System V calling convention.
            wide: cpu.has_avx2_fma() && !cfg!(windows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_cpu_has_no_feature_that_the_machine_lacks() {
        let host = Machine::host();
        for machine in [
            Machine { fma: false, ..host },
            Machine {
                wide: false,
                ..host
            },
        ] {
            let limited = Cpu::host().limited(machine);
            assert!(!limited.has_avx2_fma() && !limited.has_avx512());
            assert!(machine.fma || !limited.has_fma());
        }
    }
}
