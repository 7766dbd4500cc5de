//! Winograd transforms over six interpolation points, in one and two dimensions: Bᵀ (inputs), G (filters), Aᵀ (outputs) and transposes.

use crate::exec::multiversion::Simd;

/// Interpolation points along one dimension.
pub(super) const POINTS: usize = 6;
/// Interpolation points of a tile.
pub(super) const TILE_POINTS: usize = POINTS * POINTS;

/// The points besides 0 and infinity are ±`INNER_POINT` and ±`OUTER_POINT`.
const INNER_POINT: f32 = 0.75;
const OUTER_POINT: f32 = 1.5;

/// A transform along one dimension. A trait, not a function argument, because it has to be inlined.
pub(super) trait Transform<const I: usize, const O: usize> {
    fn apply<S: Simd>(s: S, x: [S::Vector; I]) -> [S::Vector; O];
}

/// The input transform Bᵀ, scaled by the weights that the filter transform divides by.
pub(super) struct InputTransform;

impl Transform<POINTS, POINTS> for InputTransform {
    #[inline(always)]
    fn apply<S: Simd>(s: S, d: [S::Vector; POINTS]) -> [S::Vector; POINTS] {
        const SUM: f32 = INNER_POINT * INNER_POINT + OUTER_POINT * OUTER_POINT;
        const PRODUCT: f32 = INNER_POINT * INNER_POINT * OUTER_POINT * OUTER_POINT;
        // The Lagrange basis: for each point the polynomial that is 0 at all other points.
        let end = |a: usize| s.fma(d[a], PRODUCT, s.fma(d[a + 2], -SUM, d[a + 4]));
        let pair = |own: f32, other: f32| {
            let even = s.fma(d[2], -other * other, d[4]);
            let odd = s.fma(d[1], -other * other, d[3]);
            [s.fma(odd, own, even), s.fma(odd, -own, even)]
        };
        let ([inner, negative_inner], [outer, negative_outer]) = (
            pair(INNER_POINT, OUTER_POINT),
            pair(OUTER_POINT, INNER_POINT),
        );
        [end(0), inner, negative_inner, outer, negative_outer, end(1)]
    }
}

/// The Lagrange weights that the filter transform divides by, at the points 0, ±[`INNER_POINT`] and ±[`OUTER_POINT`].
const WEIGHTS: [f32; 3] = [
    INNER_POINT * INNER_POINT * OUTER_POINT * OUTER_POINT,
    2.0 * INNER_POINT * INNER_POINT * (INNER_POINT * INNER_POINT - OUTER_POINT * OUTER_POINT),
    2.0 * OUTER_POINT * OUTER_POINT * (OUTER_POINT * OUTER_POINT - INNER_POINT * INNER_POINT),
];

/// A polynomial at a point and at its negative, divided by a weight.
#[inline(always)]
fn at_pair<S: Simd, const N: usize>(
    s: S,
    x: &[S::Vector; N],
    point: f32,
    weight: f32,
) -> [S::Vector; 2] {
    let mut even_odd = [s.mul(x[0], 1.0 / weight), s.mul(x[1], point / weight)];
    let mut power = point * point / weight;
    for (i, x) in x.iter().enumerate().skip(2) {
        even_odd[i % 2] = s.fma(*x, power, even_odd[i % 2]);
        power *= point;
    }
    [
        s.add(even_odd[0], even_odd[1]),
        s.sub(even_odd[0], even_odd[1]),
    ]
}

/// A polynomial at the points, divided by weights.
#[inline(always)]
fn at_points<S: Simd, const N: usize>(
    s: S,
    x: [S::Vector; N],
    weights: [f32; 3],
) -> [S::Vector; POINTS] {
    let [inner, negative_inner] = at_pair(s, &x, INNER_POINT, weights[1]);
    let [outer, negative_outer] = at_pair(s, &x, OUTER_POINT, weights[2]);
    let zero = s.mul(x[0], 1.0 / weights[0]);
    [zero, inner, negative_inner, outer, negative_outer, x[N - 1]]
}

/// The transpose of [`at_points`].
#[inline(always)]
fn from_points<S: Simd, const N: usize>(
    s: S,
    p: [S::Vector; POINTS],
    weights: [f32; 3],
) -> [S::Vector; N] {
    let inner = [s.add(p[1], p[2]), s.sub(p[1], p[2])];
    let outer = [s.add(p[3], p[4]), s.sub(p[3], p[4])];
    let mut powers = (1.0 / weights[1], 1.0 / weights[2]);
    let mut transformed = [s.zero(); N];
    for (i, transformed) in transformed.iter_mut().enumerate() {
        let end = match i {
            0 => s.fma(inner[0], powers.0, s.mul(p[0], 1.0 / weights[0])),
            _ if i == N - 1 => s.fma(inner[i % 2], powers.0, p[5]),
            _ => s.mul(inner[i % 2], powers.0),
        };
        *transformed = s.fma(outer[i % 2], powers.1, end);
        powers = (powers.0 * INNER_POINT, powers.1 * OUTER_POINT);
    }
    transformed
}

/// The filter transform G.
pub(super) struct FilterTransform;

impl<const R: usize> Transform<R, POINTS> for FilterTransform {
    #[inline(always)]
    fn apply<S: Simd>(s: S, x: [S::Vector; R]) -> [S::Vector; POINTS] {
        at_points(s, x, WEIGHTS)
    }
}

/// The transposed filter transform Gᵀ, for the gradient of the filters.
pub(super) struct FilterTranspose;

