//! Series of a plot: smoothing and decimation of points.

/// The number of points that a window of the moving average has for each that is plotted, where no weight is given.
const POINTS_PER_WINDOW: usize = 20;

/// A curve with fewer points is not smoothed.
const MIN_SMOOTHED_POINTS: usize = 20;

/// The share of turns between rising and falling from which on a curve counts as noisy.
const NOISY_TURNS: f64 = 0.2;

/// A centred moving average: weights fall exponentially with the distance in points, by the factor `weight`, so that it does not lag. `None`
/// where there is nothing to smooth. Without a weight one is chosen by the number of points, and curves that are not noisy stay as they
/// are.
pub(super) fn smoothed(points: &[(f64, f64)], weight: Option<f64>) -> Option<Vec<(f64, f64)>> {
    let weight = match weight {
        Some(weight) => weight,
        None if points.len() < MIN_SMOOTHED_POINTS || !is_noisy(points) => return None,
        None => 1.0 - 2.0 / (points.len() / POINTS_PER_WINDOW).max(3) as f64,
    };
    if weight == 0.0 {
        return None;
    }
    // Sums over the points before and after each, and of their weights.
    let before = decaying_sums(points.iter(), weight);
    let mut after = decaying_sums(points.iter().rev(), weight);
    after.reverse();
    let smooth = points.iter().zip(before.iter().zip(&after));
    let smooth = smooth.map(|((x, y), (before, after))| match y.is_finite() {
        true => (*x, (before.0 + after.0 - y) / (before.1 + after.1 - 1.0)),
        false => (*x, *y),
    });
    Some(smooth.collect())
}

/// For each point the sum of the values up to it and of their weights.
fn decaying_sums<'a>(points: impl Iterator<Item = &'a (f64, f64)>, weight: f64) -> Vec<(f64, f64)> {
    let (mut sum, mut weights) = (0.0, 0.0);
    let sums = points.map(|(_, y)| {
        if y.is_finite() {
            (sum, weights) = (sum * weight + y, weights * weight + 1.0);
        }
        (sum, weights)
    });
    sums.collect()
}

fn is_noisy(points: &[(f64, f64)]) -> bool {
    let changes = points.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let signs: Vec<bool> = changes.filter(|c| *c != 0.0).map(|c| c > 0.0).collect();
    let turns = signs.windows(2).filter(|pair| pair[0] != pair[1]).count();
    turns as f64 >= NOISY_TURNS * points.len() as f64
}

/// At most two points for each of `columns` equal parts of the x range: the least and the greatest value there. Values that are not finite
/// stay, so that a line has its gaps.
pub(super) fn decimated(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let width = (last.0 - first.0) / columns as f64;
    let column = |x: f64| ((x - first.0) / width) as usize;
    let mut kept = Vec::new();
    for part in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let finite = || part.iter().copied().filter(|(_, y)| y.is_finite());
        let least = finite().min_by(|a, b| a.1.total_cmp(&b.1));
        let greatest = finite().max_by(|a, b| a.1.total_cmp(&b.1));
        let gap = part.iter().copied().find(|(_, y)| !y.is_finite());
        let mut both: Vec<(f64, f64)> = least.into_iter().chain(greatest).chain(gap).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both.dedup_by(|a, b| a.0 == b.0);
        kept.extend(both);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_stays_one() {
        let points: Vec<(f64, f64)> = (0..50).map(|i| (f64::from(i), 3.0)).collect();
        assert_eq!(smoothed(&points, None), None);
        for (_, y) in smoothed(&points, Some(0.9)).unwrap() {
            assert!((y - 3.0).abs() < 1e-12);
        }
        assert_eq!(smoothed(&points, Some(0.0)), None);
    }

    #[test]
    fn noise_is_smoothed_and_ramps_are_not() {
        let ramp: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), f64::from(i))).collect();
        assert_eq!(smoothed(&ramp, None), None);
        let noise: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        let (_, last) = *smoothed(&noise, None).unwrap().last().unwrap();
        assert!((0.3..0.7).contains(&last), "{last}");
    }

    #[test]
    fn decimation_keeps_extremes_and_gaps() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 0.0)).collect();
        points[5_000].1 = 9.0;
        points[7_000].1 = f64::NAN;
        let kept = decimated(&points, 100);
        assert!(kept.len() <= 301, "{}", kept.len());
        assert!(kept.contains(&(5_000.0, 9.0)));
        assert!(kept.iter().any(|(x, y)| *x == 7_000.0 && y.is_nan()));
        assert_eq!(decimated(&points[..50], 100).len(), 50);
    }
}
