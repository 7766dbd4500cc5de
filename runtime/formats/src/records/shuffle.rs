//! A seeded random permutation of records (Fisher–Yates shuffle with SplitMix64).

/// A permutation of the numbers below a count, determined by a seed and an epoch: equal on every machine and in every run.
///
/// A Fisher–Yates shuffle with a counter-based generator: all permutations are equally likely.
///
/// ```
/// use trainspec_formats::records::Permutation;
///
/// let order = Permutation::new(5, 7, 0);
/// let mut seen: Vec<u64> = order.iter().collect();
/// seen.sort();
/// assert_eq!(seen, [0, 1, 2, 3, 4]);
/// assert_ne!(Permutation::new(100, 7, 0), Permutation::new(100, 7, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation(Numbers);

/// 32-bit indices take half of the memory, where they suffice.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Numbers {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Permutation {
    /// The permutation of `count` numbers in an epoch.
    pub fn new(count: u64, seed: u64, pass: u64) -> Permutation {
        let key = splitmix64(splitmix64(seed).wrapping_add(pass));
        Permutation(match u32::try_from(count) {
            Ok(count) => Numbers::U32(shuffled((0..count).collect(), key)),
            Err(_) => Numbers::U64(shuffled((0..count).collect(), key)),
        })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            Numbers::U32(numbers) => numbers.len(),
            Numbers::U64(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at an index.
    pub fn get(&self, index: usize) -> Option<u64> {
        match &self.0 {
            Numbers::U32(numbers) => numbers.get(index).map(|n| u64::from(*n)),
            Numbers::U64(numbers) => numbers.get(index).copied(),
        }
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

fn shuffled<T>(mut numbers: Vec<T>, key: u64) -> Vec<T> {
    for last in (1..numbers.len()).rev() {
        let drawn = below(key, last as u64, last as u64 + 1);
        numbers.swap(last, drawn as usize);
    }
    numbers
}

/// The unbiased random number below `count` at an index of the counter (Lemire, 2019).
fn below(key: u64, index: u64, count: u64) -> u64 {
    let floor = count.wrapping_neg() % count;
    // Each index has a sequence of its own for rejection sampling, of which nearly all take the first number.
    let start = splitmix64(key ^ splitmix64(index));
    for again in 0.. {
        let wide = u128::from(splitmix64(start.wrapping_add(again))) * u128::from(count);
        if wide as u64 >= floor {
            return (wide >> 64) as u64;
        }
    }
    unreachable!("a sequence of 2^64 numbers has one that fits")
}

/// SplitMix64 (Steele, Lea and Flood, 2014): the increment and the finalizer, a bijection.
fn splitmix64(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_number_comes_once() {
        for count in [0, 1, 2, 3, 10, 1000] {
            let mut numbers: Vec<u64> = Permutation::new(count, 3, 1).iter().collect();
            numbers.sort();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_permutations_are_equally_likely() {
        let mut seen = BTreeMap::new();
        for seed in 0..24_000 {
            let order: Vec<u64> = Permutation::new(4, seed, 0).iter().collect();
            *seen.entry(order).or_insert(0_i32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Of 23 degrees of freedom, one in a million exceeds 70.
        let squares: f64 = seen.values().map(|n| f64::from(n - 1000).powi(2)).sum();
        assert!(squares / 1000.0 < 70.0, "{seen:?}");
    }

    #[test]
    fn splitmix64_has_the_published_values() {
        // The first numbers of SplitMix64 from the state 1234567, as its authors' code gives them.
        let mut state = 1_234_567_u64;
        let found: Vec<u64> = (0..3)
            .map(|_| {
                let number = splitmix64(state);
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                number
            })
            .collect();
        assert_eq!(
            found,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423
            ]
        );
    }
}
