//! When something happens that happens every so often.

use std::time::Duration;

use trainspec_compiler::typed::Interval;

/// How far a training has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    /// Updates so far.
    pub(super) step: u64,
    /// Passes over the data that are over.
    pub(super) passes: u64,
    /// The time since the start.
    pub(super) time: Duration,
}

impl Moment {
    /// Whether so much lies behind it.
    pub(super) fn reaches(&self, interval: Interval) -> bool {
        match interval {
            Interval::Steps(n) => self.step >= n as u64,
            Interval::Epochs(n) => self.passes >= n as u64,
            Interval::Seconds(s) => self.time.as_secs_f64() >= s,
        }
    }
}

/// Something that happens every so often.
#[derive(Debug, Clone)]
pub(super) struct Due {
    interval: Interval,
    passes: u64,
    time: f64,
}

impl Due {
    pub(super) fn every(interval: Interval) -> Due {
        Due {
            interval,
            passes: 0,
            time: 0.0,
        }
    }

    /// Whether it is time, asked once after each step.
    pub(super) fn is_due(&mut self, now: &Moment) -> bool {
        match self.interval {
            Interval::Steps(n) => now.step.is_multiple_of(n.max(1) as u64),
            Interval::Epochs(n) => {
                let n = n.max(1) as u64;
                let due = now.passes / n > self.passes / n;
                self.passes = now.passes;
                due
            }
            Interval::Seconds(s) => {
                let due = now.time.as_secs_f64() - self.time >= s;
                if due {
                    self.time = now.time.as_secs_f64();
                }
                due
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: u64, passes: u64, seconds: u64) -> Moment {
        Moment {
            step,
            passes,
            time: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn steps_are_counted_from_the_beginning() {
        let mut due = Due::every(Interval::Steps(3));
        let steps: Vec<u64> = (1..10).filter(|s| due.is_due(&at(*s, 0, 0))).collect();
        assert_eq!(steps, [3, 6, 9]);
    }

    #[test]
    fn a_pass_is_noticed_once_even_if_several_end_at_once() {
        let mut due = Due::every(Interval::Epochs(2));
        let passes = [0, 1, 1, 2, 2, 3, 6, 6, 7];
        let found: Vec<bool> = passes.iter().map(|p| due.is_due(&at(1, *p, 0))).collect();
        assert_eq!(
            found,
            [false, false, false, true, false, false, true, false, false]
        );
    }

    #[test]
    fn time_runs_from_the_last_time() {
        let mut due = Due::every(Interval::Seconds(10.0));
        let found: Vec<u64> = [5, 11, 15, 20, 21, 40]
            .into_iter()
            .filter(|s| due.is_due(&at(1, 0, *s)))
            .collect();
        assert_eq!(found, [11, 21, 40]);
    }
}
