//! Shares the state of a connection with its node.
//!
//! The connection task writes it, and any thread may read it. Therefore it consists of atomics and of mutexes that are
//! locked only briefly.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{Fault, Outage};
use crate::runtime::lock;
use crate::text::spelled;

/// The idle time after which a connection is probed before the next command.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// When a server takes first votes.
#[derive(Clone, Copy, Default)]
pub(super) enum VotesFrom {
    /// Immediately, because the guard is off or the server is old enough.
    #[default]
    Now,
    /// The server restarted, and may have lost leases.
    At(Instant),
    /// Never, because its age cannot be read.
    Never,
}

/// A hash slot that another server had before.
#[derive(Clone, Copy)]
pub(super) struct MovedSlot {
    /// When the server may extend leases in the slot. Until then, some clients may still use the previous server, which
    /// grants the lock when the lease has expired there.
    pub(super) extends_from: Instant,
    /// When the server takes first votes in the slot. Until then it may lack the last grants of the previous server.
    pub(super) votes_from: Instant,
}

/// The state of the connection for its node.
#[derive(Default)]
pub(super) struct Link {
    open: AtomicBool,
    /// When a command was last sent over it, in nanoseconds of the client's clock.
    used: AtomicU64,
    /// Whether the server pushes changes.
    pushes: AtomicBool,
    /// The number of deletes over this connection without a reply.
    deletes: AtomicUsize,
    /// Whether some key holds a value that is longer than any token. Values are then only read up to a limit.
    long_values: AtomicBool,
    /// Whether there was a connection.
    opened: AtomicBool,
    state: Mutex<State>,
    /// The outage log of the server.
    pub(super) outage: Outage,
}

/// The rest, which rarely changes.
#[derive(Default)]
struct State {
    /// When the server takes first votes.
    votes_from: VotesFrom,
    /// When the server may extend leases, if it replaced another one.
    extends_from: Option<Instant>,
    /// The hash slots that another server had before.
    moved_slots: HashMap<u16, MovedSlot>,
    /// Until when deletes must be sent again. The keys expire by then.
    pending_until: Option<Instant>,
}

impl State {
    fn moved_slot(&self, slot: impl FnOnce() -> Option<u16>) -> Option<MovedSlot> {
        // Almost always empty, and the slot is then not computed.
        if self.moved_slots.is_empty() { None } else { self.moved_slots.get(&slot()?).copied() }
    }
}

impl Link {
    /// Whether commands can be sent immediately: there is a connection that was not idle for long.
    pub(super) fn is_ready(&self, now: impl FnOnce() -> Instant) -> bool {
        self.is_open() && !self.is_idle(now())
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether nothing was sent for long. A NAT or a load balancer on the way may have dropped the connection.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let used = Duration::from_nanos(self.used.load(Ordering::Relaxed));
        now.since(Instant::from_start(used)) > MAX_IDLE
    }

    pub(super) fn set_used(&self, now: Instant) {
        self.used.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }

