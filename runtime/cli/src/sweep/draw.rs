//! Random values of constants: counter-based draws, keyed by the seed, the name of the constant and the ordinal of the trial.
//!
//! There is no state, so the values of a trial depend on neither the number of trials nor the order in which they are run.

use trainspec_compiler::ir::philox::Key;

/// What a value is drawn from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Draw {
    /// These, all as likely.
    Choice(Vec<String>),
    /// A range of numbers.
    Range(Range),
}

/// A range of numbers, with both bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    low: f64,
    high: f64,
    /// Whether the logarithm is uniform.
    is_log: bool,
    /// Whether only integers are drawn.
    pub(super) is_int: bool,
}

/// Integers of greater magnitude are not all numbers in f64.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The digits that a draw is rounded to, so that tables and commands are readable.
const DIGITS: i32 = 4;

impl Draw {
    /// The value of a constant in a trial.
    pub(super) fn value(&self, seed: i64, trial: usize, name: &str) -> String {
        let key = Key::new(seed, name).fold(trial as i64);
        let [high, low, ..] = key.block(0);
        let bits = u64::from(high) << 32 | u64::from(low);
        match self {
            Draw::Choice(values) => values[scaled(bits, values.len() as u64) as usize].clone(),
            Draw::Range(range) => range.value(bits),
        }
    }
}

