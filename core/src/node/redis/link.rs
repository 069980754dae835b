//! What a node may know of its connection without asking it.
//!
//! Written by the connection's task, read by anybody: hence atomics and a mutex that is held for a copy only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::native::Delete;
use crate::clock::Instant;
use crate::node::{Fault, Outage};
use crate::spelling::spelled;

/// After this long without a command a connection is probed before the next one.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// From when on a node may take first votes.
#[derive(Clone, Copy, Default)]
pub(super) enum VotesFrom {
    /// There is no guard, or the server is old enough.
    #[default]
    Now,
    /// It restarted, and may have forgotten what others hold.
    At(Instant),
    /// Its age cannot be read.
    Never,
}

/// The connection's state, for its node.
#[derive(Default)]
pub(super) struct Link {
    /// Whether there is a connection.
    open: AtomicBool,
    /// When a command was last sent over it, in nanoseconds of the client's clock.
    used: AtomicU64,
    /// Whether the server tells of changes by itself.
    pushes: AtomicBool,
    deletes_by: Mutex<Option<Delete>>,
    /// From when on the server takes first votes.
    votes_from: Mutex<VotesFrom>,
    /// From when on the server takes first votes in hash slots that another server had before. Until then it may lack
    /// what that server granted last.
    slots_from: Mutex<HashMap<u16, Instant>>,
    /// Deletes that were asked over this connection and have no answer yet.
    deletes: AtomicUsize,
    /// Some key holds more than any token has: no values are read that are not cut short.
    long_values: AtomicBool,
    /// How many connections there were so far.
    opened: AtomicU64,
    /// Until when deletes are to be sent again: the keys expire by then.
    owed_until: Mutex<Option<Instant>>,
    /// What is logged while the server cannot be used.
    pub(super) outage: Outage,
}

impl Link {
    /// Whether there is a connection that commands may go out over now: it was not idle for long.
    pub(super) fn is_ready(&self, now: impl FnOnce() -> Instant) -> bool {
        self.open.load(Ordering::Relaxed) && !self.is_idle(now())
    }

    /// Whether nothing was sent for long: a NAT or a load balancer on the way may have forgotten the connection.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let used = Duration::from_nanos(self.used.load(Ordering::Relaxed));
        now.since(Instant::from_start(used)) > MAX_IDLE
    }

    /// The connection is in use.
    pub(super) fn set_used(&self, now: Instant) {
        self.used.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether changes of keys are told by push at this moment.
    pub(super) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }

    /// How many connections came after another one.
    pub(super) fn reconnects(&self) -> u64 {
        self.opened.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Whether some key holds more than any token has.
    pub(super) fn has_long_values(&self) -> bool {
        self.long_values.load(Ordering::Relaxed)
    }

    /// One that does was read.
    pub(super) fn has_read_long_values(&self) {
        self.long_values.store(true, Ordering::Relaxed);
    }

    /// How the last server that was there deletes without a script, if that is wanted.
    pub(super) fn deletes_by(&self) -> Option<Delete> {
        *self.deletes_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the server takes no first vote now, if it does not. `slot`: that of the vote's keys.
    ///
    /// Its text says when it will, for whoever waits for a quorum meanwhile.
    pub(super) fn guard_fault(
        &self,
        slot: impl FnOnce() -> Option<u16>,
        now: impl FnOnce() -> Instant,
    ) -> Option<Fault> {
        let slots = self.slots_from.lock().unwrap_or_else(PoisonError::into_inner);
        // Nearly always empty, and then the slot need not be known.
        let not_before = if slots.is_empty() { None } else { slot() };
        let not_before = not_before.and_then(|slot| slots.get(&slot).copied());
        drop(slots);
        let left = match self.votes_from() {
            VotesFrom::Now => not_before?.since(now()),
            VotesFrom::Never => {
                let option = spelled("restart_guard");
                return Some(Fault::new(format!(
                    "its uptime cannot be read (INFO), so it takes no first vote while {option} is on"
                )));
            }
            VotesFrom::At(from) => not_before.map_or(from, |at| at.max(from)).since(now()),
        };
        (!left.is_zero()).then(|| {
            let (left, option) = (left.as_secs_f64(), spelled("restart_guard"));
            Fault::new(format!("it restarted within {option}, or took another server's place, and votes again in {left:.1} s"))
        })
    }

    /// From when on the server takes first votes.
    pub(super) fn votes_from(&self) -> VotesFrom {
        *self.votes_from.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots came from another server `now`: no first vote in them before `from`.
    pub(super) fn guard_slots(
        &self,
        slots: impl Iterator<Item = u16>,
        now: Instant,
        from: Instant,
    ) {
        let mut slots_from = self.slots_from.lock().unwrap_or_else(PoisonError::into_inner);
        slots_from.retain(|_, from| *from > now);
        slots_from.extend(slots.map(|slot| (slot, from)));
    }

    /// Its age was read.
    pub(super) fn set_votes_from(&self, votes_from: VotesFrom) {
        *self.votes_from.lock().unwrap_or_else(PoisonError::into_inner) = votes_from;
    }

    /// There is a connection.
    pub(super) fn opened(&self, pushes: bool, deletes_by: Option<Delete>, votes_from: VotesFrom) {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.store(true, Ordering::Relaxed);
        *self.deletes_by.lock().unwrap_or_else(PoisonError::into_inner) = deletes_by;
        self.pushes.store(pushes, Ordering::Relaxed);
        self.set_votes_from(votes_from);
    }

    /// There is none any more: of its deletes those are owed that were not answered.
    ///
    /// From when on it votes stays as it was: it is read anew with the next connection, before anything is
    /// asked over it.
    pub(super) fn closed(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.pushes.store(false, Ordering::Relaxed);
        self.deletes.store(0, Ordering::Relaxed);
    }

    /// Whether a key may be left behind if nobody waits: a delete is under way, or owed until the node is back.
    pub(super) fn owes(&self, now: Instant) -> bool {
        self.has_deletes() || self.has_pending_deletes(now)
    }

    /// Whether a delete waits to be sent again, and can still have something to delete.
    pub(super) fn has_pending_deletes(&self, now: Instant) -> bool {
        self.owed().is_some_and(|until| until > now)
    }

    /// Whether deletes have no answer yet.
    pub(super) fn has_deletes(&self) -> bool {
        self.deletes.load(Ordering::Relaxed) > 0
    }

    /// A delete goes out.
    pub(super) fn delete_asked(&self) {
        self.deletes.fetch_add(1, Ordering::Relaxed);
    }

    /// A delete has its answer.
    pub(super) fn delete_answered(&self) {
        self.deletes.fetch_sub(1, Ordering::Relaxed);
    }

    /// A delete is to be sent again.
    pub(super) fn owe(&self, until: Instant) {
        let mut owed = self.owed();
        *owed = (*owed).max(Some(until));
    }

    /// All that was owed goes out.
    pub(super) fn paying(&self) {
        *self.owed() = None;
    }

    fn owed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.owed_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
