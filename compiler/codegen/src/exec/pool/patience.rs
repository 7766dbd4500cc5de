//! How long it pays to spin.
//!
//! In: how long each wait for work has been. Out: how long to spin next time before going to sleep.

use std::time::Duration;

/// How long a worker spins before it sleeps. Learns from how long work kept it waiting.
pub(super) struct Patience {
    /// The time to spin.
    pub(super) spin: Duration,
    misses: u32,
}

impl Patience {
    /// A worker begins hopeful.
    pub(super) const START: Patience = Patience {
        spin: Patience::LONGEST,
        misses: 0,
    };
    const LONGEST: Duration = Duration::from_millis(1);
    const SHORTEST: Duration = Duration::from_micros(16);
    /// How many times in a row spinning must fail before there is less of it.
    const MISSES: u32 = 4;

    /// Takes note of a wait that has ended. One that half the spin would have bridged speaks neither for nor against it:
    /// the short waits within a step must not hide the long ones between steps.
    pub(super) fn learn(&mut self, waited: Duration) {
        if waited > Patience::LONGEST {
            self.misses += 1;
            if self.misses == Patience::MISSES {
                self.misses = 0;
                self.spin = (self.spin / 2).max(Patience::SHORTEST);
            }
        } else if waited > self.spin / 2 {
            self.misses = 0;
            self.spin = (self.spin * 2).min(Patience::LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_shrinks_when_it_does_not_pay_and_grows_when_it_does() {
        let mut patience = Patience::START;
        let learn = |patience: &mut Patience, millis: u64, times: u32| {
            (0..times).for_each(|_| patience.learn(Duration::from_millis(millis)));
        };
        learn(&mut patience, 5, 3);
        assert_eq!(patience.spin, Patience::LONGEST);
        learn(&mut patience, 5, 1);
        assert_eq!(patience.spin, Patience::LONGEST / 2);
        for _ in 0..100 {
            learn(&mut patience, 0, 10);
            learn(&mut patience, 5, 1);
        }
        assert_eq!(patience.spin, Patience::SHORTEST);
        learn(&mut patience, 1, 1);
        assert_eq!(patience.spin, Patience::SHORTEST * 2);
        learn(&mut patience, 1, 10);
        assert_eq!(patience.spin, Patience::LONGEST);
    }
}
