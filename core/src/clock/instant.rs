//! A point in time: a number, and what can be done with it.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time of one [`Clock`](super::Clock); only differences mean anything.
///
/// In nanoseconds, of which there is room for 584 years: every lease has several of these, and every pair some twenty sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

/// Of more than there is room for, the most.
const fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

impl Instant {
    /// The instant this long after the clock's own start.
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    ///
    /// Zero rather than below it: what is left of a lease that is over is nothing.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant so many nanoseconds after it.
    pub(super) const fn from_nanos(elapsed: u64) -> Self {
        Self(elapsed)
    }

    /// Nanoseconds since the clock's own start.
    pub fn as_nanos(self) -> u128 {
        self.0.into()
    }
}

/// Later than any other.
/// Adding to it stays there.
pub(crate) const NEVER: Instant = Instant::from_start(Duration::MAX);

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        // "For ever" is a duration too: sums of it must not run over.
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        // Before the clock's start there is nothing.
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}