/// The fraction `bits / 2^64` of a count: below it, each as likely.
fn scaled(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

impl Range {
    /// Parses `LOW..HIGH[:log][:int]`; `None` where it has another form.
    pub(super) fn parse(text: &str) -> Option<Result<Range, String>> {
        let (bounds, options) = match text.split_once(':') {
            Some((bounds, options)) => (bounds, options.split(':').collect()),
            None => (text, Vec::new()),
        };
        let (low, high) = bounds.split_once("..")?;
        let range = number(low).and_then(|low| Ok((low, number(high)?)));
        Some(range.and_then(|(low, high)| Range::new(low, high, &options)))
    }

    fn new(low: f64, high: f64, options: &[&str]) -> Result<Range, String> {
        let mut range = Range {
            low,
            high,
            is_log: false,
            is_int: false,
        };
        for option in options {
            match option.trim() {
                "log" => range.is_log = true,
                "int" => range.is_int = true,
                other => return Err(format!("`:{other}`: a range may end with `:log` or `:int`")),
            }
        }
        let bounds = range.bounds();
        if low >= high {
            return Err(format!(
                "{bounds} holds nothing to draw from: LOW is less than HIGH"
            ));
        }
        if range.is_log && low <= 0.0 {
            return Err(format!(
                "`:log` needs a range above 0, and {bounds} begins at {low}"
            ));
        }
        if range.is_int && !range.has_integer_bounds() {
            return Err(format!(
                "`:int` needs bounds that are integers, and they are {bounds}"
            ));
        }
        if !(high - low).is_finite() {
            return Err(format!("{bounds} is too wide"));
        }
        Ok(range)
    }

    /// Whether both bounds are integers, and all between them are numbers.
    pub(super) fn has_integer_bounds(&self) -> bool {
        let is_integer = |x: f64| x.fract() == 0.0 && x.abs() <= MAX_INTEGER;
        is_integer(self.low) && is_integer(self.high)
    }

    /// `1e-4..0.1`
    pub(super) fn bounds(&self) -> String {
        format!("{}..{}", text_of(self.low), text_of(self.high))
    }

    /// The text of the argument, in one spelling.
    pub(super) fn text(&self) -> String {
        let option = |given: bool, text: &'static str| if given { text } else { "" };
        let (log, int) = (option(self.is_log, ":log"), option(self.is_int, ":int"));
        format!("{}{log}{int}", self.bounds())
    }

    fn value(&self, bits: u64) -> String {
        let Range {
            low,
            high,
            is_log,
            is_int,
        } = *self;
        // 53 bits below 1.
        let fraction = (bits >> 11) as f64 / MAX_INTEGER;
        match (is_int, is_log) {
            (true, false) => {
                let (low, high) = (low as i64, high as i64);
                let offset = scaled(bits, high.abs_diff(low) + 1);
                (low + offset as i64).to_string()
            }
            (true, true) => {
                let drawn = log_uniform(low, high + 1.0, fraction).floor();
                (drawn.clamp(low, high) as i64).to_string()
            }
            (false, true) => {
                let drawn = log_uniform(low, high, fraction);
                let text = format!("{drawn:.*e}", (DIGITS - 1) as usize);
                self.within(&text, drawn)
            }
            (false, false) => {
                let drawn = low + fraction * (high - low);
                // As fine as a ten-thousandth of the width, to a power of ten.
                let places = DIGITS - 1 - exponent(high - low);
                let text = match usize::try_from(places) {
                    Ok(places) if places <= 300 => format!("{drawn:.places$}"),
                    _ => drawn.to_string(),
                };
                self.within(&text, drawn)
            }
        }
    }

    /// A rounded draw, where rounding has not left the range.
    fn within(&self, text: &str, drawn: f64) -> String {
        let rounded = text.parse().unwrap_or(drawn);
        text_of(rounded.clamp(self.low, self.high))
    }
}

/// A number whose logarithm is uniform. The functions are those of the crate `libm`, which have the same bits on every machine.
fn log_uniform(low: f64, high: f64, fraction: f64) -> f64 {
    let (a, b) = (libm::log(low), libm::log(high));
    libm::exp(a + fraction * (b - a))
}

/// The power of ten of the first digit.
fn exponent(x: f64) -> i32 {
    let text = format!("{x:e}");
    let power = text.split_once('e').map(|(_, power)| power.parse());
    power.and_then(Result::ok).unwrap_or(0)
}

/// The shortest digits of a number, as the language reads it.
fn text_of(x: f64) -> String {
    match x.fract() == 0.0 && x.abs() < MAX_INTEGER {
        true => format!("{x}"),
        false => format!("{x:?}"),
    }
}

fn number(text: &str) -> Result<f64, String> {
    let digits = text.trim().replace('_', "");
    match digits.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(x),
        _ => Err(format!("`{}` is no number; write LOW..HIGH", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(text: &str, count: usize) -> Vec<f64> {
        let draw = Draw::Range(Range::parse(text).unwrap().unwrap());
        let value = |i| draw.value(1, i, "X").parse::<f64>().unwrap();
        (0..count).map(value).collect()
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_both() {
        for text in ["1..3:int", "1..3:log:int", "-1..1:int"] {
            let all = draws(text, 200);
            let (low, high) = text.split(':').next().unwrap().split_once("..").unwrap();
            let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
            assert!(
                all.iter()
                    .all(|x| x.fract() == 0.0 && (low..=high).contains(x))
            );
            assert!(all.contains(&low) && all.contains(&high), "{text}");
        }
        for text in ["0.9..0.999", "1e-5..1e-1:log", "-3..5e3"] {
            let (low, high) = text.split(':').next().unwrap().split_once("..").unwrap();
            let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
            assert!(draws(text, 500).iter().all(|x| (low..=high).contains(x)));
        }
    }

    #[test]
    fn half_of_a_logarithmic_range_is_below_its_geometric_mean() {
        let all = draws("1e-4..1e-2:log", 1000);
        let below = all.iter().filter(|x| **x < 1e-3).count();
        assert!((430..570).contains(&below), "{below}");
        let below = draws("0..100", 1000).iter().filter(|x| **x < 50.0).count();
        assert!((430..570).contains(&below), "{below}");
    }

    #[test]
    fn draws_have_few_digits_and_narrow_ranges_as_many_as_they_need() {
        for x in draws("1e-4..1e-2:log", 20) {
            assert!(
                format!("{x:e}").split('e').next().unwrap().len() <= 5,
                "{x}"
            );
        }
        let mut narrow = draws("0.9990..0.9999", 100);
        narrow.sort_by(f64::total_cmp);
        narrow.dedup();
        assert!(narrow.len() > 90, "{}", narrow.len());
    }

    #[test]
    fn the_values_of_a_trial_are_fixed() {
        let draw = Draw::Range(Range::parse("64..512:log:int").unwrap().unwrap());
        let values: Vec<String> = (0..4).map(|i| draw.value(0, i, "HIDDEN")).collect();
        assert_eq!(values, ["467", "99", "168", "476"]);
    }

    #[test]
    fn ranges_that_hold_nothing_are_refused() {
        for wrong in [
            "2..1",
            "1..1",
            "0..1:log",
            "-1..1:log",
            "0.5..2:int",
            "1..2:lg",
            "a..1",
            "1..inf",
            "-1e308..1e308",
        ] {
            assert!(Range::parse(wrong).unwrap().is_err(), "{wrong}");
        }
        assert!(Range::parse("0.5").is_none());
    }
}
