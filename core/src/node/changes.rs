//! What changed, on its way to the monitor of leases: each key once, however often a node says it.
//!
//! A node may push a thousand times while the monitor does something else. What is kept for it is bounded by
//! what there is to look at, not by how often it was said: keys are a set, and above a size they are "all".

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This key: deleted, written, or its ttl changed.
    Key(String),
    /// Keys in these hash slots may have changed: a cluster's servers changed.
    Slots(Vec<u16>),
    /// Any key may have changed: a flush, or a connection that ended or began.
    All,
}

/// More bytes of names than this mean that any key may have changed.
/// Names are up to 64 KiB long, so bytes are counted rather than keys.
const ROOM: usize = 256 << 10;

/// What changed since somebody looked.
#[derive(Default)]
pub(crate) struct Changes {
    /// Held for no longer than a change of a set.
    pending: Mutex<Pending>,
    /// Keeps one ring for a listener that is not there yet: nothing said before it listens is missed.
    bell: Notify,
}

#[derive(Default)]
struct Pending {
    /// Each once, however often it was told of.
    keys: HashSet<String>,
    /// Keys in these hash slots may have changed.
    slots: HashSet<u16>,
    /// How much memory the keys take: a node that floods must not take more than a bound.
    bytes: usize,
    /// Any key may have changed.
    all: bool,
    /// Nobody tells of anything any more.
    closed: bool,
}

/// What the monitor is to look at.
pub(crate) struct Told {
    /// The keys that changed.
    pub(crate) keys: HashSet<String>,
    /// Keys in these hash slots may have changed.
    pub(crate) slots: HashSet<u16>,
    /// Any key may have changed.
    pub(crate) all: bool,
    /// Nobody is left who could tell anything.
    pub(crate) closed: bool,
}

impl Changes {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node said so.
    pub(super) fn add(&self, change: Change) {
        let mut pending = self.pending();
        match change {
            Change::All => pending.all = true,
            // It is among all.
            Change::Key(_) | Change::Slots(_) if pending.all => {}
            Change::Slots(slots) => pending.slots.extend(slots),
            Change::Key(key) => {
                pending.bytes += key.len();
                pending.keys.insert(key);
                pending.all = pending.bytes > ROOM;
            }
        }
        if pending.all {
            // A new set: an emptied one would keep the memory of the flood.
            (pending.keys, pending.slots, pending.bytes) = (HashSet::new(), HashSet::new(), 0);
        }
        drop(pending);
        self.bell.notify_one();
    }

    /// Ends when there is something to take.
    pub(crate) async fn told(&self) {
        self.bell.notified().await;
    }

    /// Takes what there is; that all keys, or those of slots, may have changed only where it may be looked at `now`.
    ///
    /// Keys are always taken. To look at many leases costs a round for each, so how often that is done is the
    /// monitor's choice.
    pub(crate) fn take(&self, many_now: bool) -> Told {
        let mut pending = self.pending();
        pending.bytes = 0;
        let keys = std::mem::take(&mut pending.keys);
        let (mut slots, mut all) = (HashSet::new(), false);
        if many_now {
            slots = std::mem::take(&mut pending.slots);
            all = std::mem::take(&mut pending.all);
        }
        Told { keys, slots, all, closed: pending.closed }
    }

    /// Whether that all keys, or those of slots, may have changed is still to be looked at.
    pub(crate) fn many_wait(&self) -> bool {
        let pending = self.pending();
        pending.all || !pending.slots.is_empty()
    }
}

/// The end at which changes come in; its end is told, too.
/// The monitor ends by it.
pub(super) struct Teller(pub(super) Arc<Changes>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.pending().closed = true;
        self.0.bell.notify_one();
    }
}
