//! Shares the state of a connection with its node.
//!
//! The node's task and the threads that use the connection write it, and any thread may read it. Therefore it consists
//! of atomics and of mutexes that are locked only briefly.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::{Instant, nanos};
use crate::node::Outage;
use crate::node::redis::io::step::Step;
use crate::node::redis::state::restart_guard::RestartGuard;
use crate::runtime::lock;

/// The idle time after which a connection is probed before the next command.
const PROBE_AFTER_IDLE: Duration = Duration::from_secs(10);

/// The state of the connection for its node.
#[derive(Default)]
pub(crate) struct Link {
    open: AtomicBool,
    /// When a command was last sent over it, in nanoseconds of the client's clock.
    used: AtomicU64,
    /// Whether the server pushes changes.
    pushes: AtomicBool,
    /// Whether the changes arrive on a second connection, which is probed while callers wait.
    push_checked: AtomicBool,
    /// Counts, by its references, the deletes that were passed to the node and have no reply and are neither redirected
    /// nor pending.
    deletes: Arc<()>,
    /// Whether some key holds a value that is longer than any token. Values are then only read up to a limit.
    long_values: AtomicBool,
    /// Whether there was a connection.
    opened: AtomicBool,
    /// The longest timeout in nanoseconds within which replicas and disks confirmed no vote. 0 after a vote that they
    /// confirmed.
    unconfirmed: AtomicU64,
    /// From when its server votes.
    pub(crate) guard: RestartGuard,
    /// Until when deletes must be sent again. The keys expire by then.
    pending_until: Mutex<Option<Instant>>,
    /// The outage log of the server.
    pub(crate) outage: Outage,
    /// The step of the last attempt to connect.
    step: Mutex<Step>,
}

impl Link {
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether nothing was sent for long. A NAT or a load balancer on the way may have dropped the connection.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        now.since(Instant::from_nanos(self.used.load(Ordering::Relaxed))) > PROBE_AFTER_IDLE
    }

    pub(crate) fn set_used(&self, now: Instant) {
        self.used.store(now.nanos(), Ordering::Relaxed);
    }

    pub(crate) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_push_checked(&self) -> bool {
        self.pushes() && self.push_checked.load(Ordering::Relaxed)
    }

    /// Records whether the changes arrive on a second connection.
    pub(crate) fn set_push_checked(&self, checked: bool) {
        self.push_checked.store(checked, Ordering::Relaxed);
    }

    pub(crate) fn was_open(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn has_long_values(&self) -> bool {
        self.long_values.load(Ordering::Relaxed)
    }

    pub(crate) fn has_read_long_values(&self) {
        self.long_values.store(true, Ordering::Relaxed);
    }

    /// Whether replicas and disks did not even confirm a vote with as much time. Since then, they confirmed none.
    pub(crate) fn is_unconfirmed(&self, timeout: Duration) -> bool {
        self.unconfirmed.load(Ordering::Relaxed) >= nanos(timeout).max(1)
    }

    /// Records whether replicas and disks confirmed a vote with this timeout.
    pub(crate) fn vote_was_confirmed(&self, confirmed: bool, timeout: Duration) {
        if confirmed {
            self.unconfirmed.store(0, Ordering::Relaxed);
        } else {
            self.unconfirmed.fetch_max(nanos(timeout), Ordering::Relaxed);
        }
    }

    /// Records that an attempt to connect begins. Returns where it reports its steps.
    pub(crate) fn begin_attempt(&self) -> Step {
        let step = Step::default();
        *lock(&self.step) = step.clone();
        step
    }

    /// Returns what the last attempt to connect waits for. Empty if there was none.
    pub(crate) fn step(&self) -> String {
        lock(&self.step).current()
    }

    /// Records a new connection.
    pub(crate) fn opened(&self, pushes: bool) {
        self.opened.store(true, Ordering::Relaxed);
        self.open.store(true, Ordering::Relaxed);
        self.pushes.store(pushes, Ordering::Relaxed);
    }

    /// Records the end of the connection.
    pub(crate) fn closed(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.pushes.store(false, Ordering::Relaxed);
        self.push_checked.store(false, Ordering::Relaxed);
    }

    /// Whether a key may remain if the caller does not wait, because a delete is under way or pending.
    pub(crate) fn may_leave_keys(&self, now: Instant) -> bool {
        // Twice, because pending deletes are sent, and counted again, at any time.
        self.has_deletes() || self.has_pending_deletes(now) || self.has_deletes()
    }

    /// Whether a delete is pending whose keys may still exist.
    pub(crate) fn has_pending_deletes(&self, now: Instant) -> bool {
        lock(&self.pending_until).is_some_and(|until| until > now)
    }

    /// Whether deletes have no reply yet, even if they still wait for a connection.
    pub(crate) fn has_deletes(&self) -> bool {
        let has = Arc::strong_count(&self.deletes) > 1;
        // What was counted before the last one ended is visible to the caller.
        fence(Ordering::Acquire);
        has
    }

    /// Returns what a delete keeps while it counts.
    pub(crate) fn deletes(&self) -> &Arc<()> {
        &self.deletes
    }

    /// Records a pending delete, which expires at this time.
    pub(crate) fn add_pending_delete(&self, until: Instant) {
        let mut pending = lock(&self.pending_until);
        *pending = (*pending).max(Some(until));
    }

    /// Records that pending deletes were sent, and until when the others are pending.
    pub(crate) fn pending_deletes_sent(&self, left: Option<Instant>) {
        *lock(&self.pending_until) = left;
    }
}
