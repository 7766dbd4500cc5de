//! Adaptive spinning: how long a worker spins before it blocks.
//!
//! In: how long each wait for work has been. Out: how long to spin next time before going to sleep.

use std::time::Duration;

/// How long a worker spins before it sleeps. Adapts to how long it has waited for work.
pub(super) struct AdaptiveSpin {
    /// The time to spin.
    pub(super) duration: Duration,
    misses: u32,
}

impl AdaptiveSpin {
    /// A worker begins with the longest spin.
    pub(super) const START: AdaptiveSpin = AdaptiveSpin {
        duration: AdaptiveSpin::MAX_DURATION,
        misses: 0,
    };
    const MAX_DURATION: Duration = Duration::from_millis(1);
    const MIN_DURATION: Duration = Duration::from_micros(16);
    /// How many times in a row spinning must fail before the time is halved.
    const MISSES_UNTIL_HALVED: u32 = 4;

    /// Adapts to a wait that has ended. One that half the spin would have covered changes nothing:
    /// the short waits within a step must not hide the long ones between steps.
    pub(super) fn learn(&mut self, waited: Duration) {
        if waited > AdaptiveSpin::MAX_DURATION {
            self.misses += 1;
            if self.misses == AdaptiveSpin::MISSES_UNTIL_HALVED {
                self.misses = 0;
                self.duration = (self.duration / 2).max(AdaptiveSpin::MIN_DURATION);
            }
        } else if waited > self.duration / 2 {
            self.misses = 0;
            self.duration = (self.duration * 2).min(AdaptiveSpin::MAX_DURATION);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_shrinks_when_it_does_not_pay_and_grows_when_it_does() {
        let mut spin = AdaptiveSpin::START;
        let learn = |spin: &mut AdaptiveSpin, millis: u64, times: u32| {
            (0..times).for_each(|_| spin.learn(Duration::from_millis(millis)));
        };
        learn(&mut spin, 5, 3);
        assert_eq!(spin.duration, AdaptiveSpin::MAX_DURATION);
        learn(&mut spin, 5, 1);
        assert_eq!(spin.duration, AdaptiveSpin::MAX_DURATION / 2);
        for _ in 0..100 {
            learn(&mut spin, 0, 10);
            learn(&mut spin, 5, 1);
        }
        assert_eq!(spin.duration, AdaptiveSpin::MIN_DURATION);
        learn(&mut spin, 1, 1);
        assert_eq!(spin.duration, AdaptiveSpin::MIN_DURATION * 2);
        learn(&mut spin, 1, 10);
        assert_eq!(spin.duration, AdaptiveSpin::MAX_DURATION);
    }
}
