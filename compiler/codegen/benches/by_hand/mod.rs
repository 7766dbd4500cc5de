//! The chains with AVX2 intrinsics, as a careful person would write them: eight lanes, fused multiply-add, the polynomials
//! that compiled code uses. The slices of each chain are as long as each other, in the order of its state.

use std::arch::x86_64::*;

/// y = exp(a x + b); the slices are x, y.
pub(crate) fn exp(slices: &mut [Vec<f32>]) {
    let [x, y] = slices else {
        panic!("two slices");
    };
    assert_eq!(x.len(), y.len());
    // SAFETY: `main` asked for AVX2 and FMA; the slices are as long as each other.
    unsafe { exp_avx2(x, y) }
}

/// y = x tanh(a x + b) + c; the slices are x, y.
pub(crate) fn tanh(slices: &mut [Vec<f32>]) {
    let [x, y] = slices else {
        panic!("two slices");
    };
    assert_eq!(x.len(), y.len());
    // SAFETY: as above.
    unsafe { tanh_avx2(x, y) }
}

/// Adam; the slices are g, p, m, v.
pub(crate) fn adam(slices: &mut [Vec<f32>]) {
    let [g, p, m, v] = slices else {
        panic!("four slices");
    };
    assert!([&*p, &*m, &*v].iter().all(|s| s.len() == g.len()));
    // SAFETY: as above.
    unsafe { adam_avx2(g, p, m, v) }
}

/// # Safety
///
/// The machine must have AVX2 and FMA, and the slices the same length, a multiple of 8; so for all that follow.
#[target_feature(enable = "avx2,fma")]
unsafe fn exp_avx2(x: &[f32], y: &mut [f32]) {
    let (a, b) = (_mm256_set1_ps(0.75), _mm256_set1_ps(0.125));
    for i in (0..x.len() / 8 * 8).step_by(8) {
        // SAFETY: eight elements from `i` on are inside both slices.
        unsafe {
            let x = _mm256_loadu_ps(x.as_ptr().add(i));
            let moved = _mm256_fmadd_ps(x, a, b);
            _mm256_storeu_ps(y.as_mut_ptr().add(i), exp_lanes(moved));
        }
    }
}

/// # Safety
///
/// See above.
#[target_feature(enable = "avx2,fma")]
unsafe fn tanh_avx2(x: &[f32], y: &mut [f32]) {
    let [a, b, c] = [0.75, 0.125, 0.5].map(|c| _mm256_set1_ps(c));
    for i in (0..x.len() / 8 * 8).step_by(8) {
        // SAFETY: eight elements from `i` on are inside both slices.
        unsafe {
            let x = _mm256_loadu_ps(x.as_ptr().add(i));
            let curved = tanh_lanes(_mm256_fmadd_ps(x, a, b));
            _mm256_storeu_ps(y.as_mut_ptr().add(i), _mm256_fmadd_ps(x, curved, c));
        }
    }
}

/// # Safety
///
/// See above.
#[target_feature(enable = "avx2,fma")]
unsafe fn adam_avx2(g: &[f32], p: &mut [f32], m: &mut [f32], v: &mut [f32]) {
    let [beta1, rest1] = [0.9, 0.1].map(|c| _mm256_set1_ps(c));
    let [beta2, rest2] = [0.999, 0.001].map(|c| _mm256_set1_ps(c));
    let [rate, epsilon] = [0.001, 1e-8].map(|c| _mm256_set1_ps(c));
    for i in (0..g.len() / 8 * 8).step_by(8) {
        // SAFETY: eight elements from `i` on are inside all slices.
        unsafe {
            let (pp, pm, pv) = (
                p.as_mut_ptr().add(i),
                m.as_mut_ptr().add(i),
                v.as_mut_ptr().add(i),
            );
            let g = _mm256_loadu_ps(g.as_ptr().add(i));
            let m = _mm256_fmadd_ps(_mm256_loadu_ps(pm), beta1, _mm256_mul_ps(g, rest1));
            let squared = _mm256_mul_ps(_mm256_mul_ps(g, g), rest2);
            let v = _mm256_fmadd_ps(_mm256_loadu_ps(pv), beta2, squared);
            let root = _mm256_add_ps(_mm256_sqrt_ps(v), epsilon);
            let change = _mm256_div_ps(_mm256_mul_ps(m, rate), root);
            _mm256_storeu_ps(pp, _mm256_sub_ps(_mm256_loadu_ps(pp), change));
            _mm256_storeu_ps(pm, m);
            _mm256_storeu_ps(pv, v);
        }
    }
}

