//! SHA-256, for the checksums in the reference data. Its constants are computed: roots of the first primes.

/// The checksum of some bytes, in hexadecimal digits.
pub fn of(bytes: &[u8]) -> String {
    let primes = || (2_u128..).filter(|&n| (2..n).all(|d| n % d != 0));
    // The first 32 fractional bits.
    let k: Vec<u32> = primes().take(64).map(|p| root(p << 96, 3) as u32).collect();
    let mut state: Vec<u32> = primes().take(8).map(|p| root(p << 64, 2) as u32).collect();
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((8 * bytes.len() as u64).to_be_bytes());
    for block in message.as_chunks::<64>().0 {
        let words = block.as_chunks::<4>().0;
        let mut w: Vec<u32> = words.iter().map(|&word| u32::from_be_bytes(word)).collect();
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            let sum = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]);
            w.push(sum.wrapping_add(s1));
        }
        let mut v = state.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = v[4] & v[5] ^ !v[4] & v[6];
            let t1 = [s1, choice, k[i], w[i]]
                .iter()
                .fold(v[7], |sum, &n| sum.wrapping_add(n));
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2];
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(t1);
            v[0] = t1.wrapping_add(s0).wrapping_add(majority);
        }
        for (state, v) in state.iter_mut().zip(v) {
            *state = state.wrapping_add(v);
        }
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// The largest number whose power is not greater.
fn root(of: u128, power: u32) -> u128 {
    let (mut low, mut high) = (0_u128, 1 << 42);
    while high - low > 1 {
        let middle = (low + high) / 2;
        match middle.checked_pow(power).is_some_and(|p| p <= of) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[test]
fn it_is_the_one_of_the_standard() {
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(of(b"abc"), abc);
}
