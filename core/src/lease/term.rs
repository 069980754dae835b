//! When a lease ends, and whether it has ended, as two atomic words. No reader waits for another thread.
//!
//! A thread that polls a lease may be suspended at any point. If it held a lock then, the background thread would wait
//! for it, and renew no other lease.
//!
//! `tests/models` checks every interleaving of these functions.

use crate::runtime::atomic::{AtomicU64, Ordering};

/// The bit of a deadline that `max_hold` has limited.
const CAPPED: u64 = 1 << 63;

/// The term of a lease. Times are in nanoseconds, and ends have numbers other than zero.
pub(super) struct Term {
    /// The deadline, which only moves forward, and [`CAPPED`].
    deadline: AtomicU64,
    /// How the lease ended, or zero. Set once.
    end: AtomicU64,
}

/// The deadline, and whether `max_hold` has limited it.
pub(super) type Deadline = (u64, bool);

impl Term {
    pub(super) fn new(deadline: Deadline) -> Self {
        Self { deadline: AtomicU64::new(word(deadline)), end: AtomicU64::new(0) }
    }

    /// The deadline, also after the end.
    pub(super) fn deadline(&self) -> Deadline {
        deadline(self.deadline.load(Ordering::Acquire))
    }

    /// How the lease ended, or zero.
    pub(super) fn ended(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Moves the deadline forward. An earlier one changes nothing. A limit by `max_hold` stays.
    ///
    /// If another thread ends the lease at this moment, the end counts.
    pub(super) fn extend(&self, to: Deadline) {
        let later = |before| {
            let (at, capped) = deadline(before);
            Some(word((at.max(to.0), capped || to.1)))
        };
        let _ = self.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// Ends the lease. Returns false if it had ended before, and then changes nothing.
    pub(super) fn finish(&self, end: u64) -> bool {
        self.end.compare_exchange(0, end, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

fn word((at, capped): Deadline) -> u64 {
    at.min(CAPPED - 1) | if capped { CAPPED } else { 0 }
}

fn deadline(word: u64) -> Deadline {
    (word & !CAPPED, word & CAPPED != 0)
}