/// x = k ln 2 + r: k above 1.5 * 2^23, k, r.
#[target_feature(enable = "avx2,fma")]
fn reduced(x: __m256) -> (__m256, __m256, __m256) {
    let magic = _mm256_set1_ps(12_582_912.0);
    let moved = _mm256_fmadd_ps(x, _mm256_set1_ps(std::f32::consts::LOG2_E), magic);
    let k = _mm256_sub_ps(moved, magic);
    let r = _mm256_fnmadd_ps(k, _mm256_set1_ps(0.693_145_75), x);
    let r = _mm256_fnmadd_ps(k, _mm256_set1_ps(1.428_606_8e-6), r);
    (moved, k, r)
}

/// e^r - 1 for a small r.
#[target_feature(enable = "avx2,fma")]
fn small(r: __m256) -> __m256 {
    let mut q = _mm256_set1_ps(0.001_394_660_8);
    for c in [0.008_366_678, 0.041_666_28, 0.166_665_42, 0.5] {
        q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(c));
    }
    let tail = _mm256_mul_ps(_mm256_mul_ps(r, r), q);
    _mm256_add_ps(r, tail)
}

/// 2 to the power of the low bits.
#[target_feature(enable = "avx2,fma")]
fn power_of_two(k: __m256i) -> __m256 {
    let one = _mm256_castps_si256(_mm256_set1_ps(1.0));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32::<23>(k), one))
}

#[target_feature(enable = "avx2,fma")]
fn exp_lanes(x: __m256) -> __m256 {
    // The bound comes first, so that NaN stays.
    let x = _mm256_max_ps(_mm256_set1_ps(-104.0), x);
    let x = _mm256_min_ps(_mm256_set1_ps(89.0), x);
    let (moved, k, r) = reduced(x);
    let mantissa = _mm256_add_ps(_mm256_set1_ps(1.0), small(r));
    let magic = _mm256_set1_ps(12_582_912.0);
    let half = _mm256_castps_si256(_mm256_fmadd_ps(k, _mm256_set1_ps(0.5), magic));
    let rest = _mm256_sub_epi32(_mm256_castps_si256(moved), half);
    let once = _mm256_mul_ps(mantissa, power_of_two(half));
    _mm256_mul_ps(once, power_of_two(rest))
}

#[target_feature(enable = "avx2,fma")]
fn tanh_lanes(x: __m256) -> __m256 {
    let sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0));
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    let bounded = _mm256_min_ps(_mm256_set1_ps(10.0), magnitude);
    let (moved, _, r) = reduced(_mm256_add_ps(bounded, bounded));
    let less = _mm256_sub_epi32(_mm256_castps_si256(moved), _mm256_set1_epi32(1));
    let power = power_of_two(less);
    let sum = _mm256_fmadd_ps(power, small(r), _mm256_sub_ps(power, _mm256_set1_ps(0.5)));
    let t = _mm256_add_ps(sum, sum);
    let y = _mm256_div_ps(t, _mm256_add_ps(t, _mm256_set1_ps(2.0)));
    let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(1.0 / 8192.0));
    _mm256_xor_ps(_mm256_blendv_ps(y, magnitude, tiny), sign)
}
