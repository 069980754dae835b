//! A point in time, and arithmetic with it.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time of one [`Clock`](super::Clock). Only differences have a meaning.
///
/// Stored as nanoseconds in 64 bits, which is enough for 584 years. It is compact because every lease has several of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

/// Converts to nanoseconds, saturating at the maximum.
const fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

impl Instant {
    /// The instant at `elapsed` after the start of the clock.
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    /// Time from `earlier` to `self`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant at `elapsed` nanoseconds after the start of the clock.
    pub(super) const fn from_nanos(elapsed: u64) -> Self {
        Self(elapsed)
    }

    /// Nanoseconds since the start of the clock.
    pub fn as_nanos(self) -> u128 {
        self.0.into()
    }
}

/// Later than any other instant. Adding to it does not change it.
pub(crate) const NEVER: Instant = Instant::from_start(Duration::MAX);

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        // Saturates, because "forever" is also a duration.
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        // Saturates at the start of the clock.
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}
