//! The state of one thread or event loop that sleeps until it is woken, as one atomic word.
//!
//! A ring sets [`RUNG`]. Only the first ring of a sleep has to wake the sleeper, which costs a system call. Later rings
//! return immediately, but not before the sleeper is actually woken. A ringing thread may be suspended between its
//! change of the word and its system call. Until that call is done, every other ring wakes the sleeper too.
//!
//! `tests/models` checks every interleaving of these functions.

use super::atomic::{AtomicU32, Ordering};

/// The sleeper must look for work. Each ring sets it, and each look resets it.
const RUNG: u32 = 1;
/// The sleeper waits on a descriptor, see [`SleepKind::Polling`].
const POLLING: u32 = 2;
/// The sleeper is parked, see [`SleepKind::Parked`].
const PARKED: u32 = 4;
/// The sleeper was woken since it fell asleep. Further rings have nothing to do.
const WOKEN: u32 = 8;
/// The remaining bits count the sleeps, so that a late ring does not mark a later sleep as woken.
const NEXT_SLEEP: u32 = 16;

/// How a thread sleeps, and therefore how it must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SleepKind {
    /// On a descriptor, which must become readable.
    Polling = POLLING,
    /// Without one: it must be unparked.
    Parked = PARKED,
}

/// The state of one sleeper. Any thread may ring. Only the sleeper calls the other functions.
pub(crate) struct Wakeup(AtomicU32);

impl Wakeup {
    /// An awake sleeper that must look before it sleeps.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(RUNG))
    }

    /// Makes the sleeper look. Calls `wake` if it sleeps and may not have been woken yet.
    pub(crate) fn ring(&self, wake: impl FnOnce(SleepKind)) {
        // Release, also if it was rung before: the look must see what this thread did before its ring.
        let rung = self.0.fetch_or(RUNG, Ordering::AcqRel) | RUNG;
        let sleep = match rung & (POLLING | PARKED | WOKEN) {
            POLLING => SleepKind::Polling,
            PARKED => SleepKind::Parked,
            _ => return,
        };
        wake(sleep);
        // After the call: until then, other rings must not rely on this thread, which may be suspended. The count is
        // compared too, because by now this may be another sleep, whose ring is still pending.
        let woken = rung | WOKEN;
        let _ = self.0.compare_exchange(rung, woken, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Returns whether it was rung since the last look, and resets that. The sleeper is awake afterwards.
    pub(crate) fn take_rung(&self) -> bool {
        // Only the sleeper changes the count.
        let count = self.0.load(Ordering::Relaxed) & !(NEXT_SLEEP - 1);
        // Acquire: what the ringing threads did is visible to the work that follows.
        self.0.swap(count, Ordering::AcqRel) & RUNG != 0
    }

    /// Returns whether it was rung since the last look.
    pub(crate) fn is_rung(&self) -> bool {
        self.0.load(Ordering::Acquire) & RUNG != 0
    }

    /// Declares that the sleeper sleeps from now on. Returns false if it must look first.
    pub(crate) fn begin_sleep(&self, how: SleepKind) -> bool {
        let awake = self.0.load(Ordering::Relaxed) & !(NEXT_SLEEP - 1);
        let asleep = awake.wrapping_add(NEXT_SLEEP) | how as u32;
        self.0.compare_exchange(awake, asleep, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Declares that the sleeper is awake again, for whatever reason.
    pub(crate) fn wake_up(&self) {
        self.0.fetch_and(!(POLLING | PARKED | WOKEN), Ordering::AcqRel);
    }
}
