//! Interval timers: every N steps, epochs or seconds (`tf.train.SecondOrStepTimer`).

use std::time::Duration;

use trainspec_compiler::typed::Interval;

/// The progress of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Progress {
    /// Updates so far.
    pub(crate) step: u64,
    /// Epochs: passes over the data that have ended.
    pub(crate) passes: u64,
    /// Wall time since the start.
    pub(crate) time: Duration,
}

impl Progress {
    /// Whether that interval has passed since the start.
    pub(crate) fn reaches(&self, interval: Interval) -> bool {
        match interval {
            Interval::Steps(n) => self.step >= n as u64,
            Interval::Epochs(n) => self.passes >= n as u64,
            Interval::Seconds(s) => self.time.as_secs_f64() >= s,
        }
    }
}

/// An interval timer.
#[derive(Debug, Clone)]
pub(crate) struct Timer {
    interval: Interval,
    /// The step when it was last asked.
    step: u64,
    /// The passes when it was last asked.
    passes: u64,
    /// The seconds when it last triggered.
    time: f64,
}

impl Timer {
    pub(crate) fn every(interval: Interval) -> Timer {
        Timer {
            interval,
            step: 0,
            passes: 0,
            time: 0.0,
        }
    }

    /// Goes on from here: what was due up to now does not trigger again after a resume.
    pub(crate) fn begin(&mut self, now: &Progress) {
        (self.step, self.passes) = (now.step, now.passes);
        self.time = now.time.as_secs_f64();
    }

    /// Whether it triggers; asked once after each step. It does not where the step is the one it was last asked for, since the update was
    /// skipped.
    pub(crate) fn triggers(&mut self, now: &Progress) -> bool {
        if now.step <= self.step {
            return false;
        }
        self.step = now.step;
        match self.interval {
            Interval::Steps(n) => now.step.is_multiple_of(n.max(1) as u64),
            Interval::Epochs(n) => {
                let n = n.max(1) as u64;
                let triggered = now.passes / n > self.passes / n;
                self.passes = now.passes;
                triggered
            }
            Interval::Seconds(s) => {
                let triggered = now.time.as_secs_f64() - self.time >= s;
                if triggered {
                    self.time = now.time.as_secs_f64();
                }
                triggered
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: u64, passes: u64, seconds: u64) -> Progress {
        Progress {
            step,
            passes,
            time: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn steps_are_counted_from_the_beginning() {
        let mut timer = Timer::every(Interval::Steps(3));
        let steps: Vec<u64> = (1..10).filter(|s| timer.triggers(&at(*s, 0, 0))).collect();
        assert_eq!(steps, [3, 6, 9]);
    }

    #[test]
    fn an_epoch_triggers_once_even_if_several_end_at_once() {
        let mut timer = Timer::every(Interval::Epochs(2));
        let passes = [0, 1, 1, 2, 2, 3, 6, 6, 7];
        let found: Vec<bool> = passes
            .iter()
            .zip(1..)
            .map(|(p, step)| timer.triggers(&at(step, *p, 0)))
            .collect();
        assert_eq!(
            found,
            [false, false, false, true, false, false, true, false, false]
        );
    }

    #[test]
    fn seconds_are_measured_from_the_last_trigger() {
        let mut timer = Timer::every(Interval::Seconds(10.0));
        let found: Vec<u64> = [5, 11, 15, 20, 21, 40]
            .into_iter()
            .filter(|s| timer.triggers(&at(*s, 0, *s)))
            .collect();
        assert_eq!(found, [11, 21, 40]);
    }
}