    pub(super) fn was_open(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    pub(super) fn has_long_values(&self) -> bool {
        self.long_values.load(Ordering::Relaxed)
    }

    pub(super) fn has_read_long_values(&self) {
        self.long_values.store(true, Ordering::Relaxed);
    }

    /// Returns why the server currently takes no first vote, if so. `slot` is that of the vote's keys.
    ///
    /// The text tells when it will, for callers that wait for a quorum.
    pub(super) fn guard_fault(
        &self,
        slot: impl FnOnce() -> Option<u16>,
        now: impl FnOnce() -> Instant,
    ) -> Option<Fault> {
        let (votes_from, not_before) = {
            let state = self.state();
            (state.votes_from, state.moved_slot(slot).map(|slot| slot.votes_from))
        };
        let left = match votes_from {
            VotesFrom::Now => not_before?.since(now()),
            VotesFrom::Never => {
                let option = spelled("restart_guard");
                return Some(Fault::new(format!(
                    "its uptime cannot be read (INFO), so it grants no new lease while {option} is on"
                )));
            }
            VotesFrom::At(from) => not_before.map_or(from, |at| at.max(from)).since(now()),
        };
        (!left.is_zero()).then(|| {
            let (left, option) = (left.as_secs_f64(), spelled("restart_guard"));
            Fault::new(format!(
                "it restarted within {option} or replaced another server, and grants new leases in \
                {left:.1} s"
            ))
        })
    }

    /// Returns why an extension that was sent at `asked` does not confirm a lease, if so.
    ///
    /// Clients learn at different times that a server was replaced. Until all have, the node acts as two: the previous
    /// server may grant the lock to a client that still uses it, while a holder extends its lease at the new one. Two
    /// such replies can complete two quorums.
    pub(super) fn replaced_fault(
        &self,
        slot: impl FnOnce() -> Option<u16>,
        asked: Instant,
    ) -> Option<Fault> {
        let from = {
            let state = self.state();
            state.moved_slot(slot).map(|slot| slot.extends_from).max(state.extends_from)
        };
        let left = from?.since(asked);
        (!left.is_zero()).then(|| {
            let left = left.as_secs_f64();
            Fault::new(format!(
                "it replaced another server, which some clients may still use, and extends leases in {left:.1} s"
            ))
        })
    }

    /// Whether a vote that was sent at `asked` still counts. See [`crate::node::Node::still_counts`].
    pub(super) fn still_counts(&self, slot: impl FnOnce() -> Option<u16>, asked: Instant) -> bool {
        self.is_open() && self.replaced_fault(slot, asked).is_none()
    }

    /// Guards slots that moved from another server.
    pub(super) fn guard_slots(
        &self,
        slots: impl Iterator<Item = u16>,
        now: Instant,
        moved: MovedSlot,
    ) {
        let known = &mut self.state().moved_slots;
        known.retain(|_, slot| slot.votes_from > now);
        known.extend(slots.map(|slot| (slot, moved)));
    }

    /// Sets when the server may extend leases, because it replaced another one.
    pub(super) fn set_extends_from(&self, from: Option<Instant>) {
        let known = &mut self.state().extends_from;
        *known = (*known).max(from);
    }

    /// Records a new connection.
    pub(super) fn opened(&self, pushes: bool, votes_from: VotesFrom) {
        self.opened.store(true, Ordering::Relaxed);
        self.open.store(true, Ordering::Relaxed);
        self.pushes.store(pushes, Ordering::Relaxed);
        self.state().votes_from = votes_from;
    }

    /// Records the end of the connection. Its deletes without a reply are now pending.
    ///
    /// The time of the first votes is kept, because the next connection sets it before it sends any command.
    pub(super) fn closed(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.pushes.store(false, Ordering::Relaxed);
        self.deletes.store(0, Ordering::Relaxed);
    }

    /// Whether a key may remain if the caller does not wait, because a delete is under way or pending.
    pub(super) fn may_leave_keys(&self, now: Instant) -> bool {
        self.has_deletes() || self.has_pending_deletes(now)
    }

    /// Whether a delete is pending whose keys may still exist.
    pub(super) fn has_pending_deletes(&self, now: Instant) -> bool {
        self.state().pending_until.is_some_and(|until| until > now)
    }

    /// Whether deletes have no reply yet.
    pub(super) fn has_deletes(&self) -> bool {
        self.deletes.load(Ordering::Relaxed) > 0
    }

    pub(super) fn delete_asked(&self) {
        self.deletes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn delete_answered(&self) {
        self.deletes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records a pending delete, which expires at this time.
    pub(super) fn add_pending_delete(&self, until: Instant) {
        let pending = &mut self.state().pending_until;
        *pending = (*pending).max(Some(until));
    }

    pub(super) fn pending_deletes_sent(&self) {
        self.state().pending_until = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
