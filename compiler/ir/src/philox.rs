//! Philox4x32-10, the counter-based generator behind all random numbers (Salmon et al., 2011).
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
    lanes(key, counter.map(|word| [word])).map(|[word]| word)
}

/// The same for several counters side by side, which a machine computes together.
#[inline(always)]
fn lanes<const N: usize>(mut key: [u32; 2], mut c: [[u32; N]; 4]) -> [[u32; N]; 4] {
    for _ in 0..10 {
        let mut next = c;
        for lane in 0..N {
            let p0 = u64::from(c[0][lane]) * 0xD251_1F53;
            let p1 = u64::from(c[2][lane]) * 0xCD9E_8D57;
            next[0][lane] = (p1 >> 32) as u32 ^ c[1][lane] ^ key[0];
            next[1][lane] = p1 as u32;
            next[2][lane] = (p0 >> 32) as u32 ^ c[3][lane] ^ key[1];
            next[3][lane] = p0 as u32;
        }
        c = next;
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
        // FNV-1a; what matters is that different sites have different numbers everywhere.
        let hash = site.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        Key(seed as u64).derive(hash, 2)
    }

    /// The key for one of many uses, such as a step.
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

    /// The first words of the key's stream.
    pub fn stream(self, count: usize) -> Vec<u32> {
        /// Counters at a time.
        const N: usize = 8;
        let mut stream = Vec::with_capacity(count.next_multiple_of(4 * N));
        for block in (0..count.div_ceil(4) as u64).step_by(N) {
            let at: [u64; N] = std::array::from_fn(|lane| block + lane as u64);
            let counters = [
                at.map(|block| block as u32),
                at.map(|block| (block >> 32) as u32),
                [0; N],
                [0; N],
            ];
            let words = lanes(self.words(), counters);
            stream.extend((0..4 * N).map(|i| words[i % 4][i / 4]));
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
