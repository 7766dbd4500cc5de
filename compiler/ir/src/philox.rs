//! Philox 4x32-10, the counter-based random number generator (Salmon et al., 2011) of all draws.
//!
//! It has no state: a key and a counter give four words. Draws are keyed by seed, site and step, so nothing needs to be
//! saved and nothing is lost on resume.

/// The four words for a key and a counter.
///
/// ```
/// // The first known answer that its authors publish.
/// let words = trainspec_ir::philox::philox([0; 2], [0; 4]);
/// assert_eq!(words, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    lanes(key, counter.map(|word| [u64::from(word)])).map(|[word]| word as u32)
}

/// The SIMD form of [`philox`] for N counters, one in each lane. Words are held in 64 bits, as their products are.
#[inline(always)]
fn lanes<const N: usize>(mut key: [u32; 2], mut c: [[u64; N]; 4]) -> [[u64; N]; 4] {
    const LOW: u64 = u32::MAX as u64;
    for _ in 0..10 {
        let p0 = c[0].map(|c| (c & LOW) * 0xD251_1F53);
        let p1 = c[2].map(|c| (c & LOW) * 0xCD9E_8D57);
        let [k0, k1] = key.map(u64::from);
        c = [
            std::array::from_fn(|j| (p1[j] >> 32) ^ c[1][j] ^ k0),
            p1.map(|p| p & LOW),
            std::array::from_fn(|j| (p0[j] >> 32) ^ c[3][j] ^ k1),
            p0.map(|p| p & LOW),
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    c
}

/// A key for draws: 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

impl Key {
    /// The key of a site under a seed.
    pub fn new(seed: i64, site: &str) -> Key {
        // FNV-1a: a stable hash, so that a site has the same key on every machine.
        let hash = site.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        Key(seed as u64).derive(hash, 2)
    }

    /// The derived key for one of many uses, such as a step (JAX's `fold_in`).
    pub fn fold(self, n: i64) -> Key {
        self.derive(n as u64, 1)
    }

    fn derive(self, n: u64, domain: u32) -> Key {
        let words = philox(self.words(), [n as u32, (n >> 32) as u32, domain, 0]);
        Key(u64::from(words[0]) | u64::from(words[1]) << 32)
    }

    /// The `block`-th four words of the key's stream.
    pub fn block(self, block: u64) -> [u32; 4] {
        philox(self.words(), [block as u32, (block >> 32) as u32, 0, 0])
    }

    /// The words of N consecutive blocks, one in each lane, from block `first` on: the first of each, the second of each, and so on.
    ///
    /// ```
    /// use trainspec_ir::philox::Key;
    ///
    /// let words = Key(7).blocks::<2>(5);
    /// assert_eq!(words.map(|lanes| lanes[1] as u32), Key(7).block(6));
    /// ```
    #[inline(always)]
    pub fn blocks<const N: usize>(self, first: u64) -> [[u64; N]; 4] {
        let at: [u64; N] = std::array::from_fn(|lane| first.wrapping_add(lane as u64));
        let low = at.map(|block| u64::from(block as u32));
        lanes(
            self.words(),
            [low, at.map(|block| block >> 32), [0; N], [0; N]],
        )
    }

    /// The first words of the key's stream.
    pub fn stream(self, count: usize) -> Vec<u32> {
        /// Blocks at a time.
        const N: usize = 8;
        let mut stream = Vec::with_capacity(count.next_multiple_of(4 * N));
        for first in (0..count.div_ceil(4)).step_by(N) {
            let words = self.blocks::<N>(first as u64);
            for lane in 0..N {
                stream.extend(words.map(|lanes| lanes[lane] as u32));
            }
        }
        stream.truncate(count);
        stream
    }

    fn words(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, philox};

    #[test]
    fn a_stream_is_its_blocks() {
        let key = Key::new(7, "site");
        let blocks: Vec<u32> = (0..20).flat_map(|block| key.block(block)).collect();
        for count in 0..80 {
            assert_eq!(key.stream(count), blocks[..count]);
        }
    }

    #[test]
    fn known_answers_of_the_authors() {
        let ones = u32::MAX;
        assert_eq!(
            philox([ones; 2], [ones; 4]),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        let pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        assert_eq!(
            philox([0xa4093822, 0x299f31d0], pi),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }
}
