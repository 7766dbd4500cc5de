//! `Fingerprint64` (FarmHash, its `na` variant) and the fingerprint of several: the hashes of `tf.strings.to_hash_bucket_fast`, of
//! out-of-vocabulary buckets and of crossed features.
//!
//! In: bytes. Out: 64 bits, the same on every machine and in every release: tables and embeddings depend on them. After Geoff Pike's
//! FarmHash; its constants are those of CityHash.

/// Primes between 2^63 and 2^64.
const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

/// The multiplier of [`concatenated`], from MurmurHash.
const MURMUR: u64 = 0xc6a4_a793_5bd1_e995;

/// The bytes that one round of the long form takes.
const BLOCK: usize = 64;

/// The fingerprint of a byte string.
///
/// ```
/// use trainspec::internals::data::tables::fingerprint64;
///
/// // `tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow"], 3)` is [0, 2].
/// assert_eq!(fingerprint64(b"Hello") % 3, 0);
/// assert_eq!(fingerprint64(b"TensorFlow") % 3, 2);
/// ```
pub fn fingerprint64(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0..=16 => up_to_16(bytes),
        17..=32 => up_to_32(bytes),
        33..=64 => up_to_64(bytes),
        _ => longer(bytes),
    }
}

/// The fingerprint of two fingerprints in that order (`FingerprintCat64`).
///
/// ```
/// use trainspec::internals::data::tables::concatenated;
///
/// assert_ne!(concatenated(1, 2), concatenated(2, 1));
/// ```
pub fn concatenated(first: u64, second: u64) -> u64 {
    let mut hash = first ^ MURMUR;
    hash ^= shift_mix(second.wrapping_mul(MURMUR)).wrapping_mul(MURMUR);
    hash = hash.wrapping_mul(MURMUR);
    hash = shift_mix(hash).wrapping_mul(MURMUR);
    shift_mix(hash)
}

fn fetch64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn fetch32(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")).into()
}

fn shift_mix(x: u64) -> u64 {
    x ^ (x >> 47)
}

/// 128 bits to 64, in the manner of MurmurHash.
fn mix(u: u64, v: u64, multiplier: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(multiplier));
    shift_mix((v ^ a).wrapping_mul(multiplier)).wrapping_mul(multiplier)
}

/// The multiplier of the forms for up to 64 bytes.
fn multiplier(bytes: &[u8]) -> u64 {
    K2.wrapping_add(2 * bytes.len() as u64)
}

fn up_to_16(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let by = multiplier(bytes);
    match n {
        8.. => {
            let a = fetch64(bytes, 0).wrapping_add(K2);
            let b = fetch64(bytes, n - 8);
            let c = b.rotate_right(37).wrapping_mul(by).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(by);
            mix(c, d, by)
        }
        4.. => {
            let first = fetch32(bytes, 0);
            mix(n as u64 + (first << 3), fetch32(bytes, n - 4), by)
        }
        1.. => {
            let [a, b, c] = [bytes[0], bytes[n / 2], bytes[n - 1]].map(u64::from);
            let y = a + (b << 8);
            let z = n as u64 + (c << 2);
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        0 => K2,
    }
}

fn up_to_32(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let by = multiplier(bytes);
    let a = fetch64(bytes, 0).wrapping_mul(K1);
    let b = fetch64(bytes, 8);
    let c = fetch64(bytes, n - 8).wrapping_mul(by);
    let d = fetch64(bytes, n - 16).wrapping_mul(K2);
    mix(across(a, b, c, d), along(a, b.wrapping_add(K2), c), by)
}

fn up_to_64(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let by = multiplier(bytes);
    let a = fetch64(bytes, 0).wrapping_mul(K2);
    let b = fetch64(bytes, 8);
    let c = fetch64(bytes, n - 8).wrapping_mul(by);
    let d = fetch64(bytes, n - 16).wrapping_mul(K2);
    let y = across(a, b, c, d);
    let z = mix(y, along(a, b.wrapping_add(K2), c), by);
    let e = fetch64(bytes, 16).wrapping_mul(by);
    let f = fetch64(bytes, 24);
    let g = y.wrapping_add(fetch64(bytes, n - 32)).wrapping_mul(by);
    let h = z.wrapping_add(fetch64(bytes, n - 24)).wrapping_mul(by);
    mix(across(e, f, g, h), along(e, f.wrapping_add(a), g), by)
}

fn across(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let rotated = a.wrapping_add(b).rotate_right(43);
    rotated.wrapping_add(c.rotate_right(30)).wrapping_add(d)
}

fn along(a: u64, b: u64, c: u64) -> u64 {
    a.wrapping_add(b.rotate_right(18)).wrapping_add(c)
}

/// The state of the long form.
struct Long {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

fn longer(bytes: &[u8]) -> u64 {
    const SEED: u64 = 81;
    let y = SEED.wrapping_mul(K1).wrapping_add(113);
    let mut state = Long {
        x: SEED.wrapping_mul(K2).wrapping_add(fetch64(bytes, 0)),
        y,
        z: shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2),
        v: (0, 0),
        w: (0, 0),
    };
    // The last block is read again from the end, and has one byte at least.
    let rest = (bytes.len() - 1) % BLOCK;
    let whole = bytes.len() - 1 - rest;
    for block in bytes[..whole].chunks_exact(BLOCK) {
        state.round(block, K1, 1);
    }
    let by = K1.wrapping_add((state.z & 0xff) << 1);
    state.w.0 = state.w.0.wrapping_add(rest as u64);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    state.round(&bytes[bytes.len() - BLOCK..], by, 9);
    let Long { x, y, z, v, w } = state;
    let first = mix(v.0, w.0, by)
        .wrapping_add(shift_mix(y).wrapping_mul(K0))
        .wrapping_add(z);
    mix(first, mix(v.1, w.1, by).wrapping_add(x), by)
}

impl Long {
    /// Takes in 64 bytes.
    fn round(&mut self, block: &[u8], by: u64, weight: u64) {
        let Long { x, y, z, v, w } = self;
        let sum = x.wrapping_add(*y).wrapping_add(v.0);
        *x = sum
            .wrapping_add(fetch64(block, 8))
            .rotate_right(37)
            .wrapping_mul(by);
        let sum = y.wrapping_add(v.1).wrapping_add(fetch64(block, 48));
        *y = sum.rotate_right(42).wrapping_mul(by);
        *x ^= w.1.wrapping_mul(weight);
        *y = y
            .wrapping_add(v.0.wrapping_mul(weight))
            .wrapping_add(fetch64(block, 40));
        *z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(by);
        *v = half(&block[..32], v.1.wrapping_mul(by), x.wrapping_add(w.0));
        let second = y.wrapping_add(fetch64(block, 16));
        *w = half(&block[32..], z.wrapping_add(w.1), second);
        std::mem::swap(z, x);
    }
}

/// 32 bytes and two seeds to 128 bits.
fn half(bytes: &[u8], a: u64, b: u64) -> (u64, u64) {
    let [first, second, third, last] = [0, 8, 16, 24].map(|at| fetch64(bytes, at));
    let a = a.wrapping_add(first);
    let b = b.wrapping_add(a).wrapping_add(last).rotate_right(21);
    let sum = a.wrapping_add(second).wrapping_add(third);
    let b = b.wrapping_add(sum.rotate_right(44));
    (sum.wrapping_add(last), b.wrapping_add(a))
}
