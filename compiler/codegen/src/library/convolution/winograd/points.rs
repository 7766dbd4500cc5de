//! Polynomials at six points and back, along one dimension and along two.

use crate::exec::multiversion::Simd;

/// How many points there are along a dimension, and in a tile.
pub(super) const POINTS: usize = 6;
pub(super) const ALL: usize = POINTS * POINTS;

/// The points besides 0 and infinity are plus and minus these.
const NEAR: f32 = 0.75;
const FAR: f32 = 1.5;

/// What is done to one dimension after the other. A trait, and not a function that is handed over, because it has to be inlined.
pub(super) trait Map<const I: usize, const O: usize> {
    fn map<S: Simd>(s: S, x: [S::Vector; I]) -> [S::Vector; O];
}

/// Inputs to points: times what filters are divided by there.
pub(super) struct Inputs;

impl Map<POINTS, POINTS> for Inputs {
    #[inline(always)]
    fn map<S: Simd>(s: S, d: [S::Vector; POINTS]) -> [S::Vector; POINTS] {
        const SUM: f32 = NEAR * NEAR + FAR * FAR;
        const PRODUCT: f32 = NEAR * NEAR * FAR * FAR;
        // The polynomial that is 0 at all points but one, for each.
        let end = |a: usize| s.fma(d[a], PRODUCT, s.fma(d[a + 2], -SUM, d[a + 4]));
        let pair = |own: f32, other: f32| {
            let even = s.fma(d[2], -other * other, d[4]);
            let odd = s.fma(d[1], -other * other, d[3]);
            [s.fma(odd, own, even), s.fma(odd, -own, even)]
        };
        let ([near, negative_near], [far, negative_far]) = (pair(NEAR, FAR), pair(FAR, NEAR));
        [end(0), near, negative_near, far, negative_far, end(1)]
    }
}

/// What the values of filters are divided by at the points 0, ±[`NEAR`] and ±[`FAR`].
const WEIGHTS: [f32; 3] = [
    NEAR * NEAR * FAR * FAR,
    2.0 * NEAR * NEAR * (NEAR * NEAR - FAR * FAR),
    2.0 * FAR * FAR * (FAR * FAR - NEAR * NEAR),
];

/// A polynomial at a point and at its negative, divided by a weight.
#[inline(always)]
fn at_pair<S: Simd, const N: usize>(
    s: S,
    x: &[S::Vector; N],
    point: f32,
    weight: f32,
) -> [S::Vector; 2] {
    let mut parts = [s.mul(x[0], 1.0 / weight), s.mul(x[1], point / weight)];
    let mut power = point * point / weight;
    for (i, x) in x.iter().enumerate().skip(2) {
        parts[i % 2] = s.fma(*x, power, parts[i % 2]);
        power *= point;
    }
    [s.add(parts[0], parts[1]), s.sub(parts[0], parts[1])]
}

/// A polynomial at the points, divided by weights.
#[inline(always)]
fn at_points<S: Simd, const N: usize>(
    s: S,
    x: [S::Vector; N],
    weights: [f32; 3],
) -> [S::Vector; POINTS] {
    let [near, negative_near] = at_pair(s, &x, NEAR, weights[1]);
    let [far, negative_far] = at_pair(s, &x, FAR, weights[2]);
    let zero = s.mul(x[0], 1.0 / weights[0]);
    [zero, near, negative_near, far, negative_far, x[N - 1]]
}

/// The other way around: sums of what is at the points, each times what [`at_points`] takes it times.
#[inline(always)]
fn from_points<S: Simd, const N: usize>(
    s: S,
    p: [S::Vector; POINTS],
    weights: [f32; 3],
) -> [S::Vector; N] {
    let near = [s.add(p[1], p[2]), s.sub(p[1], p[2])];
    let far = [s.add(p[3], p[4]), s.sub(p[3], p[4])];
    let mut powers = (1.0 / weights[1], 1.0 / weights[2]);
    let mut made = [s.zero(); N];
    for (i, made) in made.iter_mut().enumerate() {
        let end = match i {
            0 => s.fma(near[0], powers.0, s.mul(p[0], 1.0 / weights[0])),
            _ if i == N - 1 => s.fma(near[i % 2], powers.0, p[5]),
            _ => s.mul(near[i % 2], powers.0),
        };
        *made = s.fma(far[i % 2], powers.1, end);
        powers = (powers.0 * NEAR, powers.1 * FAR);
    }
    made
}

/// Filters to points, and back.
pub(super) struct Filters;

impl<const R: usize> Map<R, POINTS> for Filters {
    #[inline(always)]
    fn map<S: Simd>(s: S, x: [S::Vector; R]) -> [S::Vector; POINTS] {
        at_points(s, x, WEIGHTS)
    }
}

pub(super) struct FiltersBack;

