//! Pseudorandom numbers that are the same everywhere.

/// Marsaglia's xorshift64 pseudorandom generator.
#[derive(Debug, Clone)]
pub struct XorShift(u64);

impl XorShift {
    /// The generator of a seed.
    pub fn new(seed: u64) -> XorShift {
        let mut numbers = XorShift(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // Warm-up: the first numbers of similar seeds are correlated.
        for _ in 0..4 {
            numbers.bits();
        }
        numbers
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number uniform in [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    }

    /// An integer below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.bits() >> 16) % n.max(1)
    }

    /// An index below `n`.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// One of several values.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
