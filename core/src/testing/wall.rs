//! The wall clock of tests: a fixed day in 2023 plus the elapsed time.

use std::time::Duration;

/// The wall clock at the start, in microseconds since 1970.
const START: u64 = 1_700_000_000_000_000;

/// Microseconds since 1970.
pub(super) fn wall_micros(elapsed: Duration) -> u64 {
    START.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}
