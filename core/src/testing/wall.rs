//! The wall clock of tests: as far as the test has come, since some day of 2023.

use std::time::Duration;

/// What it says at the start.
const START: u64 = 1_700_000_000_000_000;

/// Microseconds since 1970.
pub(super) fn wall_micros(elapsed: Duration) -> u64 {
    START.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}
