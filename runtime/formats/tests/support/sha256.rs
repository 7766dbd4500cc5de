//! SHA-256, by FIPS 180-4: the reference data states it of files and of large tensors.

/// The digest, in hexadecimal digits.
pub fn of(bytes: &[u8]) -> String {
    // The constants are the first bits of the fractions of roots of the first primes.
    let primes: Vec<u32> = (2..312)
        .filter(|n| (2..*n).all(|d| n % d != 0))
        .take(64)
        .collect();
    let mut state: Vec<u32> = primes[..8]
        .iter()
        .map(|&p| fraction_of_root(p, 2))
        .collect();
    let table: Vec<u32> = primes.iter().map(|&p| fraction_of_root(p, 3)).collect();
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let mut w = [0_u32; 64];
        for (word, four) in w.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(four.try_into().unwrap());
        }
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w[i] = w[i - 16]
                .wrapping_add(s0)
                .wrapping_add(w[i - 7])
                .wrapping_add(s1);
        }
        let mut v: [u32; 8] = std::array::from_fn(|i| state[i]);
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = v[7]
                .wrapping_add(s1)
                .wrapping_add(choice)
                .wrapping_add(table[i])
                .wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            let t2 = s0.wrapping_add(majority);
            v = [
                t1.wrapping_add(t2),
                v[0],
                v[1],
                v[2],
                v[3].wrapping_add(t1),
                v[4],
                v[5],
                v[6],
            ];
        }
        for (state, v) in state.iter_mut().zip(v) {
            *state = state.wrapping_add(v);
        }
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// The first 32 bits of the fraction of a root: the largest x with x^n <= p * 2^(32 n), without its whole part.
fn fraction_of_root(p: u32, n: u32) -> u32 {
    let (mut low, mut high) = (0_u128, 1_u128 << 37);
    while low + 1 < high {
        let middle = (low + high) / 2;
        match middle.pow(n) <= u128::from(p) << (32 * n) {
            true => low = middle,
            false => high = middle,
        }
    }
    low as u32
}
