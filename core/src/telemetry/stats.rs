//! Statistics of a client, counted by atomics without locks.
//!
//! Each number is exact. While others count, two numbers may be from different moments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Error, ErrorKind, LossReason};
use crate::runtime::machine::nanos;

/// Statistics of a client in this process. See [`Redlock::stats`](crate::Redlock::stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Acquires that returned a lease.
    pub granted: u64,
    /// Calls of `try_acquire` that returned no lease.
    pub refused: u64,
    /// Acquires whose `wait` was over.
    pub timed_out: u64,
    /// Acquires that failed because too few nodes replied.
    pub unavailable: u64,
    /// Leases that their owner released.
    pub released: u64,
    /// Renewals that a quorum confirmed.
    pub renewed: u64,
    /// Renewals that no quorum confirmed. Each is retried until the lease ends.
    pub unrenewed: u64,
    /// Lost leases, by reason. `forked` stays 0, because a forked child does not count the leases of its parent.
    pub lost: Vec<(LossReason, u64)>,
    /// Connections that were opened again after one was closed.
    pub reconnects: u64,
    /// Acquires that are under way now.
    pub waiting: u64,
    /// Leases that are held now.
    pub held: u64,
    /// Total time that acquires waited, until the round that granted the lease or until `wait` was over.
    pub time_waited: Duration,
    /// Total time that released and lost leases were held.
    pub time_held: Duration,
}

const REASONS: [LossReason; 9] = LossReason::ALL;

/// The counters of one client in this process.
#[derive(Default)]
pub(crate) struct Counts {
    granted: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    unavailable: AtomicU64,
    released: AtomicU64,
    renewed: AtomicU64,
    unrenewed: AtomicU64,
    reconnects: AtomicU64,
    /// Indexed by the discriminant of the reason.
    lost: [AtomicU64; REASONS.len()],
    /// `waited` and `held` are in nanoseconds.
    waited: AtomicU64,
    held: AtomicU64,
}

impl Counts {
    pub(crate) fn granted(&self, waited: Duration) {
        self.granted.fetch_add(1, Relaxed);
        // Most acquires do not wait.
        if !waited.is_zero() {
            self.waited.fetch_add(nanos(waited), Relaxed);
        }
    }

    /// Counts a `try_acquire` that returned `None`.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Timeout => self.timed_out.fetch_add(1, Relaxed),
            ErrorKind::Unavailable => self.unavailable.fetch_add(1, Relaxed),
            _ => return,
        };
        self.waited.fetch_add(error.waited().map_or(0, nanos), Relaxed);
    }

    pub(crate) fn released(&self, held: Duration) {
        self.released.fetch_add(1, Relaxed);
        self.held.fetch_add(nanos(held), Relaxed);
    }

    pub(crate) fn lost(&self, reason: LossReason, held: Duration) {
        self.lost[reason as usize].fetch_add(1, Relaxed);
        self.held.fetch_add(nanos(held), Relaxed);
    }

    pub(crate) fn renewed(&self, confirmed: bool) {
        let count = if confirmed { &self.renewed } else { &self.unrenewed };
        count.fetch_add(1, Relaxed);
    }

    /// Counts a connection that replaced an earlier one.
    pub(crate) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }

    /// Reads the counters. The caller fills in the current values.
    pub(crate) fn snapshot(&self) -> Stats {
        let count = |count: &AtomicU64| count.load(Relaxed);
        Stats {
            granted: count(&self.granted),
            refused: count(&self.refused),
            timed_out: count(&self.timed_out),
            unavailable: count(&self.unavailable),
            released: count(&self.released),
            renewed: count(&self.renewed),
            unrenewed: count(&self.unrenewed),
            reconnects: count(&self.reconnects),
            lost: REASONS.into_iter().zip(self.lost.iter().map(count)).collect(),
            time_waited: Duration::from_nanos(count(&self.waited)),
            time_held: Duration::from_nanos(count(&self.held)),
            ..Stats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_reason_has_a_counter() {
        let counts = Counts::default();
        for (number, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            counts.lost(reason, Duration::from_secs(number as u64));
        }
        let stats = counts.snapshot();
        assert!(stats.lost.iter().all(|(_, lost)| *lost == 1), "{stats:?}");
        assert_eq!(stats.time_held, Duration::from_secs(36));
    }
}
