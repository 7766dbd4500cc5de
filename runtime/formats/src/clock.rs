//! Time: the one clock of whatever waits, measures or dates.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that can sleep. Tests pass a fake one.
///
/// ```
/// use std::time::Duration;
/// use trainspec_formats::clock::Clock;
///
/// /// A clock that stands still.
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Duration { Duration::ZERO }
///     fn unix_seconds(&self) -> f64 { 0.0 }
///     fn sleep(&self, _: Duration) {}
/// }
/// assert_eq!(Stopped.now(), Duration::ZERO);
/// ```
pub trait Clock {
    /// Monotonic time since a fixed origin.
    fn now(&self) -> Duration;

    /// Seconds since the Unix epoch, as events are dated (`EnvTime::NowSeconds`).
    fn unix_seconds(&self) -> f64;

    /// Sleeps.
    fn sleep(&self, time: Duration);
}

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_seconds(&self) -> f64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0.0, |since| since.as_secs_f64())
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A clock that stands still at a Unix time, for files with the same bytes in every run.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock {
    /// Seconds since the Unix epoch.
    pub unix_seconds: f64,
}

impl Clock for FixedClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_seconds(&self) -> f64 {
        self.unix_seconds
    }

    fn sleep(&self, _: Duration) {}
}
