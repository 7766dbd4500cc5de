//! Axes: linear and logarithmic scales, their ticks and labels.

/// The mapping of an interval of values to 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) is_log: bool,
}

/// A positive range is logarithmic from this ratio of its ends on.
pub(super) const LOG_RATIO: f64 = 50.0;

/// The part of the range that is added at each end.
const MARGIN: f64 = 0.05;

impl Scale {
    /// A scale for values from `low` to `high`, with a margin; logarithmic where they are positive and span decades.
    pub(super) fn around(low: f64, high: f64) -> Scale {
        if low > 0.0 && high / low >= LOG_RATIO {
            let margin = (high / low).powf(MARGIN);
            return Scale {
                low: low / margin,
                high: high * margin,
                is_log: true,
            };
        }
        Scale::linear(low, high)
    }

    /// A linear scale for values from `low` to `high`, with a margin.
    pub(super) fn linear(low: f64, high: f64) -> Scale {
        let span = match high - low {
            0.0 if low == 0.0 => 1.0,
            0.0 => low.abs(),
            span => span,
        };
        Scale {
            // Values that are not negative have no axis below 0.
            low: match low - MARGIN * span {
                below if below < 0.0 && low >= 0.0 => 0.0,
                below => below,
            },
            high: high + MARGIN * span,
            is_log: false,
        }
    }

    /// A scale from `low` to `high` exactly.
    pub(super) fn exactly(low: f64, high: f64) -> Scale {
        let high = if high > low { high } else { low + 1.0 };
        Scale {
            low,
            high,
            is_log: false,
        }
    }

    /// Where a value lies, from 0 at the low end to 1.
    pub(super) fn at(&self, value: f64) -> f64 {
        match self.is_log {
            true if value <= 0.0 => -1.0,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    /// About `count` round values, a few more where they are rounder.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        match self.is_log {
            true => self.log_ticks(count),
            false => self.linear_ticks(count),
        }
    }

    fn linear_ticks(&self, count: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / count.max(1) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * power);
        let step = steps.into_iter().find(|step| *step >= rough * 0.8);
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        if !(last - first).is_finite() || last - first > 100.0 {
            return Vec::new();
        }
        let ticks = (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step);
        // What is nearly 0 is 0.
        ticks
            .map(|tick| if tick.abs() < step * 1e-9 { 0.0 } else { tick })
            .collect()
    }

    fn log_ticks(&self, count: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
        let decades = last - first;
        let spanned = (self.high / self.low).log10();
        let digits: &[f64] = match spanned / count.max(1) as f64 {
            sparse if sparse <= 0.5 => &[1.0, 2.0, 5.0],
            sparse if sparse <= 0.9 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = (decades / count.max(1) as f64).ceil().max(1.0) as usize;
        let powers = (first as i32..=last as i32).step_by(every);
        let ticks = powers.flat_map(|power| digits.iter().map(move |d| d * 10_f64.powi(power)));
        ticks
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// A short number for a tick: `0.02`, `1.5k`, `2M`, `1e-5`.
pub(super) fn label(x: f64) -> String {
    let size = x.abs();
    // Four significant digits: ticks are multiples of 1, 2, 2.5 or 5 times a power of ten.
    let short = |x: f64| {
        let digits = (3.0 - x.abs().log10().floor()).clamp(0.0, 6.0) as usize;
        let text = format!("{x:.digits$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    };
    match size {
        0.0 => "0".to_owned(),
        _ if size < 1e-3 => {
            let text = format!("{x:.1e}");
            text.replace(".0e", "e")
        }
        _ if size < 1e4 => short(x),
        _ if size < 1e6 => format!("{}k", short(x / 1e3)),
        _ if size < 1e9 => format!("{}M", short(x / 1e6)),
        _ => format!("{x:.1e}").replace(".0e", "e"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Scale::exactly(0.0, 1.0).ticks(5),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(
            Scale::exactly(1.0, 2000.0).ticks(4),
            [500.0, 1000.0, 1500.0, 2000.0]
        );
        let log = Scale::around(0.001, 1.0);
        assert!(log.is_log);
        let ticks: Vec<String> = log.ticks(5).into_iter().map(label).collect();
        assert_eq!(ticks, ["0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1"]);
    }

    #[test]
    fn scales_map_their_ends() {
        for scale in [Scale::exactly(2.0, 4.0), Scale::around(0.001, 1.0)] {
            assert!(scale.at(scale.low).abs() < 1e-12);
            assert!((scale.at(scale.high) - 1.0).abs() < 1e-12);
        }
        // One value alone has an axis.
        assert!(Scale::around(3.0, 3.0).high > Scale::around(3.0, 3.0).low);
        assert_eq!(Scale::around(0.0, 0.9).low, 0.0);
    }

    #[test]
    fn labels_are_short() {
        for (x, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (0.0025, "0.0025"),
            (0.6000000000000001, "0.6"),
            (1000.0, "1000"),
            (1500.0, "1500"),
            (15000.0, "15k"),
            (2.5e6, "2.5M"),
            (1e-5, "1e-5"),
            (2.5e-4, "2.5e-4"),
        ] {
            assert_eq!(label(x), text);
        }
    }
}