impl<const R: usize> Transform<POINTS, R> for FilterTranspose {
    #[inline(always)]
    fn apply<S: Simd>(s: S, x: [S::Vector; POINTS]) -> [S::Vector; R] {
        from_points(s, x, WEIGHTS)
    }
}

/// The output transform Aᵀ.
pub(super) struct OutputTransform;

impl<const M: usize> Transform<POINTS, M> for OutputTransform {
    #[inline(always)]
    fn apply<S: Simd>(s: S, x: [S::Vector; POINTS]) -> [S::Vector; M] {
        from_points(s, x, [1.0; 3])
    }
}

/// The transposed output transform A, for cotangents.
pub(super) struct OutputTranspose;

impl<const M: usize> Transform<M, POINTS> for OutputTranspose {
    #[inline(always)]
    fn apply<S: Simd>(s: S, x: [S::Vector; M]) -> [S::Vector; POINTS] {
        at_points(s, x, [1.0; 3])
    }
}

/// A 2-D transform: rows, then columns.
#[inline(always)]
pub(super) fn transform_2d<S: Simd, D: Transform<I, O>, const I: usize, const O: usize>(
    s: S,
    x: [[S::Vector; I]; I],
) -> [[S::Vector; O]; O] {
    let mut columns = [[s.zero(); I]; O];
    for i in 0..I {
        let row = D::apply(s, x[i]);
        for j in 0..O {
            columns[j][i] = row[j];
        }
    }
    let mut transformed = [[s.zero(); O]; O];
    for j in 0..O {
        let column = D::apply(s, columns[j]);
        for i in 0..O {
            transformed[i][j] = column[i];
        }
    }
    transformed
}

/// Loads a square tile, each element by its row and column.
#[inline(always)]
pub(super) fn load_tile<S: Simd, const N: usize>(
    s: S,
    element: impl Fn(usize, usize) -> S::Vector,
) -> [[S::Vector; N]; N] {
    let mut transformed = [[s.zero(); N]; N];
    for (i, transformed) in transformed.iter_mut().enumerate() {
        for (j, transformed) in transformed.iter_mut().enumerate() {
            *transformed = element(i, j);
        }
    }
    transformed
}

/// Pseudo-random numbers between -1 and 1.
#[cfg(test)]
pub(super) fn numbers(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| (i.wrapping_mul(7919) % 1009) as f32 / 500.0 - 1.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::exec::multiversion::{FmaWork, dispatch_fma, dispatch_fma_256};

    /// The lanes of the widest vector.
    const MAX_LANES: usize = 16;

    /// A 1-D Winograd convolution F(M, R) of six inputs.
    struct Winograd1d<'a, const M: usize, const R: usize> {
        x: &'a [f32],
        taps: &'a [f32],
        y: &'a mut [f32],
    }

    impl<const M: usize, const R: usize> FmaWork for Winograd1d<'_, M, R> {
        type Out = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let taps: [S::Vector; R] = std::array::from_fn(|i| s.load(&self.taps[i * MAX_LANES..]));
            let x: [S::Vector; POINTS] = std::array::from_fn(|i| s.load(&self.x[i * MAX_LANES..]));
            let filters = <FilterTransform as Transform<R, POINTS>>::apply(s, taps);
            let inputs = <InputTransform as Transform<POINTS, POINTS>>::apply(s, x);
            let mut products = [[0.0; MAX_LANES]; POINTS];
            for (i, product) in products.iter_mut().enumerate() {
                let (mut a, mut b) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
                s.store(inputs[i], &mut a);
                s.store(filters[i], &mut b);
                for j in 0..S::WIDTH {
                    product[j] = a[j] * b[j];
                }
            }
            let products = std::array::from_fn(|i| s.load(&products[i]));
            let y = <OutputTransform as Transform<POINTS, M>>::apply(s, products);
            for (i, y) in y.into_iter().enumerate() {
                s.store(y, &mut self.y[i * MAX_LANES..]);
            }
        }
    }

    fn check<const M: usize, const R: usize>() {
        let (x, taps) = (numbers(POINTS * MAX_LANES), numbers(POINTS * MAX_LANES + 5));
        let mut found = [vec![0.0; M * MAX_LANES], vec![0.0; M * MAX_LANES]];
        let [long, short] = &mut found;
        let work = |y| Winograd1d::<M, R> {
            x: &x,
            taps: &taps,
            y,
        };
        dispatch_fma(Cpu::host(), work(long));
        dispatch_fma_256(Cpu::host(), work(short));
        for i in 0..M {
            // The narrower vectors have eight lanes.
            for j in 0..8 {
                let term = |t: usize| {
                    f64::from(x[(i + t) * MAX_LANES + j]) * f64::from(taps[t * MAX_LANES + j])
                };
                let expected: f64 = (0..R).map(term).sum();
                let at = i * MAX_LANES + j;
                assert!(
                    (f64::from(long[at]) - expected).abs() < 4e-6,
                    "{M} {R}: {i} {j}"
                );
                assert_eq!(long[at].to_bits(), short[at].to_bits(), "{M} {R}: {i} {j}");
            }
        }
    }

    #[test]
    fn one_dimensional_winograd_equals_direct_convolution() {
        if !Cpu::host().has_avx2_fma() {
            println!("skipped: needs AVX2 (Winograd)");
            return;
        }
        if !Cpu::host().has_avx512() {
            println!("skipped: needs AVX-512");
        }
        check::<4, 3>();
        check::<2, 5>();
    }
}