impl<const R: usize> Map<POINTS, R> for FiltersBack {
    #[inline(always)]
    fn map<S: Simd>(s: S, x: [S::Vector; POINTS]) -> [S::Vector; R] {
        from_points(s, x, WEIGHTS)
    }
}

/// Points to outputs, and back.
pub(super) struct ToOutputs;

impl<const M: usize> Map<POINTS, M> for ToOutputs {
    #[inline(always)]
    fn map<S: Simd>(s: S, x: [S::Vector; POINTS]) -> [S::Vector; M] {
        from_points(s, x, [1.0; 3])
    }
}

pub(super) struct FromOutputs;

impl<const M: usize> Map<M, POINTS> for FromOutputs {
    #[inline(always)]
    fn map<S: Simd>(s: S, x: [S::Vector; M]) -> [S::Vector; POINTS] {
        at_points(s, x, [1.0; 3])
    }
}

/// Both dimensions of a square, one after the other.
#[inline(always)]
pub(super) fn both<S: Simd, D: Map<I, O>, const I: usize, const O: usize>(
    s: S,
    x: [[S::Vector; I]; I],
) -> [[S::Vector; O]; O] {
    let mut columns = [[s.zero(); I]; O];
    for i in 0..I {
        let row = D::map(s, x[i]);
        for j in 0..O {
            columns[j][i] = row[j];
        }
    }
    let mut made = [[s.zero(); O]; O];
    for j in 0..O {
        let column = D::map(s, columns[j]);
        for i in 0..O {
            made[i][j] = column[i];
        }
    }
    made
}

/// A square of elements, each by its place.
#[inline(always)]
pub(super) fn square<S: Simd, const N: usize>(
    s: S,
    element: impl Fn(usize, usize) -> S::Vector,
) -> [[S::Vector; N]; N] {
    let mut made = [[s.zero(); N]; N];
    for (i, made) in made.iter_mut().enumerate() {
        for (j, made) in made.iter_mut().enumerate() {
            *made = element(i, j);
        }
    }
    made
}

/// Numbers between -1 and 1 that do not repeat soon.
#[cfg(test)]
pub(super) fn numbers(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| (i.wrapping_mul(7919) % 1009) as f32 / 500.0 - 1.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::multiversion::{FmaWork, dispatch_fma, dispatch_fma_256, has_fma};

    /// As long as the longest vector.
    const WIDE: usize = 16;

    /// Six inputs and a window of `R` taps, along one dimension.
    struct Line<'a, const M: usize, const R: usize> {
        x: &'a [f32],
        taps: &'a [f32],
        y: &'a mut [f32],
    }

    impl<const M: usize, const R: usize> FmaWork for Line<'_, M, R> {
        type Out = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let taps: [S::Vector; R] = std::array::from_fn(|i| s.load(&self.taps[i * WIDE..]));
            let x: [S::Vector; POINTS] = std::array::from_fn(|i| s.load(&self.x[i * WIDE..]));
            let filters = <Filters as Map<R, POINTS>>::map(s, taps);
            let inputs = <Inputs as Map<POINTS, POINTS>>::map(s, x);
            let mut products = [[0.0; WIDE]; POINTS];
            for (i, product) in products.iter_mut().enumerate() {
                let (mut a, mut b) = ([0.0; WIDE], [0.0; WIDE]);
                s.store(inputs[i], &mut a);
                s.store(filters[i], &mut b);
                for j in 0..S::WIDTH {
                    product[j] = a[j] * b[j];
                }
            }
            let products = std::array::from_fn(|i| s.load(&products[i]));
            let y = <ToOutputs as Map<POINTS, M>>::map(s, products);
            for (i, y) in y.into_iter().enumerate() {
                s.store(y, &mut self.y[i * WIDE..]);
            }
        }
    }

    fn line<const M: usize, const R: usize>() {
        let (x, taps) = (numbers(POINTS * WIDE), numbers(POINTS * WIDE + 5));
        let mut found = [vec![0.0; M * WIDE], vec![0.0; M * WIDE]];
        let [long, short] = &mut found;
        let work = |y| Line::<M, R> {
            x: &x,
            taps: &taps,
            y,
        };
        dispatch_fma(work(long));
        dispatch_fma_256(work(short));
        for i in 0..M {
            // The shorter vectors have the first eight lanes alone.
            for j in 0..8 {
                let term =
                    |t: usize| f64::from(x[(i + t) * WIDE + j]) * f64::from(taps[t * WIDE + j]);
                let wanted: f64 = (0..R).map(term).sum();
                let at = i * WIDE + j;
                assert!(
                    (f64::from(long[at]) - wanted).abs() < 4e-6,
                    "{M} {R}: {i} {j}"
                );
                assert_eq!(long[at].to_bits(), short[at].to_bits(), "{M} {R}: {i} {j}");
            }
        }
    }

    #[test]
    fn products_at_six_points_are_sums_of_a_window() {
        if has_fma() {
            line::<4, 3>();
            line::<2, 5>();
        }
    }
}
