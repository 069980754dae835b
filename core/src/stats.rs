//! What a client has done so far, in numbers: counted where it happens, by atomics that nobody waits for.
//!
//! Each is exact by itself. Read while others count, two of them may be of different moments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Error, ErrorKind, LossReason};

/// What a client has done in this process so far; see [`Redlock::stats`](crate::Redlock::stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Acquires that gave a lease.
    pub granted: u64,
    /// Acquires of one round that found somebody else: `try_acquire`.
    pub refused: u64,
    /// Acquires whose `wait` was over.
    pub timed_out: u64,
    /// Acquires for which too few nodes answered.
    pub unavailable: u64,
    /// Leases that their owner gave back.
    pub released: u64,
    /// Renewals that a quorum confirmed.
    pub renewed: u64,
    /// Renewals that no quorum confirmed: each is tried again until the lease is over.
    pub unrenewed: u64,
    /// Leases that were lost, for each reason that there is. `Forked` stays 0: a forked child counts none of its parent's.
    pub lost: Vec<(LossReason, u64)>,
    /// Connections that were opened anew, after one that ended.
    pub reconnects: u64,
    /// Acquires that are under way now.
    pub waiting: u64,
    /// Leases that are held now.
    pub held: u64,
    /// For how long all acquires together had to wait before the round that gave the lease, or until `wait` was over.
    pub time_waited: Duration,
    /// For how long all leases together were held that were released or lost.
    pub time_held: Duration,
}

/// In the order of their numbers.
const REASONS: [LossReason; 9] = [
    LossReason::Expired,
    LossReason::Taken,
    LossReason::Missing,
    LossReason::Quorum,
    LossReason::MaxHold,
    LossReason::Forked,
    LossReason::Closed,
    LossReason::Revoked,
    LossReason::Internal,
];

/// One client's counters in this process.
#[derive(Default)]
pub(crate) struct Counts {
    granted: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    unavailable: AtomicU64,
    released: AtomicU64,
    renewed: AtomicU64,
    unrenewed: AtomicU64,
    /// By the number of the reason.
    lost: [AtomicU64; REASONS.len()],
    /// In nanoseconds, as the next.
    waited: AtomicU64,
    held: AtomicU64,
}

impl Counts {
    /// An acquire gave a lease, after so long.
    pub(crate) fn granted(&self, waited: Duration) {
        self.granted.fetch_add(1, Relaxed);
        // Mostly nothing was waited for.
        if !waited.is_zero() {
            self.waited.fetch_add(nanos(waited), Relaxed);
        }
    }

    /// Somebody else was first, where nothing is waited for.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// An acquire ended without a lease.
    pub(crate) fn failed(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Timeout => self.timed_out.fetch_add(1, Relaxed),
            ErrorKind::Unavailable => self.unavailable.fetch_add(1, Relaxed),
            _ => return,
        };
        self.waited.fetch_add(error.waited().map_or(0, nanos), Relaxed);
    }

    /// A lease was given back by its owner, after so long.
    pub(crate) fn released(&self, held: Duration) {
        self.released.fetch_add(1, Relaxed);
        self.held.fetch_add(nanos(held), Relaxed);
    }

    /// One was lost.
    pub(crate) fn lost(&self, reason: LossReason, held: Duration) {
        self.lost[reason as usize].fetch_add(1, Relaxed);
        self.held.fetch_add(nanos(held), Relaxed);
    }

    /// A renewal's outcome.
    pub(crate) fn renewed(&self, confirmed: bool) {
        let count = if confirmed { &self.renewed } else { &self.unrenewed };
        count.fetch_add(1, Relaxed);
    }

    /// What is counted here; the rest is of what is there now.
    pub(crate) fn read(&self) -> Stats {
        let count = |count: &AtomicU64| count.load(Relaxed);
        Stats {
            granted: count(&self.granted),
            refused: count(&self.refused),
            timed_out: count(&self.timed_out),
            unavailable: count(&self.unavailable),
            released: count(&self.released),
            renewed: count(&self.renewed),
            unrenewed: count(&self.unrenewed),
            lost: REASONS.into_iter().zip(self.lost.iter().map(count)).collect(),
            time_waited: Duration::from_nanos(count(&self.waited)),
            time_held: Duration::from_nanos(count(&self.held)),
            ..Stats::default()
        }
    }
}

/// Enough for 500 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter() {
        let counts = Counts::default();
        for (number, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            counts.lost(reason, Duration::from_secs(number as u64));
        }
        let stats = counts.read();
        assert!(stats.lost.iter().all(|(_, lost)| *lost == 1), "{stats:?}");
        assert_eq!(stats.time_held, Duration::from_secs(36));
    }
}
