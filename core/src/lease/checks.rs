//! How many checks of a lease are to be made: one at a time, however often it is said to have changed.
//!
//! A node may push a change a thousand times while one check is under way. What the first check may have
//! missed, one more that begins after it has seen, whatever was pushed in between.

use std::sync::atomic::{AtomicU8, Ordering};

/// Nobody checks.
const NO_CHECK: u8 = 0;
/// A check is under way, and nothing has changed since it began.
const ONE_CHECK: u8 = 1;
/// A check is under way, and something has changed since.
const ONE_MORE: u8 = 2;

/// The checks of one lease.
///
/// An atomic rather than a part of the lease's phase: whoever pushes never waits for a lease's lock.
#[derive(Default)]
pub(super) struct Checks(AtomicU8);

impl Checks {
    /// Whether a check is to be started: one that is under way is made once more instead.
    pub(super) fn begin(&self) -> bool {
        let more = |checks| Some(if checks == NO_CHECK { ONE_CHECK } else { ONE_MORE });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) == Ok(NO_CHECK)
    }

    /// A check is over; whether it is to be made once more.
    pub(super) fn end(&self) -> bool {
        let less = |checks| Some(if checks == ONE_MORE { ONE_CHECK } else { NO_CHECK });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(ONE_MORE)
    }
}
